# `make demo` and `make test` need nothing but Python 3.11 or newer and the package index.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test slow lint docs bench dist format clean

demo: .venv/installed  ## compare models on Swissmetro; leaves demo/swissmetro.html
	@mkdir -p demo
	$(BIN)/setwise compare swissmetro --splits 5 --report demo/swissmetro.html

test: .venv/installed-dev  ## all tests but the slow ones
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow"

slow: .venv/installed-dev  ## the tests that take minutes
	$(BIN)/pytest -m slow

lint: .venv/installed-dev  ## style, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/installed-docs  ## the site, in site/
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: .venv/installed-dev  ## speed against rivals, each in an environment of its own; see benchmarks/RESULTS.md
	$(BIN)/python benchmarks/all.py --write

dist: .venv/installed-dev  ## the wheel and the source archive, in dist/
	rm -rf dist
	$(BIN)/hatchling build -d dist -t wheel -t sdist

clean:
	rm -rf .venv site demo dist benchmarks/.envs

.venv/made:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'setwise needs Python 3.11 or newer; try: make PYTHON=python3.12 ...')"
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/made pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) -e ".[dev]"
	@touch $@

.venv/installed-docs: .venv/installed-dev
	$(PIP) -e ".[dev,docs]"
	@touch $@

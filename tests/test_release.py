"""What ``make dist`` builds: complete, installable anywhere, and small for scoring."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import setwise as sw

ROOT = Path(__file__).parent.parent
PIP = ("-m", "pip", "-q", "--disable-pip-version-check")
LARGEST_FOR_SCORING = 150e6  # bytes


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = ["hatchling", "build", "-d", str(folder), "-t", "wheel", "-t", "sdist"]
    subprocess.run([sys.executable, "-m", *command], check=True, cwd=ROOT, capture_output=True)
    return folder


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


def test_the_wheel_holds_the_whole_package(built):
    with zipfile.ZipFile(only(built, "*.whl")) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = (one for one in (source / "setwise").rglob("*") if one.is_file())
    written = {str(one.relative_to(source)) for one in files if one.suffix != ".pyc"}
    assert packed == written
    assert "setwise/py.typed" in packed


def test_the_source_archive_can_be_tested(built):
    with tarfile.open(only(built, "*.tar.gz")) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    needed = {"Makefile", "conftest.py", "constraints.txt", "pyproject.toml", "tests/test_laws.py"}
    assert needed <= packed
    assert not [name for name in packed if name.startswith((".venv", "demo/", "site/"))]


def test_every_place_gives_the_same_version():
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    changelog = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert citation is not None
    assert changelog is not None
    assert citation[1] == changelog[1] == sw.__version__


def environment(folder):
    """A new environment, its Python, and variables that do not point elsewhere."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    variables = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return str(folder / "bin" / "python"), variables


def size(folder):
    """Bytes of the installed packages, without pip."""
    (packages,) = folder.glob("lib/python*/site-packages")
    files = (one for one in packages.rglob("*") if one.is_file() and not one.is_symlink())
    return sum(one.stat().st_size for one in files if "pip" not in one.relative_to(packages).parts)


SCORE = """
import sys, setwise.scoring
scorer = setwise.scoring.load_scorer(sys.argv[1])
print(scorer.predict_proba({"set_id": [1, 1], "x1": [0.5, 1.0], "x2": [1.0, 0.5]}).tolist())
"""


@pytest.mark.slow
def test_an_environment_with_numpy_alone_scores_and_is_small(built, tmp_path):
    table = {"set_id": [1, 1], "x1": [0.5, 1.0], "x2": [1.0, 0.5]}
    model = sw.MNL().fit(sw.datasets.generate("decoy", sets=200, seed=0).choices)
    model.save(tmp_path / "decoy.setwise")
    python, variables = environment(tmp_path / "venv")
    for what in (("numpy",), ("--no-deps", str(only(built, "*.whl")))):
        subprocess.run([python, *PIP, "install", *what], check=True, env=variables)
    command = [python, "-c", SCORE, str(tmp_path / "decoy.setwise")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    assert floats(done.stdout) == pytest.approx(model.predict_proba(table), abs=1e-6)
    assert size(tmp_path / "venv") < LARGEST_FOR_SCORING


def floats(printed):
    return [float(one) for one in printed.strip().strip("[]").split(",")]


@pytest.mark.slow
def test_the_wheel_runs_the_quick_start_in_an_empty_environment(built, tmp_path):
    quick_start = re.search(r"```python\n(.+?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    assert quick_start is not None
    python, variables = environment(tmp_path / "venv")
    pinned = ("-c", str(ROOT / "constraints.txt"))
    wheel = str(only(built, "*.whl"))
    subprocess.run([python, *PIP, "install", *pinned, wheel], check=True, env=variables)
    (tmp_path / "start.py").write_text(quick_start[1], "utf-8")
    done = subprocess.run(
        [python, "start.py"], capture_output=True, text=True, cwd=tmp_path, env=variables
    )
    assert done.returncode == 0, done.stderr
    assert "nll" in done.stdout

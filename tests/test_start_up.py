"""What a process imports: slow libraries only where they are needed. Times are not tested."""

import json
import subprocess
import sys

import pytest

import setwise as sw

SLOW = (
    "jax", "equinox", "optax", "sklearn", "pandas", "optuna", "matplotlib", "lightgbm", "formulaic",
    "scipy.stats", "scipy.optimize", "jinja2", "polars",
)  # fmt: skip
NOTED = f"""
import json, sys
def note(what):
    print(json.dumps([what, [name for name in {SLOW} if name in sys.modules]]), file=sys.stderr)
"""


def imported(script: str, folder) -> dict[str, list[str]]:
    """The slow libraries that a new process has, at each place where the script notes them."""
    done = subprocess.run(
        [sys.executable, "-c", NOTED + script], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stderr.splitlines() if line.startswith("["))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model file and tables."""
    found = tmp_path_factory.mktemp("start_up")
    drawn = sw.datasets.generate("mnl", sets=60, items=3, features=2)
    drawn.table.write_parquet(found / "trips.parquet")
    drawn.table.write_csv(found / "trips.csv")
    sw.MNL().fit(drawn.choices).save(found / "trips.setwise")
    return found


def test_commands_import_what_they_need(folder):
    """In one process: what is imported stays, so that those which need least come first."""
    script = """
from setwise.cli import app
for command in (
    "models", "models --json", "show trips.setwise",
    "predict trips.setwise trips.parquet --out predicted.parquet",
    "predict trips.setwise trips.csv", "check trips.csv --set set_id --chosen chosen",
):
    app(command.split(), standalone_mode=False)
    note(command)
"""
    found = imported(script, folder)
    assert len(found) == 6
    assert [command for command in found if found[command]] == [
        command for command in found if command.startswith(("predict", "check"))
    ]
    assert all(libraries in ([], ["polars"]) for libraries in found.values())


def test_logits_are_fitted_printed_and_predicted_without_jax_and_scikit_learn(folder):
    script = """
import setwise as sw
choices = sw.read("trips.parquet", set="set_id", chosen="chosen")
for model in (sw.MNL(), sw.LinearContextLogit()):
    print(model.fit(choices).summary(), model)
    model.evaluate(choices), model.predict_proba("trips.csv"), model.rank(choices)
    note(type(model).__name__)
"""
    found = imported(script, folder)
    assert found == {"MNL": ["polars"], "LinearContextLogit": ["polars"]}


def test_a_network_is_named_without_scikit_learn_and_optuna(folder):
    script = """
import setwise as sw
sw.SDA(), sw.zoo(), sw.load("trips.setwise")
note("models")
"""
    (libraries,) = imported(script, folder).values()
    assert set(libraries) <= {"jax", "equinox", "optax", "polars"}

"""``setwise tune`` from end to end: what it prints and writes, and that it goes on where it was."""

import json

import polars as pl
import pytest

import setwise as sw
from setwise.cli import tune
from test_cli import ROLES, run

SMALL = ("--model", "sdw", "--epochs", "2", "--trials", "3", "--vary", "dimension=2,3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    sw.datasets.generate("mnl", sets=120, items=3, features=2).table.write_parquet(
        folder / "trips.parquet"
    )
    return folder


@pytest.fixture(scope="module")
def tuned(folder):
    """One run with everything written."""
    return run(
        "tune", folder / "trips.parquet", *ROLES, *SMALL, "--splits", "2",
        "--storage", folder / "s.sqlite", "--out", folder / "best.setwise",
        "--plot", folder / "history.svg",
    )  # fmt: skip


def again(folder, *options):
    return run(
        "tune", folder / "trips.parquet", *ROLES, *SMALL, "--splits", "2",
        "--storage", folder / "s.sqlite", *options,
    )  # fmt: skip


def test_a_table_for_people(tuned):
    assert "sdw: 3 trials per split" in tuned.stdout
    for words in ("best setting", "validation nll", "test top-1 %", "learning_rate", "dimension"):
        assert words in tuned.stdout
    assert "[6/6] trials" in tuned.stderr


def test_an_ensemble_tunes_all_its_models_and_says_so(folder, tmp_path):
    options = ("--epochs", "1", "--trials", "1", "--vary", "dimension=2", "--vary", "hidden=2")
    storage = ("--storage", tmp_path / "s.sqlite")
    table = (folder / "trips.parquet", *ROLES)
    one = run(
        "tune", *table, "--model", "sda", *options, *storage, "--vary", "ensemble=1", "--json"
    )
    assert "every trial trains" not in one.stderr
    (split,) = json.loads(one.stdout)
    assert split["best"]["ensemble"] == 1
    whole = run("tune", *table, "--model", "sda", *options, *storage, "--json")
    assert "every trial trains the 6 models of sda; --vary ensemble=1 tunes one" in whole.stderr
    (split,) = json.loads(whole.stdout)
    assert len(split["trials"][0]["result"]["best_epoch"]) == 6


def test_json_for_programs_from_the_finished_study(tuned, folder):
    resumed = again(folder, "--json")
    splits = json.loads(resumed.stdout)
    assert [len(one["trials"]) for one in splits] == [3, 3]
    assert all(one["best"]["dimension"] in (2, 3) for one in splits)
    assert all({"top1", "nll"} <= set(one["test"]) for one in splits)
    assert "trials" not in resumed.stderr  # nothing was left to train


def test_the_best_model_and_the_picture_are_written(tuned, folder):
    model = sw.load(folder / "best.setwise")
    assert len(model.predict_proba(pl.read_parquet(folder / "trips.parquet"))) == 360
    assert (folder / "history.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--model", "mnl"), "MNL has no default search space"),
        (("--model", "nonsense"), "there is no model 'nonsense'"),
        (("--trials", "0"), "trials=0 must be a whole number of at least 1"),
        (("--splits", "0"), "splits=0 must be a whole number of at least 1"),
        (("--vary", "hidden"), "is not a range"),
        (("--vary", "depth=1..3"), "SDA has no argument 'depth' to tune"),
        (("--model", "random"), "RandomChoice has no arguments"),
        (("--model", "boosted_logit"), "BoostedLogit has no argument 'epochs'"),
        (("--space", "trees"), "SDA has no argument 'leaves' to tune"),
        (("--storage", "mysql://there/it"), "not in mysql"),
        (("--out", "no such folder/best.setwise"), "there is no folder"),
    ],
)
def test_bad_input_is_one_sentence(folder, tmp_path, options, complaint):
    with pytest.raises(sw.InputError, match=complaint):
        run(
            "tune", folder / "trips.parquet", *ROLES, "--trials", "1", "--epochs", "1",
            "--storage", tmp_path / "s.sqlite", *options,
        )  # fmt: skip


def test_the_command_and_the_library_keep_studies_in_the_same_file():
    assert tune.STORAGE == sw.tuning.STORAGE


def test_boosted_trees_are_tuned_and_written(folder, tmp_path):
    """A model that does not train in epochs, from end to end; the same command resumes."""
    command = (
        "tune", folder / "trips.parquet", *ROLES, "--model", "boosted_logit", "--trials", "3",
        "--vary", "rounds=5,10", "--vary", "min_rows=5..20", "--storage", tmp_path / "s.sqlite",
        "--json",
    )  # fmt: skip
    first = run(*command, "--out", tmp_path / "trees.setwise", "--plot", tmp_path / "trees.svg")
    (split,) = json.loads(first.stdout)
    assert {"leaves", "l2", "columns", "random_splits", "within_set"} <= set(split["best"])
    assert split["nll"] == min(trial["value"] for trial in split["trials"])
    assert "[3/3] trials" in first.stderr
    model = sw.load(tmp_path / "trees.setwise")
    assert model.leaves == split["best"]["leaves"]
    assert len(model.predict_proba(pl.read_parquet(folder / "trips.parquet"))) == 360
    assert (tmp_path / "trees.svg").read_text().startswith("<svg")
    again = run(*command)
    assert json.loads(again.stdout)[0]["trials"] == split["trials"]
    assert "trials" not in again.stderr


def test_a_logit_varies_what_is_asked_for(folder, tmp_path):
    result = run(
        "tune", folder / "trips.parquet", *ROLES, "--model", "mnl", "--trials", "2",
        "--vary", "l2=0.1..1000 log", "--storage", tmp_path / "s.sqlite",
    )  # fmt: skip
    assert "mnl: 2 trials per split" in result.stdout


def test_compare_can_tune_first(folder, tmp_path):
    result = run(
        "compare", folder / "trips.parquet", *ROLES, "--models", "mnl,lam", "--splits", "1",
        "--trials", "1", "--storage", tmp_path / "s.sqlite", "--json",
    )  # fmt: skip
    models = {row["model"] for row in json.loads(result.stdout)["leaderboard"]}
    assert models == {"mnl", "lam"}
    assert (tmp_path / "s.sqlite").exists()

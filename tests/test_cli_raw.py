"""From raw files to a model on the command line, and what it says when a file is spoiled."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import setwise as sw
from beside import DATA, needs
from setwise.cli import app


def datasets(*words: object) -> subprocess.CompletedProcess:
    """In a process of its own: Typer's nested commands and the checks of types do not agree."""
    command = [sys.executable, "-m", "setwise", "datasets", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.stdout


@pytest.fixture(scope="module")
def hotels(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hotels")
    sw.paper.imitate("expedia", folder, sets=150, seed=0)
    return folder


@pytest.fixture(scope="module")
def built(hotels) -> Path:
    path = hotels / "hotels.setwise-data"
    sw.paper.build("expedia", hotels, path)
    return path


def test_raw_files_become_a_data_file_with_one_command(tmp_path):
    done = datasets("imitate", "outbrain", "--sets", 80, "--out", tmp_path / "raw", "--zipped")
    assert done.returncode == 0, done.stderr
    assert "wrote generated files" in done.stderr
    assert (tmp_path / "raw" / "GENERATED.txt").exists()
    out = tmp_path / "articles.setwise-data"
    done = datasets("build", "outbrain", "--raw", tmp_path / "raw", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "reading clicks_train.csv" in done.stderr
    assert "writing ad_age_days" in done.stderr
    assert len(sw.open_choices(out).roles.items) == 10


def test_every_command_takes_a_data_file(built, tmp_path):
    model = tmp_path / "m.setwise"
    said = json.loads(run("fit", built, "--model", "mnl", "--out", model, "--json"))
    assert said["sets"] == len(sw.open_choices(built))
    measured = json.loads(run("evaluate", model, built, "--json"))
    assert measured["nll"] == pytest.approx(said["in_sample"]["nll"])
    run("predict", model, built, "--out", tmp_path / "p.parquet")
    compared = json.loads(
        run("compare", built, "--models", "mnl,random", "--splits", 1, "--max-sets", 90, "--json")
    )
    assert len(compared["cells"]) == 2
    assert "sets" in run("check", built)


@pytest.mark.parametrize("view", ["paper", "full"])
def test_a_raw_table_is_compared_as_it_is(hotels, view):
    words = ("compare", hotels, "--like", "expedia", "--view", view, "--models", "mnl,random")
    compared = json.loads(run(*words, "--splits", 1, "--json"))
    assert ("context" in compared["data"]) == (view == "full")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "{built}", "--set", "s", "--out", "m"), "--set gives a column a role.*data file"),
        (("fit", "{hotels}", "--like", "expedia", "--items", "x", "--out", "m"), "--items.* roles"),
        (("predict", "{model}", "{built}"), "is a data file; name a file .* with --out"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(built, hotels, tmp_path, words, message):
    model = tmp_path / "m.setwise"
    sw.RandomChoice().fit(sw.open_choices(built)).save(model)
    filled = [word.format(built=built, hotels=hotels, model=model) for word in words]
    done = CliRunner().invoke(app, filled)
    assert isinstance(done.exception, sw.InputError)
    with pytest.raises(sw.InputError, match=message):
        raise done.exception


def test_a_spoiled_file_leaves_nothing_behind(hotels, tmp_path):
    raw, out = tmp_path / "raw", tmp_path / "out" / "hotels.setwise-data"
    raw.mkdir()
    out.parent.mkdir()
    lines = (hotels / "train.csv").read_text().splitlines()
    fields = lines[1000].split(",")
    fields[lines[0].split(",").index("prop_starrating")] = "four"
    lines[1000] = ",".join(fields)
    (raw / "train.csv").write_text("\n".join(lines) + "\n")
    done = datasets("build", "expedia", "--raw", raw, "--out", out)
    assert done.returncode == 2
    assert "train.csv, line 1001, column 'prop_starrating': 'four' is not" in done.stderr
    assert list(out.parent.iterdir()) == []


def test_an_option_of_another_data_set_is_refused(tmp_path):
    done = datasets(
        "build", "amadeus", "--raw", tmp_path, "--out", tmp_path / "x", "--outcome", "book"
    )
    assert done.returncode == 2
    assert "--outcome is for expedia" in done.stderr


@needs("expedia_full.parquet")
def test_the_real_sample_of_expedia_is_compared_with_one_command():
    path = DATA / "expedia_full.parquet"
    said = run(
        "compare", path, "--like", "expedia", "--models", "mnl,random", "--splits", 1, "--json"
    )
    nll = {cell["model"]: cell["metrics"]["nll"] for cell in json.loads(said)["cells"]}
    assert json.loads(said)["data"].startswith("Choices(3,783 sets of 5 to 37 items, 97,651 rows")
    assert nll["mnl"] < nll["random"] - 0.2

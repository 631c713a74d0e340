"""``setwise explain``: the numbers of setwise.consequences, on the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise.cli import app
from setwise.consequences import Reprice, counterfactual, elasticities

MODES = ["is_train", "is_sm", "is_car"]
BY = ("--by", ",".join(MODES))


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.load("swissmetro").sample(500)


@pytest.fixture(scope="module")
def logit(choices):
    return sw.MNL().fit(choices)


@pytest.fixture(scope="module")
def files(choices, logit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    logit.save(folder / "modes.setwise")
    sw.save_choices(choices, folder / "some.setwise-data")
    return folder / "modes.setwise", folder / "some.setwise-data"


def run(*words):
    return CliRunner().invoke(app, ["explain", *map(str, words)])


def test_elasticities_and_diversion_are_shown(files, choices, logit):
    done = run(*files, "--column", "cost", *BY)
    assert done.exit_code == 0, done.output
    assert f"own    {elasticities(logit, choices, 'cost').own:>8.4f}" in done.stdout
    assert "diversion ratios by 'cost'" in done.stdout


def test_a_dearer_car_loses_what_the_function_says(files, choices, logit):
    done = run(*files, "--column", "cost", *BY, "--times", 1.2, "--where", "is_car=1", "--json")
    assert done.exit_code == 0, done.output
    read = json.loads(done.stdout)
    known = counterfactual(logit, choices, Reprice("cost", 1.2, {"is_car": 1}), by=MODES)
    after = [read["shares"][name]["after"] for name in MODES]
    np.testing.assert_allclose(after, known.shares.after)
    assert read["shares"]["is_car"]["after"] < read["shares"]["is_car"]["before"]
    assert [one[:12] for one in read["changes"]] == ["'cost' × 1.2"]


def test_items_can_be_taken_away(files):
    done = run(*files, "--column", "cost", *BY, "--remove", "is_train=1", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["shares"]["is_train"]["after"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--where", "is_car=1"], "--where says which rows --times changes"),
        (["--remove", "is_car"], "'is_car' is not of the form column=value"),
        (["--times", "1.1", "--where", "colour=red"], "colour"),
    ],
)
def test_what_does_not_fit_is_one_sentence(files, words, said):
    done = run(*files, "--column", "cost", *words)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)

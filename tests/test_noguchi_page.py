"""The page on context effects in people is what its results give, and what it claims follows."""

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from beside import sample
from setwise.reports.effects import misses, trial_effects
from setwise.violations import context_effects

DOCS = Path(__file__).parent.parent / "docs"
ADVICE = "run: python docs/noguchi_page.py"
BOUND = 0.05


@pytest.fixture(scope="module")
def page() -> types.ModuleType:
    sys.path.insert(0, str(DOCS))  # one program imports the other
    try:
        spec = importlib.util.spec_from_file_location("noguchi_page", DOCS / "noguchi_page.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


@pytest.fixture(scope="module")
def stored(page) -> dict:
    return json.loads(page.RESULT.read_text("utf-8"))


@pytest.fixture(scope="module")
def trials(page) -> pl.DataFrame:
    return page.labelled(pl.read_parquet(sample("context_noguchi2014.parquet")))


def test_the_page_has_the_measured_numbers(page, stored):
    text = page.PAGE.read_text("utf-8")
    assert page.filled(text, page.blocks(stored)) == text, ADVICE


def test_the_figure_is_what_the_results_give(page, stored):
    assert page.FIGURE.read_text("utf-8") == page.figure(stored), ADVICE


@pytest.mark.parametrize("people", ["all", "engaged"])
def test_what_the_page_claims_follows_from_the_results(page, stored, people):
    observed = page.effects(stored[people]["observed"])
    said = {name: page.effects(one) for name, one in stored[people]["models"].items()}
    off = {name: np.abs(misses(observed, found)) for name, found in said.items()}
    assert off["SDA"].max() < BOUND
    assert off["MNL"].max() > 1 / 3
    for model in ("SDA", "SDA, inner"):
        assert all(one.share_of_a[0] > one.share_of_a[1] for one in said[model])
        assert all(one.rst > 0.5 for one in said[model])
    np.testing.assert_allclose([one.rst for one in said["MNL"]], 0.5, atol=0.003)
    by_condition = dict(zip([one.condition for one in observed], off["SDA, inner"], strict=True))
    assert BOUND < by_condition.pop("similarity").max() < 0.075
    assert np.max(list(by_condition.values())) < BOUND


def test_similarity_is_sure_in_those_who_paid_attention_only(page, stored):
    lows = {
        people: {one.condition: one.rst_interval[0] for one in page.effects(found["observed"])}
        for people, found in stored.items()
        if people in ("all", "engaged")
    }
    assert lows["all"]["similarity"] < 0.5 < lows["engaged"]["similarity"]
    assert (stored["all"]["people"], stored["engaged"]["people"]) == (93, 49)


def test_new_people_are_predicted_as_well_as_chance_allows(stored):
    off = {
        name: np.abs([one[name] for one in stored["left_out"]]) for name in stored["left_out"][0]
    }
    assert off["SDA"].shape == (5, 3, 2)
    assert off["SDA"].mean() < off["other people"].mean() + 0.005
    assert off["MNL"].mean() > 3 * off["SDA"].mean()
    assert off["SDA"].max() > 2 * BOUND


def test_the_stored_shares_are_those_of_the_trials(page, stored, trials):
    for people, table in (("all", trials), ("engaged", trials.filter(pl.col("engaged") == "yes"))):
        found = context_effects(table, group="participant")
        assert list(found) == page.effects(stored[people]["observed"])


@pytest.mark.slow
def test_sda_reproduces_the_three_effects_and_mnl_cannot(page, trials):
    models = page.models()
    sda, mnl = (trial_effects(page.fitted(models[one], trials), trials) for one in ("SDA", "MNL"))
    assert sda.largest_miss < BOUND
    assert all(one.share_of_a[0] > one.share_of_a[1] for one in sda.predicted)
    assert all(one.rst > 0.5 for one in sda.predicted)
    assert mnl.largest_miss > 0.3

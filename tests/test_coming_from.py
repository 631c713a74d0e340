"""Published estimates, from the published wide tables, with the code that the docs show."""

import os
from typing import Any

import numpy as np
import polars as pl
import pytest

import setwise as sw
from beside import DATA, needs
from test_docs import PAGES, blocks

pytestmark = needs("fishing_wide.csv", "swissmetro_raw.tsv", "electricity_wide.csv")


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """The model of each block of the page that is for setwise, by the name in its title."""
    found, namespace = {}, {"sw": sw, "pl": pl}
    started_in = os.getcwd()
    os.chdir(DATA)
    try:
        for kind, body in blocks(PAGES["coming-from"]):
            if kind.startswith('py title="setwise: '):
                exec(body, namespace)
                found[kind.split(": ")[1].rstrip('"')] = namespace["model"]
    finally:
        os.chdir(started_in)
    return found


def coefficients(model: Any) -> dict[str, float]:
    return dict(zip(model.feature_names_, model.coef_.tolist(), strict=True))


TIME, COST = "I(TT / 100)", "I(CO * (1 - GA * only(TRAIN, SM)) / 100)"


def test_the_page_has_each_example(models):
    assert list(models) == ["fishing", "swissmetro", "nested", "cross-nested", "electricity"]


def test_fishing_is_mlogits(models):
    assert models["fishing"].log_likelihood_ == pytest.approx(-1215.138, abs=5e-4)
    found = coefficients(models["fishing"])
    assert found["price"] == pytest.approx(-0.0251, abs=5e-5)
    assert found["catch"] == pytest.approx(0.3578, abs=5e-5)


def test_swissmetro_is_biogemes(models):
    assert models["swissmetro"].log_likelihood_ == pytest.approx(-5331.252, abs=5e-4)
    published = {TIME: -1.278, COST: -1.084, "constant:TRAIN": -0.701, "constant:CAR": -0.155}
    assert coefficients(models["swissmetro"]) == pytest.approx(published, abs=5e-4)


def test_the_nested_logit_is_biogemes(models):
    nested = models["nested"]
    assert nested.log_likelihood_ == pytest.approx(-5236.900, abs=5e-4)
    assert 1 / nested.lambda_["existing"] == pytest.approx(2.054, abs=5e-4)


def test_the_cross_nested_logit_is_biogemes(models):
    crossed = models["cross-nested"]
    assert crossed.log_likelihood_ == pytest.approx(-5214.049, abs=5e-4)
    published = {TIME: -0.777, COST: -0.819, "constant:TRAIN": 0.098, "constant:CAR": -0.240}
    assert coefficients(crossed) == pytest.approx(published, abs=5e-4)
    np.testing.assert_allclose(1 / crossed.lambdas_, [2.515, 4.114], atol=5e-4)
    assert crossed.alpha_["TRAIN"]["existing"] == pytest.approx(0.495, abs=5e-4)


def test_electricity_is_xlogits(models):
    assert models["electricity"].log_likelihood_ == pytest.approx(-4958.649, abs=5e-4)
    published = [-0.6252, -0.1083, 1.4422, 0.9955, -5.4628, -5.8400]
    np.testing.assert_allclose(models["electricity"].coef_, published, atol=5e-5)

"""Draws that grow until estimates settle."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import setwise as sw
from setwise.estimators import mixed_logit
from setwise.training import growing
from setwise.training.growing import grown


class Bump:
    """A log-likelihood whose maximum is 1 / draws away from 2, with standard error 1."""

    total = 1.0

    def __init__(self, draws):
        self.top = np.array([2 + 1 / draws, 0.0])

    def __call__(self, parameters):
        away = parameters - self.top
        return float(-(away @ away) / 2), -away, -np.eye(2)


def test_draws_are_doubled_until_no_estimate_moves():
    asked = []

    def likelihood(draws):
        asked.append(draws)
        return Bump(draws)

    found = grown(likelihood, np.zeros(2), np.ones(2, bool), np.ones(2), 1, 64)
    # The moves are 1/2, 1/4 and 1/8; the last one is below a fifth.
    assert asked == [1, 2, 4, 8]
    assert found.draws == 8
    assert found.moved == pytest.approx(1 / 8)
    assert found.likelihood.top[0] == 2 + 1 / 8
    np.testing.assert_allclose(found.found.parameters, [2 + 1 / 8, 0], atol=1e-9)
    once = grown(likelihood, np.zeros(2), np.ones(2, bool), np.ones(2), 3, 3)
    assert (once.draws, once.moved) == (3, 0.0)
    short = grown(likelihood, np.zeros(2), np.ones(2, bool), np.ones(2), 1, 3)
    assert (short.draws, short.moved) == (2, pytest.approx(1 / 2))


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.generate("panel", sets=600, features=2, choices=6, seed=2).choices


def test_the_fit_is_that_of_the_last_number_of_draws(choices, tmp_path):
    model = sw.MixedLogit(draws="auto").fit(choices)
    assert model.draws_ in {400 * 2**k for k in range(7)}
    assert 0 < model.moved_ <= growing.SETTLED
    plain = sw.MixedLogit(draws=model.draws_).fit(choices)
    np.testing.assert_allclose(model.parameters_, plain.parameters_, atol=1e-5)
    np.testing.assert_allclose(model.covariance_, plain.covariance_, atol=1e-6)
    fewer = sw.MixedLogit(draws=model.draws_ // 2).fit(choices)
    errors = np.sqrt(np.diag(model.covariance_of("classical")))
    moves = np.abs(model.parameters_ - fewer.parameters_) / errors
    assert moves.max() == pytest.approx(model.moved_, abs=1e-3)
    said = f"{model.draws_:,} draws per person (halton); with the last doubling no estimate moved"
    assert said in str(model.summary())
    model.save(tmp_path / "m")
    again = sw.load(tmp_path / "m")
    assert (again.draws, again.draws_, again.moved_) == ("auto", model.draws_, model.moved_)
    assert str(again.summary()) == str(model.summary())
    assert again.individual_coefficients(choices).equals(model.individual_coefficients())


def test_what_does_not_settle_is_told(choices, monkeypatch):
    monkeypatch.setattr(mixed_logit, "MOST", 800)
    monkeypatch.setattr(growing, "SETTLED", 1e-4)
    monkeypatch.setattr(mixed_logit, "SETTLED", 1e-4)
    with pytest.warns(ConvergenceWarning, match='with 800 draws per person, the most that "auto"'):
        model = sw.MixedLogit(draws="auto").fit(choices)
    assert model.draws_ == 800
    monkeypatch.setattr(mixed_logit, "MOST_NUMBERS", 2 * 100 * 500)  # 2 coefficients, 100 people
    with pytest.warns(ConvergenceWarning, match="with 400 draws per person"):
        sw.MixedLogit(draws="auto").fit(choices)


def test_files_without_the_number_have_the_argument(choices, tmp_path):
    model = sw.MixedLogit(draws=30).fit(choices)
    model.draws_ = 0  # as in older files
    model.save(tmp_path / "m")
    again = sw.load(tmp_path / "m")
    assert again.draws_ == 30
    model.draws_ = 2.5
    model.save(tmp_path / "m")
    with pytest.raises(sw.InputError, match=r"draws_=2\.5 must be a whole number"):
        sw.load(tmp_path / "m")

"""One estimator on several splits as one population."""

import numpy as np
import pytest
from sklearn.base import clone

import setwise as sw
from setwise.estimators import fit_together

QUICK = sw.Training(epochs=3, batch_size=32, learning_rate=3e-2)
CHOICES = sw.datasets.generate("mnl", sets=160, items=(2, 5), features=3).choices
SPLITS = [sw.split(CHOICES, seed=seed) for seed in (0, 1)]
PAIRS = [split[:2] for split in SPLITS]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(sw.SDE(2, hidden=4, training=QUICK), id="single"),
        pytest.param(
            sw.SDA(2, hidden=4, training=QUICK, ensemble=3), id="ensemble", marks=pytest.mark.slow
        ),
    ],
)
def test_each_is_what_it_would_be_alone(model):
    together = fit_together(model, PAIRS, seeds=(5, 9))
    assert not hasattr(model, "model_")
    for one, seed, split in zip(together, (5, 9), SPLITS, strict=True):
        alone = clone(model).set_params(seed=seed).fit(*split[:2])
        assert one.best_epoch_ == alone.best_epoch_
        np.testing.assert_allclose(
            one.predict_proba(split[2]), alone.predict_proba(split[2]), atol=2e-5
        )


def test_seeds_and_pairs_belong_together():
    with pytest.raises(sw.InputError, match="2 pairs of sets, 1 seeds and 2 estimators"):
        fit_together(sw.SDE(), PAIRS, seeds=(0,))


def test_estimators_may_train_in_ways_of_their_own():
    each = [
        sw.SDE(2, hidden=4, training=QUICK).set_training(weight_decay=one) for one in (0.0, 1.0)
    ]
    together = fit_together(each, PAIRS, seeds=(5, 9))
    for model, one, seed, split in zip(each, together, (5, 9), SPLITS, strict=True):
        alone = clone(model).set_params(seed=seed).fit(*split[:2])
        np.testing.assert_allclose(
            one.predict_proba(split[2]), alone.predict_proba(split[2]), atol=2e-5
        )


def test_estimators_of_different_kinds_are_refused():
    kinds = [sw.SDE(2, hidden=4, training=QUICK), sw.SDW(2, hidden=4, training=QUICK)]
    with pytest.raises(sw.InputError, match="of different kinds or sizes; fit each kind by itself"):
        fit_together(kinds, PAIRS, seeds=(5, 9))


def test_a_fit_that_diverges_is_named():
    wild = sw.SDE(2, hidden=4, training=sw.Training(epochs=3, learning_rate=1e30))
    with pytest.raises(sw.InputError, match="with seed 4 on pair 0 diverged"):
        fit_together(wild, PAIRS[:1], seeds=(4,))

"""Violation capacity by correctness region: by hand, as a partition, and exactly 0 under IIA."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import setwise as sw
from setwise.violations import bootstrap_interval, capacity_by_region, violation_capacity
from setwise.violations.capacity import correctness_regions, predicted_right, region_name


@pytest.fixture(scope="module")
def drawn():
    return sw.datasets.generate("decoy", sets=400, seed=0).choices


@pytest.fixture(scope="module")
def models(drawn):
    return {
        "relative": sw.WithinSetMNL().fit(drawn),
        "MNL": sw.MNL().fit(drawn),
        "first": sw.SingleFeature("x1").fit(drawn),
    }


@pytest.fixture(scope="module")
def found(models, drawn):
    return capacity_by_region(models, drawn)


@given(arrays(bool, st.tuples(st.integers(1, 4), st.integers(1, 15))))
def test_regions_are_a_partition(right):
    named = {f"m{number}": one for number, one in enumerate(right)}
    regions = dict(correctness_regions(named))
    assert len(regions) == 2 ** len(named)
    np.testing.assert_array_equal(np.sum(list(regions.values()), axis=0), 1)
    for names, here in regions.items():
        for name, one in named.items():
            assert (one[here] == (name in names)).all()


def test_each_region_is_computed_from_its_own_sets(found, models, drawn):
    assert [one.right for one in found.regions] == [
        ("relative",), ("MNL",), ("first",),
        ("relative", "MNL"), ("relative", "first"), ("MNL", "first"),
        ("relative", "MNL", "first"), (),
    ]  # fmt: skip
    assert sum(one.sets for one in found.regions) == len(drawn)
    assert sum(one.share for one in found.regions) == pytest.approx(1)
    chosen = drawn.offsets[:-1] + drawn.chosen
    p = models["relative"].predict_proba(drawn)
    right = p[chosen] == np.maximum.reduceat(p, drawn.offsets[:-1])
    other = np.stack(
        [
            models[name].predict_proba(drawn)[chosen]
            < np.maximum.reduceat(models[name].predict_proba(drawn), drawn.offsets[:-1])
            for name in ("MNL", "first")
        ]
    ).all(0)
    here, region = right & other, found.of("relative")
    kappa = violation_capacity(models["relative"], drawn)
    assert region.sets == here.sum() > 10
    assert region.kappa["relative"] == pytest.approx(kappa.of_sets[here].mean())
    assert region.intervals["relative"] == bootstrap_interval(kappa.where(here))


def test_capacity_of_all_sets_is_the_mean_of_the_regions(found, models, drawn):
    pooled = sum(one.share * one.kappa["relative"] for one in found.regions if one.sets)
    assert pooled == pytest.approx(violation_capacity(models["relative"], drawn).kappa)


def test_iia_models_are_exactly_0_everywhere(found):
    for one in found.regions:
        if one.sets:
            for name in ("MNL", "first"):
                assert (one.kappa[name], one.intervals[name]) == (0.0, (0.0, 0.0))


def test_a_shared_first_place_is_not_right(drawn):
    nobody = capacity_by_region({"chance": sw.RandomChoice().fit(drawn)}, drawn)
    assert nobody.of("chance").sets == 0
    assert np.isnan(nobody.of("chance").kappa["chance"])
    assert np.isnan(nobody.of("chance").intervals["chance"]).all()
    assert nobody.of().share == 1
    assert nobody.rows()[0] == ("all", "0", "0.0 %", "–")


def test_weights_count_and_sets_of_one_do_not():
    table = {
        "set": [1, 2, 2, 3, 3, 4, 4],
        "x": [1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 1.0],
        "chosen": [1, 0, 1, 0, 1, 0, 1],
        "weight": [9.0, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0],
    }
    choices = sw.read(table, set="set", chosen="chosen", weight="weight", items=["x"])
    model = sw.SingleFeature("x").fit(choices.take(np.array([1, 2])))
    found = capacity_by_region({"x": model}, choices)
    assert [(one.sets, one.share) for one in found.regions] == [(2, 3 / 8), (1, 5 / 8)]


def test_people_are_resampled(models, drawn):
    who = np.repeat(np.arange(20), 20)
    wide = capacity_by_region(models, replace(drawn, roles=replace(drawn.roles, group="who"),
                                              group=who), group="who")  # fmt: skip
    kappa = violation_capacity(models["relative"], drawn)
    here = dict(
        correctness_regions({name: predicted_right(one, drawn) for name, one in models.items()})
    )[()]
    assert wide.of().intervals["relative"] == bootstrap_interval(kappa.where(here), group=who[here])
    plain = capacity_by_region(models, drawn)
    assert wide.of().kappa == plain.of().kappa
    assert wide.of().intervals != plain.of().intervals


def test_the_seed_is_that_of_the_bootstrap(found, models, drawn):
    assert str(capacity_by_region(models, drawn)) == str(found)
    assert capacity_by_region(models, drawn, seed=1).of().intervals != found.of().intervals


def test_the_table_reads_well(found):
    lines = str(found).splitlines()
    assert lines[0].split("  ")[0] == "right"
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "relative only", "MNL only", "first only", "relative, MNL", "relative, first",
        "MNL, first", "all", "none",
    ]  # fmt: skip
    assert found.heads == ("right", "sets", "share", *(f"kappa of {one}" for one in found.models))
    assert {len(row) for row in found.rows()} == {6}


def test_what_cannot_be_is_refused(found, models, drawn):
    with pytest.raises(sw.InputError, match="1 to 8"):
        capacity_by_region({}, drawn)
    with pytest.raises(sw.InputError, match="1 to 8"):
        capacity_by_region({str(one): models["MNL"] for one in range(9)}, drawn)
    with pytest.raises(sw.InputError, match="chosen="):
        capacity_by_region(models, replace(drawn, chosen=None))
    with pytest.raises(sw.InputError, match="SDA is not a model here"):
        found.of("relative", "SDA")


@pytest.mark.parametrize(
    ("right", "words"), [((), "none"), (("a", "b"), "all"), (("a",), "a only")]
)
def test_regions_have_names(right, words):
    assert region_name(right, 2) == words

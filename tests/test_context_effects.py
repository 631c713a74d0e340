"""Context effects: shares by hand, intervals, and what a fitted model makes of a decoy."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from beside import sample
from setwise.violations.effects import context_effects, decoy_effect, decoy_grid


def trials(counts, condition="attraction") -> pl.DataFrame:
    """Trials from counts of (A, B, third) chosen, where A and where B is favoured."""
    rows = []
    for favours, chosen in zip("AB", counts, strict=True):
        for option, number in zip(("A", "B", "decoy"), chosen, strict=True):
            for _ in range(number):
                trial = len(rows) // 3
                rows += [
                    {
                        "set_id": f"{condition}{trial}", "option": one, "chosen": one == option,
                        "favours": favours, "condition": condition, "person": trial % 7,
                    }
                    for one in ("A", "B", "decoy")
                ]  # fmt: skip
    return pl.DataFrame(rows).with_columns(pl.col("chosen").cast(pl.Int64))


def test_shares_by_hand():
    (found,) = context_effects(trials([(60, 20, 20), (30, 45, 25)]))
    assert found.condition == "attraction"
    assert found.trials == (100, 100)
    assert found.share_of_a == pytest.approx((0.6, 0.3))
    assert (found.rst_a, found.rst_b) == pytest.approx((60 / 80, 45 / 75))
    assert found.rst == pytest.approx((0.75 + 0.6) / 2)
    assert "P(A) 0.600" in str(found)


def test_equal_weights_do_not_depend_on_how_often_each_is_the_target():
    few = context_effects(trials([(6, 2, 2), (30, 45, 25)]))[0]
    many = context_effects(trials([(60, 20, 20), (30, 45, 25)]))[0]
    assert few.rst == pytest.approx(many.rst)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000))
def test_the_order_of_rows_plays_no_part(seed):
    table = pl.concat(
        [trials([(12, 6, 3), (4, 9, 2)]), trials([(5, 5, 5), (3, 6, 6)], "compromise")]
    )
    shuffled = table.sample(fraction=1.0, shuffle=True, seed=seed)
    for one, two in zip(context_effects(table), context_effects(shuffled), strict=True):
        assert one.rst == pytest.approx(two.rst)
        assert one.share_of_a == pytest.approx(two.share_of_a)


def test_without_an_effect_the_target_has_half():
    (found,) = context_effects(trials([(60, 20, 20), (60, 20, 20)]))
    assert found.rst == pytest.approx(0.5)
    assert found.rst_interval[0] < 0.5 < found.rst_interval[1]


def test_the_interval_has_the_binomials_width():
    (found,) = context_effects(trials([(200, 200, 0), (150, 250, 0)]))
    low, high = found.share_intervals[1]
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.375 * 0.625 / 400), rel=0.12)
    # Two independent halves of 400: the mean's standard error is half the root of their sum.
    error = np.sqrt(0.25 / 400 + 0.375 * 0.625 / 400) / 2
    low, high = found.rst_interval
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.12)


def test_people_are_resampled_whole():
    """Where each person always does the same, the trials are no more than the people."""
    table = trials([(140, 140, 0), (140, 140, 0)])
    of_one_mind = table.with_columns(
        chosen=((pl.col("option") == "A") == (pl.col("person") < 4)).cast(pl.Int64)
        * (pl.col("option") != "decoy")
    )
    by_trial = context_effects(of_one_mind)[0].share_intervals[0]
    by_person = context_effects(of_one_mind, group="person")[0].share_intervals[0]
    assert by_person[1] - by_person[0] > 3 * (by_trial[1] - by_trial[0])


def test_a_models_probabilities_count_as_shares():
    table = trials([(5, 3, 2), (3, 4, 3)])
    p = pl.when(pl.col("option") == "A").then(0.5).otherwise(0.25)
    (found,) = context_effects(table.with_columns(p=p), chosen="p")
    assert found.share_of_a == pytest.approx((0.5, 0.5))
    assert found.rst == pytest.approx(0.5)


def test_same_seed_same_intervals():
    table = trials([(5, 3, 2), (3, 4, 3)])
    assert context_effects(table, seed=2) == context_effects(table, seed=2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"favours": pl.lit("C")}, "says A or B"),
        ({"favours": pl.lit("A")}, "one target only"),
        ({"option": pl.lit("A")}, "one A, one B"),
        ({"chosen": pl.lit(1)}, "adds up to 3"),
        ({"chosen": pl.lit("yes")}, "0 and 1"),
        ({"condition": pl.col("option")}, "differs within set"),
    ],
)
def test_errors_say_what_to_do(change, words):
    with pytest.raises(sw.InputError, match=words):
        context_effects(trials([(5, 3, 2), (3, 4, 3)]).with_columns(**change))


# Decoys


@pytest.fixture(scope="module")
def decoys():
    return sw.datasets.generate("decoy", sets=1500, seed=0).choices


A, B = {"x1": 6.0, "x2": 4.0}, {"x1": 4.0, "x2": 6.0}


def test_a_decoy_effect_is_the_models_probabilities(decoys):
    model = sw.LinearContextLogit().fit(decoys)
    grid = decoy_grid(x1=[5.0, 5.8], x2=[3.7, 9.0])
    found = decoy_effect(model, A, B, grid)
    assert found.features == ("x1", "x2")
    assert found.places.tolist() == [[5.0, 3.7], [5.0, 9.0], [5.8, 3.7], [5.8, 9.0]]
    for place, (x1, x2) in enumerate(found.places):
        table = {"set_id": [0, 0, 0], "x1": [6.0, 4.0, x1], "x2": [4.0, 6.0, x2]}
        p = model.predict_proba(table)
        together = [found.p_a[place], found.p_b[place], found.p_decoy[place]]
        np.testing.assert_allclose(together, p, atol=1e-6)
    pair = model.predict_proba({"set_id": [0, 0], "x1": [6.0, 4.0], "x2": [4.0, 6.0]})
    assert found.without == pytest.approx(tuple(pair), abs=1e-6)
    np.testing.assert_allclose(
        found.shift, found.p_a / (found.p_a + found.p_b) - pair[0], atol=1e-6
    )


def test_no_decoy_moves_an_mnl(decoys):
    found = decoy_effect(
        sw.MNL().fit(decoys), A, B, decoy_grid(x1=np.linspace(2, 8, 5), x2=np.linspace(2, 8, 5))
    )
    np.testing.assert_allclose(found.shift, 0, atol=1e-6)
    assert not found.breaks_regularity.any()


def test_a_model_where_set_means_matter_can_break_regularity():
    """g = -x times the set's mean: the third option turns the sign of what is good."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(3000), 3)
    x = rng.normal(size=(3000, 3)) + rng.normal(size=(3000, 1)) * 2
    from setwise.datasets.generated import choose, softmax

    score = (-x * x.mean(1, keepdims=True)).reshape(-1)
    table = {
        "set_id": owner,
        "x": x.reshape(-1),
        "chosen": choose(rng, softmax(score, owner), owner),
    }
    model = sw.LinearContextLogit().fit(sw.read(table, set="set_id", chosen="chosen"))
    found = decoy_effect(model, {"x": 1.0}, {"x": -1.0}, decoy_grid(x=[-9.0, 9.0]))
    assert found.shift[0] > 0.3
    assert found.shift[1] < -0.3


def test_what_a_decoy_leaves_out_it_shares_with_a(decoys):
    model = sw.MNL().fit(decoys)
    part, whole = ([{"x1": 5.0}], [{"x1": 5.0, "x2": 4.0}])
    assert decoy_effect(model, A, B, part).p_a == decoy_effect(model, A, B, whole).p_a


def test_context_and_categories_are_passed_on():
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(200), 3)
    table = {
        "set_id": owner, "x": rng.normal(size=600), "income": rng.normal(size=200)[owner],
        "brand": rng.choice(["red", "blue"], 600), "chosen": np.tile([1, 0, 0], 200),
    }  # fmt: skip
    choices = sw.read(
        table, set="set_id", chosen="chosen", items=["x", "brand"], context=["income"]
    )
    model = sw.LinearContextLogit().fit(choices)
    a, b = {"x": 1.0, "brand": "red"}, {"x": 0.0, "brand": "blue"}
    found = decoy_effect(model, a, b, decoy_grid(x=[0.5]), context={"income": 1.0})
    assert found.features == ("x",)
    with pytest.raises(sw.InputError, match="'income'"):
        decoy_effect(model, a, b, decoy_grid(x=[0.5]))
    with pytest.raises(sw.InputError, match="'brand'"):
        decoy_effect(model, {"x": 1.0}, b, decoy_grid(x=[0.5]), context={"income": 1.0})
    with pytest.raises(sw.InputError, match=r"decoys=\[\] must be a list or tuple of at least 1"):
        decoy_effect(model, a, b, [], context={"income": 1.0})


# Noguchi and Stewart's trials


def noguchi() -> pl.DataFrame:
    trials = pl.read_parquet(sample("context_noguchi2014.parquet"))
    table = trials.filter(pl.col("choice_type") != "screening")
    third = pl.col("alt").filter(~pl.col("alt").is_in(["A", "B"])).first().over("set_id")
    # Da, Ca and Sb favour A: a near copy of B takes B's share.
    favours = pl.when(third.is_in(["Da", "Ca", "Sb"])).then(pl.lit("A")).otherwise(pl.lit("B"))
    return table.with_columns(
        favours=favours, condition=pl.col("choice_type"), option=pl.col("alt")
    )


def test_noguchis_trials_show_attraction_and_compromise():
    found = {one.condition: one for one in context_effects(noguchi(), group="participant")}
    shares = {
        "attraction": (0.6854, 0.3156),
        "compromise": (0.5681, 0.3152),
        "similarity": (0.3875, 0.3044),
    }
    for name, wanted in shares.items():
        assert found[name].share_of_a == pytest.approx(wanted, abs=1e-4)
        assert found[name].rst > 0.5
    assert found["attraction"].rst_interval[0] > 0.6
    assert found["compromise"].rst_interval[0] > 0.6


def deviations(model, table) -> np.ndarray:
    p = model.predict_proba(table)
    with_p = table.with_columns(p=pl.Series(p.astype(np.float64)))
    pairs = zip(context_effects(with_p, chosen="p"), context_effects(table), strict=True)
    return np.array([np.subtract(one.share_of_a, two.share_of_a) for one, two in pairs])


def test_an_mnl_cannot_reproduce_noguchis_effects():
    table = noguchi()
    choices = sw.read(table, set="set_id", chosen="chosen", items=["x1_z", "x2_z"])
    assert np.abs(deviations(sw.MNL().fit(choices), table)).max() > 0.3


@pytest.mark.slow
def test_sda_reproduces_noguchis_effects():
    table = noguchi()
    choices = sw.read(table, set="set_id", chosen="chosen", items=["x1_z", "x2_z"])
    # 75 epochs is what held-out sets stopped at; here all sets are described.
    training = sw.Training(epochs=75, learning_rate=3e-3)
    model = sw.SDA.paper(comparison="difference", training=training, ensemble=8).fit(
        choices, choices
    )
    assert np.abs(deviations(model, table)).max() < 0.05

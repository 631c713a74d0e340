"""Tests of IIA: by hand, against statsmodels and brute force, their size and their power."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from statsmodels.datasets import modechoice

import setwise as sw
from setwise.choices import Encoded, Schema
from setwise.datasets.generated import choose, softmax
from setwise.training import maximise
from setwise.violations.fewer_items import (
    EstimateComparison,
    _left,
    information,
    log_likelihood,
    random_items,
)
from setwise.violations.iia_tests import METHODS, iia_test
from setwise.violations.likelihood_ratio import compared_pairs
from setwise.violations.verdict import detectable_gain

SUBSETS = METHODS[3:]


def mnl(seed=0, sets=300, items=4, features=2):
    return sw.datasets.generate("mnl", sets=sets, items=items, features=features, seed=seed).choices


def modes(seed=0, sets=600, least=2, pull=0.0, x=True, weight=None):
    """Choices among some of four named modes; a pull of b on a where both are offered."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(least, 5, sets)
    owner = np.repeat(np.arange(sets), sizes)
    who = np.concatenate([rng.permutation(4)[:n] for n in sizes])
    feature = rng.normal(size=len(owner)) * x
    met = np.isin(owner, owner[who == 1])
    utility = feature + np.array([0.5, 0, -0.5, -0.2])[who] + pull * (met & (who == 0))
    table = {
        "trip": owner,
        "taken": choose(rng, softmax(utility, owner), owner),
        "cost": feature,
        "mode": np.array(["air", "bus", "car", "rail"])[who],
        "person": owner // 2,
        "weight": np.full(len(owner), 2.0),
    }
    items = ["cost", "mode"] if x else ["mode"]
    return sw.read(
        table, set="trip", chosen="taken", items=items, on_duplicate="keep", weight=weight
    )


def encoded(choices) -> Encoded:
    return Schema.learn(choices)[1].encoded(np.float64)


def arguments(method):
    if method == "cdm":
        return {"alternatives": "mode"}
    return {"alternatives": "mode", "drop": "air"} if method in SUBSETS else {}


# Likelihood ratios


def test_lcl_is_twice_the_difference_of_the_two_estimators():
    choices = mnl()
    found = iia_test(choices)
    larger, smaller = sw.LinearContextLogit().fit(choices), sw.MNL().fit(choices)
    statistic = 2 * (larger.log_likelihood_ - smaller.log_likelihood_)
    assert found.statistic == pytest.approx(statistic, rel=1e-9)
    assert found.degrees == 4
    assert found.p == pytest.approx(chi2.sf(statistic, 4), rel=1e-9)


def test_context_that_changes_tastes_is_no_violation():
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(2000), 4)
    x, income = rng.normal(size=8000), rng.normal(size=2000)[owner]
    taken = choose(rng, softmax(x * (1 + 1.5 * income), owner), owner)
    table = {"trip": owner, "taken": taken, "x": x, "income": income}
    choices = sw.read(table, set="trip", chosen="taken", items=["x"], context=["income"])
    found = iia_test(choices)
    assert found.degrees == 1
    assert not found.rejected
    assert sw.LinearContextLogit().fit(choices).log_likelihood_ == pytest.approx(
        found.details["log_likelihood_with_context"], rel=1e-9
    )


def test_degrees_count_what_is_identified():
    table = dict(sw.datasets.generate("mnl", sets=200, items=3, features=2, seed=0).columns)
    table["twice"] = 2 * table["x0"]
    choices = sw.read(table, set="set_id", chosen="chosen", items=["x0", "x1", "twice"])
    assert iia_test(choices).degrees == 4


def test_lcl_cannot_tell_where_all_sets_are_the_same():
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(100), 3)
    x = np.tile([0.0, 1.0, 2.5], 100)
    table = {"trip": owner, "taken": choose(rng, softmax(x, owner), owner), "x": x}
    found = iia_test(sw.read(table, set="trip", chosen="taken"))
    assert found.degrees == 0
    assert np.isnan(found.p)
    assert not found.rejected
    assert "cannot tell" in found.sentence
    assert "no power" in found.warnings[0]


def test_cdm_has_k_times_k_less_two_degrees():
    assert iia_test(modes(x=False), "cdm", alternatives="mode").degrees == 4 * 2


def test_cdm_of_three_alternatives_is_the_saturated_model():
    """With all pairs and the triple, its shares are the observed ones in every kind of set."""
    rng = np.random.default_rng(1)
    kinds = [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    sets = [kinds[k] for k in rng.integers(4, size=400)]
    owner = np.repeat(np.arange(400), [len(one) for one in sets])
    who = np.concatenate(sets)
    taken = choose(rng, softmax(np.array([0.4, 0.0, -0.3])[who], owner), owner)
    names = np.array(["a", "b", "c"])[who]
    table = {"trip": owner, "taken": taken, "mode": names}
    choices = sw.read(table, set="trip", chosen="taken", on_duplicate="keep")
    found = iia_test(choices, "cdm", alternatives="mode")
    saturated = 0.0
    for kind in kinds:
        mine = [i for i, one in enumerate(sets) if one == kind]
        rows = np.isin(owner, mine)
        counts = np.bincount(who[rows], taken[rows], 3)
        counts = counts[counts > 0]
        saturated += counts @ np.log(counts / len(mine))
    assert found.degrees == 3
    assert found.details["log_likelihood_with_context"] == pytest.approx(saturated, rel=1e-8)


def test_cdm_sees_a_pull_and_says_nothing_where_the_company_is_always_the_same():
    assert iia_test(modes(pull=1.0), "cdm", alternatives="mode").p < 1e-3
    same = iia_test(modes(least=4), "cdm", alternatives="mode")
    assert same.degrees == 0
    assert "same ones" in same.warnings[0]


def test_alternatives_may_be_a_vector_in_the_tables_order():
    choices = modes()
    names = np.empty(int(choices.rows.max()) + 1, object)
    names[choices.rows] = choices.columns["mode"].text()
    part = choices.take(np.arange(50, 400))
    by_column = iia_test(part, "cdm", alternatives="mode")
    assert iia_test(part, "cdm", alternatives=names) == by_column


def test_comparisons_by_brute_force():
    data = encoded(mnl(sets=30, items=(2, 5), features=3))
    columns = compared_pairs(data)
    for begin, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        for i in range(begin, end):
            delta = data.items[i] - data.items[[j for j in range(begin, end) if j != i]]
            s = np.sign(delta)
            pairs = [s[:, j] * s[:, k] for j, k in ((0, 1), (0, 2), (1, 2))]
            wanted = np.concatenate([np.abs(delta), s, np.stack(pairs, 1)], 1).mean(0)
            np.testing.assert_allclose(columns[i], wanted, atol=1e-12)


def test_the_detectable_gain_is_detected_four_times_of_five():
    from scipy.stats import ncx2

    gain = detectable_gain(500, 9)
    assert ncx2.sf(chi2.isf(0.05, 9), 9, 2 * 500 * gain) == pytest.approx(0.8, abs=1e-6)


# Fewer items


def test_log_likelihood_and_information_are_the_estimators():
    data = encoded(mnl())
    fit = maximise(data)
    assert log_likelihood(data, fit.coefficients) == pytest.approx(fit.log_likelihood, rel=1e-12)
    inverse = np.linalg.inv(information(data, fit.coefficients))
    np.testing.assert_allclose(inverse, fit.covariance, rtol=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_rows_taken_away_leave_the_others_and_the_choice(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, 12)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    items = np.arange(float(offsets[-1]))[:, None]
    data = Encoded(items, np.empty((12, 0)), offsets, rng.integers(0, sizes), None)
    gone = rng.random(len(items)) < 0.3
    wanted = []
    for i, chosen in enumerate(data.chosen):
        rows = np.arange(offsets[i], offsets[i + 1])
        left = rows[~gone[rows]]
        if len(left) > 1 and offsets[i] + chosen in left:
            wanted.append((left.tolist(), int(offsets[i] + chosen)))
    if not wanted:
        return
    found = _left(data, gone)
    parts = np.split(found.items[:, 0].astype(int), found.offsets[1:-1])
    got = [(p.tolist(), int(p[c])) for p, c in zip(parts, found.chosen, strict=True)]
    assert got == wanted


@pytest.mark.parametrize("outside", [False, True])
def test_random_items_are_half_of_each_set_and_never_the_chosen(outside):
    data = encoded(mnl(items=(2, 7), sets=200))
    gone = random_items(data, outside, seed=3)
    number = np.add.reduceat(gone.astype(int), data.offsets[:-1])
    most = np.where(data.sizes > 2, data.sizes // 2, 0)
    assert not gone[data.offsets[:-1] + data.chosen].any()
    assert (number <= most).all()
    if outside:
        assert not gone[data.offsets[1:] - 1].any()
    else:
        assert (number == most).all()


@pytest.mark.parametrize("at", ["each", "all_items"])
def test_hausman_is_the_textbook_quadratic_form(at):
    choices = modes(sets=2000)
    found = iia_test(choices, "hausman_mcfadden", alternatives="mode", drop="rail", variance_at=at)
    # By hand, with the constants of air and bus against car in both.
    data = encoded(choices)
    names = np.asarray(choices.columns["mode"].text())
    own = np.stack([data.items[:, 0], *(1.0 * (names == one) for one in ("air", "bus"))], 1)
    full = maximise(replace(data, items=np.column_stack([own, 1.0 * (names == "rail")])))
    left = _left(replace(data, items=own), names == "rail")
    fewer = maximise(left)
    b = full.coefficients[:3]
    where = b if at == "all_items" else fewer.coefficients
    V = np.linalg.inv(information(left, where)) - full.covariance[:3, :3]
    shift = fewer.coefficients - b
    assert found.statistic == pytest.approx(shift @ np.linalg.solve(V, shift), rel=1e-5)
    assert found.degrees == 3


def travel_mode():
    """The modes of 210 travellers between Sydney and Melbourne, with constants against car."""
    table = modechoice.load_pandas().data
    mode = np.array(["air", "train", "bus", "car"])[table["mode"].to_numpy().astype(int) - 1]
    columns = {
        "person": table["individual"].to_numpy(),
        "taken": table["choice"].to_numpy(),
        "mode": mode,
        **{f"is_{one}": 1.0 * (mode == one) for one in ("air", "train", "bus")},
        "gc": table["gc"].to_numpy(),
        "ttme": table["ttme"].to_numpy(),
        "income_air": (mode == "air") * table["hinc"].to_numpy(),
    }
    items = [name for name in columns if name not in ("person", "taken", "mode")]
    return sw.read(columns, set="person", chosen="taken", items=items), mode


def test_hausman_of_greenes_travel_mode_example():
    """Greene, Econometric Analysis: without air, 33.3367 with 4 degrees of freedom."""
    choices, mode = travel_mode()
    model = sw.MNL().fit(choices)
    published = [5.2074, 3.8690, 3.1632, -0.0155, -0.0961, 0.0133]
    np.testing.assert_allclose(model.coef_, published, atol=5e-5)
    assert model.log_likelihood_ == pytest.approx(-199.1284, abs=5e-5)
    found = iia_test(choices, "hausman_mcfadden", alternatives=mode, drop="air")
    assert found.statistic == pytest.approx(33.3367, abs=5e-5)
    assert found.degrees == 4
    assert not any("positive definite" in one for one in found.warnings)
    at_all = iia_test(
        choices, "hausman_mcfadden", alternatives=mode, drop="air", variance_at="all_items"
    )
    assert at_all.statistic == pytest.approx(154.76, abs=5e-3)


def test_the_variance_is_chosen_for_hausman_alone():
    with pytest.raises(sw.InputError, match='variance_at= is for method="hausman_mcfadden"'):
        iia_test(mnl(), "lcl", variance_at="all_items")
    with pytest.raises(sw.InputError, match="variance_at='b'"):
        iia_test(mnl(), "hausman_mcfadden", variance_at="b")


@pytest.mark.parametrize("method", SUBSETS)
def test_a_column_with_a_large_mean_and_small_differences_is_compared_too(method):
    choices = mnl(sets=400)
    x0 = choices.columns["x0"]
    decade = np.repeat(1.6e9 + np.linspace(0, 3e8, len(choices)), choices.sizes)
    times = replace(x0, values=decade + 60 * x0.values)
    far = replace(choices, columns={**choices.columns, "x0": times})
    assert iia_test(far, method).statistic == pytest.approx(
        iia_test(choices, method).statistic, rel=1e-4
    )


def test_hausman_warns_of_sets_too_few_for_its_covariance():
    many, few = (iia_test(mnl(sets=sets), "hausman_mcfadden") for sets in (1000, 300))
    assert many.warnings == ()
    assert "somewhat too often" in few.warnings[0]


def test_the_reference_alternative_can_be_dropped_too():
    """Constants are compared as contrasts: which one is the reference plays no part."""
    choices = modes(sets=1500)
    order = {"air": "4", "bus": "3", "car": "2", "rail": "1"}  # the other way round
    renamed = np.array([order[one] for one in choices.columns["mode"].text()])
    cost = choices.columns["cost"].values
    table = {"trip": np.repeat(choices.set_ids, choices.sizes), "cost": cost, "mode": renamed}
    taken = np.zeros(len(cost), int)
    taken[choices.offsets[:-1] + choices.chosen] = 1
    other = sw.read(
        table | {"taken": taken}, set="trip", chosen="taken", items=["cost", "category(mode)"],
        on_duplicate="keep",
    )  # fmt: skip
    for method in SUBSETS:
        one = iia_test(choices, method, alternatives="mode", drop="air")
        two = iia_test(other, method, alternatives="mode", drop="4")
        assert one.statistic == pytest.approx(two.statistic, rel=1e-5), method
        assert one.degrees == pytest.approx(two.degrees, rel=1e-5)


def test_constants_alone_in_equal_sets_have_no_power():
    choices = modes(x=False, least=4)
    for method in ("hausman_mcfadden", "mcfadden_tye_train"):
        found = iia_test(choices, method, alternatives="mode", drop="air")
        assert found.degrees == 0
        assert np.isnan(found.p)
        assert any("no power" in one for one in found.warnings)
    found = iia_test(choices, "small_hsiao", alternatives="mode", drop="air")
    assert any("no power" in one for one in found.warnings)


def test_one_set_has_no_halves():
    with pytest.raises(sw.InputError, match="halves"):
        iia_test(mnl(sets=1), "small_hsiao")


def test_features_that_never_differ_within_a_set_tell_nothing():
    owner = np.repeat(np.arange(50), 4)
    table = {"trip": owner, "taken": np.tile([1, 0, 0, 0], 50), "x": owner * 1.0}
    choices = sw.read(table, set="trip", chosen="taken", on_duplicate="keep")
    for method in ("lcl", "comparisons", *SUBSETS):
        found = iia_test(choices, method)
        assert np.isnan(found.p)
        assert found.warnings


def test_a_difference_that_is_not_positive_is_warned_of():
    compared = EstimateComparison.of(encoded(mnl()), random_items(encoded(mnl()), False, 0))
    from setwise.violations.fewer_items import hausman_mcfadden

    worse = replace(compared, ratio=np.array([0.5, 2.0]), shift=np.array([1.0, 0.1]))
    found = hausman_mcfadden(worse)
    assert found.statistic == pytest.approx(-2 + 0.01)
    assert found.p == 1.0
    assert any("not positive definite" in one for one in found.warnings)


def test_tye_train_is_scaled_to_the_mean_and_variance_of_its_distribution():
    found = iia_test(mnl(sets=1000), "mcfadden_tye_train")
    compared = EstimateComparison.of(
        encoded(mnl(sets=1000)), random_items(encoded(mnl(sets=1000)), False, 0)
    )
    weights = 1 - 1 / compared.ratio
    scale = found.details["ratio_statistic"] / found.statistic
    assert scale * found.degrees == pytest.approx(weights.sum())
    assert 2 * scale**2 * found.degrees == pytest.approx(2 * (weights**2).sum())


def test_small_hsiao_mixture_has_the_variance_that_it_needs():
    share = np.sqrt(0.5)
    of_mixture = share**2 + (1 - share) ** 2
    assert of_mixture - 2 * (1 - share) == pytest.approx(0)


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_numbers_and_an_outside_option_is_welcome(method):
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(300), 4)
    taken = choose(rng, softmax(rng.normal(size=1200), owner), owner)
    table = {
        "trip": owner, "taken": taken * (owner % 4 > 0), "cost": rng.normal(size=1200),
        "mode": np.tile(["air", "bus", "car", "rail"], 300),
    }  # fmt: skip
    choices = sw.read(table, set="trip", chosen="taken", items=["cost", "mode"], on_none="outside")
    one, two = (iia_test(choices, method, seed=4, **arguments(method)) for _ in range(2))
    assert str(one) == str(two)
    assert method in str(one)


# Warnings and errors


def test_few_sets_are_warned_of():
    few = iia_test(mnl(sets=40, features=4))
    assert any("fewer than 20" in one for one in few.warnings)
    assert any("low power" in one for one in few.warnings)
    assert iia_test(mnl(sets=1000)).warnings == ()


def test_people_with_several_sets_and_weights_are_warned_of():
    choices = modes(weight="weight")
    with_people = replace(
        choices, group=np.arange(len(choices)) // 2, roles=replace(choices.roles, group="person")
    )
    found = iia_test(with_people, "cdm", alternatives="mode")
    assert any("'person'" in one for one in found.warnings)
    assert any("weights" in one for one in found.warnings)


def test_a_column_that_leaks_the_choice_is_warned_of():
    table = dict(sw.datasets.generate("mnl", sets=200, items=3, features=1, seed=0).columns)
    table["leak"] = 1.0 * table["chosen"]
    choices = sw.read(table, set="set_id", chosen="chosen")
    with pytest.warns(sw.DataWarning, match="'leak' is 1 where an item was chosen"):
        found = iia_test(choices)
    assert any("without bound" in one for one in found.warnings)


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        ("wald", {}, "must be one of"),
        ("cdm", {}, "needs to know"),
        ("cdm", {"alternatives": "colour"}, "is not an item column"),
        ("cdm", {"alternatives": "cost"}, "at most 20"),
        ("cdm", {"alternatives": ["a", "b"]}, "at least"),
        ("cdm", {"alternatives": "mode", "drop": "air"}, "takes nothing away"),
        ("lcl", {"alternatives": "mode"}, "features alone"),
        ("small_hsiao", {"alternatives": "mode"}, "air, bus, car, rail"),
        ("small_hsiao", {"drop": "air"}, "alternatives="),
        ("small_hsiao", {"alternatives": "mode", "drop": "ship"}, "no alternative"),
        ("small_hsiao", {"alternatives": "mode", "drop": ["air", "bus", "car"]}, "no choice is"),
        ("small_hsiao", {"seed": -1}, "at least 0"),
    ],
)
def test_errors_say_what_to_do(method, given, words):
    with pytest.raises(sw.InputError, match=words):
        iia_test(modes(), method, **given)


def test_pairs_leave_nothing_to_take_away():
    with pytest.raises(sw.InputError, match="three items"):
        iia_test(mnl(items=2), "hausman_mcfadden")


# Size and power


def kinds(drawn):
    """The options of decoy data by name: A, B, and six kinds of a third one."""
    columns = drawn.columns
    third = np.char.add(columns["condition"].astype(str), columns["favours"].astype(str))
    return np.where(columns["option"] == "third", third, columns["option"])


def test_decoys_are_seen_by_comparisons_and_by_the_cdm():
    drawn = sw.datasets.generate("decoy", sets=1000, seed=0)
    assert iia_test(drawn.choices, "comparisons").p < 1e-6
    assert iia_test(drawn.choices, "cdm", alternatives=kinds(drawn)).p < 1e-6


DRAWS = 500


@pytest.mark.slow
@pytest.mark.parametrize("method", [method for method in METHODS if method != "cdm"])
def test_a_true_iia_is_rejected_at_the_nominal_rate(method):
    rejected = [iia_test(mnl(seed=1000 + draw, sets=500), method).rejected for draw in range(DRAWS)]
    assert 0.03 <= np.mean(rejected) <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[2:])
def test_a_true_iia_among_named_alternatives_is_rejected_at_the_nominal_rate(method):
    rejected = [
        iia_test(modes(seed=1000 + draw), method, **arguments(method)).rejected
        for draw in range(DRAWS)
    ]
    assert 0.03 <= np.mean(rejected) <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("method", ["comparisons", "cdm"])
def test_decoys_are_found_almost_always(method):
    rejected = []
    for seed in range(100):
        drawn = sw.datasets.generate("decoy", sets=1000, seed=seed)
        names = {"alternatives": kinds(drawn)} if method == "cdm" else {}
        rejected.append(iia_test(drawn.choices, method, **names).rejected)
    assert np.mean(rejected) > 0.97

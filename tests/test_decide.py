"""The set to show: proofs agree with brute force, the search with both, and limits hold."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from decisions import LIMITS, allowed, brute_force, candidates, logits, scorer_of
from setwise import datasets
from setwise.decide import solving
from setwise.estimators import CATALOGUE

KINDS = ("logit", "logit with outside option", "latent class", "nested")


@pytest.fixture(scope="module")
def models():
    return logits()


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "nobody can choose nothing")
        yield


def agree(models, kind, name, contexts, most, seed):
    """The value that the proof finds, relative to brute force."""
    model, limits = models[kind], LIMITS[name]
    table = candidates(contexts, most, seed)
    best = brute_force(scorer_of(model), table, limits)
    if not np.isfinite(best).all():  # no set of some contexts is allowed
        kept = np.isfinite(best)[table["set_id"]]
        table = {column: values[kept] for column, values in table.items()}
        best = best[np.isfinite(best)]
    found = sw.decide.assortment(model, table, "margin", **limits)
    # A latent class's programme may end without a proof; the search then takes over.
    assert found.proved.mean() >= (0.95 if kind == "latent class" else 1.0)
    assert (found.bound >= best * (1 - 2e-5)).all()
    for context, rows in enumerate(np.split(np.arange(len(found.shown)), found.offsets[1:-1])):
        assert allowed(table, rows[found.shown[rows]], limits), context
    np.testing.assert_allclose(found.expected, best, rtol=2e-5)
    return found


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("kind", KINDS)
def test_proofs_agree_with_brute_force(models, kind, name, monkeypatch):
    monkeypatch.setattr(solving, "FEW", 0)  # programmes, also where trying all is faster
    found = agree(models, kind, name, contexts=12, most=6, seed=2)
    assert "search" not in found.method
    assert "exhaustive" not in found.method


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_proofs_agree_with_brute_force_on_a_thousand_instances(models, kind, monkeypatch):
    monkeypatch.setattr(solving, "FEW", 0)
    solved = 0
    for seed, name in enumerate(LIMITS):
        solved += len(agree(models, kind, name, contexts=150, most=12, seed=seed).expected)
    assert solved >= 1000


def test_the_order_of_values_needs_no_programme(models):
    found = sw.decide.assortment(models[KINDS[1]], candidates(20, 8, 0), "margin")
    assert set(found.methods) == {"exact by revenue order"}
    owner = np.repeat(np.arange(20), np.diff(found.offsets))
    for context in range(20):
        mine = owner == context
        hidden = found.values[mine & ~found.shown]
        assert found.values[mine & found.shown].min() > hidden.max(initial=-np.inf)


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_finds_what_is_proved(models, kind):
    table = candidates(20, 9, seed=4)
    limits = {"at_least": 2, "at_most": 5}
    proved = sw.decide.assortment(models[kind], table, "margin", **limits)
    found = sw.decide.assortment(models[kind], table, "margin", method="search", **limits)
    assert set(found.methods) == {"search"}
    np.testing.assert_allclose(found.expected, proved.expected, rtol=1e-6)
    assert (found.bound >= proved.expected - 1e-9).all()


def test_a_large_utility_that_is_not_worth_showing_hides_no_gain(models):
    # The first item takes all choices and earns nothing; gains of the others are tiny beside it.
    table = candidates(1, 6, seed=0)
    table["x1"][0] = 30 * np.sign(models[KINDS[1]].coef_[1])
    table["margin"][0], table["width"][:] = 0.0, 0.4
    limits = {"capacity": {"width": 1.0}}
    found = sw.decide.assortment(models[KINDS[1]], table, "margin", **limits)
    np.testing.assert_allclose(
        found.expected, brute_force(scorer_of(models[KINDS[1]]), table, limits), rtol=2e-5
    )


def test_exclusive_rows_and_flags_are_taken_in_the_order_of_the_table(models):
    table = candidates(6, 6, seed=5)
    shuffled = np.random.default_rng(0).permutation(len(table["set_id"]))
    mixed = {name: values[shuffled] for name, values in table.items()}
    first = np.flatnonzero(mixed["set_id"] == 0)[:2]
    flags = np.zeros(len(shuffled), bool)
    flags[np.flatnonzero(mixed["set_id"] == 1)[1]] = True
    found = sw.decide.assortment(
        models["logit"], mixed, mixed["margin"], must=flags, at_least=2,
        exclusive=[tuple(first.tolist())],
    )  # fmt: skip
    shown = set(found.rows[found.shown].tolist())
    assert not set(first.tolist()) <= shown
    assert np.flatnonzero(flags)[0] in shown
    frame = found.to_frame()
    np.testing.assert_allclose(mixed["margin"][frame["row"].to_numpy()], frame["value"].to_numpy())


def test_a_group_is_worth_its_share(models):
    table = candidates(8, 6, seed=6)
    found = sw.decide.assortment(models[KINDS[1]], table, {"brand": [1, 2]}, at_most=3)
    mine = np.isin(table["brand"], (1, 2))
    assert (found.values == mine).all()
    owner = np.repeat(np.arange(8), np.diff(found.offsets))
    np.testing.assert_allclose(np.bincount(owner, found.probability * mine), found.expected)


def test_an_outside_option_has_the_utility_that_is_said(models):
    # The same as an item with 0 in all columns that is always shown and earns nothing.
    table = candidates(5, 6, seed=7)
    found = sw.decide.assortment(models["logit"], table, "margin", outside=0.0)
    zero = {name: np.zeros(5, values.dtype) for name, values in table.items()}
    zero["set_id"], zero["fixed"] = np.arange(5), np.ones(5, bool)
    both = {n: np.concatenate([table[n], zero[n]]) for n in table}
    both["fixed"] = np.concatenate([np.zeros(len(table["fixed"]), bool), zero["fixed"]])
    other = sw.decide.assortment(models["logit"], both, "margin", must="fixed")
    np.testing.assert_allclose(found.expected, other.expected, rtol=1e-6)


def test_where_everybody_buys_one_item_is_best_and_a_warning_says_so(models):
    with pytest.warns(sw.DataWarning, match="at_least="):
        found = sw.decide.assortment(models["logit"], candidates(3, 6, seed=8), "margin")
    assert found.shown.sum() == 3
    assert found.proved.all()


def test_estimators_say_whether_they_obey_iia():
    # MNL, rankers and trees by their class; those of the zoo by their entry.
    choices = datasets.generate("mnl", sets=60, items=4, features=2).choices
    for name in ("mnl", "svmrank", "adarank", "single_feature", "random", "lambdamart", "lcl"):
        model = CATALOGUE[name].make().fit(choices)
        assert model.satisfies_iia == CATALOGUE[name].about.satisfies_iia, name
    for name in ("ranknet", "deep_sets"):
        model = CATALOGUE[name].make().set_training(epochs=1).fit(choices)
        assert model.satisfies_iia == CATALOGUE[name].about.satisfies_iia, name


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_sets_that_are_found_are_allowed(models, data):
    model = models[data.draw(st.sampled_from(KINDS))]
    table = candidates(data.draw(st.integers(1, 3)), 7, data.draw(st.integers(0, 10_000)))
    limits = {}
    if data.draw(st.booleans()):
        limits["at_most"] = data.draw(st.integers(1, 5))
    if data.draw(st.booleans()):
        limits["at_least"] = data.draw(st.integers(1, 3))
    if data.draw(st.booleans()):
        limits["must"] = "fixed"
    if data.draw(st.booleans()):
        limits["exclusive"] = "brand"
    if data.draw(st.booleans()):
        limits["capacity"] = {"width": data.draw(st.floats(0.2, 3))}
    method = data.draw(st.sampled_from(["auto", "search", "exhaustive"]))
    every = [np.flatnonzero(table["set_id"] == one) for one in range(table["set_id"].max() + 1)]
    possible = [
        any(
            allowed(table, rows[np.array([n >> k & 1 for k in range(len(rows))]) > 0], limits)
            for n in range(1, 2 ** len(rows))
        )
        for rows in every
    ]

    def find():
        return sw.decide.assortment(model, table, "margin", method=method, restarts=2, **limits)

    if not all(possible):
        with pytest.raises(sw.InputError, match="no set of 'set_id'="):
            find()
        return
    found = find()
    for rows in every:
        assert allowed(table, rows[found.shown[rows]], limits)


def test_the_same_seed_gives_the_same_sets(models):
    table = candidates(10, 12, seed=9)
    first, again = (
        sw.decide.assortment(models[KINDS[1]], table, "margin", method="search", seed=3)
        for _ in range(2)
    )
    assert (first.shown == again.shown).all()
    assert first.sets_scored == again.sets_scored


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"at_most": 0}, "at_most=0 must be a whole number"),
        ({"at_least": 0}, "at_least=0 must be a whole number"),
        ({"at_least": 9}, "fewer candidates than at_least="),
        ({"at_least": 3, "at_most": 2}, "at_least= is above at_most="),
        ({"value": "brandy"}, "brandy"),
        ({"value": [1.0, 2.0]}, "one number per row"),
        ({"value": {"brand": 77}}, "no item is one where brand=77"),
        ({"must": "margin"}, "must= must hold 0 or 1"),
        ({"exclusive": [(0, 999)]}, "row numbers of the table"),
        ({"exclusive": [()]}, "row numbers of the table"),
        ({"capacity": {"width": -1}}, "capacity"),
        ({"capacity": {"x0": 3}}, "is negative at row"),
        ({"method": "guess"}, "auto"),
        ({"outside": 0.0, "kind": KINDS[1]}, "has learned its own"),
        ({"must": np.ones(3)}, "one number per row"),
    ],
)
def test_errors_say_what_is_wrong(models, arguments, said):
    arguments = dict(arguments)
    table = candidates(2, 4, seed=0)
    model = models[arguments.pop("kind", "logit")]
    value = arguments.pop("value", "margin")
    with pytest.raises(sw.InputError, match=said):
        sw.decide.assortment(model, table, value, **arguments)


def test_other_things_than_models_are_refused():
    with pytest.raises(sw.InputError, match="must be a fitted estimator"):
        sw.decide.assortment("model.setwise", {}, 1.0)
    with pytest.raises(sw.InputError, match="is not fitted yet"):
        sw.decide.assortment(sw.MNL(), {}, 1.0)

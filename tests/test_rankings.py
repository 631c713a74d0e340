"""Rankings and best–worst choices: the stages that are read, and the likelihoods of models."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from typer.testing import CliRunner

import setwise as sw
from setwise.choices.encoding import Encoded
from setwise.cli.app import app
from setwise.consequences import Reprice, counterfactual
from setwise.doctor import examine

TRUE = np.array([1.0, -0.7])
THREE = {"who": [1, 1, 1, 2, 2, 2], "x": [3.0, 1.0, 2.0, 5.0, 4.0, 6.0]}
TINY = sw.Training(epochs=2, patience=5)


def drawn(sets=300, items=5, seed=0):
    """Features, and utilities with Gumbel errors."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(sets, items, 2))
    return x, x @ TRUE + rng.gumbel(size=(sets, items)), rng


def table_of(x, **columns):
    sets, items, _ = x.shape
    return {
        "who": np.repeat(np.arange(sets), items), "a": x[..., 0].ravel(), "b": x[..., 1].ravel(),
        **{name: np.asarray(values).ravel() for name, values in columns.items()},
    }  # fmt: skip


def ranking_table(sets=300, items=5, seed=0, ranked=None):
    x, u, _ = drawn(sets, items, seed)
    rank = 1.0 + np.argsort(np.argsort(-u, 1), 1)
    if ranked is not None:
        rank[rank > ranked] = np.nan
    return x, rank, table_of(x, rank=rank)


def best_worst_table(sets=300, items=5, seed=0):
    x, u, rng = drawn(sets, items, seed)
    best = u.argmax(1)
    against = -(x @ TRUE) + rng.gumbel(size=(sets, items))
    against[np.arange(sets), best] = -np.inf
    worst = against.argmax(1)
    marks = [(np.arange(items) == one[:, None]).astype(int) for one in (best, worst)]
    return x, best, worst, table_of(x, best=marks[0], worst=marks[1])


def exploded_log_likelihood(x, rank, b):
    """By hand: set after set, stage after stage."""
    total = 0.0
    for items, ranks in zip(x, rank, strict=True):
        v, left = items @ b, np.ones(len(ranks), bool)
        for stage in range(1, len(ranks)):
            if (ranks == stage).any():
                total += v[ranks == stage][0] - logsumexp(v[left])
                left &= ranks != stage
    return total


def best_worst_log_likelihood(x, best, worst, b):
    total = 0.0
    for items, first, last in zip(x, best, worst, strict=True):
        v = items @ b
        rest = np.delete(-v, first)
        total += v[first] - logsumexp(v) - v[last] - logsumexp(rest)
    return total


def test_a_ranking_is_a_sequence_of_choices_from_sets_that_shrink():
    choices = sw.read({**THREE, "place": [3, 1, 2, None, 1, None]}, set="who", rank="place")
    assert choices.set_ids.tolist() == ["1/1", "1/2", "2/1"]
    assert choices.sizes.tolist() == [3, 2, 3]
    assert choices.columns["x"].values.tolist() == [3, 1, 2, 3, 2, 5, 4, 6]
    assert choices.chosen.tolist() == [1, 1, 1]
    assert choices.ranking.tolist() == [0, 0, 1]
    assert choices.group.tolist() == [1, 1, 2]
    assert choices.rows.tolist() == [0, 1, 2, 0, 2, 3, 4, 5]
    assert choices.worst is None
    frame = choices.to_frame()
    assert frame.columns == ["who", "x", "chosen"]
    assert frame["chosen"].sum() == 3


def test_what_belongs_to_a_set_belongs_to_all_its_stages():
    table = {
        **THREE, "rank": [1, 2, 3, 1, 2, 3], "age": [30, 30, 30, 50, 50, 50],
        "w": [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], "home": ["u", "u", "u", "v", "v", "v"],
        "day": [7, 7, 7, 8, 8, 8], "alt": list("abcabc"),
    }  # fmt: skip
    choices = sw.read(
        table, set="who", rank="rank", items=["x"], context=["age"], weight="w", group="home",
        time="day", alternative="alt",
    )  # fmt: skip
    assert choices.weight.tolist() == [1, 1, 2, 2]
    assert choices.group.tolist() == ["u", "u", "v", "v"]
    assert choices.time.tolist() == [7, 7, 8, 8]
    assert choices.context["age"].values.tolist() == [30, 30, 50, 50]
    assert choices.columns["alt"].text().tolist() == list("abcbcabcbc")


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_stages_have_every_item_that_is_not_yet_chosen(data):
    sizes = data.draw(st.lists(st.integers(2, 6), min_size=1, max_size=5))
    ranks, ids = [], []
    for number, size in enumerate(sizes):
        known = data.draw(st.integers(1, size))
        own = [*range(1, known + 1), *[None] * (size - known)]
        ranks += data.draw(st.permutations(own))
        ids += [number] * size
    order = data.draw(st.permutations(range(len(ids))))
    table = {
        "s": [ids[at] for at in order], "x": [float(at) for at in order],
        "rank": [ranks[at] for at in order],
    }  # fmt: skip
    choices = sw.read(pl.DataFrame(table, strict=False), set="s", rank="rank", items=["x"])
    for number, size in enumerate(sizes):
        own = [rank for rank, one in zip(ranks, ids, strict=True) if one == number]
        stages = choices[choices.group == number]
        known = sum(rank is not None for rank in own)
        assert len(stages) == min(known, size - 1)
        assert stages.sizes.tolist() == [size - at for at in range(len(stages))]
        chosen = stages.columns["x"].values[stages.offsets[:-1] + stages.chosen]
        assert [ranks[int(at)] for at in chosen] == list(range(1, len(stages) + 1))


@pytest.mark.parametrize(
    ("rank", "match"),
    [
        ([1, 2, 2, 1, 2, 3], "set 'who'=1 has rank 2 at row 1 and again at row 2; .*break ties"),
        ([1, 2, 4, 1, 2, 3], "set 'who'=1 has the ranks 1, 2, 4, but not 3; .*without gaps"),
        ([1, 2, 3, 2, 3, None], "set 'who'=2 has the ranks 2, 3, but not 1; .*number the ranked"),
        ([1, 2, 3, None, None, None], "set 'who'=2 has no ranked item; .*on_none=\"drop\""),
        ([0, 1, 2, 1, 2, 3], "column 'rank' is 0, not a rank, at row 0; .*empty"),
        ([1.5, 1, 2, 1, 2, 3], "column 'rank' is 1.5, not a rank, at row 0; ranks are 1, 2, 3"),
        ([1, 2, -1, 1, 2, 3], "column 'rank' is -1, not a rank, at row 2"),
        ([1, 2, np.inf, 1, 2, 3], "column 'rank' is inf, not a rank, at row 2"),
        (list("abcabc"), "rank column 'rank' holds text, such as 'a' at row 0"),
    ],
)
def test_ranks_that_are_none_are_refused(rank, match):
    with pytest.raises(sw.InputError, match=match):
        sw.read({**THREE, "rank": rank}, set="who", rank="rank")


def test_sets_without_ranks_or_with_ties_can_be_dropped():
    table = {**THREE, "rank": [1, 1, 2, 1, 2, 3]}
    kept = sw.read(table, set="who", rank="rank", on_multiple="drop")
    assert kept.group.tolist() == [2, 2]
    assert kept.dropped.several_choices == 1
    table["rank"] = [None, None, None, 1, 2, 3]
    kept = sw.read(table, set="who", rank="rank", on_none="drop")
    assert kept.group.tolist() == [2, 2]
    assert kept.dropped.without_choice == 1
    table["rank"] = [None] * 6
    with pytest.raises(sw.InputError, match="no set is left"):
        sw.read(pl.DataFrame(table, schema_overrides={"rank": pl.Int64}), set="who", rank="rank",
                on_none="drop")  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"rank": "rank", "chosen": "best"}, "rank= and chosen= both say what was chosen"),
        ({"rank": "rank", "worst": "best"}, "rank= and worst= both say what was chosen"),
        ({"worst": "best"}, "chosen= must mark the best"),
        ({"rank": "rank", "on_none": "outside"}, "has no rank and cannot be the worst"),
        ({"rank": "rank", "items": ["x", "rank"]}, "'rank' is the rank; it cannot be a feature"),
        ({"rank": "place"}, "rank column 'place' is not in the table"),
        ({"rank": "who"}, "is given as set= and as rank="),
        ({"chosen": "best", "worst": "best"}, "is given as chosen= and as worst="),
    ],
)
def test_arguments_that_exclude_each_other(arguments, match):
    table = {**THREE, "rank": [1, 2, 3, 1, 2, 3], "best": [1, 0, 0, 0, 1, 0]}
    with pytest.raises(sw.InputError, match=match):
        sw.read(table, set="who", **arguments)


def test_the_exploded_likelihood_by_hand():
    x, rank, table = ranking_table(sets=40)
    choices = sw.read(table, set="who", rank="rank")
    model = sw.MNL().fit(choices)
    assert model.log_likelihood_ == pytest.approx(exploded_log_likelihood(x, rank, model.coef_))
    nll = model.evaluate(choices).nll
    assert -nll * len(choices) == pytest.approx(model.log_likelihood_, rel=1e-5)
    assert model.evaluate(table).nll == pytest.approx(nll)  # the table is read the same way


@pytest.mark.parametrize("ranked", [None, 1, 2])
def test_mnl_is_the_optimum_of_an_independent_exploded_likelihood(ranked):
    x, rank, table = ranking_table(sets=80, ranked=ranked)
    found = minimize(lambda b: -exploded_log_likelihood(x, rank, b), np.zeros(2), method="BFGS")
    model = sw.MNL().fit(sw.read(table, set="who", rank="rank"))
    np.testing.assert_allclose(model.coef_, found.x, atol=1e-4)
    assert model.log_likelihood_ == pytest.approx(-found.fun, abs=1e-6)


def test_rankings_recover_parameters_and_say_more_than_first_choices():
    z, narrower = [], []
    for seed in range(20):
        _, _, table = ranking_table(sets=200, seed=seed)
        model = sw.MNL().fit(sw.read(table, set="who", rank="rank"))
        first = sw.read(table | {"top": table["rank"] == 1}, set="who", chosen="top",
                        items=["a", "b"])  # fmt: skip
        z.append((model.coef_ - TRUE) / model.standard_errors_)
        narrower.append(model.standard_errors_ / sw.MNL().fit(first).standard_errors_)
    assert (np.abs(z) < 2).mean() > 0.85
    assert np.mean(narrower) < 0.8
    assert "clustered by 'who' (200 people)" in str(model.summary())


def test_the_best_and_the_worst_are_two_stages():
    table = {
        "who": [1, 1, 1, 2, 2], "x": [3.0, 1.0, 2.0, 5.0, 4.0], "best": [0, 1, 0, 1, 0],
        "worst": [1, 0, 0, 0, 1],
    }  # fmt: skip
    choices = sw.read(table, set="who", chosen="best", worst="worst")
    assert choices.set_ids.tolist() == ["1/1", "1/2", "2/1"]  # the worst of two is certain
    assert choices.sizes.tolist() == [3, 2, 2]
    assert choices.chosen.tolist() == [1, 0, 0]
    assert choices.worst.tolist() == [False, True, False]
    assert [choices.to_frame()[one].sum() for one in ("best", "worst")] == [2, 1]
    assert "x" in repr(choices)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"worst": [0, 0, 0, 0, 1, 0]}, "'who'=1 has no items marked as the worst; .*on_none"),
        ({"worst": [1, 0, 1, 0, 1, 0]}, "'who'=1 has 2 items marked as the worst; .*on_multiple"),
        ({"best": [0, 0, 0, 1, 0, 0]}, "'who'=1 has no items marked as the best"),
        ({"worst": [0, 1, 0, 0, 1, 0]}, "row 1 is marked as the best and as the worst"),
        ({"worst": [3, 0, 0, 0, 1, 0]}, "each row needs 0 or 1"),
    ],
)
def test_best_and_worst_that_are_none_are_refused(change, match):
    table = {**THREE, "best": [0, 1, 0, 1, 0, 0], "worst": [1, 0, 0, 0, 1, 0], **change}
    with pytest.raises(sw.InputError, match=match):
        sw.read(table, set="who", chosen="best", worst="worst")


def test_popularity_is_of_the_best_alone():
    table = {**THREE, "name": list("abcabc"), "best": [0, 1, 0, 1, 0, 0],
             "worst": [1, 0, 0, 0, 1, 0]}  # fmt: skip
    with pytest.raises(sw.InputError, match="chosen as the best"):
        sw.read(table, set="who", chosen="best", worst="worst", items=["popularity(name)"])


def test_the_best_worst_likelihood_by_hand_and_its_optimum():
    x, best, worst, table = best_worst_table(sets=80)
    choices = sw.read(table, set="who", chosen="best", worst="worst")
    model = sw.MNL().fit(choices)
    by_hand = best_worst_log_likelihood(x, best, worst, model.coef_)
    assert model.log_likelihood_ == pytest.approx(by_hand)
    assert -model.evaluate(choices).nll * len(choices) == pytest.approx(by_hand, rel=1e-5)
    found = minimize(
        lambda b: -best_worst_log_likelihood(x, best, worst, b), np.zeros(2), method="BFGS"
    )
    np.testing.assert_allclose(model.coef_, found.x, atol=1e-4)


def test_best_worst_choices_recover_parameters():
    z = []
    for seed in range(20):
        _, _, _, table = best_worst_table(sets=200, seed=seed)
        model = sw.MNL().fit(sw.read(table, set="who", chosen="best", worst="worst"))
        z.append((model.coef_ - TRUE) / model.standard_errors_)
    assert (np.abs(z) < 2).mean() > 0.85


def test_a_penalty_is_that_of_the_columns_as_they_are():
    rng = np.random.default_rng(0)
    items = rng.normal(2, 3, size=(40, 2))
    data = Encoded(items, np.empty((10, 0)), np.arange(0, 41, 4), np.zeros(10, int), None,
                   np.arange(40.0), worst=np.arange(10) % 3 == 0)  # fmt: skip
    mirrored = data.mirrored()
    np.testing.assert_allclose(mirrored.items.mean(0), items.mean(0))
    np.testing.assert_allclose(mirrored.items.var(0), items.var(0))
    assert mirrored.offset[:5].tolist() == [0, -1, -2, -3, 4]
    assert mirrored.worst is None
    x, best, worst, table = best_worst_table(sets=60)
    choices = sw.read(table, set="who", chosen="best", worst="worst")

    def penalised(b):
        return -best_worst_log_likelihood(x, best, worst, b) + 5 / 2 * (sd**2 @ b**2)

    sd = np.array([choices.columns[name].values.std() for name in "ab"])
    found = minimize(penalised, np.zeros(2), method="BFGS")
    np.testing.assert_allclose(sw.MNL(l2=5.0).fit(choices).coef_, found.x, atol=1e-4)
    assert sw.MNL(l2="validation").fit(choices).l2_ > 0


def test_linear_logits_with_columns_of_the_set_take_the_worst():
    *_, table = best_worst_table(sets=150)
    choices = sw.read(table, set="who", chosen="best", worst="worst")
    for model in (sw.LinearContextLogit(), sw.WithinSetMNL()):
        model.fit(choices)
        nll = model.evaluate(choices).nll
        assert -nll * len(choices) == pytest.approx(model.log_likelihood_, rel=1e-4)
        assert model.log_likelihood_ >= sw.MNL().fit(choices).log_likelihood_ - 1e-6


def test_mixed_logit_takes_a_ranking_as_one_person():
    _, _, table = ranking_table(sets=60, items=4)
    person = {"person": table["who"]}
    alone = sw.read(table, set="who", rank="rank")
    named = sw.read(table | person, set="who", rank="rank", items=["a", "b"], group="person")
    models = [sw.MixedLogit(draws=50).fit(one) for one in (alone, named)]
    assert models[0].log_likelihood_ == models[1].log_likelihood_
    assert len(models[0].individual_coefficients()) == 60
    assert models[0].individual_coefficients().columns[0] == "who"


def test_mixed_logit_of_best_and_worst_by_hand():
    x, best, worst, table = best_worst_table(sets=80, items=4)
    choices = sw.read(table, set="who", chosen="best", worst="worst")
    model = sw.MixedLogit({"a": "normal"}, draws=100, seed=3).fit(choices)
    nodes = np.random.default_rng(0).normal(size=4000) * model.cholesky_[0, 0]
    total = 0.0
    for one in range(len(x)):
        b = model.coef_ + np.stack([nodes, np.zeros_like(nodes)], 1)
        v = x[one] @ b.T
        rest = np.delete(-v, best[one], 0)
        first = v[best[one]] - logsumexp(v, 0)
        total += np.log(np.exp(first - v[worst[one]] - logsumexp(rest, 0)).mean())
    assert model.log_likelihood_ == pytest.approx(total, abs=1.0)
    nll = model.evaluate(choices).nll * len(choices)  # of people who are not known
    assert nll == pytest.approx(-model.log_likelihood_, rel=0.05)


def test_networks_train_on_rankings_and_on_the_worst():
    _, _, table = ranking_table(sets=120)
    ranked = sw.read(table, set="who", rank="rank")
    *_, table = best_worst_table(sets=120)
    asked = sw.read(table, set="who", chosen="best", worst="worst")
    for choices in (ranked, asked):
        model = sw.SDA(2, hidden=4, training=TINY, ensemble=2).fit(choices)
        assert model.evaluate(choices).nll < np.log(5)
        again = sw.SDA(2, hidden=4, training=TINY, ensemble=2).fit(choices)
        assert again.history_ == model.history_


def test_a_trained_linear_model_finds_the_best_worst_optimum():
    *_, table = best_worst_table(sets=400)
    choices = sw.read(table, set="who", chosen="best", worst="worst")
    options = sw.Training(epochs=60, learning_rate=0.03, weight_decay=0.0)
    model = sw.ChoiceModel("mnl", training=options).fit(choices, validation=choices)
    exact = sw.MNL().fit(choices)
    assert model.evaluate(choices).nll == pytest.approx(exact.evaluate(choices).nll, abs=2e-3)


def test_models_without_a_likelihood_of_the_worst_refuse_it():
    *_, table = best_worst_table(sets=60)
    choices = sw.read(table, set="who", chosen="best", worst="worst")
    for model in (sw.Auto(), sw.LatentClass(), sw.BoostedLogit(), sw.SVMRank(), sw.RandomChoice()):
        with pytest.raises(sw.InputError, match="chose the worst item"):
            model.fit(choices)
    plain = sw.read(table, set="who", chosen="best", items=["a", "b"])
    with pytest.raises(sw.InputError, match="chose the worst item"):
        sw.LatentClass(2, starts=1).fit(plain).evaluate(choices)


def test_probabilities_are_those_of_the_best():
    *_, table = best_worst_table(sets=60)
    choices = sw.read(table, set="who", chosen="best", worst="worst")
    for model in (sw.MNL().fit(choices), sw.MixedLogit(draws=20).fit(choices)):
        best = choices.take(np.flatnonzero(~choices.worst))
        everywhere = model.row_probabilities(choices)
        owner = np.repeat(choices.worst, choices.sizes)
        np.testing.assert_allclose(everywhere[~owner], model.row_probabilities(best), rtol=1e-5)
        np.testing.assert_allclose(model.predict_proba(table).sum(), 60, rtol=1e-5)


@pytest.mark.parametrize("group", [None, "home"])
def test_splits_samples_and_limits_keep_rankings_whole(group):
    _, _, table = ranking_table(sets=40)
    table["home"] = table["who"] // 3
    choices = sw.read(table, set="who", rank="rank", items=["a", "b"], group=group)
    for by in ("set", "group"):
        parts = sw.split(choices, seed=1, by=by)
        owners = [set(part.ranking.tolist()) for part in parts]
        assert sum(map(len, owners)) == 40
        assert all(len(part) == 4 * len(own) for part, own in zip(parts, owners, strict=True))
    assert [len(part) for part in sw.split(choices)] == [80, 40, 40]
    sample = choices.sample(20)
    assert len(sample) == 20
    assert len(set(sample.ranking.tolist())) == 5
    assert len(choices.limit(min_items=3)) == len(choices)
    with pytest.raises(sw.InputError, match="no set has"):
        choices.limit(max_items=4)
    with pytest.raises(sw.InputError, match="rankings cannot be divided"):
        sw.split(choices.take(np.arange(4)))


def test_rankings_are_compared_saved_and_stored(tmp_path: Path):
    *_, table = best_worst_table(sets=80)
    choices = sw.read(table, set="who", chosen="best", worst="worst")
    sw.save_choices(choices, tmp_path / "asked.setwise-data")
    opened = sw.open_choices(tmp_path / "asked.setwise-data")
    assert opened.worst.tolist() == choices.worst.tolist()
    assert opened.ranking.tolist() == choices.ranking.tolist()
    assert opened.roles == choices.roles
    first, second = (sw.MNL().fit(one) for one in (choices, opened))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    first.save(tmp_path / "model.setwise", sample=choices)
    loaded = sw.load(tmp_path / "model.setwise")
    assert loaded.evaluate(table).nll == pytest.approx(first.evaluate(choices).nll)
    np.testing.assert_allclose(loaded.predict_proba(table), first.predict_proba(table))
    report = sw.compare({"mnl": sw.MNL(), "within": sw.WithinSetMNL()}, choices, splits=2)
    assert "mnl" in str(report)


def test_counterfactuals_want_the_table():
    _, _, table = ranking_table(sets=40)
    choices = sw.read(table, set="who", rank="rank")
    model, change = sw.MNL().fit(choices), Reprice("a", 1.1)
    with pytest.raises(sw.InputError, match="stages of rankings"):
        counterfactual(model, choices, change)
    assert len(counterfactual(model, table, change).before) == 200


def test_wide_tables_have_ranks_and_the_worst():
    table = {
        "cost.bus": [1.0, 2.0], "cost.car": [3.0, 1.0], "cost.tram": [2.0, 5.0],
        "rank.bus": [2, None], "rank.car": [1, 1], "rank.tram": [3, None],
        "best": ["car", "bus"], "worst": ["bus", "tram"],
    }  # fmt: skip
    ranked = sw.read_wide(table, rank="rank.{alt}", items=["cost.{alt}"])
    assert ranked.sizes.tolist() == [3, 2, 3]
    assert ranked.columns["alternative"].text().tolist() == [
        "bus", "car", "tram", "bus", "tram", "bus", "car", "tram",
    ]  # fmt: skip
    assert ranked.chosen.tolist() == [1, 0, 1]
    assert ranked.group.tolist() == [0, 0, 1]
    assert ranked.rows.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    asked = sw.read_wide(table, chosen="best", worst="worst", items=["cost.{alt}"])
    assert asked.worst.tolist() == [False, True, False, True]
    assert asked.chosen.tolist() == [1, 0, 0, 1]
    with pytest.raises(sw.InputError, match=r"rank='rank' must have \{alt\} once"):
        sw.read_wide(table, rank="rank", items=["cost.{alt}"])
    with pytest.raises(sw.InputError, match="fits no column of the alternatives"):
        sw.read_wide(table, rank="place_{alt}", items=["cost.{alt}"])
    with pytest.raises(sw.InputError, match=r"column .rank.bus. is 0, not a rank, at row 0"):
        sw.read_wide(table | {"rank.bus": [0, 1]}, rank="rank.{alt}", items=["cost.{alt}"])


def test_the_command_line_takes_ranks_and_the_worst(tmp_path: Path):
    _, _, table = ranking_table(sets=80)
    *_, other = best_worst_table(sets=80)
    for name, columns in (("ranked", table), ("asked", other)):
        pl.DataFrame(columns, nan_to_null=True).write_parquet(tmp_path / f"{name}.parquet")

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, [str(one) for one in arguments])
        assert result.exit_code == code, result.output
        return result.output

    ranked = [tmp_path / "ranked.parquet", "--set", "who", "--rank", "rank"]
    asked = [tmp_path / "asked.parquet", "--set", "who", "--chosen", "best", "--worst", "worst"]
    for source in (ranked, asked):
        run("fit", *source, "--model", "mnl", "--out", tmp_path / "model.setwise")
        run("check", *source)
        run("compare", *source, "--models", "mnl,mixed_logit", "--splits", "2", "--json")


def test_the_doctor_examines_rankings():
    _, _, table = ranking_table(sets=40)
    leak = table | {"copy": table["rank"]}
    codes = [one.code for one in examine(leak, set="who", rank="rank").findings]
    assert "leak" in codes
    assert not examine(table, set="who", rank="rank").errors
    tied = {**THREE, "rank": [1, 1, 2, 1, 2, 3]}
    (error,) = examine(tied, set="who", rank="rank").errors
    assert (error.code, error.rows, error.sets) == ("ranking", (0,), ("1",))
    *_, table = best_worst_table(sets=40)
    found = examine(table, set="who", chosen="best", worst="worst")
    assert not found.errors
    assert found.summary.sets == 80

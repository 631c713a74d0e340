"""Rankers and basic rules: against other ways to the same numbers, and what all of them promise."""

import builtins
import math
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import LinearSVC

import setwise as sw
from setwise._trees import Trees
from setwise.choices import Schema
from setwise.estimators import basic, rankers
from setwise.estimators.basic import RandomChoice, SingleFeature, temperature
from setwise.estimators.boosting import LambdaMART
from setwise.estimators.rankers import AdaRank, SVMRank
from setwise.scoring.model_file import Artifact

LINEAR = {
    "svmrank": lambda: SVMRank(),
    "adarank": lambda: AdaRank(rounds=20),
    "single": lambda: SingleFeature(),
    "random": lambda: RandomChoice(),
}
TREES = {
    "xendcg": lambda: LambdaMART(threads=1, rounds=15),
    "lambdarank": lambda: LambdaMART("lambdarank", threads=1, rounds=15),
}
EVERY = LINEAR | TREES
every_linear = pytest.mark.parametrize("name", LINEAR)
every_name = pytest.mark.parametrize("name", EVERY)


def generated(sets=300, seed=0, items=(2, 6)):
    return sw.datasets.generate("mnl", sets=sets, items=items, features=4, seed=seed)


@pytest.fixture(scope="module")
def choices():
    return generated().choices


@pytest.fixture(scope="module")
def parts(choices):
    return sw.split(choices, (0.6, 0.4))


@pytest.fixture(scope="module")
def fitted(parts):
    """Fitted estimators by name, made when they are first asked for."""
    made = {}

    def get(name):
        if name in TREES:
            pytest.importorskip("lightgbm")
        if name not in made:
            made[name] = EVERY[name]().fit(*parts)
        return made[name]

    return get


def table(x, chosen, **more):
    """Sets of rows as a table: x is sets x items, chosen a position a set."""
    sets, n = np.shape(x)
    return {
        "s": np.repeat(np.arange(sets), n),
        "x": np.ravel(x).astype(float),
        "chosen": (np.arange(n) == np.array(chosen)[:, None]).ravel().astype(int),
        **more,
    }


def small(**features):
    """Choices between rows of these features: sets x items each, the first item is chosen."""
    first = next(iter(features.values()))
    columns = {name: np.ravel(values).astype(float) for name, values in features.items()}
    whole = table(first, [0] * len(first)) | columns
    return sw.read(whole, set="s", chosen="chosen", items=list(features))


# SVMRank


def differences_by_loop(encoded):
    """chosen - other, and the set of each pair."""
    rows, owners = [], []
    for i in range(len(encoded)):
        items = encoded.items[encoded.offsets[i] : encoded.offsets[i + 1]]
        for j in range(len(items)):
            if j != encoded.chosen[i]:
                rows.append(items[encoded.chosen[i]] - items[j])
                owners.append(i)
    return np.array(rows), np.array(owners)


def both_signs(differences, weight, c):
    """Every pair in both directions at half the weight: the same objective, written otherwise."""
    solver = LinearSVC(loss="hinge", C=c, fit_intercept=False, tol=1e-8, max_iter=1_000_000)
    x = np.concatenate([differences, -differences])
    y = np.concatenate([np.ones(len(differences)), -np.ones(len(differences))])
    return solver.fit(x, y, np.concatenate([weight, weight]) / 2).coef_[0]


def test_svmrank_agrees_with_a_linear_svm_on_pairs_made_by_a_loop(choices):
    model = SVMRank(C=0.01).fit(choices)
    differences, _ = differences_by_loop(Schema.fit(choices).encode(choices, np.float64))
    expected = both_signs(differences, np.ones(len(differences)), 0.01)
    np.testing.assert_allclose(model.coef_, expected, atol=2e-3 * np.abs(expected).max())
    assert model.C_ == 0.01


def test_svmrank_counts_the_weights_of_sets():
    weight = np.random.default_rng(0).choice([0.5, 4.0], 300)
    made = generated()
    columns = made.columns | {"w": weight[made.columns["set_id"]]}
    weighted = sw.read(columns, set="set_id", chosen="chosen", items=made.items, weight="w")
    encoded = Schema.fit(weighted).encode(weighted, np.float64)
    differences, owners = differences_by_loop(encoded)
    share = encoded.weight / encoded.weight.mean()
    expected = both_signs(differences, share[owners], 0.01)
    coef = SVMRank(C=0.01).fit(weighted).coef_
    np.testing.assert_allclose(coef, expected, atol=2e-3 * np.abs(expected).max())
    assert np.abs(coef - SVMRank(C=0.01).fit(made.choices).coef_).max() > 0.01


def test_svmrank_takes_the_c_of_its_grid_that_ranks_the_validation_part_best(parts):
    train, valid = parts
    model = SVMRank().fit(train, valid)
    pairs = int((train.sizes - 1).sum())
    scores = {
        one / pairs: SVMRank(C=one / pairs).fit(train, valid).score(valid) for one in rankers.GRID
    }
    best = max(scores.values())
    assert min(c for c, score in scores.items() if score == best) == model.C_
    assert model.score(valid) == best


def test_svmrank_without_validation_holds_a_fifth_out(choices):
    explicit = SVMRank(seed=3).fit(*sw.split(choices, (0.8, 0.2), seed=3))
    np.testing.assert_array_equal(SVMRank(seed=3).fit(choices).coef_, explicit.coef_)


def test_svmrank_samples_pairs_where_there_are_too_many(choices):
    encoded = Schema.fit(choices).encode(choices, np.float64)
    everything, _ = rankers.pairs(encoded, 10**6, 0)
    loop, _ = differences_by_loop(encoded)
    np.testing.assert_array_equal(everything, loop)
    some, weight = rankers.pairs(encoded, 100, 0)
    assert some.shape == (100, 4)
    assert weight.shape == (100,)
    assert {tuple(row) for row in some} <= {tuple(row) for row in loop}
    few, whole = (SVMRank(C=0.01, max_pairs=n).fit(choices).coef_ for n in (300, 10**6))
    assert few @ whole > 0.8 * np.linalg.norm(few) * np.linalg.norm(whole)


def test_svmrank_learns_from_one_pair():
    model = SVMRank(C=1.0).fit(small(x=[[1.0, 0.0]]))
    np.testing.assert_allclose(model.coef_, [0.5], atol=1e-3)  # 1 and 0 are +-1 standardised


def test_svmrank_says_when_it_did_not_converge(choices, monkeypatch):
    monkeypatch.setattr(rankers, "ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="smaller C converges sooner"):
        SVMRank(C=1.0).fit(choices)


# AdaRank


def reciprocal_rank(scores, chosen):
    """Of the chosen item, averaged over the places that it shares with its equals."""
    better = sum(score > scores[chosen] for score in scores)
    equal = sum(score == scores[chosen] for score in scores)
    return sum(1 / (better + 1 + j) for j in range(equal)) / equal


def adarank_by_loop(sets, chosen, weight, rounds):
    """Xu and Li's algorithm in plain Python: feature, sign and alpha of each round."""
    total, count = sum(weight), len(sets[0][0])
    share = [w / total for w in weight]
    p, taken = list(share), []
    for _ in range(rounds):
        best = None
        for sign in (1, -1):
            for feature in range(count):
                e = [
                    reciprocal_rank([sign * item[feature] for item in items], c)
                    for items, c in zip(sets, chosen, strict=True)
                ]
                value = sum(a * b for a, b in zip(p, e, strict=True))
                if best is None or value > best[0] + 1e-12:
                    best = (value, feature, sign, e)
        _, feature, sign, e = best
        up = sum(a * (1 + b) for a, b in zip(p, e, strict=True))
        down = sum(a * (1 - b) for a, b in zip(p, e, strict=True))
        taken.append((feature, sign, 0.5 * math.log(up / down)))
        reached = [
            reciprocal_rank([sum(a * s * item[f] for f, s, a in taken) for item in items], c)
            for items, c in zip(sets, chosen, strict=True)
        ]
        p = [w * math.exp(-r) for w, r in zip(share, reached, strict=True)]
        p = [one / sum(p) for one in p]
    return taken


@pytest.mark.parametrize("weighted", [False, True])
def test_adarank_agrees_with_plain_python_round_by_round(weighted):
    made = generated(sets=40, seed=3)
    weight = np.random.default_rng(5).choice([1.0, 3.0], 40) if weighted else np.ones(40)
    columns = made.columns | {"w": weight[made.columns["set_id"]]}
    choices = sw.read(columns, set="set_id", chosen="chosen", items=made.items, weight="w")
    model = AdaRank(rounds=8, patience=8).fit(choices)
    encoded = Schema.fit(choices).encode(choices, np.float64)
    sets = [part.tolist() for part in np.split(encoded.items, encoded.offsets[1:-1])]
    expected = adarank_by_loop(sets, encoded.chosen.tolist(), weight.tolist(), 8)
    rounds = len(model.alphas_)
    assert len(set(model.chosen_features_)) > 1
    assert model.chosen_features_ == [f"x{feature}" for feature, _, _ in expected[:rounds]]
    signs = [basic.SIGNS[direction] for direction in model.directions_]
    assert signs == [sign for _, sign, _ in expected[:rounds]]
    np.testing.assert_allclose(model.alphas_, [alpha for _, _, alpha in expected[:rounds]])
    total = np.zeros(4)
    for feature, sign, alpha in expected[: model.best_round_]:
        total[feature] += sign * alpha
    np.testing.assert_allclose(model.coef_, total, atol=1e-12)


def test_adaranks_first_round_by_hand():
    """Up, x ranks the chosen item 1st, 1st and 2nd: E = (1 + 1 + 1/2)/3 = 5/6 and down
    (1/2 + 1/2 + 1)/3; y is always equal: E = (1 + 1/2)/2 = 3/4. So alpha = 1/2 ln(11/1)."""
    choices = small(x=[[2, 1], [2, 1], [1, 2]], y=[[1, 1], [2, 2], [3, 3]])
    model = AdaRank(rounds=1).fit(choices)
    assert (model.chosen_features_, model.directions_) == (["x"], ["descending"])
    assert model.alphas_ == pytest.approx([math.log(11) / 2])
    assert model.history_ == pytest.approx([5 / 6])
    np.testing.assert_allclose(model.coef_, [math.log(11) / 2, 0])


def test_adarank_stops_when_it_no_longer_improves(choices):
    model = AdaRank(rounds=500, patience=3).fit(choices)
    assert len(model.history_) == model.best_round_ + 3
    assert model.best_round_ == 1 + int(np.argmax(model.history_))
    assert model.evaluate(choices).mrr == pytest.approx(max(model.history_), abs=1e-6)


@pytest.mark.filterwarnings("ignore::setwise.DataWarning")  # rightly: a column tells the choice
def test_adarank_stays_finite_where_one_feature_is_perfect():
    x = np.stack([np.arange(1.0, 31.0), np.zeros(30)], 1)
    model = AdaRank().fit(small(x=x))
    assert model.score(small(x=x)) == pytest.approx(1)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.evaluate(small(x=-x)).nll)  # and so where it is always wrong


# Basic


def planted(direction):
    """The third feature decides; the others are noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4, 3))
    sign = 1 if direction == "descending" else -1
    chosen = np.argmax(sign * x[:, :, 2] + 0.3 * rng.gumbel(size=(200, 4)), axis=1)
    more = {f"f{i}": x[:, :, i].ravel() for i in range(3)}
    whole = table(x[:, :, 0], chosen, **more)
    return sw.read(whole, set="s", chosen="chosen", items=["f0", "f1", "f2"])


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_single_feature_finds_the_planted_one(direction):
    model = SingleFeature().fit(planted(direction))
    assert (model.feature_, model.direction_) == ("f2", direction)
    assert np.count_nonzero(model.coef_) == 1


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_single_feature_does_as_it_is_told(direction):
    model = SingleFeature("f0", direction).fit(planted("descending"))
    assert (model.feature_, model.direction_) == ("f0", direction)
    assert SingleFeature(direction="ascending").fit(planted("descending")).feature_ != "f2"
    ranked = model.rank(planted("descending").take(np.array([5])))
    assert sorted(ranked["f0"], reverse=direction == "descending") == list(ranked["f0"])


@pytest.mark.filterwarnings("ignore::setwise.DataWarning")  # rightly: a column tells the choice
def test_single_feature_takes_a_columns_name_for_its_numeric_columns():
    whole = table([[2, 1, 3], [1, 2, 4]] * 30, [0, 1] * 30)
    whole["kind"] = np.array(["a", "b", "c", "b", "a", "c"] * 30)
    choices = sw.read(whole, set="s", chosen="chosen", items=["log(x)", "kind"])
    assert SingleFeature("kind").fit(choices).feature_ == "kind=a"
    assert SingleFeature("kind=b").fit(choices).feature_ == "kind=b"
    assert SingleFeature("x").fit(choices).feature_ == "log(x)"
    with pytest.raises(sw.InputError, match=r"no item feature 'price'.*log\(x\), kind=a"):
        SingleFeature("price").fit(choices)


def test_single_feature_counts_the_weights_of_sets():
    whole = table([[1, 0], [1, 0], [0, 1]], [0, 0, 0])
    plain = sw.read(whole, set="s", chosen="chosen", items=["x"])
    heavy = whole | {"w": np.repeat([1.0, 1.0, 9.0], 2)}
    weighted = sw.read(heavy, set="s", chosen="chosen", items=["x"], weight="w")
    assert SingleFeature().fit(plain).direction_ == "descending"
    assert SingleFeature().fit(weighted).direction_ == "ascending"


@pytest.mark.parametrize("n", [2, 5, 8])
def test_random_choice_has_the_measures_of_a_random_order(n):
    choices = generated(sets=64, items=n).choices
    metrics = RandomChoice().fit(choices).evaluate(choices)
    assert metrics.top1 == 1 / n
    assert metrics.mean_rank == (n + 1) / 2
    assert metrics.top5 == pytest.approx(min(1, 5 / n))
    assert metrics.nll == pytest.approx(math.log(n), abs=1e-6)


# Temperature


def nll(scores, encoded, t):
    total = 0.0
    weight = np.ones(len(encoded)) if encoded.weight is None else encoded.weight
    for i in range(len(encoded)):
        g = scores[encoded.offsets[i] : encoded.offsets[i + 1]] / t
        total += weight[i] * (np.log(np.exp(g - g.max()).sum()) + g.max() - g[encoded.chosen[i]])
    return total / weight.sum()


def test_the_temperature_is_the_best_of_a_fine_grid(choices):
    encoded = Schema.fit(choices).encode(choices, np.float64)
    scores = 3 * encoded.items @ SVMRank(C=0.01).fit(choices).coef_
    t = temperature(scores, encoded)
    best = nll(scores, encoded, t)
    for factor in np.concatenate([np.geomspace(0.01, 100, 41), [0.999, 1.001]]):
        assert best <= nll(scores, encoded, factor * t) + 1e-12
    assert temperature(7 * scores, encoded) == pytest.approx(7 * t)


@every_linear
def test_the_temperature_keeps_ranks_and_does_not_worsen_the_validation_nll(name, fitted, parts):
    model, valid = fitted(name), parts[1]
    encoded = model.schema_.encode(valid, np.float64)
    scores = encoded.items @ model.coef_
    assert model.temperature_ > 0
    measured = model.evaluate(valid)
    raw = sw.metrics.Ranks.of(scores, encoded.offsets, encoded.chosen)
    assert measured.mean_rank == pytest.approx(raw.mean_rank().mean(), abs=1e-9)
    assert measured.top1 == pytest.approx(raw.top(1).mean(), abs=1e-9)
    assert measured.nll == pytest.approx(nll(scores, encoded, model.temperature_), abs=1e-5)
    for other in (1.0, 0.5 * model.temperature_, 2 * model.temperature_):
        assert measured.nll <= nll(scores, encoded, other) + 1e-5


def test_a_ranker_that_is_always_wrong_or_always_right_still_has_probabilities():
    x = np.stack([np.arange(1.0, 31.0), np.zeros(30)], 1)
    with (
        pytest.warns(sw.DataWarning, match="column 'x' tells the choice without error"),
        pytest.warns(sw.DataWarning, match="tells the training choices without error"),
    ):
        right = SingleFeature("x", "descending").fit(small(x=x))
    with pytest.warns(sw.DataWarning, match="column 'x' tells the choice without error"):
        wrong = SingleFeature("x", "ascending").fit(small(x=x))
    assert 0 < right.evaluate(small(x=x)).nll < 0.2
    assert right.evaluate(small(x=-x)).nll < 50  # never wrong so far, and yet not certain
    assert wrong.evaluate(small(x=x)).nll == pytest.approx(math.log(2), abs=1e-2)
    assert wrong.score(small(x=x)) == 0  # the order stays wrong: it is a ranker's own
    constant = SingleFeature().fit(small(x=np.ones((5, 3))))
    np.testing.assert_allclose(constant.predict_proba(small(x=np.ones((5, 3)))), 1 / 3, atol=1e-6)


# What all promise


@every_name
def test_init_only_stores_and_clone_copies_without_what_was_learned(name, fitted):
    model = fitted(name)
    copy = clone(model)
    assert copy.get_params() == model.get_params() == EVERY[name]().get_params()
    with pytest.raises(NotFittedError, match="fit"):
        copy.predict_proba(None)


@every_name
def test_the_same_fit_gives_the_same_model(name, fitted, parts, tmp_path):
    fitted(name).save(tmp_path / "once")
    EVERY[name]().fit(*parts).save(tmp_path / "again")
    type(fitted(name)).from_artifact(Artifact.read(tmp_path / "once")).save(tmp_path / "loaded")
    once, again, loaded = ((tmp_path / f).read_bytes() for f in ("once", "again", "loaded"))
    assert once == again == loaded


@every_name
def test_learns_more_than_chance(name, fitted, parts):
    chance = (1 / parts[1].sizes).mean()
    assert fitted(name).score(parts[1]) > chance + (0.05 if name != "random" else -1e-9)


@every_name
def test_save_and_load_gives_the_same_predictions(name, fitted, choices, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "m")
    loaded = type(model).from_artifact(Artifact.read(tmp_path / "m"))
    assert loaded.get_params() == model.get_params()
    assert loaded.schema_ == model.schema_
    np.testing.assert_array_equal(loaded.predict_proba(choices), model.predict_proba(choices))
    for fact in vars(model).keys() - {"schema_", "model_"}:
        np.testing.assert_array_equal(getattr(loaded, fact), getattr(model, fact))


@every_name
def test_the_order_of_rows_does_not_matter(name, fitted):
    made = generated(sets=50, seed=5)
    order = np.random.default_rng(0).permutation(len(made.columns["set_id"]))
    shuffled = {column: values[order] for column, values in made.columns.items()}
    straight = fitted(name).predict_proba(made.columns)
    p = fitted(name).predict_proba(shuffled)
    np.testing.assert_allclose(p, straight[order], atol=1e-6)
    np.testing.assert_allclose(np.bincount(shuffled["set_id"], p), 1, atol=1e-5)
    marked = fitted(name).predict(shuffled)
    np.testing.assert_array_equal(np.bincount(shuffled["set_id"], marked), 1)
    assert fitted(name).rank(made.columns)["rank"].min() >= 1


@every_name
def test_removing_an_item_leaves_the_others_odds_as_they_were(name, fitted):
    """IIA: also AdaRank's scores are linear, whatever the paper's list says."""
    made = generated(sets=60, items=4, seed=6)
    p = fitted(name).predict_proba(made.columns).reshape(60, 4)
    keep = np.tile([True, True, False, True], 60)
    fewer = {column: values[keep] for column, values in made.columns.items()}
    q = fitted(name).predict_proba(fewer).reshape(60, 3)
    before = np.log(p[:, [0, 1, 3]]) - np.log(p[:, [0]])
    np.testing.assert_allclose(np.log(q) - np.log(q[:, [0]]), before, atol=1e-4)


@every_linear
def test_a_linear_score_of_an_item_does_not_see_the_others(name, fitted, choices):
    model = fitted(name)
    items = jnp.asarray(model.schema_.encode(choices).items[:5])
    whole = model.model_.scores(items, jnp.ones(5, bool))
    part = model.model_.scores(items[1:], jnp.ones(4, bool))
    np.testing.assert_allclose(part, whole[1:], rtol=1e-6, atol=1e-6)


@every_name
def test_the_outside_option_and_context_are_taken(name):
    if name in TREES:
        pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    utility = np.concatenate([x, np.zeros((200, 1))], 1) + rng.gumbel(size=(200, 4))
    taken = utility.argmax(1)
    whole = table(x, taken) | {"mood": np.repeat(rng.normal(size=200), 3)}
    roles = {"set": "s", "chosen": "chosen", "items": ["x"], "context": ["mood"]}
    choices = sw.read(whole, **roles, on_none="outside")
    model = EVERY[name]().fit(choices)
    sums = model.predict_proba(choices).reshape(200, 3).sum(1)
    assert ((sums > 0) & (sums < 1)).all()
    assert model.evaluate(choices).top1 >= 0.25


@every_name
def test_fit_refuses_what_it_cannot_learn_from(name):
    if name in TREES:
        pytest.importorskip("lightgbm")
    with pytest.raises(sw.InputError, match="read them with chosen="):
        EVERY[name]().fit(sw.read({"s": [1, 1], "x": [1.0, 2.0]}, set="s", items=["x"]))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SVMRank(C=0.0), "C=0.0 must be a number above 0"),
        (SVMRank(max_pairs=0), "max_pairs=0 must be a whole number of at least 1"),
        (SVMRank(seed=-1), "seed=-1 must be a whole number of at least 0"),
        (AdaRank(rounds=0), "rounds=0 must be a whole number of at least 1"),
        (AdaRank(patience=0), "patience=0 must be a whole number of at least 1"),
        (LambdaMART(threads=1, rounds=0), "rounds=0 must be a whole number of at least 1"),
        (LambdaMART(leaves=1), "leaves=1 must be a whole number of at least 2"),
        (LambdaMART(learning_rate=0.0), "learning_rate=0.0 must be a number above 0"),
    ],
)
def test_arguments_that_make_no_model_are_refused(estimator, message, choices):
    with pytest.raises(sw.InputError, match=message):
        estimator.fit(choices)


# LambdaMART


def test_trees_stop_early_and_keep_the_best_round(parts):
    pytest.importorskip("lightgbm")
    train, valid = parts
    model = LambdaMART(threads=1, rounds=300, patience=5).fit(train, valid)
    assert len(model.history_) == model.best_round_ + 5
    assert model.best_round_ == 1 + int(np.argmax(model.history_))
    assert len(model.model_.leaves) == model.best_round_
    assert model.score(valid) == pytest.approx(max(model.history_))
    scores = model.model_.predict(model.schema_.encode(valid).items)
    encoded = model.schema_.encode(valid)
    for other in (0.5, 1.0, 2.0):
        assert model.evaluate(valid).nll <= nll(scores, encoded, other * model.temperature_) + 1e-9


@pytest.mark.parametrize("missing", ["nan", "zero", "none"])
@pytest.mark.parametrize("categories", [False, True])
def test_trees_as_arrays_score_as_lightgbm_does(missing, categories):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)

    def drawn(rows):
        x = rng.normal(size=(rows, 5)) * 2
        x[:, 2], x[:, 3] = rng.integers(-3, 90, rows), rng.integers(0, 6, rows) + 0.25
        x[rng.random(x.shape) < 0.1] = 0
        if missing != "none":
            x[rng.random(x.shape) < 0.1] = np.nan
        return x

    x = drawn(1500)
    y = np.nan_to_num(x[:, 0]) * 2 + np.nan_to_num(x[:, 2]) % 7 + rng.normal(size=len(x))
    x[:, 2] = np.abs(x[:, 2])
    settings = {"verbosity": -1, "zero_as_missing": missing == "zero", "min_data_per_group": 5}
    given = lightgbm.Dataset(x, y, categorical_feature=[2, 3] if categories else [])
    booster = lightgbm.train(settings, given, 40)
    trees = Trees.of(Trees.parsed(booster.model_to_string()).arrays(), 5)
    assert categories == bool((trees.decision & 1).any())
    numeric = trees.decision[(trees.decision & 1) == 0]
    assert (missing == "none") == (not (numeric & 12).any())
    other = drawn(2000)
    other[0], other[1], other[2] = np.inf, -np.inf, np.nan
    for one in (x, other):
        np.testing.assert_allclose(trees.predict(one), booster.predict(one), rtol=0, atol=1e-9)


def test_trees_count_the_weights_of_sets():
    """Half of the sets like x and half do not: the heavy half decides."""
    pytest.importorskip("lightgbm")
    x = np.random.default_rng(0).normal(size=(200, 3))
    likes = np.arange(200) % 2 == 0
    chosen = np.where(likes, x.argmax(1), x.argmin(1))
    for heavy in (likes, ~likes):
        whole = table(x, chosen, w=np.repeat(np.where(heavy, 9.0, 1.0), 3))
        choices = sw.read(whole, set="s", chosen="chosen", items=["x"], weight="w")
        model = LambdaMART(threads=1, rounds=10).fit(choices, choices)
        assert model.evaluate(choices.take(np.flatnonzero(heavy))).top1 > 0.8


def test_trees_use_the_context():
    """A context feature turns the taste for x around: no linear model can see it."""
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x, mood = rng.normal(size=(400, 3)), rng.choice([-1.0, 1.0], 400)
    whole = table(x, (mood[:, None] * x).argmax(1), mood=np.repeat(mood, 3))
    roles = {"set": "s", "chosen": "chosen", "items": ["x"], "context": ["mood"]}
    train, test = sw.split(sw.read(whole, **roles), (0.7, 0.3))
    assert LambdaMART(threads=1, rounds=60).fit(train).score(test) > 0.8
    assert SVMRank().fit(train).score(test) < 0.6


def test_trees_that_find_nothing_are_no_error():
    pytest.importorskip("lightgbm")
    choices = small(x=np.random.default_rng(0).normal(size=(6, 2)))
    model = LambdaMART(threads=1, rounds=5).fit(choices, choices)  # fewer rows than a leaf needs
    np.testing.assert_allclose(model.predict_proba(choices), 0.5)


def test_without_lightgbm_the_remedy_is_named(choices, monkeypatch):
    whole = builtins.__import__

    def without(name, *rest):
        if name == "lightgbm":
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(sw.InputError, match="trees need LightGBM: pip install lightgbm"):
        LambdaMART().fit(choices)


def test_sets_larger_than_lightgbm_takes_are_refused():
    pytest.importorskip("lightgbm")
    choices = small(x=np.arange(10_001.0)[None])
    with pytest.raises(sw.InputError, match=r"10,000 items.*limit\(max_items=10000\)"):
        LambdaMART().fit(choices, choices)


def test_an_unknown_objective_or_direction_is_refused(choices):
    model, rule = LambdaMART(), SingleFeature()
    with pytest.raises(sw.InputError, match="must be one of: rank_xendcg, lambdarank"):
        model.set_params(objective="ndcg").fit(choices)
    with pytest.raises(sw.InputError, match="must be one of: descending, ascending"):
        rule.set_params(direction="up").fit(choices)


@pytest.mark.parametrize("name", ["modecanada"])
def test_no_warning_on_real_data(name):
    choices = sw.datasets.load(name).sample(400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in LINEAR.values():
            make().fit(choices)

"""Standard errors: by hand, against simulation and the bootstrap, and the published ones."""

import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.exceptions import ConvergenceWarning

import setwise as sw
from beside import DATA, needs
from setwise.consequences import elasticities, expected_shares, willingness_to_pay
from setwise.estimators.maximum_likelihood import Estimated
from setwise.training.covariances import KINDS, maxima, sums_by_person

SWISSMETRO = sw.Utility("I(TT / 100) + I(CO * (1 - GA * only(TRAIN, SM)) / 100)", reference="SM")


def panel(people=60, times=6, items=3, spread=1.0, seed=0, names=False):
    """People with tastes of their own, who choose several times."""
    rng = np.random.default_rng(seed)
    sets = people * times
    x = rng.normal(size=(sets, items, 2))
    taste = rng.normal([1.0, -0.5], spread, (people, 2)).repeat(times, 0)
    noisy = np.einsum("sij,sj->si", x, taste) + rng.gumbel(size=(sets, items))
    columns = {
        "s": np.arange(sets).repeat(items),
        "taken": (noisy == noisy.max(1, keepdims=True)).astype(int).ravel(),
        "x0": x[:, :, 0].ravel(),
        "x1": x[:, :, 1].ravel(),
        "who": np.arange(people).repeat(times * items),
    }
    return columns | ({"mode": np.tile(list("abc"), sets)} if names else {})


def read(columns, **roles):
    return sw.read(columns, set="s", chosen="taken", items=["x0", "x1"], **roles)


def scores_by_hand(columns, coef):
    """x_chosen - sum p x of each set, the plain way."""
    x = np.stack([columns["x0"], columns["x1"]], 1).reshape(-1, 3, 2)
    e = np.exp(x @ coef)
    p = e / e.sum(1, keepdims=True)
    taken = columns["taken"].reshape(-1, 3)
    information = np.einsum("si,sij,sik->jk", p, x, x) - np.einsum(
        "sj,sk->jk", *[np.einsum("si,sij->sj", p, x)] * 2
    )
    return np.einsum("si,sij->sj", taken - p, x), np.linalg.inv(information)


def test_covariances_by_hand():
    columns = panel()
    model = sw.MNL().fit(read(columns, group="who"))
    scores, bread = scores_by_hand(columns, model.coef_)
    m, people = len(scores), scores.reshape(60, 6, 2).sum(1)
    expected = {
        "classical": bread,
        "robust": bread @ (scores.T @ scores) @ bread * m / (m - 1),
        "cluster": bread @ (people.T @ people) @ bread * 60 / 59,
    }
    for kind, one in expected.items():
        np.testing.assert_allclose(model.covariance_of(kind), one, rtol=1e-6)
        errors = model.summary(covariance=kind).standard_errors
        np.testing.assert_allclose(errors, np.sqrt(np.diag(one)), rtol=1e-6)
    assert model.default_covariance_ == "cluster"
    np.testing.assert_array_equal(model.covariance_, model.covariance_of("cluster"))
    assert "clustered by 'who' (60 people)" in str(model.summary())
    assert "alike" in str(model.summary(covariance="classical"))


def test_people_need_not_stand_together():
    columns = panel()
    whole = sw.MNL().fit(read(columns, group="who"))
    order = np.random.default_rng(1).permutation(360)
    shuffled = read(columns, group="who").take(order)
    np.testing.assert_allclose(sw.MNL().fit(shuffled).covariance_, whole.covariance_, rtol=1e-6)
    sums = sums_by_person(np.array([[1.0], [2], [4]]), np.array([1, 0, 1]))
    assert sums.tolist() == [[2.0], [5.0]]


def test_the_default_without_people():
    columns = panel()
    plain = sw.MNL().fit(read(columns))
    assert plain.default_covariance_ == "classical"
    assert "classical, for independent sets" in str(plain.summary())
    with pytest.raises(
        sw.InputError, match=r'no covariance "cluster".*read the choices with group'
    ):
        plain.summary(covariance="cluster")
    with pytest.raises(sw.InputError, match=r"covariance='hc3'.*classical"):
        plain.summary(covariance="hc3")
    one_each = sw.MNL().fit(read(columns, group="s"))
    np.testing.assert_allclose(one_each.covariance_, plain.covariance_of("robust"), rtol=1e-9)


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_only_ratios_of_weights_count(unit):
    columns = panel()
    weight = np.random.default_rng(0).uniform(0.5, 2, 360)
    models = [
        sw.MNL().fit(read(columns | {"w": (weight * by).repeat(3)}, weight="w"))
        for by in (1 / weight.mean(), unit)
    ]
    assert models[0].default_covariance_ == "robust"
    for kind in ("classical", "robust"):
        first, second = (one.covariance_of(kind) for one in models)
        np.testing.assert_allclose(first, second, rtol=1e-9)
    assert models[0].summary().aic == pytest.approx(models[1].summary().aic)
    scores, _ = scores_by_hand(columns, models[0].coef_)
    scores *= (weight / weight.mean())[:, None]
    bread = models[0].covariance_of("classical")
    expected = bread @ scores.T @ scores @ bread * 360 / 359
    np.testing.assert_allclose(models[0].covariance_, expected, rtol=1e-6)


def nested_data():
    made = sw.datasets.generate("nested", sets=400, features=2, nests=2)
    columns = dict(made.columns) | {"who": made.columns["set_id"] // 4}
    return sw.read(columns, set="set_id", chosen="chosen", group="who",
                   items=[*made.items, "category(nest)"])  # fmt: skip


ESTIMATORS: dict[str, Estimated] = {
    "mnl": sw.MNL(),
    "penalised": sw.MNL(l2=3.0),
    "lcl": sw.LinearContextLogit(),
    "within": sw.WithinSetMNL(),
    "nested": sw.NestedLogit("nest"),
    "mixed": sw.MixedMNL(2, starts=1),
}


@pytest.fixture(scope="module")
def fitted():
    plain = read(panel(people=100, spread=1.5, seed=3), group="who")
    return {name: one.fit(nested_data() if name == "nested" else plain)
            for name, one in ESTIMATORS.items()}  # fmt: skip


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_them(name, fitted):
    model, choices = fitted[name], fitted[name].training_choices()
    known = model.identified_
    robust, classical = (model.covariance_of(k)[np.ix_(known, known)]
                         for k in ("robust", "classical"))  # fmt: skip
    assert (np.linalg.eigvalsh(robust) > 0).all()
    ratio = np.diag(robust) / np.diag(classical)
    assert ((ratio > 0.2) & (ratio < 5)).all()
    assert model.people_ == len(np.unique(choices.group))


@pytest.mark.parametrize("name", ["mnl", "penalised", "lcl", "within", "nested"])
def test_the_bootstrap_agrees_with_clustering(name, fitted):
    """100 resamples know a standard error to 7 %; both differ by the second order in 1/G."""
    model = fitted[name]
    known = model.identified_
    cluster = model.summary(covariance="cluster").standard_errors[known]
    drawn = model.bootstrap(100, seed=1).summary(covariance="bootstrap").standard_errors[known]
    np.testing.assert_allclose(drawn, cluster, rtol=0.35)


def test_the_same_seed_gives_the_same_bootstrap(fitted):
    model = fitted["mnl"]
    first, again, other = (model.bootstrap(20, seed=one).covariances_["bootstrap"]
                           for one in (1, 1, 2))  # fmt: skip
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_resamples_reach_their_own_maximum():
    """Each resample's estimate is that of a fit to the drawn people."""
    choices = read(panel(people=30), group="who")
    model = sw.MNL().fit(choices)
    found = model._resampling(choices).drawn(choices.group.astype(int), 5, seed=7)
    rng = np.random.default_rng(7)
    draws = rng.integers(30, size=(5, 30))
    for estimate, people in zip(found, draws, strict=True):
        sets = np.concatenate([np.flatnonzero(choices.group == one) for one in people])
        expected = sw.MNL().fit(choices.take(sets)).coef_
        np.testing.assert_allclose(estimate, expected, atol=1e-4)


def test_resamples_without_a_maximum_are_left_out():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=40), np.zeros(40)], 1)
    chosen = (x[:, 0] < 0).astype(int)  # the larger, but for two sets
    chosen[np.argsort(np.abs(x[:, 0]))[-1:]] ^= 1
    table = {"s": np.arange(40).repeat(2), "x0": x.ravel(),
             "taken": np.stack([chosen == 0, chosen == 1], 1).ravel().astype(int)}  # fmt: skip
    model = sw.MNL().fit(sw.read(table, set="s", chosen="taken", items=["x0"]))
    with pytest.warns(ConvergenceWarning, match="resamples have no maximum"):
        model.bootstrap(60)


def test_many_maxima_at_once():
    """log L = sum_i w_i (y_i v - log(1 + exp v)): v = logit of the weighted mean of y."""
    y = np.array([1.0, 0.0, 1.0, 1.0])
    weights = np.array([[1.0, 1, 1, 1], [0, 3, 1, 0], [5, 1, 0, 0]])

    def climb(v, w):
        return (w * (y * v - np.log1p(np.exp(v)))).sum(1), (w * (y - expit(v))).sum(1)[:, None]

    found, resting = maxima(climb, np.array([0.0]), np.eye(1), weights)
    share = weights @ y / weights.sum(1)
    np.testing.assert_allclose(expit(found[:, 0]), share, atol=1e-4)
    assert resting.all()


def test_files_and_pickles_keep_covariances_and_no_data(fitted, tmp_path):
    model = fitted["mnl"].bootstrap(20)
    model.save(tmp_path / "m.setwise")
    for again in (sw.load(tmp_path / "m.setwise"), pickle.loads(pickle.dumps(model))):
        for kind in KINDS:
            assert str(again.summary(covariance=kind)) == str(model.summary(covariance=kind))
        with pytest.raises(sw.InputError, match="not in its file"):
            again.bootstrap()


def coverage(panels, seed, people=8_000):
    """How many of the 95 % intervals of the default covariance hold the population's values.

    The logit is not the model of people with different tastes: what it estimates is where its
    likelihood has its maximum in a very large panel.
    """
    truth = sw.MNL().fit(read(panel(people=people, times=5, spread=0.7, seed=10**6))).coef_
    inside = dict.fromkeys(("classical", "cluster"), 0)
    for number in range(panels):
        model = sw.MNL().fit(read(panel(people=150, times=8, spread=0.7, seed=seed + number),
                                  group="who"))  # fmt: skip
        assert model.default_covariance_ == "cluster"
        for kind in inside:
            errors = model.summary(covariance=kind).standard_errors
            inside[kind] += int((np.abs(model.coef_ - truth) < 1.959964 * errors).sum())
    return inside


def test_default_intervals_cover_in_small():
    """40 panels, 80 intervals: fails by chance once in 10,000 if they cover 94 %."""
    inside = coverage(40, seed=0)
    assert binom.cdf(inside["cluster"], 80, 0.94) > 1e-4
    assert inside["classical"] < inside["cluster"]


@pytest.mark.slow
def test_default_intervals_cover_in_500_panels():
    inside = coverage(500, seed=1000, people=40_000)
    assert 0.93 <= inside["cluster"] / 1000 <= 0.97
    assert inside["classical"] / 1000 < 0.9


# Known answers


@pytest.fixture(scope="module")
def swissmetro():
    table = pl.read_csv(DATA / "swissmetro_raw.tsv", separator="\t").filter(
        pl.col("PURPOSE").is_in([1, 3]), pl.col("CHOICE") != 0
    )
    return sw.read_wide(
        table, chosen="CHOICE", alternatives={1: "TRAIN", 2: "SM", 3: "CAR"},
        items=["{alt}_TT", "{alt}_CO"], available="{alt}_AV", context=["GA"], group="ID",
    )  # fmt: skip


@needs("swissmetro_raw.tsv")
def test_swissmetro_logit(swissmetro):
    model = sw.MNL(SWISSMETRO).fit(swissmetro)
    published = {"classical": 0.057, "robust": 0.104, "cluster": 0.238}
    for kind, error in published.items():
        assert round(float(model.summary(covariance=kind).standard_errors[0]), 3) == error
    found = model.summary()
    assert found.log_likelihood == pytest.approx(-5331.252, abs=5e-4)
    assert found.null_log_likelihood == pytest.approx(-6964.663, abs=5e-4)
    assert found.constants_log_likelihood == pytest.approx(-5864.998, abs=5e-4)  # biogeme's
    assert (found.people, found.sets, found.rows) == (752, 6768, len(swissmetro.rows))
    assert round(found.rho2, 3) == 0.235
    assert round(found.adjusted_rho2, 3) == 0.234
    assert found.constants_rho2 == pytest.approx(1 - 5331.252 / 5864.998, abs=1e-6)


@needs("swissmetro_raw.tsv")
def test_swissmetro_nested_logit(swissmetro):
    model = sw.NestedLogit(nests={"existing": ["TRAIN", "CAR"]}, utility=SWISSMETRO).fit(swissmetro)
    assert model.log_likelihood_ == pytest.approx(-5236.900, abs=5e-4)
    assert round(1 / model.lambda_["existing"], 3) == 2.054


def test_measures_are_clustered_by_person():
    columns = panel(people=50, times=8)
    together = {name: values.copy() for name, values in columns.items()}
    choices, alone = read(together, group="who"), read(together)
    model = sw.MNL().fit(alone)
    found, plain = model.evaluate(choices), model.evaluate(alone)
    assert dict(found) == dict(plain)
    each = model.outcomes(alone).nll
    by_person = each.reshape(50, 8).mean(1)
    assert found.standard_errors["nll"] == pytest.approx(by_person.std(ddof=1) / np.sqrt(50))
    assert plain.standard_errors["nll"] == pytest.approx(each.std(ddof=1) / np.sqrt(400))
    assert "400 sets of 50 people, errors clustered" in repr(found)


# What follows from the same covariance


@pytest.fixture(scope="module")
def priced():
    table = panel(people=80, spread=0.4, names=True)
    choices = sw.read(table, set="s", chosen="taken", items=["x0", "x1"], alternative="mode",
                      group="who")  # fmt: skip
    return sw.MNL("x0 + x1").fit(choices), choices


def test_willingness_to_pay_by_every_covariance(priced):
    model, _ = priced
    b, worth = model.coef_, -model.coef_[0] / model.coef_[1]
    for kind in ("classical", "robust", "cluster"):
        V = model.covariance_of(kind)
        slope = np.array([-1 / b[1], b[0] / b[1] ** 2])
        found = willingness_to_pay(model, "x1", covariance=kind)
        assert found["x0"] == pytest.approx(worth)
        assert found.standard_errors[0] == pytest.approx(np.sqrt(slope @ V[:2, :2] @ slope))
    default = willingness_to_pay(model, "x1")
    assert (
        default.standard_errors[0]
        == willingness_to_pay(model, "x1", covariance="cluster").standard_errors[0]
    )
    assert "cluster standard errors" in str(default)


def test_krinsky_and_robb(priced):
    """The quantiles of a ratio of normals, drawn here in another way."""
    model, _ = priced
    found = willingness_to_pay(model, "x1", interval="krinsky_robb", draws=200_000)
    V = model.covariance_[:2, :2]
    draws = np.random.default_rng(5).multivariate_normal(model.coef_[:2], V, 200_000)
    expected = np.quantile(-draws[:, 0] / draws[:, 1], [0.025, 0.975])
    np.testing.assert_allclose(found.intervals[0], expected, rtol=0.02)
    assert "Krinsky and Robb" in str(found)
    again = willingness_to_pay(model, "x1", interval="krinsky_robb", draws=200_000)
    np.testing.assert_array_equal(found.intervals, again.intervals)
    with pytest.raises(sw.InputError, match="delta"):
        willingness_to_pay(model, "x1", interval="fieller")


def test_errors_of_shares_and_elasticities(priced):
    """Against draws of the estimates, which the delta method approximates."""
    model, choices = priced
    shares = expected_shares(model, choices, "mode", "cluster")
    moved = elasticities(model, choices, "x1", covariance="cluster")
    rng = np.random.default_rng(0)
    drawn = rng.multivariate_normal(model.coef_, model.covariance_, 150)
    others = [model.with_parameters(one) for one in drawn]
    spread = np.std([expected_shares(one, choices, "mode").values for one in others], axis=0)
    np.testing.assert_allclose(shares.estimation_errors, spread, rtol=0.3)
    own = np.std([elasticities(one, choices, "x1").own for one in others[:60]])
    assert moved.estimation_errors[0] == pytest.approx(own, rel=0.4)
    assert "of the estimates" in str(shares)
    assert "standard errors of the estimates" in str(moved)
    with pytest.raises(sw.InputError, match="has no covariance of estimates"):
        expected_shares(sw.RandomChoice().fit(choices), choices, "mode", "cluster")


def test_shares_and_elasticities_count_people(priced):
    model, choices = priced
    alone = replace(choices, group=None)
    p = model.predict_proba(choices).reshape(-1, 3)[:, 0].reshape(80, 6).mean(1)
    found = expected_shares(model, choices, "mode")
    assert found.standard_errors[0] == pytest.approx(p.std(ddof=1) / np.sqrt(80), rel=1e-6)
    plain, people = (elasticities(model, one, "x1").interval() for one in (alone, choices))
    assert plain != people

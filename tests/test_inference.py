"""Tests between models, by hand and on data where the answer is known; tables of results."""

import numpy as np
import pytest
from scipy.stats import chi2, norm

import setwise as sw
from test_covariances import panel


def read(columns, **roles):
    return sw.read(columns, set="s", chosen="taken", items=["x0", "x1"], **roles)


@pytest.fixture(scope="module")
def choices():
    return read(panel(spread=0.0, names=True), alternative="mode")


@pytest.fixture(scope="module")
def repeated():
    return read(panel(people=60, spread=1.5, names=True), alternative="mode", group="who")


def test_the_likelihood_ratio_by_hand(choices):
    small, large = (sw.MNL(one).fit(choices) for one in ("x0", "x0 + x1"))
    found = sw.likelihood_ratio(small, large)
    statistic = 2 * (large.log_likelihood_ - small.log_likelihood_)
    assert (found.statistic, found.degrees) == (pytest.approx(statistic), 1)
    assert found.p == pytest.approx(chi2.sf(statistic, 1))
    assert found.warnings == ()
    with pytest.raises(sw.InputError, match="give the small model first"):
        sw.likelihood_ratio(large, small)
    with pytest.raises(sw.InputError, match="different choices"):
        sw.likelihood_ratio(sw.MNL("x0").fit(choices.take(np.arange(100))), large)
    with pytest.raises(sw.InputError, match="NestedLogit or MixedMNL"):
        sw.likelihood_ratio(3, large)


def test_one_wald_parameter_is_z_squared(repeated):
    small, large = (sw.MNL(one).fit(repeated) for one in ("x0", "x0 + x1"))
    place = large.parameter_names_.index("x1")
    for kind in ("classical", "robust", "cluster"):
        z = large.summary(covariance=kind).z[place]
        assert sw.wald(small, large, kind).statistic == pytest.approx(z**2)
    assert sw.wald(small, large).statistic == sw.wald(small, large, "cluster").statistic
    assert "alike" in sw.likelihood_ratio(small, large).warnings[0]


def test_the_three_tests_agree_where_the_small_model_is_nearly_right(choices):
    """All three have the same first order; the score has the form of the classical one."""
    near = sw.Utility("x0 + x1", fixed={"x1": -0.42})
    small, large = sw.MNL(near).fit(choices), sw.MNL("x0 + x1").fit(choices)
    ratio = sw.likelihood_ratio(small, large)
    walds, score = sw.wald(small, large), sw.score_test(small, large)
    assert ratio.degrees == walds.degrees == score.degrees == 1
    assert 0.05 < ratio.statistic < 10
    assert walds.statistic == pytest.approx(ratio.statistic, rel=0.1)
    assert score.statistic == pytest.approx(ratio.statistic, rel=0.1)


def test_the_score_by_hand(choices):
    """Against no coefficient at all: g = sum (x_chosen - mean x), V = sum of the sets' spreads."""
    none = sw.Utility("x0 + x1 | 0", fixed={"x0": 0.0})
    small, large = sw.MNL(none).fit(choices), sw.MNL("x0 + x1 | 0").fit(choices)
    x = np.stack([choices.columns[n].values for n in ("x0", "x1")], 1).reshape(-1, 3, 2)
    e = np.exp(x[:, :, 1] * small.coef_[1])
    p = e / e.sum(1, keepdims=True)
    mean = np.einsum("si,sij->sj", p, x)
    taken = x[np.arange(len(x)), choices.chosen]
    each = taken - mean
    information = np.einsum("si,sij,sik->jk", p, x, x) - np.einsum("sj,sk->jk", mean, mean)
    slope = information[0, 1] / information[1, 1]
    g, terms = each[:, 0].sum(), each[:, 0] - each[:, 1] * slope
    classical = g**2 / (information[0, 0] - information[0, 1] * slope)
    assert sw.score_test(small, large).statistic == pytest.approx(classical, rel=1e-6)
    robust = sw.score_test(small, large, "robust")
    assert robust.statistic == pytest.approx(g**2 / (terms @ terms), rel=1e-6)
    with pytest.raises(sw.InputError, match=r'no covariance "cluster"'):
        sw.score_test(small, large, "cluster")


def test_a_clustered_score_counts_people(repeated):
    """People with tastes of their own: products of x that mean nothing are found too often."""
    small, large = sw.MNL("x0").fit(repeated), sw.MNL("x0 + x1").fit(repeated)
    classical = sw.score_test(small, large, "classical")
    assert sw.score_test(small, large).statistic < classical.statistic


def test_a_nest_is_tested_against_one():
    made = sw.datasets.generate("nested", sets=600, features=2, nests=2)
    data = sw.read(made.columns, set="set_id", chosen="chosen",
                   items=[*made.items, "category(nest)"])  # fmt: skip
    plain = sw.read(made.columns, set="set_id", chosen="chosen", items=made.items)
    small, large = sw.MNL().fit(plain), sw.NestedLogit("nest").fit(data)
    found = sw.wald(small, large)
    known = large.identified_[2:]
    V = large.covariance_[2:, 2:][np.ix_(known, known)]
    apart = (large.lambdas_ - 1)[known]
    assert found.statistic == pytest.approx(apart @ np.linalg.solve(V, apart))
    with pytest.raises(sw.InputError, match="use likelihood_ratio or wald"):
        sw.score_test(small, large)


def test_vuong_by_hand(choices, repeated):
    first, second = (sw.MNL(one).fit(choices) for one in ("x0", "x1"))
    d = second.outcomes(choices).nll - first.outcomes(choices).nll
    z = d.mean() / (d.std(ddof=1) / np.sqrt(len(d)))
    found = sw.vuong(first, second, choices)
    assert (found.statistic, found.p) == (pytest.approx(z), pytest.approx(2 * norm.sf(abs(z))))
    assert sw.vuong(second, first, choices).statistic == pytest.approx(-z)
    people = (second.outcomes(repeated).nll - first.outcomes(repeated).nll).reshape(60, 6).mean(1)
    clustered = people.mean() / (people.std(ddof=1) / np.sqrt(60))
    assert sw.vuong(first, second, repeated).statistic == pytest.approx(clustered)
    with pytest.raises(sw.InputError, match="the same probability"):
        sw.vuong(first, first, choices)


def test_ben_akiva_and_swait_by_hand(choices):
    first, second = (sw.MNL(one).fit(choices) for one in ("x0", "x1 | 0"))
    a, b = first.summary(), second.summary()
    assert a.adjusted_rho2 > b.adjusted_rho2
    inside = -2 * a.null_log_likelihood * (a.adjusted_rho2 - b.adjusted_rho2) + (3 - 1)
    found = sw.ben_akiva_swait(second, first)
    assert found.p == pytest.approx(norm.sf(np.sqrt(inside)))
    assert "the second model" in found.hypothesis


def test_measures_of_fit_by_hand(repeated):
    found = sw.MNL("x0 + x1").fit(repeated).summary()
    value, zero, constants = (
        found.log_likelihood, found.null_log_likelihood, found.constants_log_likelihood,
    )  # fmt: skip
    counts = np.bincount(repeated.chosen)
    assert constants == pytest.approx(counts @ np.log(counts / 360), abs=1e-5)
    assert zero == pytest.approx(-360 * np.log(3))
    assert found.adjusted_rho2 == pytest.approx(1 - (value - 4) / zero)
    assert found.constants_rho2 == pytest.approx(1 - value / constants)
    assert found.adjusted_constants_rho2 == pytest.approx(1 - (value - 4) / (constants - 2))
    assert (found.rows, found.sets, found.people) == (1080, 360, 60)
    only = sw.MNL("| 1").fit(repeated)
    assert only.log_likelihood_ == pytest.approx(constants, abs=1e-5)


def test_constants_alone_where_not_all_is_offered():
    columns = panel(names=True)
    kept = np.random.default_rng(0).random(len(columns["s"])) < 0.7
    kept |= columns["taken"] == 1
    some = {name: values[kept] for name, values in columns.items()}
    ragged = read(some, alternative="mode").limit(min_items=2)
    expected = sw.MNL("| 1").fit(ragged).log_likelihood_
    found = sw.MNL("x0").fit(ragged).constants_log_likelihood_
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.fixture(scope="module")
def table(repeated):
    fixed = sw.Utility("x0 + x1", fixed={"x1": -0.5})
    return sw.results_table(
        {"a_b": sw.MNL("x0").fit(repeated), "both": sw.MNL("x0 + x1").fit(repeated),
         "fixed": sw.MNL(fixed).fit(repeated)}
    )  # fmt: skip


def test_a_table_has_the_numbers_of_the_summaries(table, repeated):
    model = sw.MNL("x0 + x1").fit(repeated).summary()
    rows = {row[0]: row[1:] for row in table.rows if row[0]}
    assert rows["x0"][1].rstrip("*") == f"{model.coefficients[0]:.4f}"
    below = table.rows[[row[0] for row in table.rows].index("x0") + 1]
    assert below[2] == f"({model.standard_errors[0]:.4f})"
    assert rows["x1"][::2] == ("", "-0.5000")
    assert rows["Log-likelihood"][1] == f"{model.log_likelihood:.3f}"
    assert rows["People"] == ("60",) * 3
    assert rows["Standard errors"] == ("cluster",) * 3
    assert rows["Converged"] == ("yes",) * 3


def test_a_table_in_four_forms(table):
    lines = table.text.splitlines()
    assert len({line.rstrip()[-1:] != "" for line in lines}) == 1
    assert lines[0].split() == ["a_b", "both", "fixed"]
    assert table.markdown.splitlines()[0] == "|  | a\\_b | both | fixed |"
    assert table.markdown.count("\n| ") == len(table.rows) + 1
    assert "<th>a_b</th>" in table.html
    assert table.html.count("<tr>") == len(table.rows) + 1
    assert table._repr_html_() == table.html
    latex = table.latex.splitlines()
    assert latex[:3] == [r"\begin{tabular}{lrrr}", r"\toprule", r" & a\_b & both & fixed \\"]
    assert sum(line.endswith(r"\\") for line in latex) == len(table.rows) + 1
    assert "rho\\textsuperscript{2}" in table.latex
    assert all(line.count(" & ") == 3 for line in latex if line.endswith(r"\\"))
    assert str(table) == table.text


def test_a_table_without_stars_by_another_covariance(repeated):
    model = sw.MNL("x0").fit(repeated)
    plain = sw.results_table({"m": model}, "classical", stars=False)
    assert "*" not in plain.text
    assert "classical" in plain.text
    with pytest.raises(sw.InputError, match="models"):
        sw.results_table({})

"""Latent classes over panels: by hand, recovery of known classes, membership, and files."""

import itertools
import warnings

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

import setwise as sw
from beside import DATA, needs
from setwise.choices import Encoded
from setwise.consequences import willingness_to_pay
from setwise.estimators import latent
from setwise.estimators.class_data import class_columns, learned, people_in
from setwise.training import class_starts, maximise
from setwise.training.class_starts import em_starts
from setwise.training.latent import ClassLayout, ClassLikelihood, People

RARE = 1e-4  # a right test fails once in ten thousand seeds, and the seeds are fixed
TASTES = np.array([[2.0, -1.0, 0.5], [-1.0, -1.0, 1.5]])  # the second column is shared


def panels(people=150, choices=6, income=0.0, seed=0, items=3):
    """Two kinds of people; ``income`` moves the log odds of the second one."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=people)
    second = rng.random(people) < 1 / (1 + np.exp(0.5 - income * z))
    sets = people * choices
    person = np.repeat(np.arange(people), choices)
    x = rng.normal(size=(sets, items, 3))
    utility = np.einsum("tid,td->ti", x, TASTES[second[person].astype(int)])
    chosen = (utility + rng.gumbel(size=utility.shape)).argmax(1)
    columns = {f"x{j}": x[:, :, j].ravel() for j in range(3)} | {
        "set_id": np.repeat(np.arange(sets), items),
        "chosen": np.eye(items, dtype=int)[chosen].ravel(),
        "person": np.repeat(person, items),
        "income": np.repeat(30 + 10 * z[person], items),
    }
    return columns, second


def read(columns, group="person", **options):
    return sw.read(
        columns, set="set_id", chosen="chosen", items=["x0", "x1", "x2"], group=group, **options
    )


def random_likelihood(rng):
    """Twelve sets of five people, three classes, a shared column and two columns of membership."""
    sizes = rng.integers(2, 5, 12)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    items = rng.normal(size=(offsets[-1], 3))
    data = Encoded(items, np.zeros((12, 0)), offsets, rng.integers(0, sizes), None)
    who = np.array([0, 0, 1, 1, 1, 2, 3, 3, 2, 4, 4, 0])
    known = np.column_stack([np.ones(5), rng.normal(size=(5, 2))])
    people = People(who, rng.uniform(0.5, 2, 5), known)
    return data, people, ClassLayout.of(3, np.array([False, True, False]), 3)


def by_hand(data, people, layout, parameters):
    """The formula as it is written, person by person."""
    theta, gamma = layout.split(parameters)
    total = 0.0
    for person in range(len(people)):
        odds = np.exp(people.known[person] @ gamma.T)
        sum_over_classes = 0.0
        for k, share in enumerate(odds / odds.sum()):
            product = share
            for t in np.flatnonzero(people.of_set == person):
                e = np.exp(data.items[data.offsets[t] : data.offsets[t + 1]] @ theta[k])
                product *= e[data.chosen[t]] / e.sum()
            sum_over_classes += product
        total += people.weight[person] * np.log(sum_over_classes)
    return total


def test_the_panel_likelihood_and_its_derivatives_by_hand():
    rng = np.random.default_rng(0)
    data, people, layout = random_likelihood(rng)
    likelihood = ClassLikelihood(data, people, layout)
    at, step = rng.normal(size=len(layout)), 1e-5
    value, gradient, hessian = likelihood(at)
    assert value == pytest.approx(by_hand(data, people, layout, at), rel=1e-12)
    nudges = step * np.eye(len(at))
    slopes = [
        (by_hand(data, people, layout, at + one) - by_hand(data, people, layout, at - one))
        for one in nudges
    ]
    np.testing.assert_allclose(gradient, np.array(slopes) / (2 * step), rtol=1e-6, atol=1e-8)
    curves = [likelihood(at + one)[1] - likelihood(at - one)[1] for one in nudges]
    np.testing.assert_allclose(hessian, np.array(curves) / (2 * step), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(likelihood.scores(at).sum(0), gradient, atol=1e-12)
    weights = people.weight[people.of_set]
    values, gradients = likelihood.together(at[None], weights[None])
    np.testing.assert_allclose(values, value)
    np.testing.assert_allclose(gradients[0], gradient)


def test_recovers_classes_shares_and_who_is_who():
    columns, second = panels()
    choices = read(columns)
    model = sw.LatentClass(2).fit(choices)
    truth = np.concatenate([TASTES[np.argsort([second.mean(), 1 - second.mean()])].ravel()])
    error = model.parameters_[:6] - truth
    covariance = model.covariance_of("classical")[:6, :6]
    assert error @ np.linalg.solve(covariance, error) < chi2.isf(RARE, 6)
    assert model.shares_[0] == pytest.approx(1 - second.mean(), abs=0.05)
    belongs = model.membership_probabilities(choices)
    assert belongs.columns == ["person", "class 1", "class 2"]
    assert belongs["person"].to_list() == list(range(150))
    assert ((belongs["class 2"].to_numpy() > 0.5) == second).mean() > 0.95
    before = model.membership_probabilities(
        {name: values for name, values in columns.items() if name != "chosen"}
    )
    np.testing.assert_allclose(before["class 1"], model.shares_[0])
    assert model.converged_


def test_panels_tell_more_than_single_choices_where_tastes_differ():
    columns, _ = panels()
    panel = sw.LatentClass(2).fit(read(columns))
    alone = sw.LatentClass(2).fit(read(columns, group=None))
    assert panel.log_likelihood_ > alone.log_likelihood_ + 50
    mixed = sw.MixedMNL(2).fit(read(columns))
    assert mixed.log_likelihood_ == pytest.approx(alone.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(mixed.coef_, alone.coef_, rtol=1e-6)
    errors = [np.abs(np.sort(one.coef_[:, 0]) - [-1, 2]).max() for one in (panel, alone)]
    assert errors[0] < 0.5


def test_shared_coefficients_are_one_parameter():
    choices = read(panels()[0])
    model, own = sw.LatentClass(2, shared=["x1"]).fit(choices), sw.LatentClass(2).fit(choices)
    assert model.parameter_names_ == [
        "x0 (class 1)", "x2 (class 1)", "x0 (class 2)", "x2 (class 2)", "x1",
        "share of class 1", "share of class 2",
    ]  # fmt: skip
    assert model.coef_[0, 1] == model.coef_[1, 1] == model.parameters_[4]
    assert model.coef_[0, 1] == pytest.approx(-1, abs=3 * model.standard_errors_[4])
    assert 0 <= 2 * (own.log_likelihood_ - model.log_likelihood_) < chi2.isf(RARE, 1)
    assert model.standard_errors_[4] < own.standard_errors_[1]
    worth = willingness_to_pay(model, "x1")
    assert worth["x0 (class 2)"] == pytest.approx(model.coef_[1, 0] / -model.coef_[1, 1])


def test_membership_follows_context():
    columns, _ = panels(people=400, choices=4, income=1.5)
    choices = read(columns, context=["income"])
    model = sw.LatentClass(2, membership=["income"], starts=2).fit(choices)
    plain = sw.LatentClass(2, starts=2).fit(choices)
    assert model.log_likelihood_ > plain.log_likelihood_ + 20
    assert model.parameter_names_[-2:] == [
        "membership of class 2: constant", "membership of class 2: income",
    ]  # fmt: skip
    # In the table's units: 1.5 per standard deviation of 10 around 30.
    slope, error = model.membership_[1, 1], model.standard_errors_[-1]
    sign = 1 if model.coef_[1, 0] < 0 else -1
    assert abs(sign * slope - 0.15) < 4 * error
    assert abs(sign * model.membership_[1, 0] - (-0.5 - 4.5)) < 4 * model.standard_errors_[-2]
    belongs = model.membership_probabilities(choices)
    assert model.shares_[0] == pytest.approx(belongs["class 1"].mean(), abs=0.02)
    assert "not used" not in str(model.summary())
    formula = sw.LatentClass(2, membership="income", starts=2).fit(choices)
    np.testing.assert_array_equal(formula.membership_, model.membership_)


def test_membership_goes_with_a_utility():
    columns, _ = panels(people=100, choices=4, income=1.5)
    choices = read(columns, context=["income"])
    plain = sw.LatentClass(2, membership=["income"], starts=1).fit(choices)
    model = sw.LatentClass(2, utility="x0 + x1 + x2", membership="I(income / 10)", starts=1).fit(
        choices
    )
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-9)
    assert model.feature_names_ == ["x0", "x1", "x2"]
    assert model.membership_names_ == ["I(income / 10)"]
    np.testing.assert_allclose(model.membership_[1, 1], 10 * plain.membership_[1, 1], rtol=1e-4)
    np.testing.assert_allclose(
        model.predict_proba(columns), plain.predict_proba(choices), atol=1e-5
    )


def test_a_categorys_last_level_is_the_reference_of_membership():
    columns, _ = panels(people=100, choices=4)
    columns["town"] = np.array(["a", "b"])[columns["person"] % 2]
    model = sw.LatentClass(2, membership=["town"], starts=1).fit(read(columns, context=["town"]))
    assert model.membership_names_ == ["town=a", "town=b"]
    assert model.membership_[1, 2] == 0
    assert model.identified_[-3:].tolist() == [True, True, False]


def test_what_the_model_predicts_is_the_mixture_by_hand():
    columns, _ = panels(people=60, choices=3, income=1.5)
    choices = read(columns, context=["income"])
    model = sw.LatentClass(2, membership=["income"], starts=1).fit(choices)
    x = np.stack([columns[name] for name in ("x0", "x1", "x2")], 1)
    odds = np.exp(x @ model.coef_.T).reshape(180, 3, 2)
    income = columns["income"].reshape(180, 3)[:, 0]
    shares = np.exp(np.column_stack([np.ones(180), income]) @ model.membership_.T)
    shares /= shares.sum(1, keepdims=True)
    expected = (odds / odds.sum(1, keepdims=True) * shares[:, None]).sum(2).ravel()
    np.testing.assert_allclose(model.predict_proba(columns), expected, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"membership": ["income"], "shared": ["x1"]}])
def test_a_model_file_gives_the_identical_model(options, tmp_path):
    choices = read(panels(people=60, income=1.0)[0], context=["income"])
    model = sw.LatentClass(2, starts=1, **options).fit(choices)
    model.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(choices), model.predict_proba(choices))
    assert str(loaded.summary()) == str(model.summary())
    assert loaded.get_params() == model.get_params()
    assert loaded.membership_probabilities(choices).equals(model.membership_probabilities(choices))
    scorer = sw.scoring.load_scorer(tmp_path / "model")
    np.testing.assert_allclose(
        scorer.predict_proba(choices), model.predict_proba(choices), atol=1e-6
    )


def test_weights_of_people_count_them_more_than_once():
    columns, _ = panels(people=60)
    weight = np.random.default_rng(0).integers(1, 4, 60)
    columns["w"] = weight[columns["person"]].astype(float)
    weighted = sw.LatentClass(2, starts=1).fit(read(columns, weight="w"))
    copies, size = [], len(columns["person"]) // 60
    for person, times in enumerate(weight):
        rows = np.arange(person * size, (person + 1) * size)
        for _ in range(times):
            shift = 10_000 * len(copies)
            part = {name: values[rows] for name, values in columns.items()}
            copies.append(part | {"set_id": part["set_id"] + shift,
                                  "person": part["person"] + shift})  # fmt: skip
    repeated = {name: np.concatenate([one[name] for one in copies]) for name in columns}
    model = sw.LatentClass(2, starts=1).fit(read(repeated))
    assert weighted.log_likelihood_ * weight.mean() == pytest.approx(model.log_likelihood_)
    np.testing.assert_allclose(weighted.coef_, model.coef_, rtol=1e-5)


def test_standard_errors_are_those_of_independent_people():
    choices = read(panels(people=100)[0])
    model = sw.LatentClass(2, starts=1).fit(choices)
    assert model.default_covariance_ == "cluster"
    robust, cluster = (np.diag(model.covariance_of(one))[:7] for one in ("robust", "cluster"))
    np.testing.assert_allclose(robust, cluster, rtol=0.02)  # one score per person in both
    drawn = np.diag(model.bootstrap(40).covariance_of("bootstrap"))[:7]
    assert (np.abs(np.log(drawn / cluster)) < 1.2).all()


@pytest.mark.parametrize("sample", [2_000, 60])
def test_more_starts_never_fit_worse(sample, monkeypatch):
    """Also where starts are found on a sample of the people."""
    monkeypatch.setattr(latent, "EM_SETS", sample)
    choices = read(panels(people=60, choices=3, seed=1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = [
            sw.LatentClass(3, starts=starts).fit(choices).log_likelihood_ for starts in (1, 2, 4)
        ]
    assert all(later >= earlier for earlier, later in itertools.pairwise(found))


def test_bic_chooses_the_number_of_classes():
    choices = read(panels(people=100)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [sw.LatentClass(classes, starts=1).fit(choices) for classes in range(1, 5)]
        chosen = sw.LatentClass(starts=1).fit(choices)
    values = [one.summary().bic for one in fits]
    assert chosen.classes_ == 1 + int(np.argmin(values)) == 2
    assert chosen.summary().bic == min(values)


def test_em_never_loses_and_the_climb_ends_above_it():
    """On data of 600 choices; each round of EM is at least as good as the one before."""
    choices = read(panels(people=100)[0])
    schema, whole = learned(choices, None, None)
    columns = class_columns(schema, None, None)
    people, data = people_in(choices, columns, whole, True), columns.utility(whole)
    mnl, values = maximise(data), []
    for steps in range(1, 12):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(class_starts, "EM_STEPS", steps)
            found = em_starts(data, people, mnl, columns.shared, 2, 1, 0)
        values.append(found[0][0])
    assert (np.diff(values) > -1e-3).all()
    assert values[-1] > values[0] + 10
    best = sw.LatentClass(2, starts=1).fit(choices).log_likelihood_
    assert values[-1] <= best + 1e-9


def test_context_that_tells_classes_without_error_is_told():
    columns, second = panels(people=100, choices=8)
    columns["kind"] = second.astype(float)[columns["person"]]
    with pytest.warns(ConvergenceWarning, match="context tells who is in class 2 without error"):
        model = sw.LatentClass(2, membership=["kind"], starts=1).fit(
            read(columns, context=["kind"])
        )
    assert not model.converged_


@pytest.mark.slow
def test_validation_people_choose_the_number_of_classes():
    train, valid = sw.split(read(panels(people=200)[0]), (0.7, 0.3), by="group")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = sw.LatentClass(choose="validation", starts=2).fit(train, valid)
        again = sw.LatentClass(choose="validation", starts=2).fit(read(panels(people=200)[0]))
    assert model.classes_ == 2
    assert again.classes_ >= 2


def test_wrong_arguments_are_refused_with_a_remedy():
    columns, _ = panels(people=20, choices=2)
    columns["mood"] = columns["set_id"] * 1.0
    columns["w"] = columns["set_id"] + 1.0
    choices = read(columns, context=["income", "mood"])
    for arguments, message in (
        ({"membership": ["mood"]}, r"'mood' must be the same in all sets of a person.*person=0"),
        ({"membership": ["x0"]}, "'x0', which is not a context column; there are: income, mood"),
        ({"membership": "log(income)"}, r"'log\(income\)', which is not a column; give a utility"),
        ({"shared": ["x9"]}, "'x9', which has no coefficient; there are: x0, x1, x2"),
        ({"classes": 21}, "more than the 20 people"),
        ({"membership": []}, "membership"),
    ):
        with pytest.raises(sw.InputError, match=message):
            sw.LatentClass(**({"classes": 2} | arguments)).fit(choices)
    with pytest.raises(sw.InputError, match="weights must be the same in all sets"):
        sw.LatentClass(2).fit(read(columns, weight="w"))


SWISSMETRO = sw.Utility(
    "I(TT / 100) + I(CO * (1 - GA * only(TRAIN, SM)) / 100)", reference="SM"
)  # fmt: skip


@pytest.fixture(scope="module")
def swissmetro():
    """As in shared/data/README.md: 6,768 choices of 752 travellers."""
    table = pl.read_csv(DATA / "swissmetro_raw.tsv", separator="\t").filter(
        pl.col("PURPOSE").is_in([1, 3]), pl.col("CHOICE") != 0
    )
    return sw.read_wide(
        table, chosen="CHOICE", alternatives={1: "TRAIN", 2: "SM", 3: "CAR"},
        items=["{alt}_TT", "{alt}_CO"], available="{alt}_AV", context=["GA", "INCOME"], group="ID",
    )  # fmt: skip


@needs("swissmetro_raw.tsv")
@pytest.mark.slow
def test_swissmetro_with_panels_is_far_above_single_choices(swissmetro):
    """The logit has -5331.252, a mixed logit with a normal time coefficient and panels -4360.2."""
    one = sw.LatentClass(1, utility=SWISSMETRO).fit(swissmetro)
    assert one.log_likelihood_ == pytest.approx(-5331.252, abs=5e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        three = sw.LatentClass(3, utility=SWISSMETRO).fit(swissmetro)
    assert three.log_likelihood_ > -4360.2

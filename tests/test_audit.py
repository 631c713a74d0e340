"""The audit: planted faults are found and nothing else is; known answers; its page and command."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise.auditing import CHECKS, Audit, AuditLimits
from setwise.auditing.calibration import calibration_findings
from setwise.auditing.duplicates import pairs_together
from setwise.auditing.members import members_of
from setwise.auditing.sample import Sample, raised
from setwise.cli import app
from setwise.cli.source import signs_of
from setwise.reports import write_audit

SIGNS = {"price": -1, "stars": 1, "time": -1}
FEW = {"rounds": 25, "leaves": 6, "threads": 1}


def hotels(sets: int, stars: float, seed: int) -> pl.DataFrame:
    """Choices by a logit; ``stars`` is the weight of that column, which should be above 0."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(sets), rng.integers(2, 6, size=sets))
    table = {
        "trip": owner,
        "price": rng.uniform(50, 150, len(owner)).round(2),
        "stars": rng.integers(1, 6, len(owner)),
        "time": rng.uniform(0, 40, len(owner)).round(1),
        "season": np.array(["low", "high"])[(owner % 3 == 0).astype(int)],
    }
    utility = -0.03 * table["price"] + stars * table["stars"] - 0.05 * table["time"]
    utility = utility + rng.gumbel(size=len(owner))
    best = np.maximum.reduceat(utility, np.flatnonzero(np.diff(owner, prepend=-1)))
    return pl.DataFrame(table | {"taken": (utility == best[owner]).astype(int)})


def read(table):
    return sw.read(table, set="trip", chosen="taken", items=["price", "stars", "time"],
                   context=["season"])  # fmt: skip


@pytest.fixture(scope="module")
def planted():
    """Training and other sets in which more stars lower the probability."""
    return read(hotels(800, -0.4, 0)), read(hotels(500, -0.4, 1))


@pytest.fixture(scope="module")
def logit(planted):
    return sw.MNL().fit(planted[0])


@pytest.fixture(scope="module")
def found(logit, planted):
    return sw.audit(logit, planted[1], SIGNS)


# What is planted is found, and nothing else


def test_a_planted_wrong_sign_is_found_and_nothing_else(found):
    assert [(one.check, one.subject) for one in found.at_least("look")] == [("sign", "stars")]
    (wrong,) = found.at_least("fail")
    assert wrong.share > 0.99
    assert wrong.examples[0].before > wrong.examples[0].after
    assert wrong.examples[0].what.startswith("stars=")
    assert found.verdict == "fail"
    assert set(CHECKS) == {one.check for one in found.findings}


def test_trees_that_are_constrained_elsewhere_fail_in_the_planted_column_alone(planted):
    train, other = planted
    trees = sw.BoostedLogit(monotone={"price": -1, "time": -1}, **FEW).fit(train)
    signs = sw.audit(trees, other, SIGNS).of("sign")
    assert {one.subject: one.verdict for one in signs} == {
        "price": "ok", "stars": "fail", "time": "ok",
    }  # fmt: skip
    assert [one.numbers["share_beyond_rounding"] for one in signs if one.subject != "stars"] == [
        0, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("model", [sw.MNL(monotone=SIGNS), sw.BoostedLogit(monotone=SIGNS, **FEW)],
                         ids=["MNL", "BoostedLogit"])  # fmt: skip
def test_constrained_models_have_no_wrong_sign(model, planted):
    train, other = planted
    signs = sw.audit(model.fit(train), other, SIGNS).of("sign")
    assert [one.verdict for one in signs] == ["ok"] * 3
    assert [one.numbers["share_beyond_rounding"] for one in signs] == [0, 0, 0]


def test_a_sign_that_is_guessed_asks_and_never_fails(logit, planted):
    found = sw.audit(logit, planted[1])
    assert found.guessed == SIGNS
    assert found.signs == {}
    assert found.verdict == "look"
    (asked,) = (one for one in found.of("sign") if one.verdict == "look")
    assert asked.sentence.endswith("Is it right that more of it raises the probability? "
                                   "Say so with signs=.")  # fmt: skip


def test_names_suggest_signs_by_their_words():
    from setwise.auditing.expected import price_by_name, signs_by_name

    table = {"set": [1, 1], "trainFare": [1, 2], "timetable": [3, 4], "user_rating": [1, 5],
             "chosen": [0, 1], "wait_min": [2, 3]}  # fmt: skip
    schema = sw.Schema.fit(sw.read(table, set="set", chosen="chosen"))
    assert signs_by_name(schema) == {"trainFare": -1, "user_rating": 1, "wait_min": -1}
    assert price_by_name(schema) == "trainFare"


# Known answers


def test_steps_stay_within_the_range():
    x = np.append(np.linspace(0, 100, 101), np.nan)
    little, much = raised(x).values()
    assert little[0] == pytest.approx(0.9)
    assert much[0] == pytest.approx(9.0)
    assert np.isnan(much[[-1, -2, -9]]).all()
    assert raised(np.array([0.0, 1.0, 1.0]))["one level"].tolist()[0] == 1.0


def test_a_copy_in_a_logit_has_its_share_by_hand(logit, planted):
    sample = Sample(logit, planted[1].sample(50), AuditLimits(), 0)
    rows = np.arange(len(sample.log_p))
    p = np.exp(sample.log_p)
    np.testing.assert_allclose(pairs_together(sample, rows), 2 * p / (1 + p), rtol=1e-5)


def test_copies_come_before_an_outside_option():
    table = {"set": [1, 1, 2, 2], "x": [0.0, 1.0, 2.0, 0.0], "chosen": [1, 0, 0, 0]}
    choices = sw.read(table, set="set", chosen="chosen", on_none="outside")
    sample = Sample(sw.RandomChoice().fit(choices), choices, AuditLimits(), 0)
    np.testing.assert_allclose(pairs_together(sample, np.arange(4)), 2 / 4)


def test_a_logit_has_no_violation_of_regularity_at_all(found):
    (one,) = found.of("regularity")
    assert (one.verdict, one.share) == ("ok", 0.0)
    assert one.numbers["share_of_pairs_beyond_rounding"] == 0
    assert one.numbers["share_of_pairs"] == 0


def test_decoys_are_told_by_what_dominates_them():
    drawn = sw.datasets.generate("decoy", sets=800, seed=1).choices
    model = sw.WithinSetMNL().fit(drawn)
    (one,) = sw.audit(model, drawn, {"x1": 1, "x2": 1}).of("regularity")
    assert one.verdict == "look"
    assert one.numbers["dominated"] > 0.4
    assert "effect of decoys" in one.sentence
    assert one.examples[0].after > one.examples[0].before
    (blind,) = sw.audit(model, drawn).of("regularity")
    assert "only an ensemble or a sign of a column can tell" in blind.sentence


def test_members_of_an_ensemble_add_up_to_it(planted):
    training = sw.Training(epochs=2)
    model = sw.SDW(2, hidden=2, ensemble=2, training=training).fit(planted[0].sample(100))
    encoded = model.schema_.encode(planted[1].sample(20))
    members = members_of(model)
    whole = sum(share * np.exp(log_p(encoded)) for share, log_p in members)
    np.testing.assert_allclose(whole, np.exp(model.row_log_probabilities(encoded)), rtol=1e-5)


def test_willingness_to_pay_is_that_of_the_coefficients(found, logit):
    b = dict(zip(logit.feature_names_, logit.coef_, strict=True))
    worth = {one.subject: one for one in found.of("willingness to pay")}
    assert worth.keys() == {"stars", "time"}
    for column, one in worth.items():
        assert one.numbers["estimate"] == pytest.approx(-b[column] / b["price"])
        assert one.numbers["median"] == pytest.approx(-b[column] / b["price"], rel=0.1)
    assert worth["time"].numbers["share_negative"] == 1


def test_an_extreme_worth_is_worth_a_look(planted):
    """If the price hardly matters, everything is worth a fortune."""
    _, other = planted
    price = other.columns["price"].values
    model = sw.MNL("price + time").fit(other).with_parameters(np.array([-0.0005, -0.2]))
    (one,) = sw.audit(model, other, price="price").of("willingness to pay")
    assert np.ptp(price) < 400 * 40
    assert (one.verdict, one.share) == ("look", 1.0)
    assert "worth more than the whole range of 'price'" in one.sentence


def test_beyond_the_range_logits_go_on_and_trees_stand_still(planted, found):
    assert {one.verdict for one in found.of("beyond the range")} == {"ok"}
    trees = sw.BoostedLogit(within_set=False, **FEW).fit(planted[0])
    beyond = sw.audit(trees, planted[1], SIGNS).of("beyond the range")
    assert [one.numbers["still_above"] for one in beyond] == [1.0] * 3
    assert [one.share for one in beyond] == [0.0] * 3


def test_a_turn_beyond_the_range_is_found(planted):
    """The logit of a parabola whose top is at the end of the range."""
    train, other = planted
    model = sw.MNL("I(price * (310 - price)) + time").fit(train)
    model = model.with_parameters(np.array([1e-3, -0.05]))
    one = next(one for one in sw.audit(model, other).of("beyond the range")
               if one.subject == "price")  # fmt: skip
    assert one.verdict == "look"
    assert one.numbers["turns_above"] > 0.5
    assert one.numbers["turns_below"] < 0.1


def test_calibration_that_is_off_fails_and_names_the_group(logit, planted):
    _, other = planted
    season = other.context["season"].text()
    swapped = np.where(season == "high", (other.chosen + 1) % other.sizes, other.chosen)
    off = replace(other, chosen=swapped)
    overall, *groups = calibration_findings(Sample(logit, off, AuditLimits(), 0), off, None)
    assert overall.verdict == "fail"
    by = {one.subject: one for one in groups}
    assert by.keys() == {"items in the set", "season"}
    assert by["season"].verdict == "fail"
    assert "'high' is the furthest off" in by["season"].sentence
    gap = by["season"].numbers["gap of low"]
    assert abs(gap) < 4 * by["season"].numbers["standard error of low"]


def test_alternatives_are_compared_with_their_choices():
    trips = sw.datasets.load("swissmetro").sample(400)
    modes = ["is_train", "is_sm", "is_car"]
    model = sw.MNL().fit(trips)
    one = sw.audit(model, trips, by=modes).of("calibration")[-1]
    assert one.subject == "is_train, is_sm, is_car"
    # A logit with constants gives each alternative its share in training.
    assert all(abs(one.numbers[f"gap of {mode}"]) < 0.2 for mode in modes)
    shares = sw.consequences.expected_shares(model, trips, modes)
    taken = trips.columns["is_sm"].values[trips.offsets[:-1] + trips.chosen].mean()
    gap = taken - shares["is_sm"]
    assert one.numbers["gap of is_sm"] == pytest.approx(gap, abs=1e-6)  # offered in every set


def test_without_choices_calibration_is_not_checked(logit):
    table = hotels(60, 1.0, 2).drop("taken")
    (one,) = sw.audit(logit, table, SIGNS).of("calibration")
    assert "not checked" in one.sentence
    again = sw.audit(logit, hotels(60, 1.0, 2), SIGNS)
    assert "not checked" not in again.of("calibration")[0].sentence


# The result, its page and its command


def test_the_same_numbers_in_all_forms(found, tmp_path):
    plain = json.loads(json.dumps(found.to_json()))
    frame = found.to_frame()
    assert frame["verdict"].to_list() == [one["verdict"] for one in plain["findings"]]
    assert plain["verdict"] == "fail"
    assert frame.columns == ["check", "subject", "verdict", "share", "size", "sentence"]
    path = tmp_path / "audit.html"
    write_audit(found, path)
    page = path.read_text("utf-8")
    for text in (str(found).splitlines()[0].partition(",")[0], *CHECKS.values()):
        assert text.replace("'", "&#39;") in page
    assert not re.search(r"(?:src|href)=.?(?:https?:)?//|<script|<link", page)
    assert "<table" in found._repr_html_()
    write_audit(found, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == path.read_bytes()


@pytest.fixture(scope="module")
def files(logit, planted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    logit.save(folder / "logit.setwise")
    hotels(300, -0.4, 3).write_parquet(folder / "hotels.parquet")
    return folder


def run(files, *arguments):
    words = ["audit", str(files / "logit.setwise"), str(files / "hotels.parquet"), *arguments]
    return CliRunner().invoke(app, words)


def test_the_exit_code_is_for_continuous_integration(files):
    fine = run(files, "--sign", "price=-1,time=-1", "--json")
    assert fine.exit_code == 0, fine.output
    assert json.loads(fine.stdout)["signs"] == {"price": -1, "time": -1}
    assert run(files, "--sign", "price=-1,time=-1", "--fail-on", "look").exit_code == 1
    wrong = run(files, "--sign", "stars=1", "--report", str(files / "page.html"))
    assert wrong.exit_code == 1
    assert "fail  sign 'stars'" in wrong.stdout
    assert (files / "page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sign", "stars"], "must be a column and 1 or -1"),
        (["--sign", "zz=1"], "no item column 'zz'"),
        (["--price", "season"], "context, equal for all items"),
        (["--by", "zz"], "zz"),
        (["--report", "page.pdf"], "page.pdf"),
    ],
)
def test_the_command_refuses_in_one_sentence(files, arguments, said):
    done = run(files, *arguments)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)


def test_signs_are_written_as_a_list():
    assert signs_of("--sign", "a=b=-1") == {"a=b": -1}
    with pytest.raises(InputError, match="must be a column and 1 or -1"):
        signs_of("--sign", "price=2")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"signs": {"price": 2}}, "must be 1 or -1"),
        ({"signs": {"zz": 1}}, "no item column 'zz'"),
        ({"signs": {"season": 1}}, "context, equal for all items"),
        ({"price": "zz"}, "no item column 'zz'"),
        ({"max_sets": 0}, "max_sets=0"),
        ({"limits": 3}, "setwise.auditing.AuditLimits"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(logit, planted, arguments, said, unchecked_types):
    with pytest.raises(InputError, match=said):
        sw.audit(logit, planted[1], **arguments)


def test_limits_say_what_counts():
    limits = AuditLimits(look=0.1, fail=0.2)
    assert [limits.of_share(one, True) for one in (0.1, 0.15, 0.3)] == ["ok", "look", "fail"]
    assert limits.of_share(0.3, False) == "look"
    with pytest.raises(InputError, match="look=2"):
        AuditLimits(look=2.0)
    none = Audit("MNL", "", 0, {}, {}, None, limits, ())
    assert (none.verdict, none.at_least("ok")) == ("ok", ())

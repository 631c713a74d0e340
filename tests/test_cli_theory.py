"""``setwise theory``: selves of given choices, triple bases, and the theory of a fitted model."""

import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise.cli import app
from setwise.paper.theory import (
    ChoiceFunction,
    bounds,
    has_triple_basis,
    rationalise,
    separable_regions,
    triple_basis,
)
from setwise.paper.theory.model_report import examine_theory, write_theory_report
from setwise.paper.theory.rationalise_report import (
    MOST_SELVES,
    basis_verdicts,
    rationalisation_json,
    set_rows,
    write_rationalisation,
)

DRINKS = "ab:a,bc:b,ac:c,abc:a"


def run(*words):
    return CliRunner().invoke(app, ["theory", *map(str, words)])


def read(*words):
    done = run(*words, "--json")
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    return json.loads(done.stdout)


def needs_no_network(page: str) -> bool:
    return not re.search(r"(?:src|href)=.?(?:https?:)?//|url\((?!#)|@import|<script|<link", page)


# rationalise


def test_choices_violations_selves_and_scores_are_shown():
    done = run("rationalise", DRINKS)
    assert done.exit_code == 0, done.output
    found = rationalise(ChoiceFunction.from_table({"ab": "a", "bc": "b", "ac": "c", "abc": "a"}))
    assert "{a b} -> a, {a c} -> c" in done.stdout
    assert "violate IIA: {a c}" in done.stdout
    assert found.describe() in done.stdout
    assert "a 4, b 2, c 0" in done.stdout
    assert "in each of the 7 subsets, the choice has strictly" in done.stdout


def test_an_order_violates_nothing():
    done = run("rationalise", "ab:a,bc:b,ac:a,abc:a")
    assert "violate IIA: none" in done.stdout
    assert "1 self: a base order and no triple basis" in done.stdout


def test_the_json_can_be_checked_by_hand():
    found = read("rationalise", "--random", 4, "--seed", 3, "--rho", 2)
    given_by_lot = ChoiceFunction.random(4, seed=3)
    assert len(found["sets"]) == 11
    assert found["violations"] == [list(one) for one in given_by_lot.violations()]
    u = np.array(found["utilities"])
    for one in found["sets"]:
        places = [found["items"].index(name) for name in one["set"]]
        scores = (np.ptp(u[:, places], axis=1) ** 2) @ u[:, places]
        assert scores.tolist() == list(one["scores"].values())
        assert one["set"][int(np.argmax(scores))] == one["choice"]
        assert one["choice"] == given_by_lot.choice(one["set"])
        assert one["violates"] == (one["set"] in found["violations"])


@settings(max_examples=30)
@given(st.data())
def test_any_choices_on_three_letters_come_back(data):
    letters = data.draw(st.lists(st.sampled_from("abcdXYZé"), min_size=3, max_size=3, unique=True))
    sets = [s for size in (2, 3) for s in itertools.combinations(letters, size)]
    choices = {frozenset(s): data.draw(st.sampled_from(s)) for s in sets}
    shuffled = data.draw(st.permutations(sets))
    text = ", ".join(f"{''.join(s)} : {choices[frozenset(s)]}" for s in shuffled)
    found = read("rationalise", text)
    assert {frozenset(one["set"]): one["choice"] for one in found["sets"]} == choices


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give either choices, such as"),
        ([DRINKS, "--random", 3], "give either choices"),
        ([DRINKS, "--seed", 3], "--seed is only used with --random"),
        (["ab:a,bc:b,abc:a"], "no choice from {a c}"),
        (["ab:a,ab:b"], "'ab' is given twice"),
        (["ab:a,ba:b"], "gives one subset twice"),
        (["ab:c"], "'c' is chosen from 'ab', but is not in it"),
        (["aab:a"], "has a letter twice"),
        (["ab"], "'ab' is not of the form set:choice"),
        (["ab:"], "is not of the form set:choice"),
        (["a b:a"], "is not of the form set:choice"),
        (["ab:ab"], "is not of the form set:choice"),
        (["ab:a,"], "'' is not of the form set:choice"),
        (["--random", 0], "items=0 must be from 1 to 12"),
        (["--random", 13], "items=13 must be from 1 to 12"),
        ([DRINKS, "--rho", 0], "rho=0"),
    ],
)
def test_what_is_no_choice_function_is_one_sentence(words, said):
    done = run("rationalise", *words)
    assert isinstance(done.exception, InputError), done.output
    assert said in str(done.exception)


def test_the_page_marks_violating_sets_and_colours_utilities(tmp_path):
    path = tmp_path / "selves.html"
    done = run("rationalise", DRINKS, "--report", path)
    assert done.exit_code == 0, done.output
    page = path.read_text("utf-8")
    assert needs_no_network(page)
    assert page.count('<tr class="marked">') == 1
    assert '<tr class="marked"><td>{a c}</td><td>c</td><td>a 0, c 4</td>' in page
    # Self 2, (-2, 0, -4): orange below zero, by the row's own measure.
    cells = 'rgba(213, 94, 0, 0.30)">-2</td><td style="background: rgba(213, 94, 0, 0.00)">0</td>'
    assert cells in page
    assert "from {a b c} people choose a. Take b away, which they did not choose" in page
    assert page.count("<table") == page.count('<div class="scroll"><table')


def test_a_page_of_many_selves_says_what_it_leaves_out(tmp_path):
    found = rationalise(ChoiceFunction.random(6, seed=1))
    write_rationalisation(found, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert f"{found.dimension - MOST_SELVES:,} more are not shown" in page
    assert page.count("rgba(") == MOST_SELVES * 6 + 1  # and one in the style
    assert page.count('class="marked"') == len(found.choice_function.violations())


def test_the_page_of_an_order_says_that_nothing_violates(tmp_path):
    found = rationalise(ChoiceFunction.rational("cab"))
    write_rationalisation(found, tmp_path / "a.html")
    assert "one order explains all choices" in (tmp_path / "a.html").read_text("utf-8")
    assert all(row[3] == "" for row in set_rows(found))
    assert rationalisation_json(found)["bases"] == []


@pytest.mark.parametrize("seed", range(5))
def test_the_example_of_the_page_is_a_violation(seed, tmp_path):
    c = ChoiceFunction.random(4, seed=seed)
    write_rationalisation(rationalise(c), tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    said = re.search(r"from \{(.+?)\} people choose (\w)\. Take (.+?) away.+choose (\w)\.", page)
    larger, before, gone, after = said.groups()
    left = set(larger.split()) - set(gone.split(" and "))
    assert (c.choice(larger.split()), c.choice(left)) == (before, after)
    assert before in left
    assert before != after


# bases


def test_every_verdict_is_that_of_the_theory():
    found = read("bases")
    assert "krs" in found["undecided"]
    for one, verdict in zip(found["mechanisms"], basis_verdicts(), strict=True):
        assert one["triple_basis"] is has_triple_basis(verdict.mechanism)
        if one["triple_basis"]:
            assert one["selves"] == len(triple_basis(verdict.mechanism).utilities)
        assert ("Proved" in one["why"]) is not one["triple_basis"]


def test_bases_are_listed():
    done = run("bases")
    assert done.exit_code == 0, done.output
    names = ("tversky", "ccm", "kaneko_nakamura", "lam", "nccm", "average_reference", "mnl")
    assert all(f"│ {name} " in done.stdout for name in names)
    assert "Not decided here" in done.stdout


# model


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.generate("decoy", sets=200, seed=0).choices


@pytest.fixture(scope="module")
def sde(choices):
    return sw.SDE(dimension=3, training=sw.Training(epochs=6, learning_rate=3e-2)).fit(choices)


@pytest.fixture(scope="module")
def files(choices, sde, tmp_path_factory):
    folder = tmp_path_factory.mktemp("theory")
    sde.save(folder / "decoys.setwise")
    sw.save_choices(choices, folder / "some.setwise-data")
    return folder / "decoys.setwise", folder / "some.setwise-data"


def test_numbers_are_those_of_the_theory(choices, sde, files):
    found = read("model", *files)
    regions, bound = separable_regions(sde, choices), bounds(sde, choices)
    assert found["bounds"]["bound"] == bound.bound
    assert found["bounds"]["theorem"] == 3
    assert found["regions"]["violating_subsets"] == int(regions.violations.sum())
    by_number = sorted(found["regions"]["functions"], key=lambda one: one["function"])
    np.testing.assert_allclose([one["agrees"] for one in by_number], regions.agrees.mean(0))
    alone = [float((regions.decided_by == i).mean()) for i in range(3)]
    np.testing.assert_allclose([one["decides_alone"] for one in by_number], alone)
    assert found["reasons"] == {}
    assert "relative measures" in found["remark"]


def test_the_text_has_regions_bounds_and_the_remark(files):
    done = run("model", *files)
    assert done.exit_code == 0, done.output
    parts = ("decides alone   agrees   separates", "Theorem 3", "relative measures")
    assert all(part in done.stdout for part in parts)


def test_chance_is_what_unrelated_functions_would_separate(choices, sde):
    found = examine_theory(sde, choices)
    assert found.regions.violations.sum() > 0
    assert found.chance == pytest.approx(1 - (1 - 1 / 3) ** 3)  # three items, three functions


def test_the_page_has_the_picture_the_table_and_the_bound(files, choices, sde, tmp_path):
    path = tmp_path / "theory.html"
    assert run("model", *files, "--report", path).exit_code == 0
    page, found = path.read_text("utf-8"), examine_theory(sde, choices)
    assert needs_no_network(page)
    assert page.count("<svg") == page.count("<figcaption>") == 1
    rows = [*found.rows(), *found.bound_rows()]
    assert all(f"<td>{cell}</td>" in page for row in rows for cell in row[:2])
    first = found.functions()[0]
    assert f"on {first.agrees:.0%} of the sets (it agrees)" in page
    assert "relative measures" in page


def test_a_logit_has_regions_and_no_bounds(choices, tmp_path):
    found = examine_theory(sw.MNL().fit(choices), choices)
    assert found.rows() == [("0", "100.0%", "100.0%", "")]
    assert (found.bound_rows(), list(found.to_json()["reasons"])) == ([], ["bounds"])
    write_theory_report(found, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "No bounds: the theorems do not cover MNL" in page
    assert "no violating subsets" in page


def test_a_model_of_another_form_has_neither_and_says_why(choices, files, tmp_path):
    cdm = sw.ChoiceModel("cdm", training=sw.Training(epochs=1)).fit(choices)
    found = examine_theory(cdm, choices)
    read_back = found.to_json()
    assert (read_back["regions"], read_back["bounds"]) == (None, None)
    assert "ChoiceModel is not one aggregation" in read_back["reasons"]["regions"]
    assert "No separable regions" in str(found)
    with pytest.raises(InputError, match="the theory says nothing about this ChoiceModel"):
        write_theory_report(found, tmp_path / "a.html")
    cdm.save(tmp_path / "m.setwise")
    for options in ((), ("--json",), ("--report", tmp_path / "a.html")):
        done = run("model", tmp_path / "m.setwise", files[1], *options)
        assert isinstance(done.exception, InputError)
        assert "is not one aggregation" in str(done.exception)
        assert done.stdout == ""
    assert not (tmp_path / "a.html").exists()


def test_a_wrong_table_is_an_error_and_no_reason(files, tmp_path):
    (tmp_path / "other.csv").write_text("set_id,x1,chosen\n1,0.5,1\n1,0.2,0\n")
    done = run("model", files[0], tmp_path / "other.csv")
    assert isinstance(done.exception, InputError)
    assert "'x2' is missing" in str(done.exception)


def test_every_command_teaches_with_an_example():
    for name in ("rationalise", "bases", "model"):
        assert f"setwise theory {name}" in run(name, "--help").stdout.partition("Example:")[2]

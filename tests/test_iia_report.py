"""The report on IIA: measures of a model, tests of the data, and the page."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise.cli import app
from setwise.reports.iia import examine_iia, write_iia_report
from setwise.violations import iia_test

MODES = ["is_train", "is_sm", "is_car"]


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.load("swissmetro").sample(3000)


@pytest.fixture(scope="module")
def logit(choices):
    return sw.MNL().fit(choices)


@pytest.fixture(scope="module")
def contextual(choices):
    return sw.LinearContextLogit().fit(choices)


@pytest.fixture(scope="module")
def model_file(contextual, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "modes.setwise"
    contextual.save(path)
    return path


def test_a_logit_breaks_nothing_and_a_context_model_does(choices, logit, contextual):
    assert [row[1] for row in examine_iia(logit, choices).rows()] == ["0.0000"] * 3
    found = examine_iia(contextual, choices)
    assert found.capacity.kappa > 0
    assert found.soft.odds.mean > 0.1


def test_numbers_are_those_of_the_measures(choices, contextual):
    found = examine_iia(contextual, choices, MODES)
    read = found.to_json()
    assert read["measures"]["kappa"]["value"] == sw.violation_capacity(contextual, choices).kappa
    assert read["measures"]["odds"]["low"] <= read["measures"]["odds"]["value"]
    assert [one["method"] for one in read["tests"]] == ["lcl", "comparisons"]
    assert read["influence"]["names"] == MODES
    np.testing.assert_allclose(np.diag(read["influence"]["values"]), 0)


def test_without_choices_there_is_nothing_to_test(contextual):
    table = sw.datasets.table("swissmetro").head(300).drop("chosen")
    unlabelled = contextual.read(table)
    assert examine_iia(contextual, unlabelled).tests == ()


def test_the_page_has_its_parts_and_needs_no_network(choices, contextual, tmp_path):
    path = tmp_path / "iia.html"
    write_iia_report(examine_iia(contextual, choices, MODES), path)
    page = path.read_text("utf-8")
    assert page.count("<svg") == 2
    assert all(part in page for part in ("regularity broken", "degrees of freedom", "Who gains"))
    assert not re.search(r"(?:src|href)=.?(?:https?:)?//|url\((?!#)|@import", page)
    write_iia_report(examine_iia(contextual, choices), path)
    assert path.read_text("utf-8").count("<svg") == 1


def run(*words):
    return CliRunner().invoke(app, ["violations", *map(str, words)])


def test_the_command_shows_measures_influence_and_tests(model_file, tmp_path):
    page = tmp_path / "iia.html"
    by = ",".join(MODES)
    done = run(model_file, "swissmetro", "--by", by, "--max-sets", 300, "--report", page)
    assert done.exit_code == 0, done.output
    assert all(part in done.stdout for part in ("violation capacity", "is_sm", "lcl: statistic"))
    assert page.exists()


def test_the_command_gives_json_and_takes_data_files(choices, model_file, tmp_path):
    path = tmp_path / "some.setwise-data"
    sw.save_choices(choices, path)
    done = run(model_file, path, "--json")
    assert done.exit_code == 0, done.output
    assert 0 < json.loads(done.stdout)["measures"]["kappa"]["value"] < 1


def test_alternatives_may_be_named_by_a_column_that_is_no_feature(model_file, tmp_path):
    table = sw.datasets.table("swissmetro").head(600)
    path = tmp_path / "some.parquet"
    table.write_parquet(path)
    done = run(model_file, path, "--by", "alt", "--json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["influence"]["names"]) == 3


def test_an_unknown_column_is_named(model_file):
    done = run(model_file, "swissmetro", "--by", "colour", "--max-sets", 50)
    assert isinstance(done.exception, InputError)
    assert "colour" in str(done.exception)


def test_models_side_by_side_by_person(choices, logit, model_file, tmp_path):
    other, page = tmp_path / "logit.setwise", tmp_path / "iia.html"
    logit.save(other)
    options = ("--others", other, "--group", "ID", "--max-sets", 600)
    done = run(model_file, "swissmetro", *options, "--report", page)
    assert done.exit_code == 0, done.output
    assert "logit only" in done.stdout
    assert "LinearContextLogit only" in page.read_text("utf-8")
    by_person, by_set = (
        json.loads(run(model_file, "swissmetro", *some, "--json").stdout)
        for some in (options, options[-2:])
    )
    assert sum(one["sets"] for one in by_person["regions"]) == 600
    assert all(one["kappa"]["logit"] == 0 for one in by_person["regions"] if one["sets"])
    odds = by_person["measures"]["odds"], by_set["measures"]["odds"]
    assert odds[0]["value"] == odds[1]["value"]
    assert odds[0]["high"] - odds[0]["low"] > odds[1]["high"] - odds[1]["low"]


def test_two_models_of_one_name_are_refused(choices, logit):
    with pytest.raises(InputError, match="two models are called MNL"):
        examine_iia(logit, choices, others={"MNL": logit})


def test_two_tests_are_read_together(choices, logit, tmp_path):
    found = examine_iia(logit, choices)
    least = sorted(one.p for one in found.tests)
    corrected = [one["holm_p"] for one in found.to_json()["tests"]]
    assert sorted(corrected) == pytest.approx([2 * least[0], max(2 * least[0], least[1])])
    write_iia_report(found, tmp_path / "page.html")
    assert "corrected for their number (Holm)" in (tmp_path / "page.html").read_text()


def test_a_blind_test_says_so():
    plain = sw.datasets.generate("mnl", sets=500, items=4, features=2).choices
    assert "looks for these" in iia_test(plain).sentence
    assert "looks for these" not in iia_test(plain, "comparisons").sentence

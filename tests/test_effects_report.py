"""Labelled trials beside a model: numbers by hand and from elsewhere, the picture, the command."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise.cli import app
from setwise.reports.effects import TRIAL_HEADS, TrialEffects, misses, trial_effects, trials_picture
from setwise.reports.iia import examine_iia, write_iia_report
from setwise.violations import ContextEffect, context_effects

ATTRACTION = ContextEffect(
    "attraction", (100, 80), (0.6, 0.3), ((0.5, 0.7), (0.2, 0.4)), 0.75, 0.6, 0.675, (0.6, 0.75)
)
NOTHING = replace(ATTRACTION, share_of_a=(0.4, 0.42), rst=0.501, rst_interval=(0.49, 0.51))


@pytest.fixture(scope="module")
def drawn():
    return sw.datasets.generate("decoy", sets=1200, seed=0)


@pytest.fixture(scope="module")
def logit(drawn):
    return sw.MNL().fit(drawn.choices)


@pytest.fixture(scope="module")
def files(drawn, logit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trials")
    logit.save(folder / "mnl.setwise")
    table = drawn.table.with_columns(person=pl.col("set_id") // 10)
    table.write_parquet(folder / "trials.parquet")
    sw.save_choices(drawn.choices, folder / "trials.setwise-data")
    return folder


def test_rows_by_hand():
    found = TrialEffects("MNL", (ATTRACTION,), (NOTHING,))
    assert found.rows() == [
        ("attraction", "P(A), third favours A", "100", "0.600", "0.500 to 0.700", "0.400",
         "-0.200"),
        ("attraction", "P(A), third favours B", "80", "0.300", "0.200 to 0.400", "0.420", "+0.120"),
        ("attraction", "relative share of the target", "180", "0.675", "0.600 to 0.750", "0.501",
         "-0.174"),
    ]  # fmt: skip
    assert all(len(row) == len(TRIAL_HEADS) for row in found.rows())
    assert found.largest_miss == pytest.approx(0.2)
    np.testing.assert_allclose(misses((ATTRACTION,), (NOTHING,)), [[-0.2, 0.12]])


def test_the_sentence_tells_effects_from_chance():
    said = TrialEffects("MNL", (ATTRACTION,), (NOTHING,)).sentence()
    assert "show attraction; of these, MNL moves the shares the same way in none" in said
    twice = (ATTRACTION, replace(ATTRACTION, condition="compromise"))
    assert "in attraction and compromise" in TrialEffects("SDA", twice, twice).sentence()
    backwards = replace(ATTRACTION, rst=0.4, rst_interval=(0.35, 0.45))
    assert "same way in none" in TrialEffects("SDA", (ATTRACTION,), (backwards,)).sentence()
    assert "the trials show none" in TrialEffects("SDA", (NOTHING,), (ATTRACTION,)).sentence()


def test_numbers_are_those_of_context_effects(drawn, logit):
    found = trial_effects(logit, drawn.table, seed=3)
    assert found.model == "MNL"
    assert found.observed == context_effects(drawn.columns, seed=3)
    p = logit.predict_proba(drawn.table).astype(np.float64)
    known = context_effects(drawn.columns | {"p": p}, chosen="p", seed=3)
    for one, two in zip(found.predicted, known, strict=True):
        assert one.share_of_a == pytest.approx(two.share_of_a)
        assert one.rst == pytest.approx(two.rst)


def test_the_order_of_rows_plays_no_part(drawn, logit):
    shuffled = drawn.table.sample(fraction=1.0, shuffle=True, seed=1)
    for one, two in zip(
        trial_effects(logit, drawn.table).predicted,
        trial_effects(logit, shuffled).predicted,
        strict=True,
    ):
        assert one.share_of_a == pytest.approx(two.share_of_a)


def test_columns_keep_the_users_names(drawn, logit):
    names = {"condition": "kind", "favours": "target", "option": "which"}
    table = drawn.table.rename(names).with_columns(person=pl.col("set_id") // 100)
    found = trial_effects(logit, table, **names, group="person")
    assert found.observed == context_effects(table, **names, group="person")
    with pytest.raises(InputError, match="favours column 'target' holds 'C'"):
        trial_effects(logit, table.with_columns(target=pl.lit("C")), **names)
    with pytest.raises(InputError, match="condition column 'condition' is not in the table"):
        trial_effects(logit, table)


def test_an_outside_option_is_refused(drawn):
    choices = sw.read(
        drawn.table.with_columns(chosen=pl.col("chosen") * (pl.col("set_id") > 50)),
        set="set_id", chosen="chosen", items=["x1", "x2"], on_none="outside",
    )  # fmt: skip
    with pytest.raises(InputError, match="outside option"):
        trial_effects(sw.MNL().fit(choices), drawn.table)


def test_the_picture_is_the_same_every_time_and_takes_any_name():
    effects = (replace(ATTRACTION, condition="a $ and a $"), NOTHING)
    models = {"SDA": effects, "MNL": effects}
    picture = trials_picture(effects, models)
    assert picture.startswith("<svg")
    assert picture == trials_picture(effects, models)


def test_the_page_shows_them(drawn, logit, tmp_path):
    report = replace(examine_iia(logit, drawn.choices), trials=trial_effects(logit, drawn.table))
    write_iia_report(report, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<svg") == 2
    assert "Context effects: people and model" in page
    assert "P(A), third favours B" in page
    assert not re.search(r"(?:src|href)=.?(?:https?:)?//|url\((?!#)|@import", page)


# The command


def run(*words):
    return CliRunner().invoke(app, ["violations", *map(str, words)])


def test_the_command_shows_people_beside_the_model(files, tmp_path):
    names = "condition,favours,option"
    done = run(
        files / "mnl.setwise", files / "trials.parquet", "--trials", names,
        "--report", tmp_path / "page.html",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "relative share of the target" in done.stdout
    assert "MNL moves the shares the same way in none" in done.stdout
    assert (tmp_path / "page.html").exists()


def test_the_command_gives_json_of_a_sample_and_resamples_people(files):
    words = (files / "mnl.setwise", files / "trials.parquet", "--max-sets", 300, "--json")
    done = run(*words, "--trials", "condition,favours,option,person")
    assert done.exit_code == 0, done.output
    read = json.loads(done.stdout)["trials"]
    assert sum(sum(one["trials"]) for one in read["observed"]) == 300
    alone = json.loads(run(*words, "--trials", "condition,favours,option").stdout)["trials"]
    assert alone["observed"][0]["share_of_a"] == read["observed"][0]["share_of_a"]
    assert alone["observed"][0]["rst_interval"] != read["observed"][0]["rst_interval"]


@pytest.mark.parametrize(
    ("table", "words", "said"),
    [
        ("trials.parquet", ["--trials", "condition,favours"], "3 or 4 column names"),
        ("trials.parquet", ["--trials", "condition,,option"], "3 or 4 column names"),
        ("trials.parquet", ["--trials", "kind,favours,option"], "'kind' is not in the table"),
        ("trials.setwise-data", ["--trials", "condition,favours,option"], "needs the labels"),
    ],
)
def test_what_does_not_fit_is_one_sentence(files, table, words, said):
    done = run(files / "mnl.setwise", files / table, *words)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)

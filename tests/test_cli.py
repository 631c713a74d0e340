"""The command line from end to end: what it writes, what it prints, and that help is quick."""

import datetime as dt
import inspect
import io
import json
import re
import subprocess
import sys
import time
from functools import partial

import numpy as np
import polars as pl
import pytest
import rich.console
import typer
from typer.testing import CliRunner

import setwise as sw
from setwise.choices import Irregular
from setwise.choices.table_files import CsvFormat
from setwise.cli import app, main, show
from setwise.cli.app import ENSEMBLE_HELP
from setwise.cluster.training import fit_on_cluster
from setwise.comparison.comparison import tune_splits
from setwise.doctor import examine
from setwise.estimators import named
from setwise.paper.raw.expedia import load_expedia
from setwise.paper.reproduction import Protocol, reproduce
from setwise.paper.theory import ChoiceFunction, rationalise
from setwise.reports.explain import explain_model
from setwise.reports.iia import examine_iia
from setwise.scoring.onnx_file import export_onnx
from setwise.scoring.prediction import predict_file
from setwise.training import progress

COMMANDS = ["fit", "predict", "evaluate", "compare", "tune", "datasets", "datasets write"]
MEASURES = {"top1", "top5", "mean_rank", "mrr", "nll", "rho2", "calibration_error"}
ROLES = ("--set", "set_id", "--chosen", "chosen")
SMALL = ["--epochs", "2", "--dimension", "2"]


def run(*arguments, code=0):
    """Run a command in this process; standard output and error come back apart."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def program(*arguments, **options):
    """Run setwise as a user does, in a process of its own."""
    command = [sys.executable, "-m", "setwise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 150 sets, its rows shuffled, and a logit and a network fitted to it."""
    folder = tmp_path_factory.mktemp("cli")
    drawn = sw.datasets.generate("mnl", sets=150, items=(2, 5), features=3)
    drawn.table.sample(fraction=1, shuffle=True, seed=1).write_parquet(folder / "trips.parquet")
    for model, options in (("mnl", []), ("sdw", SMALL)):
        run(
            "fit", folder / "trips.parquet", *ROLES, "--model", model, *options,
            "--out", folder / f"{model}.setwise",
        )  # fmt: skip
    return folder


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_a_command_does(command):
    # The type checks of tests do not take the context that typer gives to a command of commands.
    nested = " " in command
    text = (program if nested else run)(*command.split(), "--help").stdout
    assert f"Usage: {'python -m setwise' if nested else 'root'} {command}" in text
    assert command == "datasets" or f"Example: setwise {command}" in text


def test_help_lists_every_command():
    text = run("--help").output
    for command in COMMANDS[:6]:
        assert re.search(rf"^\W*{command}\b", text, re.MULTILINE)


def test_the_version_is_printed():
    assert run("--version").stdout == f"setwise {sw.__version__}\n"


def every_command(command=None, name=()):
    command = command or typer.main.get_command(app)
    yield name
    for word, child in getattr(command, "commands", {}).items():
        yield from every_command(child, (*name, word))


@pytest.mark.parametrize("name", every_command(), ids=" ".join)
def test_h_is_help_everywhere(name):
    invoked = program if name[:1] == ("datasets",) and len(name) > 1 else run
    assert "Usage:" in invoked(*name, "-h").stdout


def test_only_the_terminal_breaks_the_lines_of_help():
    """At 80 columns, lines that were broken at 100 in the source would be ragged."""
    told = [line.strip() for line in run("fit", "--help").stdout.splitlines()]
    first = next(i for i, line in enumerate(told) if line.startswith("The default, auto"))
    paragraph = told[first : told.index("", first)]
    assert len(paragraph) > 3
    assert all(len(line) > 60 for line in paragraph[:-1]), paragraph


def test_the_help_of_ensemble_says_how_many_members_sda_has():
    assert f"Default: {sw.SDA().ensemble} for sda," in ENSEMBLE_HELP


def test_help_imports_neither_jax_nor_other_heavy_packages():
    script = """
import sys
from setwise.cli import main
for words in (["--help"], *([name, "--help"] for name in ("fit", "compare", "predict", "tune"))):
    sys.argv = ["setwise", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
heavy = {"jax", "jaxlib", "equinox", "optax", "sklearn", "scipy", "matplotlib", "polars"}
heavy |= {"optuna", "sqlalchemy", "jinja2"}
print("imported:", sorted(heavy & set(sys.modules)))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "imported: []"


# fit


def test_fit_writes_a_model_that_the_library_loads(folder):
    model = sw.load(folder / "sdw.setwise")
    assert isinstance(model, sw.SDW)
    assert (model.dimension, model.training.epochs) == (2, 2)
    table = pl.read_parquet(folder / "trips.parquet")
    assert model.evaluate(table).sets == 150


def test_fit_prints_a_logits_coefficients_and_says_where_it_wrote(folder, tmp_path):
    result = run("fit", folder / "trips.parquet", *ROLES, "--model", "mnl", "--out", tmp_path / "m")
    assert result.stdout.startswith("feature ")
    assert "log-likelihood" in result.stdout
    assert result.stderr == f"wrote {tmp_path / 'm'}\n"


def test_fit_as_json_has_the_measures(folder, tmp_path):
    result = run(
        "fit", folder / "trips.parquet", *ROLES, "--model", "sdw", *SMALL,
        "--out", tmp_path / "m", "--json",
    )  # fmt: skip
    said = json.loads(result.stdout)
    assert said.keys() == {"model", "sets", "held_out", "in_sample"}
    assert said["model"] == str(tmp_path / "m")
    assert said["sets"] == 150
    for part, sets in (("held_out", 30), ("in_sample", 120)):
        assert said[part].keys() == {"sets", *MEASURES, "standard_errors"}
        assert said[part]["sets"] == sets
    # The numbers are of the sets that the model did not learn from.
    choices = sw.read(folder / "trips.parquet", set="set_id", chosen="chosen")
    _, validation = sw.split(choices, (0.8, 0.2), seed=0)
    model = sw.load(tmp_path / "m")
    assert said["held_out"]["nll"] == pytest.approx(model.evaluate(validation).nll)


def test_fit_shows_measures_of_held_out_sets_and_says_so(folder, tmp_path):
    command = ["fit", folder / "trips.parquet", *ROLES, "--out", tmp_path / "m"]
    network = run(*command, "--model", "sdw", *SMALL).stdout
    assert "the 30 sets that were held out of training" in network
    assert "150 sets" not in network
    logit = run(*command, "--model", "mnl").stdout
    assert "Fitted to all 150 sets; none was held out." in logit
    rule = run(*command, "--model", "random").stdout
    assert "Fitted to all 150 sets; none was held out.\nIn-sample measures:" in rule


def test_fit_is_the_librarys_fit(folder):
    table = pl.read_parquet(folder / "trips.parquet")
    choices = sw.read(table, set="set_id", chosen="chosen")
    training = sw.Training(epochs=2)
    model = sw.SDW(dimension=2, training=training).fit(choices)
    loaded = sw.load(folder / "sdw.setwise")
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))


def test_fit_takes_every_option_of_training(folder, tmp_path):
    run(
        "fit", folder / "trips.parquet", *ROLES, "--model", "sdw", *SMALL, "--batch-size", 32,
        "--learning-rate", 0.01, "--weight-decay", 0.1, "--dropout", 0.1, "--patience", 7,
        "--stop-on", "accuracy", "--objective", "pairwise", "--seed", 5, "--out", tmp_path / "m",
    )  # fmt: skip
    model = sw.load(tmp_path / "m")
    assert model.seed == 5
    assert model.training == sw.Training(
        epochs=2, batch_size=32, learning_rate=0.01, weight_decay=0.1, dropout=0.1, patience=7,
        stop_on="accuracy", objective="pairwise",
    )  # fmt: skip


def test_fit_resumes_from_a_checkpoint_to_the_same_bytes(folder, tmp_path):
    command = ["fit", folder / "trips.parquet", *ROLES, "--model", "sdw", *SMALL]
    for out in ("a", "b"):
        run(*command, "--checkpoint", tmp_path / "state", "--out", tmp_path / out)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() == (folder / "sdw.setwise").read_bytes()


def test_fit_reads_expressions_and_limits(folder, tmp_path):
    run(
        "fit", folder / "trips.parquet", *ROLES, "--items", "x0, impute(x2)", "--min-items", 3,
        "--max-items", 4, "--max-sets", 40, "--model", "mnl", "--out", tmp_path / "m",
    )  # fmt: skip
    model = sw.load(tmp_path / "m")
    assert model.feature_names_ == ["x0", "x2", "x2:missing"]
    assert model.sets_ == 40


IRREGULAR = """\
s,x,c
1,1.0,0
1,2.5,1
2,3.0,1
2,4.0,0
3,5.0,0
3,6.0,0
4,1.0,1
4,2.0,1
5,1.5,1
5,1.0,0
5,1.0,0
6,2.0,0
6,1.0,1
"""


CSV_OPTIONS = ("--sep", ";", "--decimal", ",", "--encoding", "latin-1")


@pytest.fixture
def german(folder):
    """The table as spreadsheets of other countries write it."""
    table = pl.read_parquet(folder / "trips.parquet").rename({"x0": "Größe"})
    path = folder / "german.csv"
    path.write_bytes(table.write_csv(separator=";", decimal_comma=True).encode("latin-1"))
    return path


def test_every_command_reads_csv_files_as_they_are_written_elsewhere(german, tmp_path):
    model = tmp_path / "mnl.setwise"
    run("fit", german, *ROLES, *CSV_OPTIONS, "--model", "mnl", "--out", model)
    assert "Größe" in sw.load(model).schema_.item_names
    measured = json.loads(run("evaluate", model, german, *CSV_OPTIONS, "--json").stdout)
    assert measured["sets"] == 150
    assert len(json.loads(run("predict", model, german, *CSV_OPTIONS, "--json").stdout)) > 300
    assert "0 errors" in run("check", german, *ROLES, *CSV_OPTIONS).stdout
    assert "Größe" in run("explain", model, german, *CSV_OPTIONS, "--column", "Größe").stdout
    assert run("violations", model, german, *CSV_OPTIONS, "--max-sets", "20").stdout
    compared = run("compare", german, *ROLES, *CSV_OPTIONS, "--models", "mnl", "--splits", "1")
    assert "mnl" in compared.stdout


@pytest.mark.parametrize("command", ["fit", "evaluate", "predict", "check", "explain"])
def test_csv_options_for_other_files_are_refused(command, folder, tmp_path):
    model = () if command in ("fit", "check") else (folder / "mnl.setwise",)
    column = ("--column", "x0") if command == "explain" else ()
    out = ()
    if command in ("fit", "predict"):
        out = ("--out", tmp_path / ("m.setwise" if command == "fit" else "out.parquet"))
    words = (command, *model, folder / "trips.parquet", *column, *out, "--sep", ";")
    with pytest.raises(sw.InputError, match="--sep, --decimal and --encoding are for CSV files"):
        run(*words, *(ROLES if command in ("fit", "check") else ()))


def test_dropped_sets_and_rows_are_told(tmp_path):
    (tmp_path / "t.csv").write_text(IRREGULAR)
    drop = ["--on-none", "drop", "--on-multiple", "drop", "--on-duplicate", "drop"]
    columns = ["--set", "s", "--chosen", "c", "--model", "mnl"]
    fit = run("fit", tmp_path / "t.csv", *columns, *drop, "--out", tmp_path / "m")
    told = ["dropped 1 sets without a choice", "dropped 1 sets with several choices",
            "dropped 1 repeated rows"]  # fmt: skip
    assert fit.stderr.splitlines()[:3] == told
    evaluated = run("evaluate", tmp_path / "m", tmp_path / "t.csv", *drop, "--json")
    assert evaluated.stderr.splitlines() == told
    assert json.loads(evaluated.stdout)["sets"] == 4


def test_an_outside_option_is_fitted_predicted_and_evaluated(tmp_path):
    (tmp_path / "t.csv").write_text(IRREGULAR)
    options = ["--on-none", "outside", "--on-multiple", "drop", "--on-duplicate", "keep"]
    columns = ["--set", "s", "--chosen", "c", "--model", "mnl"]
    run("fit", tmp_path / "t.csv", *columns, *options, "--out", tmp_path / "m")
    predicted = run("predict", tmp_path / "m", tmp_path / "t.csv", "--json")
    shares = {}
    for row in json.loads(predicted.stdout):
        shares[row["s"]] = shares.get(row["s"], 0) + row["probability"]
    assert all(0 < share < 1 for share in shares.values())  # the rest is the outside option's
    evaluated = run("evaluate", tmp_path / "m", tmp_path / "t.csv", *options[2:], "--json")
    assert json.loads(evaluated.stdout)["sets"] == 5
    dropped = run("evaluate", tmp_path / "m", tmp_path / "t.csv", "--on-none", "drop", *options[2:])
    assert "dropped 1 sets without a choice" in dropped.stderr


def test_warnings_are_one_line_without_a_place_in_the_code(tmp_path):
    rows = [f"{i // 2},{i % 2},{i % 2}" for i in range(40)]  # x tells the chosen item for sure
    (tmp_path / "t.csv").write_text("\n".join(["s,x,c", *rows, ""]))
    columns = ["--set", "s", "--chosen", "c", "--on-duplicate", "keep"]
    fit = run("fit", tmp_path / "t.csv", *columns, "--model", "mnl", "--out", tmp_path / "m")
    compare = run("compare", tmp_path / "t.csv", *columns, "--models", "mnl", "--splits", 2)
    for result in (fit, compare):
        warned = [line for line in result.stderr.splitlines() if "likelihood" in line]
        assert len(warned) == 1
        assert warned[0].startswith("warning: the likelihood has no maximum")
        assert ".py" not in result.stderr


# predict


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("model", ["mnl", "sdw"])
def test_predictions_come_back_in_the_tables_order(folder, tmp_path, suffix, model):
    table = pl.read_parquet(folder / "trips.parquet")
    out = tmp_path / f"predictions.{suffix}"
    result = run("predict", folder / f"{model}.setwise", folder / "trips.parquet", "--out", out)
    assert result.stderr == f"wrote {out}: {len(table):,} rows\n"
    assert result.stdout == ""
    written = pl.read_parquet(out) if suffix == "parquet" else pl.read_csv(out)
    assert written.columns == [*table.columns, "probability", "predicted"]
    np.testing.assert_array_equal(written["set_id"], table["set_id"])
    np.testing.assert_allclose(written["x0"], table["x0"])
    sums = written.group_by("set_id").agg(pl.sum("probability", "predicted"))
    np.testing.assert_allclose(sums["probability"], 1, atol=1e-5)
    assert sums["predicted"].to_list() == [1] * 150
    expected = sw.load(folder / f"{model}.setwise").predict_proba(table)
    np.testing.assert_allclose(written["probability"], expected, rtol=1e-6)


def test_predict_prints_csv_by_default(folder):
    lines = run("predict", folder / "mnl.setwise", folder / "trips.parquet").stdout.splitlines()
    table = pl.read_parquet(folder / "trips.parquet")
    assert lines[0] == ",".join([*table.columns, "probability", "predicted"])
    assert len(lines) == len(table) + 1


def test_predict_as_json_has_a_record_a_row(folder):
    said = json.loads(
        run("predict", folder / "mnl.setwise", folder / "trips.parquet", "--json").stdout
    )
    table = pl.read_parquet(folder / "trips.parquet")
    assert [one["set_id"] for one in said] == table["set_id"].to_list()
    assert all(one.keys() == {"set_id", "probability", "predicted"} for one in said)


def test_predict_needs_no_chosen_column(folder, tmp_path):
    path = tmp_path / "new.csv"
    pl.read_parquet(folder / "trips.parquet").drop("chosen").write_csv(path)
    with_choice = run("predict", folder / "mnl.setwise", folder / "trips.parquet", "--json")
    without = run("predict", folder / "mnl.setwise", path, "--json")
    assert json.loads(without.stdout) == json.loads(with_choice.stdout)


def test_sets_named_by_dates_are_text_in_json(folder, tmp_path):
    drawn = pl.read_parquet(folder / "trips.parquet").sort("set_id")
    day = pl.lit(dt.date(2024, 1, 1)) + pl.duration(days=pl.col("set_id"))
    drawn.with_columns(set_id=day).write_csv(tmp_path / "t.csv")
    said = json.loads(run("predict", folder / "mnl.setwise", tmp_path / "t.csv", "--json").stdout)
    assert said[0]["set_id"] == "2024-01-01"


# evaluate


def test_evaluate_as_json_is_the_librarys_evaluation(folder):
    said = json.loads(
        run("evaluate", folder / "mnl.setwise", folder / "trips.parquet", "--json").stdout
    )
    measured = sw.load(folder / "mnl.setwise").evaluate(folder / "trips.parquet")
    assert said.pop("sets") == 150
    assert said.pop("standard_errors") == pytest.approx(dict(measured.standard_errors))
    assert said == pytest.approx(dict(measured))
    assert said.keys() == MEASURES


def test_evaluate_prints_a_table_with_every_measure(folder):
    text = run("evaluate", folder / "mnl.setwise", folder / "trips.parquet").stdout
    assert "150 sets" in text
    for name in MEASURES:
        assert name in text


# compare


@pytest.fixture(scope="module")
def compared(folder):
    """A comparison with its page, as JSON."""
    result = run(
        "compare", folder / "trips.parquet", *ROLES, "--models", "mnl,sdw", "--splits", 2,
        "--max-sets", 60, "--metric", "top1", "--report", folder / "report.html", "--json",
    )  # fmt: skip
    return result, json.loads(result.stdout)


def test_compare_as_json_has_leaderboard_and_cells(compared):
    _, said = compared
    assert said.keys() == {
        "data", "metric", "split_by", "split_sizes", "friedman_p", "leaderboard", "cells",
    }  # fmt: skip
    assert said["metric"] == "top1"
    assert {row["model"] for row in said["leaderboard"]} == {"mnl", "sdw"}
    means = [row["mean"]["top1"] for row in said["leaderboard"]]
    assert means == sorted(means, reverse=True)
    assert {(cell["model"], cell["split"]) for cell in said["cells"]} == {
        ("mnl", 0), ("sdw", 0), ("mnl", 1), ("sdw", 1),
    }  # fmt: skip
    assert all(cell["metrics"].keys() == MEASURES for cell in said["cells"])


def test_compare_tells_its_progress_on_standard_error(compared, folder):
    lines = compared[0].stderr.splitlines()
    assert [line[:5] for line in lines[:4]] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert lines[4] == f"wrote {folder / 'report.html'}"


def test_the_report_is_one_page_that_needs_nothing_from_outside(compared, folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert page.count("<svg") == page.count("</svg>") == 2
    assert all(row["model"] in page for row in compared[1]["leaderboard"])
    for tag in ("<script", "<link", "<img", "<iframe", "@import", "url(http"):
        assert tag not in page
    assert all(link.startswith("#") for link in re.findall(r'href="([^"]*)"', page))
    # Names of vocabularies and of the drawing's maker are not requested by any browser.
    shown = re.sub(r'xmlns(:\w+)?="[^"]*"|<metadata>.*?</metadata>', "", page, flags=re.DOTALL)
    assert "http" not in shown


def test_compare_prints_a_leaderboard_for_people(folder):
    result = run(
        "compare", folder / "trips.parquet", *ROLES, "--models", "mnl", "--splits", 2,
    )  # fmt: skip
    assert re.search(r"mnl\W.*±.*best", result.stdout)
    assert "Means ± standard errors over 2 random splits" in " ".join(result.stdout.split())


def test_compare_splits_by_group_and_time(folder, tmp_path):
    table = pl.read_parquet(folder / "trips.parquet")
    table = table.with_columns(user=pl.col("set_id") % 30, day=pl.col("set_id") // 5)
    table.write_parquet(tmp_path / "t.parquet")
    for by, column in (("group", "user"), ("time", "day")):
        result = run(
            "compare", tmp_path / "t.parquet", *ROLES, "--items", "x0,x1", "--models", "mnl",
            f"--{by}", column, "--split-by", by, "--splits", 1, "--json",
        )  # fmt: skip
        assert len(json.loads(result.stdout)["cells"]) == 1


def test_the_note_says_what_was_split(folder, tmp_path):
    table = pl.read_parquet(folder / "trips.parquet").with_columns(user=pl.col("set_id") % 30)
    table.write_parquet(tmp_path / "t.parquet")
    command = ["compare", tmp_path / "t.parquet", *ROLES, "--items", "x0,x1", "--models", "random"]
    for options, words in (
        (["--splits", 2], "2 random splits (50:25:25 of whole sets)"),
        (["--split-by", "group", "--group", "user", "--splits", 2], "50:25:25 of whole groups"),
        (["--split-by", "time", "--time", "user", "--splits", 1], "50:25:25 in order of time"),
    ):
        assert words in " ".join(run(*command, *options).stdout.split())


def test_one_split_has_no_standard_errors(folder, tmp_path):
    command = ["compare", folder / "trips.parquet", *ROLES, "--models", "mnl,random"]
    command += ["--splits", 1, "--report", tmp_path / "page.html"]
    shown = run(*command).stdout
    assert "gives no standard errors and no p-values" in " ".join(shown.split())
    said = json.loads(run(*command, "--json").stdout, parse_constant=pytest.fail)
    assert said["leaderboard"][1]["standard_error"]["nll"] is None
    choices = sw.read(folder / "trips.parquet", set="set_id", chosen="chosen")
    result = sw.compare(["mnl", "random"], choices, splits=1)
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["split_by"] == "set"
    for text in (shown, str(result), (tmp_path / "page.html").read_text("utf-8")):
        assert "nan" not in text
        assert "± " not in text


# One name for one option

# By command, what it calls: each option is an argument of one of these, under the same name.
CALLS = {
    "fit": (
        sw.SDA,
        sw.Training,
        sw.SDA.save,
        sw.SDA.fit,
        fit_on_cluster,
        sw.Card,
        sw.choices.Display.of,
    ),
    "predict": (predict_file,),
    "export": (export_onnx,),
    "evaluate": (Irregular,),
    "compare": (sw.compare, sw.Tuning, named),
    "tune": (tune_splits, sw.Tuning, sw.Training, named),
    "check": (examine,),
    "explain": (explain_model,),
    "violations": (examine_iia,),
    "datasets write": (sw.datasets.generate,),
    "datasets imitate": (sw.paper.imitate,),
    "datasets build": (sw.paper.build, load_expedia),
    "reproduce": (reproduce, Protocol, sw.Training, load_expedia),
    "theory rationalise": (rationalise, ChoiceFunction.random),
}
SOURCE = (sw.read, sw.read_wide, sw.Choices.limit, sw.MNL, sw.Utility)
# What only a command line needs: where to print, what to read, and shorthands.
ONLY_HERE = {
    "": {"json", "cluster", "report", "table", "help"},
    "source": {"max_sets", "like", "view"},
    # time_budget is an argument of the estimator, label one of labels, data_source a card's source
    "fit": {"out", "model", "time_budget", "label", "data_source"},
    "predict": {"table"},
    "tune": {"out", "plot", "vary"},
    "check": set(),
    "explain": {"times", "where", "remove"},
    "violations": {"trials", "decoy", "pair", "max_sets"},
    "datasets write": {"out"},
    "datasets imitate": {"zipped"},
    "reproduce": {"expedia", "outbrain", "amadeus", "preset", "sizes"},
    "theory rationalise": {"random"},
}


@pytest.mark.parametrize("name", CALLS)
def test_options_have_the_names_of_arguments(name):
    command = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
    options = {one.name for one in command.params if one.param_type_name == "option"}
    takes_table = "on_none" in options and name not in ("evaluate",)
    calls = CALLS[name] + (SOURCE if takes_table else ())
    known = {argument for call in calls for argument in inspect.signature(call).parameters}
    known |= ONLY_HERE[""] | ONLY_HERE.get(name, set())
    known |= ONLY_HERE["source"] if takes_table else set()
    known |= set(inspect.signature(CsvFormat).parameters)  # as sw.read has them
    assert options <= known, options - known


# How it ends


def test_a_reader_that_leaves_early_is_no_error():
    line = f"{sys.executable} -m setwise models | head -1"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert ended.stderr == ""
    assert len(ended.stdout.splitlines()) == 1


def test_ctrl_c_is_one_word(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("setwise.estimators.listing.listed", interrupted)
    assert run("models", code=130).stderr == "interrupted\n"


ENDS = {
    "full disk": (OSError(28, "No space left on device", "/x"), 2, "error: /x: the disk is full"),
    "permission": (PermissionError(13, "Permission denied", "/x"), 2, "/x: Permission denied"),
    "elsewhere": (RuntimeError("while writing (os error 28)"), 2, "error: the disk is full"),
    "memory": (MemoryError(), 2, "error: the memory is full"),
    "ctrl-c": (KeyboardInterrupt(), 130, "interrupted"),
}  # fmt: skip


@pytest.mark.parametrize(("error", "code", "words"), ENDS.values(), ids=ENDS)
def test_what_the_system_refuses_is_one_sentence(error, code, words, monkeypatch, capsys):
    def fails():
        raise error

    monkeypatch.setattr("setwise.estimators.listing.listed", fails)
    monkeypatch.setattr(sys, "argv", ["setwise", "models"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_an_error_of_ours_shows_where_it_happened(monkeypatch):
    def fails():
        raise TypeError("a bug")

    monkeypatch.setattr("setwise.estimators.listing.listed", fails)
    monkeypatch.setattr(sys, "argv", ["setwise", "models"])
    with pytest.raises(TypeError, match="a bug"):
        main()


# Bars


@pytest.fixture
def terminal(monkeypatch):
    """What is drawn on a terminal."""
    drawn = io.StringIO()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    terminal = partial(rich.console.Console, file=drawn, force_terminal=True, width=120)
    monkeypatch.setattr("rich.console.Console", lambda **options: terminal())
    return drawn


def test_a_bar_shows_no_count_before_it_knows_one(terminal):
    with progress.drawn(True) as draw:
        time.sleep(0.3)
        draw(progress.Stand("SDA", "epoch", 9, 2, "loss 1"))
        time.sleep(0.3)
    with show.counting_bar("rows") as on_rows:
        time.sleep(0.3)
        on_rows(3, 7)
        time.sleep(0.3)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "epoch 2/9" in text
    assert "3/7" in text
    assert "None" not in text
    assert "?" not in text


# datasets


def test_datasets_lists_what_there_is():
    said = json.loads(program("datasets", "--json").stdout)
    assert [one["name"] for one in said] == [*sw.datasets.names(), *sw.paper.RAW]
    roles = {"items", "group", "set", "chosen", "labels"}
    assert roles | {"name", "kind", "summary", "source", "terms"} == said[0].keys()
    text = program("datasets").stdout
    assert all(name in text for name in sw.datasets.names())


def test_datasets_are_written_as_files_that_other_commands_read(tmp_path):
    program("datasets", "write", "decoy", "--sets", 90, "--seed", 3, "--out", tmp_path / "d.csv")
    table = pl.read_csv(tmp_path / "d.csv")
    drawn = sw.datasets.generate("decoy", sets=90, seed=3).table
    assert table.columns == drawn.columns
    np.testing.assert_allclose(table["x1"], drawn["x1"])
    run(
        "fit", tmp_path / "d.csv", *ROLES, "--items", "x1,x2", "--model", "mnl",
        "--out", tmp_path / "m",
    )  # fmt: skip


def test_a_data_sets_name_stands_for_its_table_and_roles(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("fit", "modecanada", "--model", "mnl", "--out", "m", "--max-sets", 300)
    model = sw.load("m")
    assert model.feature_names_ == sw.datasets.roles("modecanada")["items"]
    said = json.loads(run("evaluate", "m", "modecanada", "--json").stdout)
    assert said["sets"] == 4324
    run("predict", "m", "modecanada", "--out", "p.parquet")
    assert pl.read_parquet("p.parquet").height == 15_520


def test_a_file_comes_before_a_data_set_of_the_same_name(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnl").write_text("no table")
    with pytest.raises(sw.InputError, match=r"mnl is neither \.parquet nor \.csv"):
        run("predict", folder / "mnl.setwise", "mnl")


def test_options_given_go_before_a_data_sets_own(tmp_path):
    run(
        "fit", "modecanada", "--items", "cost", "--model", "mnl", "--max-sets", 200,
        "--out", tmp_path / "m",
    )  # fmt: skip
    assert sw.load(tmp_path / "m").feature_names_ == ["cost"]


# JSON


def test_json_has_null_for_numbers_that_it_lacks(capsys):
    show.as_json({"a": float("nan"), "b": [float("inf"), 1.5], 3: dt.date(2024, 1, 2)})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "a": None,
        "b": [None, 1.5],
        "3": "2024-01-02",
    }

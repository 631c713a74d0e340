"""``setwise check`` from end to end: what it prints, writes and exits with."""

import json

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import setwise as sw
from setwise.choices import save_choices
from setwise.cli.check import check

app = typer.Typer()
app.command()(check)

ROLES = ("--set", "trip", "--chosen", "taken")
TABLE = pl.DataFrame(
    {
        "trip": [1, 1, 2, 2, 3, 3, 3],
        "taken": [0, 1, 1, 0, 0, 0, 1],
        "cost": [3.0, 1.0, 2.0, 5.0, 2.5, 1.5, 4.0],
        "income": [10, 10, 20, 20, 15, 15, 15],
    }
)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def trips(tmp_path):
    """A table with a suspicion but no error."""
    path = tmp_path / "trips.parquet"
    TABLE.write_parquet(path)
    return path


@pytest.fixture
def broken(tmp_path):
    """A table with an error."""
    path = tmp_path / "broken.csv"
    TABLE.with_columns(cost=pl.col("cost").replace(5.0, None)).write_csv(path)
    return path


def test_findings_for_people(trips):
    printed = run(trips, *ROLES).stdout
    assert f"{trips}: 7 rows, 4 columns, 3 sets of 2 to 3 items" in printed
    assert "warning: column 'income' is the same for all items of every set" in printed
    assert "  remedy: put income into context" in printed
    assert "0 errors, 1 warning, 0 notes" in printed
    assert "█" in printed


def test_context_and_items_are_taken(trips):
    printed = run(trips, *ROLES, "--context", "income", "--items", "cost,").stdout
    assert "0 errors, 0 warnings, 0 notes" in printed


def test_an_error_exits_with_one(broken):
    printed = run(broken, *ROLES, code=1).stdout
    assert (
        "error: column 'cost' is missing or not a number in 1 row (14 %) [row 3; set 2]" in printed
    )
    run(broken, *ROLES, "--items", "impute(cost)")


def test_json_for_programs(broken):
    told = json.loads(run(broken, *ROLES, "--json", code=1).stdout)
    assert told["summary"]["sets"] == 3
    first = told["findings"][0]
    assert (first["severity"], first["code"], first["column"]) == ("error", "missing", "cost")
    assert (first["rows"], first["sets"], first["count"]) == ([3], ["2"], 1)


def test_the_page_is_written(broken, tmp_path):
    result = run(broken, *ROLES, "--report", tmp_path / "page.html", code=1)
    assert f"wrote {tmp_path / 'page.html'}" in result.stderr
    assert "impute(cost)" in (tmp_path / "page.html").read_text("utf-8")


def test_nothing_but_the_result_is_printed_in_a_pipe(trips):
    assert run(trips, *ROLES).stderr == ""


def test_a_shipped_data_set_knows_its_roles():
    assert json.loads(run("modecanada", "--json").stdout)["summary"]["choices"] == 4324


def test_a_file_of_choices_knows_its_roles(tmp_path):
    path = tmp_path / "trips.setwise-data"
    save_choices(sw.read(TABLE, set="trip", chosen="taken"), path)
    assert "constant-within-sets" in run(path, "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("no such file.csv", *ROLES), "there is no file"),
        (("no-such-name", *ROLES), "there is no file or data set"),
        (("{trips}", "--set", "trip"), r"chosen= \(--chosen\) is missing"),
        (("{trips}", "--chosen", "taken"), r"set= \(--set\) is missing"),
        (("{trips}", *ROLES, "--items", "price"), "'price' is not in the table"),
        (("{trips}", *ROLES, "--report", "no such folder/page.html"), "there is no folder"),
    ],
)
def test_bad_arguments_are_one_sentence(trips, arguments, complaint):
    with pytest.raises(sw.InputError, match=complaint):
        run(*(one.format(trips=trips) for one in arguments))


def test_help_tells_the_exit_codes():
    text = " ".join(run("--help").stdout.split())
    assert "The exit code is 0" in text
    assert "2 if the arguments are wrong" in text

"""The command ``setwise explain``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import REPORT_HELP, TABLE_HELP, Decimal, Encoding, Json, Sep, names
from setwise.cli.violations import BY_HELP

TIMES_HELP = "What if: multiply the column by this factor. 1.1 is ten per cent more."
WHERE_HELP = "With --times: only rows with these values, as 'mode=train' or 'mode=train,new=1'."
REMOVE_HELP = "What if: withdraw the items with these values, written as for --where."


def explain(
    model: ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    column: Annotated[str, typer.Option(help="A numeric column of the items, such as the price.")],
    by: Annotated[str | None, typer.Option(help=BY_HELP)] = None,
    times: Annotated[float | None, typer.Option(help=TIMES_HELP)] = None,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    remove: Annotated[str | None, typer.Option(help=REMOVE_HELP)] = None,
    report: Annotated[Path | None, typer.Option(help=REPORT_HELP)] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Show what follows from a model: elasticities, diversion, and what a change would do.

    Example: setwise explain swissmetro.setwise swissmetro --column cost --by is_train,is_sm,is_car
    """
    from setwise._errors import InputError
    from setwise._files import check_writable
    from setwise.choices import open_choices
    from setwise.cli.tables import csv_format, is_data_file, read_table
    from setwise.consequences import Remove, Reprice
    from setwise.estimators import load
    from setwise.reports.explain import explain_model, typed_values, write_explanation

    if where is not None and times is None:
        raise InputError("--where says which rows --times changes; give --times too")
    if report is not None:
        check_writable(report, [model, table], ".html")
    form = csv_format(table, sep, decimal, encoding)
    estimator = load(model)
    data = open_choices(table).in_memory() if is_data_file(table) else read_table(table, form)
    columns = None if by is None else names("--by", by)
    by_columns = columns[0] if columns and len(columns) == 1 else columns
    changes: list[Any] = []
    if times is not None:
        rows = None if where is None else typed_values(estimator, data, _written(where))
        changes.append(Reprice(column, times, rows))
    if remove is not None:
        changes.append(Remove(typed_values(estimator, data, _written(remove))))
    found = explain_model(estimator, data, column, by_columns, changes)
    if json:
        show.as_json(found.to_json())
    else:
        print(found)
    if report is not None:
        write_explanation(found, report)
        show.note(f"wrote {report}")


def _written(text: str) -> dict[str, str]:
    """Columns and their values, as they are written on the command line."""
    from setwise._errors import InputError

    found: dict[str, str] = {}
    for one in text.split(","):
        name, equals, value = one.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"'{one}' is not of the form column=value; write it like mode=train")
        found[name.strip()] = value.strip()
    return found

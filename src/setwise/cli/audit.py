"""The command ``setwise audit``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import (
    REPORT_HELP,
    TABLE_HELP,
    Decimal,
    Encoding,
    Json,
    Sep,
    names,
    signs_of,
)

SIGN_HELP = (
    "What more of a column should do to the probability: 'price=-1' lowers it, 'stars=1' raises "
    "it; several are separated by commas. Default: guessed from names, and no failure."
)
PRICE_HELP = (
    "Column in whose units willingness to pay is counted. Default: the only one with such a name."
)
BY_HELP = (
    "Column whose levels are the alternatives, or several 0/1 columns separated by commas: check "
    "calibration by alternative."
)
SAMPLE_HELP = "Look at a random sample of this many sets; 0 takes all. Default: 1000."
FAIL_ON_HELP = "The least verdict for which the exit code is 1."

FailOn = Literal["fail", "look"]


def audit(
    model: ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    sign: Annotated[str | None, typer.Option(help=SIGN_HELP)] = None,
    price: Annotated[str | None, typer.Option(help=PRICE_HELP)] = None,
    by: Annotated[str | None, typer.Option(help=BY_HELP)] = None,
    max_sets: Annotated[int, typer.Option(help=SAMPLE_HELP, min=0)] = 1000,
    fail_on: Annotated[FailOn, typer.Option(help=FAIL_ON_HELP)] = "fail",
    report: Annotated[Path | None, typer.Option(help=REPORT_HELP)] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Check that a model is sane: signs, willingness to pay, copies of items, calibration.

    The exit code is 0 if no check fails, 1 if one does (with --fail-on look, also if one is worth
    a look), and 2 if the arguments are wrong.

    Example: setwise audit swissmetro.setwise swissmetro --sign time=-1,cost=-1 --report page.html
    """
    from setwise._files import check_writable
    from setwise.auditing import audit as run
    from setwise.choices import open_choices
    from setwise.cli.tables import csv_format, is_data_file, read_table
    from setwise.estimators import load
    from setwise.reports.audit import write_audit

    if report is not None:
        check_writable(report, [model, table], ".html")
    signs = None if sign is None else signs_of("--sign", sign)
    columns = None if by is None else names("--by", by)
    form = csv_format(table, sep, decimal, encoding)
    estimator = load(model)
    data = open_choices(table) if is_data_file(table) else read_table(table, form)
    found = run(
        estimator, data, signs, price=price, max_sets=max_sets or None,
        by=columns[0] if columns and len(columns) == 1 else columns,
    )  # fmt: skip
    if json:
        show.as_json(found.to_json())
    else:
        print(found)
    if report is not None:
        write_audit(found, report)
        show.note(f"wrote {report}")
    if found.at_least(fail_on):
        raise typer.Exit(1)

"""The command ``setwise violations``."""

from pathlib import Path
from typing import Annotated

import typer

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import TABLE_HELP, Json

BY_HELP = (
    "Column whose levels are alternatives, or several 0/1 columns by commas: shows who gains when "
    "one of them leaves."
)


def violations(
    model: ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    by: Annotated[str | None, typer.Option(help=BY_HELP)] = None,
    max_sets: Annotated[int | None, typer.Option(help="Look at a random sample of sets.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with tables and pictures here (HTML).")
    ] = None,
    json: Json = False,
) -> None:
    """Show how a model violates IIA on a table, and test IIA on its choices.

    Every item of every set is taken away in turn; under IIA the odds between the others stay. The
    tests need no model: they ask whether the other items of a set matter in the data.

    Example: setwise violations swissmetro.setwise swissmetro --by is_train,is_sm,is_car
    """
    from setwise._files import check_writable
    from setwise.choices import expressions, open_choices
    from setwise.cli.tables import is_data_file, read_table
    from setwise.estimators import load
    from setwise.experiments import examine_iia, write_iia_report
    from setwise.experiments.iia_report import HEADS

    if report is not None:
        check_writable(report)
    estimator = load(model)
    frame = None if is_data_file(table) else read_table(table)
    choices = (
        open_choices(table).in_memory()
        if frame is None
        else estimator.read(frame, with_choice=True)
    )
    sampled = choices if max_sets is None else choices.sample(max_sets)
    names = None if by is None else expressions(by)
    found = examine_iia(
        estimator, sampled, names if names is None or len(names) > 1 else names[0],
        frame if max_sets is None else None,
    )  # fmt: skip
    if json:
        show.as_json(found.to_json())
    else:
        show.table(HEADS, found.rows(), title=f"{found.model} on {found.data}", numbers=False)
        if found.between is not None:
            print(f"\nChange of the row's probability when the column leaves:\n{found.between}")
        for one in found.tests:
            print(f"\n{one}")
    if report is not None:
        write_iia_report(found, report)
        show.note(f"wrote {report}")

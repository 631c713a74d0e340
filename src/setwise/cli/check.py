"""The command ``setwise check``: the data doctor."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise.cli import show
from setwise.cli.source import (
    ALTERNATIVE_HELP,
    ALTERNATIVES_HELP,
    AVAILABLE_HELP,
    CHOSEN_HELP,
    COLUMNS,
    CONTEXT_HELP,
    FILL_HELP,
    ITEMS_HELP,
    RANK_HELP,
    SET_HELP,
    TABLE_HELP,
    WIDE,
    WORST_HELP,
    Decimal,
    Encoding,
    Json,
    Sep,
    boxed,
    wide_arguments,
)

if TYPE_CHECKING:
    from setwise.choices.table_files import CsvFormat
    from setwise.doctor import Examination

BAR = 40


def check(
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    set: Annotated[str | None, boxed(COLUMNS, SET_HELP)] = None,
    chosen: Annotated[str | None, boxed(COLUMNS, CHOSEN_HELP)] = None,
    rank: Annotated[str | None, boxed(COLUMNS, RANK_HELP)] = None,
    worst: Annotated[str | None, boxed(COLUMNS, WORST_HELP)] = None,
    items: Annotated[str | None, boxed(COLUMNS, ITEMS_HELP)] = None,
    context: Annotated[str | None, boxed(COLUMNS, CONTEXT_HELP)] = None,
    alternative: Annotated[str | None, boxed(COLUMNS, ALTERNATIVE_HELP)] = None,
    alternatives: Annotated[str | None, boxed(WIDE, ALTERNATIVES_HELP)] = None,
    available: Annotated[str | None, boxed(WIDE, AVAILABLE_HELP)] = None,
    fill: Annotated[float | None, boxed(WIDE, FILL_HELP)] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write.")] = None,
    json: Json = False,
) -> None:
    """Find everything that is wrong or suspicious in a table, and say what to do about it.

    Without --set and --chosen it says how the table could be read, if it recognises its shape.

    The exit code is 0 if the table can be read, 1 if it has an error (the other commands would
    refuse it with the same options), and 2 if the arguments are wrong.

    Example: setwise check swissmetro --report page.html
    """
    from setwise._files import check_writable
    from setwise.choices import expressions
    from setwise.cli.tables import csv_format
    from setwise.doctor import examine, write_page

    if report is not None:
        check_writable(report, [table], ".html")
    opened, roles = _opened(table, csv_format(table, sep, decimal, encoding))
    given = {
        "set": set, "chosen": chosen, "rank": rank, "worst": worst, "alternative": alternative,
    }  # fmt: skip
    roles |= {name: value for name, value in given.items() if value is not None}
    features = {"items": items, "context": context}
    roles |= {name: expressions(name, text) for name, text in features.items() if text is not None}
    roles |= wide_arguments(items, alternatives, available, fill) or {}
    with _columns_bar() as on_column:
        examination = replace(examine(opened, **roles, on_column=on_column), table=table)
    if json:
        show.as_json(examination.to_json())
    else:
        _show(examination)
    if report is not None:
        write_page(examination, report)
        show.note(f"wrote {report}")
    if examination.errors:
        raise typer.Exit(1)


def _opened(table: str, form: "CsvFormat | None") -> tuple[Any, dict[str, Any]]:
    """A data set's table and roles, or the path of a file with none."""
    from setwise import datasets
    from setwise.choices.table_files import is_there
    from setwise.cli.tables import is_dataset, read_table

    if is_dataset(table):
        roles = datasets.roles(table)
        return read_table(table), {name: roles[name] for name in ("set", "chosen", "items")}
    if form is not None:  # a frame, since the doctor opens plain CSV files only
        return read_table(table, form), {}
    if not is_there(table):
        read_table(table)  # which says what is there instead
    return table, {}


def _show(examination: "Examination") -> None:
    print(f"{examination.table}: {examination.summary}")
    most = max((sets for _, _, sets in examination.summary.histogram), default=1)
    for low, high, sets in examination.summary.histogram:
        items = f"{low}" if low == high else f"{low} to {high}"
        print(f"{items:>14} items {sets:>10,} {'█' * round(BAR * sets / most)}".rstrip())
    for one in examination.findings:
        place = f" [{one.place}]" if one.place else ""
        print(f"\n{one.severity}: {one.message}{place}\n  remedy: {one.remedy}")
    print(f"\n{examination.verdict}")


@contextmanager
def _columns_bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """A callback for every column that is examined: a bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("opening", total=None, count="")

        def advance(name: str, done: int, total: int) -> None:
            count = f"{done}/{total}"
            bars.update(task, description=escape(name), completed=done, total=total, count=count)

        yield advance

"""Results on the terminal: tables for people, JSON for programs, progress on standard error."""

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setwise.choices import Choices
    from setwise.comparison.comparison import Cell


def as_json(value: Any) -> None:
    """Print plain values as JSON; numbers that JSON does not have become null, dates text."""
    print(json.dumps(_plain(value), indent=2, default=str))


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str | None = None,
    numbers: bool = True,
    to_stderr: bool = False,
) -> None:
    """Print a table; the first column is text, the others are numbers unless ``numbers`` is False.

    With ``to_stderr`` it goes to standard error, apart from the results.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = Table(title=title, title_justify="left")
    for place, head in enumerate(heads):
        shown.add_column(head, justify="right" if place and numbers else "left", no_wrap=place == 0)
    for row in rows:
        shown.add_row(*map(escape, row))
    console = Console(stderr=to_stderr)
    # A pipe has no width; a table cut to 80 columns there would lose numbers.
    Console(stderr=to_stderr, width=None if console.is_terminal else 160).print(shown)


def note(text: str) -> None:
    """A line for people, out of the way of results."""
    print(text, file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Warnings as one line each, once, without the place in the code that raised them."""
    told: set[str] = set()

    def tell(message: Warning | str, *_: Any) -> None:
        text = " ".join(str(message).split())
        if text not in told:
            told.add(text)
            note(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell  # type: ignore[assignment]
        yield


@contextmanager
def cells_bar(total: int) -> "Iterator[Callable[[Cell], None]]":
    """A callback for every finished model and split: a bar on a terminal, lines elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    finished = 0

    def line(cell: "Cell") -> str:
        scores = f"top-1 {100 * cell.metrics['top1']:.1f} %  NLL {cell.metrics['nll']:.4f}"
        return f"split {cell.split + 1}  {cell.model:<16} {scores}  {cell.seconds:.1f} s"

    if not console.is_terminal:

        def report(cell: "Cell") -> None:
            nonlocal finished
            finished += 1
            note(f"[{finished}/{total}] {line(cell)}")

        yield report
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        task = bars.add_task("comparing", total=total)

        def advance(cell: "Cell") -> None:
            bars.console.print(line(cell), highlight=False)
            bars.advance(task)

        yield advance


@contextmanager
def counting_bar(title: str) -> "Iterator[Callable[[int, int], None]]":
    """A callback with how many are done and in all: a bar on a terminal, else ten lines."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        told = 0

        def report(done: int, total: int) -> None:
            nonlocal told
            at_once = told == 0 and done == total  # then the result says it all
            if 10 * done // total > told and not at_once:
                told = 10 * done // total
                note(f"[{done}/{total}] {title}")

        yield report
        return
    # How many there are is not known before the first are done.
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        task = bars.add_task(title, total=None, count="")
        yield lambda done, total: bars.update(
            task, completed=done, total=total, count=f"{done:,}/{total:,}"
        )


@contextmanager
def share_bar(
    title: str,
) -> "Iterator[tuple[Callable[[str], None], Callable[[float, str], None]]]":
    """Callbacks to print a line, and to report the share that is done: a bar on a terminal only.

    The share comes with a few words, such as the time that is left.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield note, lambda share, words: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    times = (TimeElapsedColumn(), TextColumn("{task.fields[words]}"))
    bars = Progress(*columns, *times, console=console, transient=True)
    task = bars.add_task(title, total=1.0, words="")

    def advance(share: float, words: str) -> None:
        bars.start()  # not before there is something to show
        bars.update(task, completed=share, words=words)

    try:
        yield lambda text: bars.console.print(text, highlight=False, markup=False), advance
    finally:
        bars.stop()


@contextmanager
def steps() -> "Iterator[Callable[[str], None]]":
    """A callback with what is being done: one changing line on a terminal, lines elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield note
        return
    with console.status("starting") as status:
        yield lambda text: status.update(text)


def dropped(choices: "Choices") -> None:
    """Say what reading left out."""
    for count, what in (
        (choices.dropped.without_choice, "sets without a choice"),
        (choices.dropped.several_choices, "sets with several choices"),
        (choices.dropped.duplicate_rows, "repeated rows"),
    ):
        if count:
            note(f"dropped {count:,} {what}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

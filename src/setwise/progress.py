"""Progress on a terminal: a bar with the loss and the best validation score, on standard error."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from setwise.training import OnEpoch, Training


@contextmanager
def epoch_bar(title: str, options: Training, wanted: bool | None) -> Iterator[OnEpoch | None]:
    """A callback that draws the bar of one fit, or None where nobody watches."""
    with _bar("epoch", title, options.epochs, wanted) as draw:
        if draw is None:
            yield None
            return

        def on_epoch(record: Mapping[str, int | float]) -> None:
            state = f"loss {record['loss']:.4f}  best {options.stop_on} {record['best']:.4f}"
            draw(int(record["epoch"]) + 1, state)

        yield on_epoch


@contextmanager
def population_bar(title: str, members: int, wanted: bool | None) -> Iterator[OnEpoch | None]:
    """A callback that draws the bar of a population, or None where nobody watches."""
    with _bar("model", title, members, wanted) as draw:
        if draw is None:
            yield None
            return

        def on_epoch(record: Mapping[str, int | float]) -> None:
            state = f"{record['training']} training, epoch {record['epoch']}"
            draw(int(record["finished"]), state)

        yield on_epoch


@contextmanager
def _bar(
    unit: str, title: str, total: int, wanted: bool | None
) -> Iterator[Callable[[int, str], None] | None]:
    """Draws how many units are done, and a few words; ``wanted=None``: on a terminal only."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(unit + " {task.completed}/{task.total}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=total, state="compiling …")
        yield lambda done, state: bars.update(task, completed=done, state=state)

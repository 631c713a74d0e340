"""Progress on a terminal: a bar with the loss and the best validation score, on standard error."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from setwise.training import OnEpoch, Training


@contextmanager
def epoch_bar(title: str, options: Training, wanted: bool | None) -> Iterator[OnEpoch | None]:
    """A callback that draws the bar, or None where nobody watches.

    ``wanted=None`` shows the bar on a terminal only.
    """
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("epoch {task.completed}/{task.total}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=options.epochs, state="compiling …")

        def on_epoch(record: Mapping[str, int | float]) -> None:
            bars.update(
                task,
                completed=record["epoch"] + 1,
                state=f"loss {record['loss']:.4f}  best {options.stop_on} {record['best']:.4f}",
            )

        yield on_epoch

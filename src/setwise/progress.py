"""Progress on a terminal: a bar with the loss and the best validation score, on standard error."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass

from setwise.training import OnEpoch, Options


class EpochBar:
    """Draws epochs with their loss and, where epochs are long, how far the current one is."""

    def __init__(self, draw: Callable[[int, str], None], options: Options):
        self._draw, self._options, self._state = draw, options, ""

    def on_epoch(self, record: Mapping[str, int | float]) -> None:
        """After an epoch."""
        stop_on = self._options.stop_on
        self._state = f"loss {record['loss']:.4f}  best {stop_on} {record['best']:.4f}"
        self._draw(int(record["epoch"]) + 1, self._state)

    def on_shard(self, epoch: int, done: int, shards: int) -> None:
        """After a shard of an epoch."""
        self._draw(epoch, f"{self._state}  {100 * done // shards} % of epoch {epoch + 1}".strip())


@contextmanager
def epoch_bar(title: str, options: Options, wanted: bool | None) -> Iterator[EpochBar | None]:
    """The bar of one fit, or None where nobody watches."""
    with _bar("epoch", title, options.epochs, wanted) as draw:
        yield None if draw is None else EpochBar(draw, options)


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


@dataclass(frozen=True)
class Stand:
    """How far a fit is: so many units of a total, and a few words."""

    title: str
    unit: str
    total: int
    done: int
    state: str


_told: ContextVar[Callable[[Stand], None] | None] = ContextVar("told", default=None)


@contextmanager
def told_to(tell: Callable[[Stand], None]) -> Iterator[None]:
    """Fits in this block tell how they stand, for others to draw, and draw no bar themselves.

    >>> with told_to(lambda stand: print(stand.title, stand.done, "of", stand.total)):
    ...     with epoch_bar("SDW", Options(epochs=9), wanted=None) as bar:
    ...         bar.on_epoch({"epoch": 3, "loss": 1.0, "best": 1.1})
    SDW 0 of 9
    SDW 4 of 9
    """
    token = _told.set(tell)
    try:
        yield
    finally:
        _told.reset(token)


@contextmanager
def drawn(wanted: bool | None) -> Iterator[Callable[[Stand], None] | None]:
    """Draws a bar of what it is told last; ``wanted=None``: on a terminal only, or else None."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[unit]} {task.completed}/{task.total}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None, unit="", state="")

        def draw(stand: Stand) -> None:
            bars.update(
                task, description=stand.title, unit=stand.unit, total=stand.total,
                completed=stand.done, state=stand.state,
            )  # fmt: skip

        yield draw


@contextmanager
def _bar(
    unit: str, title: str, total: int, wanted: bool | None
) -> Iterator[Callable[[int, str], None] | None]:
    """Draws, or tells, how many units are done, and a few words."""
    with nullcontext(_told.get()) if _told.get() else drawn(wanted) as show:
        if show is None:
            yield None
            return
        show(Stand(title, unit, total, 0, "compiling …"))
        yield lambda done, state: show(Stand(title, unit, total, done, state))

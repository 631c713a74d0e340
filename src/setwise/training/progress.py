"""Progress of a fit: a bar on a terminal, a bar in a notebook, lines elsewhere."""

import html
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from setwise.training.options import Options  # noqa: F401 (of an example)
from setwise.training.population_plan import Member

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_LOOKS = 0.2  # in a notebook: each is a message to the browser


class TrainingBar:
    """Draws the epochs of one model, or how many of several models have finished.

    Where epochs are long, it also says how far the current one is.
    """

    def __init__(self, draw: Callable[[int, str], None], members: int, stop_on: str):
        self._draw, self._one, self._stop_on = draw, members == 1, stop_on
        self._done, self._state = 0, ""

    def on_epoch(self, record: Mapping[str, int | float]) -> None:
        """After an epoch."""
        if self._one:
            self._done = int(record["epoch"]) + 1
            self._state = f"loss {record['loss']:.4f}  best {self._stop_on} {record['best']:.4f}"
        else:
            self._done = int(record["finished"])
            self._state = f"{record['training']} training, epoch {record['epoch']}"
        self._draw(self._done, self._state)

    def on_shard(self, epoch: int, done: int, shards: int) -> None:
        """After a shard of an epoch."""
        part = f"{100 * done // shards} % of epoch {epoch + 1}"
        self._draw(self._done, f"{self._state}  {part}".strip())


@contextmanager
def training_bar(
    title: str, members: Sequence[Member], wanted: bool | None
) -> Iterator[TrainingBar | None]:
    """The bar of a fit, or None where nobody watches."""
    options = members[0].options
    unit, total = ("epoch", options.epochs) if len(members) == 1 else ("model", len(members))
    with nullcontext(_told.get()) if _told.get() else drawn(wanted) as show:
        if show is None:
            yield None
            return

        def draw(done: int, state: str) -> None:
            show(Stand(title, unit, total, done, state))

        draw(0, "compiling …")
        yield TrainingBar(draw, len(members), options.stop_on)


@contextmanager
def round_bar(
    title: str, rounds: int, wanted: bool | None
) -> Iterator[Callable[[int, float], None] | None]:
    """The bar of boosting: called with the round and the best NLL; None where nobody watches."""
    with nullcontext(_told.get()) if _told.get() else drawn(wanted) as show:
        if show is None:
            yield None
            return

        def draw(done: int, best: float) -> None:
            show(Stand(title, "round", rounds, done, f"best nll {best:.4f}"))

        yield draw


@dataclass(frozen=True)
class Stand:
    """How far a fit is: so many units of a total, and a few words."""

    title: str
    unit: str
    total: int
    done: int
    state: str

    @property
    def count(self) -> str:
        """Such as "epoch 3/20"."""
        return f"{self.unit} {self.done}/{self.total}"


_told: ContextVar[Callable[[Stand], None] | None] = ContextVar("told", default=None)


@contextmanager
def told_to(tell: Callable[[Stand], None]) -> Iterator[None]:
    """Fits in this block tell how they stand, for others to draw, and draw no bar themselves.

    >>> with told_to(lambda stand: print(stand.title, stand.done, "of", stand.total)):
    ...     with training_bar("SDW", [Member(Options(epochs=9))], wanted=None) as bar:
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
    """Draws what it is told last: a bar on a terminal or in a notebook, else lines.

    ``wanted=None``: a bar where there can be one, and else None; ``wanted=False``: None.
    """
    terminal = sys.stderr.isatty()
    if wanted is False or (wanted is None and not terminal and not in_notebook()):
        yield None
    elif in_notebook():
        with _in_notebook() as draw:
            yield draw
    elif terminal:
        with _on_terminal() as draw:
            yield draw
    else:
        with lines(sys.stderr) as draw:
            yield draw


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook.

    IPython is asked only if it is loaded; its shell on a terminal has no kernel.
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else getattr(ipython, "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def lines(
    stream: Any,
    seconds: float = SECONDS_BETWEEN_LINES,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[Stand], None]]:
    """Writes a line for the first stand and the last, and between them one per some seconds.

    >>> times = iter([0.0, 1.0, 12.0, 15.0])
    >>> with lines(sys.stdout, clock=lambda: next(times)) as tell:
    ...     for done in range(4):
    ...         tell(Stand("SDW", "epoch", 3, done, "loss 1.2"))
    SDW  epoch 0/3  loss 1.2  0 s
    SDW  epoch 2/3  loss 1.2  12 s
    SDW  epoch 3/3  loss 1.2  15 s
    """

    def write(stand: Stand, passed: float) -> None:
        stream.write(f"{stand.title}  {stand.count}  {stand.state}  {passed:.0f} s\n")
        stream.flush()  # or a log would show it when all is over

    with _at_most_every(seconds, write, clock) as tell:
        yield tell


@contextmanager
def _at_most_every(
    seconds: float, show: Callable[[Stand, float], None], clock: Callable[[], float]
) -> Iterator[Callable[[Stand], None]]:
    """Shows the first stand and the last with the time that has passed, and some between."""
    begun: float | None = None
    shown_at, waiting = 0.0, None

    def tell(stand: Stand) -> None:
        nonlocal begun, shown_at, waiting
        now = clock()
        begun = now if begun is None else begun
        due = now == begun or now - shown_at >= seconds
        waiting = None if due else (stand, now - begun)
        if due:
            shown_at = now
            show(stand, now - begun)

    try:
        yield tell
    finally:
        if waiting is not None:
            show(*waiting)


@contextmanager
def _in_notebook() -> Iterator[Callable[[Stand], None]]:
    """A bar below the cell, which the browser draws; nothing but IPython is needed for it."""
    from IPython.display import HTML, display  # type: ignore[import-not-found]

    handle: Any = None

    def show(stand: Stand, passed: float) -> None:
        nonlocal handle
        text = f"{stand.count} &nbsp; {html.escape(stand.state)} &nbsp; {passed:.0f} s"
        bar = f'<progress value="{stand.done}" max="{max(stand.total, 1)}"></progress>'
        drawing = HTML(f"<div>{html.escape(stand.title)} {bar} {text}</div>")
        if handle is None:
            handle = display(drawing, display_id=True)
        else:
            handle.update(drawing)

    with _at_most_every(SECONDS_BETWEEN_LOOKS, show, time.monotonic) as tell:
        yield tell


@contextmanager
def _on_terminal() -> Iterator[Callable[[Stand], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None, count="", state="")

        def draw(stand: Stand) -> None:
            bars.update(
                task, description=stand.title, count=stand.count, total=stand.total,
                completed=stand.done, state=stand.state,
            )  # fmt: skip

        yield draw

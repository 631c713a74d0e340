"""A chunk of whole sets in, the predictions of its rows out; many chunks at a time."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Bool, Float, Int
from setwise.choices import Choices, Encoded, Schema, read_like
from setwise.metrics import predicted

OnRows = Callable[[int, int], None]
"""Called with the rows done and in all."""

Task, Done = TypeVar("Task"), TypeVar("Done")


@runtime_checkable
class RowModel(Protocol):
    """What predicts: :class:`setwise.scoring.Scorer`, or an estimator in that form.

    Threads share it.
    """

    @property
    def schema(self) -> Schema:
        """From a table to numbers."""

    def row_log_probabilities(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        """log P(x | s) of every encoded row, the outside options' included."""


class Predictions(NamedTuple):
    """Of every row of a table but the outside options."""

    probability: Float[np.ndarray, " rows"]
    predicted: Bool[np.ndarray, " rows"]

    @classmethod
    def of(cls, model: RowModel, encoded: Encoded) -> "Predictions":
        """Scores are computed once for both, which takes half the time of asking for each."""
        logs, real = model.row_log_probabilities(encoded), model.schema.real_rows(encoded)
        best = predicted(logs, encoded.offsets)
        if real.all():
            return cls(np.exp(logs), best)
        return cls(np.exp(logs[real]), best[real])

    @classmethod
    def of_choices(cls, model: RowModel, choices: Choices) -> "Predictions":
        """In the order of the table that the choices were read from."""
        return cls.of(model, model.schema.encode(choices))._at(choices.rows)

    def beside(self, frame: Any) -> Any:
        """A Polars frame with these columns added, or replaced where they stand."""
        import polars as pl

        return frame.with_columns(
            probability=pl.Series(self.probability),
            predicted=pl.Series(self.predicted.astype(np.int64)),
        )

    def _at(self, places: Int[np.ndarray, " rows"]) -> "Predictions":
        """The first of these predictions at the first place, and so on."""
        if np.array_equal(places, np.arange(len(places))):
            return self
        moved = Predictions(np.empty_like(self.probability), np.empty_like(self.predicted))
        moved.probability[places], moved.predicted[places] = self
        return moved


def predictions(
    model: RowModel, source: Path, rows: Int[np.ndarray, " rows"], frame: Any
) -> Predictions:
    """Of a frame with these rows of the file, in the frame's order."""
    with naming_rows_of(source, rows):
        return Predictions.of_choices(model, read_like(model.schema, frame))


def in_threads(work: Callable[[Task], Done], tasks: Iterable[Task]) -> Iterator[Done]:
    """The results of the tasks, in their order; only as many are begun as there are cores.

    NumPy and Polars let other threads work while they compute. So one chunk is read while another
    is scored, and a third written by who takes the results.

    >>> list(in_threads(lambda n: n * n, range(5)))
    [0, 1, 4, 9, 16]
    """
    threads = min(8, os.cpu_count() or 1)
    waiting: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads, "setwise-predict") as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def naming_rows_of(source: Path, rows: Int[np.ndarray, " rows"]) -> Iterator[None]:
    """Errors about a row of a chunk become errors about that row of the file."""
    try:
        yield
    except InputError as error:
        raise error.within(source, rows) from error

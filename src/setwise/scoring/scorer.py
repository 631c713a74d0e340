"""A model file as a function of arrays or tables, with NumPy alone.

Sets of similar size are padded together, and results come back as one value per row. What a model
predicts of rows, be it a scorer or an estimator, is here too.
"""

import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from setwise import _segments
from setwise._arguments import checked
from setwise._arguments import path as check_path
from setwise._errors import DataWarning, InputError
from setwise._shapes import Bool, Float, Float32, Int
from setwise._tensorfile import made_elsewhere
from setwise.choices import Bucket, Choices, Encoded, Schema, bucket, read_like
from setwise.choices.validation import finite
from setwise.scoring.model_file import Artifact, without_graph
from setwise.scoring.numpy_program import NumpyProgram

Items = Float32[np.ndarray, "sets items features"]
Present = Bool[np.ndarray, "sets items"]


KEPT = 1 << 24
"""Bytes: more than the largest array of a block has."""


@cache
def keep_freed_memory() -> None:
    """Let the C library keep what NumPy frees, once per process.

    On Linux, it gives arrays of a few megabytes back to the system, which then fills with zeros
    what it hands out again: that took a third of the time. To have freed one larger piece is what
    raises its limit; the piece is never written to.
    """
    bytes(KEPT)


def in_buckets(encoded: Encoded) -> Iterator[tuple[Items, Present, Int[np.ndarray, " present"]]]:
    """Padded items, which of them are present, and the row of each that is.

    A set's context joins the features of each of its items.

    >>> one = Encoded(np.arange(3.0)[:, None], np.array([[7.0], [8.0]]), np.array([0, 1, 3]),
    ...               None, None)
    >>> [(items.tolist(), present.tolist()) for items, present, _ in in_buckets(one)][1]
    ([[[1.0, 8.0], [2.0, 8.0]]], [[True, True]])
    """
    sizes = encoded.sizes
    if (sizes == sizes[0]).all():
        present = np.ones((len(sizes), int(sizes[0])), bool)
        items = encoded.items.reshape(*present.shape, -1)
        yield _with_context(items, encoded.context), present, np.arange(len(encoded.items))
        return
    for one in bucket(sizes, most=8, overhead=0.02):
        yield _padded(encoded, one)


def _padded(encoded: Encoded, one: Bucket) -> tuple[Items, Present, Int[np.ndarray, " present"]]:
    present = np.arange(one.width) < encoded.sizes[one.sets][:, None]
    places = encoded.offsets[:-1][one.sets][:, None] + np.arange(one.width)
    rows = places[present]
    items = np.zeros((*present.shape, encoded.items.shape[1]), np.float32)
    items[present] = encoded.items[rows]
    return _with_context(items, encoded.context[one.sets]), present, rows


def _with_context(items: np.ndarray, context: np.ndarray) -> Items:
    sets, width, _ = items.shape
    if context.shape[1] == 0:
        return items.astype(np.float32, copy=False)
    repeated = np.broadcast_to(context[:, None, :], (sets, width, context.shape[1]))
    return np.concatenate([items, repeated], 2).astype(np.float32, copy=False)


@dataclass(frozen=True, eq=False)
class Scorer:
    """A fitted model that predicts without JAX: the estimator's numbers to within 1e-5.

    No call changes its state, so that threads may share it.

    >>> import tempfile, setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> model = sw.MNL().fit(choices)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/trips.setwise")
    ...     scorer = load_scorer(f"{folder}/trips.setwise")
    >>> bool(np.allclose(scorer.predict_proba(choices), model.predict_proba(choices), atol=1e-6))
    True
    """

    estimator: str
    """The name of the estimator's class."""
    schema: Schema
    """From a table to numbers, as fitted on the training data."""
    program: NumpyProgram
    """From numbers to log-probabilities."""

    @classmethod
    def of(cls, artifact: Artifact, path: str | Path) -> "Scorer":
        """The scorer of what was read from a file."""
        if artifact.graph is None:
            raise InputError(f"{path} {without_graph(artifact.estimator)}")
        arrays = artifact.arrays | artifact.constants
        keep_freed_memory()
        with made_elsewhere(path, "graph"):
            scorer = cls(
                artifact.estimator, artifact.schema, NumpyProgram.of(artifact.graph, arrays)
            )
            scorer._try()
        return scorer

    def _try(self) -> None:
        """Score two small sets, so that a broken model is refused when it is read, not later."""
        items = np.linspace(-1, 1, 6 * self.schema.width, dtype=np.float32).reshape(2, 3, -1)
        for present in (np.ones((2, 3), bool), np.array([[True] * 3, [True, True, False]])):
            logs = self.program(items, present)
            total = np.exp(logs.astype(np.float64)).sum(1)
            if logs.shape != (2, 3) or not (np.abs(total - 1) < 1e-3).all():
                raise InputError(f"its probabilities of a set add up to {total[0]}, not 1")

    def log_probabilities(
        self,
        items: Float32[np.ndarray, "sets items features"],
        present: Bool[np.ndarray, "sets items"],
    ) -> Float32[np.ndarray, "sets items"]:
        """log P(x | s) of padded sets; minus infinity for items that are not present.

        The features are those of ``schema.encode``: the items' numeric columns, standardised, and
        then the set's context, the same for all its items. With an outside option, a set's last
        item present is that option.
        """
        if items.ndim != 3 or items.shape[2] != self.schema.width:
            raise InputError(
                f"items have shape {items.shape}; the model takes sets x items x "
                f"{self.schema.width} features"
            )
        if present.shape != items.shape[:2]:
            raise InputError(
                f"present has shape {present.shape} and items have {items.shape}; "
                "it says of each item whether it is there"
            )
        return self.program(items, present)

    def probabilities(
        self,
        items: Float32[np.ndarray, "sets items features"],
        present: Bool[np.ndarray, "sets items"],
    ) -> Float32[np.ndarray, "sets items"]:
        """P(x | s) of padded sets; zero for items that are not present."""
        logs = self.log_probabilities(items, present)
        return np.exp(logs, out=logs)

    def predict_proba(self, data: Any) -> Float32[np.ndarray, " rows"]:
        """P(x | s), one probability per row, in the table's order.

        ``data`` is any table with the columns of the training table (a frame, a mapping of
        columns, a path to a file) or :class:`~setwise.choices.Choices`.
        """
        choices = data if isinstance(data, Choices) else read_like(self.schema, data)
        parts = []
        for part in self.schema.over(choices).blocks():
            encoded = part.encoded()
            logs = self.row_log_probabilities(encoded)
            parts.append(np.exp(logs[self.schema.real_rows(encoded)]))
        return choices.in_table_order(finite(np.concatenate(parts), choices))

    def row_log_probabilities(self, encoded: Encoded) -> Float32[np.ndarray, " rows"]:
        """log P(x | s) of every encoded row, outside options included."""
        flat = np.empty(int(encoded.offsets[-1]), np.float32)
        for items, present, rows in in_buckets(encoded):
            flat[rows] = self.program(items, present)[present]
        return flat


@checked(path=check_path)
def load_scorer(path: str | Path) -> Scorer:
    """Read a model file as a :class:`Scorer`, which needs NumPy only.

    :func:`setwise.load` reads the same file as an estimator, which needs JAX.
    """
    return Scorer.of(Artifact.read(path), path)


@runtime_checkable
class RowModel(Protocol):
    """What predicts rows: a :class:`setwise.scoring.Scorer` or a fitted estimator.

    Threads share it.
    """

    @property
    def schema(self) -> Schema:
        """From a table to numbers."""

    def row_log_probabilities(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        """log P(x | s) of every encoded row, outside options included."""


class Predictions(NamedTuple):
    """Probability and prediction of every row of a table, outside options excluded."""

    probability: Float[np.ndarray, " rows"]
    predicted: Bool[np.ndarray, " rows"]

    @classmethod
    def of(cls, model: RowModel, encoded: Encoded) -> "Predictions":
        """Compute the scores once for both, which takes half the time of asking for each."""
        logs, real = model.row_log_probabilities(encoded), model.schema.real_rows(encoded)
        best = _segments.predicted(logs, encoded.offsets)
        if real.all():
            return cls(np.exp(logs), best)
        return cls(np.exp(logs[real]), best[real])

    @classmethod
    def of_choices(cls, model: RowModel, choices: Choices) -> "Predictions":
        """In the order of the table that the choices were read from."""
        found = cls.of(model, model.schema.encode(choices))
        if (np.diff(choices.cells) > 0).all():
            return found
        return cls(*(choices.in_table_order(values) for values in found))

    def joined_to(self, frame: Any) -> Any:
        """A Polars frame with these columns added, or replaced where they stand."""
        import polars as pl

        return frame.with_columns(
            probability=pl.Series(self.probability),
            predicted=pl.Series(self.predicted.astype(np.int64)),
        )


ADDED = Predictions._fields


def warn_of_replaced(names: Iterable[str], added: Collection[str] = ADDED) -> None:
    """Say that columns of a table have the names of those that are added, and are replaced."""
    for name in (one for one in names if one in added):
        warnings.warn(
            f"the table has a column '{name}', which the predictions replace in what comes back; "
            "rename it to keep both",
            DataWarning,
            stacklevel=4,
        )

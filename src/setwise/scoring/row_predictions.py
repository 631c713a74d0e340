"""Probability and prediction of rows: of a table, or of a part of a file."""

import warnings
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from setwise._errors import DataWarning
from setwise._shapes import Bool, Float
from setwise.choices import Choices, Encoded, Schema


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
        from setwise.metrics import predicted  # an installation for scoring alone cannot import it

        logs, real = model.row_log_probabilities(encoded), model.schema.real_rows(encoded)
        best = predicted(logs, encoded.offsets)
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

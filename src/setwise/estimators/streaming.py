"""Predictions for files of any size, by an estimator."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from setwise.choices import Encoded, Schema
from setwise.estimators.base import Estimator
from setwise.scoring import prediction
from setwise.scoring.prediction_rows import OnRows
from setwise.scoring.scorer import Scorer


def predict_file(
    model: Estimator | Scorer, source: str | Path, out: str | Path, on_rows: OnRows | None = None
) -> int:
    """Write a file's rows with columns ``probability`` and ``predicted``; returns their number.

    The numbers are those of ``estimator.predict_proba`` and ``estimator.predict`` for the whole
    table, up to the rounding of float32; memory is bounded whatever the file's size. A model read
    by :func:`setwise.scoring.load` in place of the estimator gives them without JAX, and faster:
    that is what ``setwise predict`` does.

    Arguments as of :func:`setwise.scoring.prediction.predict_file`.

    >>> import tempfile, polars as pl, setwise as sw
    >>> drawn = sw.datasets.generate("mnl", sets=100, seed=0)
    >>> model = sw.MNL().fit(drawn.choices)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     drawn.table.write_parquet(f"{folder}/trips.parquet")
    ...     rows = predict_file(model, f"{folder}/trips.parquet", f"{folder}/predictions.parquet")
    ...     written = pl.read_parquet(f"{folder}/predictions.parquet")
    >>> rows == len(drawn.table), written.columns[-2:], written["predicted"].sum()
    (True, ['probability', 'predicted'], 100)
    """
    if isinstance(model, Scorer):
        return prediction.predict_file(model, source, out, on_rows)
    model.check_is_fitted()
    return prediction.predict_file(ByEstimator(model), source, out, on_rows)


@dataclass(frozen=True, eq=False)
class ByEstimator:
    """An estimator as what predicts rows: for models that have no graph, such as LightGBM's."""

    estimator: Estimator

    @property
    def schema(self) -> Schema:
        """From a table to numbers."""
        return self.estimator.schema_

    def row_log_probabilities(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        """log P(x | s) of every encoded row."""
        return self.estimator.row_log_probabilities(encoded)

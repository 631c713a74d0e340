"""Predictions from file to file, in bounded memory, by whatever gives a probability to each row.

This room knows neither the estimators nor their engine: a model that a file's graph describes is
scored with NumPy (:mod:`setwise.scorer`), and the command ``setwise predict`` starts in a moment.
"""

from setwise.prediction.files import predict_file
from setwise.prediction.rows import OnRows, Predictions, RowModel

__all__ = ["OnRows", "Predictions", "RowModel", "predict_file"]

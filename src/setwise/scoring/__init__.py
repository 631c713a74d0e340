"""A fitted model as a list of plain array operations: traced once, run by NumPy, written as ONNX.

Scoring needs a model file and NumPy, not JAX:

>>> import setwise.scoring
>>> scorer = setwise.scoring.load_scorer("hotels.setwise")    # doctest: +SKIP
>>> scorer.predict_proba("searches.parquet")           # doctest: +SKIP
"""

from setwise.scoring.graph import Builder, Graph, Operation
from setwise.scoring.onnx_file import export_onnx
from setwise.scoring.operations import Spec
from setwise.scoring.prediction import predict_file
from setwise.scoring.scorer import Scorer, load_scorer

__all__ = [
    "Builder",
    "Graph",
    "Operation",
    "Scorer",
    "Spec",
    "export_onnx",
    "load_scorer",
    "predict_file",
]

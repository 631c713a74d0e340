"""A fitted model as a list of plain array operations: traced once, run by NumPy, written as ONNX.

Scoring needs a model file and NumPy, not JAX:

>>> import setwise.scoring
>>> scorer = setwise.scoring.load_scorer("hotels.setwise")    # doctest: +SKIP
>>> scorer.predict_proba("searches.parquet")           # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from setwise._later import later
from setwise.scoring.card import Card
from setwise.scoring.graph import Builder, Graph, Operation
from setwise.scoring.operations import Spec
from setwise.scoring.scorer import Scorer, load_scorer

if TYPE_CHECKING:
    from setwise.scoring.onnx_file import export_onnx
    from setwise.scoring.prediction import predict_file
    from setwise.scoring.wide_tables import predict_wide

# A prediction from arrays should not wait for these.
__getattr__ = later(
    __name__,
    {
        "export_onnx": "setwise.scoring.onnx_file",
        "predict_file": "setwise.scoring.prediction",
        "predict_wide": "setwise.scoring.wide_tables",
    },
)

__all__ = [
    "Builder",
    "Card",
    "Graph",
    "Operation",
    "Scorer",
    "Spec",
    "export_onnx",
    "load_scorer",
    "predict_file",
    "predict_wide",
]

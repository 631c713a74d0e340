"""A fitted model as a list of plain array operations: traced once, run by NumPy, written as ONNX.

Scoring needs a model file and NumPy, not JAX:

>>> import setwise.scoring
>>> scorer = setwise.scoring.load_scorer("hotels.setwise")    # doctest: +SKIP
>>> scorer.predict_proba("searches.parquet")           # doctest: +SKIP
"""

import importlib
from typing import TYPE_CHECKING, Any

from setwise.scoring.card import Card
from setwise.scoring.graph import Builder, Graph, Operation
from setwise.scoring.operations import Spec
from setwise.scoring.scorer import Scorer, load_scorer

if TYPE_CHECKING:
    from setwise.scoring.onnx_file import export_onnx
    from setwise.scoring.prediction import predict_file
    from setwise.scoring.wide_tables import predict_wide

# Found on first use: a prediction from arrays should not wait for them.
_LATER = {
    "export_onnx": "setwise.scoring.onnx_file",
    "predict_file": "setwise.scoring.prediction",
    "predict_wide": "setwise.scoring.wide_tables",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'setwise.scoring' has no attribute '{name}'")
    return getattr(importlib.import_module(_LATER[name]), name)


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

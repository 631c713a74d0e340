"""Scoring without the engine: a model file and NumPy.

>>> import setwise.scorer
>>> scorer = setwise.scorer.load("hotels.setwise")     # doctest: +SKIP
>>> scorer.predict_proba("searches.parquet")           # doctest: +SKIP
"""

from setwise.scorer.scorer import Scorer, load

__all__ = ["Scorer", "load"]

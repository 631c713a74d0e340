"""Inference between fitted models: tests, and their estimates side by side."""

from setwise.inference.model_tests import (
    ModelTest,
    ben_akiva_swait,
    likelihood_ratio,
    score_test,
    vuong,
    wald,
)
from setwise.inference.tables import ResultsTable, results_table

__all__ = [
    "ModelTest",
    "ResultsTable",
    "ben_akiva_swait",
    "likelihood_ratio",
    "results_table",
    "score_test",
    "vuong",
    "wald",
]

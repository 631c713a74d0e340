"""Experiments: many models, many splits, one table."""

from setwise.experiments.comparison import Cell, Comparison, Row, compare
from setwise.experiments.figures import tuning_history
from setwise.experiments.report import write_report
from setwise.experiments.tuned import TunedSplit, tune_splits

__all__ = [
    "Cell",
    "Comparison",
    "Row",
    "TunedSplit",
    "compare",
    "tune_splits",
    "tuning_history",
    "write_report",
]

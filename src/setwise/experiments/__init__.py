"""Experiments: many models, many splits, one table."""

from setwise.experiments.comparison import Cell, Comparison, Row, compare
from setwise.experiments.figures import tuning_history
from setwise.experiments.iia_report import IIAReport, examine_iia, write_iia_report
from setwise.experiments.report import write_report
from setwise.experiments.tuned import TunedSplit, tune_splits

__all__ = [
    "Cell",
    "Comparison",
    "IIAReport",
    "Row",
    "TunedSplit",
    "compare",
    "examine_iia",
    "tune_splits",
    "tuning_history",
    "write_iia_report",
    "write_report",
]

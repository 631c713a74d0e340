"""Experiments: many models, many splits, one table."""

from setwise.experiments.comparison import Cell, Comparison, Row, compare
from setwise.experiments.report import write_report

__all__ = ["Cell", "Comparison", "Row", "compare", "write_report"]

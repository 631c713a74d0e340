"""Many models on many splits: one table, with tests of the differences."""

from setwise.comparison.comparison import Cell, Comparison, Row, TunedSplit, compare, tune_splits

__all__ = ["Cell", "Comparison", "Row", "TunedSplit", "compare", "tune_splits"]

"""Tuning: Optuna proposes trials in batches, and each batch trains as one population."""

from setwise.tuning.options import STORAGE, OnTrials, Tuning
from setwise.tuning.search import Trial, Tuned, tunable, tune, tune_tasks
from setwise.tuning.space import SPACES, Range, Space, parse, with_arguments

__all__ = [
    "SPACES",
    "STORAGE",
    "OnTrials",
    "Range",
    "Space",
    "Trial",
    "Tuned",
    "Tuning",
    "parse",
    "tunable",
    "tune",
    "tune_tasks",
    "with_arguments",
]

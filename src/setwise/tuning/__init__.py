"""Tuning: Optuna proposes trials in batches; networks train a batch as one population."""

from setwise.tuning.options import STORAGE, OnTrials, Tuning
from setwise.tuning.search import Trial, Tuned, tunable, tune, tune_tasks
from setwise.tuning.space import (
    SPACES,
    Range,
    Space,
    check_space,
    default_space,
    parse,
    with_arguments,
)

__all__ = [
    "SPACES",
    "STORAGE",
    "OnTrials",
    "Range",
    "Space",
    "Trial",
    "Tuned",
    "Tuning",
    "check_space",
    "default_space",
    "parse",
    "tunable",
    "tune",
    "tune_tasks",
    "with_arguments",
]

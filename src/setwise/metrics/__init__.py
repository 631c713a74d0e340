"""Measures of predictions: of one model on choices, and means over sets with their intervals."""

from setwise._segments import predicted
from setwise.metrics.measures import (
    CALIBRATION_BINS,
    HIGHER_IS_BETTER,
    Metrics,
    Outcomes,
    Ranks,
    Reliability,
    measure,
    standard_error,
)
from setwise.metrics.set_means import SetMean, bootstrap_interval

__all__ = [
    "CALIBRATION_BINS",
    "HIGHER_IS_BETTER",
    "Metrics",
    "Outcomes",
    "Ranks",
    "Reliability",
    "SetMean",
    "bootstrap_interval",
    "measure",
    "predicted",
    "standard_error",
]

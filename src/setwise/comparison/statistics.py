"""Are two models different, or is it the split? Paired statistics over the same splits."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy import stats


def standard_error(values: Float[np.ndarray, " splits"]) -> float:
    """Standard error of the mean over splits; NaN for a single split."""
    if len(values) < 2:
        return float("nan")
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def paired_p(differences: Float[np.ndarray, " splits"], test_share: float) -> float:
    """Two-sided p-value that the mean paired difference is zero: the corrected resampled t-test.

    Random splits of the same data overlap, so the plain t-test is too sure of itself; Nadeau and
    Bengio (2003) add test size / training size to 1 / splits. ``test_share`` is that ratio.

    >>> paired_p(np.array([1.0, 1.1, 0.9, 1.0]), 0.5) < 0.01
    True
    """
    splits = len(differences)
    if splits < 2:
        return float("nan")
    variance = differences.var(ddof=1)
    if variance == 0:
        return 1.0 if differences.mean() == 0 else 0.0
    t = differences.mean() / np.sqrt((1 / splits + test_share) * variance)
    return float(2 * stats.t.sf(abs(t), splits - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for several comparisons; NaN where there is nothing to correct.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    if np.isnan(p_values).any():
        return [float("nan")] * len(p_values)
    order = np.argsort(p_values)
    corrected, running = np.empty(len(p_values)), 0.0
    for place, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = running
    return corrected.tolist()


def friedman(table: Float[np.ndarray, "models splits"]) -> tuple[float, float] | None:
    """Friedman's chi-squared and its p-value, that all models rank alike.

    None for fewer than three models or two splits; 0 and 1 where all models are equal everywhere.

    >>> table = np.array([[3.0, 3, 3, 3], [2, 2, 2, 2], [1, 1, 1, 1]])
    >>> [round(one, 4) for one in friedman(table)]
    [8.0, 0.0183]
    """
    if table.shape[0] < 3 or table.shape[1] < 2:
        return None
    if (table == table[0]).all():
        return 0.0, 1.0
    found = stats.friedmanchisquare(*table)
    return float(found.statistic), float(found.pvalue)


def mean_places(
    table: Float[np.ndarray, "models splits"], higher_is_better: bool
) -> Float[np.ndarray, " models"]:
    """Each model's mean place over the splits: 1 for the best; ties share the mean of their places.

    >>> mean_places(np.array([[0.5, 0.7], [0.6, 0.7], [0.4, 0.1]]), True).tolist()
    [1.75, 1.25, 3.0]
    """
    return stats.rankdata(-table if higher_is_better else table, axis=0).mean(1)


def critical_difference(models: int, splits: int, level: float = 0.05) -> float:
    """Nemenyi's critical difference: mean places that differ by less are not distinguished.

    q sqrt(k (k + 1) / (6 n)) for k models and n splits, with q the quantile of the studentised
    range over sqrt(2).

    >>> round(critical_difference(5, 30), 4)
    1.1136
    """
    q = stats.studentized_range.ppf(1 - level, models, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(models * (models + 1) / (6 * splits)))

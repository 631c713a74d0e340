"""Willingness to pay: what one more of a column is worth, in units of price, for any model.

For an item, the worth of column k at price q is

    worth = - (change of log P by a step of k / step) / (change of log P by a step of q / step)

which is -beta_k / beta_q for a logit. Models that are linear in price give it with an interval
(:func:`setwise.consequences.willingness_to_pay`). Here it is worked out item by item.
"""

import numpy as np
from jaxtyping import Float

from setwise._errors import InputError
from setwise.auditing.findings import AuditFinding
from setwise.auditing.sample import Sample, raised, spread_of
from setwise.consequences import willingness_to_pay
from setwise.consequences.own_changes import own_log_probabilities

CHECK = "willingness to pay"
LEAST = 1e-4
"""Of log P: a step of the price must change it by so much, or nothing is counted in price."""
FEW = 20
"""With fewer items that can be worked out, quantiles say nothing."""


def worth_findings(sample: Sample, price: str, columns: list[str]) -> list[AuditFinding]:
    """What one more of each column is worth, in units of the price."""
    of_price = _slopes(sample, price)
    counted = of_price < 0
    known = np.isfinite(of_price)
    if known.sum() < FEW or counted[known].mean() < 0.5:
        share = float("nan") if not known.any() else float((~counted)[known].mean())
        sentence = (
            f"'{price}' lowers the probability of fewer than half of the items, so that nothing "
            "can be counted in it."
        )
        return [AuditFinding(CHECK, price, "look", share, 0.0, sentence)]
    room = float(np.nanmax(sample.values(price)) - np.nanmin(sample.values(price)))
    found = []
    for column in columns:
        slopes = _slopes(sample, column)
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = np.where(counted, -slopes / of_price, np.nan)
        rows = np.isfinite(worth)
        if rows.sum() < FEW:
            continue
        found.append(_finding(sample, column, price, worth, room))
    return found


def _slopes(sample: Sample, column: str) -> Float[np.ndarray, " rows"]:
    """The change of log P per unit of a column, by its largest step; NaN where there is none."""
    x = sample.values(column)
    up = list(raised(x).values())[-1]
    rows = np.flatnonzero(np.isfinite(up))
    found = np.full(len(x), np.nan)
    if not len(rows):
        return found
    values = up[rows][None]
    after = own_log_probabilities(sample.estimator, sample.choices, column, rows, values)[0]
    change = after - sample.log_p[rows]
    found[rows] = np.where(np.abs(change) < LEAST, 0.0, change) / (up - x)[rows]
    return found


def _finding(
    sample: Sample,
    column: str,
    price: str,
    worth: Float[np.ndarray, " rows"],
    room: float,
) -> AuditFinding:
    """Extreme is a worth of the column's whole spread above the whole range of prices."""
    rows = np.isfinite(worth)
    spread = spread_of(sample.values(column))
    extreme = np.zeros(len(worth), bool)
    extreme[rows] = np.abs(worth[rows]) * spread > room
    share = float(extreme[rows].mean())
    low, middle, high = np.quantile(worth[rows], [0.05, 0.5, 0.95])
    numbers = {
        "median": float(middle), "q05": float(low), "q95": float(high),
        "share_negative": float((worth[rows] < 0).mean()), "items": float(rows.sum()),
    }  # fmt: skip
    sentence = (
        f"one more is worth {middle:.4g} of '{price}' in the median, from {low:.4g} to {high:.4g} "
        f"for 90 % of the items; negative for {100 * numbers['share_negative']:.0f} %"
    )
    estimated = _estimated(sample, price, column)
    if estimated is not None:
        value, bounds = estimated
        numbers |= {"estimate": value, "low": bounds[0], "high": bounds[1]}
        sentence += f"; the estimate is {value:.4g} [{bounds[0]:.4g}, {bounds[1]:.4g}]"
    if share > 0:
        sentence += (
            f". For {100 * share:.1f} % the spread of '{column}' is worth more than the whole "
            f"range of '{price}', {room:.4g}"
        )
    verdict = sample.limits.of_share(share, False)
    size = float(np.abs(worth[extreme]).mean()) if extreme.any() else 0.0
    return AuditFinding(CHECK, column, verdict, share, size, f"{sentence}.", (), numbers)


def _estimated(sample: Sample, price: str, column: str) -> tuple[float, tuple[float, float]] | None:
    """The estimate and its interval, by models that are linear in price."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of derived columns: the audit has told of them
            found = willingness_to_pay(sample.estimator, price, at=None)
    except InputError:
        return None  # the model is not linear in price: what was worked out item by item stays
    if column not in found.names:
        return None
    low, high = found.intervals[found.names.index(column)].tolist()
    return found[column], (low, high)

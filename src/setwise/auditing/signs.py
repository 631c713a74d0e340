"""Does raising a column move the item's own probability the expected way?

Each item's value goes up by a real step, inside the observed range, and all else stays: a hundredth
and a tenth of the column's spread, or one level where there are few. The item's probability before
and after comes from the model itself, so that it holds for any model.
"""

import numpy as np
from jaxtyping import Bool, Float

from setwise.auditing.findings import AuditExample, AuditFinding
from setwise.auditing.sample import EXAMPLES, Sample, raised
from setwise.consequences.own_changes import own_log_probabilities

ROUNDING = 1e-5
"""Changes of a log-probability below this are rounding errors of single precision."""
WORDS = {1: "raises", -1: "lowers"}


def sign_finding(sample: Sample, column: str, sign: int, given: bool) -> AuditFinding:
    """What raising a column does to the items' own probabilities.

    Args:
        sample: the model and its sets.
        column: a number column of the items.
        sign: 1 if more of it should raise the probability, and -1 if it should lower it.
        given: whether that was said; if not, it was guessed, and what is found is a question.
    """
    x, p = sample.values(column), np.exp(sample.log_p)
    asked, wrong, any_wrong = np.zeros((3, len(x)), bool)
    changes, worst = [], np.zeros(len(x))
    steps = raised(x)
    for up in steps.values():
        rows = np.flatnonzero(np.isfinite(up))
        if not len(rows):
            continue
        after = own_log_probabilities(
            sample.estimator, sample.choices, column, rows, up[rows][None]
        )[0]
        moved = sign * (np.exp(after) - p[rows])
        counted = (moved < 0) & sample.limits.counts(p[rows], moved)
        asked[rows] = True
        wrong[rows] |= counted
        any_wrong[rows] |= sign * (after - sample.log_p[rows]) < -ROUNDING
        worst[rows] = np.minimum(worst[rows], np.where(counted, moved, 0.0))
        changes.append(moved)
    if not changes:
        sentence = "no value can be raised within the observed range."
        return AuditFinding("sign", column, "ok", float("nan"), 0.0, sentence)
    share = sample.share_of_sets(wrong, asked)
    size = float(-worst[wrong].mean()) if wrong.any() else 0.0
    numbers = {
        "share_beyond_rounding": sample.share_of_sets(any_wrong, asked),
        "share_of_items": float(wrong[asked].mean()),
        "largest": float(np.abs(worst).max()),
        "mean_change": float(sign * np.concatenate(changes).mean()),
        "from_value": float(np.quantile(x[wrong], 0.05)) if wrong.any() else float("nan"),
        "to_value": float(np.quantile(x[wrong], 0.95)) if wrong.any() else float("nan"),
    }
    verdict = sample.limits.of_share(share, given)
    return AuditFinding(
        "sign", column, verdict, share, size, _sentence(sign, given, share, size, numbers),
        _examples(sample, column, wrong, sign * worst, p), numbers,
    )  # fmt: skip


def _sentence(sign: int, given: bool, share: float, size: float, numbers: dict[str, float]) -> str:
    expected, opposite = WORDS[sign], WORDS[-sign]
    if share == 0:
        reacts = abs(numbers["mean_change"]) > 0
        found = (
            f"more of it never {opposite} the item's own probability noticeably"
            if reacts
            else "more of it changes nothing"
        )
    else:
        found = (
            f"more of it {opposite} the item's own probability in {100 * share:.1f} % of the "
            f"sets, by {100 * size:.2f} points on average, where it is from "
            f"{numbers['from_value']:.4g} to {numbers['to_value']:.4g}"
        )
    if given:
        return f"{found}."
    return f"{found}. Is it right that more of it {expected} the probability? Say so with signs=."


def _examples(
    sample: Sample,
    column: str,
    wrong: Bool[np.ndarray, " rows"],
    change: Float[np.ndarray, " rows"],
    p: Float[np.ndarray, " rows"],
) -> tuple[AuditExample, ...]:
    """The items that move the wrong way the most."""
    x = sample.values(column)
    rows = np.argsort(-np.abs(np.where(wrong, change, 0.0)), kind="stable")[:EXAMPLES]
    return tuple(
        sample.example(row, f"{column}={x[row]:.6g}, raised", p[row], p[row] + change[row])
        for row in rows.tolist()
        if wrong[row]
    )

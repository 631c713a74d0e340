"""Is what was predicted what was chosen? Over all sets, and in groups of them.

The item that a model predicts has a mean probability, and is chosen in a share of the sets; the gap
between both is 0 for a calibrated model, up to chance. Groups are sets of one size, of one level of
a context column (or a quarter of a number), and alternatives: their expected share against the
share of the choices. Standard errors are clustered by person where people are known.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise import _segments
from setwise.auditing.findings import AuditFinding
from setwise.auditing.sample import Sample
from setwise.choices import Choices
from setwise.choices.alternatives import Alternatives
from setwise.choices.choices import Column
from setwise.metrics import Outcomes
from setwise.metrics.measures import error_of_mean

FEW = 50
"""A group of fewer sets says little."""
MOST_GROUPS = 12
"""Of one column: those of the most sets."""
PARTS = 4
"""A number is cut into so many groups of the same size."""


def calibration_findings(
    sample: Sample, data: Any, by: str | Sequence[str] | None
) -> list[AuditFinding]:
    """The gap over all sets, and in the group of each kind where it is the largest."""
    choices = sample.choices
    if choices.chosen is None:
        sentence = "not checked, since the choices are not known."
        return [AuditFinding("calibration", "", "ok", float("nan"), float("nan"), sentence)]
    weight = np.ones(len(choices)) if choices.weight is None else choices.weight
    outcomes = Outcomes.of(_logs(sample), sample.encoded.offsets, _chosen(sample))
    gap = outcomes.ranks.top(1) - outcomes.confidence
    found = [_overall(sample, outcomes, gap, weight)]
    for subject, names, codes in _groups(choices):
        each = [
            (name, *_mean(gap, weight, choices.group, codes == code))
            for code, name in enumerate(names)
            if (codes == code).sum() >= FEW
        ]
        if each:
            found.append(_worst(sample, subject, each, "the item predicted is chosen"))
    if by is not None:
        found.append(_alternatives(sample, data, by, weight))
    return found


def _logs(sample: Sample) -> Float[np.ndarray, " rows"]:
    """log P of every encoded row: an outside option may have been chosen."""
    return sample.estimator.row_log_probabilities(sample.encoded)


def _chosen(sample: Sample) -> Int[np.ndarray, " sets"]:
    assert sample.encoded.chosen is not None
    return sample.encoded.chosen


def _mean(
    values: Float[np.ndarray, " sets"],
    weight: Float[np.ndarray, " sets"],
    group: Shaped[np.ndarray, " sets"] | None,
    here: Shaped[np.ndarray, " sets"],
) -> tuple[float, float, float]:
    """The mean over some sets, its standard error, and the sets' share of all."""
    share = weight[here] / weight[here].sum()
    people = None if group is None else group[here]
    error = error_of_mean(values[here], share, people)
    return float(values[here] @ share), error, float(weight[here].sum() / weight.sum())


def _overall(
    sample: Sample,
    outcomes: Outcomes,
    gap: Float[np.ndarray, " sets"],
    weight: Float[np.ndarray, " sets"],
) -> AuditFinding:
    everyone = np.ones(len(gap), bool)
    mean, error, _ = _mean(gap, weight, sample.choices.group, everyone)
    predicted = float(outcomes.confidence @ weight / weight.sum())
    measured = outcomes.measured(weight)
    numbers = {
        "gap": mean, "standard_error": error, "predicted": predicted,
        "calibration_error": measured["calibration_error"],
    }  # fmt: skip
    sentence = (
        f"the item predicted has {100 * predicted:.1f} % on average and is chosen in "
        f"{100 * (predicted + mean):.1f} % of the sets ({100 * mean:+.1f} ± {100 * error:.1f} "
        f"points); expected calibration error {measured['calibration_error']:.4f}."
    )
    verdict = _verdict(sample, mean, error)
    return AuditFinding("calibration", "", verdict, 1.0, abs(mean), sentence, (), numbers)


def _verdict(sample: Sample, gap: float, error: float) -> Any:
    limits = sample.limits
    if not abs(gap) > limits.errors * error:  # nor if there is no error
        return "ok"
    if abs(gap) > 2 * limits.gap:
        return "fail"
    return "look" if abs(gap) > limits.gap else "ok"


def _groups(
    choices: Choices,
) -> Iterator[tuple[str, list[str], Int[np.ndarray, " sets"]]]:
    """Ways to group sets: what it is called, names of groups, and the group of each set."""
    if len(np.unique(choices.sizes)) > 1:
        yield "items in the set", *_parts(choices.sizes.astype(np.float64))
    for name, column in choices.context.items():
        if column.kind == "category":
            yield name, *_levels(column)
        elif column.kind == "number":
            yield name, *_parts(column.values.astype(np.float64))


def _levels(column: Column) -> tuple[list[str], Int[np.ndarray, " sets"]]:
    """The most frequent levels; other sets are in no group (-1)."""
    known = column.values[column.values >= 0]
    order = np.argsort(-np.bincount(known, minlength=1), kind="stable")[:MOST_GROUPS]
    codes = np.full(len(column.values), -1)
    for place, level in enumerate(order.tolist()):
        codes[column.values == level] = place
    levels = column.levels or ()
    return [levels[one] for one in order.tolist()] if len(known) else [], codes


def _parts(values: Float[np.ndarray, " sets"]) -> tuple[list[str], Int[np.ndarray, " sets"]]:
    """Few values each by itself, more in groups of about the same size; missing ones in none."""
    known = values[np.isfinite(values)]
    few = np.unique(known)
    if len(few) <= MOST_GROUPS:
        codes = np.where(np.isfinite(values), np.searchsorted(few, np.nan_to_num(values)), -1)
        return [f"{one:g}" for one in few], codes
    cuts = np.unique(np.quantile(known, np.linspace(0, 1, PARTS + 1)))
    codes = np.clip(np.searchsorted(cuts, values, "right") - 1, 0, len(cuts) - 2)
    names = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(cuts)]
    return names, np.where(np.isfinite(values), codes, -1)


def _alternatives(
    sample: Sample, data: Any, by: str | Sequence[str], weight: Float[np.ndarray, " sets"]
) -> AuditFinding:
    """The choices of each alternative less what was expected of it, set by set."""
    known = Alternatives.of(data, sample.choices, by, sample.estimator.schema_.outside)
    encoded = sample.encoded
    surprise = -np.exp(_logs(sample).astype(np.float64))
    surprise[encoded.offsets[:-1] + _chosen(sample)] += 1
    each = []
    for code, name in enumerate(known.names):
        gap = _segments.sums(np.where(known.codes == code, surprise, 0.0), encoded.offsets)
        offered = _segments.maxima(known.codes == code, encoded.offsets)
        if offered.sum() >= FEW:
            each.append((name, *_mean(gap, weight, sample.choices.group, offered)))
    subject = by if isinstance(by, str) else ", ".join(by)
    return _worst(sample, subject, each, "the alternative is chosen where it is offered")


def _worst(
    sample: Sample, subject: str, each: list[tuple[str, float, float, float]], what: str
) -> AuditFinding:
    """The group whose gap is the worst, and how many there are."""
    if not each:
        sentence = f"no group has {FEW} sets."
        return AuditFinding("calibration", subject, "ok", float("nan"), 0.0, sentence)
    limits = sample.limits
    name, gap, error, share = max(
        each, key=lambda one: (abs(one[1]) > limits.errors * one[2], abs(one[1]))
    )
    more = "more" if gap > 0 else "less"
    sentence = (
        f"of {len(each)} groups, '{name}' is the furthest off: there {what} "
        f"{100 * abs(gap):.1f} ± {100 * error:.1f} points {more} often than predicted."
    )
    numbers = {f"gap of {one}": value for one, value, _, _ in each}
    numbers |= {f"standard error of {one}": value for one, _, value, _ in each}
    verdict = _verdict(sample, gap, error)
    return AuditFinding("calibration", subject, verdict, share, abs(gap), sentence, (), numbers)

"""What a model says where a column leaves the range of the data: does it go on, or turn, or jump?

One item of each set, drawn at random, goes from the top of the observed range up to one range above
it, and from the bottom down to one range below (a column that is never negative: down to a tenth of
its least value). The item's log-odds against the rest of its set are compared along the way.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise._errors import InputError
from setwise.auditing.findings import AuditFinding
from setwise.auditing.sample import MIDDLE, Sample
from setwise.consequences.own_changes import own_log_probabilities

STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How far beyond the range, in ranges."""
MOST = 12.0
"""Log-odds are cut here: beyond it single precision has no digits of 1 - P left."""
JUMP = 1.0
"""Log-odds that move by more than this in a step, and three times as much as in any other, jump. In
the first step they may: what bends down from there comes to rest, and does not jump."""
TIMES = 3.0
STILL = 0.01
"""Log-odds that move by less than this in all stay as they are."""


class Path(NamedTuple):
    """What becomes of the items along the way: of each, whether it turns, jumps or stands still."""

    turns: Bool[np.ndarray, " items"]
    jumps: Bool[np.ndarray, " items"]
    still: Bool[np.ndarray, " items"]
    p: Float[np.ndarray, "steps items"]


def beyond_finding(sample: Sample, column: str) -> AuditFinding | None:
    """How items react beyond a column's range; None for columns of two values, or fewer."""
    x = sample.values(column)
    known = x[np.isfinite(x)]
    if len(np.unique(known)) < 3:
        return None
    rows = sample.one_per_set()
    rows = rows[np.isfinite(x[rows])]
    inside = np.quantile(known, MIDDLE)
    found = {}
    for side, values in _ways(float(known.min()), float(known.max())).items():
        try:
            found[side] = _path(sample, column, rows, inside, values)
        except InputError as error:
            sentence = f"the model cannot read values {side} the range: {error}"
            return AuditFinding("beyond the range", column, "look", float("nan"), 0.0, sentence)
    return _judged(sample, column, rows, found)


def _ways(low: float, high: float) -> dict[str, list[float]]:
    """The values to go through, by side, from the end of the range outwards."""
    room = high - low
    down = [low - step * room if low < 0 else low * (1 - 0.9 * step) for step in STEPS]
    ways = {"above": [high + step * room for step in STEPS]}
    return ways | ({"below": down} if low != 0 else {})


def _path(
    sample: Sample,
    column: str,
    rows: Int[np.ndarray, " items"],
    inside: Float[np.ndarray, " two"],
    values: list[float],
) -> Path:
    """Along these values, and within the range for comparison."""
    both = np.repeat(np.array([*inside, *values])[:, None], len(rows), 1)
    logs = own_log_probabilities(sample.estimator, sample.choices, column, rows, both)
    p = np.exp(logs)
    with np.errstate(divide="ignore"):
        odds = np.clip(logs - np.log1p(-np.minimum(p, 1 - 1e-12)), -MOST, MOST)
    outwards = 1.0 if values[-1] > values[0] else -1.0
    trend = outwards * (odds[1] - odds[0])  # as within the range, on the way outwards
    steps = np.diff(odds[2:], axis=0)
    size = np.abs(steps)
    total = odds[-1] - odds[2]
    later, rest = size[1:].max(0), np.sort(size, axis=0)[-2]
    later = np.where(size[0] > later, 0.0, later)
    counts = sample.limits.counts
    moved = counts(p[2], p[-1] - p[2]) & counts(p[0], p[1] - p[0])
    back = (total * trend < 0) & moved & (np.abs(total) > STILL)
    path = p[2:]
    up, down = (np.where(sign * np.diff(path, axis=0) > 0, np.abs(np.diff(path, axis=0)), 0).sum(0)
                for sign in (1, -1))  # fmt: skip
    zigzag = counts(p[2], np.minimum(up, down)) & (np.minimum(up, down) > STILL)
    return Path(
        back | zigzag, (later > JUMP) & (later > TIMES * rest),
        size.sum(0) < STILL, p[2:],
    )  # fmt: skip


def _judged(
    sample: Sample, column: str, rows: Int[np.ndarray, " items"], found: dict[str, Path]
) -> AuditFinding:
    odd = np.zeros(len(sample.log_p), bool)
    asked = np.zeros(len(sample.log_p), bool)
    asked[rows] = True
    numbers, words, largest = {}, [], 0.0
    for side, path in found.items():
        odd[rows] |= path.turns | path.jumps
        for name in ("turns", "jumps", "still"):
            numbers[f"{name}_{side}"] = float(getattr(path, name).mean())
        moved = np.abs(path.p[-1] - path.p[0])
        bad = path.turns | path.jumps
        largest = max(largest, float(moved[bad].mean()) if bad.any() else 0.0)
        words.append(_words(side, path))
    share = sample.share_of_sets(odd, asked)
    examples = _examples(sample, column, rows, found)
    verdict = sample.limits.of_share(share, False)
    return AuditFinding(
        "beyond the range", column, verdict, share, largest, f"{'; '.join(words)}.", examples,
        numbers,
    )  # fmt: skip


def _words(side: str, path: Path) -> str:
    turns, jumps, still = (float(one.mean()) for one in path[:3])
    if still > 0.5:
        kind = f"{side} the range probabilities mostly stay as they are"
    else:
        kind = f"{side} the range they go on the same way"
    odd = []
    if turns > 0:
        odd.append(f"they turn in {100 * turns:.1f} % of the sets")
    if jumps > 0:
        odd.append(f"they jump in {100 * jumps:.1f} %")
    return kind if not odd else f"{kind}, but {' and '.join(odd)}"


def _examples(
    sample: Sample, column: str, rows: Int[np.ndarray, " items"], found: dict[str, Path]
) -> tuple:
    examples = []
    for side, path in found.items():
        bad = path.turns | path.jumps
        if not bad.any():
            continue
        moved = np.where(bad, np.abs(path.p[-1] - path.p[0]), -1.0)
        worst = int(np.argmax(moved))
        what = f"{column} from the end of the range to one range {side} it"
        examples.append(sample.example(int(rows[worst]), what, path.p[0, worst], path.p[-1, worst]))
    return tuple(examples)

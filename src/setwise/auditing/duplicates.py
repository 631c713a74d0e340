"""Red bus, blue bus: what a copy of an item takes, and from whom.

By the arithmetic of the logit, two equal items have 2 p / (1 + p) together where one alone has p,
and everyone else loses in proportion. People who see the same bus in another colour would leave the
pair at p. So a pair below p, and one above 2 p / (1 + p), are both odd.
"""

import numpy as np
from jaxtyping import Float

from setwise import _segments
from setwise.auditing.findings import AuditExample, AuditFinding
from setwise.auditing.sample import EXAMPLES, Sample
from setwise.choices import Encoded


def duplicate_finding(sample: Sample) -> AuditFinding:
    """What a copy of the most probable item of each set does, and one of an item at random."""
    offsets = sample.choices.offsets
    best = np.flatnonzero(_segments.predicted(sample.log_p, offsets))
    rows = np.unique(np.concatenate([best, sample.one_per_set()]))
    p, pair = np.exp(sample.log_p[rows]), pairs_together(sample, rows)
    logit = 2 * p / (1 + p)
    below, above = pair < p, pair > logit
    counts = sample.limits.counts
    below &= counts(p, pair - p)
    above &= counts(logit, pair - logit)
    odd, asked = np.zeros((2, len(sample.log_p)), bool)
    odd[rows], asked[rows] = below | above, True
    share = sample.share_of_sets(odd, asked)
    far = np.maximum(p - pair, pair - logit)
    size = float(far[below | above].mean()) if (below | above).any() else 0.0
    numbers = {
        "alone": float(p.mean()), "pair": float(pair.mean()), "logit": float(logit.mean()),
        "share_below": float(below.mean()), "share_above": float(above.mean()),
    }  # fmt: skip
    return AuditFinding(
        "duplicates", "", sample.limits.of_share(share, False), share, size,
        _sentence(sample, numbers, np.abs(pair - logit)),
        _examples(sample, rows, np.where(below | above, far, 0.0), p, pair), numbers,
    )  # fmt: skip


def pairs_together(sample: Sample, rows: np.ndarray) -> Float[np.ndarray, " copies"]:
    """The probability of each of these items and a copy of it, together.

    >>> import setwise as sw
    >>> from setwise.auditing import AuditLimits
    >>> choices = sw.read({"set": [1, 1], "x": [1.0, 2.0], "taken": [1, 0]}, set="set",
    ...                   chosen="taken")
    >>> sample = Sample(sw.RandomChoice().fit(choices), choices, AuditLimits(), seed=0)
    >>> pairs_together(sample, np.array([0])).round(4).tolist()  # 2 p / (1 + p) with p = 1/2
    [0.6667]
    """
    encoded, own = sample.encoded, sample.real[rows]
    sets = np.searchsorted(encoded.offsets, own, "right") - 1
    whole = encoded.take(sets)
    at = whole.offsets[:-1] + own - encoded.offsets[sets]
    # The copy stands right behind its original, before an outside option, which is always last.
    items = np.insert(whole.items, at + 1, encoded.items[own], axis=0)
    offsets = whole.offsets + np.arange(len(whole.offsets))
    with_copies = Encoded(items, whole.context, offsets, None, None)
    p = np.exp(sample.estimator.row_log_probabilities(with_copies).astype(np.float64))
    at = at + np.arange(len(at))
    return p[at] + p[at + 1]


def _sentence(
    sample: Sample, numbers: dict[str, float], apart: Float[np.ndarray, " copies"]
) -> str:
    alone, pair, logit = (100 * numbers[name] for name in ("alone", "pair", "logit"))
    sentence = f"an item with {alone:.1f} % has {pair:.1f} % together with its copy on average"
    if apart.max(initial=0.0) < sample.limits.noticeable:
        return (
            f"{sentence}, as in a logit: if people see that both are the same, a copy takes too "
            f"much, since the pair would keep its {alone:.1f} %."
        )
    sentence += (
        f" (a logit would give {logit:.1f} %, two equal items people see as one {alone:.1f})"
    )
    odd = []
    if numbers["share_below"] > 0:
        odd.append(f"{100 * numbers['share_below']:.1f} % of the pairs have less than one alone")
    if numbers["share_above"] > 0:
        odd.append(f"{100 * numbers['share_above']:.1f} % have more than in a logit")
    return f"{sentence}{'; ' if odd else ''}{', '.join(odd)}."


def _examples(
    sample: Sample,
    rows: np.ndarray,
    far: Float[np.ndarray, " copies"],
    p: Float[np.ndarray, " copies"],
    pair: Float[np.ndarray, " copies"],
) -> tuple[AuditExample, ...]:
    order = np.argsort(-far, kind="stable")[:EXAMPLES]
    return tuple(
        sample.example(int(rows[n]), "alone, then with a copy", p[n], pair[n])
        for n in order.tolist()
        if far[n] > 0
    )

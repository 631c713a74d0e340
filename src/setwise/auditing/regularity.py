"""Does an item gain because another one joins it? And if so, is the other a decoy, or is it noise?

No model in which every person has fixed tastes lets the probability of a rise when b joins the set
(regularity). People sometimes do: b may be a decoy that makes a look good. A finding looks like
one if b is no better than a in any column with a sign, and if the members of an ensemble agree
about it. Where they disagree, it is noise of training.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise.auditing.findings import AuditExample, AuditFinding
from setwise.auditing.members import members_of
from setwise.auditing.sample import EXAMPLES, Sample
from setwise.violations import influence, soft_violations

ROUNDING = 1e-5
"""Log-probabilities that differ by less are the same."""
AGREE = 0.75
"""The weight of members that must see the same effect, for them to agree."""
DECOYS = 1 / 3
"""Of the pairs: where so many that join are dominated, it looks like an effect of decoys."""
MOST_PAIRS = 500
"""Of pairs in which an item gains, so many at most are shown to each member: the largest."""


class Gains(NamedTuple):
    """Pairs (a, b) in which the probability of a is higher with b there than without it."""

    sets: Int[np.ndarray, " pairs"]
    a: Int[np.ndarray, " pairs"]
    """The place of a in its set."""
    b: Int[np.ndarray, " pairs"]
    without: Float[np.ndarray, " pairs"]
    with_b: Float[np.ndarray, " pairs"]

    @property
    def size(self) -> Float[np.ndarray, " pairs"]:
        """By how much a gains."""
        return self.with_b - self.without


def regularity_finding(sample: Sample, signs: dict[str, int]) -> AuditFinding:
    """How often an item gains when another joins, how far, and what it looks like."""
    if (sample.choices.sizes < 2).all():
        sentence = "every set has one item: none can join or leave."
        return AuditFinding("regularity", "", "ok", float("nan"), 0.0, sentence)
    soft = soft_violations(sample.estimator, sample.choices).regularity.mean
    gains, pairs = _gains(sample)
    numbers = {
        "share_of_pairs_beyond_rounding": soft,
        "share_of_pairs": len(gains.sets) / max(pairs, 1),
    }
    if not len(gains.sets):
        sentence = "no item gains noticeably because another one joins."
        return AuditFinding("regularity", "", "ok", 0.0, 0.0, sentence, (), numbers)
    hit = np.zeros(len(sample.choices), bool)
    hit[gains.sets] = True
    rows = np.repeat(hit, sample.choices.sizes)
    share = sample.share_of_sets(rows, np.ones(len(rows), bool))
    largest = np.argsort(-gains.size, kind="stable")[:MOST_PAIRS]
    some = Gains(*(one[largest] for one in gains))
    words = []
    agreed = _agreed(sample, some)
    if agreed is not None:
        numbers["members_agree"] = float(agreed.mean())
        words.append(f"members agree on {100 * agreed.mean():.0f} % of them")
    dominated = _dominated(sample, some, signs)
    if dominated is not None:
        numbers["dominated"] = float(dominated.mean())
        words.append(f"in {100 * dominated.mean():.0f} % the one that joins is no better anywhere")
    size = float(gains.size.mean())
    sentence = (
        f"in {100 * share:.1f} % of the sets some item gains because another one joins, in "
        f"{100 * numbers['share_of_pairs']:.2f} % of all pairs, by {100 * size:.2f} points on "
        f"average{'; ' if words else ''}{' and '.join(words)}. {_looks_like(agreed, dominated)}"
    )
    verdict = sample.limits.of_share(share, False)
    examples = _examples(sample, some)
    return AuditFinding("regularity", "", verdict, share, size, sentence, examples, numbers)


def _gains(sample: Sample) -> tuple[Gains, int]:
    """The pairs of items in which a gains noticeably from b, and how many pairs there are."""
    found = influence(sample.estimator, sample.choices)
    pairs = found.change
    sets, a, b = pairs.places()
    ours = (a != b) & (a < pairs.columns[sets]) & ~np.isnan(pairs.values)
    with_b = pairs.of_rows(found.probability.astype(np.float64))
    without = with_b + pairs.values
    gain = ours & (pairs.values < 0) & sample.limits.counts(without, pairs.values)
    return Gains(sets[gain], a[gain], b[gain], without[gain], with_b[gain]), int(ours.sum())


def _agreed(sample: Sample, gains: Gains) -> Bool[np.ndarray, " pairs"] | None:
    """Whether most members, by their weight, see a gain too; None if fewer than two could say so.

    Members that see none in any pair, such as logits and trees of items alone, do not vote.
    """
    members = members_of(sample.estimator)
    if members is None:
        return None
    whole = sample.encoded.take(gains.sets)
    left = whole.without_each(whole.offsets[:-1] + gains.b)
    at = whole.offsets[:-1] + gains.a
    after = left.offsets[:-1] + gains.a - (gains.a > gains.b)
    votes = [
        (weight, gained)
        for weight, log_p in members
        if (gained := log_p(whole)[at] - log_p(left)[after] > ROUNDING).any()
    ]
    if len(votes) < 2:
        return None
    return sum(w * seen for w, seen in votes) >= AGREE * sum(w for w, _ in votes)


def _dominated(
    sample: Sample, gains: Gains, signs: dict[str, int]
) -> Bool[np.ndarray, " pairs"] | None:
    """Whether b is nowhere better than a, and somewhere worse; None without signs."""
    if not signs:
        return None
    first = sample.choices.offsets[gains.sets]
    no_better, worse = np.ones(len(first), bool), np.zeros(len(first), bool)
    for column, sign in signs.items():
        x = sign * sample.values(column)
        own, other = x[first + gains.a], x[first + gains.b]
        no_better &= ~(other > own)
        worse |= other < own
    return no_better & worse


def _looks_like(
    agreed: Bool[np.ndarray, " pairs"] | None, dominated: Bool[np.ndarray, " pairs"] | None
) -> str:
    if agreed is not None and agreed.mean() < 0.5:
        return "Members mostly disagree: it looks like an artefact of training."
    if dominated is not None and dominated.mean() >= DECOYS:
        return "It looks like an effect of decoys."
    if agreed is not None:
        return "Members agree: the data taught it, but the items that join are no plain decoys."
    return "Whether it is a decoy or an artefact, only an ensemble or a sign of a column can tell."


def _examples(sample: Sample, gains: Gains) -> tuple[AuditExample, ...]:
    first = sample.choices.offsets[gains.sets[:EXAMPLES]]
    table = sample.choices.rows
    return tuple(
        sample.example(
            int(begin + a), f"without row {int(table[begin + b])}, then with it", before, after
        )
        for begin, a, b, before, after in zip(
            first, gains.a, gains.b, gains.without, gains.with_b, strict=False
        )
    )

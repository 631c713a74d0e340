"""What happens to probabilities when an item leaves: soft violations of IIA, and influence.

Soft violations are how far odds move, and whether probabilities fall. First-order influence is how
much the probability of each item changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from setwise._arguments import checked, columns, optional
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise.choices.alternatives import Alternatives
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.estimators.removals import Removals, probability_changes, without_each
from setwise.metrics.pairs import LevelMatrix, Pairs
from setwise.metrics.set_means import Group, SetMean, respondents

ROUNDING = 1e-5
"""A log-probability must fall by more than this to have fallen: scores have seven digits."""


@dataclass(frozen=True, eq=False)
class SoftViolations:
    """Both measures of a model on some choices, each a mean over sets with its interval.

    >>> print(SoftViolations(SetMean(np.zeros(3), None), SetMean(np.zeros(3), None)))
    odds move by   0.0000  [0.0000, 0.0000]  over 3 sets
    regularity     0.0000  [0.0000, 0.0000]  over 3 sets
    """

    odds: SetMean
    """Mean of |log P_s(a)/P_s(b) - log P_{s-x}(a)/P_{s-x}(b)|; 0 is IIA."""
    regularity: SetMean
    """How often P(a) falls when an item x leaves (rises when it is added); 0 for random utility."""

    def to_frame(self) -> Any:
        """A Polars frame: measure, mean, low, high (95 %) and sets, one row per measure."""
        import polars as pl

        measures = {"odds": self.odds, "regularity": self.regularity}
        intervals = [one.interval() for one in measures.values()]
        return pl.DataFrame(
            {
                "measure": list(measures),
                "mean": [one.mean for one in measures.values()],
                "low": [low for low, _ in intervals],
                "high": [high for _, high in intervals],
                "sets": [one.sets for one in measures.values()],
            }
        ).fill_nan(None)

    def _repr_html_(self) -> str:
        rows = [
            [f"{one:.4f}" if isinstance(one, float) else str("" if one is None else one)
             for one in row]
            for row in self.to_frame().rows()
        ]  # fmt: skip
        return notebook_html(["measure", "mean", "low", "high", "sets"], rows)

    def __str__(self) -> str:
        lines = []
        for name, one in {"odds move by": self.odds, "regularity": self.regularity}.items():
            low, high = one.interval()
            lines.append(
                f"{name:<14} {one.mean:.4f}  [{low:.4f}, {high:.4f}]  over {one.sets:,} sets"
            )
        return "\n".join(lines)


@checked(estimator=fitted)
def soft_violations(
    estimator: Estimator, data: Any, group: str | Group | None = None
) -> SoftViolations:
    """How much taking an item away changes what the model says of the others.

        odds = mean over s of mean over x in s and pairs a, b in s - x of
               | log P_s(a)/P_s(b) - log P_{s-x}(a)/P_{s-x}(b) |
        regularity = mean over s of the share of x in s and a in s - x with P_{s-x}(a) < P_s(a)

    A model satisfies IIA where odds do not move: there, the first is 0. It is exactly 0 where a
    score does not read the other items, as in the MNL and networks without context, since log-odds
    are differences of scores; trees keep a rounding error of some 1e-15. Numbers of other models
    have single precision: odds that move by less than about 1e-6 do not say that IIA fails.
    Regularity holds for every model of random utility (mixed and nested logits too), and a
    probability counts as falling when it loses more than a hundred-thousandth of itself.

    The outside option is one of a and b, but never x. Sets of fewer than three (with an outside
    option: two) items have no pair left and no value of the first, sets of one of neither.

    Args:
        estimator: a fitted model.
        data: a :class:`~setwise.Choices`, whose weights count, or any table with the columns of
            the training table. What was chosen plays no part.
        group: who made each choice, for errors and intervals where one person makes many: as in
            :func:`~setwise.violations.violation_capacity`.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(200)
    >>> found = soft_violations(sw.MNL().fit(choices), choices)
    >>> found.odds.mean, found.regularity.mean
    (0.0, 0.0)
    """
    choices = estimator.as_choices(data)
    who = None if group is None else respondents(choices, data, group)
    if (choices.sizes < 2).all():
        raise InputError(
            "every set has only one item, and nothing can be taken away from it; "
            "give sets of two items or more"
        )
    odds, regularity = np.full((2, len(choices)), np.nan)
    for one in without_each(estimator, choices):
        several = choices.sizes[one.sets] >= 2
        odds[one.sets] = np.where(several, _moved_odds(one), np.nan)
        regularity[one.sets] = np.where(several, _falling(one), np.nan)
    return SoftViolations(
        SetMean(odds, choices.weight, who), SetMean(regularity, choices.weight, who)
    )


def _moved_odds(one: Removals) -> Float[np.ndarray, " m"]:
    """The mean over removals and pairs, per set; NaN if there is no pair."""
    stays = one.stays
    moved = _change(one, stays)
    # The gaps of all pairs of n sorted numbers add up to sum_i (2 i - n + 1) d_i, i from 0.
    moved.sort(axis=2)
    count = stays.sum(2)
    place = np.arange(moved.shape[2])
    inside = place < count[:, :, None]
    with np.errstate(invalid="ignore"):
        gaps = np.where(inside, moved - moved[:, :, :1], 0)  # from the least: no digits are lost
    total = ((2 * place - count[:, :, None] + 1) * gaps).sum((1, 2))
    pairs = (count * (count - 1) // 2).sum(1)
    return np.divide(total, pairs, out=np.full(len(total), np.nan), where=pairs > 0)


def _falling(one: Removals) -> Float[np.ndarray, " m"]:
    """How often an item's probability falls when another leaves, per set."""
    stays = one.stays
    with np.errstate(invalid="ignore"):  # of removals that are not tried
        whole = one.whole - logsumexp(one.whole.astype(np.float64), axis=1, keepdims=True)
        left = one.left - logsumexp(one.left.astype(np.float64), axis=2, keepdims=True)
        falls = stays & (left - whole[:, None, :] < -ROUNDING)
    count = stays.sum((1, 2))
    return np.divide(falls.sum((1, 2)), count, out=np.full(len(count), np.nan), where=count > 0)


def _change(
    one: Removals, stays: Bool[np.ndarray, "m gone width"]
) -> Float[np.ndarray, "m gone width"]:
    """g_{s-x}(a) - g_s(a), and infinity, which sorting puts last, where a is not left."""
    change = np.full(stays.shape, np.inf)
    np.subtract(one.left, one.whole[:, None, :], out=change, where=stays, dtype=np.float64)
    return change


@dataclass(frozen=True, eq=False)
class Influence:
    """A matrix per set, row a and column b: P_{s-b}(a) - P_s(a), and -P_s(b) for a = b.

    Its columns add up to 0: what b leaves, the others take. A column is NaN where b is alone.
    """

    change: Pairs
    probability: Float[np.ndarray, " rows"]
    """P_s(a) of every row, set after set; the outside option, where there is one, comes last."""
    weight: Float[np.ndarray, " sets"] | None
    between: LevelMatrix | None
    """By alternatives, where ``by`` names them: the mean change of k when an l leaves."""

    def of_set(self, number: int) -> Float[np.ndarray, "a b"]:
        """The matrix of one set."""
        return self.change.of_set(number)

    def beyond_iia(self, number: int) -> Float[np.ndarray, "a b"]:
        """What of one set's matrix IIA does not explain: 0 up to rounding if the model obeys it.

            P_{s-b}(a) - P_s(a) / (1 - P_s(b))

        Under IIA the share of b is dealt out in proportion to what the others have.
        """
        begin = int(self.change.rows[:number].sum())
        p = self.probability[begin : begin + self.change.rows[number]].astype(np.float64)
        columns = int(self.change.columns[number])
        with np.errstate(divide="ignore", invalid="ignore"):
            dealt = np.outer(p, p[:columns] / (1 - p[:columns]))
        np.fill_diagonal(dealt, -p[:columns])
        return self.of_set(number) - dealt


@checked(estimator=fitted, by=optional(columns))
def influence(
    estimator: Estimator,
    data: Any,
    by: str | Sequence[str] | None = None,
    group: str | Group | None = None,
) -> Influence:
    """The change of P(a) when b leaves, for all pairs of items of every set.

        change_s(a, b) = P_{s-b}(a) - P_s(a),   change_s(b, b) = -P_s(b)

    With ``by``, also the mean of what alternative k gains when an item of l leaves, over all items
    of l in all sets (by the sets' weights):

        between(k, l) = sum_s sum over a in k, b in l, a != b, of change_s(a, b) / number of such b

    with bootstrap intervals over sets, or over people. Memory is 8 bytes per pair of items, with
    ``by`` some 50.

    Args:
        estimator: a fitted model.
        data: a :class:`~setwise.Choices` or any table with the columns of the training table.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.
        group: who made each choice, for the intervals of ``between``: as in
            :func:`~setwise.violations.violation_capacity`.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=50, items=3).choices
    >>> found = influence(sw.RandomChoice().fit(choices), choices)
    >>> found.of_set(0).round(4)[:, 0].tolist()  # a third each; then a half
    [-0.3333, 0.1667, 0.1667]
    """
    if by is None and group is not None:
        raise InputError("group= is for the intervals between alternatives; name them with by=")
    choices = estimator.as_choices(data)
    who = None if group is None else respondents(choices, data, group)
    pairs, probability = probability_changes(estimator, choices)
    between = None
    if by is not None:
        known = Alternatives.of(data, choices, by, estimator.schema_.outside)
        between = _between(pairs, known, choices.weight, who)
    return Influence(pairs, probability, choices.weight, between)


def _between(
    pairs: Pairs,
    known: Alternatives,
    weight: Float[np.ndarray, " sets"] | None,
    who: Int[np.ndarray, " sets"] | None,
) -> LevelMatrix:
    above = pairs.between(known.codes, len(known.names), apart=True)
    count = Pairs((~np.isnan(pairs.values) & pairs.same()).astype(float), pairs.rows, pairs.columns)
    below = count.between(known.codes, len(known.names), apart=False).sum(1, keepdims=True)
    each = (np.ones(len(pairs)) if weight is None else weight)[:, None, None]
    return LevelMatrix.ratio(known.names, above * each, below * each, who)

"""First-order influence: how much each item's probability changes when another leaves the set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from setwise._arguments import checked, columns, optional
from setwise._errors import InputError
from setwise.choices import Choices
from setwise.choices.alternatives import Alternatives, Pairs
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.violations.bootstrap import LevelMatrix
from setwise.violations.clusters import Group, people
from setwise.violations.without_each import Left, without_each


@dataclass(frozen=True, eq=False)
class Influence:
    """Of every set a matrix, row a and column b: P_{s-b}(a) - P_s(a), and -P_s(b) for a = b.

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

    with bootstrap intervals over sets, or over people. Memory is 8 bytes a pair of items, with
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
    choices = estimator._choices(data)
    who = None if group is None else people(choices, data, group)
    outside = int(estimator.schema_.outside)
    rows, columns = choices.sizes + outside, choices.sizes
    begins = np.concatenate([[0], np.cumsum(rows * columns)])
    starts = np.concatenate([[0], np.cumsum(rows)])
    values = np.full(begins[-1], np.nan)
    probability = np.empty(starts[-1])
    for one in without_each(estimator, choices):
        whole, change = _of(one)
        sizes = rows[one.sets]
        place = np.arange(one.present.shape[1])
        probability[(starts[:-1][one.sets][:, None] + place)[one.present]] = whole[one.present]
        # Row a and column b of the matrix: a goes along the last axis here, b is what is gone.
        real = one.present[:, None, :] & (place < (sizes - outside)[:, None])[:, :, None]
        flat = (
            begins[:-1][one.sets][:, None, None]
            + place * columns[one.sets][:, None, None]
            + place[:, None]
        )
        values[flat[real]] = change[real]
    pairs = Pairs(values, rows, columns)
    found = None if by is None else _between(pairs, choices, data, by, bool(outside), who)
    return Influence(pairs, probability, choices.weight, found)


def _of(one: Left) -> tuple[Float[np.ndarray, "m width"], Float[np.ndarray, "m gone width"]]:
    """P_s, and the change of it; NaN where nothing would be left."""
    wide = one.whole.astype(np.float64)
    whole = np.exp(wide - logsumexp(wide, axis=1, keepdims=True))
    left = np.full(one.left.shape, -np.inf)
    np.copyto(left, one.left, where=one.stays)
    with np.errstate(invalid="ignore"):
        after = np.exp(left - logsumexp(left, axis=2, keepdims=True))
    return whole, after - whole[:, None, :]


def _between(
    pairs: Pairs,
    choices: Choices,
    data: Any,
    by: str | Sequence[str],
    outside: bool,
    who: Int[np.ndarray, " sets"] | None,
) -> LevelMatrix:
    found = alternatives(choices, data, by, outside)
    above = pairs.between(found.codes, len(found.names), apart=True)
    count = Pairs((~np.isnan(pairs.values) & pairs.same()).astype(float), pairs.rows, pairs.columns)
    below = count.between(found.codes, len(found.names), apart=False).sum(1, keepdims=True)
    weight = np.ones(len(choices)) if choices.weight is None else choices.weight
    each = weight[:, None, None]
    return LevelMatrix.ratio(found.names, above * each, below * each, who)


def alternatives(
    choices: Choices, data: Any, by: str | Sequence[str], outside: bool
) -> Alternatives:
    """What each encoded row is: the outside options of a model that has them count as one."""
    found = Alternatives.of(data, choices, by)
    return found.with_outside(choices) if outside else found

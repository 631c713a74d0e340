"""First-order influence: how much each item's probability changes when another leaves the set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from setwise._arguments import checked, columns, optional
from setwise._errors import InputError
from setwise.choices.alternatives import Alternatives
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.estimators.removals import probability_changes
from setwise.metrics.pairs import LevelMatrix, Pairs
from setwise.metrics.set_means import Group, respondents


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

"""Elasticities: by how many per cent a probability changes when a column changes by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from setwise._arguments import checked, columns, optional, text
from setwise._page import notebook_html
from setwise.choices.alternatives import Pairs
from setwise.consequences.derivatives import sensitivity
from setwise.consequences.moved import BOTH, warn_of_derived
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.violations.bootstrap import Interval, LevelMatrix, bootstrap
from setwise.violations.influences import alternatives

AVERAGED = (
    "own: mean over all items of all sets, cross: over all pairs of different items, each weighted "
    "by the\nprobability of the item that responds"
)


@dataclass(frozen=True, eq=False)
class Elasticities:
    """Of every set a matrix, row a and column b: e_ab = d log P(a) / d log x_b."""

    column: str
    pairs: Pairs
    probability: Float[np.ndarray, " rows"]
    """P_s(a) of every row, set after set; the outside option, where there is one, comes last."""
    weight: Float[np.ndarray, " sets"] | None
    between: LevelMatrix | None
    """By alternatives, where ``by`` names them: elasticities of their expected shares."""

    def of_set(self, number: int) -> Float[np.ndarray, "a b"]:
        """The matrix of one set."""
        return self.pairs.of_set(number)

    @property
    def own(self) -> float:
        """Mean of e_aa over all items a of all sets, each weighted by its P(a).

        So it is the elasticity of expected demand: improbable items hardly count, and dear
        alternatives count with cheap ones. Elasticities of alternatives are those of ``between``.
        """
        return self._mean(self.pairs.same())

    @property
    def cross(self) -> float:
        """Mean of e_ab over all pairs of different items of all sets, each weighted by P(a)."""
        return self._mean(~self.pairs.same())

    def interval(self, own: bool = True, seed: int = 0) -> Interval:
        """95% by the bootstrap over sets, of the own or the cross mean."""
        low, high = bootstrap(*self._sums(self.pairs.same() == own), seed=seed)
        return float(low), float(high)

    def to_frame(self) -> Any:
        """A Polars frame, one row per pair: with ``by`` of alternatives, else of items of a set.

        Columns of alternatives: alternative, because_of, elasticity, low, high (95 %). Of items:
        set_number, item, because_of, elasticity, all counted from 0 in the order of the sets.
        """
        if self.between is None:
            return self.pairs.to_frame("item", "elasticity")
        return self.between.to_frame().rename({"value": "elasticity"})

    def _repr_html_(self) -> str:
        rows = []
        for name, mean, own in (("own", self.own, True), ("cross", self.cross, False)):
            low, high = self.interval(own)
            rows.append([name, f"{mean:.4f}", f"[{low:.4f}, {high:.4f}]"])
        title = f"Elasticities with respect to '{self.column}', {len(self.pairs):,} sets"
        table = notebook_html(["", "mean", "95% interval"], rows, title=title)
        return table if self.between is None else table + self.between.html()

    def __str__(self) -> str:
        lines = [f"elasticities with respect to '{self.column}', {len(self.pairs):,} sets"]
        for name, own in (("own", True), ("cross", False)):
            low, high = self.interval(own)
            mean = self.own if own else self.cross
            lines.append(f"{name:<6} {mean:>8.4f}  [{low:.4f}, {high:.4f}]")
        lines.append(AVERAGED)
        return "\n".join(lines if self.between is None else [*lines, str(self.between)])

    def _mean(self, which: Bool[np.ndarray, " pairs"]) -> float:
        above, below = (one.sum() for one in self._sums(which))
        return float(above / below) if below > 0 else float("nan")

    def _sums(
        self, which: Bool[np.ndarray, " pairs"]
    ) -> tuple[Float[np.ndarray, " sets"], Float[np.ndarray, " sets"]]:
        """Of each set: the sums of P(a) e_ab and of P(a) over these pairs."""
        sets, a, _ = self.pairs.places()
        firsts = np.cumsum(self.pairs.rows) - self.pairs.rows
        known = which & ~np.isnan(self.pairs.values)
        p = np.where(known, self.probability[firsts[sets] + a], 0)
        if self.weight is not None:
            p = p * self.weight[sets]
        values = p * np.where(known, self.pairs.values, 0)
        count = len(self.pairs)
        return np.bincount(sets, values, count), np.bincount(sets, p, count)


@checked(estimator=fitted, column=text, by=optional(columns))
def elasticities(
    estimator: Estimator, data: Any, column: str, by: str | Sequence[str] | None = None
) -> Elasticities:
    """Own and cross elasticities of all items of every set, by automatic differentiation.

        e_ab = d log P_s(a) / d log x_b

    with x the column in the **table's** units, whatever transform and standardisation the model
    puts between. For the MNL, e_ab = beta x_b (1{a = b} - P_s(b)). Models with maxima, minima or
    kinks have a one-sided derivative there. ``own`` is the mean over all items of all sets, and
    ``cross`` over all pairs of different items, each weighted by P(a) and by the set's weight, as
    the literature has it: they are elasticities of expected demand. An alternative's own elasticity
    is on the diagonal of ``between``. With ``by``,

        between(k, l) = d log(sum_s P_s(k)) / d log x_l
                      = sum_s sum over a in k, b in l of P_s(a) e_ab / sum_s P_s(k):

    by how many per cent the expected share of k changes when x of every l rises by one per cent.

    Args:
        estimator: a fitted model of JAX's; trees have no derivatives and are refused.
        data: a :class:`~setwise.Choices`, whose weights count, or any table with the columns of
            the training table.
        column: a number among the item features, by its name in the table. Where it is missing
            (and imputed), elasticities are NaN and do not count.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada").sample(200)
    >>> found = elasticities(sw.MNL().fit(choices), choices, "cost")
    >>> found.own < 0 < found.cross
    True
    """
    choices = estimator._choices(data)
    found = sensitivity(estimator, choices, column, relative=True)
    warn_of_derived(estimator, choices, [column], BOTH)
    between = None
    if by is not None:
        known = alternatives(choices, data, by, estimator.schema_.outside)
        levels = len(known.names)
        sets, a, _ = found.pairs.places()
        firsts = np.cumsum(found.pairs.rows) - found.pairs.rows
        moved = Pairs(
            found.pairs.values * found.probability[firsts[sets] + a],
            found.pairs.rows, found.pairs.columns,
        )  # fmt: skip
        owner = np.repeat(np.arange(len(choices)), found.pairs.rows)
        shares = np.bincount(
            owner * levels + known.codes, found.probability, len(choices) * levels
        ).reshape(len(choices), levels, 1)
        weight = np.ones(len(choices)) if choices.weight is None else choices.weight
        each = weight[:, None, None]
        above = moved.between(known.codes, levels, apart=False)
        between = LevelMatrix.ratio(known.names, above * each, shares * each)
    return Elasticities(column, found.pairs, found.probability, choices.weight, between)

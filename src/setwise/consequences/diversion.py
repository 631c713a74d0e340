"""Diversion ratios: where those go who leave an item, when it worsens a little or is gone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from setwise._arguments import checked, columns, optional, text
from setwise._page import notebook_html
from setwise.choices.alternatives import Alternatives
from setwise.consequences.derived_columns import BOTH, warn_of_derived
from setwise.consequences.elasticities import STEP, arcs, sensitivity
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.estimators.removals import probability_changes
from setwise.metrics.pairs import LevelMatrix, Pairs

ROUNDING = 1e-6
"""Finite changes of probabilities below this are rounding errors of single precision."""


@dataclass(frozen=True, eq=False)
class Diversions:
    """A matrix per set, row a and column b: the share of those who leave b that goes to a.

    D_bb is -1, so that each column adds up to 0 and its other entries to 1.
    """

    column: str | None
    """The column that changed a little; None if items were taken away."""
    pairs: Pairs
    between: LevelMatrix | None
    """By alternatives, where ``by`` names them; D_ll is what goes to other items of l."""
    step: float | None = None
    """The relative change of the column; None for derivatives, or where items were taken away."""

    def of_set(self, number: int) -> Float[np.ndarray, "a b"]:
        """The matrix of one set."""
        return self.pairs.of_set(number)

    def to_frame(self) -> Any:
        """A Polars frame, one row per pair: alternatives with ``by``, else items of a set.

        Columns for alternatives: to, from, ratio, low, high (95 %). For items: set_number, to,
        from, ratio, all counted from 0 in the order of the sets.
        """
        if self.between is None:
            return self.pairs.to_frame("to", "ratio", because_of="from")
        return self.between.to_frame("to", "from").rename({"value": "ratio"})

    def _repr_html_(self) -> str:
        if self.between is not None:
            return self.between.html(self._head())
        first = self.of_set(0)
        heads = ["first set", *(f"from item {b}" for b in range(first.shape[1]))]
        rows = [[f"to item {a}", *(f"{one:.4f}" for one in row)] for a, row in enumerate(first)]
        return notebook_html(heads, rows, title=self._head())

    def __str__(self) -> str:
        return self._head() if self.between is None else f"{self._head()}\n{self.between}"

    def _head(self) -> str:
        how = "by taking items away" if self.column is None else f"by '{self.column}'"
        if self.step is not None:
            how += f" (changed by {self.step:.0%}: the model has steps and no derivatives)"
        return f"diversion ratios {how}, {len(self.pairs):,} sets: from the column to the row"


@checked(estimator=fitted, column=optional(text), by=optional(columns))
def diversion_ratios(
    estimator: Estimator,
    data: Any,
    column: str | None = None,
    by: str | Sequence[str] | None = None,
) -> Diversions:
    """Where those go who leave b: all to a (D_ab = 1), none (0), or the contrary (below 0).

        with a column x:   D_ab = - (dP(a)/dx_b) / (dP(b)/dx_b)
        without one:       D_ab = (P_{s-b}(a) - P_s(a)) / P_s(b)

    For the MNL both are P(a) / (1 - P(b)). Those of alternatives are quotients of sums: over all
    sets and items, by the sets' weights, of what comes to k over what leaves l. NaN where nobody
    leaves: the column does not matter to b, or b is alone. Models with trees have no derivatives:
    there x_b changes by 10 % in all, and D_ab is the quotient of the changes of P(a) and P(b).

    Args:
        estimator: a fitted model.
        data: a :class:`~setwise.Choices` or any table with the columns of the training table.
        column: a number among the item features to change a little; without one, b leaves.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=50, items=3).choices
    >>> diversion_ratios(sw.RandomChoice().fit(choices), choices).of_set(0).round(4).tolist()[1]
    [0.5, -1.0, 0.5]
    """
    choices = estimator.as_choices(data)
    step = None if column is None or estimator.differentiable else STEP
    if column is None:
        gains = probability_changes(estimator, choices).pairs
    else:
        warn_of_derived(estimator, choices, [column], BOTH)
        if step is None:
            found = sensitivity(estimator, choices, column, relative=False)
            slopes = found.pairs
            change = slopes.values * slopes.of_rows(found.probability)
            gains = Pairs(change, slopes.rows, slopes.columns)
        else:
            gains = arcs(estimator, choices, column, step, relative=False).pairs
    own = gains.own()
    nothing = own == 0 if step is None else np.abs(own) < ROUNDING
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(nothing, np.nan, -gains.values / own)
    between = None
    if by is not None:
        known = Alternatives.of(data, choices, by, estimator.schema_.outside)
        weight = np.ones(len(choices)) if choices.weight is None else choices.weight
        each, levels = weight[:, None, None], len(known.names)
        kept = Pairs(np.where(gains.same(), gains.values, 0), gains.rows, gains.columns)
        above = gains.between(known.codes, levels, apart=True)
        below = kept.between(known.codes, levels, apart=False).sum(1, keepdims=True)
        between = LevelMatrix.ratio(known.names, above * each, -below * each)
    return Diversions(column, Pairs(ratio, gains.rows, gains.columns), between, step)

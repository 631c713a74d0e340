"""Violation capacity: how often a model changes its mind when an item it did not choose goes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from setwise._arguments import checked
from setwise._errors import InputError
from setwise.choices import Encoded
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.training.removals import Removals, removals
from setwise.violations.clusters import Group, error_of_mean, people
from setwise.violations.row_removals import row_removals


@dataclass(frozen=True, eq=False)
class Violations:
    """Violation capacity of a model on some choices; a mean of ``of_sets``.

    >>> found = Violations(np.array([0.5, np.nan, 0.0, 1.0]), None)
    >>> found
    Violations(kappa 0.5000 ± 0.2887; 3 sets)
    >>> found.kappa_where(np.array([True, True, False, True]))
    0.75
    """

    of_sets: Float[np.ndarray, " sets"]
    """Of each set, the share of removals that change the choice; NaN with fewer than two items."""
    weight: Float[np.ndarray, " sets"] | None
    """Of each set, where the choices have weights."""
    group: Shaped[np.ndarray, " sets"] | None = None
    """Who made the choice, where people and not sets are independent."""

    @property
    def sets(self) -> int:
        """How many sets count: those of two items or more."""
        return int(self._counted.sum())

    @property
    def kappa(self) -> float:
        """The mean over the sets that count, by their weights."""
        return self.kappa_where(np.ones(len(self.of_sets), bool))

    @property
    def standard_error(self) -> float:
        """Of kappa, over independent sets: sqrt(m/(m - 1) sum_i p_i^2 (v_i - kappa)^2).

        With a group, over independent people: what is squared is then the sum of a person's sets.
        """
        values, share = self._values_and_shares(self._counted)
        return error_of_mean(
            values, share, None if self.group is None else self.group[self._counted]
        )

    def kappa_where(self, mask: Bool[np.ndarray, " sets"]) -> float:
        """The mean over some of the sets, such as those that a model gets right; NaN over none."""
        values, share = self._values_and_shares(self._counted & mask)
        return float(values @ share) if len(values) else float("nan")

    def where(self, mask: Bool[np.ndarray, " sets"]) -> "Violations":
        """Of some of the sets alone."""
        weight, group = (None if one is None else one[mask] for one in (self.weight, self.group))
        return Violations(self.of_sets[mask], weight, group)

    def __repr__(self) -> str:
        return f"Violations(kappa {self.kappa:.4f} ± {self.standard_error:.4f}; {self.sets:,} sets)"

    @property
    def _counted(self) -> Bool[np.ndarray, " sets"]:
        return ~np.isnan(self.of_sets)

    def _values_and_shares(
        self, mask: Bool[np.ndarray, " sets"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        values = self.of_sets[mask]
        weight = np.ones(len(values)) if self.weight is None else self.weight[mask]
        return values, weight / weight.sum()


@checked(estimator=fitted)
def violation_capacity(
    estimator: Estimator, data: Any, group: str | Group | None = None
) -> Violations:
    """How often taking away an item that was not chosen changes what is: 0 for every IIA model.

        kappa = mean over s with n >= 2 of 1/(n - 1) sum over x in s, x != y, of 1{h(s - x) != y}

    where y = h(s) is the item that the model predicts from s, the first of equals. Items with
    equal features are one and the same: a choice does not change from one to the other. The
    outside option may be predicted but is always there: it is neither taken away nor counted in
    n, and where it is y, each of the n items is taken away and their number divides.

    Args:
        estimator: a fitted model.
        data: a :class:`~setwise.Choices`, whose weights count, or any table with the columns of
            the training table, in which all sets count alike. What was chosen plays no part.
        group: who made each choice, for errors and intervals where one person makes many: the
            column that ``read(group=...)`` named, a context column, any column of a table that is
            constant within sets, or one value a set.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(200)
    >>> violation_capacity(sw.MNL().fit(choices), choices).kappa
    0.0
    """
    choices = estimator.as_choices(data)
    who = None if group is None else people(choices, data, group)
    if (choices.sizes < 2).all():
        raise InputError(
            "every set has only one item, and a choice from it cannot change; "
            "give sets of two items or more"
        )
    parts = [_removals(estimator, part) for part in estimator.encoded_parts(choices)]
    tried, changed = (np.concatenate(each) for each in zip(*parts, strict=True))
    if (changed < 0).any():
        which = choices.set_ids[int(np.argmax(changed < 0))]
        raise InputError(
            f"the model's scores in set '{choices.roles.set}'={which} are not numbers, so that "
            "it predicts nothing; train it again, with a smaller learning rate"
        )
    of_sets = np.full(len(choices), np.nan)
    several = choices.sizes >= 2
    of_sets[several] = changed[several] / tried[several]
    return Violations(of_sets, choices.weight, who)


def _removals(estimator: Estimator, part: Encoded) -> Removals:
    outside = estimator.schema_.outside
    if estimator.has_jax_model:
        return removals(estimator.model_, part, outside)
    return row_removals(estimator.row_log_probabilities, part, outside)

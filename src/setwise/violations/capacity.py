"""Violation capacity: how often a model changes its mind when an item it did not choose goes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from setwise._arguments import checked
from setwise._errors import InputError
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.estimators.removals import Removals, without_each
from setwise.metrics.set_means import Group, SetMean, people


@dataclass(frozen=True, eq=False)
class Violations(SetMean):
    """Violation capacity of a model on some choices: a mean over sets of two items or more.

    ``of_sets`` holds the share of removals that change the choice; NaN with fewer than two items.

    >>> found = Violations(np.array([0.5, np.nan, 0.0, 1.0]), None)
    >>> found
    Violations(kappa 0.5000 ± 0.2887; 3 sets)
    >>> found.kappa_where(np.array([True, True, False, True]))
    0.75
    """

    @property
    def kappa(self) -> float:
        """The mean over the sets that count, by their weights."""
        return self.mean

    def kappa_where(self, mask: Bool[np.ndarray, " sets"]) -> float:
        """The mean over some of the sets, such as those that a model gets right; NaN over none."""
        return self.where(mask).mean

    def where(self, mask: Bool[np.ndarray, " sets"]) -> "Violations":
        """Of some of the sets alone."""
        weight, group = (None if one is None else one[mask] for one in (self.weight, self.group))
        return Violations(self.of_sets[mask], weight, group)

    def __repr__(self) -> str:
        return f"Violations(kappa {self.kappa:.4f} ± {self.standard_error:.4f}; {self.sets:,} sets)"


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
    of_sets = np.full(len(choices), np.nan)
    for one in without_each(estimator, choices):
        tried, changed = changed_choices(one)
        several = choices.sizes[one.sets] >= 2
        of_sets[one.sets[several]] = changed[several] / tried[several]
    return Violations(of_sets, choices.weight, who)


def changed_choices(
    one: Removals,
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Of each set: how many items are taken away, and how often that changes the choice.

    The choice is the item with the highest score, the first of equals. Scores are compared and not
    probabilities, whose rounding makes ties that depend on the set. Equal items may score unequally
    by a rounding error, so they are told apart by their features.
    """
    each, items = np.arange(len(one.sets)), one.part.items
    best = one.rows[each, one.whole.argmax(1)]
    chosen = one.present & (items[one.rows] == items[best][:, None]).all(2)
    tried = one.can_go.copy()
    tried[each, chosen.argmax(1)] = False
    stays = np.take_along_axis(chosen, one.left.argmax(2), 1)
    return tried.sum(1), (tried & ~stays).sum(1)

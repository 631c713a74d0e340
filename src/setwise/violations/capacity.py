"""Violation capacity: how often taking away an item that was not chosen changes the choice.

Over all sets, and by correctness region: the sets that some models predict right and others wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from setwise._arguments import by_name, checked
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise.choices import Choices
from setwise.estimators import Estimator
from setwise.estimators.base import fitted, is_choices
from setwise.estimators.removals import Removals, without_each
from setwise.metrics.set_means import Group, Interval, SetMean, bootstrap_interval, respondents


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
        """The violations in these sets alone."""
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
            constant within sets, or one value per set.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(200)
    >>> violation_capacity(sw.MNL().fit(choices), choices).kappa
    0.0
    """
    choices = estimator.as_choices(data)
    who = None if group is None else respondents(choices, data, group)
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
    """How many items of each set are taken away, and how often that changes the choice.

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


MOST = 8  # models: with more there are too many regions to read


@dataclass(frozen=True)
class CorrectnessRegion:
    """The sets that these models predict right and all others wrong.

    ``share`` is that of all sets that count, by their weights. ``kappa`` is each model's violation
    capacity there, NaN where there is no set, and ``intervals`` are 95 % by the bootstrap.
    """

    right: tuple[str, ...]
    sets: int
    share: float
    kappa: Mapping[str, float]
    intervals: Mapping[str, Interval]


@dataclass(frozen=True)
class CapacityByRegion:
    """All regions: one model right, two, and so on; the last is where none is.

    >>> one = CorrectnessRegion(("SDA",), 3, 0.75, {"SDA": 0.5}, {"SDA": (0.25, 0.75)})
    >>> none = CorrectnessRegion((), 1, 0.25, {"SDA": 0.0}, {"SDA": (0.0, 0.0)})
    >>> print(CapacityByRegion(("SDA",), (one, none)))
    right  sets   share  kappa of SDA
    all       3  75.0 %  0.500 [0.250, 0.750]
    none      1  25.0 %  0.000 [0.000, 0.000]
    """

    models: tuple[str, ...]
    regions: tuple[CorrectnessRegion, ...]

    def of(self, *right: str) -> CorrectnessRegion:
        """The region where exactly these models are right; without any, where none is."""
        for one in self.regions:
            if set(one.right) == set(right):
                return one
        wrong = ", ".join(name for name in right if name not in self.models)
        raise InputError(f"{wrong} is not a model here; there are: {', '.join(self.models)}")

    @property
    def heads(self) -> tuple[str, ...]:
        """What :meth:`rows` hold."""
        return ("right", "sets", "share", *(f"kappa of {name}" for name in self.models))

    def rows(self) -> list[tuple[str, ...]]:
        """The regions as text, under :attr:`heads`."""
        return [
            (
                region_name(one.right, len(self.models)),
                f"{one.sets:,}",
                f"{100 * one.share:.1f} %",
                *(_with_interval(one.kappa[name], one.intervals[name]) for name in self.models),
            )
            for one in self.regions
        ]

    def to_frame(self) -> Any:
        """A Polars frame, one row per region and model.

        Columns: right (the models that are right there), sets, share, model, kappa, low, high.
        """
        import polars as pl

        cells = [(one, name) for one in self.regions for name in self.models]
        columns = {
            "right": [region_name(one.right, len(self.models)) for one, _ in cells],
            "sets": [one.sets for one, _ in cells],
            "share": [one.share for one, _ in cells],
            "model": [name for _, name in cells],
            "kappa": [one.kappa[name] for one, name in cells],
            "low": [one.intervals[name][0] for one, name in cells],
            "high": [one.intervals[name][1] for one, name in cells],
        }
        return pl.DataFrame(columns).fill_nan(None)

    def _repr_html_(self) -> str:
        return notebook_html(self.heads, self.rows())

    def __str__(self) -> str:
        table = [self.heads, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(
            "  ".join(
                f"{cell:>{width}}" if 1 <= place <= 2 else f"{cell:<{width}}"
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        )


@checked(estimators=by_name(fitted, least=0), choices=is_choices, seed=check_seed)
def capacity_by_region(
    estimators: Mapping[str, Estimator],
    choices: Choices,
    group: str | Group | None = None,
    seed: int = 0,
) -> CapacityByRegion:
    """Each model's violation capacity where only some of the models predict the choice.

    For each combination R of the models, and for none of them,

        kappa_m(R) = violation capacity of m on { s : exactly the models in R predict s right }

    A prediction is right if the chosen item alone is the likeliest: a shared first place is not
    enough. Sets of one item say nothing about removals and are left out. If context helps, a
    context model should change its mind more often on the sets that it alone gets right. For IIA
    models all numbers are exactly 0.

    Args:
        estimators: fitted models by name, at most 8.
        choices: sets that the models were not trained on, with what was chosen. Weights count.
        group: who made each choice, for intervals where one person makes many: as in
            :func:`~setwise.violations.violation_capacity`.
        seed: of the bootstrap.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("decoy", sets=300, seed=0).choices
    >>> models = {"relative": sw.WithinSetMNL().fit(choices), "MNL": sw.MNL().fit(choices)}
    >>> found = capacity_by_region(models, choices)
    >>> found.of("relative").kappa["MNL"], found.of("relative").kappa["relative"] > 0
    (0.0, True)
    """
    _check_regions(estimators, choices)
    who = None if group is None else respondents(choices, choices, group)
    several = choices.sizes >= 2
    right = {name: predicted_right(one, choices) for name, one in estimators.items()}
    violations = {name: violation_capacity(one, choices, who) for name, one in estimators.items()}
    weight = several if choices.weight is None else np.where(several, choices.weight, 0)
    found = []
    for names, where in correctness_regions(right):
        here = where & several
        parts = {name: one.where(here) for name, one in violations.items()}
        found.append(
            CorrectnessRegion(
                names,
                int(here.sum()),
                float(weight[here].sum() / weight.sum()),
                {name: one.kappa for name, one in parts.items()},
                {name: bootstrap_interval(one, seed=seed) for name, one in parts.items()},
            )
        )
    by_size = sorted(found, key=lambda one: len(one.right) or len(estimators) + 1)
    return CapacityByRegion(tuple(estimators), tuple(by_size))


def correctness_regions(
    right: Mapping[str, Bool[np.ndarray, " sets"]],
) -> Iterator[tuple[tuple[str, ...], Bool[np.ndarray, " sets"]]]:
    """All combinations of models, each with the sets that exactly these get right.

    >>> right = {"a": np.array([True, True, False]), "b": np.array([True, False, False])}
    >>> {names: np.flatnonzero(sets).tolist() for names, sets in correctness_regions(right)}
    {('a', 'b'): [0], ('a',): [1], ('b',): [], (): [2]}
    """
    table = np.array(list(right.values()))
    for wanted in product((True, False), repeat=len(right)):
        names = tuple(name for name, one in zip(right, wanted, strict=True) if one)
        yield names, (table == np.array(wanted)[:, None]).all(0)


def predicted_right(estimator: Estimator, choices: Choices) -> Bool[np.ndarray, " sets"]:
    """Whether the chosen item of each set is the likeliest; a shared first place is not enough.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=5, items=3).choices
    >>> predicted_right(sw.RandomChoice().fit(choices), choices).any().item()
    False
    """
    return estimator.outcomes(choices).ranks.top(1) == 1


def region_name(right: Sequence[str], models: int) -> str:
    """A region in words: "none", "all", or who is right.

    >>> region_name(["SDA"], 3), region_name(["SDA", "MNL"], 3), region_name(["SDA", "MNL"], 2)
    ('SDA only', 'SDA, MNL', 'all')
    """
    if not right:
        return "none"
    if len(right) == models:
        return "all"
    return f"{right[0]} only" if len(right) == 1 else ", ".join(right)


def _check_regions(estimators: Mapping[str, Estimator], choices: object) -> None:
    if not 1 <= len(estimators) <= MOST:
        raise InputError(
            f"{len(estimators)} models make {2 ** len(estimators):,} regions; give 1 to {MOST}"
        )
    if not isinstance(choices, Choices):
        raise InputError(
            f"regions need Choices, not {type(choices).__name__}; make them with setwise.read(...)"
        )


def _with_interval(value: float, interval: Interval) -> str:
    low, high = interval
    return "–" if np.isnan(value) else f"{value:.3f} [{low:.3f}, {high:.3f}]"

"""Attraction, compromise and similarity: measured from labelled trials, and from fitted models.

In such a trial people choose among A, B and a third option that favours one of the two, the
*target*; the other is its *competitor*. Under IIA the third option is irrelevant to the odds of
target against competitor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from setwise import _segments
from setwise._arguments import checked, each, instance, optional, text
from setwise._arguments import number as a_number
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise.choices import Table, open_table
from setwise.choices.choices import Column
from setwise.choices.validation import Grouping
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.metrics.set_means import Interval

RESAMPLES = 1000
ROUNDING = 1e-4  # of the probabilities of a set, in single precision

Counts = Float[np.ndarray, "... 2 3"]
"""Trials, choices of A and of B: first where the third option favours A, then where it is B."""


@dataclass(frozen=True)
class ContextEffect:
    """One condition's shares, with 95 % bootstrap intervals.

    ``share_of_a`` holds P(A) over all three options, where the third favours A and where it
    favours B. RST, the relative share of the target, is n_T / (n_T + n_C); ``rst_a`` and ``rst_b``
    are those with A and with B as the target, and ``rst`` is their mean, the equal-weights RST. It
    is 1/2 without an effect if A and B are liked alike in both; above 1/2 the effect is there.
    """

    condition: str
    trials: tuple[int, int]
    share_of_a: tuple[float, float]
    share_intervals: tuple[Interval, Interval]
    rst_a: float
    rst_b: float
    rst: float
    rst_interval: Interval

    def __str__(self) -> str:
        low, high = self.rst_interval
        one, other = self.share_of_a
        return (
            f"{self.condition}: P(A) {one:.3f} where the third option favours A, {other:.3f} where "
            f"it favours B; relative share of the target {self.rst:.3f} [{low:.3f}, {high:.3f}]"
        )


@checked(
    set=text,
    chosen=text,
    condition=text,
    favours=text,
    option=text,
    group=optional(text),
    seed=check_seed,
)
def context_effects(
    table: Any,
    *,
    set: str = "set_id",
    chosen: str = "chosen",
    condition: str = "condition",
    favours: str = "favours",
    option: str = "option",
    group: str | None = None,
    seed: int = 0,
) -> tuple[ContextEffect, ...]:
    """The effects in labelled trials, one entry per condition, in alphabetical order.

    Args:
        table: anything that :func:`setwise.read` reads, one row per option; names of columns below.
        set: the trial of each row.
        chosen: 1 for the chosen option; or a model's P(x | s), for the effects that it predicts.
        condition: such as "attraction"; the same in all rows of a trial.
        favours: "A" or "B", the target of the trial; the same in all its rows.
        option: "A", "B", or anything else for the third option.
        group: the participant: intervals then resample people, not trials.
        seed: of the bootstrap.

    >>> import setwise as sw
    >>> drawn = sw.datasets.generate("decoy", sets=6000, similarity=0.0)
    >>> [(one.condition, round(one.rst, 1)) for one in context_effects(drawn.columns)]
    [('attraction', 0.7), ('compromise', 0.7), ('similarity', 0.5)]
    """
    opened = open_table(table)
    sets = Grouping.of(set, opened.ids(set, "set"), np.arange(opened.rows))
    conditions, trials = _once(opened, sets, condition, "condition")
    targets, favoured = _once(opened, sets, favours, "favours")
    if not {"A", "B"} >= {*targets}:
        wrong = next(one for one in targets if one not in ("A", "B"))
        raise InputError(f"favours column '{favours}' holds '{wrong}'; it says A or B")
    to_b = np.array([one == "B" for one in targets])[favoured]
    shares = _shares(opened, sets, chosen, option)
    people = np.arange(len(shares)) if group is None else _once(opened, sets, group, "group")[1]
    effects = []
    for number, name in enumerate(conditions):
        here = trials == number
        if to_b[here].all() or not to_b[here].any():
            raise InputError(
                f"condition '{name}' has trials of one target only; the relative share of the "
                "target needs trials that favour A and trials that favour B"
            )
        counts = _counts(shares[here], to_b[here], people[here])
        effects.append(_effect(name, counts, np.random.default_rng(seed)))
    return tuple(effects)


@dataclass(frozen=True, eq=False)
class DecoyEffect:
    """How a decoy moves the shares of a and b, one value per place of the decoy.

    ``without`` is (P(a), P(b)) of the pair alone. ``places`` has the decoy's features, one row per
    place, in the order of ``features``.
    """

    features: tuple[str, ...]
    places: Float[np.ndarray, "places d"]
    without: tuple[float, float]
    p_a: Float[np.ndarray, " places"]
    p_b: Float[np.ndarray, " places"]
    p_decoy: Float[np.ndarray, " places"]

    @property
    def relative_share(self) -> Float[np.ndarray, " places"]:
        """P(a) / (P(a) + P(b)); the same at every place if the model satisfies IIA."""
        return self.p_a / (self.p_a + self.p_b)

    @property
    def shift(self) -> Float[np.ndarray, " places"]:
        """By how much the decoy raises a's relative share over that of the pair alone."""
        a, b = self.without
        return self.relative_share - a / (a + b)

    @property
    def breaks_regularity(self) -> Bool[np.ndarray, " places"]:
        """Where a decoy makes a or b *more* probable than it is without: no random utility does."""
        a, b = self.without
        return (self.p_a > a + ROUNDING) | (self.p_b > b + ROUNDING)

    def to_frame(self) -> Any:
        """A Polars frame, one row per place: the decoy's features, p_a, p_b, p_decoy, shift."""
        import polars as pl

        places = dict(zip(self.features, self.places.T, strict=True))
        found = {name: getattr(self, name) for name in ("p_a", "p_b", "p_decoy", "shift")}
        return pl.DataFrame(places | found)


AN_ITEM = instance(Mapping, "write {'price': 3.0, 'stars': 4}")


@checked(estimator=fitted, a=AN_ITEM, b=AN_ITEM, decoys=each(AN_ITEM), context=optional(AN_ITEM))
def decoy_effect(
    estimator: Estimator,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    decoys: Sequence[Mapping[str, Any]],
    context: Mapping[str, Any] | None = None,
) -> DecoyEffect:
    """What a fitted model makes of {a, b} when a decoy joins, for each of many decoys.

    Args:
        estimator: a fitted model.
        a: its features, by column of the training table; so for ``b`` and each of ``decoys``.
        b: the other option.
        decoys: the places to try; what a decoy leaves out it shares with ``a``. See
            :func:`decoy_grid`.
        context: the set's context features, where the model has them.

    >>> import setwise as sw
    >>> model = sw.MNL().fit(sw.datasets.generate("decoy", sets=500).choices)
    >>> grid = decoy_grid(x1=[4.0, 5.0, 6.0], x2=[4.0, 5.0])
    >>> found = decoy_effect(model, {"x1": 6.0, "x2": 4.0}, {"x1": 4.0, "x2": 6.0}, grid)
    >>> found.p_a.shape, bool(np.abs(found.shift).max() < 1e-5)  # an MNL does not care
    ((6,), True)
    """
    roles = estimator.schema_.roles
    sets: list[list[Mapping[str, Any]]] = [[a, b], *([a, b, {**a, **decoy}] for decoy in decoys)]
    flat = [item for one in sets for item in one]
    columns: dict[str, Any] = {roles.set: np.repeat(np.arange(len(sets)), [len(s) for s in sets])}
    for feature in roles.items:
        missing = [item for item in (a, b) if feature.column not in item]
        if missing:
            raise InputError(f"a and b need a value of '{feature.column}', which the model uses")
        columns[feature.column] = np.array([item[feature.column] for item in flat])
    for feature in roles.context:
        if feature.column not in (context or {}):
            raise InputError(f"context= needs a value of '{feature.column}', which the model uses")
        columns[feature.column] = np.full(len(flat), (context or {})[feature.column])
    p = estimator.predict_proba(columns)
    with_decoy = p[2:].reshape(-1, 3).astype(np.float64)
    used = dict.fromkeys(feature.column for feature in roles.items)
    names = tuple(name for name in used if columns[name].dtype.kind in "iuf")
    places = np.stack([columns[name][4::3].astype(np.float64) for name in names], 1)
    return DecoyEffect(names, places, (float(p[0]), float(p[1])), *with_decoy.T)


def decoy_grid(**values: Sequence[int | float] | Float[np.ndarray, " _"]) -> list[dict[str, float]]:
    """All combinations of these features' values, the last one changing fastest.

    >>> decoy_grid(price=[1, 2], stars=[3.0])
    [{'price': 1.0, 'stars': 3.0}, {'price': 2.0, 'stars': 3.0}]
    """
    if not values:
        raise InputError("the grid has no features; name at least one, such as price=[1, 2]")
    for name, one in values.items():
        each(a_number())(name, one)
    axes = np.meshgrid(*(np.asarray(one, np.float64) for one in values.values()), indexing="ij")
    points = np.stack([axis.reshape(-1) for axis in axes], 1)
    return [dict(zip(values, point.tolist(), strict=True)) for point in points]


def _once(
    table: Table, sets: Grouping, name: str, role: str
) -> tuple[list[str], Int[np.ndarray, " sets"]]:
    """The distinct values of a column that is constant within trials, and the code of each."""
    values, codes = np.unique(table.ids(name, role).astype(str), return_inverse=True)
    return values.tolist(), sets.once_per_set(Column(codes.reshape(-1)), name).values


def _shares(table: Table, sets: Grouping, chosen: str, option: str) -> Float[np.ndarray, "sets 2"]:
    """What A and what B got in each trial: 0 or 1, or a model's probabilities."""
    column = table.column(chosen, "chosen")
    values = column.values.astype(np.float64)[sets.order] if column.kind == "number" else None
    sums = None if values is None else _segments.sums(values, sets.offsets)
    if values is None or sums is None or not (values >= 0).all():
        raise InputError(f"chosen column '{chosen}' must hold 0 and 1, or probabilities")
    wrong = np.abs(sums - 1) > ROUNDING
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"chosen column '{chosen}' adds up to {sums[at]:g} in set "
            f"'{sets.set_name}'={sets.set_ids[at]}; one option is chosen in each"
        )
    names = table.ids(option, "option").astype(str)[sets.order]
    for one in ("A", "B"):
        number = _segments.sums(names == one, sets.offsets)
        if (number != 1).any():
            at = int(np.argmax(number != 1))
            raise InputError(
                f"set '{sets.set_name}'={sets.set_ids[at]} has {number[at]} rows with "
                f"'{option}'={one}; a trial has one A, one B and another option"
            )
    of_two = values[:, None] * np.stack([names == "A", names == "B"], 1)
    return _segments.sums(of_two, sets.offsets)


def _counts(
    shares: Float[np.ndarray, "trials 2"],
    to_b: Bool[np.ndarray, " trials"],
    people: Shaped[np.ndarray, " trials"],
) -> Float[np.ndarray, "people 2 3"]:
    """Sums of each person's trials, by whom the third option favours."""
    person = np.unique(people, return_inverse=True)[1].reshape(-1)
    counts = np.zeros((int(person.max()) + 1, 2, 3))
    np.add.at(counts, (person, to_b.astype(np.int64)), np.insert(shares, 0, 1, axis=1))
    return counts


def _effect(
    name: str, counts: Float[np.ndarray, "people 2 3"], rng: np.random.Generator
) -> ContextEffect:
    number = len(counts)
    flat = counts.reshape(number, 6)
    drawn = (rng.integers(number, size=number) for _ in range(RESAMPLES))
    draws = [np.bincount(people, minlength=number) @ flat for people in drawn]
    total = counts.sum(0)
    resampled = np.array(draws).reshape(-1, 2, 3)
    a, b, mean = _relative_shares(total)
    share, shares = total[:, 1] / total[:, 0], _share_of_a(resampled)
    return ContextEffect(
        name, (int(total[0, 0]), int(total[1, 0])), (float(share[0]), float(share[1])),
        (_interval(shares[:, 0]), _interval(shares[:, 1])),
        float(a), float(b), float(mean), _interval(_relative_shares(resampled)[2]),
    )  # fmt: skip


def _share_of_a(counts: Counts) -> Float[np.ndarray, "... 2"]:
    with np.errstate(invalid="ignore"):
        return counts[..., 1] / counts[..., 0]


def _relative_shares(counts: Counts) -> tuple[Any, Any, Any]:
    """RST with A as the target, with B, and their mean."""
    with np.errstate(invalid="ignore"):
        share = counts[..., 1] / (counts[..., 1] + counts[..., 2])
    a, b = share[..., 0], 1 - share[..., 1]
    return a, b, (a + b) / 2


def _interval(values: Float[np.ndarray, " draws"]) -> Interval:
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(low), float(high)

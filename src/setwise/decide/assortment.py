"""The set to show: which of the candidate items earn the most together."""

import time
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise import _segments
from setwise._arguments import checked, number, one_of, optional, seed, whole
from setwise._errors import DataWarning, InputError
from setwise._page import notebook_html
from setwise._shapes import Bool, Float, Int, Shaped
from setwise.decide.candidates import Candidates, Value
from setwise.decide.limits import SetLimits
from setwise.decide.logit_sets import logit_sets
from setwise.decide.nested_sets import nested_sets
from setwise.decide.result_tables import LINES, cell, table_text
from setwise.decide.set_values import ModelSets, SetValues, without_engine
from setwise.decide.solving import METHODS, PROVED, OnContexts, solve


@dataclass(frozen=True, eq=False)
class Assortment:
    """For each context the set to show; rows are the candidates, context after context."""

    set_column: str
    set_ids: Shaped[np.ndarray, " contexts"]
    offsets: Int[np.ndarray, " contexts_and_one"]
    rows: Int[np.ndarray, " rows"]
    """The place of each candidate in the table."""
    values: Float[np.ndarray, " rows"]
    shown: Bool[np.ndarray, " rows"]
    """Whether to show it."""
    probability: Float[np.ndarray, " rows"]
    """P(x | s) in the set that is shown; 0 for the others."""
    expected: Float[np.ndarray, " contexts"]
    """What the set earns: the sum of probability times value."""
    everything: Float[np.ndarray, " contexts"]
    """What showing all candidates would earn."""
    bound: Float[np.ndarray, " contexts"]
    """What no allowed set earns more than, as far as that is proved."""
    methods: tuple[str, ...]
    """How the set of each context was found."""
    agreement: Float[np.ndarray, " contexts"]
    """Of a search, the share of starts that ended at a set as good; NaN for other methods."""
    sets_scored: int
    seconds: float
    outside: bool
    """Whether people may choose nothing."""

    @property
    def proved(self) -> Bool[np.ndarray, " contexts"]:
        """Where no allowed set is better, if the model is right."""
        return self.bound - self.expected <= PROVED * np.maximum(1e-12, np.abs(self.expected))

    @property
    def gap(self) -> Float[np.ndarray, " contexts"]:
        """By how much a better set could exceed it, relative to what it earns; 0 if proved."""
        with np.errstate(divide="ignore"):
            gap = (self.bound - self.expected) / np.abs(self.expected)
        return np.where(self.proved, 0.0, gap)

    @property
    def method(self) -> str:
        """How the sets were found, the commonest way first."""
        return ", ".join(name for name, _ in Counter(self.methods).most_common())

    def to_frame(self) -> Any:
        """A Polars frame, one row per item shown: set, row, value, probability."""
        import polars as pl

        owner = _segments.owners(self.offsets)[self.shown]
        columns = {
            self.set_column: self.set_ids[owner], "row": self.rows[self.shown],
            "value": self.values[self.shown], "probability": self.probability[self.shown],
        }  # fmt: skip
        return pl.DataFrame(columns)

    def per_set(self) -> Any:
        """A Polars frame, one row per context: set, items, expected, everything, bound, method."""
        import polars as pl

        columns = {
            self.set_column: self.set_ids, "items": _segments.sums(self.shown, self.offsets),
            "expected": self.expected, "everything": self.everything, "bound": self.bound,
            "proved": self.proved, "method": list(self.methods),
        }  # fmt: skip
        return pl.DataFrame(columns)

    def _repr_html_(self) -> str:
        frame = self.to_frame() if len(self.set_ids) == 1 else self.per_set()
        rows = [[cell(one) for one in row] for row in frame.head(LINES).rows()]
        return notebook_html(frame.columns, rows, note=" ".join(self._lines()))

    def __str__(self) -> str:
        frame = self.to_frame() if len(self.set_ids) == 1 else self.per_set()
        return "\n".join([table_text(frame), *self._lines()])

    def _lines(self) -> list[str]:
        mean = "" if len(self.set_ids) == 1 else "on average "
        shown = float(_segments.sums(self.shown, self.offsets).mean())
        several = "" if len(self.set_ids) == 1 else f"{len(self.set_ids):,} sets: "
        return [
            f"{several}{mean}{shown:.4g} of {np.diff(self.offsets).mean():.4g} items earn "
            f"{self.expected.mean():.6g}, all of them {self.everything.mean():.6g}",
            self._said_bound(),
            f"{self.method}; {self.sets_scored:,} sets scored",
        ]

    def _said_bound(self) -> str:
        proved = int(self.proved.sum())
        if proved == len(self.proved):
            return "no allowed set earns more, if the model is right"
        left = ~self.proved
        best = float(self.bound[left].mean())
        where = "" if proved == 0 else f" in {int(left.sum()):,} of the sets"
        starts = float(np.nanmean(self.agreement[left])) if left.any() else 1.0
        mean = " on average" if left.sum() > 1 else ""
        return (
            f"better sets are not ruled out{where}: {starts:.0%} of the starts ended at a set as "
            f"good, and it is proved only that none earns more than {best:.6g}{mean}"
        )


@checked(
    outside=optional(number()), method=one_of(*METHODS), restarts=optional(whole(0)), seed=seed,
)  # fmt: skip
def assortment(
    model: Any,
    items: Any,
    value: Value = 1.0,
    *,
    at_most: int | None = None,
    at_least: int = 1,
    must: Any = None,
    exclusive: Any = None,
    capacity: Mapping[str, float | int] | None = None,
    outside: float | int | None = None,
    method: str = "auto",
    restarts: int | None = None,
    seed: int = 0,
    on_contexts: OnContexts | None = None,
) -> Assortment:
    """The set that earns most, for each context of a table of candidate items.

        max over the allowed sets s of R(s) = sum over x in s of P(x | s) value(x)

    Args:
        model: a fitted estimator, or a :class:`setwise.scoring.Scorer`, for which every model is
            searched.
        items: the candidates, as a table with the columns of the training table: a choice set per
            context, such as a day's searches.
        value: what each item earns if it is chosen: a column, one number per row, or columns with
            the values of a group, such as ``{"brand": "ours"}``, whose items then count 1 and all
            others 0: R is the group's share.
        at_most: the most items to show; by default all.
        at_least: the fewest; 0 allows an empty set where people may choose nothing.
        must: items to show in any case: a 0/1 column, one flag per row, or values of columns.
        exclusive: items of which at most one is shown: a column whose equal values exclude each
            other, or groups of row numbers of the table, such as ``[(0, 3), (1, 2, 5)]``.
        capacity: columns of weights, and what the items shown may weigh: ``{"width": 80}``.
        outside: for logits without an outside option, the utility of choosing nothing, in the
            table's units: that of an item with 0 in all columns is 0. Models that were trained
            with ``on_none="outside"`` know it. An outside option that is an item of the table is
            a row of value 0 in ``must``.
        method: "auto" proves the best set where it can; "exact" refuses where it cannot;
            "exhaustive" tries all sets, "search" searches.
        restarts: annealed sets per context, where it searches: by default 24 for up to a hundred
            contexts and 8 for more. More find more, and take longer.
        seed: of the search.
        on_contexts: called with the number of contexts done and in all.

    A plain logit is solved exactly: by the order of values, a linear programme, or under capacities
    and overlapping exclusions a mixed-integer one. So are, by mixed-integer programmes or by trying
    all sets, latent classes and nested logits of one level with nests of up to ten items. For other
    models sets are searched; ``bound`` then says how far it may be off: by default the highest
    value of an item.

    >>> import setwise as sw
    >>> trips = sw.datasets.load("modecanada").sample(300)
    >>> model = sw.MNL().fit(trips)
    >>> best = assortment(model, trips[:2], value="cost", at_least=2, at_most=3)
    >>> best.methods[0], bool((best.expected >= best.everything - 1e-9).all())
    ('exact by linear programme', True)
    """
    begun = time.perf_counter()
    candidates = Candidates.read(row_model(model), items, value)
    sets = set_values(model, candidates, outside)
    limits = SetLimits.of(candidates, at_most, at_least, must, exclusive, capacity, sets.outside)
    if not sets.outside and at_least == 1 and at_most != 1 and must is None:
        warnings.warn(
            "nobody can choose nothing, so that the most valuable item alone earns most; say how "
            "many to show with at_least=, or train with on_none='outside'",
            DataWarning,
            stacklevel=3,
        )
    before = scored(sets)
    found = solve(sets, limits, method, restarts, int(seed), on_contexts)
    every = np.arange(len(candidates))
    present = candidates.present
    shown = found.shown[present]
    return Assortment(
        candidates.choices.roles.set,
        candidates.choices.set_ids,
        candidates.encoded.offsets,
        candidates.choices.rows,
        candidates.values,
        shown,
        sets.probabilities(every, found.shown)[present],
        found.value,
        sets.expected(every, present),
        np.maximum(found.bound, found.value),
        tuple(found.method),
        found.agreement,
        scored(sets) - before,
        time.perf_counter() - begun,
        sets.outside,
    )


def set_values(model: Any, candidates: Candidates, outside: float | int | None) -> SetValues:
    """What sets earn: by a formula where the model has one, else by its scores."""
    level = None if outside is None else float(outside)
    found = logit_sets(model, candidates, level) or nested_sets(model, candidates, level)
    if found is not None:
        return found
    if outside is not None:
        raise InputError(
            f"outside= is the utility of choosing nothing in a logit's units, and "
            f"{type(model).__name__} has no such; train it with on_none='outside', or give the "
            "outside option as a row of value 0 in must="
        )
    return ModelSets(without_engine(model), candidates)


def scored(sets: Any) -> int:
    """How many sets have been scored so far."""
    return int(sets.scored)


def row_model(model: Any) -> Any:
    """The model, or an error that says what it should be."""
    if not hasattr(type(model), "row_log_probabilities"):
        raise InputError(
            f"model must be a fitted estimator or a Scorer, not {type(model).__name__}; read a "
            "model file with setwise.load(path)"
        )
    _ = model.schema  # an estimator that is not fitted is refused here
    return model

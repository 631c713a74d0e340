"""Which sets may be shown: how many items, which of them together, and how much room there is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise._arguments import by_name, check_all, number, optional, whole
from setwise._errors import InputError
from setwise._shapes import Bool, Float, Int
from setwise.choices.alternatives import column_of
from setwise.decide.candidates import Candidates, numbers_of

ROUNDING = 1e-9
"""By so much, relative to the limit, may a sum of weights be above it."""


@dataclass(frozen=True, eq=False)
class SetLimits:
    """The sets that may be shown in each context; arrays are padded as candidates are."""

    least: Int[np.ndarray, " contexts"]
    most: Int[np.ndarray, " contexts"]
    present: Bool[np.ndarray, "contexts n"]
    must: Bool[np.ndarray, "contexts n"]
    groups: tuple[tuple[int, Int[np.ndarray, " _"]], ...]
    """Contexts, and places of which at most one may be shown."""
    conflict: Bool[np.ndarray, "contexts n n"] | None
    """Whether two places may not be shown together; None where all may."""
    weight: Float[np.ndarray, "contexts n m"]
    room: Float[np.ndarray, " m"]
    """What the weights of a set may add up to, one limit per column of weights."""
    disjoint: bool
    """Whether no item is in two exclusive groups."""

    @classmethod
    def of(
        cls,
        candidates: Candidates,
        at_most: int | None = None,
        at_least: int = 1,
        must: Any = None,
        exclusive: Any = None,
        capacity: Mapping[str, float | int] | None = None,
        outside: bool = False,
    ) -> "SetLimits":
        """The limits of :func:`setwise.decide.assortment`, checked."""
        check_all(
            {"at_most": optional(whole()), "at_least": whole(0 if outside else 1),
             "capacity": optional(by_name(number(least=0)))},
            {"at_most": at_most, "at_least": at_least, "capacity": capacity},
        )  # fmt: skip
        present, sizes = candidates.present, candidates.sizes
        flags = None if must is None else candidates.flags("must", must)
        kept = np.zeros(present.shape, bool) if flags is None else present & flags[candidates.rows]
        groups, disjoint = _groups(candidates, exclusive)
        names = list(capacity or {})
        weights = [_weights(candidates, name) for name in names]
        limits = cls(
            np.full(len(sizes), int(at_least)),
            sizes if at_most is None else np.minimum(sizes, int(at_most)),
            present,
            kept,
            groups,
            _conflicts(present.shape, groups),
            np.stack(weights, 2) if weights else np.zeros((*present.shape, 0)),
            np.array([float((capacity or {})[name]) for name in names]),
            disjoint,
        )
        limits._check(candidates)
        return limits

    def take(self, contexts: Int[np.ndarray, " some"]) -> "SetLimits":
        """Those of some contexts, in this order."""
        place = {int(one): number for number, one in enumerate(contexts)}
        groups = tuple((place[one], items) for one, items in self.groups if one in place)
        return replace(
            self, least=self.least[contexts], most=self.most[contexts],
            present=self.present[contexts], must=self.must[contexts], groups=groups,
            conflict=None if self.conflict is None else self.conflict[contexts],
            weight=self.weight[contexts],
        )  # fmt: skip

    def allow(
        self, contexts: Int[np.ndarray, " sets"], shown: Bool[np.ndarray, "sets n"]
    ) -> Bool[np.ndarray, " sets"]:
        """Which of these sets may be shown."""
        size = shown.sum(1)
        fits = (size >= self.least[contexts]) & (size <= self.most[contexts])
        fits &= (~self.must[contexts] | shown).all(1) & (~shown | self.present[contexts]).all(1)
        if self.conflict is not None:
            both = np.einsum("bij,bi,bj->b", self.conflict[contexts], shown, shown, dtype=np.int64)
            fits &= both == 0
        if len(self.room):
            fits &= self._fit(self.load(contexts, shown))
        return fits

    def load(
        self, contexts: Int[np.ndarray, " sets"], shown: Bool[np.ndarray, "sets n"]
    ) -> Float[np.ndarray, "sets m"]:
        """The sum of each set's weights."""
        return np.einsum("bnm,bn->bm", self.weight[contexts], shown)

    def moves(
        self, contexts: Int[np.ndarray, " sets"], shown: Bool[np.ndarray, "sets n"]
    ) -> "Moves":
        """What may be added to these sets, taken away, and exchanged."""
        size = shown.sum(1)
        hidden = self.present[contexts] & ~shown
        clash = None
        if self.conflict is not None:
            clash = np.einsum("bij,bi->bj", self.conflict[contexts], shown, dtype=np.int64)
        load = self.load(contexts, shown)
        add = hidden & (size < self.most[contexts])[:, None]
        if clash is not None:
            add &= clash == 0
        if len(self.room):
            add &= self._fit(load[:, None, :] + self.weight[contexts])
        droppable = shown & ~self.must[contexts]
        drop = droppable & (size > self.least[contexts])[:, None]
        return Moves(self, contexts, hidden, droppable, add, drop, clash, load)

    @property
    def free(self) -> Bool[np.ndarray, " contexts"]:
        """Contexts in which every set of at least one item may be shown."""
        whole = (self.least <= 1) & (self.most >= self.present.sum(1)) & ~self.must.any(1)
        if self.conflict is not None:
            whole &= ~self.conflict.any((1, 2))
        total = np.einsum("cnm,cn->cm", self.weight, self.present)
        return np.asarray(whole & self._fit(total))

    def _fit(self, load: Float[np.ndarray, "*sets m"]) -> Bool[np.ndarray, "*sets"]:
        return np.asarray((load <= self.room * (1 + ROUNDING)).all(-1))

    def _check(self, candidates: Candidates) -> None:
        """Refuse limits that no set of a context meets, where that is plain."""
        every = np.arange(len(self.least))
        clash = np.zeros(len(every), bool)
        if self.conflict is not None:
            clash = np.einsum("cij,ci,cj->c", self.conflict, self.must, self.must) > 0
        for bad, why in (
            (self.least > self.present.sum(1), "it has fewer candidates than at_least="),
            (self.least > self.most, "at_least= is above at_most="),
            (self.must.sum(1) > self.most, "must= names more items than at_most= allows"),
            (clash, "must= names two items that exclude each other"),
            (~self._fit(self.load(every, self.must)), "the items of must= exceed the capacity"),
        ):
            if bad.any():
                raise nothing_fits(candidates, int(np.argmax(bad)), why)


@dataclass(frozen=True, eq=False)
class Moves:
    """From each set one step: an item is added, left out, or exchanged for another."""

    limits: SetLimits
    contexts: Int[np.ndarray, " sets"]
    hidden: Bool[np.ndarray, "sets n"]
    droppable: Bool[np.ndarray, "sets n"]
    add: Bool[np.ndarray, "sets n"]
    drop: Bool[np.ndarray, "sets n"]
    clash: Int[np.ndarray, "sets n"] | None
    """How many items shown exclude each item."""
    load: Float[np.ndarray, "sets m"]

    def swap(
        self,
        some: Int[np.ndarray, " k"],
        out: Int[np.ndarray, " k"],
    ) -> Bool[np.ndarray, "k n"]:
        """What may come in for the item at the place ``out`` of these sets."""
        limits, contexts = self.limits, self.contexts[some]
        fits = self.hidden[some] & self.droppable[some, out][:, None]
        if self.clash is not None:
            assert limits.conflict is not None
            fits &= self.clash[some] == limits.conflict[contexts, out]
        if len(limits.room):
            left = self.load[some] - limits.weight[contexts, out]
            fits &= limits._fit(left[:, None, :] + limits.weight[contexts])
        return fits


def nothing_fits(candidates: Candidates, context: int, why: str) -> InputError:
    """The error for a context in which no set meets the limits."""
    name, which = candidates.choices.roles.set, candidates.choices.set_ids[context]
    return InputError(
        f"no set of '{name}'={which} meets the limits: {why}; loosen them, or leave this context "
        "out",
        set=which,
    )


def _weights(candidates: Candidates, name: str) -> Float[np.ndarray, "contexts n"]:
    weights = numbers_of(candidates.data, candidates.choices, "capacity", name)
    if (weights < 0).any():
        row = int(candidates.choices.rows[np.argmax(weights < 0)])
        raise InputError(
            f"column '{name}' of capacity= is negative at row {row}; weights are at least 0",
            row=row,
            column=name,
        )
    return candidates.padded(weights)


def _groups(
    candidates: Candidates, exclusive: Any
) -> tuple[tuple[tuple[int, Int[np.ndarray, " _"]], ...], bool]:
    """Contexts with places that exclude each other, and whether no item is in two groups."""
    if exclusive is None:
        return (), True
    if isinstance(exclusive, str):
        return tuple(_of_column(candidates, exclusive)), True
    if not isinstance(exclusive, Sequence):
        raise InputError(
            "exclusive= must be a column whose equal values exclude each other, or a list of "
            "groups of row numbers such as [(0, 3), (1, 2, 5)]"
        )
    choices = candidates.choices
    if choices.roles.wide is not None:
        raise InputError(
            "exclusive= cannot name rows of a wide table, in which a row holds all alternatives; "
            "give a long table"
        )
    place_of = {int(row): place for place, row in enumerate(choices.rows)}
    owner = np.repeat(np.arange(len(choices)), choices.sizes)
    found: list[tuple[int, Int[np.ndarray, " _"]]] = []
    for group in exclusive:
        known = isinstance(group, Sequence) and all(
            isinstance(row, (int, np.integer)) and int(row) in place_of for row in group
        )
        if not known or not group:
            raise InputError(
                f"exclusive= has the group {group!r}; a group is a list of row numbers of the "
                f"table, from 0 to {len(place_of) - 1}"
            )
        places = np.array([place_of[int(row)] for row in group], np.int64)
        if len(np.unique(owner[places])) > 1:
            raise InputError(
                f"exclusive= has the group {group!r}, whose rows are in several sets; rows of one "
                "set exclude each other"
            )
        context = int(owner[places[0]])
        found.append((context, places - choices.offsets[context]))
    used = [(context, int(place)) for context, places in found for place in places]
    return tuple(found), len(used) == len(set(used))


def _of_column(candidates: Candidates, name: str) -> list[tuple[int, Int[np.ndarray, " _"]]]:
    """Rows of a context with the same value in this column; missing values exclude nothing."""
    choices = candidates.choices
    column = column_of(candidates.data, choices, name)
    _, codes = np.unique(column.values, return_inverse=True)
    codes = np.where(column.missing, -1, codes.reshape(-1))
    found = []
    for context, (begin, end) in enumerate(
        zip(choices.offsets[:-1], choices.offsets[1:], strict=True)
    ):
        here = codes[begin:end]
        values, counts = np.unique(here[here >= 0], return_counts=True)
        found += [(context, np.flatnonzero(here == value)) for value in values[counts > 1]]
    return found


def _conflicts(
    shape: tuple[int, int], groups: Sequence[tuple[int, Int[np.ndarray, " _"]]]
) -> Bool[np.ndarray, "contexts n n"] | None:
    if not groups:
        return None
    conflict = np.zeros((*shape, shape[1]), bool)
    for context, places in groups:
        conflict[context, places[:, None], places] = True
    conflict[:, np.arange(shape[1]), np.arange(shape[1])] = False
    return conflict

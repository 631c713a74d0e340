"""The sets of a raw table: which rows belong together, and which of them were chosen."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from setwise import _segments
from setwise.choices import Choices

if TYPE_CHECKING:
    import polars as pl

EXAMPLES = 5


@dataclass(frozen=True, eq=False)
class Sets:
    """Rows in set order: set ``i`` has the places ``offsets[i]`` to ``offsets[i + 1]``.

    ``order`` holds the table's row of each place (None if they are the same), ``marks`` whether
    it was chosen (None if that is not known).

    >>> import polars as pl
    >>> sets = Sets.of(pl.Series([7, 9, None, 7]))
    >>> sets.order.tolist(), sets.offsets.tolist(), sets.ids.to_list()
    ([0, 3, 1], [0, 2, 3], [7, 9])
    """

    ids: "pl.Series | np.ndarray"
    offsets: Int[np.ndarray, " sets_and_one"]
    order: Int[np.ndarray, " rows"] | None = None
    marks: Bool[np.ndarray, " rows"] | None = None

    @classmethod
    def of(cls, ids: "pl.Series") -> "Sets":
        """Group rows by the id of their set; rows without one are left out."""
        ids = comparable(ids)
        here = None
        if ids.null_count():
            here = ids.is_not_null().arg_true().to_numpy().astype(np.int64)
            ids = ids.drop_nulls()
        starts = (ids != ids.shift(1)).fill_null(True).arg_true().to_numpy().astype(np.int64)
        firsts = ids.gather(starts)
        order = here
        if firsts.n_unique() < len(firsts):
            codes = ids.rank("dense").to_numpy()
            within = np.argsort(codes, kind="stable")
            starts = np.flatnonzero(np.diff(codes[within], prepend=0))
            firsts = ids.gather(within[starts])
            order = within if here is None else here[within]
        return cls(firsts, np.append(starts, len(ids)), order)

    @classmethod
    def of_choices(cls, choices: Choices) -> "Sets":
        """Those of choices that were read; where the outside option was taken, no row is marked."""
        marked = None
        if choices.chosen is not None:
            inside = choices.chosen < choices.sizes
            marked = np.zeros(int(choices.offsets[-1]), bool)
            marked[(choices.offsets[:-1] + choices.chosen)[inside]] = True
        return cls(choices.set_ids, np.asarray(choices.offsets, np.int64), choices.rows, marked)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def rows(self) -> int:
        """How many rows belong to a set."""
        return int(self.offsets[-1])

    @cached_property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """Items of each set."""
        return np.diff(self.offsets)

    @cached_property
    def choices(self) -> Int[np.ndarray, " sets"]:
        """Chosen rows of each set."""
        return self.total(self._marks)

    @cached_property
    def telling(self) -> Bool[np.ndarray, " sets"]:
        """Sets that tell what is preferred: exactly one choice, out of at least two items."""
        return (self.choices == 1) & (self.sizes > 1)

    @cached_property
    def chosen_at(self) -> Int[np.ndarray, " sets"]:
        """The place of the chosen row; of sets that are not telling, their first place."""
        places = self.offsets[:-1].copy()
        chosen = np.flatnonzero(self._marks)
        owner = self.owners(chosen)
        single = self.choices[owner] == 1
        places[owner[single]] = chosen[single]
        return places

    @property
    def _marks(self) -> Bool[np.ndarray, " rows"]:
        return np.zeros(self.rows, bool) if self.marks is None else self.marks

    def arranged(self, values: Shaped[np.ndarray, " table"]) -> Shaped[np.ndarray, " rows"]:
        """Values of the table's rows, in set order."""
        return values if self.order is None else values[self.order]

    def spread(self, per_set: Shaped[np.ndarray, " sets"]) -> Shaped[np.ndarray, " rows"]:
        """One value a set, repeated for each of its rows."""
        return _segments.spread(per_set, self.offsets)

    def total(self, flags: Bool[np.ndarray, " rows"]) -> Int[np.ndarray, " sets"]:
        """How many rows of each set are flagged."""
        return _segments.sums(flags, self.offsets)

    def highest(self, values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " sets"]:
        """The largest value of each set."""
        return _segments.maxima(values, self.offsets)

    def lowest(self, values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " sets"]:
        """The smallest value of each set."""
        return _segments.minima(values, self.offsets)

    def owners(self, places: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """The set of each of these places."""
        return np.searchsorted(self.offsets, places, side="right") - 1

    def rows_where(self, flags: Bool[np.ndarray, " rows"]) -> dict[str, Any]:
        """The place of a finding about rows: the first few in set order, their sets, how many."""
        places = np.flatnonzero(flags)
        first = places[:EXAMPLES]
        rows = first if self.order is None else self.order[first]
        sets = dict.fromkeys(self._names(self.owners(first)))
        return {"rows": tuple(rows.tolist()), "sets": tuple(sets), "count": len(places)}

    def sets_where(self, flags: Bool[np.ndarray, " sets"]) -> dict[str, Any]:
        """The place of a finding about sets: the first few with their first rows, how many."""
        which = np.flatnonzero(flags)
        first = self.offsets[which[:EXAMPLES]]
        rows = first if self.order is None else self.order[first]
        names = self._names(which[:EXAMPLES])
        return {"rows": tuple(rows.tolist()), "sets": tuple(names), "count": len(which)}

    def _names(self, sets: Int[np.ndarray, " m"]) -> list[str]:
        return [str(self.ids[int(one)]) for one in sets]


def comparable(ids: "pl.Series") -> "pl.Series":
    """Ids in a type that can be compared and ranked, null where missing."""
    import polars as pl

    if ids.dtype.is_float():
        return ids.fill_nan(None)
    if ids.dtype == pl.Null:
        return ids.cast(pl.String)
    if ids.dtype.is_numeric() or ids.dtype.is_temporal() or ids.dtype in (pl.String, pl.Boolean):
        return ids
    return pl.Series([None if one is None else str(one) for one in ids.to_list()], dtype=pl.String)

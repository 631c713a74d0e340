"""Choices: many choice sets, kept flat."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from setwise import _arguments
from setwise._errors import InputError
from setwise._shapes import Float, Int, Shaped
from setwise.choices.columns import Column, rows_of
from setwise.choices.features import Roles
from setwise.choices.mapped import StoredColumns

ROWS_A_BLOCK = 1_000_000


@dataclass(frozen=True)
class Dropped:
    """How many sets (or, for duplicates, rows) were left out while reading, and why."""

    without_choice: int = 0
    several_choices: int = 0
    duplicate_rows: int = 0


def generator(seed: int) -> np.random.Generator:
    """The source of randomness of samples and splits."""
    _arguments.seed("seed", seed)
    return np.random.default_rng(seed)


@dataclass(frozen=True, eq=False)
class Choices:
    """Choice sets of any sizes, immutable and never padded: rows of one set lie side by side.

    Set ``i`` owns the rows ``offsets[i]`` to ``offsets[i + 1]`` of every item column, one value
    of every context column, and, where known, ``chosen[i]``: the position of the chosen item
    within the set (equal to the set's size if the outside option was taken).

    Choices opened from a file (:func:`setwise.open_choices`) are the same, but their item columns
    stay on disk until one is looked up; so do those of every part that is taken of them.

    >>> import setwise as sw
    >>> choices = sw.read({"trip": [7, 7, 9, 9, 9], "cost": [3., 1., 2., 5., 4.],
    ...                    "chosen": [0, 1, 1, 0, 0]}, set="trip", chosen="chosen")
    >>> choices
    Choices(2 sets of 2 to 3 items, 5 rows; items: cost)
    >>> choices.chosen.tolist()
    [1, 0]
    """

    roles: Roles
    columns: Mapping[str, Column]
    context: Mapping[str, Column]
    offsets: Int[np.ndarray, " sets_and_one"]
    table_rows: Int[np.ndarray, " rows"] | None  # None: kept with the columns, on disk
    set_ids: Shaped[np.ndarray, " sets"]
    chosen: Int[np.ndarray, " sets"] | None = None
    weight: Float[np.ndarray, " sets"] | None = None
    group: Shaped[np.ndarray, " sets"] | None = None
    time: Shaped[np.ndarray, " sets"] | None = None
    outside: bool = False
    rare: float = 0.01
    fold: Int[np.ndarray, " sets"] | None = None  # of training sets: see choices.popularity
    dropped: Dropped = field(default_factory=Dropped)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, sets: Any) -> "Choices":
        """Some of the sets, as of an array: by number, slice, list of numbers or mask."""
        if isinstance(sets, tuple) and len(sets) == 2 and sets[1] is Ellipsis:
            sets = sets[0]  # scikit-learn's way to index arrays
        return self.take(_places(sets, len(self)))

    def __iter__(self) -> Iterator["Choices"]:
        """One set after another, each as choices."""
        return (self[place] for place in range(len(self)))

    @property
    def shape(self) -> tuple[int]:
        """The number of sets: what scikit-learn splits and indexes."""
        return (len(self),)

    @property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """The number of items of each set (the outside option not counted)."""
        return np.diff(self.offsets)

    @property
    def on_disk(self) -> bool:
        """Whether the item columns are read from a file when they are needed."""
        return isinstance(self.columns, StoredColumns)

    @property
    def rows(self) -> Int[np.ndarray, " rows"]:
        """The place of each row in the table."""
        if self.table_rows is None:
            assert isinstance(self.columns, StoredColumns)
            return self.columns.row_numbers()
        return self.table_rows

    def levels(self, name: str) -> Sequence[str]:
        """The level names of an item or context column; none if it is no category."""
        if name in self.context:
            return self.context[name].levels or ()
        if isinstance(self.columns, StoredColumns):
            return self.columns.stored[name].levels or ()
        return self.columns[name].levels or ()

    def take(self, sets: Int[np.ndarray, " m"]) -> "Choices":
        """These sets, in this order."""
        sets = np.asarray(sets, np.int64)
        firsts = self.offsets[sets]
        sizes = self.offsets[sets + 1] - firsts
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        parts: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[sets]
            for name in ("set_ids", "chosen", "weight", "group", "time", "fold")
        }
        if isinstance(self.columns, StoredColumns):
            parts["columns"] = self.columns.take(sets, offsets)
        else:
            rows = rows_of(firsts, sizes)
            parts["columns"] = {name: column.take(rows) for name, column in self.columns.items()}
            parts["table_rows"] = self.rows[rows]
        return replace(
            self,
            context={name: column.take(sets) for name, column in self.context.items()},
            offsets=offsets,
            **parts,
        )

    def blocks(self) -> Iterator["Choices"]:
        """Consecutive parts of about a million rows, for work that goes through all of them."""
        rows = ROWS_A_BLOCK
        cuts = np.searchsorted(self.offsets, np.arange(rows, self.offsets[-1], rows))
        borders = np.unique([0, *cuts, len(self)])
        if len(borders) <= 2:
            yield self
            return
        for begin, end in itertools.pairwise(borders):
            yield self.take(np.arange(begin, end))

    def in_memory(self) -> "Choices":
        """The same choices with every column in memory."""
        if not self.on_disk:
            return self
        columns = {
            name: Column(np.array(column.values), column.levels)
            for name, column in self.columns.items()
        }
        return replace(self, columns=columns, table_rows=self.rows)

    def limit(self, max_items: int | None = None, min_items: int = 1) -> "Choices":
        """Only the sets of ``min_items`` to ``max_items`` items; others are left out whole."""
        _arguments.optional(_arguments.whole())("max_items", max_items)
        _arguments.whole(0)("min_items", min_items)
        fits = self.sizes >= min_items
        if max_items is not None:
            fits &= self.sizes <= max_items
        if not fits.any():
            wanted = f"{min_items} to {max_items if max_items is not None else 'any number of'}"
            raise InputError(
                f"no set has {wanted} items; the sets have {self.sizes.min()} to {self.sizes.max()}"
            )
        return self if fits.all() else self.take(np.flatnonzero(fits))

    def sample(self, sets: int, seed: int = 0) -> "Choices":
        """A random sample of this many sets, in their order; all of them if there are fewer."""
        _arguments.whole()("sets", sets)
        _arguments.seed("seed", seed)
        if sets >= len(self):
            return self
        drawn = generator(seed).choice(len(self), sets, replace=False)
        return self.take(np.sort(drawn))

    def in_table_order(self, values: Shaped[np.ndarray, " rows"]) -> Shaped[np.ndarray, " rows"]:
        """Values of the rows, put back in the order in which the table had them."""
        return values[np.argsort(self.rows, kind="stable")]

    def __repr__(self) -> str:
        sizes = self.sizes
        low, high = sizes.min(), sizes.max()
        items = f"{low} items" if low == high else f"{low} to {high} items"
        text = f"{len(self):,} sets of {items}, {self.offsets[-1]:,} rows; items: "
        text += ", ".join(map(str, self.roles.items))
        if self.roles.context:
            text += "; context: " + ", ".join(map(str, self.roles.context))
        return f"Choices({text})"


def _places(sets: Any, count: int) -> Int[np.ndarray, " m"]:
    """The numbers of the sets that an index names, of so many."""
    if isinstance(sets, slice):
        found = np.arange(count)[sets]
    else:
        asked = np.atleast_1d(np.asarray(sets))
        if asked.ndim > 1 or (asked.size and asked.dtype.kind not in "iub"):
            raise InputError(
                f"{_arguments.shown(sets)} does not index sets; give a number, a slice, a list of "
                "numbers or a mask"
            )
        if asked.dtype.kind == "b" and asked.shape != (count,):
            raise InputError(f"the mask has {asked.size:,} values, but there are {count:,} sets")
        found = np.flatnonzero(asked) if asked.dtype.kind == "b" else asked.astype(np.int64)
        beyond = (found >= count) | (found < -count)
        if beyond.any():
            raise InputError(f"there is no set {int(found[beyond][0])}: there are {count:,} sets")
    if not len(found):
        raise InputError("no set is selected; choices have at least one")
    return found % count

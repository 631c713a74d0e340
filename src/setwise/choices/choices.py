"""Choices: many choice sets, kept flat."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise._errors import InputError
from setwise.choices.columns import Column
from setwise.choices.features import Roles


@dataclass(frozen=True)
class Dropped:
    """How many sets (or, for duplicates, rows) were left out while reading, and why."""

    without_choice: int = 0
    several_choices: int = 0
    duplicate_rows: int = 0


def generator(seed: int) -> np.random.Generator:
    """The source of randomness of samples and splits."""
    if seed < 0:
        raise InputError(f"seed={seed} must be at least 0")
    return np.random.default_rng(seed)


@dataclass(frozen=True, eq=False)
class Choices:
    """Choice sets of any sizes, immutable and never padded: rows of one set lie side by side.

    Set ``i`` owns the rows ``offsets[i]`` to ``offsets[i + 1]`` of every item column, one value
    of every context column, and, where known, ``chosen[i]``: the position of the chosen item
    within the set (equal to the set's size if the outside option was taken).

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
    rows: Int[np.ndarray, " rows"]
    set_ids: Shaped[np.ndarray, " sets"]
    chosen: Int[np.ndarray, " sets"] | None = None
    weight: Float[np.ndarray, " sets"] | None = None
    group: Shaped[np.ndarray, " sets"] | None = None
    time: Shaped[np.ndarray, " sets"] | None = None
    outside: bool = False
    rare: float = 0.01
    dropped: Dropped = field(default_factory=Dropped)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """The number of items of each set (the outside option not counted)."""
        return np.diff(self.offsets)

    def take(self, sets: Int[np.ndarray, " m"]) -> "Choices":
        """These sets, in this order."""
        sets = np.asarray(sets, np.int64)
        sizes = self.sizes[sets]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        shift = np.repeat(self.offsets[sets] - offsets[:-1], sizes)
        rows = np.arange(offsets[-1]) + shift
        per_set: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[sets]
            for name in ("chosen", "weight", "group", "time")
        }
        return replace(
            self,
            columns={name: column.take(rows) for name, column in self.columns.items()},
            context={name: column.take(sets) for name, column in self.context.items()},
            offsets=offsets,
            rows=self.rows[rows],
            set_ids=self.set_ids[sets],
            **per_set,
        )

    def limit(self, max_items: int | None = None, min_items: int = 1) -> "Choices":
        """Only the sets of ``min_items`` to ``max_items`` items; others are left out whole."""
        fits = self.sizes >= min_items
        if max_items is not None:
            fits &= self.sizes <= max_items
        if not fits.any():
            wanted = f"{min_items} to {max_items if max_items is not None else 'any number of'}"
            raise InputError(
                f"no set has {wanted} items; the sets have {self.sizes.min()} to {self.sizes.max()}"
            )
        return self.take(np.flatnonzero(fits))

    def sample(self, sets: int, seed: int = 0) -> "Choices":
        """A random sample of this many sets, in their order; all of them if there are fewer."""
        if sets < 1:
            raise InputError(f"a sample of {sets} sets is empty; ask for at least 1")
        if sets >= len(self):
            return self
        drawn = generator(seed).choice(len(self), sets, replace=False)
        return self.take(np.sort(drawn))

    def in_table_order(self, values: Shaped[np.ndarray, " rows"]) -> Shaped[np.ndarray, " rows"]:
        """Values of the rows, put back in the order in which the table had them."""
        return values[np.argsort(self.rows, kind="stable")]

    def __repr__(self) -> str:
        low, high = self.sizes.min(), self.sizes.max()
        sizes = f"{low} items" if low == high else f"{low} to {high} items"
        text = f"{len(self):,} sets of {sizes}, {len(self.rows):,} rows; items: "
        text += ", ".join(map(str, self.roles.items))
        if self.roles.context:
            text += "; context: " + ", ".join(map(str, self.roles.context))
        return f"Choices({text})"

"""Finding ids fast: positions among known ids, by a plain table where the ids are dense."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

DENSE = 16  # a table may have this many places for each id that is known
ALWAYS_DENSE = 2**20


@dataclass(frozen=True, eq=False)
class Ids:
    """Known ids in ascending order, each once.

    >>> ids = Ids.of(np.array([30, 10]), np.array([10, 20]))
    >>> ids.ids.tolist(), ids.find(np.array([20, 15, 99, -4])).tolist()
    ([10, 20, 30], [1, -1, -1, -1])
    """

    ids: Int[np.ndarray, " n"]
    table: Int[np.ndarray, " places"] | None  # the position of each id, -1 where there is none

    @classmethod
    def of(cls, *values: Int[np.ndarray, " _"]) -> "Ids":
        """All ids that occur in any of the arrays."""
        top = max((int(array.max()) for array in values if len(array)), default=0)
        low = min((int(array.min()) for array in values if len(array)), default=0)
        if low < 0 or top > max(ALWAYS_DENSE, DENSE * sum(map(len, values))):
            return cls(np.unique(np.concatenate(values)), None)
        known = np.zeros(top + 1, bool)
        for array in values:
            for part in parts_of(len(array)):
                known[array[part]] = True
        ids = np.flatnonzero(known)
        table = np.full(top + 1, -1, np.int32)
        table[ids] = np.arange(len(ids), dtype=np.int32)
        return cls(ids, table)

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, wanted: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """The position of each wanted id, -1 where it is not known."""
        if not len(wanted) or not len(self.ids):
            return np.full(len(wanted), -1, np.int32)
        if self.table is None:
            place = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
            return np.where(self.ids[place] == wanted, place, -1).astype(np.int32)
        if wanted.min() >= 0 and wanted.max() < len(self.table):
            return self.table.take(wanted)
        inside = (wanted >= 0) & (wanted < len(self.table))
        return np.where(inside, self.table[np.where(inside, wanted, 0)], -1).astype(np.int32)


def parts_of(rows: int, size: int = 2**20) -> Iterable[slice]:
    """Rows in parts small enough that what is computed of one stays near the processor."""
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def first_repeat(values: Shaped[np.ndarray, " n"]) -> int | None:
    """The first place whose value has occurred before, or None.

    >>> first_repeat(np.array([4, 5, 4, 5]))
    2
    """
    _, firsts = np.unique(values, return_index=True)
    if len(firsts) == len(values):
        return None
    repeated = np.ones(len(values), bool)
    repeated[firsts] = False
    return int(np.argmax(repeated))

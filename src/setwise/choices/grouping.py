"""From rows in any order to sets that lie side by side."""

from dataclasses import dataclass

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Int, Shaped
from setwise.choices.columns import Column


@dataclass(frozen=True, eq=False)
class Grouping:
    """The order that brings the rows of each set together, sets by first appearance.

    Set ``i`` has the rows ``order[offsets[i] : offsets[i + 1]]`` of the table.

    >>> grouping = Grouping.of("trip", np.array([7, 9, 7]), np.arange(3))
    >>> grouping.order.tolist(), grouping.offsets.tolist(), grouping.set_ids.tolist()
    ([0, 2, 1], [0, 2, 3], [7, 9])
    """

    set_name: str
    order: Int[np.ndarray, " kept"]
    offsets: Int[np.ndarray, " sets_and_one"]
    set_ids: Shaped[np.ndarray, " sets"]

    @classmethod
    def of(
        cls, set_name: str, ids: Shaped[np.ndarray, " rows"], kept: Int[np.ndarray, " kept"]
    ) -> "Grouping":
        """Group the kept rows by the id of their set."""
        ids = ids[kept]
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        in_order = np.sort(ids[starts])  # NumPy's unique is many times slower here
        if (in_order[1:] != in_order[:-1]).all():  # already side by side
            return cls(set_name, kept, np.append(starts, len(ids)), ids[starts])
        _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
        by_appearance = np.argsort(np.argsort(first))
        codes = by_appearance[codes.reshape(-1)]
        order = np.argsort(codes, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        return cls(set_name, kept[order], offsets, ids[order][offsets[:-1]])

    def once_a_set(self, column: Column, name: str) -> Column:
        """A column that is constant within each set, reduced to one value a set."""
        ordered = column.take(self.order)
        firsts = ordered.take(self.offsets[:-1])
        spread = np.repeat(firsts.values, np.diff(self.offsets))
        differs = (ordered.values != spread) & ~(ordered.missing & (spread != spread))
        if differs.any():
            row = int(np.argmax(differs))
            which = int(np.searchsorted(self.offsets, row, side="right")) - 1
            raise InputError(
                f"column '{name}' differs within set '{self.set_name}'={self.set_ids[which]} "
                f"(row {int(self.order[row])}); it must be constant within each set"
                " (item features go in items)"
            )
        return firsts

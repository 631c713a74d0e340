"""Item columns that stay in a file: what some sets need of them is read when they need it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from setwise._arrayfile import ArrayFile
from setwise._shapes import Int, Shaped
from setwise.choices.columns import Column, rows_of

ROWS_TO_REMEMBER = 4_000_000


class Levels(Sequence[str]):
    """Names of categories, decoded from the file when the first of them is needed."""

    def __init__(self, text: Shaped[np.ndarray, " bytes"], count: int):
        self._text, self._count = text, count
        self._names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        if self._names is None:
            self._names = tuple(json.loads(self._text.tobytes()))
        return self._names[place]


@dataclass(frozen=True, eq=False)
class StoredColumns(Mapping[str, Column]):
    """The item columns of some sets of a file; looking one up reads it."""

    file: ArrayFile
    stored: Mapping[str, Column]
    firsts: Int[np.ndarray, " sets"]
    offsets: Int[np.ndarray, " sets_and_one"]  # those of the choices, shared with them

    def __getitem__(self, name: str) -> Column:
        column = self.stored[name]
        return Column(self._read(column.values), column.levels)

    def __contains__(self, name: object) -> bool:
        return name in self.stored  # a mapping's own way is to look it up, which would read it

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def take(
        self, sets: Int[np.ndarray, " m"], offsets: Int[np.ndarray, " m_and_one"]
    ) -> "StoredColumns":
        """The columns of these sets, whose offsets will be these; nothing is read."""
        return replace(self, firsts=self.firsts[sets], offsets=offsets)

    def row_numbers(self) -> Int[np.ndarray, " rows"]:
        """The rows' places in the table that the file was made from."""
        kept = self.file.arrays.get("rows")
        rows = rows_of(self.firsts, np.diff(self.offsets))
        return rows if kept is None else kept[rows]

    @cached_property
    def _rows(self) -> Int[np.ndarray, " rows"]:
        # For all columns of a block at once; of a whole file it would fill the memory.
        return rows_of(self.firsts, np.diff(self.offsets))

    def _read(self, values: Shaped[np.ndarray, " all"]) -> Shaped[np.ndarray, " rows"]:
        firsts, sizes = self.firsts, np.diff(self.offsets)
        if (np.diff(firsts) == sizes[:-1]).all():  # one after the other, as they lie in the file
            first = firsts[0] if len(firsts) else 0
            part = values[first : first + self.offsets[-1]]
            if len(part) == len(values):  # all of it: mapped, not copied
                return part
            part = part.copy()
        else:
            block = self.offsets[-1] <= ROWS_TO_REMEMBER
            part = values[self._rows if block else rows_of(firsts, sizes)]
        self.file.release()
        return part

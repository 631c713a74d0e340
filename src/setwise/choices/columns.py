"""One column of a table, in memory or in a file that is read when the values are needed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from setwise import _tensorfile
from setwise._arrayfile import ArrayFile, CheckedArray
from setwise._errors import InputError
from setwise._shapes import Int, Num, Shaped


@dataclass(frozen=True, eq=False)
class Column:
    """Values of one column: a number, a category or a date in each place.

    Numbers are floats (missing: NaN), or integers where nothing is missing. Categories are codes
    into ``levels`` (missing: -1). Dates are ``datetime64`` (missing: NaT).

    >>> Column(np.array([1, 0, -1]), levels=("blue", "red")).text().tolist()
    ['red', 'blue', None]
    """

    values: Shaped[np.ndarray, " n"]
    levels: Sequence[str] | None = None

    @property
    def kind(self) -> str:
        """ "number", "category" or "date"."""
        if self.levels is not None:
            return "category"
        return "date" if self.values.dtype.kind == "M" else "number"

    @property
    def missing(self) -> Num[np.ndarray, " n"] | Shaped[np.ndarray, " n"]:
        """True where the value is absent."""
        if self.levels is not None:
            return self.values < 0
        return np.isnat(self.values) if self.kind == "date" else np.isnan(self.values)

    def take(self, index: Shaped[np.ndarray, " m"]) -> "Column":
        """The values at these places."""
        return Column(self.values[index], self.levels)

    def text(self) -> Shaped[np.ndarray, " n"]:
        """The levels themselves, for tables shown to people; numbers and dates as they are."""
        if self.levels is None:
            return self.values
        return np.array([*self.levels, None], dtype=object)[self.values]


def rows_of(
    firsts: Int[np.ndarray, " sets"], sizes: Int[np.ndarray, " sets"]
) -> Int[np.ndarray, " rows"]:
    """The rows of sets that begin at ``firsts``, one set after the other.

    >>> rows_of(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    shift = np.repeat(firsts - (ends - sizes), sizes)
    return shift + np.arange(len(shift))


ROWS_TO_REMEMBER = 4_000_000


class Levels(Sequence[str]):
    """Names of categories, decoded from the file when the first of them is needed."""

    def __init__(self, text: Shaped[np.ndarray, " bytes"], count: int, where: str):
        self._text, self._count, self._where = text, count, where
        self._names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        if self._names is None:
            with _tensorfile.made_elsewhere(self._where, "levels"):
                names = json.loads(self._text.tobytes())
                plain = isinstance(names, list) and all(isinstance(one, str) for one in names)
                if not plain or len(names) != self._count:
                    raise ValueError(f"it is not a list of {self._count} names")
            self._names = tuple(names)
        return self._names[place]


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """A column of a file, and its levels if it holds categories."""

    values: CheckedArray
    levels: Sequence[Any] | None = None

    def column(self, values: Shaped[np.ndarray, " n"], file: ArrayFile) -> Column:
        """These values of the column; codes are refused that no level has."""
        if self.levels is not None and len(values):
            low, high = int(values.min()), int(values.max())
            if low < -1 or high >= len(self.levels):
                raise InputError(
                    f"{file.path} cannot be used: its array '{self.values.name}' has the code "
                    f"{low if low < -1 else high}, and there are {len(self.levels)} levels; "
                    "build it again or restore a copy"
                )
        return Column(values, self.levels)


@dataclass(frozen=True, eq=False)
class StoredColumns(Mapping[str, Column]):
    """The item columns of some sets of a file; looking one up reads it."""

    file: ArrayFile
    stored: Mapping[str, StoredColumn]
    firsts: Int[np.ndarray, " sets"]
    offsets: Int[np.ndarray, " sets_and_one"]  # those of the choices, shared with them

    def __getitem__(self, name: str) -> Column:
        stored = self.stored[name]
        return stored.column(self._read(stored.values), self.file)

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
        return rows if kept is None else kept.at(rows)

    @cached_property
    def _rows(self) -> Int[np.ndarray, " rows"]:
        # For all columns of a block at once; of a whole file it would fill the memory.
        return rows_of(self.firsts, np.diff(self.offsets))

    def _read(self, values: CheckedArray) -> Shaped[np.ndarray, " rows"]:
        firsts, sizes = self.firsts, np.diff(self.offsets)
        if (np.diff(firsts) == sizes[:-1]).all():  # one after the other, as they lie in the file
            first = int(firsts[0]) if len(firsts) else 0
            end = first + int(self.offsets[-1])
            if end - first == len(values):  # all of it: mapped, not copied
                return values.whole()
            part = values.between(first, end)
        else:
            block = self.offsets[-1] <= ROWS_TO_REMEMBER
            part = values.at(self._rows if block else rows_of(firsts, sizes))
        self.file.release()
        return part

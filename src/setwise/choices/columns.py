"""One column of outside data, in the few types that the library understands."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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

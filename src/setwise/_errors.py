"""The one exception for everything the outside world can get wrong, and the one warning.

The message is a sentence for the user: the cause, the place (column, row, set or file) and the
remedy. The command line prints it and exits with code 2.
"""

from collections.abc import Sequence
from typing import Any


class InputError(ValueError):
    """Bad input: a table, an option or a file that setwise cannot use as it is.

    Args:
        message: the whole sentence; it names the place too.
        row: the row of the table, counted from 0; None if the error is not about a row.
        column: the name of the column; None if the error is not about a column.
        set: the id of the choice set; None if the error is not about a set.
        also_rows: further rows that the sentence names, in its order.

    >>> error = InputError("column 'price' is missing at row 4; fill it", row=4, column="price")
    >>> error.row, error.column, error.set
    (4, 'price', None)
    """

    def __init__(
        self,
        message: str,
        *,
        row: int | None = None,
        column: str | None = None,
        set: Any = None,
        also_rows: Sequence[int] = (),
    ):
        super().__init__(message)
        self.row, self.column, self.set = row, column, set
        self.also_rows = tuple(also_rows)

    def within(self, source: Any, rows: Any) -> "InputError":
        """The same error about a file, of which the table was a part.

        Args:
            source: the file, to begin the sentence with.
            rows: the file's row of each row of the part, as a list or an array.

        >>> error = InputError("column 'x' is missing at row 1 (and 2 more); fill it", row=1)
        >>> print(error.within("trips.csv", [500, 501, 502, 503]))
        trips.csv: column 'x' is missing at row 501 (and at least 2 more); fill it
        """
        found = self.moved(rows, more="at least ")
        return InputError(
            f"{source}: {found}",
            row=found.row,
            column=self.column,
            set=self.set,
            also_rows=found.also_rows,
        )

    def moved(self, rows: Any, more: str = "") -> "InputError":
        """The same error, with ``rows[row]`` in place of each row that it names.

        ``more`` comes before the number of further rows, where the sentence has one.
        """
        if self.row is None:
            return self
        named = (self.row, *self.also_rows)
        done, rest = "", str(self)
        for row in named:
            before, found, after = rest.partition(f"row {row}")
            if found:
                count = " (and "
                if after.startswith(count):
                    after = f"{count}{more}{after.removeprefix(count)}"
                done, rest = f"{done}{before}row {int(rows[row])}", after
        moved = [int(rows[row]) for row in named]
        return InputError(
            done + rest, row=moved[0], column=self.column, set=self.set, also_rows=moved[1:]
        )


class DataWarning(UserWarning):
    """Data that a model can learn from but that probably are not what the user means.

    Examples are a column that gives the choice away and a column that is a product of others. The
    message has the cause, the place and the remedy, as the message of an error has.
    """

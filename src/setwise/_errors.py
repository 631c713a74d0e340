"""The one exception for everything the outside world can get wrong.

Its message is a sentence for the user: the cause, the place (column, row, set or file) and the
remedy. The command line prints it and exits with code 2.
"""


class InputError(ValueError):
    """Bad input: a table, an option or a file that setwise cannot use as it is.

    >>> raise InputError("column 'price' is not in the table; it has: cost, time")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: column 'price' is not in the table; it has: cost, time
    """

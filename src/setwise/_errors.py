"""The one exception for everything the outside world can get wrong, and the one warning.

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


class DataWarning(UserWarning):
    """Data that a model can learn from but that probably are not what the user means.

    Such as a column that gives the choice away, or a column that is a product of others. The
    message has the cause, the place and the remedy, as that of an error has.
    """

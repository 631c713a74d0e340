"""Which way an expression moves when a column rises, whatever the other values are.

A term of a utility may rise with a column (``log(price)``), fall (``I(-price)``), stay, or do now
the one and now the other (``price:income``, where income may be negative). Signs of factors are
known where nothing else is possible: numbers, roots, exponentials, 0/1 of levels and comparisons.
"""

from setwise.choices.utility import Node, columns_of

RISING = ("log", "log1p", "exp", "sqrt")
NEVER_NEGATIVE = ("exp", "sqrt", "abs", "level", "spline", "==", "!=", "<", "<=", ">", ">=")


def direction(node: Node, column: str) -> int | None:
    """1 if it never falls where the column rises, -1 if it never rises, 0 if it stays, else None.

    >>> price = ("column", "price")
    >>> direction(("log", price), "price"), direction(("*", ("number", -2.0), price), "price")
    (1, -1)
    >>> direction(("*", price, ("level", "mode", "car")), "price")
    1
    >>> direction(("*", price, ("column", "income")), "price") is None
    True
    """
    if column not in columns_of(node):
        return 0
    kind, parts = node[0], node[1:]
    if kind == "column":
        return 1
    if kind in RISING:
        return direction(parts[0], column)
    if kind in ("min", "max", "+"):
        return _same(direction(parts[0], column), direction(parts[1], column))
    if kind in ("-", ">", ">="):
        return _same(direction(parts[0], column), _times(direction(parts[1], column), -1))
    if kind in ("<", "<="):
        return _same(_times(direction(parts[0], column), -1), direction(parts[1], column))
    if kind == "*":
        return _product(parts[0], parts[1], column)
    if kind == "/" and column not in columns_of(parts[1]):
        return _times(direction(parts[0], column), sign_of(parts[1]))
    if kind == "**" and parts[1][0] == "number":
        return _power(parts[0], float(parts[1][1]), column)
    return None


def sign_of(node: Node) -> int | None:
    """1 if it is never negative, -1 if it is never positive, else None.

    >>> sign_of(("number", -2.0)), sign_of(("exp", ("column", "x"))), sign_of(("column", "x"))
    (-1, 1, None)
    """
    kind, parts = node[0], node[1:]
    if kind == "number":
        return 1 if parts[0] >= 0 else -1
    if kind in NEVER_NEGATIVE or (kind == "**" and parts[1][0] == "number" and parts[1][1] == 2):
        return 1
    if kind in ("*", "/"):
        return _times(sign_of(parts[0]), sign_of(parts[1]))
    if kind == "+":
        return sign_of(parts[0]) if sign_of(parts[0]) == sign_of(parts[1]) else None
    return None


def _product(left: Node, right: Node, column: str) -> int | None:
    if column not in columns_of(left):
        return _times(direction(right, column), sign_of(left))
    if column not in columns_of(right):
        return _times(direction(left, column), sign_of(right))
    both = direction(left, column), direction(right, column)
    if sign_of(left) == sign_of(right) == 1 and both[0] == both[1]:
        return both[0]
    return None


def _power(base: Node, exponent: float, column: str) -> int | None:
    """Odd powers rise with their base; others where it is never negative."""
    if exponent > 0 and (exponent % 2 == 1 or sign_of(base) == 1):
        return direction(base, column)
    return None


def _same(one: int | None, other: int | None) -> int | None:
    """The direction of both, where one of them may stay."""
    if one is None or other is None or one * other < 0:
        return None
    return one or other


def _times(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other

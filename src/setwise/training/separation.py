"""Separation: whether the likelihood of a multinomial logit has a maximum at all.

It has none if and only if some direction d never lowers the chosen item against another one,

    d . (x_chosen - x_j) >= 0   for all items j of all sets,   and > 0 for some

(Albert and Anderson 1984): going on in that direction, log L rises for ever. Whether there is one
is a linear programme (Konis 2007). Here it is solved for few rows; rows that its solution violates
join, until it violates none (separation) or there is nothing left to gain (a finite maximum).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import linprog

from setwise import _segments
from setwise._shapes import Bool, Float, Int
from setwise.choices import Encoded

ROUNDS = 60
ROWS_PER_ROUND = 1_000
ROUNDING = 1e-7  # of a margin, in columns that are whitened within sets
TOLD = 1e-5  # a margin above this is one
NOTHING = 1e-7  # of the mean margin: that of a separating direction is above 1 / sqrt(rows)
MOST_COLUMNS = 16  # to leave out one after the other, which takes a programme each


@dataclass(frozen=True, eq=False)
class Separation:
    """Columns that together tell chosen items from others without error, and in how many sets.

    If several directions separate, this is one with few columns: none of them can be left out.
    In the other sets it makes no difference.
    """

    columns: Bool[np.ndarray, " d"]
    sets: int


def separation(
    data: Encoded,
    columns: Int[np.ndarray, " k"],
    coefficients: Float[np.ndarray, " k"],
    within: Float[np.ndarray, "k k"],
) -> Separation | None:
    """What keeps log L of these choices from having a maximum; None if it has one.

    Args:
        data: the choices.
        columns: those that are not a combination of others within sets.
        coefficients: of these columns, where the search for a maximum ended: what grew most is
            named first.
        within: sums of products of these columns' deviations from set means.

    >>> x = np.array([[1.0, 0.3], [0, 0.1], [1, 0.2], [0, 0.4]])
    >>> data = Encoded(x, np.empty((2, 0)), np.array([0, 2, 4]), np.array([0, 0]), None)
    >>> found = separation(data, np.arange(2), np.array([22.0, 0]), np.diag([1.0, 0.04]))
    >>> found.columns.tolist(), found.sets
    ([True, False], 2)
    """
    differences = _Differences(data, columns, within)
    if differences.direction(np.arange(len(columns))) is None:
        return None
    kept = differences.few(coefficients)
    direction = differences.direction(kept)
    assert direction is not None
    told = differences.owner[differences.margins(direction, kept) > TOLD]
    named = np.zeros(data.items.shape[1], bool)
    named[columns[kept]] = True
    return Separation(named, len(np.unique(told))) if len(told) else None


class _Differences:
    """x_chosen - x_j of every item that was not chosen; made for few rows at a time."""

    def __init__(
        self, data: Encoded, columns: Int[np.ndarray, " k"], within: Float[np.ndarray, "k k"]
    ):
        assert data.chosen is not None
        self.x = _segments.centred(data.items[:, columns], data.offsets)
        self.sizes = data.sizes
        self.chosen = data.offsets[:-1] + data.chosen
        self.owner = np.repeat(np.arange(len(data)), data.sizes)
        self.within = within / len(self.x)
        self.mean = data.sizes @ self.x[self.chosen] / len(self.x)  # the others' deviations are 0

    def of(self, rows: Int[np.ndarray, " m"], columns: np.ndarray) -> Float[np.ndarray, "m k"]:
        x = self.x[:, columns]
        return x[self.chosen[self.owner[rows]]] - x[rows]

    def margins(
        self, direction: Float[np.ndarray, " k"], columns: Int[np.ndarray, " k"]
    ) -> Float[np.ndarray, " rows"]:
        """How much further each row falls behind its chosen one; 0 for the chosen itself."""
        v = self.x[:, columns] @ direction
        return np.repeat(v[self.chosen], self.sizes) - v

    def direction(
        self, columns: Int[np.ndarray, " k"], few: bool = False
    ) -> Float[np.ndarray, " k"] | None:
        """A separating direction in these columns, or None if there is none.

        It has the largest mean margin in a box of whitened columns, so that columns that are
        nearly collinear do not blur it; with ``few``, the least sum of absolute weights instead.
        """
        lower = np.linalg.cholesky(self.within[np.ix_(columns, columns)])
        mean = solve_triangular(lower, self.mean[columns], lower=True)
        rows = self._first(columns)
        for _ in range(ROUNDS):
            table = solve_triangular(lower, self.of(rows, columns).T, lower=True).T
            u = _sparse(table, mean, lower) if few else _largest(table, mean)
            if u is None or mean @ u < NOTHING:
                return None
            direction = solve_triangular(lower, u, lower=True, trans="T")
            margins = self.margins(direction, columns)
            wrong = np.flatnonzero(margins < -ROUNDING)
            if not len(wrong):
                return direction
            worst = wrong[np.argsort(margins[wrong], kind="stable")[:ROWS_PER_ROUND]]
            if np.isin(worst, rows).all():  # the programme's own rounding, and no direction
                return None
            rows = np.union1d(rows, worst)
        return None

    def few(self, coefficients: Float[np.ndarray, " k"]) -> Int[np.ndarray, " few"]:
        """Columns that separate together, none of which can be left out."""
        columns = np.arange(len(coefficients))
        sparse = self.direction(columns, few=True)
        if sparse is not None:
            size = np.abs(sparse) * np.sqrt(np.diag(self.within))
            support = columns[size > 1e-6 * size.max()]
            if self.direction(support) is not None:
                columns = support
        if len(columns) > MOST_COLUMNS:
            return columns
        size = np.abs(coefficients) * np.sqrt(np.diag(self.within))
        for one in columns[np.argsort(size[columns], kind="stable")]:
            less = columns[columns != one]
            if len(less) and self.direction(less) is not None:
                columns = less
        return columns

    def _first(self, columns: Int[np.ndarray, " k"]) -> Int[np.ndarray, " m"]:
        """Rows to begin with: at even distances, so that small data are there at once."""
        others = np.setdiff1d(np.arange(len(self.x)), self.chosen, assume_unique=True)
        return others[:: max(1, len(others) // max(ROWS_PER_ROUND, 10 * len(columns)))]


def _largest(
    table: Float[np.ndarray, "m k"], mean: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"] | None:
    """u in the unit box with table u >= 0 and the largest mean margin."""
    solved = linprog(
        -mean, A_ub=-table, b_ub=np.zeros(len(table)), bounds=(-1, 1), method="highs",
        options={"primal_feasibility_tolerance": 1e-9},
    )  # fmt: skip
    return solved.x


def _sparse(
    table: Float[np.ndarray, "m k"],
    mean: Float[np.ndarray, " k"],
    lower: Float[np.ndarray, "k k"],
) -> Float[np.ndarray, " k"] | None:
    """u with table u >= 0 and a mean margin of 1, of the least weights of columns in all."""
    k = len(mean)
    inverse = solve_triangular(lower, np.eye(k), lower=True, trans="T")  # weights d = inverse u
    weights = inverse * np.sqrt((lower**2).sum(1))[:, None]  # in units of about one
    both = np.block([[weights, -np.eye(k)], [-weights, -np.eye(k)]])  # |weights u| <= bounds
    solved = linprog(
        np.concatenate([np.zeros(k), np.ones(k)]),
        A_ub=np.vstack([np.hstack([-table, np.zeros_like(table)]), both]),
        b_ub=np.zeros(len(table) + 2 * k),
        A_eq=np.concatenate([mean, np.zeros(k)])[None], b_eq=[1.0],
        bounds=[(None, None)] * k + [(0, None)] * k, method="highs",
        options={"primal_feasibility_tolerance": 1e-9},
    )  # fmt: skip
    return solved.x[:k] if solved.x is not None else None

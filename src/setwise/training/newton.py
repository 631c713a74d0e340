"""The multinomial logit to its exact optimum: Newton's method with the analytic Hessian, in NumPy.

    log L(b) = sum over sets of [ x_chosen . b - log sum_z exp(z . b) ]

is concave. With p the choice probabilities and m = sum_z p_z z the mean item of a set, its
gradient is the sum of (x_chosen - m), and its Hessian minus the sum of (sum_z p_z z z' - m m').
An offset, where the data have one, is added to the utilities.
Weights of sets multiply their terms. A penalty takes sum_j penalty_j b_j^2 / 2 away: what is left
is strictly concave and has a maximum in all data.
"""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from setwise import _segments
from setwise._shapes import Bool, Float
from setwise.choices import Encoded

if TYPE_CHECKING:
    from setwise.training.separation import Separation

ITERATIONS = 100
AT_REST = 0.01  # a last step that moves no utility by more has come to rest
FLAT = 1e-6  # of the curvature where all items have equal chances
IDENTIFIED = 1e-9  # of a column's squares within sets, that no combination accounts for
ROUNDING = 1e-12  # of a column's size: what differs less within sets does not differ
NO_PART = 1e-6  # of a column's size: an earlier one with less is no part of the combination
LITTLE = 1e-3  # a column's standard deviation within sets, where it is about 1 over all rows
DECREMENT = 1e-9  # of log L per choice, before the last step; Newton's step then squares it
NARROW = 32  # columns: products of fewer gain little from threads, and lose much on busy cores
MODERATE = 300.0  # utilities within ± this have exponentials that neither overflow nor vanish


@dataclass(frozen=True, eq=False)
class Optimum:
    """The maximum-likelihood estimate, or with a penalty that of the penalised likelihood.

    ``identified`` is False for a column that is a combination of earlier ones within every set
    (a reference level, or a feature that never differs within a set); its coefficient is 0.
    ``relations`` says of which ones: the weights of all columns in the sum that it equals within
    every set, which are all 0 if it never differs there. With a penalty only columns that never
    differ within a set are left out: it decides between the others.

    ``log_likelihood`` is that of the choices, without the penalty; ``covariance`` is the inverse of
    what was maximised's curvature, the penalty included.
    """

    coefficients: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]
    identified: Bool[np.ndarray, " d"]
    log_likelihood: float
    null_log_likelihood: float
    sets: int
    iterations: int
    converged: bool
    relations: Mapping[int, Float[np.ndarray, " d"]]
    data: Encoded
    penalty: Float[np.ndarray, " d"] | None = None

    @cached_property
    def growing(self) -> bool:
        """Whether one more step would still change probabilities, or curvature has vanished.

        Either the maximum is not reached, or there is none.
        """
        if not self.converged or not self.identified.any() or self.penalty is not None:
            return not self.converged
        problem, here = self._here
        moved = problem.moved(_solve(here.hessian, here.gradient))
        return moved > AT_REST or problem.flatness(here.hessian) < FLAT

    @property
    def scores(self) -> Float[np.ndarray, "sets d"]:
        """The gradient of each set's weight * log P(chosen); 0 for columns not identified."""
        problem, here = self._here
        scores = problem.weight[:, None] * problem.x[problem.chosen_rows] - here.means
        if self.identified.all():
            return scores
        whole = np.zeros((len(scores), len(self.identified)))
        whole[:, self.identified] = scores
        return whole

    @property
    def information(self) -> Float[np.ndarray, "d d"]:
        """Minus the Hessian of what was maximised; 0 for columns not identified."""
        whole = np.zeros((len(self.identified),) * 2)
        whole[np.ix_(self.identified, self.identified)] = self._here[1].hessian
        return whole

    @cached_property
    def _here(self) -> "tuple[_Problem, _Point]":
        """The problem, and what is known of it at the estimate; a fit leaves both here."""
        known = self.identified
        x = _segments.centred(self.data.items[:, known], self.data.offsets)
        problem = _Problem(self.data, x, None if self.penalty is None else self.penalty[known])
        return problem, problem.at(self.coefficients[known])

    @cached_property
    def separation(self) -> "Separation | None":
        """The columns that tell chosen items without error; None if the likelihood has a maximum.

        With a penalty it always has one.
        """
        if not self.growing or self.penalty is not None:
            return None
        from setwise.training.separation import separation

        columns = np.flatnonzero(self.identified)
        within = self.within[np.ix_(columns, columns)]
        return separation(self.data, columns, self.coefficients[columns], within)

    @property
    def units(self) -> Float[np.ndarray, " d"]:
        """What counts as one of each coefficient: 1, or more where the column differs little.

        Of times in seconds that differ by minutes within sets and by years between them, a
        standardised column's coefficient is in the hundred thousands: steps of 1 do not get there.
        """
        size = np.sqrt(np.diag(self.within) / max(len(self.data.items), 1))
        return 1 / np.where((size > 0) & (size < LITTLE), size, 1.0)

    @cached_property
    def within(self) -> Float[np.ndarray, "d d"]:
        """Sums of products of the columns' deviations from set means; a fit may leave them here."""
        x = _segments.centred(self.data.items, self.data.offsets)
        return x.T @ x


def maximise(
    data: Encoded,
    penalty: Float[np.ndarray, " d"] | None = None,
    start: Float[np.ndarray, " d"] | None = None,
) -> Optimum:
    """Fit the multinomial logit to float64 items; context cancels within a set and is not used.

    Args:
        data: the choices.
        penalty: of each column, positive where it differs within sets: maximise
            log L(b) - sum_j penalty_j b_j^2 / 2. None is maximum likelihood.
        start: coefficients to begin at, such as those of a similar penalty; None is 0.
    """
    x = _segments.centred(data.items, data.offsets)
    within = x.T @ x
    varying = _varying(data.items, x, within)
    identified, relations = (
        independent_columns(within, varying) if penalty is None else _as_they_are(varying)
    )
    if not identified.all():
        x = np.ascontiguousarray(x[:, identified])
    problem = _Problem(data, x, None if penalty is None else penalty[identified])
    b = np.zeros(int(identified.sum())) if start is None else start[identified]
    here = problem.at_equal_chances if start is None else problem.at(b)
    converged, iteration = len(b) == 0, 0
    while not converged and iteration < ITERATIONS:
        iteration += 1
        step = _solve(here.hessian, here.gradient)
        decrement = float(here.gradient @ step)
        size, improved = 1.0, False
        for _ in range(40):
            trial = problem.at(b + size * step)
            improved = trial.value >= here.value
            if improved:
                break
            size /= 2
        converged = decrement < DECREMENT * problem.total or not improved
        if improved:
            b, here = b + size * step, trial
    coefficients = np.zeros(len(identified))
    coefficients[identified] = b
    covariance = np.full((len(identified),) * 2, np.nan)
    covariance[np.ix_(identified, identified)] = _inverse(here.hessian)
    found = Optimum(
        coefficients, covariance, identified, here.value + problem.cost(b), problem.null, len(data),
        iteration, converged, relations, data, penalty,
    )  # fmt: skip
    found.__dict__.update(_here=(problem, here), within=within)  # what need not be found again
    return found


def few_threads(columns: int) -> AbstractContextManager[object]:
    """One thread for products of few columns: threads that wait for a busy core cost far more.

    The limit holds for the whole process, so that only the main thread sets it.
    """
    if columns > NARROW or threading.current_thread() is not threading.main_thread():
        return nullcontext()
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of this process that have threads; to look for them takes milliseconds."""
    return ThreadpoolController()


class _Point(NamedTuple):
    """What is known of the likelihood at one point."""

    value: float
    """log L less the penalty."""
    gradient: Float[np.ndarray, " d"]
    hessian: Float[np.ndarray, "d d"]
    """Minus the Hessian."""
    means: Float[np.ndarray, "sets d"]
    """Each set's mean item, times the set's weight."""


class _Problem:
    """The likelihood of one data set, with room that every iteration uses again.

    The columns of ``x`` are centred within sets, which changes no probability: products of columns
    with a large mean, such as times in seconds since 1970, would lose what differs in a set.
    """

    def __init__(
        self,
        data: Encoded,
        x: Float[np.ndarray, "rows d"],
        penalty: Float[np.ndarray, " d"] | None = None,
    ):
        assert data.chosen is not None
        self.penalty = penalty
        self.x, self.starts, self.sizes = x, data.offsets[:-1], data.sizes
        self.chosen_rows = self.starts + data.chosen
        self.weight = np.ones(len(data)) if data.weight is None else data.weight
        self.total = float(self.weight.sum())
        self.null = -float(self.weight @ np.log(self.sizes))
        self.chosen_sum = self.weight @ x[self.chosen_rows]
        # A sparse matrix (sets x rows) that sums the rows of each set, with their weights as data.
        self.by_set = csr_array((np.ones(len(x)), np.arange(len(x)), data.offsets))
        self.offset = data.offset
        self.scaled = np.empty_like(x)

    @cached_property
    def at_equal_chances(self) -> _Point:
        """The point where all coefficients are 0, and without an offset P(x | s) = 1 / |s|.

        The mean item of each set is then 0, as columns are centred.
        """
        b = np.zeros(self.x.shape[1])
        if self.offset is not None:
            return self.at(b)
        np.multiply(self.x, self._spread(np.sqrt(self.weight / self.sizes))[:, None], self.scaled)
        hessian = self.scaled.T @ self.scaled
        means = np.zeros((len(self.sizes), len(b)))
        return self._penalised(b, self.null, self.chosen_sum, hessian, means)

    def at(self, b: Float[np.ndarray, " d"]) -> _Point:
        """log L less the penalty, its gradient and minus its Hessian."""
        v = self.x @ b
        if self.offset is not None:
            v += self.offset
        if not -MODERATE < v.min(initial=0.0) <= v.max(initial=0.0) < MODERATE:
            v -= self._spread(np.maximum.reduceat(v, self.starts))
        e = np.exp(v)
        sums = np.add.reduceat(e, self.starts)
        value = float(self.weight @ (v[self.chosen_rows] - np.log(sums)))
        e *= self._spread(self.weight / sums)  # now the probability times the set's weight
        self.by_set.data = e
        means = self.by_set @ self.x
        np.multiply(self.x, np.sqrt(e, out=e)[:, None], out=self.scaled)
        hessian = self.scaled.T @ self.scaled - means.T @ (means / self.weight[:, None])
        return self._penalised(b, value, self.chosen_sum - means.sum(0), hessian, means)

    def _penalised(
        self,
        b: Float[np.ndarray, " d"],
        value: float,
        gradient: Float[np.ndarray, " d"],
        hessian: Float[np.ndarray, "d d"],
        means: Float[np.ndarray, "sets d"],
    ) -> _Point:
        """The point b, of whose likelihood this is known, with the penalty."""
        if self.penalty is not None:
            hessian = hessian + np.diag(self.penalty)
            gradient = gradient - self.penalty * b
        return _Point(value - self.cost(b), gradient, hessian, means)

    def cost(self, b: Float[np.ndarray, " d"]) -> float:
        """What the penalty takes from log L."""
        return 0.0 if self.penalty is None else float(self.penalty @ b**2) / 2

    def moved(self, step: Float[np.ndarray, " d"]) -> float:
        """The largest change of a utility against that of the chosen item."""
        v = self.x @ step
        return float(np.abs(v - self._spread(v[self.chosen_rows])).max())

    def flatness(self, hessian: Float[np.ndarray, "d d"]) -> float:
        """The least curvature in any direction, over what it is at equal chances."""
        try:
            lower = np.linalg.cholesky(self.at_equal_chances.hessian)
        except np.linalg.LinAlgError:  # weights so uneven that some sets hardly count
            return 0.0
        both = np.linalg.solve(lower, np.linalg.solve(lower, hessian).T)
        return float(np.linalg.eigvalsh((both + both.T) / 2)[0])

    def _spread(self, values: Float[np.ndarray, " sets"]) -> Float[np.ndarray, " rows"]:
        return np.repeat(values, self.sizes)


def _varying(
    columns: Float[np.ndarray, "rows d"],
    centred: Float[np.ndarray, "rows d"],
    within: Float[np.ndarray, "d d"],
) -> Bool[np.ndarray, " d"]:
    """Columns that differ within some set by more than rounding, given them and centred in sets.

    The largest of n numbers is between the root of their mean square and n^½ times it, which is
    quick to find, by the products ``within`` of centred columns, and decides for most columns.
    """
    squares = np.einsum("ij,ij->j", columns, columns)
    varying = np.diag(within) > np.maximum(
        len(columns) * ROUNDING**2 * squares, np.finfo(float).tiny
    )
    for j in np.flatnonzero(~varying):
        limit = max(ROUNDING * np.abs(columns[:, j]).max(initial=0.0), np.finfo(float).tiny)
        varying[j] = np.abs(centred[:, j]).max(initial=0.0) > limit
    return varying


def _as_they_are(
    varying: Bool[np.ndarray, " d"],
) -> tuple[Bool[np.ndarray, " d"], dict[int, Float[np.ndarray, " d"]]]:
    """All columns that vary; of the others, that no column accounts for them."""
    return varying, {j: np.zeros(len(varying)) for j in np.flatnonzero(~varying).tolist()}


def independent_columns(
    within: Float[np.ndarray, "d d"], varying: Bool[np.ndarray, " d"]
) -> tuple[Bool[np.ndarray, " d"], dict[int, Float[np.ndarray, " d"]]]:
    """The columns that are not combinations of earlier ones within sets; of others, of which.

    ``within`` are the sums of products of columns that are centred within sets.
    """
    size = np.sqrt(np.diag(within))
    unit = np.where(varying, size, 1.0)
    correlation = within / np.outer(unit, unit)
    keep: list[int] = []
    relations: dict[int, np.ndarray] = {}
    for j in range(len(within)):
        weights = np.zeros(len(keep))
        if varying[j]:
            inside, across = correlation[np.ix_(keep, keep)], correlation[keep, j]
            weights = np.linalg.solve(inside, across)
            if 1 - across @ weights > IDENTIFIED:
                keep.append(j)
                continue
        weights[np.abs(weights) < NO_PART] = 0
        relations[j] = np.zeros(len(within))
        relations[j][keep] = weights * unit[j] / unit[keep]
    return np.isin(np.arange(len(within)), keep), relations


def _solve(hessian: Float[np.ndarray, "d d"], gradient: Float[np.ndarray, " d"]) -> np.ndarray:
    """The Newton step; where probabilities saturate and curvature vanishes, the least-norm one."""
    try:
        return np.linalg.solve(hessian, gradient)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(hessian, gradient, rcond=None)[0]


def _inverse(hessian: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """The (pseudo)inverse, whatever the units of the columns are."""
    unit = np.sqrt(np.diag(hessian))
    unit = np.where(unit > 0, unit, 1.0)
    both = np.outer(unit, unit)
    return np.linalg.pinv(hessian / both, hermitian=True) / both


def penalised(data: Encoded, l2: float, start: Float[np.ndarray, " d"] | None = None) -> Optimum:
    """The maximum of the penalised likelihood; of the likelihood itself where l2 is 0."""
    return maximise(data, l2 * data.items.var(0) if l2 > 0 else None, start)

"""The multinomial logit to its exact optimum: Newton's method with the analytic Hessian, in NumPy.

    log L(b) = sum over sets of [ x_chosen . b - log sum_z exp(z . b) ]

is concave. With p the choice probabilities and m = sum_z p_z z the mean item of a set, its
gradient is the sum of (x_chosen - m), and its Hessian minus the sum of (sum_z p_z z z' - m m').
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array

from setwise.choices import Encoded

ITERATIONS = 100
DECREMENT = 1e-9  # of log L per choice, before the last step; Newton's step then squares it


@dataclass(frozen=True, eq=False)
class Optimum:
    """The maximum-likelihood estimate.

    ``identified`` is False for a column that is a combination of earlier ones within every set
    (a reference level, or a feature that never differs within a set); its coefficient is 0.
    """

    coefficients: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]
    identified: Bool[np.ndarray, " d"]
    log_likelihood: float
    null_log_likelihood: float
    sets: int
    iterations: int
    converged: bool

    @property
    def separated(self) -> Bool[np.ndarray, " d"]:
        """Columns whose coefficient was still growing, on data in standardised units.

        Where a column tells chosen items from others without error, log L rises for ever and its
        curvature vanishes: the coefficient is enormous, yet smaller than its standard error.
        """
        size = np.abs(self.coefficients)
        with np.errstate(invalid="ignore"):
            return self.identified & (size > 5) & (np.sqrt(np.diag(self.covariance)) > size)


def maximise(data: Encoded) -> Optimum:
    """Fit the multinomial logit to float64 items; context cancels within a set and is not used."""
    assert data.chosen is not None
    identified = _identified(data)
    x = data.items if identified.all() else np.ascontiguousarray(data.items[:, identified])
    problem = _Problem(data, x)
    b = np.zeros(int(identified.sum()))
    value, gradient, hessian = problem.derivatives(b)
    converged, iteration = len(b) == 0, 0
    while not converged and iteration < ITERATIONS:
        iteration += 1
        step = _solve(hessian, gradient)
        decrement = float(gradient @ step)
        size, improved = 1.0, False
        for _ in range(40):
            trial = problem.derivatives(b + size * step)
            improved = trial[0] >= value
            if improved:
                break
            size /= 2
        converged = decrement < DECREMENT * problem.total or not improved
        if improved:
            b = b + size * step
            value, gradient, hessian = trial
    coefficients = np.zeros(len(identified))
    coefficients[identified] = b
    covariance = np.full((len(identified),) * 2, np.nan)
    covariance[np.ix_(identified, identified)] = np.linalg.pinv(hessian, hermitian=True)
    return Optimum(
        coefficients, covariance, identified, value, problem.null, len(data), iteration, converged
    )


class _Problem:
    """The likelihood of one data set, with room that every iteration uses again."""

    def __init__(self, data: Encoded, x: Float[np.ndarray, "rows d"]):
        assert data.chosen is not None
        self.x, self.starts, self.sizes = x, data.offsets[:-1], data.sizes
        self.chosen_rows = self.starts + data.chosen
        self.weight = np.ones(len(data)) if data.weight is None else data.weight
        self.total = float(self.weight.sum())
        self.null = -float(self.weight @ np.log(self.sizes))
        self.chosen_sum = self.weight @ x[self.chosen_rows]
        self.by_set = _sums(data.offsets)
        self.scaled = np.empty_like(x)

    def derivatives(
        self, b: Float[np.ndarray, " d"]
    ) -> tuple[float, Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
        """log L, its gradient and minus its Hessian."""
        v = self.x @ b
        v -= self._spread(np.maximum.reduceat(v, self.starts))
        e = np.exp(v)
        sums = np.add.reduceat(e, self.starts)
        value = float(self.weight @ (v[self.chosen_rows] - np.log(sums)))
        e *= self._spread(self.weight / sums)  # now the probability times the set's weight
        self.by_set.data = e
        means = self.by_set @ self.x
        np.multiply(self.x, np.sqrt(e)[:, None], out=self.scaled)
        hessian = self.scaled.T @ self.scaled - means.T @ (means / self.weight[:, None])
        return value, self.chosen_sum - means.sum(0), hessian

    def _spread(self, values: Float[np.ndarray, " sets"]) -> Float[np.ndarray, " rows"]:
        return np.repeat(values, self.sizes)


def _sums(offsets: Int[np.ndarray, " sets_and_one"]) -> csr_array:
    """A sparse matrix (sets x rows) that sums the rows of each set; its data are their weights."""
    rows = int(offsets[-1])
    return csr_array((np.ones(rows), np.arange(rows), offsets))


def _identified(data: Encoded) -> Bool[np.ndarray, " d"]:
    """Columns that are no combination of earlier ones once each set's mean is taken away."""
    x = data.items
    total = x.T @ x
    sums = _sums(data.offsets) @ x
    within = total - sums.T @ (sums / data.sizes[:, None])
    keep: list[int] = []
    for j in range(len(within)):
        residual = within[j, j]
        if keep:
            inside, across = within[np.ix_(keep, keep)], within[keep, j]
            residual -= across @ np.linalg.solve(inside, across)
        if residual > 1e-9 * max(total[j, j], np.finfo(float).tiny):
            keep.append(j)
    return np.isin(np.arange(len(within)), keep)


def _solve(hessian: Float[np.ndarray, "d d"], gradient: Float[np.ndarray, " d"]) -> np.ndarray:
    """The Newton step; where probabilities saturate and curvature vanishes, the least-norm one."""
    try:
        return np.linalg.solve(hessian, gradient)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(hessian, gradient, rcond=None)[0]

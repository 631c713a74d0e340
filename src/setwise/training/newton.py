"""The multinomial logit to its exact optimum: Newton's method with the analytic Hessian, in NumPy.

    log L(b) = sum over sets of [ x_chosen . b - log sum_z exp(z . b) ]

is concave. With p the choice probabilities and m = sum_z p_z z the mean item of a set, its
gradient is the sum of (x_chosen - m), and its Hessian minus the sum of (sum_z p_z z z' - m m').
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse import csr_array

from setwise.choices import Encoded

ITERATIONS = 100
DECREMENT = 1e-12  # of log L per choice: far below what rounding lets one see


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


def maximise(data: Encoded) -> Optimum:
    """Fit the multinomial logit to float64 items; context cancels within a set and is not used."""
    assert data.chosen is not None
    problem = _Problem(data)
    identified = problem.identified()
    x = np.ascontiguousarray(data.items[:, identified])
    b = np.zeros(x.shape[1])
    value, gradient, hessian = problem.derivatives(x, b)
    converged, iteration = x.shape[1] == 0, 0
    while not converged and iteration < ITERATIONS:
        iteration += 1
        step = _solve(hessian, gradient)
        decrement = float(gradient @ step)
        size, improved = 1.0, False
        for _ in range(40):
            trial = problem.derivatives(x, b + size * step)
            improved = trial[0] >= value
            if improved:
                break
            size /= 2
        converged = decrement < DECREMENT * problem.total or not improved
        if improved:
            b = b + size * step
            value, gradient, hessian = trial
    return problem.optimum(identified, b, value, hessian, iteration, converged)


class _Problem:
    """The likelihood of one data set; ``members`` (sets x rows) sums rows over their sets."""

    def __init__(self, data: Encoded):
        assert data.chosen is not None
        self.items, self.starts, self.sizes = data.items, data.offsets[:-1], data.sizes
        self.chosen_rows = self.starts + data.chosen
        self.weight = np.ones(len(data)) if data.weight is None else data.weight
        self.total = float(self.weight.sum())
        rows = len(self.items)
        self.members = csr_array((np.ones(rows), np.arange(rows), data.offsets))

    def derivatives(
        self, x: Float[np.ndarray, "rows d"], b: Float[np.ndarray, " d"]
    ) -> tuple[float, Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
        """log L, its gradient and minus its Hessian."""
        v = x @ b
        v -= self._spread(np.maximum.reduceat(v, self.starts))
        e = np.exp(v)
        sums = np.add.reduceat(e, self.starts)
        value = float(self.weight @ (v[self.chosen_rows] - np.log(sums)))
        pw = e * self._spread(self.weight / sums)  # probability times the set's weight
        px = x * pw[:, None]
        means = self.members @ px
        gradient = self.weight @ x[self.chosen_rows] - means.sum(0)
        hessian = x.T @ px - means.T @ (means / self.weight[:, None])
        return value, gradient, hessian

    def identified(self) -> Bool[np.ndarray, " d"]:
        """Columns that are no combination of earlier ones once each set's mean is taken away."""
        x = self.items
        centred = x - self._spread(self.members @ x / self.sizes[:, None])
        gram = centred.T @ centred
        scale = np.maximum((x * x).sum(0), np.finfo(float).tiny)
        keep: list[int] = []
        for j in range(len(gram)):
            residual = gram[j, j]
            if keep:
                inside, across = gram[np.ix_(keep, keep)], gram[keep, j]
                residual -= across @ np.linalg.solve(inside, across)
            if residual > 1e-9 * scale[j]:
                keep.append(j)
        return np.isin(np.arange(len(gram)), keep)

    def optimum(
        self,
        identified: Bool[np.ndarray, " d"],
        b: Float[np.ndarray, " k"],
        value: float,
        hessian: Float[np.ndarray, "k k"],
        iterations: int,
        converged: bool,
    ) -> Optimum:
        """The estimate in all columns; those not identified have no variance to report."""
        coefficients = np.zeros(len(identified))
        coefficients[identified] = b
        covariance = np.full((len(identified),) * 2, np.nan)
        covariance[np.ix_(identified, identified)] = np.linalg.pinv(hessian, hermitian=True)
        null = -float(self.weight @ np.log(self.sizes))
        return Optimum(
            coefficients, covariance, identified, value, null,
            len(self.sizes), iterations, converged,
        )  # fmt: skip

    def _spread(self, values: Float[np.ndarray, "sets *rest"]) -> Float[np.ndarray, "rows *rest"]:
        return np.repeat(values, self.sizes, axis=0)


def _solve(hessian: Float[np.ndarray, "d d"], gradient: Float[np.ndarray, " d"]) -> np.ndarray:
    """The Newton step; where probabilities saturate and curvature vanishes, the least-norm one."""
    try:
        return np.linalg.solve(hessian, gradient)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(hessian, gradient, rcond=None)[0]

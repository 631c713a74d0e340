"""Covariances of estimates, by what is taken to be independent.

With H minus the Hessian of log L at the estimate and s_i the score of set i, which is the gradient
of weight * log P(chosen), they are

    classical   H^-1: sets are independent, and the model is right
    robust      m/(m - 1) H^-1 (sum over m sets of s_i s_i') H^-1: sets are independent
    cluster     G/(G - 1) H^-1 (sum over G people of S_g S_g') H^-1 with S_g the sum of the
                person's scores: people are independent, their sets need not be
    bootstrap   of estimates from people (or sets) that are drawn anew, with replacement

(Huber 1967, White 1982, Liang and Zeger 1986). The scores of a penalised fit do not add up to 0:
their mean is taken away first.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from setwise import _segments
from setwise._shapes import Bool, Float, Int
from setwise.choices import Encoded

KINDS = ("classical", "robust", "cluster", "bootstrap")
"""The covariances that a summary can show."""

NUMBERS_AT_ONCE = 4_000_000  # bounds the memory of the resamples that are fitted together
STEPS = 100
HALVINGS = 30
FLAT = 100.0  # times the variance of the estimate: a resample with more has no maximum
DECREMENT = 1e-8  # of log L: a ten thousandth of a standard error from the maximum

Climb = Callable[
    [Float[np.ndarray, "r p"], Float[np.ndarray, "r sets"]],
    tuple[Float[np.ndarray, " r"], Float[np.ndarray, "r p"]],
]
"""log L and its gradient at several points, each with its own weights of the sets."""


def sandwich(
    bread: Float[np.ndarray, "p p"],
    scores: Float[np.ndarray, "sets p"],
    people: Int[np.ndarray, " sets"] | None = None,
) -> Float[np.ndarray, "p p"]:
    """The robust covariance; the clustered one where ``people`` numbers the person of each set.

    >>> scores = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> sandwich(np.eye(1) / 4, scores).round(4).tolist()  # 4/3 * 4 / 16
    [[0.3333]]
    >>> sandwich(np.eye(1) / 4, scores, np.array([0, 0, 1, 1])).tolist()  # 2/1 * 8 / 16
    [[1.0]]
    """
    if people is not None:
        scores = sums_by_person(scores, people)
    count = len(scores)
    if count < 2:
        return np.full_like(bread, np.nan)
    total = scores.sum(0)
    meat = scores.T @ scores - np.outer(total, total / count)
    return bread @ meat @ bread * (count / (count - 1))


def sums_by_person(
    values: Float[np.ndarray, "sets p"], people: Int[np.ndarray, " sets"]
) -> Float[np.ndarray, "g p"]:
    """The sum over the sets of each person; people are numbered from 0."""
    order = np.argsort(people, kind="stable")
    offsets = _segments.offsets_of(np.bincount(people))
    return (
        csr_array((np.ones(len(people)), order, offsets), (len(offsets) - 1, len(people))) @ values
    )


@dataclass(frozen=True, eq=False)
class Resampling:
    """What is fitted to every resample: log L in its free parameters.

    ``report`` turns estimates of free parameters, one row each, into what a summary shows.
    """

    climb: Climb
    start: Float[np.ndarray, " p"]
    covariance: Float[np.ndarray, "p p"]
    """The classical covariance at the start, which is where all sets have their maximum."""
    weight: Float[np.ndarray, " sets"]
    rows: int
    report: Callable[[Float[np.ndarray, "r p"]], Float[np.ndarray, "r q"]]

    def drawn(
        self, people: Int[np.ndarray, " sets"] | None, resamples: int, seed: int
    ) -> Float[np.ndarray, "r q"]:
        """Estimates from resamples of people, or of sets; rows that reached no maximum are NaN."""
        who = np.arange(len(self.weight)) if people is None else people
        units, rng = int(who.max()) + 1, np.random.default_rng(seed)
        at_once = max(1, NUMBERS_AT_ONCE // self.rows)
        found = []
        for begin in range(0, resamples, at_once):
            some = min(at_once, resamples - begin)
            draws = rng.integers(units, size=(some, units)) + units * np.arange(some)[:, None]
            counts = np.bincount(draws.ravel(), minlength=some * units).reshape(some, units)
            estimates, reached = maxima(
                self.climb, self.start, self.covariance, counts[:, who] * self.weight
            )
            reported = self.report(estimates)
            reported[~reached] = np.nan
            found.append(reported)
        return np.concatenate(found)


def maxima(
    climb: Climb,
    start: Float[np.ndarray, " p"],
    covariance: Float[np.ndarray, "p p"],
    weights: Float[np.ndarray, "r sets"],
) -> tuple[Float[np.ndarray, "r p"], Bool[np.ndarray, " r"]]:
    """The maximum of log L under each of several weights of the sets, all climbed to together.

    Every resample takes steps of its own (BFGS) from a common start. Returns where they ended, and
    which of them came to rest where log L is curved: where it is flat it has no maximum.
    """
    count, p = len(weights), len(start)
    points, inverse = np.tile(start, (count, 1)), np.tile(covariance, (count, 1, 1))
    value, gradient = climb(points, weights)
    resting = np.zeros(count, bool)
    for _ in range(STEPS):
        step = np.einsum("rij,rj->ri", inverse, gradient)
        resting = np.einsum("ri,ri->r", gradient, step) < DECREMENT
        if resting.all() or p == 0:
            break
        moved, ahead = np.where(resting[:, None], 0.0, step), ~resting
        for _ in range(HALVINGS):
            trial, slope = climb(points + moved, weights)
            worse = ahead & ~(trial >= value)
            if not worse.any():
                break
            moved[worse] /= 2
        moved[worse] = 0  # no step along this direction helps: it stays where it is
        trial, slope = climb(points + moved, weights) if worse.any() else (trial, slope)
        inverse = _updated(inverse, moved, gradient - slope)
        stuck, points, value, gradient = worse, points + moved, trial, slope
        if (stuck | resting).all():
            break
    variances = np.diagonal(inverse, axis1=1, axis2=2) / np.diag(covariance)
    return points, resting & (variances < FLAT).all(1)


def _updated(
    inverse: Float[np.ndarray, "r p p"],
    step: Float[np.ndarray, "r p"],
    bend: Float[np.ndarray, "r p"],
) -> Float[np.ndarray, "r p p"]:
    """BFGS: inverses that turn the change of the gradient into the step that made it."""
    along = np.einsum("ri,ri->r", step, bend)
    size = np.einsum("ri,ri->r", bend, bend) * np.einsum("ri,ri->r", step, step)
    useful = along > 1e-10 * np.sqrt(size)
    rate = np.where(useful, 1 / np.where(useful, along, 1.0), 0.0)
    turned = np.einsum("rij,rj->ri", inverse, bend)
    both = np.einsum("ri,rj->rij", turned, step)
    scale = rate + rate**2 * np.einsum("ri,ri->r", bend, turned)
    return (
        inverse
        - rate[:, None, None] * (both + both.transpose(0, 2, 1))
        + scale[:, None, None] * np.einsum("ri,rj->rij", step, step)
    )


def logit_climb(data: Encoded, penalty: Float[np.ndarray, " p"] | None = None) -> Climb:
    """log L of the multinomial logit less a penalty, at many points by matrix products."""
    assert data.chosen is not None
    x = _segments.centred(data.items, data.offsets)
    chosen = data.offsets[:-1] + data.chosen
    picked, starts, sizes = x[chosen], data.offsets[:-1], data.sizes
    cost = np.zeros(x.shape[1]) if penalty is None else penalty

    def climb(
        points: Float[np.ndarray, "r p"], weights: Float[np.ndarray, "r sets"]
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "r p"]]:
        v = x @ points.T
        if data.offset is not None:
            v += data.offset[:, None]
        v -= np.repeat(np.maximum.reduceat(v, starts, axis=0), sizes, 0)
        at = v[chosen]
        np.exp(v, out=v)
        sums = np.add.reduceat(v, starts, axis=0)
        value = np.einsum("rs,sr->r", weights, at - np.log(sums))
        v *= np.repeat(weights.T / sums, sizes, 0)
        return value - points**2 @ cost / 2, weights @ picked - (x.T @ v).T - points * cost

    return climb

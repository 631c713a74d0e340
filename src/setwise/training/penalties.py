"""How strong an L2 penalty of the multinomial logit should be: by validation, or leave-one-out.

The penalised likelihood is

    log L(b) - l2 / 2 * sum_j (sd_j b_j)^2

with sd_j the standard deviation of column j over all rows, so that units of columns do not matter.
l2 stands against the sum over all sets, not their mean: it is one over the variance of a normal
prior of the coefficients, and more data need no other value.
"""

from collections.abc import Iterator

import numpy as np

from setwise import _segments
from setwise._shapes import Float, Int, Shaped
from setwise.choices import Encoded
from setwise.training.newton import Optimum, penalised

GRID = (10_000.0, 1_000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.1)
"""The values tried, from the strongest: each fit begins where the one before ended."""
NUMBERS_AT_ONCE = 2_000_000  # bounds the memory of the systems that are solved together


def along_grid(data: Encoded, least: float = 0.0) -> Iterator[tuple[float, Optimum]]:
    """Each value of ``GRID`` that is not below ``least``, with its maximum."""
    start = None
    for l2 in (one for one in GRID if one >= least):
        optimum = penalised(data, l2, start)
        start = optimum.coefficients
        yield l2, optimum


def by_validation(train: Encoded, valid: Encoded) -> float:
    """The l2 whose fit to one part has the best likelihood in the other (the larger of equals).

    Columns of both parts must be in the same units.
    """
    assert valid.chosen is not None
    weight = np.ones(len(valid)) if valid.weight is None else valid.weight
    chosen = valid.offsets[:-1] + valid.chosen

    def reached(optimum: Optimum) -> float:
        scores = valid.items @ optimum.coefficients
        if valid.offset is not None:
            scores = scores + valid.offset
        return float(weight @ _segments.log_softmax(scores, valid.offsets)[chosen])

    return max((reached(optimum), l2) for l2, optimum in along_grid(train))[1]


def by_leave_one_out(
    data: Encoded, groups: Shaped[np.ndarray, " sets"] | None = None, least: float = 0.0
) -> float:
    """The l2 with the best :func:`left_out_log_likelihoods` (the larger of equals)."""
    weight = np.ones(len(data)) if data.weight is None else data.weight
    reached = (
        (float(weight @ left_out_log_likelihoods(optimum, groups)), l2)
        for l2, optimum in along_grid(data, least)
    )
    return max(reached)[1]


def left_out_log_likelihoods(
    optimum: Optimum, groups: Shaped[np.ndarray, " sets"] | None = None
) -> Float[np.ndarray, " sets"]:
    """log P of each set's choice by a fit to all other sets, approximately.

    The fit without a set is one Newton step away from the fit to all sets. With H minus the
    Hessian at the optimum, Z the rows of the set less their mean (by the probabilities p), D the
    diagonal matrix of weight times p, and e the weight at the chosen row and 0 elsewhere, the step
    lowers the set's utilities by

        Z (H - Z' D Z)^-1 Z' e = (I - K D)^-1 K e,    K = Z H^-1 Z'

    (Rad and Maleki 2020), and no model is fitted again. Where ``groups`` has a value per set, all
    sets of a group are left out together: Z, D and e are then those of all its rows.

    >>> x = np.array([[1.0], [0.0]] * 20)
    >>> chosen = (np.arange(20) % 4 == 0).astype(int)
    >>> data = Encoded(x, np.empty((20, 0)), np.arange(0, 41, 2), chosen, None)
    >>> left = left_out_log_likelihoods(penalised(data, 1.0))
    >>> bool(left.sum() < penalised(data, 1.0).log_likelihood)
    True
    """
    _, group = np.unique(
        np.arange(len(optimum.data)) if groups is None else groups, return_inverse=True
    )
    order = np.argsort(group, kind="stable")
    data, known = optimum.data.take(order), optimum.identified
    assert data.chosen is not None
    weight = np.ones(len(data)) if data.weight is None else data.weight
    chosen = data.offsets[:-1] + data.chosen
    x = data.items[:, known]
    v = x @ optimum.coefficients[known]
    if data.offset is not None:
        v = v + data.offset
    p = _segments.softmax(v, data.offsets)
    z = x - _segments.spread(_segments.sums(p[:, None] * x, data.offsets), data.offsets)
    y = z @ np.linalg.cholesky(optimum.covariance[np.ix_(known, known)])  # K = y y'
    e = np.zeros(len(v))
    e[chosen] = weight
    rows = np.bincount(group[order], data.sizes).astype(np.int64)  # of each group
    v -= _steps(y, p * _segments.spread(weight, data.offsets), e, _segments.offsets_of(rows))
    found = np.empty(len(data))
    found[order] = _segments.log_softmax(v, data.offsets)[chosen]
    return found


def _steps(
    y: Float[np.ndarray, "rows d"],
    d: Float[np.ndarray, " rows"],
    e: Float[np.ndarray, " rows"],
    offsets: Int[np.ndarray, " groups_and_one"],
) -> Float[np.ndarray, " rows"]:
    """(I - K D)^-1 K e of each group: systems of one size are solved together."""
    steps, sizes, width = np.empty(len(y)), np.diff(offsets), y.shape[1]
    for n in np.unique(sizes).tolist():
        starts = offsets[:-1][sizes == n]
        at_once = max(1, NUMBERS_AT_ONCE // (n * max(n, width)))
        for begin in range(0, len(starts), at_once):
            rows = starts[begin : begin + at_once, None] + np.arange(n)
            some, pull = y[rows], e[rows][:, :, None]
            turned = some.transpose(0, 2, 1)
            if n <= width:
                k = some @ turned
                found = np.linalg.solve(np.eye(n) - k * d[rows][:, None, :], k @ pull)
            else:  # the same by the smaller system: y (I - y' D y)^-1 y' e
                inner = np.eye(width) - turned @ (some * d[rows][:, :, None])
                found = some @ np.linalg.solve(inner, turned @ pull)
            steps[rows] = found[:, :, 0]
    return steps

"""More and more draws, until the estimates of a simulated likelihood settle.

The draws are part of an estimate: other draws give another one. With R draws and then 2 R others,
climbed from the first maximum on, the estimates move by more than the error that simulation leaves
in them: if its variance falls as 1 / R, by about the root of 3 of its standard deviation. The
number is doubled until no parameter moves by more than a fifth of its standard error; simulation
then adds little more than a hundredth to the variance of the estimate that moved most.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from setwise.training.likelihood import LogLikelihood, Maximum, climb

FIRST = 200  # draws per person
MOST = 25_600
MOST_NUMBERS = 2**30  # of all draws of all people, 4 bytes each
SETTLED = 0.2  # of a standard error


@dataclass(frozen=True, eq=False)
class Grown:
    """A maximum, the likelihood that has it, and how many draws per person that took."""

    found: Maximum
    likelihood: LogLikelihood
    draws: int
    moved: float
    """By how much an estimate moved at most with the last doubling, in its standard errors."""


def grown(
    likelihood: Callable[[int], LogLikelihood],
    start: Float[np.ndarray, " p"],
    free: Bool[np.ndarray, " p"],
    unit: Float[np.ndarray, " p"],
    first: int,
    most: int,
) -> Grown:
    """Climb with ``first`` draws, then with twice as many from there, up to ``most``.

    Args:
        likelihood: makes log L with so many draws per person.
        start: where to climb from.
        free: which parameters are free.
        unit: what counts as one of each parameter; see :func:`climb`.
        first: the number of draws to begin with.
        most: no round has more draws; with at most ``first`` there is one round.
    """
    draws, one = first, likelihood(first)
    found, moved = climb(one, start, free, unit), 0.0
    while 2 * draws <= most:
        del one  # its draws, before the next ones are made
        draws *= 2
        one, before = likelihood(draws), found
        found = climb(one, before.parameters, free, unit)
        moved = _moved(before, found)
        if (found.converged and moved <= SETTLED) or not (found.converged or before.converged):
            break
    return Grown(found, one, draws, moved)


def _moved(before: Maximum, after: Maximum) -> float:
    """The largest move of a parameter, in its standard errors.

    >>> def at(place: float) -> Maximum:
    ...     variances = np.diag([4.0, np.nan])
    ...     return Maximum(np.array([place, 9.0]), variances, variances, 0.0, 1, True)
    >>> _moved(at(1.0), at(2.0))
    0.5
    """
    variances = np.diag(after.covariance)
    known = variances > 0
    moves = np.abs(after.parameters - before.parameters)[known]
    return float((moves / np.sqrt(variances[known])).max(initial=0.0))

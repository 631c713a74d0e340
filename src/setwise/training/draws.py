"""Draws of tastes: points that fill the unit cube evenly, as standard distributions.

A random coefficient is location + scale * z. The distribution of z has mean 0 and is symmetric:

    normal, lognormal   z ~ N(0, 1); the coefficient of a log-normal is exp(location + scale * z)
    truncated           z ~ N(0, 1), cut at -2 and 2
    uniform             z uniform from -1 to 1
    triangular          z from -1 to 1, most often 0

Each person has draws of their own. They are consecutive points of one sequence, so that the draws
of a person, and those of all people, both cover the cube evenly (Train 2009, chapter 9).
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float, Float32
from scipy.special import ndtr, ndtri

EDGE = 1e-9  # no point is nearer to a side of the unit cube: normal draws stay finite
CUT = 2.0  # standard deviations at which the truncated normal ends

Points = Float[np.ndarray, "points k"]


def halton(points: int, dimensions: int, rng: np.random.Generator) -> Points:
    """A scrambled Halton sequence (Owen 2017)."""
    from scipy.stats import qmc  # slow to import

    return np.asarray(qmc.Halton(dimensions, seed=rng).random(points, workers=-1))


def sobol(points: int, dimensions: int, rng: np.random.Generator) -> Points:
    """A scrambled Sobol sequence; SciPy draws powers of two, of which the first are taken."""
    from scipy.stats import qmc

    power = max(points - 1, 1).bit_length()
    return np.asarray(qmc.Sobol(dimensions, seed=rng).random_base2(power))[:points]


def _normal(u: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.asarray(ndtri(u))


def _truncated(u: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    low = ndtr(-CUT)
    return np.asarray(ndtri(low + u * (1 - 2 * low)))


def _uniform(u: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return 2 * u - 1


def _triangular(u: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.where(u < 0.5, np.sqrt(2 * u) - 1, 1 - np.sqrt(2 * (1 - u)))


STANDARD: Mapping[str, Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]] = {
    "normal": _normal,
    "lognormal": _normal,
    "-lognormal": _normal,
    "component": _normal,
    "truncated": _truncated,
    "uniform": _uniform,
    "triangular": _triangular,
}
"""The inverse distribution function of z, by the name of the coefficient's distribution."""

SAMPLINGS = ("halton", "sobol", "mlhs")
"""How the points are drawn."""


def standard_draws(
    kinds: Sequence[str], people: int, draws: int, sampling: str, seed: int
) -> Float32[np.ndarray, "people k draws"]:
    """z for each person, random coefficient and draw; the same seed gives the same draws.

    "halton" and "sobol" are scrambled sequences. "mlhs" (Hess, Train and Polak 2006) gives each
    person and coefficient ``draws`` evenly spaced points with a random start, in a random order.

    >>> z = standard_draws(["normal", "uniform"], people=3, draws=200, sampling="sobol", seed=0)
    >>> z.shape, [f"{one:.1f}" for one in z.std((0, 2))]
    ((3, 2, 200), ['1.0', '0.6'])
    """
    rng = np.random.default_rng(seed)
    if sampling == "mlhs":
        evenly = (np.arange(draws) + rng.random((people, len(kinds), 1))) / draws
        u = rng.permuted(evenly, axis=2)
    else:
        points = {"halton": halton, "sobol": sobol}[sampling](people * draws, len(kinds), rng)
        u = points.reshape(people, draws, len(kinds)).transpose(0, 2, 1)
    z = np.empty(u.shape, np.float32)

    def fill(place: int) -> None:
        z[:, place] = STANDARD[kinds[place]](np.clip(u[:, place], EDGE, 1 - EDGE))

    with ThreadPoolExecutor() as threads:
        list(threads.map(fill, range(len(kinds))))
    return z

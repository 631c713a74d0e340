"""The multinomial logit with signs of coefficients: the exact optimum within bounds.

    maximise log L(b)   subject to   sign_j b_j >= 0 for some columns j

The objective is concave, so that b is the optimum if and only if log L does not rise along any
coefficient at its bound, in the direction that is allowed. Coefficients at the bound form the
active set; the others are found by :func:`setwise.training.newton.maximise`. As in non-negative
least squares (Lawson and Hanson 1974), one coefficient at a time is released, and the step towards
the new optimum ends where another one meets its bound. Each release raises log L, so that no set
comes twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from setwise.choices import Encoded
from setwise.training.newton import Optimum, penalised

Vector = Float[np.ndarray, " p"]
Flags = Bool[np.ndarray, " p"]

FLAT = 1e-7
"""Of the sum of weights, for a column of unit spread within sets: a slope below this is none."""


def bounded(
    data: Encoded, l2: float, signs: Mapping[int, int]
) -> tuple[Optimum, Bool[np.ndarray, " d"]]:
    """The optimum with these signs of coefficients, and which of them are at their bound, 0.

    Args:
        data: the choices.
        l2: the strength of the penalty; 0 for none.
        signs: by column, 1 for a coefficient that must not be negative, and -1 for one that must
            not be positive.

    >>> x = np.array([[1.0], [0.0]] * 3)  # liked by two of three
    >>> data = Encoded(x, np.empty((3, 0)), np.arange(0, 7, 2), np.array([0, 0, 1]), None)
    >>> found, held = bounded(data, 0.0, {0: -1})
    >>> found.coefficients.tolist(), held.tolist()
    ([0.0], [True])
    """
    sign = np.zeros(data.items.shape[1])
    sign[list(signs)] = [*signs.values()]
    best = penalised(data, l2)
    held = sign * best.coefficients < 0
    if not held.any():
        return best, held
    at = np.where(held, 0.0, best.coefficients)
    sizes = _sizes(best)
    while True:
        best, at, held = _within(data, l2, sign, held, at)
        pull = np.where(held, sign * _slopes(best, data), 0.0) / sizes
        if pull.max() <= FLAT * _weight(data):
            return best, held
        held = held & (np.arange(len(sign)) != np.argmax(pull))


def climbed_within(
    climbed: Callable[[Vector, Flags], Any],
    start: Vector,
    free: Flags,
    unit: Vector,
    signs: Mapping[int, int],
) -> tuple[Any, Flags]:
    """A maximum of any likelihood with these signs of parameters, and which are at their bound, 0.

    Parameters with the wrong sign are held at 0 and the others climb again, until none is left; one
    that log L pulls back into the allowed side is released, once.

    Args:
        climbed: climbs in the parameters that are free, from a start; it gives a maximum with its
            likelihood, a :class:`setwise.training.growing.Grown`.
        start: where to begin; 0 for those with a sign is fine.
        free: which parameters are free.
        unit: what counts as one of each parameter.
        signs: by parameter, 1 if it must not be negative, and -1 if it must not be positive.
    """
    sign = np.zeros(len(start))
    sign[list(signs)] = [*signs.values()]
    held, released = np.zeros(len(start), bool), np.zeros(len(start), bool)
    while True:
        solved = climbed(np.where(held, 0.0, start), free & ~held)
        at = solved.found.parameters
        crossed = free & ~held & (sign * at < 0)
        if crossed.any():
            held |= crossed
            start = at
            continue
        pull = sign * solved.likelihood(at)[1] * unit / solved.likelihood.total
        pull = np.where(held & free & ~released, pull, 0.0)
        if pull.max(initial=0.0) <= FLAT:
            return solved, held & free
        once = np.arange(len(start)) == np.argmax(pull)
        held, released, start = held & ~once, released | once, at


def _within(
    data: Encoded,
    l2: float,
    sign: Float[np.ndarray, " d"],
    held: Bool[np.ndarray, " d"],
    at: Float[np.ndarray, " d"],
) -> tuple[Optimum, Float[np.ndarray, " d"], Bool[np.ndarray, " d"]]:
    """The optimum of the free coefficients; those that would cross their bound join the held."""
    while True:
        best = penalised(replace(data, items=data.items * ~held), l2, at)
        new = best.coefficients
        crossed = ~held & (sign * new < 0)
        if not crossed.any():
            return best, new, held
        share = np.where(crossed, at / np.where(crossed, at - new, 1.0), np.inf)
        first = float(np.clip(share.min(), 0.0, 1.0))
        at = at + first * (new - at)
        held = held | (crossed & (share <= first))
        at = np.where(held, 0.0, at)


def _slopes(best: Optimum, data: Encoded) -> Float[np.ndarray, " d"]:
    """The gradient of log L in all columns, those held included; the penalty's is 0 there."""
    whole = replace(best, data=data, identified=np.ones(len(best.identified), bool), penalty=None)
    slopes: Float[np.ndarray, " d"] = whole.scores.sum(0)
    return slopes


def _sizes(best: Optimum) -> Float[np.ndarray, " d"]:
    """What columns differ by within sets; 1 for those that do not."""
    size = np.sqrt(np.diag(best.within) / max(len(best.data.items), 1))
    return np.where(size > 0, size, 1.0)


def _weight(data: Encoded) -> float:
    """The sum of the weights."""
    return float(len(data)) if data.weight is None else float(data.weight.sum())

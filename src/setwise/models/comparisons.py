"""The comparison of an item's scores F(x) with the set's reference point r(s)."""

from collections.abc import Callable

import jax.numpy as jnp

from setwise._types import Array, Evaluated, Float
from setwise.models.item_functions import ItemScores
from setwise.models.positive import FLOOR

Comparison = Callable[[ItemScores, Float[Array, "..."]], Evaluated]


def difference(f: ItemScores, r: Float[Array, " l"]) -> Evaluated:
    """f_i(x) - r_i(s): the paper's Eq. 5, scores and references are numbers."""
    return f.values[:, :, 0] - r


def inner(f: ItemScores, r: Float[Array, "l k"]) -> Evaluated:
    """< f_i(x), r_i(s) >: what the paper's experiments use, both are vectors of size k."""
    return f.inner(r)


def range_position(f: ItemScores, r: Float[Array, "l 2"]) -> Evaluated:
    """(f_i(x) - min) / (max - min), with r = (min, max) of the set; 0 where they are equal."""
    low, spread = r[:, 0], r[:, 1] - r[:, 0]
    apart = spread > FLOOR
    return jnp.where(apart, (f.values[:, :, 0] - low) / jnp.where(apart, spread, 1.0), 0.0)

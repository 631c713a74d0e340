"""Features relative to the set: an item's place among the others, computed in the model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Array, Float, Items, Key, Mask, Scores
from setwise.models.model import FLOOR, Blueprint, Dropout, Model, Sizes


def within_set(items: Items, present: Mask) -> Float[Array, "n twice_d"]:
    """Each feature's z-score within the set, then its position in the set's range.

        z = (x - mean) / sd        position = (x - min) / (max - min)

    over the items of the set. If the range is below a millionth of a standardised unit (all items
    are equal, or there is only one), both are 0, with zero gradients.

    >>> x = jnp.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    >>> [round(float(value), 4) for value in within_set(x, jnp.ones(3, bool))[2]]
    [1.2247, 0.0, 1.0, 0.0]
    """
    low, high = _masked.minimum(items, present), _masked.maximum(items, present)
    varied = high - low > FLOOR
    position = jnp.where(varied, items - low, 0) / jnp.where(varied, high - low, 1)
    # z is invariant to shift and scale; computed from positions, it loses no digits to either.
    centred = position - _masked.mean(position, present)
    variance = jnp.where(varied, _masked.mean(centred**2, present), 1)
    return jnp.concatenate([centred / jnp.sqrt(variance), position], -1)


class SplitColumns(eqx.Module):
    """Two blocks of columns that are multiplied as one matrix, without being copied into one.

        x @ M = left @ (upper rows of M) + right @ (lower rows of M)

    On a CPU, copying features and hat functions into one array takes three times as long as
    computing and multiplying them.

    >>> x = SplitColumns(jnp.ones((3, 2)), jnp.ones((3, 4)))
    >>> x.shape, (x @ jnp.ones(6)).tolist()
    ((3, 6), [6.0, 6.0, 6.0])
    """

    left: Float[Array, "n l"]
    right: Float[Array, "n r"]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the whole matrix."""
        return self.left.shape[0], self.left.shape[1] + self.right.shape[1]

    def __matmul__(self, matrix: Float[Array, " v *m"]) -> Float[Array, " n *m"]:
        upper = self.left.shape[1]
        return self.left @ matrix[:upper] + self.right @ matrix[upper:]


Viewed = Float[Array, "n v"] | SplitColumns
"""What a model sees of the items of a set: one row per item."""
View = Callable[[Items, Mask], Viewed]


def alone(items: Items, present: Mask) -> Items:
    """The features themselves, without regard to the other items."""
    return items


def among_others(items: Items, present: Mask) -> Float[Array, "n thrice_d"]:
    """The features, then the item's place in its set: :func:`within_set`."""
    return jnp.concatenate([items, within_set(items, present)], -1)


REACH = 2.5
"""The knots of hat functions lie between -REACH and REACH, in standardised units."""


class Hats(NamedTuple):
    """Hat functions of a feature: how many, at equally spaced knots, and how high.

    Weights of low hats grow slowly and decay fast, so a model bends only where the data require it.
    """

    knots: int
    height: float

    def of(self, x: Float[Array, "n d"]) -> Float[Array, "n hats"]:
        """height max(0, 1 - |x - knot| / step), for each knot of each feature.

        A weighted sum of a feature's hats is any function of it that is linear between the knots,
        and constant beyond the last ones.

        >>> [round(float(value), 2) for value in Hats(11, 0.1).of(jnp.array([[0.1]]))[0, 3:9]]
        [0.0, 0.0, 0.08, 0.02, 0.0, 0.0]
        """
        slope = self.height * (self.knots - 1) / (2 * REACH)
        knots = slope * jnp.linspace(-REACH, REACH, self.knots)
        x = slope * jnp.clip(x, -REACH, REACH)  # scaled here, while there are few numbers
        return jnp.maximum(0, self.height - jnp.abs(x[:, :, None] - knots)).reshape(x.shape[0], -1)

    def view(self, items: Items, present: Mask) -> SplitColumns:
        """The item :func:`among_others`, then the hat functions of all its numbers."""
        x = among_others(items, present)
        d = items.shape[1]
        over_the_knots = REACH * (2 * x[:, 2 * d :] - 1)  # positions, which are from 0 to 1
        hats = self.of(jnp.concatenate([x[:, : 2 * d], over_the_knots], -1))
        return SplitColumns(x, hats)


COARSE, FINE = Hats(11, 0.1), Hats(41, 0.2)


def splines(items: Items, present: Mask) -> SplitColumns:
    """The item :func:`among_others`, then ``COARSE`` hat functions of all its numbers.

    A linear function of this view is piecewise linear in each feature, z-score and position.
    """
    return COARSE.view(items, present)


def fine_splines(items: Items, present: Mask) -> SplitColumns:
    """Like :func:`splines`, with ``FINE`` hats, which can tell single items and sets apart."""
    return FINE.view(items, present)


class WithinSet(Model):
    """g(x, s) = < b, x > + < b_z, z > + < b_p, position >; see :func:`within_set`.

    ``theta`` has the rows b, b_z and b_p. The model is convex and starts at zero.
    """

    theta: Float[Array, "3 d"]

    def __init__(self, features: int):
        self.theta = jnp.zeros((3, features))

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        return among_others(items, present) @ self.theta.reshape(-1)


@dataclass(frozen=True)
class WithinSetBlueprint(Blueprint):
    """:class:`WithinSet` for the zoo."""

    def build(self, features: int, sizes: Sizes, key: Key) -> WithinSet:
        return WithinSet(features)

"""The context dependent model: each item pulls or pushes each other one, by a low-rank matrix."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from setwise._types import Array, Float, Items, Key, Mask, Scores
from setwise.models.blueprint import Blueprint, Sizes
from setwise.models.initial import glorot
from setwise.models.model import Dropout, Model

NEAR_MNL = 0.1
"""Initial A and B are this much of Glorot's: little context, yet gradients to learn it by."""


class ContextDependent(Model):
    """g(x, s) = <theta, x> + mean over z in s, z != x, of <A x, B z>; A and B have k rows.

    A set of one item has no context. The mean keeps effects comparable between sets of different
    sizes; it is linear in z, so that B z is summed once a set and not once a pair.
    """

    theta: Float[Array, " d"]
    A: Float[Array, "k d"]
    B: Float[Array, "k d"]

    def __init__(self, features: int, components: int, key: Key):
        for_theta, for_A, for_B = jax.random.split(key, 3)
        shape = (components, features)
        self.theta = glorot(for_theta, (features,), features, 1)
        self.A = NEAR_MNL * glorot(for_A, shape, features, components)
        self.B = NEAR_MNL * glorot(for_B, shape, features, components)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        pulls = jnp.where(present[:, None], items @ self.B.T, 0)
        others = (pulls.sum(0) - pulls) / jnp.maximum(present.sum() - 1, 1)
        return items @ self.theta + jnp.sum((items @ self.A.T) * others, axis=1)


@dataclass(frozen=True)
class ContextDependentBlueprint(Blueprint):
    """The context dependent model of rank ``components``.

    >>> from setwise.models import ZOO
    >>> ZOO["cdm"].parameters(8, Sizes(components=16))  # 8, and 16 x 8 twice
    264
    """

    def build(self, features: int, sizes: Sizes, key: Key) -> ContextDependent:
        return ContextDependent(features, sizes.components, key)

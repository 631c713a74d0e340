"""Recipes: which parts of the equation make up a model, and functions that build each part."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise._types import Key
from setwise.models import evaluations, set_functions
from setwise.models.aggregation import Aggregation
from setwise.models.evaluations import Comparison, Evaluation
from setwise.models.item_functions import Features, ItemFunction, Linear
from setwise.models.model import Blueprint, Sizes, glorot
from setwise.models.set_functions import (
    Constant,
    JointNetwork,
    PooledNetwork,
    SetFunction,
    SharedNetwork,
    Vector,
)
from setwise.models.within_set import View, alone

Shape = tuple[int, ...]
ItemPart = Callable[[int, int, int, Key], ItemFunction]
"""Builds F from the number of features, l, k (components of each score) and a key."""
SetPart = Callable[[Shape, Sizes, int, Key], SetFunction]
"""Builds w or r from its value's shape, the sizes, k (components of each score) and a key."""


@dataclass(frozen=True)
class Recipe(Blueprint):
    """A composition of F, w, r, mu and the comparison.

    F has l = ``dimension`` scores, unless the recipe sets l to a number, or uses the features
    themselves as scores.
    """

    w: SetPart
    r: SetPart
    mu: Callable[[], Evaluation]
    compare: Comparison = evaluations.difference
    F: ItemPart = Linear
    dimension: int | Literal["features"] | None = None
    view: View = alone
    plus_mnl: bool = False
    """Whether < b, x > is added to the aggregation."""

    def build(self, features: int, sizes: Sizes, key: Key) -> Aggregation:
        """The model with initial weights for items of this many features.

        >>> from setwise.models import ZOO
        >>> model = ZOO["sdw"].build(8, Sizes(), jax.random.key(0))
        >>> model.scores(jax.numpy.ones((5, 8)), jax.numpy.ones(5, bool)).shape
        (5,)
        """
        x = _width(self.view, features)
        vectors = self.compare is evaluations.inner
        k = sizes.components if vectors else 1
        for_F, for_w, for_r = jax.random.split(key, 3)
        F: ItemFunction
        if self.dimension == "features":
            F, l = Features(), features  # noqa: E741
        else:
            l = self.dimension or sizes.dimension  # noqa: E741
            F = self.F(x, l, k, for_F)
        return Aggregation(
            F=F,
            w=self.w((l,), sizes, k, for_w),
            r=self.r((l, k) if vectors else (l,), sizes, k, for_r),
            mu=self.mu(),
            compare=self.compare,
            b=jnp.zeros(x) if self.plus_mnl else None,
            view=self.view,
        )


def _width(view: View, features: int) -> int:
    """How many numbers a model sees of an item with this many features."""
    items, present = jnp.zeros((1, features)), jnp.ones(1, bool)
    return int(jax.eval_shape(view, items, present).shape[1])


def one(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """The constant 1."""
    return Constant(1.0, shape)


def zero(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """The constant 0."""
    return Constant(0.0, shape)


def vector(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """A learned vector, the same for every set."""
    return Vector(glorot(key, shape, shape[0], 1))


def set_network(shape: Shape, sizes: Sizes, k: int, key: Key) -> JointNetwork | SharedNetwork:
    """A learned permutation-invariant network, with the wiring of ``sizes``."""
    l, outputs = shape[0], math.prod(shape)  # noqa: E741
    if sizes.wiring == "joint":
        return JointNetwork(PooledNetwork(l * k, sizes.hidden, outputs, key), shape)
    return SharedNetwork(PooledNetwork(k, sizes.hidden, outputs // l, key), shape)


QUIET = 0.1
"""Factor on the initial weights of the last layer of a quiet network."""


def quiet_network(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """Like :func:`set_network`, but close to 0 at the start: context has to be learned."""
    return _quiet(set_network(shape, sizes, k, key))


def vector_and_network(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """Like :func:`set_network`, but initially close to one vector for all sets."""
    for_vector, for_network = jax.random.split(key)
    network = _quiet(set_network(shape, sizes, k, for_network))
    outputs = network.network.last.bias.shape[0]
    bias = glorot(for_vector, (outputs,), shape[0], 1)
    return eqx.tree_at(lambda one: one.network.last.bias, network, bias)


def _quiet(network: JointNetwork | SharedNetwork) -> JointNetwork | SharedNetwork:
    return eqx.tree_at(
        lambda one: one.network.last.weight, network, replace_fn=lambda weight: QUIET * weight
    )


def minimum(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """min f_i."""
    return set_functions.Minimum()


def midpoint(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """(max f_i + min f_i) / 2."""
    return set_functions.Midpoint()


def extremes(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """(min f_i, max f_i)."""
    return set_functions.Extremes()


def spread(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """max f_i - min f_i."""
    return set_functions.Spread()


def power_spread(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """(max f_i - min f_i)^rho."""
    return set_functions.PowerSpread()


def selves(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """softmax_i(tau a_i(s))."""
    return set_functions.Selves(shape[0], key)


def softmax_average(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """sum_z pi_z f_i(z)."""
    return set_functions.SoftmaxAverage(shape[0], key)


def mean_linear(shape: Shape, sizes: Sizes, k: int, key: Key) -> SetFunction:
    """theta + A mean(f)."""
    return set_functions.MeanLinear(shape[0])

"""Networks that pool the set by a mean: Deep Sets, and first aggregate then evaluate (FATE)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Array, Float, Items, Key, Mask, Scores
from setwise.models.blueprint import Blueprint, Sizes
from setwise.models.initial import glorot
from setwise.models.model import Dropout, Model
from setwise.models.perceptron import HiddenLayers, Perceptron

EMBEDDING = 2
"""Layers before the first look at the set."""


class DeepSets(Model):
    """Two layers embed each item, two compare it with the mean of the set, v scores it.

    embed:    h <- relu(h W)
    compare:  h <- relu((h - mean of h over s) W), Zaheer's equivariant layer
    score:    g(x, s) = <v, h(x)>

    As in the paper no layer has a bias, and the comparison needs no parameters. The embedding
    comes first because a mean subtracted from the features themselves would hide their level.
    """

    weights: tuple[Float[Array, "i o"], ...]
    v: Float[Array, " h"]

    def __init__(self, features: int, hidden: int, key: Key):
        *keys, for_v = jax.random.split(key, 5)
        shapes = [(features, hidden)] + 3 * [(hidden, hidden)]
        self.weights = tuple(
            glorot(key, shape, *shape) for shape, key in zip(shapes, keys, strict=True)
        )
        self.v = glorot(for_v, (hidden,), hidden, 1)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        h = items
        for depth, weight in enumerate(self.weights):
            if depth >= EMBEDDING:
                h = h - _masked.mean(h, present)
            h = jax.nn.relu(h @ weight)
            if dropout is not None:
                noise, dropout = dropout.split()
                h = noise(h)
        return h @ self.v


@dataclass(frozen=True)
class DeepSetsBlueprint(Blueprint):
    """Deep Sets with four layers of ``hidden`` units.

    >>> from setwise.models import ZOO
    >>> ZOO["deep_sets"].parameters(8, Sizes(hidden=256)) == 196_864 + 256 * 8  # the paper's
    True
    """

    def build(self, features: int, sizes: Sizes, key: Key) -> DeepSets:
        return DeepSets(features, sizes.hidden, key)


class FirstAggregate(Model):
    """g(x, s) = MLP([x, m(s)]), m(s) = mean over z in s of phi(z); phi has hidden layers."""

    phi: HiddenLayers
    evaluate: Perceptron

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        early, late = dropout.split() if dropout is not None else (None, None)
        m = _masked.mean(self.phi(items, early), present)
        beside = jnp.broadcast_to(m, (items.shape[0], len(m)))
        return self.evaluate.scores(jnp.concatenate([items, beside], axis=1), present, late)


@dataclass(frozen=True)
class FirstAggregateBlueprint(Blueprint):
    """Two layers of ``hidden`` units before the mean, two after it.

    >>> from setwise.models import ZOO
    >>> ZOO["fate"].parameters(8, Sizes(hidden=16))  # 144 + 272, then 400 + 272 + 16
    1104
    """

    def build(self, features: int, sizes: Sizes, key: Key) -> FirstAggregate:
        for_phi, for_score = jax.random.split(key)
        h = sizes.hidden
        return FirstAggregate(
            phi=HiddenLayers([features, h, h], for_phi),
            evaluate=Perceptron([features + h, h, h], for_score),
        )

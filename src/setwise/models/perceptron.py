"""Multilayer perceptrons: a score of each item alone, and the layers that other networks share."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax

from setwise._types import Array, Float, Items, Key, Mask, Scores
from setwise.models.blueprint import Blueprint, Sizes
from setwise.models.initial import glorot
from setwise.models.model import Dropout, Model
from setwise.models.set_functions import Layer


class HiddenLayers(eqx.Module):
    """h <- relu(h W + b), layer after layer, with dropout after each.

    >>> layers = HiddenLayers([8, 16, 4], jax.random.key(0))
    >>> layers(jax.numpy.ones((5, 8))).shape
    (5, 4)
    """

    layers: tuple[Layer, ...]

    def __init__(self, widths: Sequence[int], key: Key):
        keys = jax.random.split(key, len(widths) - 1)
        steps = zip(itertools.pairwise(widths), keys, strict=True)
        self.layers = tuple(Layer(inputs, outputs, key) for (inputs, outputs), key in steps)

    def __call__(
        self, h: Float[Array, "n i"], dropout: Dropout | None = None
    ) -> Float[Array, "n o"]:
        for layer in self.layers:
            h = jax.nn.relu(layer(h))
            if dropout is not None:
                noise, dropout = dropout.split()
                h = noise(h)
        return h


class Perceptron(Model):
    """g(x, s) = <v, h(x)>, h the hidden layers: the set plays no part, so IIA holds exactly.

    A constant term after v would cancel in every comparison.
    """

    hidden: HiddenLayers
    v: Float[Array, " h"]

    def __init__(self, widths: Sequence[int], key: Key):
        for_hidden, for_v = jax.random.split(key)
        self.hidden = HiddenLayers(widths, for_hidden)
        self.v = glorot(for_v, (widths[-1],), widths[-1], 1)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        return self.hidden(items, dropout) @ self.v


@dataclass(frozen=True)
class PerceptronBlueprint(Blueprint):
    """A perceptron whose hidden layers have these multiples of ``hidden`` units.

    >>> from setwise.models import ZOO
    >>> ZOO["mlp"].parameters(8, Sizes(hidden=16))  # 8 x 16 + 16, 16 x 16 + 16, 16
    432
    """

    multiples: tuple[int, ...] = (1, 1)

    def build(self, features: int, sizes: Sizes, key: Key) -> Perceptron:
        return Perceptron([features, *(sizes.hidden * times for times in self.multiples)], key)

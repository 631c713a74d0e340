"""Networks to compare with.

Multilayer perceptrons score each item without regard to the others. Deep Sets and FATE (first
aggregate, then evaluate) pool the set by a mean. In a set transformer items attend to one another.
In the context dependent model each item shifts the scores of the others, by a low-rank matrix.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Array, Float, Items, Key, Mask, Scores
from setwise.models.model import Blueprint, Dropout, Model, Sizes, glorot
from setwise.models.set_functions import Layer


class HiddenLayers(eqx.Module):
    """h <- relu(h W + b) in each layer, followed by dropout.

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
    """g(x, s) = <v, h(x)>, h the hidden layers. The set has no influence, so IIA holds exactly.

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
    """A perceptron; its hidden layers have ``hidden`` units times these multiples.

    >>> from setwise.models import ZOO
    >>> ZOO["mlp"].parameters(8, Sizes(hidden=16))  # 8 x 16 + 16, 16 x 16 + 16, 16
    432
    """

    multiples: tuple[int, ...] = (1, 1)

    def build(self, features: int, sizes: Sizes, key: Key) -> Perceptron:
        return Perceptron([features, *(sizes.hidden * times for times in self.multiples)], key)


EMBEDDING = 2
"""Layers before the first comparison with the set."""


class DeepSets(Model):
    """Two layers embed each item, two compare it with the mean of the set, v scores it.

    embed:    h <- relu(h W)
    compare:  h <- relu((h - mean of h over s) W), Zaheer's equivariant layer
    score:    g(x, s) = <v, h(x)>

    As in the paper, no layer has a bias, and the comparison has no parameters. The embedding comes
    first because subtracting the mean from the features themselves would remove their level.
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
        repeated = jnp.broadcast_to(m, (items.shape[0], len(m)))
        return self.evaluate.scores(jnp.concatenate([items, repeated], axis=1), present, late)


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


HEADS = 4


class AttentionBlock(eqx.Module):
    """Lee's block of self-attention, over the items present.

    o_x = q_x + sum over z in s of softmax_z(<q_x, k_z> / sqrt(c)) v_z, in each head of c units;
    then h_x = o_x + relu(o_x W + b). Queries q, keys k and values v are linear in the items.
    """

    query: Layer
    key: Layer
    value: Layer
    feed: Layer
    heads: int = eqx.field(static=True)

    def __init__(self, inputs: int, hidden: int, key: Key):
        keys = jax.random.split(key, 4)
        self.query = Layer(inputs, hidden, keys[0])
        self.key = Layer(inputs, hidden, keys[1])
        self.value = Layer(inputs, hidden, keys[2])
        self.feed = Layer(hidden, hidden, keys[3])
        self.heads = math.gcd(HEADS, hidden)  # heads of equal size for any number of units

    def __call__(
        self, x: Float[Array, "n i"], present: Mask, dropout: Dropout | None
    ) -> Float[Array, "n h"]:
        q, k, v = (self._by_head(layer(x)) for layer in (self.query, self.key, self.value))
        likeness = jnp.einsum("xac,zac->axz", q, k) / math.sqrt(q.shape[-1])
        weight = jax.nn.softmax(jnp.where(present, likeness, -jnp.inf))
        o = (q + jnp.einsum("axz,zac->xac", weight, v)).reshape(x.shape[0], -1)
        fed = jax.nn.relu(self.feed(o))
        return o + (fed if dropout is None else dropout(fed))

    def _by_head(self, h: Float[Array, "n h"]) -> Float[Array, "n a c"]:
        return h.reshape(h.shape[0], self.heads, -1)


class SetTransformer(Model):
    """g(x, s) = <v, h_x>, h two blocks of self-attention on the items of s."""

    first: AttentionBlock
    second: AttentionBlock
    v: Float[Array, " h"]

    def __init__(self, features: int, hidden: int, key: Key):
        keys = jax.random.split(key, 3)
        self.first = AttentionBlock(features, hidden, keys[0])
        self.second = AttentionBlock(hidden, hidden, keys[1])
        self.v = glorot(keys[2], (hidden,), hidden, 1)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        early, late = dropout.split() if dropout is not None else (None, None)
        # A weight of zero does not remove a NaN.
        items = jnp.where(present[:, None], items, 0)
        return self.second(self.first(items, present, early), present, late) @ self.v


@dataclass(frozen=True)
class SetTransformerBlueprint(Blueprint):
    """Two blocks of ``hidden`` units in four heads (fewer if four does not divide the units).

    >>> from setwise.models import ZOO
    >>> ZOO["set_transformer"].parameters(8, Sizes(hidden=16))  # 704, 1,088 and 16
    1808
    """

    def build(self, features: int, sizes: Sizes, key: Key) -> SetTransformer:
        return SetTransformer(features, sizes.hidden, key)


NEAR_MNL = 0.1
"""Factor on the initial A and B: little context at first, but gradients to learn it."""


class ContextDependent(Model):
    """g(x, s) = <theta, x> + mean over z in s, z != x, of <A x, B z>; A and B have k rows.

    A set of one item has no context. The mean makes effects comparable between sets of different
    sizes. It is linear in z, so B z is summed once per set and not once per pair.
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

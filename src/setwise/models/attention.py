"""A set transformer: items look at one another before each is scored."""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise._types import Array, Float, Items, Key, Mask, Scores
from setwise.models.blueprint import Blueprint, Sizes
from setwise.models.initial import glorot
from setwise.models.model import Dropout, Model
from setwise.models.set_functions import Layer

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
        self.heads = math.gcd(HEADS, hidden)  # heads of equal size, whatever the units

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
        # A weight of zero does not hide what is not a number.
        items = jnp.where(present[:, None], items, 0)
        return self.second(self.first(items, present, early), present, late) @ self.v


@dataclass(frozen=True)
class SetTransformerBlueprint(Blueprint):
    """Two blocks of ``hidden`` units in four heads (fewer where four do not divide the units).

    >>> from setwise.models import ZOO
    >>> ZOO["set_transformer"].parameters(8, Sizes(hidden=16))  # 704, 1,088 and 16
    1808
    """

    def build(self, features: int, sizes: Sizes, key: Key) -> SetTransformer:
        return SetTransformer(features, sizes.hidden, key)

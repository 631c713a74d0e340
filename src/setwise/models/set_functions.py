"""w and r: functions of the whole set that do not depend on the order of its items.

A constant gives a classical model, a learned vector an ablation, a network the paper's models.
Networks read the scores F(s), not the features.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Array, Float, Key, Mask
from setwise.models.initial import glorot
from setwise.models.item_functions import ItemScores
from setwise.models.model import Dropout


class SetFunction(eqx.Module):
    """From the scores F(s) of a set to weights (l,) or a reference point, (l,) or (l, k)."""

    @abstractmethod
    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "..."]:
        """The value for this set."""


class Constant(SetFunction):
    """The same fixed value for every set: w = 1, r = 0. Not learned."""

    value: float = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "..."]:
        return jnp.full(self.shape, self.value)


class Vector(SetFunction):
    """The same learned value for every set: SDE's v."""

    value: Float[Array, "..."]

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "..."]:
        return self.value


class Layer(eqx.Module):
    """x W + b."""

    weight: Float[Array, "i o"]
    bias: Float[Array, " o"]

    def __init__(self, inputs: int, outputs: int, key: Key):
        self.weight = glorot(key, (inputs, outputs), inputs, outputs)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "*n i"]) -> Float[Array, "*n o"]:
        return x @ self.weight + self.bias


class PooledNetwork(eqx.Module):
    """Two tanh layers an item, the mean over the items present, a linear map."""

    first: Layer
    second: Layer
    last: Layer

    def __init__(self, inputs: int, hidden: int, outputs: int, key: Key):
        keys = jax.random.split(key, 3)
        self.first = Layer(inputs, hidden, keys[0])
        self.second = Layer(hidden, hidden, keys[1])
        self.last = Layer(hidden, outputs, keys[2])

    def __call__(self, f: ItemScores, present: Mask, dropout: Dropout | None) -> Float[Array, " o"]:
        hidden = jnp.tanh(f.times(self.first.weight) + self.first.bias)
        if dropout is not None:
            early, late = dropout.split()
            hidden = late(jnp.tanh(self.second(early(hidden))))
        else:
            hidden = jnp.tanh(self.second(hidden))
        return self.last(_masked.mean(hidden, present))


class JointNetwork(SetFunction):
    """One network sees all scores F(s) and gives all values at once: the default wiring."""

    network: PooledNetwork
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "..."]:
        return self.network(f, present, dropout).reshape(self.shape)


class SharedNetwork(SetFunction):
    """One network applied to each {f_i(z) : z in s} alone, as in the paper's theory section."""

    network: PooledNetwork
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "..."]:
        def one(theta: Float[Array, "h k"]) -> Float[Array, " o"]:
            return self.network(ItemScores(f.hidden, theta[:, None, :]), present, dropout)

        return jax.vmap(one, in_axes=1)(f.theta).reshape(self.shape)

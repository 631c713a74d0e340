"""w and r: functions of the whole set that do not depend on the order of its items.

Constants and statistics of the scores in a set give the classical models, a learned vector gives
an ablation, and a network gives the paper's models. All of them read the scores F(s), not the
features. A statistic is one number per score function, from the scores f_i(z) of the items z in s.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Array, Float, Key, Mask
from setwise.models.item_functions import ItemScores
from setwise.models.model import Dropout, glorot, inverse_softplus, safe_power


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
    """Two tanh layers per item, the mean over the items present, then a linear map."""

    first: Layer
    second: Layer
    last: Layer

    def __init__(self, inputs: int, hidden: int, outputs: int, key: Key):
        keys = jax.random.split(key, 3)
        self.first = Layer(inputs, hidden, keys[0])
        self.second = Layer(hidden, hidden, keys[1])
        self.last = Layer(hidden, outputs, keys[2])

    def __call__(self, f: ItemScores, present: Mask, dropout: Dropout | None) -> Float[Array, " o"]:
        return pooled([self], f, present, [dropout])[0]


def pooled(
    networks: Sequence[PooledNetwork],
    f: ItemScores,
    present: Mask,
    dropouts: Sequence[Dropout | None],
) -> list[Float[Array, " o"]]:
    """The values of networks of one size that read the same scores: their layers beside each other.

        h = tanh(F(x) [W1, W2] + [b1, b2])        h <- tanh(h diag(V1, V2) + [c1, c2])

    One layer of 32 units takes half as many operations as two of 16, and on a CPU a quarter of
    their time: XLA computes the tanh of a sum in vectors only where rows have more than 16 numbers.
    """
    first, second = [one.first for one in networks], [one.second for one in networks]
    noise = [(None, None) if one is None else one.split() for one in dropouts]
    hidden = jnp.tanh(f.times(_beside(one.weight for one in first)) + _biases(first))
    hidden = _dropped(hidden, [early for early, _ in noise])
    hidden = jnp.tanh(hidden @ _diagonal([one.weight for one in second]) + _biases(second))
    means = _masked.mean(_dropped(hidden, [late for _, late in noise]), present)
    parts = _apart(means, len(networks))
    return [one.last(part) for one, part in zip(networks, parts, strict=True)]


def _beside(parts: Iterable[Array]) -> Array:
    first, *others = parts
    return jnp.concatenate([first, *others], -1) if others else first


def _apart(values: Array, parts: int) -> list[Array]:
    """The last axis in parts of one length."""
    width = values.shape[-1] // parts
    return [values[..., part * width : (part + 1) * width] for part in range(parts)]


def _biases(layers: Sequence[Layer]) -> Array:
    return _beside(layer.bias for layer in layers)


def _diagonal(blocks: Sequence[Float[Array, "h h"]]) -> Float[Array, "hs hs"]:
    """The matrix with these blocks on its diagonal, and zeros elsewhere."""
    if len(blocks) == 1:
        return blocks[0]
    zeros = jnp.zeros_like(blocks[0])
    return jnp.concatenate([
        _beside(block if row == column else zeros for column, block in enumerate(blocks))
        for row in range(len(blocks))
    ])  # fmt: skip


def _dropped(hidden: Float[Array, "n hs"], noise: Sequence[Dropout | None]) -> Float[Array, "n hs"]:
    """The units of each network with noise of its own."""
    if noise[0] is None:
        return hidden
    each = zip(_apart(hidden, len(noise)), noise, strict=True)
    return _beside(units if one is None else one(units) for units, one in each)


class JointNetwork(SetFunction):
    """One network reads all scores F(s) and returns all values: the default wiring."""

    network: PooledNetwork
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "..."]:
        return self.network(f, present, dropout).reshape(self.shape)


def values(
    functions: Sequence[SetFunction],
    f: ItemScores,
    present: Mask,
    dropouts: Sequence[Dropout | None],
) -> list[Float[Array, "..."]]:
    """The value of each function for this set; networks of one size are computed as one."""
    networks = [one.network for one in functions if isinstance(one, JointNetwork)]
    hidden = {network.second.bias.shape for network in networks}
    if len(networks) < len(functions) or len(hidden) > 1:
        return [one(f, present, noise) for one, noise in zip(functions, dropouts, strict=True)]
    found = pooled(networks, f, present, dropouts)
    shapes = [one.shape for one in functions if isinstance(one, JointNetwork)]
    return [value.reshape(shape) for value, shape in zip(found, shapes, strict=True)]


class SharedNetwork(SetFunction):
    """One network, applied to each {f_i(z) : z in s} separately, as in the paper's theory."""

    network: PooledNetwork
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "..."]:
        def one(theta: Float[Array, "h k"]) -> Float[Array, " o"]:
            return self.network(ItemScores(f.hidden, theta[:, None, :]), present, dropout)

        return jax.vmap(one, in_axes=1)(f.theta).reshape(self.shape)


class Minimum(SetFunction):
    """min over s of f_i: the worst of the set."""

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, " l"]:
        return _masked.minimum(f.values[:, :, 0], present)


class Midpoint(SetFunction):
    """(max f_i + min f_i) / 2."""

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, " l"]:
        values = f.values[:, :, 0]
        return (_masked.maximum(values, present) + _masked.minimum(values, present)) / 2


class Extremes(SetFunction):
    """(min f_i, max f_i): the range in which a position is measured."""

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "l 2"]:
        values = f.values[:, :, 0]
        return jnp.stack([_masked.minimum(values, present), _masked.maximum(values, present)], -1)


class Spread(SetFunction):
    """max f_i - min f_i: scores in which the items differ more count more."""

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, " l"]:
        values = f.values[:, :, 0]
        return _masked.maximum(values, present) - _masked.minimum(values, present)


class PowerSpread(SetFunction):
    """(max f_i - min f_i)^rho, rho > 0 learned: Tversky's weights."""

    raw: Float[Array, ""]

    def __init__(self, start: float = 1.0):
        self.raw = inverse_softplus(start)

    @property
    def rho(self) -> Float[Array, ""]:
        """The exponent."""
        return jax.nn.softplus(self.raw)

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, " l"]:
        return safe_power(Spread()(f, present), self.rho)


class Selves(SetFunction):
    """softmax_i(tau a_i(s)), a_i linear in the mean and the maximum of f_i: which self decides."""

    from_mean: Float[Array, " l"]
    from_maximum: Float[Array, " l"]
    constant: Float[Array, " l"]
    raw: Float[Array, ""]

    def __init__(self, dimension: int, key: Key):
        first, second = jax.random.split(key)
        self.from_mean = glorot(first, (dimension,), dimension, 1)
        self.from_maximum = glorot(second, (dimension,), dimension, 1)
        self.constant = jnp.zeros(dimension)
        self.raw = inverse_softplus(1.0)

    @property
    def tau(self) -> Float[Array, ""]:
        """How sharply one self dominates."""
        return jax.nn.softplus(self.raw)

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, " l"]:
        values = f.values[:, :, 0]
        a = self.from_mean * _masked.mean(values, present) + self.constant
        a = a + self.from_maximum * _masked.maximum(values, present)
        return jax.nn.softmax(self.tau * a)


class SoftmaxAverage(SetFunction):
    """sum_z pi_z f_i(z), pi a softmax over s of learned scores: an attentive average."""

    attention: Float[Array, " l"]

    def __init__(self, dimension: int, key: Key):
        self.attention = glorot(key, (dimension,), dimension, 1)

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, " l"]:
        values = f.values[:, :, 0]
        pi = _masked.softmax(values @ self.attention, present)
        return pi @ jnp.where(present[:, None], values, 0)


class MeanLinear(SetFunction):
    """theta + A mean(f): the linear context logit's weights."""

    theta: Float[Array, " l"]
    A: Float[Array, "l l"]

    def __init__(self, dimension: int):
        # It starts without context: a convex model needs no other start.
        self.theta = jnp.zeros(dimension)
        self.A = jnp.zeros((dimension, dimension))

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, " l"]:
        return self.theta + self.A @ _masked.mean(f.values[:, :, 0], present)

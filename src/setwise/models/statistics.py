"""w and r of the classical models: statistics of the scores in a set, with few parameters.

Every value is one number for each of the l score functions, from the scores f_i(z) of the items
z in s.
"""

import jax
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Array, Float, Key, Mask
from setwise.models.initial import glorot
from setwise.models.item_functions import ItemScores
from setwise.models.model import Dropout
from setwise.models.positive import inverse_softplus, safe_power
from setwise.models.set_functions import SetFunction


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
    """(min f_i, max f_i): what a position within the range is measured by."""

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, "l 2"]:
        values = f.values[:, :, 0]
        return jnp.stack([_masked.minimum(values, present), _masked.maximum(values, present)], -1)


class Spread(SetFunction):
    """max f_i - min f_i: dimensions on which the items differ count more."""

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
        """How sharply one self takes over."""
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
        # No context at first: a convex model needs no other start.
        self.theta = jnp.zeros(dimension)
        self.A = jnp.zeros((dimension, dimension))

    def __call__(
        self, f: ItemScores, present: Mask, dropout: Dropout | None = None
    ) -> Float[Array, " l"]:
        return self.theta + self.A @ _masked.mean(f.values[:, :, 0], present)

"""How an item's scores F(x) are compared with the reference point r(s), and how that is felt, mu.

The paper's mu is the kinked tanh: gains and losses saturate, and losses weigh c > 1 times as much.
"""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise._types import Array, Evaluated, Float
from setwise.models.item_functions import ItemScores
from setwise.models.model import FLOOR, inverse_softplus, safe_power

Comparison = Callable[[ItemScores, Float[Array, "..."]], Evaluated]


def difference(f: ItemScores, r: Float[Array, " l"]) -> Evaluated:
    """f_i(x) - r_i(s): the paper's Eq. 5. Scores and references are numbers."""
    return f.values[:, :, 0] - r


def inner(f: ItemScores, r: Float[Array, "l k"]) -> Evaluated:
    """< f_i(x), r_i(s) >: what the paper's experiments use. Both are vectors of size k."""
    return f.inner(r)


def range_position(f: ItemScores, r: Float[Array, "l 2"]) -> Evaluated:
    """(f_i(x) - min) / (max - min), with r = (min, max) of the set; 0 where they are equal."""
    low, spread = r[:, 0], r[:, 1] - r[:, 0]
    apart = spread > FLOOR
    return jnp.where(apart, (f.values[:, :, 0] - low) / jnp.where(apart, spread, 1.0), 0.0)


class Evaluation(eqx.Module):
    """mu, applied to each compared score separately."""

    @abstractmethod
    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """mu(z)."""


class Identity(Evaluation):
    """mu(z) = z."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return z


class Tanh(Evaluation):
    """mu(z) = tanh z."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.tanh(z)


class KinkedTanh(Evaluation):
    """mu(z) = tanh z for gains, c tanh z for losses; c = 1 + softplus(raw) > 1 is learned.

    >>> mu = KinkedTanh(start=2.0)
    >>> [round(float(mu(jnp.array(z))), 4) for z in (-1.0, 0.0, 1.0)]
    [-1.5232, 0.0, 0.7616]
    """

    raw: Float[Array, ""]

    def __init__(self, start: float = 1.5):
        self.raw = inverse_softplus(start - 1.0)

    @property
    def c(self) -> Float[Array, ""]:
        """The weight of losses."""
        return 1 + jax.nn.softplus(self.raw)

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        felt = jnp.tanh(z)
        return jnp.where(z < 0, self.c * felt, felt)


class KinkedLinear(Evaluation):
    """mu(z) = z for gains, c z for losses; c = 1 + softplus(raw) > 1 is learned.

    >>> [float(KinkedLinear(start=2.0)(jnp.array(z)).round(4)) for z in (-1.0, 3.0)]
    [-2.0, 3.0]
    """

    raw: Float[Array, ""]

    def __init__(self, start: float = 1.5):
        self.raw = inverse_softplus(start - 1.0)

    @property
    def c(self) -> Float[Array, ""]:
        """The weight of losses."""
        return 1 + jax.nn.softplus(self.raw)

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(z < 0, self.c * z, z)


class Power(Evaluation):
    """mu(z) = z^rho for z >= 0, rho > 0 learned; concave for rho < 1.

    Below a millionth it is 0 and flat, because the slope of a concave power is unbounded there.

    >>> [float(Power(start=0.5)(jnp.array(z)).round(4)) for z in (0.0, 4.0)]
    [0.0, 2.0]
    """

    raw: Float[Array, ""]

    def __init__(self, start: float = 0.8):
        self.raw = inverse_softplus(start)

    @property
    def rho(self) -> Float[Array, ""]:
        """The exponent."""
        return jax.nn.softplus(self.raw)

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return safe_power(z, self.rho)


class Logarithm(Evaluation):
    """mu(z) = log(z + epsilon) for z >= 0, epsilon > 0 learned.

    >>> float(Logarithm(start=1.0)(jnp.array(0.0)))
    0.0
    """

    raw: Float[Array, ""]

    def __init__(self, start: float = 0.1):
        self.raw = inverse_softplus(start)

    @property
    def epsilon(self) -> Float[Array, ""]:
        """Keeps the value of the worst item finite."""
        return jax.nn.softplus(self.raw)

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        # Items that are present are never below the minimum; the values of absent ones may be.
        return jnp.log(jnp.maximum(z, 0) + self.epsilon)

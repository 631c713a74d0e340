"""mu: how a score is felt once it is compared with the reference point.

The paper's mu is the kinked tanh: gains and losses saturate, and losses loom larger by c > 1.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise._types import Array, Float


class Evaluation(eqx.Module):
    """mu, applied to every compared score alone."""

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
        self.raw = jnp.log(
            jnp.expm1(jnp.asarray(start - 1.0, jnp.float32))
        )  # the inverse of softplus

    @property
    def c(self) -> Float[Array, ""]:
        """The weight of losses."""
        return 1 + jax.nn.softplus(self.raw)

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        felt = jnp.tanh(z)
        return jnp.where(z < 0, self.c * felt, felt)

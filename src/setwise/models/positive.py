"""Positive parameters and powers, with gradients that stay finite."""

import jax.numpy as jnp

from setwise._types import Array, Float

FLOOR = 1e-6


def inverse_softplus(value: float) -> Float[Array, ""]:
    """The raw parameter whose softplus is this positive value.

    >>> import jax
    >>> round(float(jax.nn.softplus(inverse_softplus(0.3))), 6)
    0.3
    """
    return jnp.log(jnp.expm1(jnp.asarray(value, jnp.float32)))


def safe_power(z: Float[Array, "..."], rho: Float[Array, ""]) -> Float[Array, "..."]:
    """z^rho for z >= 0; zero, with zero slope, below ``FLOOR``."""
    large = z > FLOOR
    return jnp.where(large, jnp.where(large, z, 1.0) ** rho, 0.0)

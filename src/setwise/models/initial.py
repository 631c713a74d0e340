"""Initial weights."""

import jax
import jax.numpy as jnp

from setwise._types import Array, Float, Key


def glorot(key: Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float[Array, "..."]:
    """Uniform weights of variance 2 / (fan_in + fan_out): signals and gradients keep scale."""
    bound = jnp.sqrt(6 / (fan_in + fan_out))
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)

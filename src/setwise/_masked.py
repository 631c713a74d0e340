"""Statistics over the items that are present, for sets padded to a common size.

Padding never changes a result: absent items are replaced by the operation's neutral element, so
that their gradients are zero and not undefined.
"""

import jax
import jax.numpy as jnp

from setwise._types import Array, Bool, Float, Mask, Scores


def mean(values: Float[Array, " n *rest"], present: Mask) -> Float[Array, " *rest"]:
    """Mean over the present items.

    >>> float(mean(jnp.array([1.0, 3.0, 99.0]), jnp.array([True, True, False])))
    2.0
    """
    kept = jnp.where(_like(present, values), values, 0)
    return kept.sum(0) / jnp.maximum(present.sum(), 1)


def maximum(values: Float[Array, " n *rest"], present: Mask) -> Float[Array, " *rest"]:
    """Largest value of the present items; ties share the gradient."""
    return jnp.where(_like(present, values), values, -jnp.inf).max(0)


def minimum(values: Float[Array, " n *rest"], present: Mask) -> Float[Array, " *rest"]:
    """Smallest value of the present items; ties share the gradient."""
    return jnp.where(_like(present, values), values, jnp.inf).min(0)


def log_softmax(scores: Scores, present: Mask) -> Scores:
    """Log-probabilities of the present items; minus infinity for absent ones."""
    return jax.nn.log_softmax(jnp.where(present, scores, -jnp.inf))


def softmax(scores: Scores, present: Mask) -> Scores:
    """Choice probabilities P(x | s) = exp g(x, s) / sum over s; zero for absent items.

    >>> softmax(jnp.array([0.0, 0.0, 5.0]), jnp.array([True, True, False])).tolist()
    [0.5, 0.5, 0.0]
    """
    return jnp.exp(log_softmax(scores, present))


def _like(present: Mask, values: Float[Array, " n *rest"]) -> Bool[Array, " n *ones"]:
    return present.reshape(present.shape + (1,) * (values.ndim - 1))

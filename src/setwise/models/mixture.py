"""Mixtures of logits: a class of people is drawn first, then the class's choice."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from setwise._types import Array, Evaluated, Float, Items, Key, Mask, Scores
from setwise.models.blueprint import Blueprint, Sizes
from setwise.models.initial import glorot
from setwise.models.model import Dropout, Model


def inclusive_values(f: Evaluated, present: Mask) -> Float[Array, " l"]:
    """I_i = log sum over the items z present of exp f_i(z).

    >>> f = jnp.log(jnp.array([[1.0, 5.0], [2.0, 5.0], [9.0, 9.0]]))
    >>> jnp.exp(inclusive_values(f, jnp.array([True, True, False]))).round(4).tolist()
    [3.0, 10.0]
    """
    return jax.nn.logsumexp(jnp.where(present[:, None], f, -jnp.inf), axis=0)


def log_mixture(
    log_shares: Float[Array, " l"], f: Evaluated, inclusive: Float[Array, " l"]
) -> Scores:
    """log P(x | s) = log sum_i share_i exp(f_i(x) - I_i): its softmax over s is P itself.

    >>> f = jnp.log(jnp.array([[1.0, 3.0], [1.0, 1.0]]))
    >>> shares = jnp.log(jnp.array([0.5, 0.5]))
    >>> jnp.exp(log_mixture(shares, f, inclusive_values(f, jnp.ones(2, bool)))).round(4).tolist()
    [0.625, 0.375]
    """
    return jax.nn.logsumexp(log_shares + f - inclusive, axis=1)


class Mixture(Model):
    """Discrete mixed logit: P(x | s) = sum_k pi_k softmax over s of < theta_k, x >.

    Scores are log P, and pi is the softmax of ``logits``. Within a class IIA holds; across
    classes it fails: an item takes most from those that the same people like.
    """

    theta: Float[Array, "d l"]
    logits: Float[Array, " l"]

    def __init__(self, features: int, classes: int, key: Key):
        self.theta = glorot(key, (features, classes), features, classes)
        self.logits = jnp.zeros(classes)

    @property
    def shares(self) -> Float[Array, " l"]:
        """pi: how many people belong to each class."""
        return jax.nn.softmax(self.logits)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        f = items @ self.theta
        return log_mixture(jax.nn.log_softmax(self.logits), f, inclusive_values(f, present))


@dataclass(frozen=True)
class MixtureBlueprint(Blueprint):
    """:class:`Mixture` for the zoo, with l = ``dimension`` classes."""

    def build(self, features: int, sizes: Sizes, key: Key) -> Mixture:
        return Mixture(features, sizes.dimension, key)

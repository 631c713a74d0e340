"""Mixtures of logits: each class of people chooses by a logit of its own. Soft, learned nests too.

Given nests are in :mod:`setwise.models.nested`.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Array, Evaluated, Float, Items, Key, Mask, Scores
from setwise.models.model import Blueprint, Dropout, Model, Sizes, glorot


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

    Scores are log P, and pi is the softmax of ``logits``. Within a class IIA holds. Across classes
    it fails: an item takes most from the items that the same people like.

    With ``membership``, pi is the softmax of ``logits`` + < gamma_k, z >, where z is the mean of
    the items present: gamma is 0 but for context, which all items of a set have in common.
    """

    theta: Float[Array, "d l"]
    logits: Float[Array, " l"]
    gamma: Float[Array, "d l"] | None

    def __init__(self, features: int, classes: int, key: Key, membership: bool = False):
        self.theta = glorot(key, (features, classes), features, classes)
        self.logits = jnp.zeros(classes)
        self.gamma = jnp.zeros((features, classes)) if membership else None

    @property
    def shares(self) -> Float[Array, " l"]:
        """pi: the share of people in each class."""
        return jax.nn.softmax(self.logits)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        f, logits = items @ self.theta, self.logits
        if self.gamma is not None:
            logits = logits + _masked.mean(items, present) @ self.gamma
        return log_mixture(jax.nn.log_softmax(logits), f, inclusive_values(f, present))


@dataclass(frozen=True)
class MixtureBlueprint(Blueprint):
    """:class:`Mixture` for the zoo, with l = ``dimension`` classes."""

    def build(self, features: int, sizes: Sizes, key: Key) -> Mixture:
        return Mixture(features, sizes.dimension, key)


class SoftNested(Model):
    """McFadden's (1978) nests, made soft: each has a score function f_i of its own.

        g(x, s) = log sum_i softmax_i(W_i + lambda_i I_i) exp(f_i(x) - I_i),
        I_i = log sum over z in s of exp f_i(z)

    A nest is chosen with a probability that rises with its inclusive value I_i, then an item within
    it. g is log P itself. 0 < lambda_i < 1, the sigmoid of ``raw``; lambda = 0 is
    the mixed logit.
    """

    theta: Float[Array, "d l"]
    W: Float[Array, " l"]
    raw: Float[Array, " l"]

    def __init__(self, features: int, nests: int, key: Key):
        self.theta = glorot(key, (features, nests), features, nests)
        self.W = jnp.zeros(nests)
        self.raw = jnp.zeros(nests)

    @property
    def lambdas(self) -> Float[Array, " l"]:
        """How much the inclusive value of a nest attracts people."""
        return jax.nn.sigmoid(self.raw)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        f = items @ self.theta
        inclusive = inclusive_values(f, present)
        entered = jax.nn.log_softmax(self.W + self.lambdas * inclusive)
        return log_mixture(entered, f, inclusive)


@dataclass(frozen=True)
class SoftNestedBlueprint(Blueprint):
    """:class:`SoftNested` for the zoo, with l = ``dimension`` nests."""

    def build(self, features: int, sizes: Sizes, key: Key) -> SoftNested:
        return SoftNested(features, sizes.dimension, key)

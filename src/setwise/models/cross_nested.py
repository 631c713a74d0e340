"""The cross-nested logit: an item may belong to several nests, to each in part."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from setwise._types import Array, Bool, Float, Items, Mask, Scores
from setwise.models.model import Dropout, Model


class CrossNested(Model):
    """Cross-nested logit (Vovsha 1997), for alternatives that columns of the items mark.

        g(x, s) = log sum over nests k of exp( f_k(x) + (lambda_k - 1) I_k ),
        f_k(x) = (< theta, x > + log alpha_xk) / lambda_k,
        I_k = log sum over the items z of nest k in s of exp f_k(z)

    lambda is the exponential of ``raw`` (one for all nests, or one each), and the alphas of an
    alternative, which add up to 1, are the softmax of ``logits`` over its nests. ``member`` says
    which alternatives are in which nests, and the columns from ``start`` on, above 0, which
    alternative an item is. An item that is none of them has g = < theta, x >.
    """

    theta: Float[Array, " d"]
    raw: Float[Array, " r"]
    logits: Float[Array, "a k"]
    member: tuple[tuple[bool, ...], ...] = eqx.field(static=True)
    start: int = eqx.field(static=True)

    def __init__(self, features: int, member: tuple[tuple[bool, ...], ...], start: int, one: bool):
        self.member, self.start = member, start
        self.theta = jnp.zeros(features)
        self.raw = jnp.zeros(1 if one else len(member[0]))
        self.logits = jnp.zeros((len(member), len(member[0])))

    @property
    def lambdas(self) -> Float[Array, " k"]:
        """How different the items of each nest are."""
        return jnp.broadcast_to(jnp.exp(self.raw), (len(self.member[0]),))

    @property
    def log_alphas(self) -> Float[Array, "a k"]:
        """log alpha of each alternative in its nests; 0 in the others."""
        inside = np.array(self.member)
        return jnp.where(inside, jax.nn.log_softmax(jnp.where(inside, self.logits, -1e30)), 0)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        marks = items[:, self.start : self.start + len(self.member)] > 0
        of_nests = jnp.where(marks[:, :, None], jnp.array(self.member), False).any(1)
        logs = jnp.where(marks[:, :, None], self.log_alphas, 0).sum(1)
        return cross_nested_scores(items @ self.theta, of_nests, logs, self.lambdas, present)


def cross_nested_scores(
    utilities: Scores,
    member: Bool[Array, "n k"],
    log_alphas: Float[Array, "n k"],
    lambdas: Float[Array, " k"],
    present: Mask,
) -> Scores:
    """g of every item; see :class:`CrossNested`.

    >>> member = jnp.array([[True, True], [True, False], [False, True]])
    >>> half = jnp.where(member, jnp.log(jnp.array([[0.5], [1.0], [1.0]])), 0)
    >>> g = cross_nested_scores(jnp.zeros(3), member, half, jnp.ones(2), jnp.ones(3, bool))
    >>> [round(float(p), 4) for p in jax.nn.softmax(g)]  # with lambdas of 1 it is the MNL
    [0.3333, 0.3333, 0.3333]
    """
    f = (utilities[:, None] + log_alphas) / lambdas
    inside = member & present[:, None]
    peopled = inside.any(0)
    # A nest without items is computed with zeros, so that gradients stay defined, then dropped.
    within = jnp.where(inside, f, jnp.where(peopled, -jnp.inf, 0))
    inclusive = jnp.where(peopled, jax.nn.logsumexp(within, axis=0), 0)
    nested = member.any(1)
    parts = jnp.where(
        member, f + (lambdas - 1) * inclusive, jnp.where(nested[:, None], -jnp.inf, 0)
    )
    return jnp.where(nested, jax.nn.logsumexp(parts, axis=1), utilities)

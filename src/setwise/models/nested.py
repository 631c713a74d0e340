"""The nested logit for given nests, of one level or several."""

from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from setwise._types import Array, Bool, Float, Items, Mask, Scores
from setwise.models.model import Dropout, Model


class Nested(Model):
    """Nested logit (McFadden 1978) for given nests, which may hold nests, with V = < theta, x >.

        g(x, s) = V_x / scale_x + sum over the nests m that hold x of (lambda_m - 1) I_m,
        exp I_m = sum over the items z of m itself in s of exp(V_z / scale_z)
                  + sum over the nests c within m of exp(lambda_c I_c)

    where scale_x is the product of the lambdas of all nests that hold x. So P(c | m, s) is the
    softmax of lambda_c I_c over what is in m. With one level, g is V_x / lambda_k
    + (lambda_k - 1) I_k for x in nest k, and P(k | s) is the softmax over nests of lambda_k I_k.

    lambda is the sigmoid of ``raw``, or its exponential if it is not ``bounded`` by 1; ``shared``
    gives the place in ``raw`` of each nest's lambda. A nest with lambda = 1 is none.

    The columns from ``start`` on mark the nests, level after level from the outermost; ``levels``
    counts the nests of each. An item is in the nests whose columns are above zero, as a
    standardised one-hot column is at its level. An item in no nest (the outside option) has g = V.
    """

    theta: Float[Array, " d"]
    raw: Float[Array, " r"]
    levels: tuple[int, ...] = eqx.field(static=True)
    start: int = eqx.field(static=True)
    shared: tuple[int, ...] = eqx.field(static=True)
    bounded: bool = eqx.field(static=True)

    def __init__(
        self,
        features: int,
        levels: tuple[int, ...],
        start: int,
        shared: tuple[int, ...] | None = None,
        bounded: bool = True,
    ):
        self.levels, self.start, self.bounded = levels, start, bounded
        self.shared = tuple(range(sum(levels))) if shared is None else shared
        self.theta = jnp.zeros(features)
        self.raw = jnp.full(max(self.shared) + 1, jnp.log(9.0 if bounded else 0.9))

    @property
    def lambdas(self) -> Float[Array, " k"]:
        """How different the items of a nest are: near 0 they act as one, at 1 there is no nest."""
        found = jax.nn.sigmoid(self.raw) if self.bounded else jnp.exp(self.raw)
        own = np.equal.outer(self.shared, np.arange(len(self.raw)))
        return jnp.where(own, found, 0).sum(1)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        member = items[:, self.start : self.start + sum(self.levels)] > 0
        return nested_scores(items @ self.theta, member, self.lambdas, self.levels, present)


def nested_scores(
    utilities: Scores,
    member: Bool[Array, "n k"],
    lambdas: Float[Array, " k"],
    levels: tuple[int, ...],
    present: Mask,
) -> Scores:
    """g of every item; see :class:`Nested`.

    The terms of a nest within m add up to exp(lambda_c I_c) over its items, since the sum over them
    of exp(g so far) is exp I_c. So I_m is a sum over items at every level.

    >>> member = jnp.array([[True, False], [True, False], [False, True]])
    >>> lambdas, everyone = jnp.array([0.5, 1.0]), jnp.ones(3, bool)
    >>> g = nested_scores(jnp.zeros(3), member, lambdas, (2,), everyone)
    >>> [round(float(p), 4) for p in jax.nn.softmax(g)]  # the nest of two weighs 2 ** 0.5, not 2
    [0.2929, 0.2929, 0.4142]
    """
    stops = accumulate(levels)
    parts = [slice(stop - count, stop) for stop, count in zip(stops, levels, strict=True)]
    g = utilities
    for level in parts:
        held = member[:, level]
        g = g / jnp.where(held.any(1), jnp.where(held, lambdas[level], 0).sum(1), 1)
    for level in reversed(parts):
        held = member[:, level]
        inside = held & present[:, None]
        peopled = inside.any(0)
        # A nest without items is computed with zeros, so that gradients stay defined, then dropped.
        within = jnp.where(inside, g[:, None], jnp.where(peopled, -jnp.inf, 0))
        inclusive = jnp.where(peopled, jax.nn.logsumexp(within, axis=0), 0)
        g = g + jnp.where(held, (lambdas[level] - 1) * inclusive, 0).sum(1)
    return g

"""F: from an item's features to its l scores, each with k components.

The last step of every F is linear, f(x) = h(x) Theta, and h is small. Nearly always another linear
map follows. :class:`ItemScores` therefore keeps the two factors apart: multiplying Theta with that
map first costs one product per set instead of one per item. Only items seen in pieces have more
numbers than scores; for them the product is computed at once.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise._types import Array, Evaluated, Float, Key
from setwise.models.model import Dropout, glorot
from setwise.models.within_set import SplitColumns, Viewed

UNITS = 64
"""Units of the hidden layer of F, if it has one."""


class ItemScores(eqx.Module):
    """F(x) of the n items of a set, as the product of ``hidden`` (n x h) and ``theta`` (h x l x k).

    >>> f = ItemScores(jnp.ones((3, 2)), jnp.ones((2, 4, 1)))
    >>> f.values.shape
    (3, 4, 1)
    """

    hidden: Viewed
    theta: Float[Array, "h l k"]

    @classmethod
    def of(cls, x: Viewed, theta: Float[Array, "h l k"]) -> "ItemScores":
        """x Theta. Seen in pieces, x has more numbers than scores: the product is computed.

        >>> x = SplitColumns(jnp.ones((3, 2)), jnp.ones((3, 7)))
        >>> ItemScores.of(x, jnp.ones((9, 4, 1))).hidden.shape
        (3, 4)
        """
        h, l, k = theta.shape  # noqa: E741
        if isinstance(x, SplitColumns) and h > l * k:
            return cls(x @ theta.reshape(h, l * k), jnp.eye(l * k).reshape(l * k, l, k))
        return cls(x, theta)

    @property
    def values(self) -> Float[Array, "n l k"]:
        """The scores themselves."""
        h, l, k = self.theta.shape  # noqa: E741
        return (self.hidden @ self.theta.reshape(h, l * k)).reshape(-1, l, k)

    def times(self, matrix: Float[Array, "lk m"]) -> Float[Array, "n m"]:
        """F(x) M, computed as h (Theta M)."""
        return self.hidden @ (self.theta.reshape(self.theta.shape[0], -1) @ matrix)

    def inner(self, r: Float[Array, "l k"]) -> Evaluated:
        """< f_i(x), r_i > for every i, computed as h (Theta_i r_i)."""
        return self.hidden @ jnp.einsum("hlk,lk->hl", self.theta, r)


class ItemFunction(eqx.Module):
    """F, applied to all items of a set at once, to each without regard to the others."""

    @abstractmethod
    def __call__(self, x: Viewed, dropout: Dropout | None = None) -> ItemScores:
        """The items' scores, in factored form."""


class Linear(ItemFunction):
    """F(x) = x Theta, the paper's choice. A constant term would cancel in every comparison."""

    theta: Float[Array, "d l k"]

    def __init__(self, features: int, dimension: int, components: int, key: Key):
        self.theta = glorot(key, (features, dimension, components), features, dimension)

    def __call__(self, x: Viewed, dropout: Dropout | None = None) -> ItemScores:
        return ItemScores.of(x, self.theta)


class Hidden(ItemFunction):
    """F(x) = relu(x A + a) Theta: scores in which features interact.

    >>> F = Hidden(8, 4, 1, jax.random.key(0))
    >>> F(jnp.ones((3, 8))).values.shape
    (3, 4, 1)
    """

    A: Float[Array, "d h"]
    a: Float[Array, " h"]
    theta: Float[Array, "h l k"]

    def __init__(self, features: int, dimension: int, components: int, key: Key):
        for_A, for_theta = jax.random.split(key)
        self.A = glorot(for_A, (features, UNITS), features, UNITS)
        self.a = jnp.zeros(UNITS)
        self.theta = glorot(for_theta, (UNITS, dimension, components), UNITS, dimension)

    def __call__(self, x: Viewed, dropout: Dropout | None = None) -> ItemScores:
        hidden = jax.nn.relu(x @ self.A + self.a)
        return ItemScores(hidden if dropout is None else dropout(hidden), self.theta)


class Features(ItemFunction):
    """F(x) = x: each feature is its own score. Nothing is learned."""

    def __call__(self, x: Viewed, dropout: Dropout | None = None) -> ItemScores:
        return ItemScores(x, jnp.eye(x.shape[1])[:, :, None])

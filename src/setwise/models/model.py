"""What every model is: a function from one choice set to one score an item."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Array, Float, Items, Key, Mask, Scores


class Dropout(eqx.Module):
    """Noise for one pass through the networks: each unit is kept with probability ``keep``.

    ``keep`` is an array, not a constant, so that models with different rates share one program.
    """

    key: Key
    keep: float | Float[Array, ""]

    def split(self) -> "tuple[Dropout, Dropout]":
        """Two independent sources of noise."""
        first, second = jax.random.split(self.key)
        return Dropout(first, self.keep), Dropout(second, self.keep)

    def three(self) -> "tuple[Dropout, Dropout, Dropout]":
        """Three independent sources of noise, the first two as :meth:`split` gives them."""
        first, second, third = (Dropout(key, self.keep) for key in jax.random.split(self.key, 3))
        return first, second, third

    def __call__(self, hidden: Float[Array, "..."]) -> Float[Array, "..."]:
        """Zero the dropped units and scale up the others, so that the mean stays."""
        # Sixteen random bits decide a unit: half the cost of a float, which is most of dropout's.
        bits = jax.random.bits(self.key, hidden.shape, jnp.uint16)
        kept = bits < jnp.asarray(self.keep * 65536, jnp.float32)
        return jnp.where(kept, hidden / self.keep, 0)


class Model(eqx.Module):
    """A choice model: g(x, s) for the items x of one set s.

    Models are written for one set; ``jax.vmap`` makes batches. ``present`` marks the real items
    of a padded set: scores of absent items are meaningless and must not influence the others.
    """

    @abstractmethod
    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        """g(x, s) for every item of the set; ``dropout`` is given while training only."""

    def probabilities(self, items: Items, present: Mask) -> Scores:
        """P(x | s), the softmax of the scores over the set."""
        return _masked.softmax(self.scores(items, present), present)

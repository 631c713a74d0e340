"""Several models of one kind as one: the mean of their probabilities."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise import _masked
from setwise._types import Items, Mask, Scores
from setwise.models.model import Dropout, Model


class Ensemble(Model):
    """P(x | s) = mean over members m of P_m(x | s); g(x, s) is its logarithm.

    ``members`` is one model whose arrays have one more axis, the first, along the members.

    >>> from setwise.models import ZOO, Sizes
    >>> alone = [ZOO["sda"].build(2, Sizes(), jax.random.key(seed)) for seed in range(3)]
    >>> items, present = jnp.eye(2), jnp.ones(2, bool)
    >>> mean = sum(model.probabilities(items, present) for model in alone) / 3
    >>> bool(jnp.allclose(Ensemble.of(alone).probabilities(items, present), mean))
    True
    """

    members: Model

    @classmethod
    def of(cls, models: Sequence[Model]) -> "Ensemble":
        """The ensemble of these models."""
        return cls(jax.tree.map(lambda *leaves: jnp.stack(leaves), *models))

    @classmethod
    def skeleton(cls, model: Model, size: int) -> "Ensemble":
        """Of so many models like this one, with shapes in place of weights."""

        def several(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype)

        return cls(jax.tree.map(several, model))

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        def one(model: Model) -> Scores:
            return _masked.log_softmax(model.scores(items, present, dropout), present)

        logs = eqx.filter_vmap(one)(self.members)
        # Absent items have log-probability -inf in every member: any finite score does for them.
        return jnp.where(present, jax.nn.logsumexp(jnp.where(present, logs, 0), axis=0), 0)

"""Several models of one kind as one: a mean of their probabilities."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from setwise import _masked
from setwise._types import Array, Float, Items, Mask, Scores
from setwise.models.model import Dropout, Model


class Ensemble(Model):
    """P(x | s) = sum over members m of p_m P_m(x | s); g(x, s) is its logarithm.

    ``members`` is one model whose arrays have one more axis, the first, along the members. Without
    ``weight`` all count alike; with it, p_m = weight_m.

    >>> from setwise.models import ZOO, Sizes
    >>> alone = [ZOO["sda"].build(2, Sizes(), jax.random.key(seed)) for seed in range(3)]
    >>> items, present = jnp.eye(2), jnp.ones(2, bool)
    >>> mean = sum(model.probabilities(items, present) for model in alone) / 3
    >>> bool(jnp.allclose(Ensemble.of(alone).probabilities(items, present), mean))
    True
    """

    members: Model
    weight: Float[Array, " members"] | None = None

    @classmethod
    def of(
        cls, models: Sequence[Model], weight: Float[np.ndarray, " members"] | None = None
    ) -> "Ensemble":
        """The ensemble of these models; of those with a weight of 0 nothing is kept."""
        if weight is None:
            return cls(jax.tree.map(lambda *leaves: jnp.stack(leaves), *models))
        kept = [model for model, one in zip(models, weight, strict=True) if one > 0]
        return cls(cls.of(kept).members, jnp.asarray(weight[weight > 0], jnp.float32))

    @classmethod
    def skeleton(cls, model: Model, size: int, weighed: bool = False) -> "Ensemble":
        """Of so many models like this one, with shapes in place of weights."""

        def several(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype)

        skeleton = cls(jax.tree.map(several, model))
        if not weighed:
            return skeleton
        weight = jax.ShapeDtypeStruct((size,), jnp.float32)
        return eqx.tree_at(lambda one: one.weight, skeleton, weight, is_leaf=lambda x: x is None)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        def one(model: Model) -> Scores:
            return _masked.log_softmax(model.scores(items, present, dropout), present)

        logs = eqx.filter_vmap(one)(self.members)
        if self.weight is not None:
            logs = logs + jnp.log(self.weight)[:, None]
        # Absent items have log-probability -inf in every member: any finite score does for them.
        return jnp.where(present, jax.nn.logsumexp(jnp.where(present, logs, 0), axis=0), 0)

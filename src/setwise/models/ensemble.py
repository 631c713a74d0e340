"""Several models as one: a mean of their probabilities."""

from collections.abc import Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from setwise import _masked
from setwise._types import Array, Float, Items, Mask, Scores
from setwise.models.model import Dropout, Model


class Ensemble(Model):
    """P(x | s) = sum over members m of p_m P_m(x | s); g(x, s) is its logarithm.

    ``members`` holds one model per kind of member; its arrays have an additional first axis, along
    the members of that kind. Models with trees are each a kind of their own, without this axis:
    trees differ in the number of their splits. Without ``weight`` all members count equally; with
    it, p_m = weight_m, in the order of ``members``.

    >>> from setwise.models import ZOO, Sizes
    >>> alone = [ZOO["sdw"].build(2, Sizes(), jax.random.key(seed)) for seed in range(3)]
    >>> items, present = jnp.eye(2), jnp.ones(2, bool)
    >>> mean = sum(model.probabilities(items, present) for model in alone) / 3
    >>> bool(jnp.allclose(Ensemble.of(alone).probabilities(items, present), mean))
    True
    """

    members: tuple[Model, ...]
    weight: Float[Array, " members"] | None = None

    @classmethod
    def of(
        cls, models: Sequence[Model], weight: Float[np.ndarray, " members"] | None = None
    ) -> "Ensemble":
        """The ensemble of these models, without those whose weight is 0."""
        if weight is None:
            return cls(tuple(_stacked([models[n] for n in kind]) for kind in kinds(models)))
        kept = np.flatnonzero(weight)
        models = [model for model, one in zip(models, weight, strict=True) if one]
        order = [number for kind in kinds(models) for number in kind]
        shares = weight[kept][order].astype(np.float32)
        return cls(cls.of(models).members, jax.device_put(shares))

    @classmethod
    def skeleton(cls, models: Sequence[Model], weighed: bool = False) -> "Ensemble":
        """The ensemble of these skeletons: shapes in place of weights."""
        stacks = [[models[number] for number in kind] for kind in kinds(models)]
        skeleton = cls(tuple(eqx.filter_eval_shape(_stacked, models) for models in stacks))
        if not weighed:
            return skeleton
        weight = jax.ShapeDtypeStruct((len(models),), jnp.float32)
        return eqx.tree_at(lambda one: one.weight, skeleton, weight, is_leaf=lambda x: x is None)

    @property
    def differentiable(self) -> bool:
        """Whether those of all members have derivatives."""
        return all(kind.differentiable for kind in self.members)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        def one(model: Model) -> Scores:
            return _masked.log_softmax(model.scores(items, present, dropout), present)

        logs = jnp.concatenate([
            eqx.filter_vmap(one)(kind) if kind.differentiable else one(kind)[None]
            for kind in self.members
        ])  # fmt: skip
        if self.weight is not None:
            logs = logs + jnp.log(self.weight)[:, None]
        # Absent items have log-probability -inf in every member; any finite score serves for them.
        return jnp.where(present, jax.nn.logsumexp(jnp.where(present, logs, 0), axis=0), 0)


def kinds(models: Sequence[Model]) -> list[list[int]]:
    """The numbers of the models of each kind; models of a kind differ only in their arrays."""
    numbers: dict[Any, list[int]] = {}
    for number, model in enumerate(models):
        kind = jax.tree.structure(model) if model.differentiable else number
        numbers.setdefault(kind, []).append(number)
    return list(numbers.values())


def _stacked(models: Sequence[Model]) -> Model:
    if not models[0].differentiable:
        return models[0]
    return cast(Model, jax.tree.map(_stack, *models))


def _stack(*leaves: Any) -> Array:
    if all(isinstance(leaf, (np.ndarray, np.generic)) for leaf in leaves):
        return jax.device_put(np.stack(leaves))  # compiles nothing, as jnp.stack would per shape
    return jnp.stack(leaves)

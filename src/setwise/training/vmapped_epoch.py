"""Many models as one program: the epoch of :mod:`setwise.training.loop`, mapped twice.

A *stream* is a sequence of batches: some data in a random order. All models of a stream see the
same batches and the same dropout noise, so each batch is gathered once and the first product of
all its models is one large one. Arrays of models have the axes (streams, lanes).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int

from setwise import _masked
from setwise._types import Array, Float, Key
from setwise.models import Model
from setwise.training import loop
from setwise.training.device import DeviceData, gather
from setwise.training.loop import Hyper, Program, State


class Batches(NamedTuple):
    """One epoch's batches of every stream, the key of their noise, and the bucket of each step.

    All streams are at the same bucket, so that choosing its program stays a choice; a stream that
    has no batch there has an empty one.
    """

    sets: Int[Array, "streams steps batch"]
    key: Key  # one a stream
    numbers: Int[Array, " steps"]  # -1: idle


@eqx.filter_jit  # a program of its own, or each weight's copy would be one
def start(models: Sequence[Model], lanes: int) -> State:
    """The state before the first step; all lanes of a stream begin with its model's weights."""

    def repeated(*leaves: Array) -> Array:
        stacked = jnp.stack(leaves)[:, None]
        return jnp.broadcast_to(stacked, (len(models), lanes, *leaves[0].shape))

    arrays, static = zip(*(eqx.partition(model, eqx.is_array) for model in models), strict=True)
    model = eqx.combine(jax.tree.map(repeated, *arrays), static[0])
    return eqx.filter_vmap(eqx.filter_vmap(loop.start))(model)


@eqx.filter_jit
def copied(model: Model) -> Model:
    """The same weights in memory of their own: training reuses that of its state."""
    return jax.tree.map(jnp.copy, model)


def train(
    inputs: tuple[DeviceData, Batches, Hyper], state: State, program: Program
) -> tuple[State, Float[Array, "streams lanes"]]:
    """Train all models for an epoch; the mean loss of each comes back."""
    data, batches, hyper = inputs

    def one(
        stream: tuple[Int[Array, "steps batch"], Key], hyper: Hyper, state: State
    ) -> tuple[State, Float[Array, ""]]:
        sets, key = stream
        inputs = (data, sets, batches.numbers, hyper, key)
        state, losses = loop.epoch(inputs, state, program)
        busy = sets[:, 0] >= 0
        return state, jnp.where(busy, losses, 0).sum() / busy.sum()

    return _mapped(one)((batches.sets, batches.key), hyper, state)


def validate(
    model: Model, data: DeviceData, sets: Int[Array, "streams steps batch"], width: int
) -> tuple[Float[Array, "streams lanes steps"], Float[Array, "streams lanes steps"]]:
    """Sums over each batch of weighted NLL and of weighted top-1 accuracy."""

    def one(sets: Int[Array, "steps batch"], nothing: None, model: Model) -> Any:
        return jax.lax.map(lambda batch: _sums(model, data, batch, width), sets)

    return _mapped(one)(sets, None, model)


def keep_best(best: Model, model: Model, improved: Bool[Array, "streams lanes"]) -> Model:
    """The models' weights where they improved, the best ones before elsewhere."""

    def pick(before: Array, now: Array) -> Array:
        where = improved.reshape(improved.shape + (1,) * (now.ndim - 2))
        return jnp.where(where, now, before)

    return jax.tree.map(pick, best, model)


def _sums(
    model: Model, data: DeviceData, batch: Int[Array, " batch"], width: int
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    sets = jnp.maximum(batch, 0)
    items, present = gather(data, sets, width)
    scores = jax.vmap(_masked.log_softmax)(jax.vmap(model.scores)(items, present), present)
    ofchosen = jnp.take_along_axis(scores, data.chosen[sets][:, None], 1)
    weight = jnp.where(batch >= 0, data.weight[sets], 0)
    # Ties count as the expectation under random tie-breaking, as in setwise.metrics.
    ahead = (scores > ofchosen).any(1)
    tied = (scores == ofchosen).sum(1)
    return -(weight @ ofchosen[:, 0]), weight @ jnp.where(ahead, 0, 1 / tied)


def _mapped(one: Callable[..., Any]) -> Callable[..., Any]:
    """``one(stream, lane, model)`` for every lane of every stream."""
    over_lanes = eqx.filter_vmap(one, in_axes=(None, eqx.if_array(0), eqx.if_array(0)))

    def over_streams(stream: Any, lane: Any, model: Any) -> Any:
        if jax.tree.leaves(stream)[0].shape[0] > 1:
            return eqx.filter_vmap(over_lanes)(stream, lane, model)
        # Of one stream there is nothing to map: its program is traced in half the time.
        arrays, static = eqx.partition((stream, lane, model), eqx.is_array)
        mapped = over_lanes(*eqx.combine(jax.tree.map(lambda leaf: leaf[0], arrays), static))
        arrays, static = eqx.partition(mapped, eqx.is_array)
        return eqx.combine(jax.tree.map(lambda leaf: leaf[None], arrays), static)

    return over_streams

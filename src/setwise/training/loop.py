"""The compiled part of training: one program an epoch, one for validation.

``jax.lax.scan`` runs over the epoch's batches; nothing returns to Python in between. Batches come
from a few size buckets, and ``jax.lax.switch`` picks the program of the bucket's gradient.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Int

from setwise import _masked
from setwise._types import Array, Float, Key
from setwise.models import Dropout, Model
from setwise.training.device import DeviceData, gather
from setwise.training.options import OBJECTIVES
from setwise.training.processes import AXIS

# Of one long vector: an operation each, not one for every array of weights, is soon compiled.
ADAM = optax.flatten(optax.scale_by_adam())


class State(NamedTuple):
    """What a step changes."""

    model: Model
    adam: Any


class Hyper(NamedTuple):
    """Hyper-parameters of one epoch: arrays, so that changing them compiles nothing."""

    learning_rate: Float[Array, ""]
    weight_decay: Float[Array, ""]
    keep: Float[Array, ""] | None  # None trains without dropout


@eqx.filter_jit
def start(model: Model) -> State:
    """The state before the first step."""
    return State(model, ADAM.init(eqx.filter(model, eqx.is_inexact_array)))


Inputs = tuple[DeviceData, Int[Array, "steps batch"], Int[Array, " steps"], Hyper, Key]
"""Of an epoch: the data, the sets of each batch, its bucket (-1: idle), and the rest."""


class Program(NamedTuple):
    """What is fixed when an epoch compiles."""

    objective: str
    widths: tuple[int, ...]  # of the buckets; with several, steps may be idle
    decoupled: bool = True  # weight decay as in AdamW, not in the gradient
    idle: bool = False  # steps may be idle with one bucket too
    gaps: bool = False  # a batch may be empty where those of others are not
    together: int | None = None  # sets of a batch over all processes, if each has a share


Places = Int[Array, "steps batch"] | None
"""Where the sets of a process's share of each batch stand in the whole batch; None: alone."""


def epoch(
    inputs: Inputs, state: State, program: Program, places: Places = None
) -> tuple[State, Float[Array, " steps"]]:
    """Train one model on the batches in turn; the mean loss of each comes back."""
    data, sets, numbers, hyper, key = inputs
    arrays, static = eqx.partition(state, eqx.is_array)
    widths, idle, gaps = program.widths, program.idle, program.gaps

    def step(arrays: Any, batch: tuple[Array, Array, Array, Any]) -> tuple[Any, Array]:
        sets, number, position, places = batch
        noise = None if hyper.keep is None else jax.random.fold_in(key, position)

        def on_bucket(width: int) -> Callable[[Any], tuple[Model, Array]]:
            def gradient(arrays: Any) -> tuple[Model, Array]:
                model = eqx.combine(arrays, static).model
                return _gradient(model, data, (sets, places), width, program, hyper, noise)

            return gradient

        def train(arrays: Any) -> tuple[Any, Array]:
            gradient, loss = jax.lax.switch(number, [on_bucket(width) for width in widths], arrays)
            before = eqx.combine(arrays, static)
            after = eqx.filter(_moved(before, gradient, hyper, program.decoupled), eqx.is_array)
            if gaps:
                after = jax.tree.map(partial(jnp.where, sets[0] >= 0), after, arrays)
            return after, loss

        if len(widths) == 1 and not idle:
            return train(arrays)
        return jax.lax.cond(number < 0, _idle, train, arrays)

    # Noise is that of a batch's place among the real ones, whatever gaps there are between them.
    real = sets[:, 0] >= 0 if places is None else numbers >= 0  # a share may be empty
    batches = (sets, numbers, jnp.cumsum(real) - 1, places)
    arrays, losses = jax.lax.scan(step, arrays, batches)
    return eqx.combine(arrays, static), losses


run_epoch = eqx.filter_jit(epoch, donate="all-except-first")
"""One model's epoch as a program; the state's memory is reused."""


def epoch_together(
    inputs: tuple[Any, Places], state: State, program: Program, mesh: Mesh
) -> tuple[State, Float[Array, " steps"]]:
    """As :func:`epoch`, on all processes of a mesh, each with its share of every batch.

    The key is its data, since arrays over processes hold no keys.
    """
    arrays, static = eqx.partition(state, eqx.is_array)

    def local(inputs: tuple[Any, Places], arrays: Any) -> tuple[Any, Float[Array, " steps"]]:
        (*rest, key), places = inputs
        whole = (*rest, jax.random.wrap_key_data(key))
        after, losses = epoch(whole, eqx.combine(arrays, static), program, places)
        return eqx.filter(after, eqx.is_array), losses

    same, rows, columns = PartitionSpec(), PartitionSpec(AXIS), PartitionSpec(None, AXIS)
    each = (((rows, columns, same, same, same), columns), same)
    on_all = jax.shard_map(local, mesh=mesh, in_specs=each, out_specs=same, check_vma=False)
    after, losses = on_all(inputs, arrays)
    return eqx.combine(after, static), losses


run_epoch_together = eqx.filter_jit(epoch_together, donate="all-except-first")
"""The epoch of a group of processes as a program."""


def _idle(arrays: Any) -> tuple[Any, Array]:
    return arrays, jnp.zeros(())


def _gradient(
    model: Model,
    data: DeviceData,
    batch: tuple[Int[Array, " batch"], Int[Array, " batch"] | None],
    width: int,
    program: Program,
    hyper: Hyper,
    noise: Key | None,
) -> tuple[Model, Float[Array, ""]]:
    """Of the mean weighted loss of a batch, and that loss; sets numbered -1 do not count."""
    sets, places = batch
    real = sets >= 0
    sets = jnp.maximum(sets, 0)
    items, present = gather(data, sets, width)
    weight = jnp.where(real, data.weight[sets], 0)
    if program.together is None:
        weight = weight / jnp.maximum(real.sum(), 1)

    def mean_loss(model: Model) -> Float[Array, ""]:
        keep = hyper.keep
        if noise is None or keep is None:
            scores = jax.vmap(model.scores)(items, present)
        else:
            keys = jax.random.split(noise, program.together or len(sets))
            keys = keys if places is None else keys[places]
            dropout = jax.vmap(lambda k: Dropout(k, keep))(keys)
            scores = jax.vmap(model.scores)(items, present, dropout)
        losses = jax.vmap(OBJECTIVES[program.objective])(scores, present, data.chosen[sets])
        return losses @ weight

    loss, gradient = eqx.filter_value_and_grad(mean_loss)(model)
    if program.together is not None:
        loss, gradient = _mean_over_processes((loss, gradient), real.sum())
    return gradient, loss


def _moved(state: State, gradient: Model, hyper: Hyper, decoupled: bool) -> State:
    """After one step of Adam.

    Coupled, the weight decay is part of the gradient, and Adam divides it by the gradient's size.
    """
    trainable, rest = eqx.partition(state.model, eqx.is_inexact_array)

    def decayed(direction: Array, parameter: Array) -> Array:
        return direction + hyper.weight_decay * parameter

    def move(parameter: Array, direction: Array) -> Array:
        return parameter - hyper.learning_rate * direction

    if not decoupled:
        gradient = jax.tree.map(decayed, gradient, trainable)
    direction, adam = ADAM.update(gradient, state.adam)
    if decoupled:
        direction = jax.tree.map(decayed, direction, trainable)
    return State(eqx.combine(jax.tree.map(move, trainable, direction), rest), adam)


def _mean_over_processes(sums: Any, sets: Int[Array, ""]) -> Any:
    """Sums of the processes' shares, added up and divided by how many sets there are in all.

    As one vector: what it takes is the time of a message more than that of its length.
    """
    vector, back = ravel_pytree((sets.astype(jnp.float32), sums))
    count, total = back(jax.lax.psum(vector, AXIS))
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(count, 1), total)


@eqx.filter_jit
def log_probabilities(
    model: Model, data: DeviceData, sets: Int[Array, "steps batch"], width: int
) -> Float[Array, "steps batch n"]:
    """log P(x | s) for these sets, batch after batch; minus infinity where there is no item."""

    def one(batch: Int[Array, " batch"]) -> Float[Array, "batch n"]:
        items, present = gather(data, jnp.maximum(batch, 0), width)
        return jax.vmap(_masked.log_softmax)(jax.vmap(model.scores)(items, present), present)

    return jax.lax.map(one, sets)

"""The compiled part of training: one program per epoch, one for validation.

``jax.lax.scan`` runs over the epoch's batches; nothing returns to Python in between. Batches come
from a few size buckets, and ``jax.lax.switch`` picks the program of the bucket's gradient.

One program trains one model or many. A *stream* is a sequence of batches: some data in a random
order. All models of a stream see the same batches and the same dropout noise, so each batch is
gathered once and the first product of all its models is one large one. Arrays of models have the
axes (streams, lanes); a model alone has a lane of its own in a stream of its own.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Bool, Int, UInt32

from setwise import _masked
from setwise._types import Array, Float, Key
from setwise.models import Dropout, Model
from setwise.models.model import COMPILED_TO_RUN_ONCE
from setwise.training.device import DeviceData, gather, set_scores
from setwise.training.options import OBJECTIVES
from setwise.training.processes import AXIS
from setwise.training.slopes import Slopes, wrong_slopes

# On one long vector: a program with one operation, not one per array of weights, compiles fast.
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


class EpochProgram(NamedTuple):
    """What is fixed when an epoch compiles."""

    objective: str
    widths: tuple[int, ...]  # of the buckets; with several, steps may be idle
    decoupled: bool = True  # weight decay as in AdamW, not in the gradient
    idle: bool = False  # steps may be idle with one bucket too
    gaps: bool = False  # a batch may be empty where those of others are not
    together: int | None = None  # sets per batch over all processes, if each has a share
    slopes: Slopes | None = None  # penalise those that go the wrong way


class EpochBatches(NamedTuple):
    """The batches of every stream, the key of their noise, and the bucket of each step.

    All streams are at the same bucket, so that choosing its program stays a choice; a stream that
    has no batch there has an empty one. ``places`` says where the sets of a process's share stand
    in the whole batch; a process that trains alone has None.
    """

    sets: Int[Array, "streams steps batch"]
    key: Key  # one per stream
    numbers: Int[Array, " steps"]  # -1: idle
    places: Int[Array, "streams steps batch"] | None = None


@eqx.filter_jit(compiler_options=COMPILED_TO_RUN_ONCE)  # type: ignore[call-overload]
def start(models: Sequence[Model], lanes: int) -> State:
    """The state before the first step; all lanes of a stream begin with its model's weights.

    It is a program of its own, or each weight's copy would be one.
    """

    def repeated(*leaves: Array) -> Array:
        stacked = jnp.stack(leaves)[:, None]
        return jnp.broadcast_to(stacked, (len(models), lanes, *leaves[0].shape))

    def one(model: Model) -> State:
        return State(model, ADAM.init(eqx.filter(model, eqx.is_inexact_array)))

    arrays, static = zip(*(eqx.partition(model, eqx.is_array) for model in models), strict=True)
    model = eqx.combine(jax.tree.map(repeated, *arrays), static[0])
    return eqx.filter_vmap(eqx.filter_vmap(one))(model)


@jax.jit
def noise_keys(seeds: UInt32[Array, " streams"], fold: UInt32[Array, " depth"]) -> Array:
    """The streams' keys of dropout noise: those of their seeds, with these numbers folded in."""

    def one(seed: UInt32[Array, ""]) -> Key:
        return reduce(jax.random.fold_in, fold, jax.random.key(seed))

    return jax.vmap(one)(seeds)


@eqx.filter_jit
def copied(model: Model) -> Model:
    """The same weights in memory of their own: training reuses that of its state."""
    return jax.tree.map(jnp.copy, model)


Inputs = tuple[DeviceData, EpochBatches, Hyper]


def train(
    inputs: Inputs, state: State, program: EpochProgram
) -> tuple[State, Float[Array, "streams lanes steps"]]:
    """Train all models on their batches in turn; the mean loss of each batch comes back."""
    data, batches, hyper = inputs

    def one(stream: Any, hyper: Hyper, state: State) -> tuple[State, Float[Array, " steps"]]:
        sets, key, places = stream
        return _train_one((data, EpochBatches(sets, key, batches.numbers, places), hyper),
                          state, program)  # fmt: skip

    return _mapped(one)((batches.sets, batches.key, batches.places), hyper, state)


run_epoch = eqx.filter_jit(train, donate="all-except-first")
"""The epoch as a program; the state's memory is reused."""


def train_together(
    inputs: Any, state: State, program: EpochProgram, mesh: Mesh
) -> tuple[State, Float[Array, "streams lanes steps"]]:
    """As :func:`train`, on all processes of a mesh, each with its share of every batch.

    The key is its data, since arrays over processes hold no keys.
    """
    arrays, static = eqx.partition(state, eqx.is_array)

    def local(inputs: Any, arrays: Any) -> tuple[Any, Float[Array, "streams lanes steps"]]:
        data, batches, hyper = inputs
        batches = batches._replace(key=jax.random.wrap_key_data(batches.key))
        after, losses = train((data, batches, hyper), eqx.combine(arrays, static), program)
        return eqx.filter(after, eqx.is_array), losses

    same, rows, columns = PartitionSpec(), PartitionSpec(AXIS), PartitionSpec(None, None, AXIS)
    batches = EpochBatches(columns, same, same, columns)  # type: ignore[arg-type]
    each = ((rows, batches, same), same)
    on_all = jax.shard_map(local, mesh=mesh, in_specs=each, out_specs=same, check_vma=False)
    after, losses = on_all(inputs, arrays)
    return eqx.combine(after, static), losses


run_epoch_together = eqx.filter_jit(train_together, donate="all-except-first")
"""The epoch of a group of processes as a program."""


class Validated(NamedTuple):
    """What models make of batches of sets."""

    nll: Float[Array, "streams lanes steps"]  # sums by the sets' weights
    accuracy: Float[Array, "streams lanes steps"]  # sums by the sets' weights
    log_p: Float[Array, "streams lanes steps batch"]  # log P of what was chosen; 0 for no set


@eqx.filter_jit
def validate(
    model: Model, data: DeviceData, sets: Int[Array, "streams steps batch"], width: int
) -> Validated:
    """Every model on every batch of its stream."""

    def one(sets: Int[Array, "steps batch"], nothing: None, model: Model) -> Any:
        return jax.lax.map(lambda batch: _sums(model, data, batch, width), sets)

    return Validated(*_mapped(one)(sets, None, model))


@eqx.filter_jit
def keep_best(best: Model, model: Model, improved: Bool[Array, "streams lanes"]) -> Model:
    """The models' weights where they improved, the best ones before elsewhere."""

    def pick(before: Array, now: Array) -> Array:
        where = improved.reshape(improved.shape + (1,) * (now.ndim - 2))
        return jnp.where(where, now, before)

    return jax.tree.map(pick, best, model)


@eqx.filter_jit  # a program of its own, or each weight's copy would be one
def taken(models: tuple[State, Model], places: tuple[Array, ...]) -> Any:
    """The models at these places (streams, lanes) only."""
    arrays, static = eqx.partition(models, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[places], arrays), static)


def _mapped(one: Callable[..., Any]) -> Callable[..., Any]:
    """``one(stream, lane, model)`` for every lane of every stream.

    A single model is not mapped: its program is traced in half the time.
    """
    over_lanes = eqx.filter_vmap(one, in_axes=(None, eqx.if_array(0), eqx.if_array(0)))

    def in_lanes(stream: Any, lane: Any, model: Any) -> Any:
        if _length(model) > 1:
            return over_lanes(stream, lane, model)
        first = _each(lambda leaf: leaf[0], lane, model)
        return _each(lambda leaf: leaf[None], one(stream, *first))

    def in_streams(stream: Any, lane: Any, model: Any) -> Any:
        if _length(stream) > 1:
            return eqx.filter_vmap(in_lanes)(stream, lane, model)
        first = _each(lambda leaf: leaf[0], stream, lane, model)
        return _each(lambda leaf: leaf[None], in_lanes(*first))

    return in_streams


def _length(tree: Any) -> int:
    return int(jax.tree.leaves(eqx.filter(tree, eqx.is_array))[0].shape[0])


def _each(change: Callable[[Array], Array], *trees: Any) -> Any:
    """The trees with every array changed."""
    arrays, static = eqx.partition(trees, eqx.is_array)
    changed = eqx.combine(jax.tree.map(change, arrays), static)
    return changed if len(trees) > 1 else changed[0]


def _train_one(
    inputs: Inputs, state: State, program: EpochProgram
) -> tuple[State, Float[Array, " steps"]]:
    """Train one model on the batches of its stream in turn."""
    data, (sets, key, numbers, places), hyper = inputs
    arrays, static = eqx.partition(state, eqx.is_array)
    widths, idle, gaps = program.widths, program.idle, program.gaps

    def step(arrays: Any, batch: tuple[Array, Array, Array, Any]) -> tuple[Any, Array]:
        sets, number, position, places = batch
        noise = None if hyper.keep is None else jax.random.fold_in(key, position)

        def on_bucket(width: int) -> Callable[[Any], tuple[Model, Array]]:
            def gradient(arrays: Any) -> tuple[Model, Array]:
                model = eqx.combine(arrays, static).model
                batch = sets, places, position
                return _gradient(model, data, batch, width, program, hyper, noise)

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


def _idle(arrays: Any) -> tuple[Any, Array]:
    return arrays, jnp.zeros(())


def _gradient(
    model: Model,
    data: DeviceData,
    batch: tuple[Int[Array, " batch"], Int[Array, " batch"] | None, Int[Array, ""]],
    width: int,
    program: EpochProgram,
    hyper: Hyper,
    noise: Key | None,
) -> tuple[Model, Float[Array, ""]]:
    """The gradient of a batch's mean weighted loss, and that loss; sets of -1 do not count."""
    sets, places, turn = batch
    real = sets >= 0
    sets = jnp.maximum(sets, 0)
    items, present = gather(data, sets, width)
    weight = jnp.where(real, data.weight[sets], 0)
    if program.together is None:
        weight = weight / jnp.maximum(real.sum(), 1)

    def mean_loss(model: Model) -> Float[Array, ""]:
        keep = hyper.keep
        if noise is None or keep is None:
            scores = set_scores(model.scores, data, sets, items, present)
        else:
            keys = jax.random.split(noise, program.together or len(sets))
            keys = keys if places is None else keys[places]
            dropout = jax.vmap(lambda k: Dropout(k, keep))(keys)
            scores = set_scores(model.scores, data, sets, items, present, dropout)
        losses = jax.vmap(OBJECTIVES[program.objective])(scores, present, data.chosen[sets])
        if program.slopes is not None:
            numbers = jnp.arange(len(sets)) if places is None else places
            losses += wrong_slopes(model, items, present, numbers, turn, program.slopes)
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


def _sums(
    model: Model, data: DeviceData, batch: Int[Array, " batch"], width: int
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, " batch"]]:
    sets = jnp.maximum(batch, 0)
    items, present = gather(data, sets, width)
    scores = set_scores(model.scores, data, sets, items, present)
    scores = jax.vmap(_masked.log_softmax)(scores, present)
    ofchosen = jnp.take_along_axis(scores, data.chosen[sets][:, None], 1)
    # Ties count as the expectation under random tie-breaking, as in setwise.metrics.
    ahead = (scores > ofchosen).any(1)
    tied = (scores == ofchosen).sum(1)
    # Places without a set read set 0, which may be wider than its bucket: its values mean nothing.
    real = batch >= 0
    weight = jnp.where(real, data.weight[sets], 0)
    log_p, top = jnp.where(real, ofchosen[:, 0], 0), jnp.where(ahead | ~real, 0, 1 / tied)
    return -(weight @ log_p), weight @ top, log_p


@eqx.filter_jit
def log_probabilities(
    model: Model, data: DeviceData, sets: Int[Array, "steps batch"], width: int
) -> Float[Array, "steps batch n"]:
    """log P(x | s) for these sets, batch after batch; minus infinity where there is no item."""

    def of_batch(batch: Int[Array, " batch"]) -> Float[Array, "batch n"]:
        real = jnp.maximum(batch, 0)
        items, present = gather(data, real, width)
        scores = set_scores(model.scores, data, real, items, present)
        return jax.vmap(_masked.log_softmax)(scores, present)

    return jax.lax.map(of_batch, sets)

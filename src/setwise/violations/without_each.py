"""Scores of sets with each of their items taken away in turn: what all soft measures come from."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from setwise._errors import InputError
from setwise._types import Array, Items, Mask
from setwise.choices import Choices, Encoded, bucket
from setwise.estimators import Estimator
from setwise.models import Model
from setwise.training.device import DeviceData, gather, to_device

ROWS_A_BATCH = 16_384  # that a compiled step holds at a time
PAIRS_A_CHUNK = 2_000_000  # that leave the device at a time


class Left(NamedTuple):
    """Some sets, padded to a common width: their scores g whole, and with each item gone.

    Scores of absent items are minus infinity. log P_s(a) / P_s(b) = g_s(a) - g_s(b), so that
    log-odds need no softmax, and no rounding error of it.
    """

    sets: Int[np.ndarray, " m"]
    present: Bool[np.ndarray, "m width"]
    can_go: Bool[np.ndarray, "m width"]  # not outside options, nor what would leave nothing
    whole: Float[np.ndarray, "m width"]
    left: Float[np.ndarray, "m gone width"]

    @property
    def stays(self) -> Bool[np.ndarray, "m gone width"]:
        """Which items are left, of the removals that are tried."""
        others = ~np.eye(self.present.shape[1], dtype=bool)
        return self.can_go[:, :, None] & self.present[:, None, :] & others


class Chunk(NamedTuple):
    """Some sets of at most ``width`` rows, and the same in batches for the device."""

    width: int
    sets: Int[np.ndarray, " m"]
    batches: Int[Array, "steps batch"]  # -1 fills them up


def without_each(estimator: Estimator, choices: Choices) -> Iterator[Left]:
    """Take every item of every set away in turn; chunks bound the memory.

    >>> import setwise as sw
    >>> choices = sw.read({"set": [1, 1, 1], "x": [1.0, 2.0, 4.0], "chosen": [0, 0, 1]},
    ...                   set="set", chosen="chosen")
    >>> (one,) = without_each(sw.RandomChoice().fit(choices), choices)
    >>> np.abs(one.left[0]).tolist()  # of minus infinity, too
    [[inf, 0.0, 0.0], [0.0, inf, 0.0], [0.0, 0.0, inf]]
    """
    before = 0
    for part in estimator.encoded_parts(choices):
        for one in _of_part(estimator, part):
            _check(one, choices, before)
            yield one._replace(sets=one.sets + before)
        before += len(part)


def chunks(encoded: Encoded) -> Iterator[Chunk]:
    """All sets, in chunks whose pairs of rows are bounded; those of a width have one shape."""
    for one in bucket(encoded.sizes):
        pairs = one.width * (one.width + 1)
        batch = min(len(one.sets), max(1, ROWS_A_BATCH // pairs))
        steps = min(-(-len(one.sets) // batch), max(1, PAIRS_A_CHUNK // (pairs * batch)))
        for begin in range(0, len(one.sets), steps * batch):
            sets = one.sets[begin : begin + steps * batch]
            filled = np.full(steps * batch, -1, np.int32)
            filled[: len(sets)] = sets
            yield Chunk(one.width, sets, jnp.asarray(filled.reshape(steps, batch)))


def in_lanes(function: Callable[[Array], Array], first: int, width: int) -> Array:
    """The function of each of the places from ``first`` up to ``width``, many at a time.

    All of them go through one piece of program, so that what does not depend on the place is the
    same in all of them, to the last bit.
    """
    count = width - first
    size = min(count, max(1, ROWS_A_BATCH // width))
    steps = -(-count // size)
    places = jnp.arange(first, first + steps * size).reshape(steps, size)
    found = jax.lax.map(jax.vmap(function), places)
    return found.reshape(steps * size, *found.shape[2:])[:count]


def _of_part(estimator: Estimator, part: Encoded) -> Iterator[Left]:
    data = to_device(part) if estimator.has_jax_model else None
    for chunk in chunks(part):
        place, size = np.arange(chunk.width), part.sizes[chunk.sets][:, None]
        present = place < size
        can_go = (place < size - int(estimator.schema_.outside)) & (size > 1)
        if data is None:
            whole, left = _by_rows(estimator, part, chunk, present, can_go)
        else:
            found = _program(estimator.model_, data, chunk.batches, chunk.width)
            table = np.asarray(found).reshape(-1, *found.shape[2:])[: len(chunk.sets)]
            whole, left = table[:, 0], table[:, 1:]
        yield Left(chunk.sets, present, can_go, whole, left)


@eqx.filter_jit
def _program(
    model: Model, data: DeviceData, batches: Int[Array, "steps batch"], width: int
) -> Float[Array, "steps batch lanes width"]:
    """g of every set whole, then with the item at each place gone."""

    def one_set(items: Items, present: Mask) -> Float[Array, "lanes width"]:
        def one_lane(place: Array) -> Float[Array, " width"]:
            left = present & (jnp.arange(width) != place)
            return jnp.where(left, model.scores(items, left), -jnp.inf)

        return in_lanes(one_lane, -1, width)

    def one_batch(batch: Int[Array, " batch"]) -> Float[Array, "batch lanes width"]:
        return jax.vmap(one_set)(*gather(data, jnp.maximum(batch, 0), width))

    return jax.lax.map(one_batch, batches)


def _by_rows(
    estimator: Estimator,
    part: Encoded,
    chunk: Chunk,
    present: Bool[np.ndarray, "m width"],
    can_go: Bool[np.ndarray, "m width"],
) -> tuple[Float[np.ndarray, "m width"], Float[np.ndarray, "m gone width"]]:
    """The same for a model that is not JAX's: log P of copies of each set with one row less."""
    rows = part.offsets[:-1][chunk.sets][:, None] + np.arange(chunk.width)
    whole = np.full(present.shape, -np.inf)
    whole[present] = _scored(estimator, part, rows[present], chunk.sets, present.sum(1))
    stays = Left(chunk.sets, present, can_go, whole, np.empty((0, 0, 0))).stays
    left = np.full(stays.shape, -np.inf)
    sizes, owner = stays.sum(2)[can_go], np.nonzero(can_go)[0]
    if len(sizes):
        copies = np.broadcast_to(rows[:, None, :], stays.shape)[stays]
        left[stays] = _scored(estimator, part, copies, chunk.sets[owner], sizes)
    return whole, left


def _scored(
    estimator: Estimator,
    part: Encoded,
    rows: Int[np.ndarray, " rows"],
    sets: Int[np.ndarray, " copies"],
    sizes: Int[np.ndarray, " copies"],
) -> Float[np.ndarray, " rows"]:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    copies = Encoded(part.items[rows], part.context[sets], offsets, None, None)
    return estimator.row_log_probabilities(copies)


def _check(one: Left, choices: Choices, before: int) -> None:
    unsound = np.isnan(one.whole).any(1) | (np.isnan(one.left) & one.stays).any((1, 2))
    if unsound.any():
        which = choices.set_ids[one.sets[int(np.argmax(unsound))] + before]
        raise InputError(
            f"the model's scores in set '{choices.roles.set}'={which} are not numbers, so that "
            "it predicts nothing; train it again, with a smaller learning rate"
        )

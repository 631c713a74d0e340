"""What a model chooses when one item of a set is taken away: all removals of many sets at once."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from setwise._types import Array, Bool, Items, Mask
from setwise.choices import Bucket, Encoded, bucket
from setwise.models import Model
from setwise.training.device import DeviceData, gather, to_device
from setwise.training.evaluation import in_batches

ROWS_A_BATCH = 16_384


class Removals(NamedTuple):
    """Of each set: how many items can go, the predicted one staying, and how often it changes."""

    tried: Int[np.ndarray, " sets"]
    changed: Int[np.ndarray, " sets"]  # -1 where scores are not numbers


def removals(model: Model, encoded: Encoded, outside: bool) -> Removals:
    """Take every item of each set away in turn, but the predicted one, and predict again.

    The item with the highest score is predicted, the first of equals; equal items are one and the
    same, whichever of them rounding puts first. With an ``outside`` option, the last row of every
    set, that row can be predicted but not taken away.

    >>> from setwise.models import ZOO, Sizes
    >>> model = ZOO["mnl"].build(2, Sizes(), jax.random.key(0))
    >>> two = Encoded(np.eye(5, 2), np.empty((2, 0)), np.array([0, 3, 5]), None, None)
    >>> removed = removals(model, two, outside=False)
    >>> removed.tried.tolist(), removed.changed.tolist()
    ([2, 1], [0, 0])
    """
    data = to_device(encoded)
    tried, changed = np.empty((2, len(encoded)), np.int64)
    for one in bucket(encoded.sizes):
        lanes, sets = _lanes(one.width), in_batches(one, _batch_size(one))
        found = _program(model, data, sets, lanes, one.width, outside)
        tried[one.sets], changed[one.sets] = (
            np.asarray(each).reshape(-1)[: len(one.sets)] for each in found
        )
    return Removals(tried, changed)


@eqx.filter_jit
def _program(
    model: Model,
    data: DeviceData,
    sets: Int[Array, "steps batch"],
    lanes: Int[Array, "chunks lanes"],
    width: int,
    outside: bool,
) -> tuple[Int[Array, "steps batch"], Int[Array, "steps batch"]]:
    def one_set(items: Items, present: Mask) -> tuple[Int[Array, ""], Int[Array, ""]]:
        best, sound = jax.lax.map(
            jax.vmap(lambda place: _choice(model, items, present, place)), lanes
        )
        whole, without = best.reshape(-1)[0], best.reshape(-1)[1 : width + 1]
        # Equal items may score unequally by a rounding error: they are told apart by features.
        twins = present & (items == items[whole]).all(1)
        place, size = jnp.arange(width), present.sum()
        can_go = (place < size - outside) & (place != jnp.argmax(twins))
        changed = (can_go & ~twins[without]).sum()
        return can_go.sum(), jnp.where(sound.all(), changed, -1)

    def one_batch(batch: Int[Array, " batch"]) -> tuple[Array, Array]:
        return jax.vmap(one_set)(*gather(data, jnp.maximum(batch, 0), width))

    return jax.lax.map(one_batch, sets)


def _choice(
    model: Model, items: Items, present: Mask, place: Int[Array, ""]
) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    """The position of the predicted item without the one at ``place``; whether it has a score.

    Scores are compared, not probabilities: rounding those makes ties that depend on the set.
    """
    left = present & (jnp.arange(len(present)) != place)
    scores = jnp.where(left, model.scores(items, left), -jnp.inf)
    best = jnp.argmax(scores)  # the first of equals; what is not a number comes before all
    return best, ~jnp.isnan(scores[best])


def _lanes(width: int) -> Int[Array, "chunks lanes"]:
    """The places to take away: first none (-1), then each; in chunks where a set is large.

    The whole set is one of the lanes, so that it is scored by the same program as the others.
    """
    size = min(width + 1, max(1, ROWS_A_BATCH // width))
    chunks = -(-(width + 1) // size)
    return jnp.arange(-1, chunks * size - 1).reshape(chunks, size)


def _batch_size(one: Bucket) -> int:
    return min(len(one.sets), max(1, ROWS_A_BATCH // (one.width * (one.width + 1))))

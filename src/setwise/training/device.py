"""Encoded choices on the device, and the view of a batch that models see.

Arrays are moved by ``jax.device_put``: ``jnp.asarray`` compiles a program for each new shape.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from setwise._types import Array, Bool, Float, Items, Mask
from setwise.choices import Encoded, round_up


class DeviceData(NamedTuple):
    """Flat rows and per-set vectors, rounded up in length so that programs are reused."""

    items: Float[Array, "rows d"]
    context: Float[Array, "sets c"]
    starts: Int[Array, " sets"]
    sizes: Int[Array, " sets"]
    chosen: Int[Array, " sets"]
    weight: Float[Array, " sets"]
    sign: Float[Array, " sets"] | None = None
    """-1 for sets that chose the worst item, 1 for others; None: no set did."""


class DeviceShape(NamedTuple):
    """Lengths to fill up to (None: round ones), and the weight that counts as one."""

    rows: int | None
    sets: int | None
    mean_weight: float | None


def to_device(
    *parts: Encoded, shape: DeviceShape | None = None, dtype: type = np.float32
) -> DeviceData:
    """Move choices to the device, the sets of each part after those of the part before.

    Weights are scaled to a mean of one in each part, unless a ``shape`` says what counts as one;
    :func:`first_sets` says where a part begins. For double precision, JAX's must be switched on.
    """
    before = np.concatenate([[0], np.cumsum([len(part.items) for part in parts])])
    starts = [part.offsets[:-1] + rows for part, rows in zip(parts, before, strict=False)]
    rows, sets, mean_weight = shape or (None, None, None)
    return DeviceData(
        items=_padded([part.items.astype(dtype, copy=False) for part in parts], rows),
        context=_padded([part.context.astype(dtype, copy=False) for part in parts], sets),
        starts=_padded([start.astype(np.int32) for start in starts], sets),
        sizes=_padded([part.sizes.astype(np.int32) for part in parts], sets),
        chosen=_padded([_chosen(part) for part in parts], sets),
        weight=_padded([_weight(part, mean_weight).astype(dtype) for part in parts], sets),
        sign=None
        if all(part.worst is None for part in parts)
        else _padded([_sign(part).astype(dtype) for part in parts], sets),
    )


def first_sets(*parts: Encoded) -> Int[np.ndarray, " parts"]:
    """The number of each part's first set in :func:`to_device` of all parts."""
    return np.cumsum([0, *(len(part) for part in parts[:-1])])


def gather(
    data: DeviceData, sets: Int[Array, " batch"], width: int
) -> tuple[Float[Array, "batch n d"], Bool[Array, "batch n"]]:
    """The items of these sets, padded to ``width`` with zeros, and which of them are present.

    A set's context joins the features of each of its items.
    """
    place = jnp.arange(width)
    present = place < data.sizes[sets][:, None]
    rows = jnp.where(present, data.starts[sets][:, None] + place, 0)
    items = jnp.where(present[:, :, None], data.items[rows], 0)
    if data.context.shape[1] == 0:
        return items, present
    context = jnp.broadcast_to(
        data.context[sets][:, None, :], (*present.shape, data.context.shape[1])
    )
    return jnp.concatenate([items, context], -1), present


def set_scores(
    score: Callable[..., Float[Array, " n"]],
    data: DeviceData,
    sets: Int[Array, " batch"],
    *seen: Any,
) -> Float[Array, "batch n"]:
    """The scores by which the items of these sets are chosen.

    Who chooses the worst item does so by minus the score. ``seen`` are the items of the sets, which
    of them are present, and what else the function of one set takes.
    """
    scores = jax.vmap(score)(*seen)
    return scores if data.sign is None else scores * data.sign[sets][:, None]


def map_sets(
    function: Callable[[Items, Mask], Any],
    data: DeviceData,
    sets: Int[Array, "steps batch"],
    width: int,
) -> Any:
    """A function of one set, for all sets of all batches; results for sets of -1 mean nothing."""

    def one_batch(batch: Int[Array, " batch"]) -> Any:
        return jax.vmap(function)(*gather(data, jnp.maximum(batch, 0), width))

    return jax.lax.map(one_batch, sets)


def _chosen(part: Encoded) -> Int[np.ndarray, " sets"]:
    chosen = np.zeros(len(part)) if part.chosen is None else part.chosen
    return chosen.astype(np.int32)


def _sign(part: Encoded) -> Float[np.ndarray, " sets"]:
    return np.ones(len(part)) if part.worst is None else np.where(part.worst, -1.0, 1.0)


def _weight(part: Encoded, mean: float | None) -> Float[np.ndarray, " sets"]:
    weight = np.ones(len(part)) if part.weight is None else part.weight
    return weight / (weight.mean() if mean is None else mean)


def _padded(values: list[np.ndarray], length: int | None) -> Array:
    whole = np.concatenate(values) if len(values) > 1 else values[0]
    spare = (round_up(len(whole)) if length is None else length) - len(whole)
    # Not jnp.asarray, which compiles a program for every new shape.
    return jax.device_put(np.pad(whole, [(0, spare)] + [(0, 0)] * (whole.ndim - 1)))

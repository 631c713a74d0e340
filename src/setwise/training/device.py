"""Encoded choices on the device, and the view of a batch that models see."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from setwise._types import Array, Bool, Float
from setwise.choices import Encoded, round_up


class DeviceData(NamedTuple):
    """Flat rows and per-set vectors, rounded up in length so that programs are reused."""

    items: Float[Array, "rows d"]
    context: Float[Array, "sets c"]
    starts: Int[Array, " sets"]
    sizes: Int[Array, " sets"]
    chosen: Int[Array, " sets"]
    weight: Float[Array, " sets"]


def to_device(encoded: Encoded) -> DeviceData:
    """Move choices to the device; weights are scaled to a mean of one."""
    weight = np.ones(len(encoded)) if encoded.weight is None else encoded.weight
    chosen = np.zeros(len(encoded)) if encoded.chosen is None else encoded.chosen
    return DeviceData(
        items=_padded(encoded.items.astype(np.float32, copy=False)),
        context=_padded(encoded.context.astype(np.float32, copy=False)),
        starts=_padded(encoded.offsets[:-1].astype(np.int32)),
        sizes=_padded(encoded.sizes.astype(np.int32)),
        chosen=_padded(chosen.astype(np.int32)),
        weight=_padded((weight / weight.mean()).astype(np.float32)),
    )


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


def _padded(values: np.ndarray) -> Array:
    spare = round_up(len(values)) - len(values)
    return jnp.asarray(np.pad(values, [(0, spare)] + [(0, 0)] * (values.ndim - 1)))

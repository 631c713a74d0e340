"""The processes that train one model together: those of JAX's own multi-process runtime.

After ``jax.distributed.initialize`` every process calls the same functions with the same arguments.
Each trains on its share of every batch (:mod:`setwise.training.shards`) on its own device; sums go
over all. A process that is alone is a group of one, for which none of this happens.
"""

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Shaped

from setwise._errors import InputError

AXIS = "processes"


class Group:
    """How many processes there are, and which of them this is."""

    def __init__(self, size: int = 1, place: int = 0):
        self.size, self.place = size, place

    @classmethod
    def current(cls) -> "Group":
        """The processes that JAX knows of.

        >>> Group.current().size
        1
        """
        return cls(jax.process_count(), jax.process_index())

    @property
    def first(self) -> bool:
        """Whether this process writes what is written once."""
        return self.place == 0

    @cached_property
    def mesh(self) -> Mesh:
        """One device of every process."""
        devices = {one.process_index: one for one in reversed(jax.devices())}
        return Mesh(np.array([devices[place] for place in range(self.size)]), (AXIS,))

    def split(self, tree: Any, axis: int = 0) -> Any:
        """Arrays of this process as its block, along an axis, of arrays over all processes."""
        return jax.tree.map(lambda leaf: self._over_all(leaf, axis), tree)

    def same(self, tree: Any) -> Any:
        """Arrays that every process has alike as arrays over all processes; the rest as it is."""
        return jax.tree.map(
            lambda leaf: self._over_all(leaf, None) if eqx.is_array(leaf) else leaf, tree
        )

    def local(self, tree: Any) -> Any:
        """What :meth:`same` made, as arrays of this process alone."""
        return jax.tree.map(
            lambda leaf: leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf, tree
        )

    def _over_all(self, array: Any, axis: int | None) -> jax.Array:
        array = jax.device_put(array)
        shape, spec = list(array.shape), [None] * array.ndim
        if axis is not None:
            shape[axis], spec[axis] = shape[axis] * self.size, AXIS  # type: ignore[call-overload]
        sharding = NamedSharding(self.mesh, PartitionSpec(*spec))
        return jax.make_array_from_single_device_arrays(tuple(shape), sharding, [array])

    def joined(self, values: Shaped[np.ndarray, "*shape"]) -> list[np.ndarray]:
        """The arrays of all processes, of one type and any lengths, bit for bit, on each of them.

        As bytes: JAX would make 64 bits 32.
        """
        if self.size == 1:
            return [values]
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        lengths = self._gathered(np.array([len(flat)], np.int32))[:, 0]
        padded = np.zeros(int(lengths.max()), np.uint8)
        padded[: len(flat)] = flat
        return [
            row[:length].view(values.dtype)
            for row, length in zip(self._gathered(padded), lengths, strict=True)
        ]

    def total(self, values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
        """The sum over all processes, in the same order on each."""
        return np.sum(self.joined(values), axis=0)

    def from_first(self, make: Callable[[], bytes]) -> bytes:
        """What the first process makes, on all; bad input that it meets is an error of all."""
        if self.size == 1:
            return make()
        error, made = None, b""
        if self.first:
            try:
                made = make()
            except InputError as refused:
                error = str(refused)
        sent = json.dumps(error).encode() + b"\n" + made if self.first else b""
        told, _, content = self.joined(np.frombuffer(sent, np.uint8))[0].tobytes().partition(b"\n")
        if (error := json.loads(told)) is not None:
            raise InputError(error)
        return content

    def _gathered(self, values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, "processes n"]:
        whole = self.split(values[None])
        return np.asarray(_replicated(whole, NamedSharding(self.mesh, PartitionSpec())))


ALONE = Group()


def alone() -> bool:
    """Whether JAX runs on this process only.

    >>> alone()
    True
    """
    return Group.current().size == 1


@eqx.filter_jit
def _replicated(whole: Any, everywhere: NamedSharding) -> Any:
    return jax.lax.with_sharding_constraint(whole, everywhere)

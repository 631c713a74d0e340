"""Trees of arrays (models, optimiser states) as flat names and arrays, for files."""

from typing import Any

import jax
import numpy as np

from setwise._errors import InputError


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree under the names of their places, such as ``F.theta``."""
    return {name: np.asarray(leaf) for name, leaf in _arrays(tree)}


def with_arrays(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree with its arrays (or shapes in their place) replaced by those of these names."""
    wanted = {name: (leaf.shape, leaf.dtype) for name, leaf in _arrays(tree)}
    found = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    if wanted != found:
        raise InputError("the file's arrays do not fit the model that it describes")

    def replaced(path: Any, leaf: Any) -> Any:
        return jax.numpy.asarray(arrays[_name(path)]) if _is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(replaced, tree)


def _arrays(tree: Any) -> list[tuple[str, Any]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(_name(path), leaf) for path, leaf in leaves if _is_array(leaf)]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct))


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")

"""Boosted trees as a model of one set; they are trained elsewhere."""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from setwise._errors import InputError
from setwise._tree_view import TreeView
from setwise._trees import IN_MODELS, Trees
from setwise._types import Array, Items, Mask, Scores
from setwise.models.model import Dropout, Model


class BoostedTrees(Model):
    """g(x, s) = sum of trees of what :class:`setwise._tree_view.TreeView` shows of the item.

    ``trees`` are the arrays of :meth:`setwise._trees.Trees.single`, by name. JAX calls NumPy to
    score them, so that decisions are the same here, in the NumPy scorer and in ONNX.

    >>> from setwise._trees import TYPES
    >>> trees = Trees(*(np.array(one, kind) for one, kind in zip(
    ...     ([2], [0], [0.5], [0], [-1], [-2], [1.0, 3.0], [], []), TYPES.values())))
    >>> model = BoostedTrees.of(trees, own=1)
    >>> model.scores(jnp.array([[0.0], [1.0]]), jnp.ones(2, bool)).tolist()
    [1.0, 3.0]
    """

    trees: dict[str, Array]
    own: int = eqx.field(static=True)
    categories: tuple[tuple[int, int], ...] = eqx.field(static=True, default=())
    within: bool = eqx.field(static=True, default=True)

    @classmethod
    def of(
        cls, trees: Trees, own: int, categories: tuple[tuple[int, int], ...] = (),
        within: bool = True, times: float = 1.0,
    ) -> "BoostedTrees":  # fmt: skip
        """The model of these trees, with scores multiplied by ``times``."""
        arrays = {name: jax.device_put(one) for name, one in trees.single(times).arrays().items()}
        return cls(arrays, own, categories, within)

    @classmethod
    def skeleton(
        cls, arrays: Mapping[str, np.ndarray], own: int,
        categories: tuple[tuple[int, int], ...] = (), within: bool = True,
    ) -> "BoostedTrees":  # fmt: skip
        """Shapes in place of arrays: as many splits as a file's arrays of these names have.

        Names are those of :func:`setwise._tensorfile.named_arrays`, such as ``trees.feature``.
        Use :meth:`check` once the arrays are in place.
        """
        shapes = {}
        for name, dtype in IN_MODELS.items():
            found = arrays.get(f"trees.{name}")
            if found is None or found.ndim != 1:
                raise InputError("the file's arrays are not those of trees; train the model again")
            shapes[name] = found.shape, dtype

        def empty() -> "BoostedTrees":
            return cls({name: jnp.zeros(*one) for name, one in shapes.items()}, *view)

        view = own, categories, within
        return cast(BoostedTrees, eqx.filter_eval_shape(empty))

    @property
    def view(self) -> TreeView:
        """The columns that the trees see."""
        return TreeView(self.own, self.categories, self.within)

    def check(self, width: int) -> None:
        """Refuse trees that cannot score rows of ``width`` columns, as those of a file may be."""
        self.view.check(width)
        arrays = {name: np.asarray(one) for name, one in self.trees.items()}
        Trees.of(arrays, self.view.width(width))

    @property
    def differentiable(self) -> bool:
        """False: scores are flat between the thresholds of the trees, and jump at them."""
        return False

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        arrays = [self.trees[name] for name in IN_MODELS]
        settings = {"own": self.own, "categories": self.categories, "within": self.within}
        found = tree_scores_p.bind(items.astype(jnp.float32), present, *arrays, **settings)
        return found.astype(items.dtype)


tree_scores_p = Primitive("tree_scores")
"""Scores of padded sets, (..., items, columns) and (..., items) to (..., items)."""


def _on_host(settings: tuple[Any, ...], items: Any, present: Any, *arrays: Any) -> np.ndarray:
    rows, there = np.asarray(items), np.asarray(present)
    trees = _known(tuple(np.asarray(one).tobytes() for one in arrays))
    sets = trees.of_sets(
        TreeView(*settings),
        rows.reshape(-1, *rows.shape[-2:]),
        there.reshape(-1, there.shape[-1]),
    )
    return sets.reshape(there.shape)


@lru_cache(maxsize=16)
def _known(content: tuple[bytes, ...]) -> Trees:
    """Trees by what their arrays hold: what is prepared for scoring is prepared once."""
    named = zip(IN_MODELS.items(), content, strict=True)
    return Trees(**{name: np.frombuffer(one, kind) for (name, kind), one in named})


def _lowered(context: Any, *args: Any, own: int, categories: Any, within: bool) -> Any:
    """Call NumPy. Unlike ``jax.pure_callback`` this gives it NumPy's arrays: JAX's would have to be
    copied by the threads that wait for the result, and where calls are as many as threads, none
    would ever end."""
    host = partial(_on_host, (own, categories, within))
    result, _, _ = mlir.emit_python_callback(
        context, lambda *arrays: (host(*arrays),), None, list(args), context.avals_in,
        context.avals_out, has_side_effect=False, returns_token=False,
    )  # fmt: skip
    return result


@tree_scores_p.def_abstract_eval
def _abstract(items: Any, present: Any, *arrays: Any, **settings: Any) -> Any:
    return present.update(dtype=np.dtype("float32"))


def _batched(args: Any, axes: Any, **settings: Any) -> tuple[Array, int]:
    size = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
    if any(axis is not None for axis in axes[2:]):  # several models at once
        each = [
            [x if axis is None else jax.lax.index_in_dim(x, n, axis, keepdims=False)
             for x, axis in zip(args, axes, strict=True)]
            for n in range(size)
        ]  # fmt: skip
        return jnp.stack([tree_scores_p.bind(*one, **settings) for one in each]), 0
    moved = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(args[:2], axes[:2], strict=True)
    ]
    return tree_scores_p.bind(*moved, *args[2:], **settings), 0


def _no_slope(primals: Any, tangents: Any, **settings: Any) -> Any:
    raise InputError(
        "scores of trees are flat between their thresholds and jump at them, so that they have no "
        "derivatives; ask for finite changes"
    )


tree_scores_p.def_impl(jax.jit(tree_scores_p.bind, static_argnames=("own", "categories", "within")))
batching.primitive_batchers[tree_scores_p] = _batched
ad.primitive_jvps[tree_scores_p] = _no_slope
mlir.register_lowering(tree_scores_p, _lowered)

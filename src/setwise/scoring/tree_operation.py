"""The operation ``trees``: scores of boosted trees from encoded items, in NumPy and as ONNX.

Its weights are the arrays of :class:`setwise._trees.Trees`, in the order of
:data:`setwise._trees.IN_MODELS`. They may come from a file, so they are checked before use.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from setwise._errors import InputError
from setwise._tree_view import FLOOR, TreeView
from setwise._trees import CATEGORICAL, IN_MODELS, ZERO_IS_MISSING, Trees, together
from setwise.scoring.operation_types import OnnxCall, OperationType, Settings, Spec, is_whole

DOUBLE = "float64"


def view_of(settings: Settings) -> TreeView:
    """The columns that the trees see; settings of a file that make no sense are an error."""
    own, categories, within = settings
    pairs = isinstance(categories, tuple) and all(
        isinstance(one, tuple) and len(one) == 2 and all(map(is_whole, one)) for one in categories
    )
    if not is_whole(own) or not pairs or type(within) is not bool:
        raise InputError(f"{settings} do not say what the trees see")
    return TreeView(own, categories, within)


def checked_trees(view: TreeView, width: int, arrays: Any) -> Trees:
    """The trees, if they can score items of ``width`` columns."""
    view.check(width)
    return Trees.of(dict(zip(IN_MODELS, arrays, strict=True)), view.width(width))


def _spec(settings: Settings, inputs: list[Spec]) -> Spec:
    items, present, *arrays = inputs
    view = view_of(settings)
    if items.dtype != "float32" or items.shape[:-1] != ("sets", "items") or len(items.shape) != 3:
        raise InputError(f"it is not for items of shape {items.shape}")
    if present != Spec(("sets", "items"), "bool") or not is_whole(items.shape[2]):
        raise InputError(f"it is not for presence of shape {present.shape}")
    view.check(int(items.shape[2]))
    for (name, dtype), one in zip(IN_MODELS.items(), arrays, strict=True):
        if one.dtype != dtype or len(one.shape) != 1 or not is_whole(one.shape[0]):
            raise InputError(f"the trees' '{name}' is not a vector of {dtype}")
    return Spec(("sets", "items"), "float32")


class TreeScores:
    """Scores of trees from items and presence; the tables of masks are made at the first call."""

    def __init__(self, view: TreeView, arrays: Sequence[np.ndarray]):
        self.view, self._arrays = view, arrays
        self._ready: dict[int, Trees] = {}

    def trees(self, width: int) -> Trees:
        """The trees, for items of this many columns."""
        if width not in self._ready:
            self._ready[width] = checked_trees(self.view, width, self._arrays)
        return self._ready[width]

    def __call__(self, items: np.ndarray, present: np.ndarray) -> np.ndarray:
        """The scores of padded sets."""
        return together([self.trees(items.shape[2])], self.view, items, present)[0]


def scores_together(
    named: Mapping[str, TreeScores], items: np.ndarray, present: np.ndarray
) -> dict[str, np.ndarray]:
    """The scores by name; what several see of the items is computed once."""
    alike: dict[Settings, list[str]] = {}
    for name, one in named.items():
        alike.setdefault((one.view.own, one.view.categories), []).append(name)
    found: dict[str, np.ndarray] = {}
    for (own, categories), names in alike.items():
        view = TreeView(own, categories, any(named[name].view.within for name in names))
        forests = [named[name].trees(items.shape[2]) for name in names]
        found |= zip(names, together(forests, view, items, present), strict=True)
    return found


def _numpy(settings: Settings, *arrays: np.ndarray) -> TreeScores:
    return TreeScores(view_of(settings), arrays)


# ONNX


class _Writer:
    """Nodes that compute in double precision what :class:`TreeView` does."""

    def __init__(self, call: OnnxCall, items: str, present: str):
        self.call, self.add = call, call.nodes.add
        self.items = call.nodes.cast(items, DOUBLE)
        self.there = self.add("Unsqueeze", present, self.numbers([2]))

    def numbers(self, values: Any) -> str:
        return self.call.nodes.constant(values, np.int64)

    def double(self, value: Any) -> str:
        return self.call.nodes.constant(value, np.float64)

    def columns(self, view: TreeView, width: int) -> str:
        """All columns, in double precision but rounded to single."""
        parts = [self._plain(view, *one) for one in view.plain(width)]
        if view.within:
            parts += self._standing(view.numbers())
        whole = self.add("Concat", *parts, axis=2)
        return self.call.nodes.cast(self.call.nodes.cast(whole, "float32"), DOUBLE)

    def _part(self, begin: int, end: int) -> str:
        return self.add("Slice", self.items, *(self.numbers([n]) for n in (begin, end, 2)))

    def _plain(self, view: TreeView, begin: int, end: int) -> str:
        part = self._part(begin, end)
        if (begin, end) not in view.categories:
            return part
        has = self.call.nodes.cast(self.add("Greater", part, self.double(0.0)), DOUBLE)
        places = np.arange(1.0, end - begin + 1)[:, None]
        return self.add("MatMul", has, self.double(places))

    def _sum(self, x: str, axis: int = 1, keep: int = 1) -> str:
        return self.add("ReduceSum", x, self.numbers([axis]), keepdims=keep)

    def _standing(self, numbers: list[int]) -> list[str]:
        """The columns ``WITHIN`` of each number, and the number of items."""
        add, zero, one = self.add, self.double(0.0), self.double(1.0)
        there = self.call.nodes.cast(self.there, DOUBLE)
        count = self._sum(there)
        ones = add("Add", add("Mul", there, zero), count)
        if not numbers:
            return [ones]
        x = add("Gather", self.items, self.numbers(numbers), axis=2)
        up, down = (add("Where", self.there, x, self.double(end)) for end in (np.inf, -np.inf))
        low = add("ReduceMin", up, axes=[1], keepdims=1)
        high = add("ReduceMax", down, axes=[1], keepdims=1)
        span = add("Sub", high, low)
        varied = add("Greater", span, self.double(FLOOR))
        above = add("Where", varied, add("Sub", x, low), zero)
        position = add("Div", above, add("Where", varied, span, one))
        position = add("Where", self.there, position, zero)
        count = add("Max", count, one)
        middle = add("Div", self._sum(position), count)
        centred = add("Sub", position, middle)
        centred = add("Where", self.there, centred, zero)
        variance = add("Div", self._sum(add("Mul", centred, centred)), count)
        z = add("Div", centred, add("Sqrt", add("Where", varied, variance, one)))
        mean = add("Add", low, add("Mul", middle, add("Where", varied, span, zero)))
        nothing = add("Mul", there, zero)
        of_set = [add("Add", nothing, one) for one in (low, high, mean)]  # once for every item
        every = z, position, self._rank(up), *of_set
        shares = []
        for place in range(len(numbers)):
            at = [self.numbers([n]) for n in (place, place + 1, 2)]
            shares += [add("Slice", values, *at) for values in every]
        return [*shares, ones]

    def outside(self, rows: str, column: int, sets: list[bytes]) -> str:
        """For each set of categories, 1 where the row's is not among them, and 0 where it is."""
        size = max(map(len, sets))
        table = np.ones((size + 1, len(sets)))
        for number, one in enumerate(sets):
            table[: len(one), number] -= np.frombuffer(one, bool)
        code = self.add("Gather", rows, self.numbers(column), axis=1)
        last = self.double(float(size))
        known = self.add("Where", self.add("Greater", code, self.double(-1.0)), code, last)
        place = self.call.nodes.cast(self.add("Min", known, last), "int64")
        return self.add("Gather", self.double(table), place)

    def _rank(self, x: str) -> str:
        add, typed = self.add, self.call.nodes.cast
        other, own = (add("Unsqueeze", x, self.numbers([axis])) for axis in (1, 2))
        below = typed(add("Less", other, own), DOUBLE)
        not_above = typed(add("LessOrEqual", other, own), DOUBLE)
        twice = self._sum(add("Add", below, not_above), axis=2, keep=0)
        return add("Mul", add("Sub", twice, self.double(1.0)), self.double(0.5))


def _write(call: OnnxCall, items: str, present: str) -> str:
    view, width = view_of(call.settings), cast(int, call.inputs[0].shape[2])
    trees = checked_trees(view, width, call.arrays)
    if (trees.decision & ZERO_IS_MISSING).any():
        raise InputError("trees that take 0 for a missing value cannot be written as ONNX")
    writer, add, columns = _Writer(call, items, present), call.nodes.add, view.width(width)
    rows = add("Reshape", writer.columns(view, width), writer.numbers([-1, columns]))
    feature, threshold = trees.feature.astype(np.int64), trees.threshold.astype(np.float64)
    sets: dict[int, dict[bytes, list[int]]] = {}
    for split in np.flatnonzero(trees.decision & CATEGORICAL).tolist():
        member = trees.members(int(trees.threshold[split]))
        of_column = sets.setdefault(int(feature[split]), {})
        of_column.setdefault(member.tobytes(), []).append(split)
    parts = [rows]
    for column, of_column in sets.items():  # a column for every set: 0 where it has the category
        parts.append(writer.outside(rows, column, list(of_column)))
        for splits in of_column.values():
            feature[splits], threshold[splits] = columns, 0.5
            columns += 1
    if len(parts) > 1:
        rows = add("Concat", *parts, axis=1)
    scores = add(
        "TreeEnsembleRegressor", rows, domain="ai.onnx.ml", n_targets=1, aggregate_function="SUM",
        **_node_lists(call, trees, feature, threshold),
    )  # fmt: skip
    return add("Reshape", scores, add("Shape", present))


def _node_lists(
    call: OnnxCall, trees: Trees, feature: np.ndarray, threshold: np.ndarray
) -> dict[str, Any]:
    """The attributes of ONNX's trees: of each tree, first its splits, then its leaves."""
    splits = trees.leaves.astype(np.int64) - 1
    nodes = 2 * splits + 1
    own = np.arange(nodes.sum()) - np.repeat(np.cumsum(nodes) - nodes, nodes)
    tree = np.repeat(np.arange(len(nodes)), nodes)
    inner = own < splits[tree]

    def placed(values: np.ndarray) -> list[int]:
        whole = np.zeros(len(own), np.int64)
        whole[inner] = values
        return whole.tolist()

    def below(child: np.ndarray) -> list[int]:
        child = child.astype(np.int64)
        return placed(np.where(child < 0, np.repeat(splits, splits) + ~child, child))

    cuts = np.zeros(len(own))
    cuts[inner] = threshold
    return {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": own.tolist(),
        "nodes_featureids": placed(feature),
        "nodes_modes": np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        "nodes_truenodeids": below(trees.left),
        "nodes_falsenodeids": below(trees.right),
        "nodes_values_as_tensor": call.nodes.tensor(cuts),
        "target_treeids": tree[~inner].tolist(),
        "target_nodeids": own[~inner].tolist(),
        "target_ids": [0] * int((~inner).sum()),
        "target_weights_as_tensor": call.nodes.tensor(trees.value.astype(np.float64)),
    }


TREES = OperationType(
    "trees",
    2 + len(IN_MODELS),
    _spec,
    _numpy,
    _write,
    weights=len(IN_MODELS),
    check=lambda settings, items, *arrays: checked_trees(view_of(settings), items.shape[2], arrays),
)

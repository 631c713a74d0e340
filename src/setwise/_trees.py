"""Boosted trees as arrays: parsed once from LightGBM's text, checked when read, scored by NumPy.

LightGBM ends the process on text that it cannot read, so no text of a file is ever given to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Bool, Float, Float32, Float64, Int, Shaped
from setwise._tree_division import divided
from setwise._tree_masks import WIDTHS, MaskedTrees, RowsOfSets, Splits, groups_of
from setwise._tree_view import Items, Present, TreeView

ROWS_AT_A_TIME = 4096  # their columns stay in the processor's cache
CATEGORICAL, DEFAULT_LEFT, ZERO_IS_MISSING, NAN_IS_MISSING = 1, 2, 4, 8
NEARLY_ZERO = np.float32(1e-35)
TYPES = {
    "leaves": "int32", "feature": "int32", "threshold": "float64", "decision": "uint8",
    "left": "int32", "right": "int32", "value": "float64", "category_ends": "int32",
    "categories": "uint32",
}  # fmt: skip
IN_MODELS = TYPES | {
    "threshold": "float32", "value": "float32", "decision": "int32", "categories": "int32",
}  # fmt: skip
"""The types that models hold: see :meth:`Trees.single`."""
MOST_DIVIDED = 256
"""Leaves up to which a tree is scored as several small ones; more would take long to prepare."""
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees one after the other: their splits, and their leaves' values, whose sum is the score.

    A split sends a row to the left if its feature is at most the threshold. ``decision`` has bits
    for what else there is: categories (the threshold then is the number of a set of them, which go
    left), and where missing values go. ``left`` and ``right`` are splits of the same tree, or, as
    ~n, its n-th leaf.
    """

    leaves: Int[np.ndarray, " trees"]
    """How many leaves each tree has; it has one split less."""
    feature: Int[np.ndarray, " splits"]
    threshold: Float[np.ndarray, " splits"]
    decision: Shaped[np.ndarray, " splits"]
    left: Int[np.ndarray, " splits"]
    right: Int[np.ndarray, " splits"]
    value: Float[np.ndarray, " leaves"]
    category_ends: Int[np.ndarray, " sets"]
    """Where the bits of each set of categories end among ``categories``."""
    categories: Shaped[np.ndarray, " words"]
    """One bit for each category, 32 in a word."""

    @classmethod
    def parsed(cls, text: str) -> "Trees":
        """The trees of LightGBM's own text."""
        found: dict[str, list[Any]] = {name: [] for name in TYPES}
        for block in text.split("\nTree=")[1:]:
            lines = (line.partition("=") for line in block.splitlines() if "=" in line)
            tree = {name: value.split() for name, _, value in lines}
            if tree.get("is_linear", ["0"]) != ["0"]:
                raise InputError("trees with linear models in their leaves cannot be scored")
            found["leaves"].append(int(tree["num_leaves"][0]))
            found["value"] += map(float, tree["leaf_value"])
            if found["leaves"][-1] == 1:  # it has no split
                continue
            bits = [int(one) for one in tree["decision_type"]]
            sets, words = len(found["category_ends"]), len(found["categories"])
            found["threshold"] += [
                float(one) + (sets if bit & CATEGORICAL else 0)
                for one, bit in zip(tree["threshold"], bits, strict=True)
            ]
            found["category_ends"] += [
                words + int(one) for one in tree.get("cat_boundaries", [])[1:]
            ]
            found["categories"] += map(int, tree.get("cat_threshold", []))
            found["decision"] += bits
            for name, called in _CALLED.items():
                found[name] += map(int, tree[called])
        return cls(**{name: np.array(found[name], dtype) for name, dtype in TYPES.items()})

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], width: int) -> "Trees":
        """The trees of a file's arrays, for rows of ``width`` columns; each number is checked."""
        if arrays.keys() != TYPES.keys():
            raise InputError("the file's arrays are not those of trees; train the model again")
        for name, dtype in TYPES.items():
            known = (dtype, IN_MODELS[name])
            if arrays[name].ndim != 1 or arrays[name].dtype.name not in known:
                raise InputError(f"the trees' '{name}' is not a vector of {dtype}")
        trees = cls(**arrays)
        trees._check(width)
        return trees

    def arrays(self) -> dict[str, np.ndarray]:
        """What a file holds."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def single(self, times: float = 1.0) -> "Trees":
        """The same trees for rows of float32, in types that models hold, with no array empty.

        A number of single precision is at most a threshold exactly if it is at most the next
        lower threshold of single precision, so that no row goes another way. Leaves' values are
        multiplied by ``times`` and rounded.
        """
        trees = self if len(self.feature) else self._with_a_split()
        numeric = (trees.decision & CATEGORICAL) == 0
        exact = np.clip(trees.threshold, -LARGEST, LARGEST)
        threshold = exact.astype(np.float32)
        above = numeric & (threshold > exact)
        threshold[above] = np.nextafter(threshold[above], np.float32(-np.inf))
        threshold[~numeric] += 1  # for a first set without categories: so there always is one
        ends = np.concatenate([[1], trees.category_ends.astype(np.int32) + 1])
        words = np.concatenate([[0], trees.categories]).astype(np.uint32)
        changed = {
            "threshold": threshold,
            "value": trees.value * times,
            "category_ends": ends,
            "categories": words.view(np.int32),
        }
        arrays = trees.arrays() | changed
        return Trees(**{name: arrays[name].astype(kind) for name, kind in IN_MODELS.items()})

    def _with_a_split(self) -> "Trees":
        """The sum of trees of one leaf each, as a tree with a split that does not matter."""
        one, value = np.zeros(1, np.int32), np.full(2, self.value.sum(), self.value.dtype)
        return Trees(
            leaves=one + 2, feature=one, threshold=np.zeros(1), decision=one.astype(np.uint8),
            left=one - 1, right=one - 2, value=value,
            category_ends=self.category_ends, categories=self.categories,
        )  # fmt: skip

    def _check(self, width: int) -> None:
        splits, leaves = self.leaves.astype(np.int64) - 1, int(self.leaves.sum(dtype=np.int64))
        count = leaves - len(self.leaves)
        if (splits < 0).any() or len(self.value) != leaves:
            raise InputError("the trees do not have the leaves that they say")
        lengths = {len(getattr(self, name)) for name in TYPES if name in _OF_SPLITS}
        if lengths != {count}:
            raise InputError(f"the trees do not have {count} splits")
        own = np.arange(count) - np.repeat(np.cumsum(splits) - splits, splits)
        of_tree = np.repeat(splits, splits)
        for child in (self.left.astype(np.int64), self.right.astype(np.int64)):
            # Splits come after the one that leads to them: no way through a tree is endless.
            if not np.where(child < 0, ~child <= of_tree, (own < child) & (child < of_tree)).all():
                raise InputError("a split of the trees leads out of its tree, or back")
        start = np.repeat(np.cumsum(2 * splits + 1) - 2 * splits - 1, splits)
        reached = [
            start + np.where(child < 0, of_tree + ~child.astype(np.int64), child)
            for child in (self.left, self.right)
        ]
        if len(np.unique(np.concatenate(reached))) != 2 * count:
            raise InputError("two splits of the trees lead to the same place")
        if not ((self.feature >= 0) & (self.feature < width)).all():
            raise InputError(f"a split of the trees is of a column beyond the {width} there are")
        if not np.isfinite(self.value).all() or np.isnan(self.threshold).any():
            raise InputError("the trees have numbers that are not finite")
        if ((self.decision < 0) | (self.decision >= 12)).any():
            raise InputError("a split of the trees is of an unknown kind")
        ends, sets = self.category_ends.astype(np.int64), self.threshold[self._categorical]
        whole = (sets == np.floor(sets)) & (sets >= 0) & (sets < len(ends))
        if not whole.all() or (np.diff(ends, prepend=0) < 0).any():
            raise InputError("the trees' sets of categories contradict each other")
        if (ends[-1] if len(ends) else 0) != len(self.categories):
            raise InputError("the trees' sets of categories contradict each other")

    @property
    def _categorical(self) -> Bool[np.ndarray, " splits"]:
        return (self.decision & CATEGORICAL) > 0

    def predict(self, rows: Float[np.ndarray, "rows columns"]) -> Float64[np.ndarray, " rows"]:
        """The score of each row: the sum of the values of its leaves."""
        out = np.zeros(len(rows))
        for begin in range(0, len(rows), ROWS_AT_A_TIME):
            some = slice(begin, begin + ROWS_AT_A_TIME)
            self._add_columns(np.ascontiguousarray(rows[some].T), out[some])
        return out

    def of_sets(
        self, view: "TreeView", items: Items, present: Present
    ) -> Float32[np.ndarray, "sets items"]:
        """The scores of padded sets, whose items are encoded; 0 for absent ones."""
        return together([self], view, items, present)[0]

    def _add_columns(
        self,
        columns: Float[np.ndarray, "columns n"],
        out: Float64[np.ndarray, " n"],
        of_set: tuple[int, ...] = (),
        sets: RowsOfSets | None = None,
    ) -> None:
        """Add the scores of rows, of which the columns ``of_set`` are the same within sets."""
        groups = self._groups(of_set)
        if groups is None or np.isnan(columns).any():
            self._add(np.ascontiguousarray(columns.T, np.float64), out)
        else:
            for group in groups:
                group.add_to(out, columns, sets)

    @cached_property
    def _prepared(self) -> dict[tuple[int, ...], list[MaskedTrees] | None]:
        return {}

    def _groups(self, of_set: tuple[int, ...] = ()) -> list[MaskedTrees] | None:
        """The trees as bit masks; None where they must be gone through split by split."""
        if of_set not in self._prepared:
            self._prepared[of_set] = self._masked(of_set)
        return self._prepared[of_set]

    def _masked(self, of_set: tuple[int, ...]) -> list[MaskedTrees] | None:
        if (self.decision & ZERO_IS_MISSING).any():
            return None
        if not len(self.leaves):
            return None
        if self.leaves.max() > MOST_DIVIDED:
            return None
        if self.leaves.max() > WIDTHS[-1]:
            small = divided(self.arrays(), WIDTHS[-1])
            return None if small is None else Trees(**small)._masked(of_set)
        splits = self.leaves.astype(np.int64) - 1
        order, first, end = self._from_left_to_right()
        ends = np.cumsum(self.leaves)
        values = [self.value[own] for own in np.split(order, ends[:-1])]
        tree = np.repeat(np.arange(len(splits)), splits)
        member = [
            self.members(int(number)) if by_category else None
            for number, by_category in zip(self.threshold, self._categorical.tolist(), strict=True)
        ]
        own = Splits(tree, self.feature.astype(np.int64), self.threshold, member, first, end)
        return groups_of(self.leaves, values, own, of_set)

    def members(self, number: int) -> Bool[np.ndarray, " categories"]:
        """Which categories are in the set of this number."""
        begin = int(self.category_ends[number - 1]) if number else 0
        words = self.categories[begin : int(self.category_ends[number])].astype("<u4")
        return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)

    def _from_left_to_right(
        self,
    ) -> tuple[Int[np.ndarray, " leaves"], Int[np.ndarray, " splits"], Int[np.ndarray, " splits"]]:
        """The leaves' places in ``value``; of each split, the first leaf on its left and right.

        The latter are counted within the tree.
        """
        left, right = self.left.tolist(), self.right.tolist()
        order, first, end = [], [0] * len(left), [0] * len(left)
        split = leaf = 0
        for leaves in self.leaves.tolist():
            below = [1] * (leaves - 1)  # how many leaves there are below each split
            for one in range(leaves - 2, -1, -1):  # those that a split leads to come after it
                sides = (left[split + one], right[split + one])
                below[one] = sum(1 if side < 0 else below[side] for side in sides)
            places = [0] * leaves
            for one in range(leaves - 1):
                at = split + one
                on_left = 1 if left[at] < 0 else below[left[at]]
                end[at] = first[at] + on_left
                for side, begins in ((left[at], first[at]), (right[at], end[at])):
                    if side < 0:
                        places[begins] = ~side
                    else:
                        first[split + side] = begins
            order += [leaf + place for place in places]
            split, leaf = split + leaves - 1, leaf + leaves
        return np.array(order, np.int64), np.array(first, np.int64), np.array(end, np.int64)

    def _add(self, rows: Float64[np.ndarray, "n d"], out: Float64[np.ndarray, " n"]) -> None:
        nodes, flat = self._nodes, rows.reshape(-1)
        first = np.arange(len(rows)) * rows.shape[1]
        plain = not nodes.special.any() and not np.isnan(flat).any()
        for root, depth in zip(nodes.roots.tolist(), nodes.depths.tolist(), strict=True):
            at = np.full(len(rows), root)
            for _ in range(depth):
                values = flat[first + nodes.feature[at]]
                left = values <= nodes.threshold[at] if plain else self._left(at, values)
                at = nodes.children[2 * at + ~left]
            out += nodes.value[at]

    def _left(
        self, at: Int[np.ndarray, " n"], values: Float64[np.ndarray, " n"]
    ) -> Bool[np.ndarray, " n"]:
        """Whether rows go to the left, with missing values and categories, as LightGBM has it."""
        nodes = self._nodes
        bits, gone = nodes.decision[at], np.isnan(values)
        known = np.where(gone & ((bits & NAN_IS_MISSING) == 0), 0.0, values)
        missing = gone & ((bits & NAN_IS_MISSING) > 0)
        missing |= (np.abs(known) <= NEARLY_ZERO) & ((bits & ZERO_IS_MISSING) > 0)
        left = np.where(missing, (bits & DEFAULT_LEFT) > 0, known <= nodes.threshold[at])
        of_set = np.flatnonzero(bits & CATEGORICAL)
        if len(of_set):
            number, value = nodes.threshold[at[of_set]].astype(np.int64), values[of_set]
            left[of_set] = self._among(number, np.where(np.isnan(value), -1.0, value))
        return left

    def _among(
        self, number: Int[np.ndarray, " n"], values: Float64[np.ndarray, " n"]
    ) -> Bool[np.ndarray, " n"]:
        """Whether each value is in the set of categories of this number."""
        ends = self.category_ends.astype(np.int64)
        begins = np.concatenate([[0], ends[:-1]])
        category = np.clip(np.trunc(values), -1, 2**31 - 1).astype(np.int64)
        word = begins[number] + category // 32
        inside = (values > -1) & (category >= 0) & (word < ends[number])
        bits = np.append(self.categories.astype(np.uint32), np.uint32(0))[
            np.where(inside, word, -1)
        ] >> (category % 32).astype(np.uint32)
        return inside & ((bits & 1) > 0)

    @cached_property
    def _nodes(self) -> "_Nodes":
        return _Nodes.of(self)


def together(
    forests: Sequence[Trees], view: TreeView, items: Items, present: Present
) -> list[Float32[np.ndarray, "sets items"]]:
    """The scores of several forests that see the same columns, or the first of them."""
    sets, size = present.shape
    found = [np.zeros((size, sets), np.float32).T for _ in forests]
    of_set = view.of_the_set(items.shape[2])
    at_once = max(1, ROWS_AT_A_TIME // max(1, size))
    for begin in range(0, sets, at_once):
        some = slice(begin, begin + at_once)
        there = present[some].T
        columns = view.of_sets(items[some], present[some]).reshape(-1, there.size)
        number = np.tile(np.arange(there.shape[1]), size)
        if not there.all():
            columns, number = columns[:, there.reshape(-1)], number[there.reshape(-1)]
        known, first = np.unique(number, return_index=True)
        rows = RowsOfSets(np.searchsorted(known, number), first)
        for forest, out in zip(forests, found, strict=True):
            scores = np.zeros(columns.shape[1])
            forest._add_columns(columns, scores, of_set, rows)
            out[some].T[there] = scores
    return found


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Splits and leaves of all trees in one list; a leaf leads to itself on both sides."""

    roots: Int[np.ndarray, " trees"]
    depths: Int[np.ndarray, " trees"]
    feature: Int[np.ndarray, " nodes"]
    threshold: Float64[np.ndarray, " nodes"]
    decision: Shaped[np.ndarray, " nodes"]
    children: Int[np.ndarray, " two_nodes"]
    value: Float64[np.ndarray, " nodes"]
    special: Bool[np.ndarray, " nodes"]

    @classmethod
    def of(cls, trees: Trees) -> "_Nodes":
        splits = trees.leaves.astype(np.int64) - 1
        sizes = 2 * splits + 1
        roots = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        own = np.arange(len(trees.feature)) - np.repeat(np.cumsum(splits) - splits, splits)
        place = np.repeat(roots, splits) + own  # of each split: first in its tree
        leaf = np.ones(total, bool)
        leaf[place] = False
        feature, decision = np.zeros(total, np.int64), np.zeros(total, np.uint8)
        threshold, value = np.zeros(total), np.zeros(total)
        feature[place], decision[place] = trees.feature, trees.decision
        threshold[place], value[leaf] = trees.threshold, trees.value
        children = np.repeat(np.arange(total), 2)
        for side, given in enumerate((trees.left.astype(np.int64), trees.right.astype(np.int64))):
            inner = np.where(given < 0, np.repeat(splits, splits) + ~given, given)
            children[2 * place + side] = np.repeat(roots, splits) + inner
        depth = np.zeros(total, np.int64)
        for node in place.tolist():  # splits come before those that they lead to
            depth[children[2 * node : 2 * node + 2]] = depth[node] + 1
        depths = np.maximum.reduceat(depth, roots) if len(roots) else roots
        special = (decision & ~np.uint8(DEFAULT_LEFT)) > 0
        return cls(roots, depths, feature, threshold, decision, children, value, special)


# What trees see of an item


_CALLED = {"feature": "split_feature", "left": "left_child", "right": "right_child"}
_OF_SPLITS = ("feature", "threshold", "decision", "left", "right")

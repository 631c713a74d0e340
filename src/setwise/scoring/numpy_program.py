"""A graph made ready to run in NumPy: constants computed, steps compiled, memory planned.

The table of operations says what each step computes. Here are faster ways for some: products are
the fewest and largest calls of BLAS that the layout allows, adding axes of length one is an index,
and results are written over values that are not needed again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from setwise._shapes import Bool, Float32
from setwise.scoring.graph import Graph, Operation, computed, live
from setwise.scoring.operations import OPERATIONS, Shape
from setwise.scoring.products import product_of, sets_last
from setwise.scoring.shared_products import in_pieces, joined
from setwise.scoring.simplify import Folded, complete, folded
from setwise.scoring.tree_operation import TreeScores, scores_together, view_of

VIEWS = ("reshape", "transpose", "slice", "broadcast")
GIVEN = ("input", "weight", "literal", "size", "broadcast")

Values = list[Any]
"""The value of every operation, then the number of sets and the number of items."""
Step = Callable[[Values], None]

NUMBERS_PER_BLOCK = 800_000
"""In the largest array of a block: blocks that stay in the processor's cache are fastest."""
FEWEST_ITEMS_PER_BLOCK = 400
"""With fewer, the overhead of each call of NumPy costs more than the cache saves."""


def _as_index(old: Shape, new: Shape) -> tuple[Any, ...] | None:
    """The index that adds and takes away axes of length one, if nothing else changes.

    >>> _as_index(("sets", 8), ("sets", 1, 8))
    (slice(None, None, None), None, slice(None, None, None))
    """
    if [size for size in old if size != 1] != [size for size in new if size != 1]:
        return None
    index: list[Any] = []
    left, right = list(old), list(new)
    while left or right:
        if left and right and left[0] == right[0]:
            left.pop(0), right.pop(0)
            index.append(slice(None))
        elif left and left[0] == 1:
            left.pop(0)
            index.append(0)
        else:
            right.pop(0)
            index.append(None)
    return tuple(index)


# Steps


def step_of(graph: Graph, place: int, over: int | None, arrays: Mapping[int, np.ndarray]) -> Step:
    """What computes the value at this place; ``over`` is the input that it may write over."""
    one = graph.operations[place]
    row = OPERATIONS[one.name]
    if over is not None:
        return _in_place(one, place, over)
    known = [arrays[number] for number in one.inputs[len(one.data) :]]
    function, inputs = row.function(one.settings, *known), one.data
    index = None
    if one.name == "reshape":
        index = _as_index(graph.specs[inputs[0]].shape, graph.specs[place].shape)
    if one.name == "dot":
        left, right = (graph.specs[number] for number in inputs)
        function = product_of(one.settings, left, right, arrays.get(inputs[1]))
    elif index is not None:
        function = itemgetter(index)
    elif row.sized:
        inputs = (*inputs, len(graph.operations), len(graph.operations) + 1)
    return _call(function, inputs, place)


def _call(function: Callable[..., Any], inputs: tuple[int, ...], place: int) -> Step:
    x, y = inputs[0], inputs[-1]

    def unary(v: Values) -> None:
        v[place] = function(v[x])

    def binary(v: Values) -> None:
        v[place] = function(v[x], v[y])

    def general(v: Values) -> None:
        v[place] = function(*[v[number] for number in inputs])

    return {1: unary, 2: binary}.get(len(inputs), general)


def _in_place(one: Operation, place: int, over: int) -> Step:
    if one.name == "where":
        return _where_in_place(one.inputs, place, over)
    function: Any = OPERATIONS[one.name].numpy
    x, y = one.inputs[0], one.inputs[-1]

    def unary(v: Values) -> None:
        v[place] = function(v[x], v[x])

    def binary(v: Values) -> None:
        v[place] = function(v[x], v[y], v[over])

    return unary if len(one.inputs) == 1 else binary


def _where_in_place(inputs: tuple[int, ...], place: int, over: int) -> Step:
    mask, x, y = inputs

    def into_x(v: Values) -> None:
        np.copyto(v[x], v[y], where=np.logical_not(v[mask]))
        v[place] = v[x]

    def into_y(v: Values) -> None:
        np.copyto(v[y], v[x], where=v[mask])
        v[place] = v[y]

    return into_x if over == x else into_y


# Memory


def last_uses(graph: Graph) -> list[int]:
    """The last operation that takes each value; beyond all of them for the result."""
    last = list(range(len(graph.operations)))
    for place, one in enumerate(graph.operations):
        for number in one.inputs:
            last[number] = place
    last[-1] = len(last)
    return last


def overwritten(graph: Graph) -> list[int | None]:
    """The input that each operation may write over: as large as its result, and needed no more.

    A view shares the memory of what it views; parts of one value that do not overlap are apart.

    >>> steps = [Operation("input", (), ("items", "float32", ("sets", "items"))),
    ...          Operation("exp", (0,)), Operation("neg", (1,)), Operation("add", (1, 2))]
    >>> overwritten(Graph(tuple(steps)))
    [None, None, None, 1]
    """
    last, apart = last_uses(graph), set(_parts(graph))
    owner: list[int | None] = []  # the operation that made the memory; none may be written over
    chosen: list[int | None] = []
    for place, one in enumerate(graph.operations):
        over = None
        if one.name in GIVEN or graph.specs[place].shape == ():
            owned: int | None = None
        elif one.name in VIEWS:
            owned = owner[one.inputs[0]]
            owned = place if owned is not None and place in apart else owned
        else:
            over = next(
                (x for x in _candidates(graph, one, place)
                 if owner[x] is not None and _free(x, place, owner, last)),
                None,
            )  # fmt: skip
            owned = place if over is None else owner[over]
        owner.append(owned)
        chosen.append(over)
    return chosen


def _free(x: int, place: int, owner: list[int | None], last: list[int]) -> bool:
    """Whether nothing after this operation looks at x's memory."""
    return all(last[y] <= place for y, made in enumerate(owner) if made == owner[x])


def _candidates(graph: Graph, one: Operation, place: int) -> Iterator[int]:
    if one.name == "where" or isinstance(OPERATIONS[one.name].numpy, np.ufunc):
        for number in one.inputs:
            if graph.specs[number] == graph.specs[place]:
                yield number


def _parts(graph: Graph) -> Iterator[int]:
    """Slices of values of which nothing but slices that do not overlap is used."""
    takers: dict[int, list[int]] = {}
    for place, one in enumerate(graph.operations):
        for number in one.inputs:
            takers.setdefault(number, []).append(place)
    for places in takers.values():
        parts = [graph.operations[place] for place in places]
        if any(one.name != "slice" or one.settings[3] != 1 for one in parts):
            continue
        spans = sorted(one.settings[1:3] for one in parts)
        ends = [0, *(end for _, end in spans)]
        along = {one.settings[0] for one in parts}
        if len(along) == 1 and all(
            begin >= end for (begin, _), end in zip(spans, ends, strict=False)
        ):
            yield from places


# Programs


@dataclass(frozen=True, eq=False)
class NumpyProgram:
    """log P(x | s) of padded sets; what does not depend on the data is computed already.

    Where every item is present, as in a set alone, a shorter list of steps does.
    """

    general: "Steps"
    complete: "Steps"
    trees: Mapping[str, TreeScores]
    """They are scored for all sets before any block, as more inputs: it is faster that way."""

    @classmethod
    def of(cls, graph: Graph, arrays: Mapping[str, np.ndarray]) -> "NumpyProgram":
        """The program of a model's graph."""
        first, trees = without_trees(in_pieces(joined(folded(graph, arrays))))
        short = Folded(complete(first.graph), first.arrays)
        return cls(Steps.of(*first), Steps.of(*short), trees)

    def inputs(self, items: np.ndarray, present: np.ndarray) -> dict[str, np.ndarray]:
        """What the steps take, by name."""
        trees = scores_together(self.trees, items, present)
        return {"items": items, "present": present, **trees}

    def __call__(
        self,
        items: Float32[np.ndarray, "sets items features"],
        present: Bool[np.ndarray, "sets items"],
    ) -> Float32[np.ndarray, "sets items"]:
        """A block of sets at a time."""
        sets, width = present.shape
        if sets == 0:
            return np.empty((0, width), np.float32)
        steps = self.complete if present.all() else self.general
        with np.errstate(all="ignore"):
            given = self.inputs(items, present)
            block = steps.sets_per_block(width)
            if sets <= block:
                return steps(given)
            out = np.empty((sets, width), np.float32)
            block = -(-sets // -(-sets // block))  # all alike: a short last one would be slow
            for begin in range(0, sets, block):
                part = slice(begin, begin + block)
                out[part] = steps({name: value[part] for name, value in given.items()})
        return out


def without_trees(plain: Folded) -> tuple[Folded, dict[str, TreeScores]]:
    """The graph with the scores of trees as inputs, and the trees.

    Trees gain from long blocks, and networks from short ones.
    """
    operations = list(plain.graph.operations)
    found: dict[str, TreeScores] = {}
    for place, one in enumerate(operations):
        given = [operations[number].settings[:1] for number in one.data]
        if one.name == "trees" and given == [("items",), ("present",)]:
            known = [plain.arrays[plain.graph.weight(n)] for n in one.inputs[len(one.data) :]]
            name, spec = f"trees.{place}", plain.graph.specs[place]
            found[name] = TreeScores(view_of(one.settings), known)
            operations[place] = Operation("input", (), (name, spec.dtype, spec.shape))
    graph = live(operations, len(operations) - 1)
    return Folded(graph, {name: plain.arrays[name] for name in graph.weights}), found


@dataclass(frozen=True, eq=False)
class Steps:
    """The operations of a graph as a list of functions, each with the values to forget after it."""

    values: tuple[Any, ...]
    inputs: tuple[tuple[int, str, Shape], ...]
    steps: tuple[tuple[Step, tuple[int, ...]], ...]
    largest: tuple[tuple[int, int], ...]
    """Size of a set's largest values as pairs (count, power): count x items ** power numbers."""

    @classmethod
    def of(cls, graph: Graph, arrays: Mapping[str, np.ndarray]) -> "Steps":
        """Compile a graph, with its arrays in place."""
        values: list[Any] = [None] * (len(graph.operations) + 2)
        inputs, steps, known = [], [], {}
        last, over = last_uses(graph), overwritten(graph)
        for place, one in enumerate(graph.operations):
            if one.name == "input":
                inputs.append((place, one.settings[0], one.settings[2]))
            elif one.name == "weight":
                values[place] = known[place] = arrays[one.settings[0]]
            elif one.name == "literal":
                values[place] = np.asarray(computed(one, ()))
            else:
                dead = tuple(x for x in set(one.inputs) if last[x] == place and x not in known)
                steps.append((step_of(graph, place, over[place], known), dead))
        return cls(tuple(values), tuple(inputs), tuple(steps), _largest(graph))

    def sets_per_block(self, items: int) -> int:
        """How many sets of this many items to compute at a time."""
        numbers = max(count * items**power for count, power in self.largest)
        return max(1, NUMBERS_PER_BLOCK // numbers, FEWEST_ITEMS_PER_BLOCK // items)

    def __call__(self, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """The result for one block."""
        values = list(self.values)
        values[-2:] = given["present"].shape
        for place, name, shape in self.inputs:
            values[place] = sets_last(given[name], shape)
        for step, dead in self.steps:
            step(values)
            for number in dead:
                values[number] = None
        return values[-3]


def _largest(graph: Graph) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {0: 1}
    for spec in graph.specs:
        if "sets" in spec.shape:
            power = spec.shape.count("items")
            fixed = int(np.prod([size for size in spec.shape if isinstance(size, int)]))
            counts[power] = max(counts.get(power, 1), fixed)
    return tuple((count, power) for power, count in counts.items())

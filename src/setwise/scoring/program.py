"""Which operations may write their result over one of their inputs, decided before any run.

A graph made ready to run: constants computed, steps compiled, memory planned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._shapes import Bool, Float32
from setwise.scoring.builder import complete
from setwise.scoring.folding import Folded, folded
from setwise.scoring.graph import BINARY, UNARY, Graph, Operation, literal
from setwise.scoring.numpy_steps import Step, step_of

VIEWS = ("reshape", "transpose", "slice", "broadcast")
GIVEN = ("input", "weight", "literal", "size", "broadcast")
IN_PLACE = (*(set(UNARY) - {"logistic"}), *BINARY, "where")


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
    if one.name in IN_PLACE:
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


NUMBERS_A_BLOCK = 120_000
"""Of the largest value of a block: blocks that stay in the processor's cache are fastest."""
ITEMS_A_BLOCK = 400
"""At least: with fewer, what each call of NumPy costs by itself is more than the cache spares."""


@dataclass(frozen=True, eq=False)
class Program:
    """log P(x | s) of padded sets; what does not depend on the data is computed already.

    Where every item is present, as in a set alone, a shorter list of steps does.
    """

    general: "Steps"
    complete: "Steps"

    @classmethod
    def of(cls, graph: Graph, arrays: Mapping[str, np.ndarray]) -> "Program":
        """The program of a model's graph."""
        plain = folded(graph, arrays)
        short = Folded(complete(plain.graph), plain.arrays)
        return cls(Steps.of(*plain), Steps.of(*short))

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
            block = steps.sets_a_block(width)
            if sets <= block:
                return steps(items, present)
            out = np.empty((sets, width), np.float32)
            for begin in range(0, sets, block):
                part = slice(begin, begin + block)
                out[part] = steps(items[part], present[part])
        return out


@dataclass(frozen=True, eq=False)
class Steps:
    """The operations of a graph as a list of functions, each with the values to forget after it."""

    values: tuple[Any, ...]
    inputs: tuple[tuple[int, str], ...]
    steps: tuple[tuple[Step, tuple[int, ...]], ...]
    largest: tuple[tuple[int, int], ...]
    """How many numbers a set's values have: so many, times a power of its items."""

    @classmethod
    def of(cls, graph: Graph, arrays: Mapping[str, np.ndarray]) -> "Steps":
        """Compile a graph, with its arrays in place."""
        values: list[Any] = [None] * (len(graph.operations) + 2)
        inputs, steps, known = [], [], {}
        last, over = last_uses(graph), overwritten(graph)
        for place, one in enumerate(graph.operations):
            if one.name == "input":
                inputs.append((place, one.settings[0]))
            elif one.name == "weight":
                values[place] = known[place] = arrays[one.settings[0]]
            elif one.name == "literal":
                values[place] = np.asarray(literal(one))
            else:
                dead = tuple(x for x in set(one.inputs) if last[x] == place and x not in known)
                steps.append((step_of(graph, place, over[place], known), dead))
        return cls(tuple(values), tuple(inputs), tuple(steps), _largest(graph))

    def sets_a_block(self, items: int) -> int:
        """How many sets of so many items to take at a time."""
        numbers = max(count * items**power for count, power in self.largest)
        return max(1, NUMBERS_A_BLOCK // numbers, ITEMS_A_BLOCK // items)

    def __call__(self, items: np.ndarray, present: np.ndarray) -> np.ndarray:
        """The result for one block."""
        values = list(self.values)
        values[-2:] = present.shape
        for place, name in self.inputs:
            values[place] = items if name == "items" else present
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

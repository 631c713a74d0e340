"""Graphs made simpler, without a change of meaning, before any data come.

:func:`folded` computes what the weights alone decide. :func:`complete` drops the masks, for sets
without padding.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from setwise._errors import InputError
from setwise.scoring.graph import Builder, Graph, Operation, computed
from setwise.scoring.operations import OPERATIONS, Spec

FOLDED = "folded."


class Folded(NamedTuple):
    """A graph and the arrays that it refers to."""

    graph: Graph
    arrays: dict[str, np.ndarray]


def folded(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Folded:
    """The same function with constants in place of what depends on weights alone.

    >>> build = Builder()
    >>> w = build.given("weight", "w", Spec((2,), "float32"))
    >>> x = build.given("input", "items", Spec(("sets", "items", 2), "float32"))
    >>> graph = build.graph(build.add("mul", x, build.add("exp", w)))
    >>> [one.name for one in folded(graph, {"w": np.zeros(2, np.float32)}).graph.operations]
    ['input', 'weight', 'mul']
    """
    for name, spec in graph.weights.items():
        found = arrays.get(name)
        if found is None or (found.shape, found.dtype.name) != spec:
            raise InputError(f"the graph's weight '{name}' does not fit the model's arrays")
    folding = _Folding(arrays)
    numbers: list[int] = []
    for one, spec in zip(graph.operations, graph.specs, strict=True):
        inputs = [numbers[number] for number in one.inputs]
        numbers.append(folding.folded(one, spec, inputs))
    made = folding.build.graph(numbers[-1])
    return Folded(made, {name: folding.arrays[name] for name in made.weights})


class _Folding:
    """The new graph so far, and what is constant in it."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self.build = Builder()
        self.arrays = dict(arrays)
        self._known: dict[int, Any] = {}
        """Constants, by the number that they have in the new graph."""

    def folded(self, one: Operation, spec: Spec, inputs: list[int]) -> int:
        """The number in the new graph of what this operation gives for these inputs."""
        if one.name == "input":
            return self.build.given("input", one.settings[0], spec)
        if one.name == "weight":
            return self._constant(self.arrays[one.settings[0]], one.settings[0])
        static = all(isinstance(size, int) for size in spec.shape) and one.name != "size"
        if static and all(number in self._known for number in inputs):
            with np.errstate(all="ignore"):
                return self._constant(computed(one, [self._known[i] for i in inputs]))
        if one.name == "dot":
            found = self._dot(one, inputs)
        elif one.name == "where":
            found = self._kink(inputs)
        elif OPERATIONS[one.name].elementwise and len(inputs) == 2 and spec.dtype != "bool":
            found = self.build.add(one.name, *(self._spread(number, spec) for number in inputs))
        else:
            found = None
        return self.build.add(one.name, *inputs, settings=one.settings) if found is None else found

    def _spread(self, number: int, spec: Spec) -> int:
        """A constant in full along the axes whose length is known: NumPy then runs through long
        stretches of memory at once, and not through one score at a time."""
        array = self._known.get(number)
        if array is None or array.ndim == 0:
            return number
        lengths = (1,) * (len(spec.shape) - array.ndim) + array.shape
        shape = tuple(
            own if isinstance(size, str) else size
            for own, size in zip(lengths, spec.shape, strict=True)
        )
        return number if shape == array.shape else self._constant(np.broadcast_to(array, shape))

    def _constant(self, value: Any, name: str | None = None) -> int:
        array = np.asarray(value)
        if array.ndim == 0:
            number = self.build.literal(array.item(), array.dtype.name)
        else:
            name = f"{FOLDED}{len(self._known)}" if name is None else name
            self.arrays[name] = np.ascontiguousarray(array)
            number = self.build.given("weight", name, Spec(array.shape, array.dtype.name))
        self._known[number] = array
        return number

    def _dot(self, one: Operation, inputs: list[int]) -> int | None:
        """x times the identity, or times a single 1, is x."""
        x, y = inputs
        if x in self._known:
            return self._swapped(one, x, y)
        right = self._known.get(y)
        shape = self.build.specs[x].shape
        summed_left, _, kept_left, _ = one.settings
        if right is None or kept_left or summed_left != (len(shape) - 1,):
            return None
        if right.shape == (1,) and right[0] == 1:
            return self.build.reshape(x, shape[:-1])
        square = right.ndim == 2 and right.shape[0] == right.shape[1]
        return x if square and np.array_equal(right, np.eye(len(right))) else None

    def _swapped(self, one: Operation, x: int, y: int) -> int:
        """A constant times a value, with the constant on the right: so products look alike."""
        summed_left, summed_right, kept_left, kept_right = one.settings
        settings = (summed_right, summed_left, kept_right, kept_left)
        kept, rank = len(kept_left), len(self.build.specs[y].shape)
        columns = rank - kept - len(summed_left)
        rows = len(self.build.specs[x].shape) - kept - len(summed_left)
        order = (*range(kept), *range(kept + columns, kept + columns + rows),
                 *range(kept, kept + columns))  # fmt: skip
        product = self.build.add("dot", y, x, settings=settings)
        return self.build.add("transpose", product, settings=order)

    def _kink(self, inputs: list[int]) -> int | None:
        """c f where z < 0 and f elsewhere is the lesser of both, if c >= 1 and f has z's sign.

        So it is for the evaluations with loss aversion, f = z and f = tanh z. Selecting by a mask
        costs several times as much.
        """
        test, steep, plain = (self.build.operations[number] for number in inputs)
        f = inputs[2]
        if test.name != "lt" or self.build.number(test.inputs[1]) != 0.0 or steep.name != "mul":
            return None
        z = test.inputs[0]
        same_sign = f == z or (plain.name == "tanh" and plain.inputs == (z,))
        c = self._known.get(next((number for number in steep.inputs if number != f), -1))
        if not same_sign or f not in steep.inputs or c is None or not (c >= 1).all():
            return None
        return self.build.add("min", inputs[1], f)


UNIFORM = (
    "reshape", "transpose", "broadcast", "slice", "largest", "smallest", "any", "all",
)  # fmt: skip
"""Operations that do not change a value that is the same everywhere."""


def complete(graph: Graph) -> Graph:
    """The same function, for data of which every item is present.

    >>> build = Builder()
    >>> x = build.given("input", "items", Spec(("sets", "items"), "float32"))
    >>> present = build.given("input", "present", Spec(("sets", "items"), "bool"))
    >>> masked = build.add("where", present, x, build.literal(0.0, "float32"))
    >>> mean = build.add("div", build.add("sum", masked, settings=(1,)), build.add("cast",
    ...     build.add("sum", build.add("cast", present, settings=("int32",)), settings=(1,)),
    ...     settings=("float32",)))
    >>> [one.name for one in complete(build.graph(mean)).operations]
    ['input', 'sum', 'size', 'cast', 'div']
    """
    completing = _Completing()
    numbers: list[int] = []
    for one, spec in zip(graph.operations, graph.specs, strict=True):
        inputs = [numbers[number] for number in one.inputs]
        old = [graph.specs[number] for number in one.inputs]
        numbers.append(completing.completed(one, spec, inputs, old))
    return completing.build.graph(completing.whole(numbers[-1], graph.specs[-1]))


class _Completing:
    """Values that are the same everywhere are plain numbers in the new graph."""

    def __init__(self) -> None:
        self.build = Builder()
        self.true = self.build.literal(True, "bool")
        self.one = {dtype: self.build.literal(1, dtype) for dtype in ("int32", "float32")}

    def completed(self, one: Operation, spec: Spec, x: list[int], old: list[Spec]) -> int:
        """The number in the new graph of what this operation gives for x, which had other specs."""
        name, settings = one.name, one.settings
        if name == "input":
            present = settings[0] == "present"
            return self.true if present else self.build.given("input", settings[0], spec)
        if name == "where" and x[0] == self.true:
            return self.whole(x[1], spec)
        if name in ("and", "or") and self.true in x:
            other = x[0] if x[1] == self.true else x[1]
            return self.true if name == "or" else self.whole(other, spec)
        if name == "sum" and x[0] in self.one.values():
            return self._count(one, old[0])
        if name == "max" and self._counts(x[0]) and x[1] in self.one.values():
            return x[0]  # no set is empty
        if OPERATIONS[name].elementwise:
            return self.build.add(name, *x, settings=settings)
        if name in UNIFORM and self.build.specs[x[0]].shape == ():
            return x[0]
        whole = [self.whole(number, spec) for number, spec in zip(x, old, strict=True)]
        return self.build.add(name, *whole, settings=settings)

    def whole(self, number: int, spec: Spec) -> int:
        """The value in the shape that it has in the old graph."""
        return self.build.add("broadcast", number, settings=spec.shape)

    def _counts(self, number: int) -> bool:
        return self.build.operations[number].name == "size"

    def _count(self, one: Operation, old: Spec) -> int:
        """How many ones there are: the sizes of the axes summed over."""
        total = self.one[old.dtype]
        for axis in one.settings:
            size = old.shape[axis]
            if isinstance(size, int):
                factor = self.build.literal(size, old.dtype)
            else:
                factor = self.build.add("size", settings=(size,))
                factor = self.build.add("cast", factor, settings=(old.dtype,))
            total = self.build.add("mul", factor, total)
        return total

"""A graph as nodes of ONNX: each operation is one or a few of its operators."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from setwise.graph import Graph, Operation
from setwise.graph.meaning import literal
from setwise.graph.specs import Shape, free_axes

OPERATORS = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "exp": "Exp", "log": "Log", "tanh": "Tanh",
    "sqrt": "Sqrt", "logistic": "Sigmoid", "floor": "Floor", "add": "Add", "sub": "Sub",
    "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow", "lt": "Less",
    "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal", "and": "And",
    "or": "Or", "not": "Not", "where": "Where", "take": "Gather",
}  # fmt: skip
"""Operations that are one operator."""

REDUCTIONS = {
    "largest": "ReduceMax",
    "smallest": "ReduceMin",
    "any": "ReduceMax",
    "all": "ReduceMin",
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Nodes:
    """Nodes and constants of one ONNX graph, as they are added; ``onnx`` is the package."""

    def __init__(self, onnx: Any):
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output; returns the output's name."""
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, array: Any, dtype: Any = None) -> str:
        """A constant; equal ones are kept once."""
        array = np.ascontiguousarray(np.asarray(array, dtype)).reshape(np.shape(array))
        for name, known in self.constants.items():
            alike = known.dtype == array.dtype and known.shape == array.shape
            if alike and known.tobytes() == array.tobytes():
                return name
        name = f"constant_{len(self.constants)}"
        self.constants[name] = array
        return name

    def rename(self, output: str, name: str) -> None:
        """Give a node's output, which no other node takes, a name of its own."""
        (node,) = [one for one in self.nodes if one.output[0] == output]
        node.output[0] = name

    def cast(self, x: str, dtype: str) -> str:
        """The value in another type."""
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", x, to=kind)

    def graph(self, graph: Graph, arrays: Mapping[str, np.ndarray], given: dict[str, str]) -> str:
        """All nodes of a graph; ``given`` says which values its inputs are."""
        return _Lowering(self, graph, arrays, given).done()


class _Lowering:
    def __init__(
        self, nodes: Nodes, graph: Graph, arrays: Mapping[str, np.ndarray], given: dict[str, str]
    ):
        self.nodes, self.graph, self.arrays, self.given = nodes, graph, arrays, given
        self.names: list[str] = []

    def done(self) -> str:
        """The name of the result."""
        for place, one in enumerate(self.graph.operations):
            self.names.append(self._value(place, one))
        return self.names[-1]

    def _value(self, place: int, one: Operation) -> str:
        if one.name == "input":
            return self.given[one.settings[0]]
        if one.name == "weight":
            return self.nodes.constant(self.arrays[one.settings[0]])
        if one.name == "literal":
            return self.nodes.constant(literal(one))
        inputs = [self.names[number] for number in one.inputs]
        if one.name in OPERATORS:
            return self.nodes.add(OPERATORS[one.name], *inputs)
        rule: Callable[..., str] = getattr(self, f"_{one.name}")
        return rule(place, *inputs)

    def _shape(self, number: int) -> Shape:
        return self.graph.specs[number].shape

    def _settings(self, place: int) -> tuple[Any, ...]:
        return self.graph.operations[place].settings

    def _axes(self, axes: Any) -> str:
        return self.nodes.constant(list(axes), np.int64)

    def _cast(self, place: int, x: str) -> str:
        return self.nodes.cast(x, self._settings(place)[0])

    def _ne(self, place: int, x: str, y: str) -> str:
        return self.nodes.add("Not", self.nodes.add("Equal", x, y))

    def _is_finite(self, place: int, x: str) -> str:
        infinite, no_number = self.nodes.add("IsInf", x), self.nodes.add("IsNaN", x)
        return self.nodes.add("Not", self.nodes.add("Or", infinite, no_number))

    def _log1p(self, place: int, x: str) -> str:
        """log(1 + x), as exact for small x as ONNX's operators allow (Kahan's way)."""
        one = self.nodes.constant(1, self.graph.specs[place].dtype)
        above = self.nodes.add("Add", x, one)
        gained = self.nodes.add("Sub", above, one)
        same = self.nodes.add("Equal", above, one)
        safe = self.nodes.add("Where", same, one, gained)
        share = self.nodes.add("Div", self.nodes.add("Mul", self.nodes.add("Log", above), x), safe)
        return self.nodes.add("Where", same, x, share)

    def _expm1(self, place: int, x: str) -> str:
        """exp(x) - 1 = tanh(x / 2) (exp(x) + 1), which loses no digits near 0."""
        dtype = self.graph.specs[place].dtype
        half = self.nodes.add("Mul", x, self.nodes.constant(0.5, dtype))
        above = self.nodes.add("Add", self.nodes.add("Exp", x), self.nodes.constant(1, dtype))
        return self.nodes.add("Mul", self.nodes.add("Tanh", half), above)

    def _sum(self, place: int, x: str) -> str:
        return self.nodes.add("ReduceSum", x, self._axes(self._settings(place)), keepdims=0)

    def _reduced(self, place: int, x: str) -> str:
        one = self.graph.operations[place]
        operator, axes = REDUCTIONS[one.name], list(one.settings)
        if one.name in ("largest", "smallest"):
            return self.nodes.add(operator, x, axes=axes, keepdims=0)
        number = self.nodes.cast(x, "int32")
        return self.nodes.cast(self.nodes.add(operator, number, axes=axes, keepdims=0), "bool")

    _largest = _smallest = _any = _all = _reduced

    def _reshape(self, place: int, x: str) -> str:
        (number,) = self.graph.operations[place].inputs
        return self.nodes.add("Reshape", x, self._sizes(self._shape(place), self._shape(number)))

    def _broadcast(self, place: int, x: str) -> str:
        return self.nodes.add("Expand", x, self._sizes(self._shape(place), ()))

    def _sizes(self, shape: Shape, old: Shape) -> str:
        """A shape as a value: 0 keeps the size of an axis that stays in its place."""
        stays = [
            isinstance(size, str) and old[axis : axis + 1] == (size,)
            for axis, size in enumerate(shape)
        ]
        open_ones = [
            axis for axis, size in enumerate(shape) if isinstance(size, str) and not stays[axis]
        ]
        if not open_ones or (old and len(open_ones) == 1):
            sizes = [0 if stay else -1 if isinstance(size, str) else size
                     for stay, size in zip(stays, shape, strict=True)]  # fmt: skip
            return self._axes(sizes)
        parts = [
            self._size_of(size) if isinstance(size, str) else self._axes([size]) for size in shape
        ]
        return self.nodes.add("Concat", *parts, axis=0)

    def _size(self, place: int) -> str:
        count = self._size_of(self._settings(place)[0])
        return self.nodes.cast(self.nodes.add("Squeeze", count, self._axes([0])), "int32")

    def _size_of(self, name: str) -> str:
        """How many sets or items the data have."""
        given = self.given["present"]
        axis = ("sets", "items").index(name)
        shape = self.nodes.add("Shape", given)
        return self.nodes.add("Gather", shape, self._axes([axis]))

    def _transpose(self, place: int, x: str) -> str:
        return self.nodes.add("Transpose", x, perm=list(self._settings(place)))

    def _slice(self, place: int, x: str) -> str:
        axis, first, end, step = self._settings(place)
        return self.nodes.add("Slice", x, *(self._axes([one]) for one in (first, end, axis, step)))

    def _concatenate(self, place: int, *parts: str) -> str:
        return self.nodes.add("Concat", *parts, axis=self._settings(place)[0])

    def _dot(self, place: int, x: str, y: str) -> str:
        left, right = (self._shape(number) for number in self.graph.operations[place].inputs)
        summed_left, summed_right, kept_left, kept_right = self._settings(place)
        matrix = not kept_left and len(right) == 2
        if matrix and summed_left == (len(left) - 1,) and summed_right == (0,):
            return self.nodes.add("MatMul", x, y)
        letters = iter(LETTERS)
        first = [next(letters) for _ in left]
        second = [""] * len(right)
        for own, other in zip(
            (*summed_left, *kept_left), (*summed_right, *kept_right), strict=True
        ):
            second[other] = first[own]
        second = [one or next(letters) for one in second]
        result = [first[axis] for axis in kept_left]
        result += [first[axis] for axis in free_axes(len(left), summed_left, kept_left)]
        result += [second[axis] for axis in free_axes(len(right), summed_right, kept_right)]
        equation = f"{''.join(first)},{''.join(second)}->{''.join(result)}"
        return self.nodes.add("Einsum", x, y, equation=equation)

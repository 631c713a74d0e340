"""A graph as nodes of ONNX: each operation is one or a few of its operators.

The way from a table's values to the numbers that a model sees, as operations of a graph.

A number stands for itself, a category for the place of its level among those of the metadata, a
date for the days since 1 January 1970. What follows (logarithms, medians for what is missing, one
column per level, weeks and months, standardisation) is in the graph. Values come in double
precision and stay in it until they are standardised, as in :mod:`setwise.choices.encoding`: times
and large amounts differ in digits that single precision does not have.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from setwise.choices import Schema
from setwise.choices.encoders import MISSING, OTHER, Encoder
from setwise.scoring.builder import Builder
from setwise.scoring.folding import Folded
from setwise.scoring.graph import Graph, Operation, Shape, Spec, free_axes, literal

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


DOUBLE = "float64"


def preprocessing(schema: Schema, which: str) -> Folded:
    """From ``items`` (sets x items x features) or ``context`` (sets x features) to numbers.

    >>> import setwise as sw
    >>> schema = sw.Schema.fit(sw.datasets.load("modecanada"))
    >>> preprocessing(schema, "items").graph.specs[-1].shape
    ('sets', 'items', 8)
    """
    encoders = schema.items if which == "items" else schema.context
    shape: Shape = ("sets", "items") if which == "items" else ("sets",)
    count = sum(len(encoder.names) for encoder in schema.items)
    place = slice(0, count) if which == "items" else slice(count, None)
    encoding = _Encoding(shape)
    raw = encoding.given("input", which, Spec((*shape, len(encoders)), DOUBLE))
    columns = [
        column
        for number, encoder in enumerate(encoders)
        for column in encoding.columns(encoder, encoding.part(raw, number))
    ]
    numbers = encoding.add("concatenate", *columns, settings=(len(shape),))
    mean = encoding.constant("mean", np.array(schema.mean[place], DOUBLE))
    scale = encoding.constant("scale", np.array(schema.scale[place], DOUBLE))
    standard = encoding.add("div", encoding.add("sub", numbers, mean), scale)
    graph = encoding.graph(encoding.add("cast", standard, settings=("float32",)))
    return Folded(graph, {name: encoding.arrays[name] for name in graph.weights})


class _Encoding(Builder):
    """Columns of a table as numeric columns, each with a last axis of its own."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.arrays: dict[str, np.ndarray] = {}

    def constant(self, name: str, array: np.ndarray) -> int:
        """An array of the schema."""
        self.arrays[name] = array
        return self.given("weight", name, Spec(array.shape, array.dtype.name))

    def part(self, x: int, number: int) -> int:
        """One column, its last axis kept."""
        return self.add("slice", x, settings=(len(self.shape), number, number + 1, 1))

    def columns(self, encoder: Encoder, x: int) -> list[int]:
        """The numeric columns of a feature."""
        if encoder.kind == "category":
            return [self._levels(encoder, x)]
        if encoder.kind == "popularity":
            return [self._looked_up(encoder, x)]
        if encoder.kind == "date":
            return [self._week(x), self._month(x)]
        return self._number(encoder, x)

    def _number(self, encoder: Encoder, x: int) -> list[int]:
        transform = encoder.feature.transform
        if transform != "none":
            x = self.add(transform, x)
        if encoder.median is None:
            return [x]
        gone = self.add("ne", x, x)
        known = self.add("where", gone, self._of(encoder.median), x)
        return [known, self.add("cast", gone, settings=(DOUBLE,))]

    def _levels(self, encoder: Encoder, x: int) -> int:
        """One where the level is; what is no place of a level is "missing" or "other".

        Where there is none of these it is not a number, and no probability comes of it.
        """
        levels, unknown = encoder.levels, self._of(float("nan"))
        if OTHER in levels:
            unknown = self._of(levels.index(OTHER))
        if MISSING in levels:
            gone = self.add("ne", x, x)
            x = self.add("where", gone, self._of(levels.index(MISSING)), x)
        x = self.add("where", self._among(x, len(levels)), x, unknown)
        name = f"{encoder.feature.column}/places"
        places = self.constant(name, np.arange(len(levels), dtype=DOUBLE))
        one_hot = self.add("cast", self.add("eq", x, places), settings=(DOUBLE,))
        return self.add("add", one_hot, self._times(x, 0.0))

    def _among(self, x: int, count: int) -> int:
        return self.add("and", self.add("ge", x, self._of(0)), self.add("lt", x, self._of(count)))

    def _looked_up(self, encoder: Encoder, x: int) -> int:
        """The value of the level; zero for what is no place of a level."""
        name = f"{encoder.feature.column}/values"
        values = self.constant(name, np.array([*encoder.values, 0.0], DOUBLE))
        known, none = self._among(x, len(encoder.values)), self._of(len(encoder.values))
        place = self.add("cast", self.add("where", known, x, none), settings=("int64",))
        return self.add("take", values, place)

    def _month(self, days: int) -> int:
        """Of the Gregorian calendar, counted in years that begin in March."""
        _, of_march = self._year_and_month(days)
        early = self.add("lt", of_march, self._of(10))
        return self.add("where", early, self._plus(of_march, 3), self._plus(of_march, -9))

    def _week(self, days: int) -> int:
        """ISO week: the week of the year in which this week's Thursday falls."""
        days = self.add("floor", days)
        weekday = self._modulo(self._plus(days, 3), 7)  # 1970-01-01 was a Thursday
        thursday = self._plus(self.add("sub", days, weekday), 3)
        in_week = self.add("sub", thursday, self._new_year(thursday))
        return self._plus(self._whole(in_week, 7), 1)

    def _new_year(self, days: int) -> int:
        """The days before 1 January of the year of this day."""
        year, of_march = self._year_and_month(days)
        late = self.add("ge", of_march, self._of(10))  # January and February
        before = self.add("where", late, year, self._plus(year, -1))  # its March, then 306 days
        leaps = self._sum(self._whole(before, 4), self._times(self._whole(before, 100), -1),
                          self._whole(before, 400))  # fmt: skip
        return self._plus(self._sum(self._times(before, 365), leaps), 306 - 719468)

    def _year_and_month(self, days: int) -> tuple[int, int]:
        """The year that begins in March, and the month in it from 0; of days since 1970."""
        z = self._plus(self.add("floor", days), 719468)  # days since 1 March of the year 0
        era = self._whole(z, 146097)  # 400 years
        day = self._modulo(z, 146097)
        leaps = self._sum(self._times(self._whole(day, 1460), -1), self._whole(day, 36524),
                          self._times(self._whole(day, 146096), -1))  # fmt: skip
        year = self._whole(self._sum(day, leaps), 365)
        before = self._sum(self._times(year, 365), self._whole(year, 4),
                           self._times(self._whole(year, 100), -1))  # fmt: skip
        of_year = self.add("sub", day, before)
        month = self._whole(self._plus(self._times(of_year, 5), 2), 153)
        return self._sum(year, self._times(era, 400)), month

    def _of(self, value: int | float) -> int:
        return self.literal(value, DOUBLE)

    def _plus(self, x: int, value: int | float) -> int:
        return self.add("add", x, self._of(value))

    def _times(self, x: int, value: int | float) -> int:
        return self.add("mul", x, self._of(value))

    def _sum(self, *terms: int) -> int:
        total = terms[0]
        for one in terms[1:]:
            total = self.add("add", total, one)
        return total

    def _whole(self, x: int, by: int | float) -> int:
        return self.add("floor", self.add("div", x, self._of(by)))

    def _modulo(self, x: int, by: int | float) -> int:
        return self.add("sub", x, self._times(self._whole(x, by), by))


def described(encoders: Sequence[Encoder]) -> list[dict[str, Any]]:
    """What each column of an input is, for the metadata."""
    return [_described(encoder) for encoder in encoders]


def _described(encoder: Encoder) -> dict[str, Any]:
    column: dict[str, Any] = {"column": encoder.feature.column}
    if encoder.looked_up:
        return column | {"give": "the place of the value in levels, from 0; NaN if it is missing",
                         "levels": list(encoder.levels)}  # fmt: skip
    if encoder.kind == "date":
        return column | {"give": "days since 1970-01-01"}
    missing = "" if encoder.median is None else "; NaN if it is missing"
    return column | {"give": f"the number, as in the table{missing}"}

"""A model file as an ONNX file that takes a table's own values.

A number stands for itself, a category for the place of its level among those of the metadata, a
date for the days since 1 January 1970. What follows (logarithms, medians for what is missing, one
column per level, weeks and months, standardisation) is in the graph. Values come in double
precision and stay in it until they are standardised, as in :mod:`setwise.choices.encoding`: times
and large amounts differ in digits that single precision does not have.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from setwise import __version__
from setwise._arguments import checked
from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._files import check_writable, whole_file
from setwise.choices import Schema
from setwise.choices.encoders import MISSING, OTHER, Encoder
from setwise.choices.terms import Terms
from setwise.choices.utility import Node
from setwise.scoring.graph import Builder, Graph
from setwise.scoring.model_file import Artifact, without_graph
from setwise.scoring.operations import OPERATIONS, OnnxCall, Shape, Spec
from setwise.scoring.simplify import Folded, folded

OPSETS, IR_VERSION = {"": 17, "ai.onnx.ml": 3}, 8
DOUBLE = "float64"
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
TERM_OPERATIONS = COMPARISONS | {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow"}
"""The operation for each sign of a formula; functions have their own names."""


@checked(model=check_path, out=check_path)
def export_onnx(model: str | Path, out: str | Path) -> dict[str, str]:
    """Write a model file's model as ONNX; returns the metadata that the file holds.

    Inputs, of any number of sets padded to any number of items:

    ``items`` (sets x items x features, float64)
        the item columns in the order of the metadata's "items", in the table's units: see "give"
        of each for categories and dates
    ``context`` (sets x features, float64), if the model has context
        one value per set, in the order of "context"
    ``present`` (sets x items, bool)
        which items are there, and not padding

    Outputs, float32, are ``probability`` (sets x items), zero where no item is, and, if the model
    knows an outside option, ``outside`` (sets), the probability that nothing is chosen.

    Transforms, medians for missing numbers, one column per level, weeks and months of dates and
    standardisation are in the file. Outside are reading the table, putting its rows into sets, and
    the places of levels. What training did not know gives NaN, for ONNX has no errors.

    >>> import tempfile, setwise as sw
    >>> model = sw.MNL().fit(sw.datasets.load("modecanada"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/trips.setwise")
    ...     about = export_onnx(f"{folder}/trips.setwise", f"{folder}/trips.onnx")
    >>> json.loads(about["items"])[0]
    {'column': 'cost', 'give': 'the number, as in the table'}
    """
    onnx = _onnx()
    check_writable(out, reads=[model], kind=".onnx")
    artifact = Artifact.read(model)
    if artifact.graph is None:
        raise InputError(f"{model} {without_graph(artifact.estimator)}")
    about = {
        "setwise": __version__,
        "estimator": artifact.estimator,
        "items": json.dumps(described(artifact.schema.items)),
        "context": json.dumps(described(artifact.schema.context)),
        "outside_option": json.dumps(artifact.schema.outside),
    }
    content = _model(onnx, artifact, about).SerializeToString(deterministic=True)
    with whole_file(out, len(content)) as beside:
        beside.write_bytes(content)
    return about


def _model(onnx: Any, artifact: Artifact, about: dict[str, str]) -> Any:
    assert artifact.graph is not None
    helper, single, double = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    schema = artifact.schema
    inputs = {"items": ["sets", "items", len(schema.items)]}
    if schema.context:
        inputs["context"] = ["sets", len(schema.context)]
    outputs = {"probability": ["sets", "items"]} | ({"outside": ["sets"]} if schema.outside else {})
    nodes = Nodes(onnx)
    items, present = _seen(nodes, schema)
    plain = folded(artifact.graph, artifact.arrays | artifact.constants)
    logs = nodes.graph(*plain, {"items": items, "present": present})
    _results(nodes, logs, schema.outside)
    graph = helper.make_graph(
        nodes.nodes,
        f"setwise {artifact.estimator}",
        [helper.make_tensor_value_info(name, double, shape) for name, shape in inputs.items()]
        + [helper.make_tensor_value_info("present", onnx.TensorProto.BOOL, ["sets", "items"])],
        [helper.make_tensor_value_info(name, single, shape) for name, shape in outputs.items()],
        [onnx.numpy_helper.from_array(array, name) for name, array in nodes.constants.items()],
    )
    opset = [helper.make_opsetid(*one) for one in nodes.domains.items()]
    model = helper.make_model(
        graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="setwise",
        producer_version=__version__,
    )  # fmt: skip
    helper.set_model_props(model, about)
    onnx.checker.check_model(model, full_check=True)
    return model


class Nodes:
    """Collects the nodes and constants of one ONNX graph; ``onnx`` is the package."""

    def __init__(self, onnx: Any):
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.domains = {"": OPSETS[""]}
        self._present = "present"

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output; returns the output's name."""
        domain = attributes.get("domain", "")
        self.domains[domain] = OPSETS[domain]
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

    def tensor(self, array: np.ndarray) -> Any:
        """An array as an attribute of a node."""
        return self._onnx.numpy_helper.from_array(array)

    def rename(self, output: str, name: str) -> None:
        """Give a node's output, which no other node takes, a name of its own."""
        (node,) = [one for one in self.nodes if one.output[0] == output]
        node.output[0] = name

    def cast(self, x: str, dtype: str) -> str:
        """The value in another type."""
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", x, to=kind)

    def size(self, name: str) -> str:
        """The number of sets or items, as a vector of one number."""
        axis = self.constant([("sets", "items").index(name)], np.int64)
        return self.add("Gather", self.add("Shape", self._present), axis)

    def graph(self, graph: Graph, arrays: Mapping[str, np.ndarray], given: dict[str, str]) -> str:
        """Add all operations of a graph; ``given`` names the values of its inputs."""
        self._present = given.get("present", "present")
        names: list[str] = []
        named = {number for one in graph.operations for number in one.data}
        for place, (one, made) in enumerate(zip(graph.operations, graph.specs, strict=True)):
            if one.name == "input":
                names.append(given[one.settings[0]])
            elif one.name == "weight":
                names.append(self.constant(arrays[one.settings[0]]) if place in named else "")
            else:
                inputs = [graph.specs[number] for number in one.inputs]
                own = [arrays[graph.weight(number)] for number in one.inputs[len(one.data) :]]
                call = OnnxCall(self, one.settings, inputs, made, own)
                taken = (names[number] for number in one.data)
                names.append(OPERATIONS[one.name].onnx_node(call, *taken))
        return names[-1]


def _seen(nodes: Nodes, schema: Schema) -> tuple[str, str]:
    """The items and which are present, as the model sees them: with context, with the outside."""
    items, present = _encoded_items(nodes, schema), "present"
    # What stands where no item is may be anything, a number or not.
    there = nodes.add("Unsqueeze", present, nodes.constant([2], np.int64))
    items = nodes.add("Where", there, items, nodes.constant(0.0, np.float32))
    if schema.outside:
        items, present = _with_outside(nodes, items, present, len(schema.item_names))
    if schema.model_context:
        context = nodes.graph(*preprocessing(schema, "context"), {"context": "context"})
        each = _per_item(nodes, context, present, len(schema.context_names))
        items = nodes.add("Concat", items, each, axis=2)
    return items, present


def _encoded_items(nodes: Nodes, schema: Schema) -> str:
    """The items as numbers; the terms of a utility are computed from context as well."""
    if schema.terms is None or not schema.context:
        return nodes.graph(*preprocessing(schema, "items"), {"items": "items"})
    each = _per_item(nodes, "context", "present", len(schema.context))
    joined = nodes.add("Concat", "items", each, axis=2)
    return nodes.graph(*preprocessing(schema, "items"), {"items": joined})


def _per_item(nodes: Nodes, context: str, present: str, width: int) -> str:
    """A set's context once for each of its items."""
    once = nodes.add("Unsqueeze", context, nodes.constant([1], np.int64))
    size = nodes.constant([width], np.int64)
    shape = nodes.add("Concat", nodes.add("Shape", present), size, axis=0)
    return nodes.add("Expand", once, shape)


def _with_outside(nodes: Nodes, items: str, present: str, width: int) -> tuple[str, str]:
    """The outside option as one more item of every set: average, except in its own column."""
    pads = nodes.constant([0, 0, 0, 0, 0, 1], np.int64)
    items = nodes.add("Pad", items, pads)
    option = np.zeros((1, 1, width), np.float32)
    option[..., -1] = 1
    sets = nodes.add("Slice", nodes.add("Shape", present), *(
        nodes.constant([one], np.int64) for one in (0, 1)
    ))  # fmt: skip
    one, features = nodes.constant([1], np.int64), nodes.constant([width], np.int64)
    rows = nodes.add("Concat", sets, one, features, axis=0)
    items = nodes.add("Concat", items, nodes.add("Expand", nodes.constant(option), rows), axis=1)
    there = nodes.add("Expand", nodes.constant([[True]]), nodes.add("Concat", sets, one, axis=0))
    return items, nodes.add("Concat", present, there, axis=1)


def _results(nodes: Nodes, logs: str, outside: bool) -> None:
    probability = nodes.add("Exp", logs)
    if not outside:
        nodes.rename(probability, "probability")
        return
    first, last, end = (nodes.constant([one], np.int64) for one in (0, -1, 2**31))
    axis = nodes.constant([1], np.int64)
    nodes.rename(nodes.add("Slice", probability, first, last, axis), "probability")
    own = nodes.add("Slice", probability, last, end, axis)
    nodes.rename(nodes.add("Squeeze", own, axis), "outside")


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise InputError(
            "writing ONNX needs the package onnx: pip install 'setwise[export]'"
        ) from None
    return onnx


def preprocessing(schema: Schema, which: str) -> Folded:
    """From ``items`` (sets x items x features) or ``context`` (sets x features) to numbers.

    >>> import setwise as sw
    >>> schema = sw.Schema.fit(sw.datasets.load("modecanada"))
    >>> preprocessing(schema, "items").graph.specs[-1].shape
    ('sets', 'items', 8)
    """
    encoders = schema.items if which == "items" else schema.context
    if schema.terms is not None:
        encoders = schema.items + schema.context
    shape: Shape = ("sets", "items") if which == "items" else ("sets",)
    count = sum(len(encoder.names) for encoder in schema.model_items)
    place = slice(0, count) if which == "items" else slice(count, None)
    encoding = _Encoding(shape)
    raw = encoding.given("input", which, Spec((*shape, len(encoders)), DOUBLE))
    parts = [encoding.part(raw, number) for number in range(len(encoders))]
    if schema.terms is None:
        columns = [
            column
            for encoder, part in zip(encoders, parts, strict=True)
            for column in encoding.columns(encoder, part)
        ]
    else:
        columns = encoding.terms(schema.terms, encoders, parts)
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

    def terms(self, terms: Terms, encoders: Sequence[Encoder], parts: Sequence[int]) -> list[int]:
        """The terms of a utility, from the columns that it reads."""
        columns, levels = {}, {}
        for encoder, part in zip(encoders, parts, strict=True):
            name, x = encoder.feature.column, part
            if encoder.kind == "category":  # an index beyond the levels is not a number
                x = self.add("where", self._among(x, len(encoder.levels)), x, self._of(np.nan))
            columns[name], levels[name] = x, encoder.levels
        return [self._term(one.expression, columns, levels) for one in terms.terms]

    def _term(
        self, node: Node, columns: Mapping[str, int], levels: Mapping[str, Sequence[str]]
    ) -> int:
        kind = node[0]
        if kind == "column":
            return columns[node[1]]
        if kind == "number":
            return self._of(node[1])
        if kind == "level":
            x, place = columns[node[1]], self._of(levels[node[1]].index(node[2]))
            marked = self.add("cast", self.add("eq", x, place), settings=(DOUBLE,))
            return self.add("add", marked, self._times(x, 0.0))
        if kind == "spline":
            x = self._term(node[1], columns, levels)
            low, high = self._of(node[2][0]), self._of(node[2][-1])
            inside = self.add("min", self.add("max", x, low), high)
            return self._spline(inside, node[2], node[3], node[4])
        made = self.add(
            TERM_OPERATIONS.get(str(kind), str(kind)),
            *(self._term(one, columns, levels) for one in node[1:]),
        )
        return self.add("cast", made, settings=(DOUBLE,)) if kind in COMPARISONS else made

    def _spline(self, x: int, knots: Sequence[float], degree: int, place: int) -> int:
        """One B-spline of numbers within the knots (see :mod:`setwise.choices.terms`)."""
        low, high = knots[place], knots[place + degree + 1]
        if degree == 0:
            ends = "le" if high == knots[-1] and low < high else "lt"
            inside = self.add(
                "and", self.add("ge", x, self._of(low)), self.add(ends, x, self._of(high))
            )
            return self.add("cast", inside, settings=(DOUBLE,))
        total = self._times(x, 0.0)
        if knots[place + degree] > low:
            rise = self._times(self._plus(x, -low), 1 / (knots[place + degree] - low))
            before = self._spline(x, knots, degree - 1, place)
            total = self._sum(total, self.add("mul", rise, before))
        if high > knots[place + 1]:
            fall = self._times(self._plus(x, -high), -1 / (high - knots[place + 1]))
            after = self._spline(x, knots, degree - 1, place + 1)
            total = self._sum(total, self.add("mul", fall, after))
        return total

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
        """1 in the column of the level; an index beyond the levels is "missing" or "other".

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
        """The value of the level; zero for an index beyond the levels."""
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

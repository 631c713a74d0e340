"""A model as a list of plain operations on arrays, which needs no engine to be computed.

Values are numbered by the operation that makes them, and the last one is the result. Shapes hold
numbers and the names of the two sizes that a call decides: "sets" and "items". What each operation
means stands in :mod:`setwise.scoring.operations`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from setwise._arguments import check_all, each, instance
from setwise._errors import InputError
from setwise.scoring.operations import (
    DTYPES,
    OPERATIONS,
    Dimension,
    Shape,
    Spec,
    broadcast_shape,
    check_shape,
    is_whole,
    spec_of,
)

FORMAT_VERSION = 1
MOST_OPERATIONS = 4_000
"""In the graph of a file; the largest models have about two hundred."""
MOST_CONSTANT = 1 << 24, 64
"""Limit on the numbers in all constants of a graph: the larger of this many and this many times
the numbers in the file's arrays. Models have up to 30 times as many."""
MOST_PER_ITEM = 1 << 20, 16
"""The same limit for all values that depend on data, per item of a set. Models have up to 11 times
as many."""
INPUTS = {"items": ("float32", True), "present": ("bool", False)}
"""The type of each input of a model, and whether it has the features of items."""

Scalar = bool | int | float


@dataclass(frozen=True)
class Operation:
    """One step: its name, the values it takes, and what else it needs to know.

    The settings of each operation are listed in :mod:`setwise.scoring.operations`.
    """

    name: str
    inputs: tuple[int, ...] = ()
    settings: tuple[Any, ...] = ()

    @property
    def data(self) -> tuple[int, ...]:
        """The inputs without the weights with which the operation is made ready."""
        return self.inputs[: len(self.inputs) - OPERATIONS[self.name].weights]


@dataclass(frozen=True)
class Graph:
    """Operations in the order in which they can be done.

    >>> graph = Graph((Operation("input", (), ("items", "float32", ("sets", "items", 2))),
    ...                Operation("tanh", (0,)), Operation("sum", (1,), (2,))))
    >>> graph.specs[-1]
    Spec(shape=('sets', 'items'), dtype='float32')
    """

    operations: tuple[Operation, ...]

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """Shape and type of every value; an error names an operation that makes no sense."""
        specs: list[Spec] = []
        for place, operation in enumerate(self.operations):
            if not all(0 <= number < place for number in operation.inputs):
                raise InputError(f"operation {place} ({operation.name}) of the graph is misplaced")
            taken = [specs[number] for number in operation.inputs]
            specs.append(spec_of(operation.name, operation.settings, taken))
        return tuple(specs)

    @property
    def weights(self) -> dict[str, Spec]:
        """The arrays that the operations refer to by name."""
        return {
            operation.settings[0]: spec
            for operation, spec in zip(self.operations, self.specs, strict=True)
            if operation.name == "weight"
        }

    def weight(self, number: int) -> str:
        """The name of the array that this value is; an error if it is something else."""
        one = self.operations[number]
        if one.name != "weight":
            raise InputError(f"operation {number} ({one.name}) of the graph must be a weight")
        return str(one.settings[0])

    def uses(self) -> Counter[int]:
        """How many operations take each value; the result is taken once more."""
        uses = Counter(number for one in self.operations for number in one.inputs)
        uses[len(self.operations) - 1] += 1
        return uses

    def to_json(self) -> dict[str, Any]:
        """Plain values for a model file."""
        plain = [[one.name, one.inputs, one.settings] for one in self.operations]
        return {"version": FORMAT_VERSION, "operations": plain}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Graph":
        """The graph that :meth:`to_json` wrote."""
        if plain["version"] != FORMAT_VERSION:
            raise InputError(
                f"the model's graph has format version {plain['version']}, and this setwise reads "
                f"{FORMAT_VERSION}; upgrade setwise, or load the model and save it again"
            )
        if len(plain["operations"]) > MOST_OPERATIONS:
            raise InputError(
                f"the graph has {len(plain['operations']):,} operations; at most "
                f"{MOST_OPERATIONS:,} are read"
            )
        check_all({"operations": each(instance(list, "write name, inputs, settings"))}, plain)
        return cls(
            tuple(
                Operation(str(name), tuple(inputs), _tuples(settings))
                for name, inputs, settings in plain["operations"]
            )
        )


def live(operations: Sequence[Operation], result: int) -> Graph:
    """The operations that the result needs, renumbered; the result comes last."""
    needed, waiting = set(), [result]
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed.add(number)
            waiting.extend(operations[number].inputs)
    order = [*sorted(needed - {result}), result]
    place = {number: new for new, number in enumerate(order)}
    return Graph(
        tuple(
            Operation(one.name, tuple(place[i] for i in one.inputs), one.settings)
            for one in (operations[number] for number in order)
        )
    )


def _tuples(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(_tuples(one) if isinstance(one, (list, tuple)) else one for one in values)


def computed(operation: Operation, inputs: Sequence[Any], sets: int = 0, items: int = 0) -> Any:
    """What an operation gives for these inputs, in NumPy.

    The numbers of sets and items matter only for shapes that depend on them.
    """
    row = OPERATIONS[operation.name]
    sizes = (sets, items) if row.sized else ()
    return row.function(operation.settings)(*inputs, *sizes)


def run(graph: Graph, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result of the graph for these inputs and weights, by their names.

    This runs one operation after the other as the table says. A scorer computes the same faster;
    tests compare the two.

    >>> doubled = Graph((Operation("input", (), ("x", "float32", ("items",))),
    ...                  Operation("add", (0, 0))))
    >>> run(doubled, {"x": np.ones(2, np.float32)}).tolist()
    [2.0, 2.0]
    """
    values: list[Any] = []
    sizes = _sizes(graph, given)
    for one in graph.operations:
        if one.name in ("input", "weight"):
            values.append(given[one.settings[0]])
        else:
            values.append(computed(one, [values[i] for i in one.inputs], **sizes))
    return values[-1]


def _sizes(graph: Graph, given: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The numbers of sets and items in these inputs."""
    sizes: dict[str, int] = {}
    for one, spec in zip(graph.operations, graph.specs, strict=True):
        if one.name == "input":
            named = zip(spec.shape, given[one.settings[0]].shape, strict=True)
            sizes |= {name: length for name, length in named if isinstance(name, str)}
    return sizes


class Builder:
    """Operations so far, each numbered by its place.

    >>> build = Builder()
    >>> x = build.given("input", "items", Spec(("sets", "items", 2), "float32"))
    >>> build.add("mul", x, build.literal(1.0, "float32")) == x
    True
    >>> build.add("tanh", x) == build.add("tanh", x)
    True
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.specs: list[Spec] = []
        self._places: dict[Operation, int] = {}

    def given(self, kind: str, name: str, spec: Spec) -> int:
        """An ``input`` or a ``weight``."""
        return self.place(Operation(kind, (), (name, spec.dtype, spec.shape)))

    def literal(self, value: Scalar, dtype: str) -> int:
        """A number; infinite ones are kept as text, which JSON has."""
        plain: Any = bool(value) if dtype == "bool" else int(value) if "int" in dtype else value
        if dtype.startswith("float"):
            plain = str(value) if abs(value) == float("inf") else float(value)
        return self.place(Operation("literal", (), (plain, dtype)))

    def add(self, name: str, *inputs: int, settings: tuple[Any, ...] = ()) -> int:
        """The value of this operation, or of a simpler one that gives the same."""
        simpler = getattr(self, f"_simpler_{name}", None)
        found = None if simpler is None else simpler(*inputs, settings=settings)
        return self.place(Operation(name, inputs, settings)) if found is None else found

    def reshape(self, x: int, shape: tuple[Dimension, ...]) -> int:
        """The value in another shape of as many elements."""
        return self.add("reshape", x, settings=shape)

    def graph(self, result: int) -> Graph:
        """What the result needs."""
        return live(self.operations, result)

    def number(self, x: int) -> float | None:
        """The value of a literal."""
        one = self.operations[x]
        return float(one.settings[0]) if one.name == "literal" else None

    def place(self, operation: Operation) -> int:
        """This operation as it is, once."""
        if operation not in self._places:
            taken = [self.specs[number] for number in operation.inputs]
            self.specs.append(spec_of(operation.name, operation.settings, taken))
            self._places[operation] = len(self.operations)
            self.operations.append(operation)
        return self._places[operation]

    def _alone(self, x: int, *others: int) -> bool:
        """Whether x broadcast with the others is x."""
        shapes = [self.specs[number].shape for number in (x, *others)]
        return broadcast_shape(shapes) == shapes[0]

    def _neutral(self, x: int, y: int, value: float) -> bool:
        return self.number(y) == value and self._alone(x, y)

    def _simpler_reshape(self, x: int, settings: tuple[Dimension, ...]) -> int | None:
        if self.specs[x].shape == settings:
            return x
        one = self.operations[x]
        return self.reshape(one.inputs[0], settings) if one.name == "reshape" else None

    def _simpler_broadcast(self, x: int, settings: tuple[Dimension, ...]) -> int | None:
        return x if self.specs[x].shape == settings else None

    def _simpler_transpose(self, x: int, settings: tuple[int, ...]) -> int | None:
        if settings == tuple(range(len(settings))):
            return x
        one = self.operations[x]
        if one.name == "transpose":
            order = tuple(one.settings[axis] for axis in settings)
            return self.add("transpose", one.inputs[0], settings=order)
        shape = self.specs[x].shape
        wide = [axis for axis in settings if shape[axis] != 1]
        if wide == sorted(wide):  # only axes of length one move
            return self.reshape(x, tuple(shape[axis] for axis in settings))
        return None

    def _simpler_slice(self, x: int, settings: tuple[int, ...]) -> int | None:
        axis, first, end, step = settings
        return x if (first, end, step) == (0, self.specs[x].shape[axis], 1) else None

    def _simpler_concatenate(self, *parts: int, settings: tuple[int, ...]) -> int | None:
        flat: list[int] = []
        for part in parts:
            one = self.operations[part]
            inner = one.name == "concatenate" and one.settings == settings
            flat.extend(one.inputs if inner else (part,))
        return (
            None if len(flat) == len(parts) else self.add("concatenate", *flat, settings=settings)
        )

    def _simpler_abs(self, x: int, settings: tuple[Any, ...]) -> int | None:
        one = self.operations[x]
        inner = self.operations[one.inputs[0]] if one.name == "sum" else one
        return x if inner.name == "exp" else None

    def _simpler_cast(self, x: int, settings: tuple[str, ...]) -> int | None:
        (dtype,) = settings
        if self.specs[x].dtype == dtype:
            return x
        value = self.number(x)
        return None if value is None else self.literal(value, dtype)

    def _simpler_add(self, x: int, y: int, settings: tuple[Any, ...]) -> int | None:
        if self._neutral(x, y, 0.0):
            return x
        return y if self._neutral(y, x, 0.0) else None

    def _simpler_sub(self, x: int, y: int, settings: tuple[Any, ...]) -> int | None:
        return x if self._neutral(x, y, 0.0) else None

    def _simpler_mul(self, x: int, y: int, settings: tuple[Any, ...]) -> int | None:
        if self._neutral(x, y, 1.0):
            return x
        return y if self._neutral(y, x, 1.0) else None

    def _simpler_div(self, x: int, y: int, settings: tuple[Any, ...]) -> int | None:
        return x if self._neutral(x, y, 1.0) else None

    def _simpler_max(self, x: int, y: int, settings: tuple[Any, ...]) -> int | None:
        if self._neutral(x, y, -float("inf")):
            return x
        return y if self._neutral(y, x, -float("inf")) else None

    def _simpler_where(self, mask: int, x: int, y: int, settings: tuple[Any, ...]) -> int | None:
        if x == y and self._alone(x, mask):
            return x
        inner = self.operations[x]
        if inner.name == "where" and inner.inputs[0] == mask:
            return self.add("where", mask, inner.inputs[1], y)
        return None


def checked(graph: Graph, arrays: Mapping[str, np.ndarray], width: int) -> Graph:
    """The graph, if it computes scores of items of ``width`` features from these arrays.

    A checksum finds accidents, not intent. So everything that a file's graph says is checked here
    before it is used: the inputs of operations, their settings, and the memory that they need.
    """
    specs: list[Spec] = []
    for place, one in enumerate(graph.operations):
        try:
            specs.append(_checked(one, specs, arrays, width))
            if OPERATIONS[one.name].weights:
                own = [arrays[graph.weight(number)] for number in one.inputs[len(one.data) :]]
                OPERATIONS[one.name].check(one.settings, specs[one.inputs[0]], *own)
        except (InputError, TypeError, ValueError, LookupError) as error:
            raise InputError(f"operation {place} ('{one.name}') of the graph: {error}") from None
    if specs[-1] != Spec(("sets", "items"), "float32"):
        raise InputError(f"the graph's result is {specs[-1].dtype} of shape {specs[-1].shape}")
    _check_memory(specs, arrays)
    return graph


def _checked(
    one: Operation, specs: Sequence[Spec], arrays: Mapping[str, np.ndarray], width: int
) -> Spec:
    """Shape and type of what the operation makes, after all checks."""
    if one.name not in OPERATIONS or not OPERATIONS[one.name].in_model_files:
        raise InputError("this setwise does not know it; upgrade setwise")
    if not all(is_whole(number) and number < len(specs) for number in one.inputs):
        raise InputError("it takes values that no operation before it makes")
    made = spec_of(one.name, one.settings, [specs[number] for number in one.inputs])
    check_shape(made.shape)
    if made.dtype not in DTYPES:
        raise InputError(f"there is no type {made.dtype}")
    if one.name == "weight":
        _check_weight(one.settings[0], made, arrays)
    if one.name == "input":
        _check_input(one.settings[0], made, width)
    return made


def _check_weight(name: str, spec: Spec, arrays: Mapping[str, np.ndarray]) -> None:
    found = arrays.get(name)
    if found is None or (found.shape, found.dtype.name) != spec:
        raise InputError(f"the weight '{name}' does not fit the file's arrays")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise InputError(f"the weight '{name}' has values that are not finite numbers")


def _check_input(name: str, spec: Spec, width: int) -> None:
    if name not in INPUTS:
        raise InputError(f"there is no input '{name}'; inputs are {', '.join(INPUTS)}")
    dtype, has_features = INPUTS[name]
    shape: Shape = ("sets", "items", width) if has_features else ("sets", "items")
    if spec != Spec(shape, dtype):
        raise InputError(
            f"the input '{name}' has {dtype} of shape {shape}, not {spec.dtype} of shape "
            f"{spec.shape}"
        )


def _check_memory(specs: Sequence[Spec], arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse a graph that would need much more memory than the file that it is in."""
    held = sum(array.size for array in arrays.values())
    sizes = {False: 0, True: 0}
    for spec in specs:
        fixed = [size for size in spec.shape if not isinstance(size, str)]
        sizes[len(fixed) < len(spec.shape)] += math.prod(fixed)
    bounds = {False: MOST_CONSTANT, True: MOST_PER_ITEM}
    for of_data, (least, times) in bounds.items():
        if sizes[of_data] > max(least, times * held):
            what = "values of an item" if of_data else "constants"
            raise InputError(
                f"the graph's {what} would have {sizes[of_data]:,} numbers, and the file's arrays "
                f"have {held:,}"
            )

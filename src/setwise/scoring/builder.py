"""Builds graphs: equal operations are made once, and what changes nothing is left out.

Graphs for sets without padding: where every item is present, no mask is needed.
"""

from typing import Any

from setwise.scoring.graph import (
    ELEMENTWISE,
    Dimension,
    Graph,
    Operation,
    Spec,
    broadcast_shape,
    live,
    spec_of,
)

Scalar = bool | int | float


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
        return self._place(Operation(kind, (), (name, spec.dtype, spec.shape)))

    def literal(self, value: Scalar, dtype: str) -> int:
        """A number; infinite ones are kept as text, which JSON has."""
        plain: Any = bool(value) if dtype == "bool" else int(value) if "int" in dtype else value
        if dtype.startswith("float"):
            plain = str(value) if abs(value) == float("inf") else float(value)
        return self._place(Operation("literal", (), (plain, dtype)))

    def add(self, name: str, *inputs: int, settings: tuple[Any, ...] = ()) -> int:
        """The value of this operation, or of a simpler one that gives the same."""
        simpler = getattr(self, f"_simpler_{name}", None)
        found = None if simpler is None else simpler(*inputs, settings=settings)
        return self._place(Operation(name, inputs, settings)) if found is None else found

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

    def _place(self, operation: Operation) -> int:
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


UNIFORM = (
    "reshape", "transpose", "broadcast", "slice", "largest", "smallest", "any", "all",
)  # fmt: skip
"""Operations that leave a value alone which is the same everywhere."""


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
    return _Completing().of(graph)


class _Completing:
    """Values that are the same everywhere are plain numbers in the new graph."""

    def __init__(self) -> None:
        self.build = Builder()
        self.true = self.build.literal(True, "bool")
        self.one = {dtype: self.build.literal(1, dtype) for dtype in ("int32", "float32")}

    def of(self, graph: Graph) -> Graph:
        numbers: list[int] = []
        for one, spec in zip(graph.operations, graph.specs, strict=True):
            inputs = [numbers[number] for number in one.inputs]
            old = [graph.specs[number] for number in one.inputs]
            numbers.append(self._completed(one, spec, inputs, old))
        result = self._whole(numbers[-1], graph.specs[-1])
        return self.build.graph(result)

    def _completed(self, one: Operation, spec: Spec, x: list[int], old: list[Spec]) -> int:
        name, settings = one.name, one.settings
        if name == "input":
            present = settings[0] == "present"
            return self.true if present else self.build.given("input", settings[0], spec)
        if name == "where" and x[0] == self.true:
            return self._whole(x[1], spec)
        if name in ("and", "or") and self.true in x:
            other = x[0] if x[1] == self.true else x[1]
            return self.true if name == "or" else self._whole(other, spec)
        if name == "sum" and x[0] in self.one.values():
            return self._count(one, old[0])
        if name == "max" and self._counts(x[0]) and x[1] in self.one.values():
            return x[0]  # no set is empty
        if name in ELEMENTWISE:
            return self.build.add(name, *x, settings=settings)
        if name in UNIFORM and self.build.specs[x[0]].shape == ():
            return x[0]
        whole = [self._whole(number, spec) for number, spec in zip(x, old, strict=True)]
        return self.build.add(name, *whole, settings=settings)

    def _whole(self, number: int, spec: Spec) -> int:
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

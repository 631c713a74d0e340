"""Graphs for sets without padding: where every item is present, no mask is needed."""

from setwise.graph.builder import Builder
from setwise.graph.graph import Graph, Operation
from setwise.graph.specs import ELEMENTWISE, Spec

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

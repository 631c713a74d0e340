"""A model as a list of plain operations on arrays: what is left of it without its engine.

Values are numbered by the operation that makes them, and the last one is the result. Shapes hold
numbers and the names of the two sizes that a call decides: "sets" and "items".
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from setwise._arguments import check_all, each, instance
from setwise._errors import InputError
from setwise.graph.specs import Spec, spec_of

FORMAT_VERSION = 1
MOST_OPERATIONS = 4_000
"""Of a graph in a file; the largest models have about two hundred."""


@dataclass(frozen=True)
class Operation:
    """One step: its name, the values it takes, and what else it needs to know.

    The settings are, of an ``input`` or a ``weight``, its name, type and shape; of a ``literal``,
    its value and type; of others, see :mod:`setwise.graph.specs`.
    """

    name: str
    inputs: tuple[int, ...] = ()
    settings: tuple[Any, ...] = ()


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

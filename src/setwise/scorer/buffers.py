"""Which operations may write their result over one of their inputs, decided before any run."""

from collections.abc import Iterator

from setwise.graph import Graph, Operation
from setwise.graph.specs import BINARY, UNARY

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

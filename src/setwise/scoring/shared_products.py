"""Products of a graph made fewer and cheaper for NumPy, before any data come.

:func:`joined` makes one product of several with the same left value. :func:`in_pieces` finds hat
functions, nearly all of which are zero.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from setwise.scoring.graph import Builder, Graph, Operation, live
from setwise.scoring.operations import Spec, free_axes
from setwise.scoring.simplify import Folded


def joined(plain: Folded) -> Folded:
    """The same function with one product in place of those of one value with several constants.

    >>> build = Builder()
    >>> x = build.given("input", "items", Spec(("sets", "items", 2), "float32"))
    >>> ends = [build.given("weight", name, Spec((2, 3), "float32")) for name in "ab"]
    >>> one, other = (build.add("dot", x, w, settings=((2,), (0,), (), ())) for w in ends)
    >>> graph = build.graph(build.add("add", one, other))
    >>> arrays = {name: np.ones((2, 3), np.float32) for name in "ab"}
    >>> [step.name for step in joined(Folded(graph, arrays)).graph.operations]
    ['input', 'weight', 'dot', 'slice', 'slice', 'add']
    """
    graph, build, arrays = plain.graph, Builder(), dict(plain.arrays)
    alike: dict[tuple[object, ...], list[int]] = {}
    for place, one in enumerate(graph.operations):
        if one.name == "dot" and graph.operations[one.inputs[1]].name == "weight":
            key = one.inputs[0], one.settings[0], one.settings[2], graph.specs[place].dtype
            alike.setdefault(key, []).append(place)
    group = {places[0]: places for places in alike.values() if len(places) > 1}
    made: dict[int, int] = {}
    for place, one in enumerate(graph.operations):
        if place in group:
            for of_one, number in _together(plain, group[place], made, build, arrays):
                made[of_one] = number
        if place not in made:
            made[place] = (
                build.add(one.name, *(made[number] for number in one.inputs), settings=one.settings)
                if one.name not in ("input", "weight", "literal")
                else build.place(one)
            )
    whole = build.graph(made[len(graph.operations) - 1])
    return Folded(whole, {name: arrays[name] for name in whole.weights})


def _together(
    plain: Folded,
    places: list[int],
    made: Mapping[int, int],
    build: Builder,
    arrays: dict[str, np.ndarray],
) -> Iterator[tuple[int, int]]:
    """Each of the products, as a part of the one that is added to the new graph."""
    graph = plain.graph
    constants, shapes = [], []
    for place in places:
        one = graph.operations[place]
        _, summed, _, kept = one.settings
        array = plain.arrays[graph.weight(one.inputs[1])]
        columns = free_axes(array.ndim, summed, kept)
        ordered = array.transpose(*kept, *summed, *columns)
        constants.append(ordered.reshape(*ordered.shape[: len(kept) + len(summed)], -1))
        shapes.append(tuple(array.shape[axis] for axis in columns))
    first = graph.operations[places[0]]
    summed, _, kept, _ = first.settings
    k = len(kept)
    name = f"joined.{places[0]}"
    arrays[name] = np.concatenate(constants, -1)
    right = build.given("weight", name, Spec(arrays[name].shape, arrays[name].dtype.name))
    settings = summed, tuple(range(k, k + len(summed))), kept, tuple(range(k))
    whole = build.add("dot", made[first.inputs[0]], right, settings=settings)
    rows = build.specs[whole].shape[:-1]
    begin = 0
    for place, array, shape in zip(places, constants, shapes, strict=True):
        end = begin + array.shape[-1]
        part = build.add("slice", whole, settings=(len(rows), begin, end, 1))
        yield place, build.reshape(part, (*rows, *shape))
        begin = end


NEAR = 1e-4
"""How far knots may be from equal distances, as a share of them."""


def in_pieces(plain: Folded) -> Folded:
    """The same function with the operation ``pieces`` in place of products with hat functions."""
    graph, arrays = plain.graph, dict(plain.arrays)
    operations = list(graph.operations)
    for place, one in enumerate(graph.operations):
        if one.name != "dot" or graph.operations[one.inputs[1]].name != "weight":
            continue
        summed_left, summed_right, kept, _ = one.settings
        found = None if kept or summed_left != (2,) else _hats(plain, one.inputs[0])
        if found is None:
            continue
        x, knots, settings = found
        name = graph.weight(one.inputs[1])
        arrays[name] = np.moveaxis(plain.arrays[name], summed_right[0], 0)
        spec = Spec(arrays[name].shape, arrays[name].dtype.name)
        operations[one.inputs[1]] = Operation("weight", (), (name, *reversed(spec)))
        operations[place] = Operation("pieces", (x, knots, one.inputs[1]), settings)
    whole = live(operations, len(operations) - 1)
    return Folded(whole, {name: arrays[name] for name in whole.weights})


def _hats(plain: Folded, place: int) -> tuple[int, int, tuple[float, float]] | None:
    """x and the knots, with height and slope, if this value is max(0, height - |slope x - knot|)
    for every number and knot, side by side, and the knots span what slope x can be."""
    graph = plain.graph
    shape = graph.specs[place].shape
    hats = _inner(graph, place, "reshape")
    bent = _beside(graph, hats, "max", 0.0)
    high = _beside(graph, bent, "sub")
    apart = _inner(graph, None if high is None else high[1], "abs")
    if high is None or apart is None or graph.operations[apart].name != "sub":
        return None
    left, knots = graph.operations[apart].inputs
    if graph.operations[knots].name != "weight" or len(shape) != 3:
        return None
    scaled = _beside(graph, _inner(graph, left, "reshape"), "mul")
    below = _beside(graph, None if scaled is None else scaled[1], "min")
    above = _beside(graph, None if below is None else below[1], "max")
    if scaled is None or below is None or above is None:
        return None
    (height, _), (slope, _), (high_end, _), (low_end, x) = high, scaled, below, above
    array = plain.arrays[graph.weight(knots)]
    ends = slope * low_end, slope * high_end
    if array.shape[:-2] != (1, 1) or not _even(array[0, 0], height, ends):
        return None
    return x, knots, (height, slope)


def _even(knots: np.ndarray, height: float, ends: tuple[float, float]) -> bool:
    """Whether knots are the same for all numbers, ``height`` apart, and span the ends."""
    near = NEAR * height
    return bool(
        (knots == knots[0]).all()
        and (np.abs(np.diff(knots[0]) - height) < near).all()
        and abs(knots[0, 0] - ends[0]) < near
        and abs(knots[0, -1] - ends[1]) < near
    )


def _inner(graph: Graph, place: int | None, name: str) -> int | None:
    """The one input of an operation, if it is of this name."""
    if place is None or graph.operations[place].name != name:
        return None
    return graph.operations[place].inputs[0]


def _beside(
    graph: Graph, place: int | tuple[float, int] | None, name: str, value: float | None = None
) -> tuple[float, int] | None:
    """The number and the other input of an operation of this name that has such two."""
    place = place[1] if isinstance(place, tuple) else place
    one = graph.operations[place] if place is not None else None
    if one is None or one.name != name:
        return None
    for number, other in (one.inputs, one.inputs[::-1] if name != "sub" else one.inputs):
        found = graph.operations[number]
        if found.name == "literal" and value in (None, found.settings[0]):
            return float(found.settings[0]), other
    return None

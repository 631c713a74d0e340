"""Large trees as sums of small ones, whose leaves fit into a bit mask."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
NOWHERE = -(1 << 40)
"""In place of a leaf: one of value 0."""


def divided(trees: Arrays, most: int) -> dict[str, np.ndarray] | None:
    """The arrays of trees of at most ``most`` leaves with the same sum; None where that fails.

    A part below a split leaves its tree, and 0 takes its place. It becomes a tree with the splits
    that led to it, which lead to 0 on their other sides. Where a tree is hardly wider than deep,
    too little would be gained: then it fails.
    """
    found: dict[str, list[Any]] = {name: [] for name in ("leaves", "split", "left", "right", "of")}
    split = leaf = 0
    for count in trees["leaves"].tolist():
        some = slice(split, split + count - 1)
        sides = [list(pair) for pair in zip(
            trees["left"][some].tolist(), trees["right"][some].tolist(), strict=True
        )]  # fmt: skip
        for part in _parts(sides, most):
            if part is None:
                return None
            _add(found, part, split, leaf)
        split, leaf = split + count - 1, leaf + count
    value = np.append(trees["value"], trees["value"].dtype.type(0))
    order = np.array(found["split"], np.int64)
    changed = {name: trees[name][order] for name in ("feature", "threshold", "decision")}
    changed |= {name: np.array(found[name], np.int32) for name in ("leaves", "left", "right")}
    return {**trees, **changed, "value": value[np.array(found["of"], np.int64)]}


Sides = list[list[int]]
"""Of each split what it leads to: a split of the same tree, or ~n for leaf n."""


def _parts(sides: Sides, most: int) -> Iterator[Sides | None]:
    """Trees, each with its splits among all, from the first on."""
    below = [1] * len(sides)
    for one in range(len(sides) - 1, -1, -1):  # those that a split leads to come after it
        below[one] = sum(1 if side < 0 else below[side] for side in sides[one])
    while sides and below[0] > most:
        path: list[tuple[int, int]] = []
        node = 0
        while below[node] + len(path) > most:
            weights = [1 if side < 0 else below[side] for side in sides[node]]
            heavier = int(weights[1] > weights[0])
            path.append((node, heavier))
            node = sides[node][heavier]
            if node < 0:
                break
        if node < 0 or below[node] <= len(path):
            yield None
            return
        part = [list(pair) for pair in sides]
        for one, heavier in path:
            part[one][1 - heavier] = NOWHERE
        yield part
        gone = below[node] - 1
        for one, _ in path:
            below[one] -= gone
        sides[path[-1][0]][path[-1][1]] = NOWHERE
    yield sides


def _add(found: dict[str, list[Any]], sides: Sides, split: int, leaf: int) -> None:
    """Append a tree: its splits from the first on, and the leaves that they lead to."""
    order = [0] if sides else []
    place = {0: 0}
    for one in order:  # grows as splits are found
        for side in sides[one]:
            if side >= 0:
                place[side] = len(order)
                order.append(side)
    leaves: list[int] = []
    for one in order:
        for name, side in zip(("left", "right"), sides[one], strict=True):
            if side >= 0:
                found[name].append(place[side])
            else:
                found[name].append(~len(leaves))
                leaves.append(-1 if side == NOWHERE else leaf + ~side)
    if not sides:
        leaves = [leaf]
    found["split"] += [split + one for one in order]
    found["leaves"].append(len(leaves))
    found["of"] += leaves

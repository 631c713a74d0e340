"""Violation capacity by region: on the sets that some models get right and others wrong."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float

from setwise.experiments.reproduction.cells import Cell
from setwise.experiments.reproduction.protocol import REGIONS
from setwise.experiments.reproduction.results import Region
from setwise.violations.correctness import correctness_regions


def regions(cells: Mapping[str, Sequence[Cell]]) -> list[Region]:
    """All regions of every split, from the cells of each model; none if a model is missing."""
    if any(name not in cells for name in REGIONS):
        return []
    by_split = [{cell.outcome.split: cell for cell in cells[name]} for name in REGIONS]
    return [
        region
        for split in sorted(by_split[0])
        if all(split in one for one in by_split)
        for region in _of_split([one[split] for one in by_split])
    ]


def _of_split(cells: Sequence[Cell]) -> Iterator[Region]:
    right = {name: np.array(cell.right, bool) for name, cell in zip(REGIONS, cells, strict=True)}
    violations = np.array([cell.violations for cell in cells], float)
    outcome = cells[0].outcome
    for names, here in correctness_regions(right):
        yield Region(
            outcome.data,
            outcome.max_items,
            outcome.split,
            names,
            int(here.sum()),
            dict(zip(REGIONS, _means(violations, here), strict=True)),
        )


def _means(
    violations: Float[np.ndarray, "models sets"], here: Bool[np.ndarray, " sets"]
) -> list[float | None]:
    return [float(one[here].mean()) if here.any() else None for one in violations]

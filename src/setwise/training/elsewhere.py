"""Chunks of a population elsewhere: each is the program that it would be here, on a worker.

Which members train together is decided here, so that rounding is the same wherever they do.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from setwise._crew import Crew, Parcel, Tell
from setwise.models import Blueprint, Sizes
from setwise.training.chunk import Chunk, Progress, Prune
from setwise.training.fitting import Fit, OnEpoch
from setwise.training.members import Layout, Member, Population, Task

FitChunk = Callable[[Chunk, Prune | None, Callable[[Progress], None]], dict[int, Fit]]
Asked = tuple[int, dict[int, float]]
"""An epoch, and the validation losses of those in training."""


class Sent(NamedTuple):
    """A chunk on its way."""

    fit: FitChunk
    tasks: Parcel
    blueprint: Blueprint
    sizes: Sizes
    members: Sequence[Member]
    layout: Layout
    prune: Prune | None


class Elsewhere:
    """A crew that has the data of some tasks, and trains chunks of populations on them."""

    def __init__(self, crew: Crew, tasks: Sequence[Task]):
        self._crew, self._tasks = crew, crew.put(list(tasks))

    def fits(
        self,
        fit: FitChunk,
        population: Population,
        layouts: Sequence[Layout],
        prune: Prune | None,
        on_epoch: OnEpoch | None,
    ) -> dict[int, Fit]:
        """What became of each member; ``prune`` is asked there, and hears of it here later."""
        training = {number: len(layout.members) for number, layout in enumerate(layouts)}

        def sent(number: int) -> Sent:
            one = population
            return Sent(
                fit, self._tasks, one.blueprint, one.sizes, one.members, layouts[number], prune
            )

        def on_told(number: int, told: Mapping[str, int]) -> None:
            training[number] = told["training"]
            if on_epoch is not None:
                left, every = sum(training.values()), len(population.members)
                on_epoch({
                    "epoch": told["epoch"], "training": left, "finished": every - left,
                    "members": every,
                })  # fmt: skip

        found: dict[int, Fit] = {}
        for _, (fits, asked) in self._crew.each(_trained, len(layouts), sent, on_told):
            found |= fits
            if prune is not None:
                for epoch, losses in asked:
                    prune(epoch, losses)
        return found


def _trained(sent: Sent, tell: Tell) -> tuple[dict[int, Fit], list[Asked]]:
    """On a worker: the fits of a chunk, and what was asked about pruning."""
    population = Population(sent.blueprint, sent.sizes, sent.tasks.open(), sent.members)
    asked: list[Asked] = []

    def ask(epoch: int, losses: Mapping[int, float]) -> Collection[int]:
        assert sent.prune is not None
        asked.append((epoch, dict(losses)))
        return sent.prune(epoch, losses)

    def report(progress: Progress) -> None:
        active: Any = progress.standings.active
        tell({"epoch": progress.standings.epoch, "training": int(active.sum())})

    chunk = Chunk(population, sent.layout)
    return sent.fit(chunk, None if sent.prune is None else ask, report), asked

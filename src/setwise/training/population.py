"""Chunks of a population elsewhere: each is the program that it would be here, on a worker.

Which members train together is decided here, so that rounding is the same wherever they do.

Many models at once: one recipe with arrays of hyper-parameters, seeds and parts of the data.

Each member gets the result that :func:`setwise.training.fit` would give it alone, up to rounding.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from setwise._executor import Executor, Send, Shared
from setwise.models import Blueprint, Sizes
from setwise.training.chunk import Chunk, Keeper, Progress, Prune
from setwise.training.fitting import Fit, OnEpoch
from setwise.training.population_plan import (
    Layout,
    Member,
    Population,
    Task,
    lanes_in_memory,
    most_lanes,
    plan,
)

FitChunk = Callable[[Chunk, Prune | None, Callable[[Progress], None]], dict[int, Fit]]
Asked = tuple[int, dict[int, float]]
"""An epoch, and the validation losses of those in training."""


class Sent(NamedTuple):
    """A chunk on its way."""

    fit: FitChunk
    tasks: Shared
    blueprint: Blueprint
    sizes: Sizes
    members: Sequence[Member]
    layout: Layout
    prune: Prune | None


class Elsewhere:
    """An executor that has the data of some tasks, and trains chunks of populations on them."""

    def __init__(self, executor: Executor, tasks: Sequence[Task]):
        self._executor, self._tasks = executor, executor.put(list(tasks))

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
        for _, (fits, asked) in self._executor.map_unordered(_trained, len(layouts), sent, on_told):
            found |= fits
            if prune is not None:
                for epoch, losses in asked:
                    prune(epoch, losses)
        return found


def _trained(sent: Sent, send: Send) -> tuple[dict[int, Fit], list[Asked]]:
    """On a worker: the fits of a chunk, and what was asked about pruning."""
    population = Population(sent.blueprint, sent.sizes, sent.tasks.get(), sent.members)
    asked: list[Asked] = []

    def ask(epoch: int, losses: Mapping[int, float]) -> Collection[int]:
        assert sent.prune is not None
        asked.append((epoch, dict(losses)))
        return sent.prune(epoch, losses)

    def report(progress: Progress) -> None:
        active: Any = progress.standings.active
        send({"epoch": progress.standings.epoch, "training": int(active.sum())})

    chunk = Chunk(population, sent.layout)
    return sent.fit(chunk, None if sent.prune is None else ask, report), asked


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came before every member had a model; ``fits`` are those of the members that have."""

    def __init__(self, fits: Mapping[int, Fit]):
        super().__init__()
        self.fits = dict(fits)


def fit_population(
    blueprint: Blueprint,
    sizes: Sizes,
    tasks: Sequence[Task],
    members: Sequence[Member],
    *,
    at_least: int = 1,
    prune: Prune | None = None,
    checkpoint_folder: Path | None = None,
    on_epoch: OnEpoch | None = None,
    elsewhere: Elsewhere | None = None,
) -> list[Fit]:
    """Train every member until its validation stops improving; its best weights are kept.

    Args:
        blueprint: the recipe of all members that have none of their own.
        sizes: of the models.
        tasks: training and validation sets; a member names one by its number.
        members: how each one trains. Members train as one program if they agree in the recipe,
            the batch size, the objective, the form of weight decay and the number of features.
        at_least: lanes to compile for, where fewer members come now than will later.
        prune: says after every epoch which members should stop.
        checkpoint_folder: keeps the state, so that the same call after a kill goes on from there
            and ends with the identical models.
        on_epoch: called after every epoch of a chunk with the epoch and how many members there
            are, are training, and have finished.
        elsewhere: an executor that trains the chunks and has the data of these tasks; it keeps no
            state in a folder.

    Ctrl-C ends training early if every member has a model by then, and is :class:`Interrupted` if
    some have.
    """
    population = Population(blueprint, sizes, tasks, members)
    layouts = plan(members, population.alike, _limit(population), at_least)
    if elsewhere is not None:
        fits = elsewhere.fits(_fit_chunk, population, layouts, prune, on_epoch)
        return [fits[number] for number in range(len(members))]
    fits = {}
    for place, layout in enumerate(layouts):
        if any(one.interrupted for one in fits.values()):
            raise Interrupted(fits)  # members of later chunks have no model yet
        others = len(members) - len(layout.members)
        report = None if on_epoch is None else partial(_report, on_epoch, len(fits), others)
        path = None if checkpoint_folder is None else checkpoint_folder / f"{place}.checkpoint"
        try:
            fits |= _fit_chunk(Chunk(population, layout), prune, report, path)
        except KeyboardInterrupt:
            if fits:
                raise Interrupted(fits) from None
            raise
    return [fits[number] for number in range(len(members))]


def _limit(population: Population) -> int:
    """The most lanes of a chunk: what is fast on this device, and fits."""
    by_cost = sorted(population.members, key=population.cost)
    largest = {population.recipe(member): member for member in by_cost}
    most = max(population.bytes_of_a_step(member) for member in largest.values())
    return min(most_lanes(), lanes_in_memory(most))


def _fit_chunk(
    chunk: Chunk,
    prune: Prune | None,
    report: Callable[[Progress], None] | None,
    checkpoint: Path | None = None,
) -> dict[int, Fit]:
    progress = chunk.start()
    fits: dict[int, Fit] = {}
    keeper = None if checkpoint is None else Keeper(chunk, progress, checkpoint)
    if keeper is not None:
        progress = keeper.resume(progress)
    try:
        while progress.standings.active.any():
            smaller = chunk.compacted(progress) if keeper is None else None
            if smaller is not None:
                fits |= chunk.fits(progress)
                chunk, progress = smaller
            progress = chunk.after(progress, prune)
            if report is not None:
                report(progress)
            if keeper is not None:
                keeper.save(progress)
    except KeyboardInterrupt:
        if (progress.standings.best_epoch < 0)[chunk.real].any():
            raise
        return fits | chunk.fits(progress, interrupted=True)
    return fits | chunk.fits(progress)


def _report(on_epoch: OnEpoch, finished: int, others: int, progress: Progress) -> None:
    """Tell how far a population is, if so many members finished before and train elsewhere."""
    training = int(progress.standings.active.sum())
    here = len(progress.history)
    on_epoch({
        "epoch": progress.standings.epoch,
        "training": training,
        "finished": finished + here - training,
        "members": others + here,
    })  # fmt: skip

"""Many models at once: one recipe with arrays of hyper-parameters, seeds and parts of the data.

Each member gets the result that it would get alone, up to rounding. One model alone, as
:func:`fit` trains it, is a population of one. Members train here or on workers elsewhere: which of
them train together is decided here, so that rounding is the same wherever they do.
"""

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import NamedTuple

from setwise._errors import InputError
from setwise._executor import Executor, Send, Shared
from setwise.choices import Encoded, Encoding
from setwise.models import Blueprint, Model, Sizes
from setwise.training.options import Options
from setwise.training.population_plan import (
    GivenModel,
    Layout,
    Member,
    Population,
    Stream,
    Task,
    lanes_in_memory,
    layouts_at_once,
    most_lanes,
    plan,
)
from setwise.training.processes import alone
from setwise.training.stopping import Fit, TrainingProgress
from setwise.training.trainer import OnShard, Prune, Trainer, train_members

OnEpoch = Callable[[Mapping[str, int | float]], None]
"""Called after every epoch with a record of it."""

Asked = tuple[int, dict[int, float]]
"""An epoch, and the validation losses of those in training."""


class TrainingJob(NamedTuple):
    """Members that train as one program, for a worker."""

    tasks: Shared
    blueprint: Blueprint
    sizes: Sizes
    members: Sequence[Member]
    layout: Layout
    prune: Prune | None


class Elsewhere:
    """An executor that has the data of some tasks, and trains parts of populations on them."""

    def __init__(self, executor: Executor, tasks: Sequence[Task]):
        self._executor, self._tasks = executor, executor.put(list(tasks))

    def fits(
        self,
        blueprint: Blueprint,
        sizes: Sizes,
        members: Sequence[Member],
        layouts: Sequence[Layout],
        prune: Prune | None,
        on_epoch: OnEpoch | None,
    ) -> dict[int, Fit]:
        """What became of each member; ``prune`` is asked there, and hears of it here later."""
        training = {number: len(layout.members) for number, layout in enumerate(layouts)}

        def job(number: int) -> TrainingJob:
            return TrainingJob(self._tasks, blueprint, sizes, members, layouts[number], prune)

        def on_told(number: int, told: Mapping[str, int]) -> None:
            training[number] = told["training"]
            if on_epoch is not None:
                left, every = sum(training.values()), len(members)
                on_epoch({
                    "epoch": told["epoch"], "training": left, "finished": every - left,
                    "members": every,
                })  # fmt: skip

        found: dict[int, Fit] = {}
        for _, (fits, asked) in self._executor.map_unordered(
            _train_job, len(layouts), job, on_told
        ):
            found |= fits
            if prune is not None:
                for epoch, losses in asked:
                    prune(epoch, losses)
        return found


def _train_job(job: TrainingJob, send: Send) -> tuple[dict[int, Fit], list[Asked]]:
    """On a worker: the fits of a layout, and what was asked about pruning."""
    population = Population(job.blueprint, job.sizes, job.tasks.get(), job.members)
    asked: list[Asked] = []

    def ask(epoch: int, losses: Mapping[int, float]) -> Collection[int]:
        assert job.prune is not None
        asked.append((epoch, dict(losses)))
        return job.prune(epoch, losses)

    def report(progress: TrainingProgress) -> None:
        stopping = progress.stopping
        send({"epoch": stopping.epoch, "training": int(stopping.active.sum())})

    prune = None if job.prune is None else ask
    return train_members(Trainer(population, job.layout), prune, report), asked


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came before every member had a model; ``fits`` are those of the members that have."""

    def __init__(self, fits: Mapping[int, Fit]):
        super().__init__()
        self.fits = dict(fits)


def fit(
    model: Model,
    train: Encoded | Encoding,
    valid: Encoded | Encoding,
    options: Options,
    seed: int = 0,
    checkpoint_folder: Path | None = None,
    on_epoch: OnEpoch | None = None,
    on_shard: OnShard | None = None,
) -> Fit:
    """Train one model until validation stops improving; the best weights are kept.

    Encoded data stay on the device; an :class:`~setwise.choices.Encoding` is read anew in every
    epoch, shard after shard (:mod:`setwise.training.shards`). Ctrl-C ends training early with the
    best model so far. With a checkpoint folder, a killed fit goes on where it was, at the last
    shard, and ends with the identical model. ``on_epoch`` is called with the epoch's record: epoch,
    loss, nll, accuracy and best (so far).

    Where JAX runs on several processes, all call this together (:mod:`setwise.training.processes`).
    The first of them keeps the checkpoint, from which any number of processes goes on.
    """
    members = [Member(options, seed)]
    population = Population(GivenModel(model), Sizes(), [Task(train, valid)], members)
    fits = _fit_here(population, 1, None, checkpoint_folder, on_epoch, on_shard)
    check_fits(members, fits)
    return fits[0]


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
    on_shard: OnShard | None = None,
    elsewhere: Elsewhere | None = None,
) -> list[Fit]:
    """Train every member until its validation stops improving; its best weights are kept.

    Args:
        blueprint: the recipe of all members that have none of their own.
        sizes: of the models.
        tasks: training and validation sets; a member names one by its number.
        members: how each one trains. Members train as one program if they agree in the recipe,
            the batch size, the objective, the form of weight decay and the number of features.
            If sets are read from disk, or JAX runs on several processes, members train one after
            the other.
        at_least: lanes to compile for, where fewer members come now than will later.
        prune: says after every epoch which members should stop.
        checkpoint_folder: keeps the state, so that the same call after a kill goes on from there
            and ends with the identical models.
        on_epoch: called after every epoch with the epoch and how many members there are, are
            training, and have finished; if one member trains, also with its loss, its validation
            nll and accuracy, and the best of what it stops on.
        on_shard: called after every shard of an epoch, where sets are read from disk.
        elsewhere: an executor that trains the members and has the data of these tasks; it keeps no
            state in a folder.

    Ctrl-C ends training early if every member has a model by then, and is :class:`Interrupted` if
    some have.
    """
    population = Population(blueprint, sizes, tasks, members)
    if elsewhere is None:
        return _fit_here(population, at_least, prune, checkpoint_folder, on_epoch, on_shard)
    layouts = _layouts(population, at_least)
    fits = elsewhere.fits(blueprint, sizes, members, layouts, prune, on_epoch)
    return [fits[number] for number in range(len(members))]


def check_fits(
    members: Sequence[Member], fits: Sequence[Fit | None], name_tasks: bool = False
) -> None:
    """Refuse fits that gave no model, or whose loss was not a number; None did not train.

    With ``name_tasks``, the error says which pair of training and validation sets it was.
    """
    for member, one in zip(members, fits, strict=True):
        if one is None or not one.history:
            continue
        last, rate = one.history[-1], member.options.learning_rate
        who = "training"
        if name_tasks:
            who += f" with seed {member.seed} on pair {member.task}"
        elif len(members) > 1:
            who += f" with seed {member.seed}"
        if not math.isfinite(last["loss"]):
            raise InputError(
                f"{who} diverged in epoch {last['epoch']} (its loss is {last['loss']}); "
                f"use a learning rate below {rate:g}"
            )
        if one.best_epoch < 0:
            raise InputError(
                f"{who} gave no model: the validation {member.options.stop_on} was not a number "
                f"in any epoch; use a learning rate below {rate:g}, and check the columns of the "
                "validation sets for extreme values"
            )


def _fit_here(
    population: Population,
    at_least: int,
    prune: Prune | None,
    checkpoint_folder: Path | None,
    on_epoch: OnEpoch | None,
    on_shard: OnShard | None,
) -> list[Fit]:
    """The fits of all members in this process: one layout after the other, or two at a time."""
    layouts = _layouts(population, at_least)
    report = _Report(on_epoch, layouts)
    at_once = 1 if prune or checkpoint_folder else layouts_at_once(population, layouts)
    if at_once > 1:
        return _fit_at_once(population, layouts, report, at_once)
    fits: dict[int, Fit] = {}
    for place, layout in enumerate(layouts):
        if any(one.interrupted for one in fits.values()):
            raise Interrupted(fits)  # members of later layouts have no model yet
        path = None if checkpoint_folder is None else checkpoint_folder / f"{place}.checkpoint"
        try:
            trainer = Trainer(population, layout)
            fits |= train_members(trainer, prune, partial(report, place), on_shard, path)
            report.finished(place)
        except KeyboardInterrupt:
            if fits:
                raise Interrupted(fits) from None
            raise
    return [fits[number] for number in range(len(population.members))]


def _fit_at_once(
    population: Population, layouts: Sequence[Layout], report: "_Report", at_once: int
) -> list[Fit]:
    """Small programs of several recipes, so many at a time: one compiles while another trains.

    Those with the most work begin, or the last would train alone while a core has nothing to do.
    Ctrl-C reaches the main thread; those in training hear of it at the end of their epoch.
    """
    ended = threading.Event()

    def after_epoch(place: int, progress: TrainingProgress) -> None:
        report(place, progress)
        if ended.is_set():
            raise KeyboardInterrupt

    def train(place: int) -> dict[int, Fit]:
        if ended.is_set():
            raise KeyboardInterrupt
        trainer = Trainer(population, layouts[place])
        found = train_members(trainer, on_epoch=partial(after_epoch, place))
        report.finished(place)
        return found

    with ThreadPoolExecutor(at_once) as threads:
        work = [population.work(population.members[one.members[0]]) for one in layouts]
        first = sorted(range(len(layouts)), key=lambda place: -work[place])
        training = [threads.submit(train, place) for place in first]
        left = set(training)
        while left:
            try:
                done, left = wait(left, return_when=FIRST_COMPLETED)
                if any(_ended_early(one) for one in done):
                    ended.set()
            except KeyboardInterrupt:
                ended.set()
    failed = [error for one in training if (error := one.exception()) is not None]
    for error in failed:
        if not isinstance(error, KeyboardInterrupt):
            raise error
    fits = {n: fit for one in training if not one.exception() for n, fit in one.result().items()}
    if failed:
        raise Interrupted(fits) if fits else failed[0]
    return [fits[number] for number in range(len(population.members))]


def _ended_early(training: "Future[dict[int, Fit]]") -> bool:
    """Whether these members failed, or Ctrl-C came: the others then end too."""
    if training.exception() is not None:
        return True
    return any(one.interrupted for one in training.result().values())


def _layouts(population: Population, at_least: int) -> list[Layout]:
    """Who trains with whom."""
    members = population.members
    one_by_one = not alone() or not all(task.resident for task in population.tasks)
    if one_by_one or max(at_least, len(members)) == 1:
        return [Layout((Stream(one.task, one.seed, (n,)),), 1) for n, one in enumerate(members)]
    by_cost = sorted(members, key=population.cost)
    largest = {one.recipe(population.blueprint): one for one in by_cost}
    most = max(population.bytes_of_a_step(member) for member in largest.values())
    limit = min(most_lanes(), lanes_in_memory(most))  # what is fast on this device, and fits
    return plan(members, population.alike, limit, at_least)


class _Report:
    """Tells, after every epoch of a layout, how far the whole population is."""

    def __init__(self, on_epoch: OnEpoch | None, layouts: Sequence[Layout]):
        self._on_epoch = on_epoch
        self._training = {place: len(layout.members) for place, layout in enumerate(layouts)}
        self._members = sum(self._training.values())

    def __call__(self, place: int, progress: TrainingProgress) -> None:
        here = int(progress.stopping.active.sum())
        self._training[place] = here
        if self._on_epoch is None:
            return
        waiting = sum(self._training.values())
        record: dict[str, int | float] = {
            "epoch": progress.stopping.epoch, "training": here,
            "finished": self._members - waiting, "members": self._members,
        }  # fmt: skip
        if self._members == 1:
            record |= next(iter(progress.history.values()))[-1]
        self._on_epoch(record)

    def finished(self, place: int) -> None:
        """Members of a layout that had finished before this call have no epoch to tell of."""
        self._training[place] = 0

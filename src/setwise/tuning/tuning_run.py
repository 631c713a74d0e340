"""The studies of several tasks at once: the trials of a batch train as one population.

A database stores trials one by one, for workers that share them. A checkpoint is a file with all
trials of a batch, or none. A killed search continues from its last whole batch, with the best
models so far, and ends as if it had not been killed: the rounding of a trial may depend on those
that train with it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import clone

from setwise import _tensorfile
from setwise._errors import InputError
from setwise._executor import Executor
from setwise._tensorfile import named_arrays, with_arrays
from setwise.choices import Choices, Schema
from setwise.estimators import TrainedEstimator
from setwise.estimators.base import trainable
from setwise.models import Model, Sizes
from setwise.training import (
    Elsewhere,
    Fit,
    Member,
    OnEpoch,
    Prune,
    Task,
    Validation,
    fit_population,
)
from setwise.training.checkpoint import fingerprint
from setwise.tuning.options import OnTrials, Tuning
from setwise.tuning.space import check, with_arguments
from setwise.tuning.storage import Storage, heartbeat
from setwise.tuning.study import Claim, Study

EPOCHS_BETWEEN_LOOKS = 5  # at which trials to prune
SCORED = "as returned"  # part of a study's name: studies that scored single members are others
DIVERGED = "training diverged (its loss is not a number); lower learning rates may help"


class Learner(NamedTuple):
    """An estimator that is to learn a task."""

    task: int
    estimator: TrainedEstimator


class Claimed(NamedTuple):
    """A claim of one task's study, and the estimator that it asks for."""

    task: int
    estimator: TrainedEstimator
    claim: Claim


SomeLearner = TypeVar("SomeLearner", Learner, Claimed)


class TuningRun:
    """Runs the studies of all tasks: it has their data, and the best fits of this process."""

    def __init__(
        self,
        model: TrainedEstimator,
        parts: Sequence[tuple[Choices, Choices]],
        seeds: Sequence[int],
        tuning: Tuning,
        checkpoint: Path | None = None,
        executor: Executor | None = None,
    ):
        check(tuning.ranges, model)
        self.model, self.seeds, self.tuning = model, list(seeds), tuning
        learned = [Schema.learn(trainable(train)) for train, _ in parts]
        self._schemas = [schema for schema, _ in learned]
        self._tasks = [
            Task(train.encoded(), schema.encode(trainable(valid)))
            for (schema, train), (_, valid) in zip(learned, parts, strict=True)
        ]
        self._elsewhere = None if executor is None else Elsewhere(executor, self._tasks)
        self._measure = model.training_options.stop_on
        self._batch = tuning.together
        self.storage = Storage(tuning.storage)
        maximise = self._measure == "accuracy"
        with self.storage.faults():
            self.studies = [
                Study(self.storage, self._name(task, seed), tuning.ranges, maximise)
                for task, seed in zip(self._tasks, self.seeds, strict=True)
            ]
        # By task, the best trial of this process, or of earlier ones, from the checkpoint.
        self._best: dict[int, BestTrial] = {}
        self._validations: dict[int, Validation] = {}
        self._checkpoint = checkpoint
        if checkpoint is not None:
            self._best = resumed(checkpoint, self.studies, self._skeletons)

    def claim(self) -> list[Claimed]:
        """The next batch of every study."""
        tuning = self.tuning
        return [
            Claimed(task, self._with(task, claim.values), claim)
            for task, study in enumerate(self.studies)
            for claim in study.claim(self._batch, tuning.trials, tuning.seed + task, tuning.pruning)
        ]

    def run(self, claimed: Sequence[Claimed], on_trials: OnTrials | None) -> None:
        """Train a batch and store the results; trials that do not end are given back.

        A combination of values that the estimator refuses is a trial that failed.
        """
        open_claims = {one.claim.trial: one for one in claimed}
        try:
            with heartbeat(self.storage.base, frozenset(open_claims)):
                sound = []
                for one in claimed:
                    try:
                        one.estimator.check_arguments()
                        sound.append(one)
                    except InputError as error:
                        self._fail(one, {}, str(error))
                        del open_claims[one.claim.trial]
                for group in _by_sizes(sound):
                    for one, fits, pruned in self._trained(group, on_trials):
                        self._finish(one, fits, pruned)
                        del open_claims[one.claim.trial]
        finally:
            for one in open_claims.values():
                self.studies[one.task].give_back(one.claim)
        if self._checkpoint is not None:
            write_checkpoint(self._checkpoint, self.studies, self._best)

    def finished(self) -> bool:
        """Whether every study has its trials, wherever they ran; some may have more."""
        return all(len(study.finished()) >= self.tuning.trials for study in self.studies)

    def estimators(self) -> list[TrainedEstimator]:
        """For every task, the estimator of its best trial, trained.

        Fits of this process, and those in a checkpoint, are at hand; others are repeated.
        """
        found: dict[int, TrainedEstimator] = {}
        missing: list[Learner] = []
        for task, study in enumerate(self.studies):
            best = study.best()
            estimator = self._with(task, best.params)
            known = self._best.get(task)
            if known is not None and known.trial == best.number:
                found[task] = self._learned(task, estimator, known.fits)
            else:
                missing.append(Learner(task, estimator))
        for group in _by_sizes(missing):
            for one, fits in zip(group, self._fit(group), strict=True):
                found[one.task] = self._learned(one.task, one.estimator, fits)
        return [found[task] for task in range(len(self.studies))]

    def _with(self, task: int, values: Mapping[str, Any]) -> TrainedEstimator:
        """The estimator of a task with these values; its seed is the task's, unless it is tuned."""
        return with_arguments(clone(self.model).set_params(seed=self.seeds[task]), values)

    def _learned(
        self, task: int, estimator: TrainedEstimator, fits: Sequence[Fit]
    ) -> TrainedEstimator:
        return estimator.learned(self._schemas[task], fits, self._tasks[task].valid)

    def _trained(
        self, group: Sequence[Claimed], on_trials: OnTrials | None
    ) -> list[tuple[Claimed, list[Fit], bool]]:
        """The fits of claims whose models have the same sizes, and which were pruned."""
        pruner = _Pruner(group, self._measure)
        before, total = self._ended(), self.tuning.trials * len(self.studies)

        def on_epoch(record: Mapping[str, int | float]) -> None:
            if on_trials is not None:  # a trial's members count as parts of it
                ended = int(record["finished"] * len(group) // record["members"])
                on_trials(before + ended, total)

        fits = self._fit(group, pruner if self.tuning.pruning else None, on_epoch)
        if any(fit.interrupted for own in fits for fit in own):
            raise KeyboardInterrupt
        return [
            (one, own, number in pruner.pruned)
            for number, (one, own) in enumerate(zip(group, fits, strict=True))
        ]

    def _fit(
        self,
        group: Sequence[SomeLearner],
        prune: Prune | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> list[list[Fit]]:
        """The fits of each learner's members; all members train as one population.

        Repeated, a trial trains in the program that it had, so that it ends alike.
        """
        first = group[0].estimator
        members = [_members(one) for one in group]
        fits = iter(fit_population(
            first.blueprint, first.sizes(), self._tasks, [one for own in members for one in own],
            at_least=self._lanes(members), prune=prune, on_epoch=on_epoch,
            elsewhere=self._elsewhere,
        ))  # fmt: skip
        return [list(islice(fits, len(own))) for own in members]

    def _lanes(self, members: Sequence[Sequence[Member]]) -> int:
        """Lanes to compile for, so that later batches use the same program."""
        if "seed" in self.tuning.ranges:
            return 1  # each trial has batches of its own
        alike = (Counter((one.seed, one.blueprint) for one in own) for own in members)
        return self._batch * max(max(counts.values()) for counts in alike)

    def _finish(self, one: Claimed, fits: Sequence[Fit], pruned: bool) -> None:
        """Store the result of a trial; the fits of the best one are kept."""
        first = fits[0]
        result: dict[str, Any] = {"epochs": len(first.history), "best_epoch": first.best_epoch}
        if any(fit.diverged or fit.best_epoch < 0 for fit in (fits[:1] if pruned else fits)):
            self._fail(one, result, DIVERGED, pruned)
            return
        measured = first.history[first.best_epoch]
        if len(fits) > 1 and not pruned:
            result["best_epoch"] = [fit.best_epoch for fit in fits]
            result["epochs"] = max(len(fit.history) for fit in fits)
            model = self._learned(one.task, one.estimator, fits).model_
            measured = dict(
                zip(("nll", "accuracy"), self._valid(one.task).measure(model), strict=True)
            )
        result |= {name: float(measured[name]) for name in ("nll", "accuracy")}
        value = result[self._measure]
        self.studies[one.task].finish(one.claim, value, result, pruned)
        best = self._best.get(one.task)
        sign = -1 if self._measure == "accuracy" else 1
        if not pruned and (best is None or sign * value < sign * best.value):
            number = self.studies[one.task].number(one.claim)
            self._best[one.task] = BestTrial(number, value, tuple(fits))

    def _fail(
        self, one: Claimed, result: dict[str, Any], reason: str, pruned: bool = False
    ) -> None:
        """A trial without a model counts, with the worst value there is, but is never the best."""
        worst = 0.0 if self._measure == "accuracy" else math.inf
        self.studies[one.task].finish(one.claim, worst, result | {"failed": reason}, pruned)

    def _valid(self, task: int) -> Validation:
        """Measures models on a task's validation sets, which stay on the device."""
        if task not in self._validations:
            self._validations[task] = Validation([self._tasks[task].valid])
        return self._validations[task]

    def _skeletons(self, task: int, trial: int) -> list[Model]:
        """The models of a trial, without their weights."""
        values = self.studies[task].finished()[trial].params
        estimator = self._with(task, values)
        width, sizes = self._schemas[task].width, estimator.sizes()
        return [
            member.recipe(estimator.blueprint).skeleton(width, sizes)
            for member in estimator.members()
        ]

    def _ended(self) -> int:
        return sum(len(study.finished()) for study in self.studies)

    def _name(self, task: Task, seed: int) -> str:
        """The same for the same model, space, data and seeds, so that a study continues."""
        model = self.model
        arguments = model.get_params(deep=False) | {"training": asdict(model.training_options)}
        space = {name: str(values) for name, values in self.tuning.ranges.items()}
        tuning = [self.tuning.seed, self.tuning.pruning, SCORED]
        mark = fingerprint(None, task, [arguments, space, seed, tuning])
        return f"{type(model).__name__}-{mark[:16]}"


class _Pruner:
    """Asks Optuna every few epochs which trials to stop; an ensemble goes by its first member."""

    def __init__(self, group: Sequence[Claimed], measure: str):
        self._group, self._measure = group, measure
        self._trial_of = [n for n, one in enumerate(group) for _ in one.estimator.members()]
        self._first = {number: place for place, number in reversed([*enumerate(self._trial_of)])}
        self.pruned: set[int] = set()

    def __call__(self, epoch: int, losses: Mapping[int, float]) -> Collection[int]:
        if (epoch + 1) % EPOCHS_BETWEEN_LOOKS == 0:
            for place, loss in losses.items():
                number = self._trial_of[place]
                if self._first[number] == place and self._hopeless(number, epoch, loss):
                    self.pruned.add(number)
        # Members may train after the first of their ensemble: those of a pruned trial stop at once.
        return [place for place in losses if self._trial_of[place] in self.pruned]

    def _hopeless(self, number: int, epoch: int, loss: float) -> bool:
        one = self._group[number]
        if (
            one.estimator.training_options.stop_on != self._measure
        ):  # tuned itself: losses do not compare
            return False
        return one.claim.hopeless(epoch + 1, -loss if self._measure == "accuracy" else loss)


def _members(one: Learner | Claimed) -> list[Member]:
    """What a learner trains: every member with its own recipe, since others may have another."""
    shared = one.estimator.blueprint
    return [
        replace(member, blueprint=member.recipe(shared))
        for member in one.estimator.members(one.task)
    ]


def _by_sizes(learners: Sequence[SomeLearner]) -> list[list[SomeLearner]]:
    """Those whose models have the same sizes: each group is one population."""
    groups: dict[Sizes, list[SomeLearner]] = defaultdict(list)
    for one in learners:
        groups[one.estimator.sizes()].append(one)
    return list(groups.values())


KIND = "search"


class BestTrial(NamedTuple):
    """The best trial of one task so far: its number, its value and the fits of its members."""

    trial: int
    value: float
    fits: tuple[Fit, ...]


def write_checkpoint(path: Path, studies: Sequence[Study], best: Mapping[int, BestTrial]) -> None:
    """Write the finished trials of every study, and the best fits by task."""
    arrays = {
        f"{task} {number} {name}": array
        for task, one in best.items()
        for number, fit in enumerate(one.fits)
        for name, array in named_arrays(jax.tree.map(_on_device, fit.model)).items()
    }
    meta = {
        "studies": {study.name: study.export_trials() for study in studies},
        "kept": {
            str(task): {
                "trial": one.trial, "value": one.value,
                "fits": [
                    {"history": list(fit.history), "best_epoch": fit.best_epoch}
                    for fit in one.fits
                ],
            }
            for task, one in best.items()
        },
    }  # fmt: skip
    _tensorfile.write(path, KIND, arrays, meta)


def resumed(
    path: Path, studies: Sequence[Study], skeletons: Callable[[int, int], Sequence[Model]]
) -> dict[int, BestTrial]:
    """Give the studies the trials that the file has, if there is one; return the best by task.

    ``skeletons`` gives the models of a task's trial, without weights.
    """
    if not path.exists():
        return {}
    arrays, meta = _tensorfile.read(path, KIND)
    with _tensorfile.made_elsewhere(path, "trials"):
        if set(meta["studies"]) != {study.name for study in studies}:
            raise InputError(
                f"{path} belongs to another search (other data, options, seed or setwise version); "
                "delete it to start anew"
            )
        for study in studies:
            study.import_trials(meta["studies"][study.name])
        return {
            int(task): _best_trial(int(task), one, arrays, skeletons)
            for task, one in meta["kept"].items()
        }


def _best_trial(
    task: int,
    one: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    skeletons: Callable[[int, int], Sequence[Model]],
) -> BestTrial:
    fits = []
    pairs = zip(skeletons(task, one["trial"]), one["fits"], strict=True)
    for number, (skeleton, fit) in enumerate(pairs):
        begin = f"{task} {number} "
        own = {
            name.removeprefix(begin): array
            for name, array in arrays.items()
            if name.startswith(begin)
        }
        fits.append(Fit(with_arrays(skeleton, own), tuple(fit["history"]), fit["best_epoch"]))
    return BestTrial(one["trial"], one["value"], tuple(fits))


def _on_device(leaf: object) -> object:
    # A scalar of a stack of models is a NumPy scalar, not an array.
    return jnp.asarray(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf

"""The studies of several tasks at once: their batches train as populations."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from setwise._crew import Crew
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
    fit_population,
    trials_together,
)
from setwise.training.checkpoint import fingerprint
from setwise.tuning import rounds
from setwise.tuning.options import OnTrials, Tuning
from setwise.tuning.rounds import Kept
from setwise.tuning.space import check, with_arguments
from setwise.tuning.storage import Storage
from setwise.tuning.study import Claim, Study
from setwise.tuning.workers import signs_of_life

EPOCHS_BETWEEN_LOOKS = 5  # at whom to prune


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


class Job:
    """The studies of all tasks, their data, and the best fits of this process."""

    def __init__(
        self,
        model: TrainedEstimator,
        parts: Sequence[tuple[Choices, Choices]],
        seeds: Sequence[int],
        tuning: Tuning,
        checkpoint: Path | None = None,
        crew: Crew | None = None,
    ):
        check(tuning.ranges, model)
        self.model, self.seeds, self.tuning = model, list(seeds), tuning
        learned = [Schema.learn(trainable(train)) for train, _ in parts]
        self._schemas = [schema for schema, _ in learned]
        self._tasks = [
            Task(train.encoded(), schema.encode(trainable(valid)))
            for (schema, train), (_, valid) in zip(learned, parts, strict=True)
        ]
        self._elsewhere = None if crew is None else Elsewhere(crew, self._tasks)
        self._measure = model.training_options.stop_on
        self._batch = min(tuning.batch or trials_together(), tuning.trials)
        self.storage = Storage(tuning.storage)
        maximise = self._measure == "accuracy"
        with self.storage.faults():
            self.studies = [
                Study(self.storage, self._name(task, seed), tuning.ranges, maximise)
                for task, seed in zip(self._tasks, self.seeds, strict=True)
            ]
        # By task, the best trial of this process, or of those before it that kept it in a file.
        self._kept: dict[int, Kept] = {}
        self._checkpoint = checkpoint
        if checkpoint is not None:
            self._kept = rounds.resume(checkpoint, self.studies, self._skeleton)

    def claim(self) -> list[Claimed]:
        """The next batch of every study."""
        tuning = self.tuning
        return [
            Claimed(task, with_arguments(self.model, claim.values), claim)
            for task, study in enumerate(self.studies)
            for claim in study.claim(self._batch, tuning.trials, tuning.seed + task, tuning.pruning)
        ]

    def run(self, claimed: Sequence[Claimed], on_trials: OnTrials | None) -> None:
        """Train a batch and tell the results; what does not end is given back."""
        open_claims = {one.claim.trial: one for one in claimed}
        try:
            with signs_of_life(self.storage.base, frozenset(open_claims)):
                for group in _alike(claimed):
                    for one, fit, pruned in self._trained(group, on_trials):
                        self._finish(one, fit, pruned)
                        del open_claims[one.claim.trial]
        finally:
            for one in open_claims.values():
                self.studies[one.task].give_back(one.claim)
        if self._checkpoint is not None:
            rounds.write(self._checkpoint, self.studies, self._kept)

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
            estimator = with_arguments(self.model, best.params).set_params(seed=self.seeds[task])
            kept = self._kept.get(task)
            if kept is not None and kept.trial == best.number and estimator.ensemble == 1:
                found[task] = estimator.learned(
                    self._schemas[task], [kept.fit], self._tasks[task].valid
                )
            else:
                missing.append(Learner(task, estimator))
        for group in _alike(missing):
            for one, fits in zip(group, self._repeated(group), strict=True):
                valid = self._tasks[one.task].valid
                found[one.task] = one.estimator.learned(self._schemas[one.task], fits, valid)
        return [found[task] for task in range(len(self.studies))]

    def _trained(
        self, group: Sequence[Claimed], on_trials: OnTrials | None
    ) -> list[tuple[Claimed, Fit, bool]]:
        """The fits of claims that share blueprint and sizes, and who was pruned."""
        members = [
            Member(one.estimator.training_options, self.seeds[one.task], one.task) for one in group
        ]
        pruner = _Pruner(group, self._measure)
        before, total = self._ended(), self.tuning.trials * len(self.studies)

        def on_epoch(record: Mapping[str, int | float]) -> None:
            if on_trials is not None:
                on_trials(before + int(record["finished"]), total)

        prune = pruner if self.tuning.pruning else None
        fits = self._fit(group[0].estimator, members, prune, on_epoch)
        if any(fit.interrupted for fit in fits):
            raise KeyboardInterrupt
        return [
            (one, fit, number in pruner.pruned)
            for number, (one, fit) in enumerate(zip(group, fits, strict=True))
        ]

    def _fit(
        self,
        estimator: TrainedEstimator,
        members: Sequence[Member],
        prune: Prune | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> list[Fit]:
        return fit_population(
            estimator.blueprint, estimator.sizes(), self._tasks, members,
            at_least=self._batch, prune=prune, on_epoch=on_epoch, elsewhere=self._elsewhere,
        )  # fmt: skip

    def _finish(self, one: Claimed, fit: Fit, pruned: bool) -> None:
        value = self._value(fit)
        result: dict[str, int | float] = {"epochs": len(fit.history), "best_epoch": fit.best_epoch}
        if fit.best_epoch >= 0:
            best = fit.history[fit.best_epoch]
            result |= {"nll": best["nll"], "accuracy": best["accuracy"]}
        self.studies[one.task].finish(one.claim, value, result, pruned)
        kept = self._kept.get(one.task)
        sign = -1 if self._measure == "accuracy" else 1
        if not pruned and (kept is None or sign * value < sign * kept.value):
            number = self.studies[one.task].number(one.claim)
            self._kept[one.task] = Kept(number, value, fit)

    def _value(self, fit: Fit) -> float:
        """The best validation measure; the worst there is for a fit that diverged."""
        if fit.diverged or fit.best_epoch < 0:
            return 0.0 if self._measure == "accuracy" else math.inf
        return float(fit.history[fit.best_epoch][self._measure])

    def _repeated(self, group: Sequence[Learner]) -> list[list[Fit]]:
        """Train these again, or as ensembles, all at once and in the program of their trials."""
        members = [member for one in group for member in one.estimator.members(one.task)]
        fits = iter(self._fit(group[0].estimator, members))
        return [list(islice(fits, one.estimator.ensemble)) for one in group]

    def _skeleton(self, task: int, trial: int) -> Model:
        """The model of a trial, without its weights."""
        values = self.studies[task].finished()[trial].params
        estimator = with_arguments(self.model, values)
        return estimator.blueprint.skeleton(self._schemas[task].width, estimator.sizes())

    def _ended(self) -> int:
        return sum(len(study.finished()) for study in self.studies)

    def _name(self, task: Task, seed: int) -> str:
        """The same for the same model, space, data and seeds: then a study goes on."""
        model = self.model
        arguments = model.get_params(deep=False) | {"training": asdict(model.training_options)}
        space = {name: str(values) for name, values in self.tuning.ranges.items()}
        tuning = [self.tuning.seed, self.tuning.pruning]
        mark = fingerprint(None, task, [arguments, space, seed, tuning])
        return f"{type(model).__name__}-{mark[:16]}"


class _Pruner:
    """Asks Optuna every few epochs which trials to stop."""

    def __init__(self, group: Sequence[Claimed], measure: str):
        self._group, self._measure = group, measure
        self.pruned: set[int] = set()

    def __call__(self, epoch: int, losses: Mapping[int, float]) -> Collection[int]:
        if (epoch + 1) % EPOCHS_BETWEEN_LOOKS:
            return ()
        stopped = []
        for number, loss in losses.items():
            value = -loss if self._measure == "accuracy" else loss
            if self._group[number].claim.hopeless(epoch + 1, value):
                stopped.append(number)
        self.pruned.update(stopped)
        return stopped


def _alike(learners: Sequence[SomeLearner]) -> list[list[SomeLearner]]:
    """Those whose models have the same sizes: each group is one recipe."""
    groups: dict[Sizes, list[SomeLearner]] = defaultdict(list)
    for one in learners:
        groups[one.estimator.sizes()].append(one)
    return list(groups.values())

"""How trials are fitted: as one population where estimators train by gradients, or one by one."""

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from setwise._errors import InputError
from setwise._executor import Executor, Send, SerialExecutor, Shared
from setwise.choices import Choices, Schema
from setwise.estimators import BoostedLogit, Estimator, LambdaMART, TrainedEstimator
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
from setwise.training.boosting import lightgbm
from setwise.tuning.options import Tuning
from setwise.tuning.study import Claim

EPOCHS_BETWEEN_LOOKS = 5  # at which trials to prune
DIVERGED = "training diverged (its loss is not a number); lower learning rates may help"

OnEnded = Callable[[int], None]
"""Called with the number of trials that have ended but were not yet given back."""


class Learner(NamedTuple):
    """An estimator that is to learn a task; ``claim`` is its trial, None if that has finished."""

    task: int
    estimator: Estimator
    claim: Claim | None = None


class Learned(NamedTuple):
    """What became of a learner.

    ``result`` has its measures on the validation part, or under "failed" why there is no model.
    """

    result: dict[str, Any]
    model: Any
    """What :meth:`PopulationTrials.estimator` or its twin needs; None without a model."""
    pruned: bool = False

    @property
    def failed(self) -> str | None:
        """Why there is no model."""
        return self.result.get("failed")


class PopulationTrials:
    """Trains the trials of a batch as one population for each architecture."""

    def __init__(
        self,
        tasks: Sequence[Task],
        schemas: Sequence[Schema],
        measure: str,
        tuning: Tuning,
        seeds_vary: bool,
        executor: Executor | None = None,
    ):
        self._tasks, self._schemas, self._measure = tasks, schemas, measure
        self.batch, self._pruning, self._seeds_vary = tuning.together, tuning.pruning, seeds_vary
        self._elsewhere = None if executor is None else Elsewhere(executor, tasks)
        self._validations: dict[int, Validation] = {}

    def learn(
        self, learners: Sequence[Learner], on_ended: OnEnded
    ) -> Iterator[tuple[Learner, Learned]]:
        """What becomes of each learner; those whose models have the same sizes come together."""
        for group in _by_sizes(learners):
            yield from self._trained(group, on_ended)

    def estimator(self, one: Learner, model: Sequence[Fit]) -> TrainedEstimator:
        """The fitted estimator of a learner."""
        return _network(one).learned(self._schemas[one.task], model, self._tasks[one.task])

    def skeletons(self, one: Learner) -> list[Model]:
        """The models of a learner's members, without their weights."""
        estimator = _network(one)
        width, sizes = self._schemas[one.task].width, estimator.sizes()
        return [
            member.recipe(estimator.blueprint).skeleton(width, sizes)
            for member in estimator.members()
        ]

    def _trained(
        self, group: Sequence[Learner], on_ended: OnEnded
    ) -> list[tuple[Learner, Learned]]:
        """Learners whose models have the same sizes, with what became of them."""
        pruner = _Pruner(group, self._measure)
        prune = pruner if self._pruning and all(one.claim for one in group) else None

        def on_epoch(record: Mapping[str, int | float]) -> None:
            # A trial's members count as parts of it.
            on_ended(int(record["finished"] * len(group) // record["members"]))

        fits = self._fit(group, prune, on_epoch)
        if any(fit.interrupted for own in fits for fit in own):
            raise KeyboardInterrupt
        return [
            (one, self._learned(one, own, number in pruner.pruned))
            for number, (one, own) in enumerate(zip(group, fits, strict=True))
        ]

    def _fit(
        self, group: Sequence[Learner], prune: Prune | None, on_epoch: OnEpoch
    ) -> list[list[Fit]]:
        """The fits of each learner's members; all members train as one population.

        Repeated, a trial trains in the program that it had, so that it ends alike.
        """
        first = _network(group[0])
        members = [_members(one, self._schemas[one.task]) for one in group]
        fits = iter(fit_population(
            first.blueprint, first.sizes(), self._tasks, [one for own in members for one in own],
            at_least=self._lanes(members), prune=prune, on_epoch=on_epoch,
            elsewhere=self._elsewhere,
        ))  # fmt: skip
        return [list(islice(fits, len(own))) for own in members]

    def _lanes(self, members: Sequence[Sequence[Member]]) -> int:
        """Lanes to compile for, so that later batches use the same program."""
        if self._seeds_vary:
            return 1  # each trial has batches of its own
        alike = (Counter((one.seed, one.blueprint) for one in own) for own in members)
        return self.batch * max(max(counts.values()) for counts in alike)

    def _learned(self, one: Learner, fits: Sequence[Fit], pruned: bool) -> Learned:
        first = fits[0]
        result: dict[str, Any] = {"epochs": len(first.history), "best_epoch": first.best_epoch}
        if any(fit.diverged or fit.best_epoch < 0 for fit in (fits[:1] if pruned else fits)):
            return Learned(result | {"failed": DIVERGED}, None, pruned)
        measured = first.history[first.best_epoch]
        if len(fits) > 1 and not pruned:
            result["best_epoch"] = [fit.best_epoch for fit in fits]
            result["epochs"] = max(len(fit.history) for fit in fits)
            model = self.estimator(one, fits).model_
            measured = dict(
                zip(("nll", "accuracy"), self._valid(one.task).measure(model), strict=True)
            )
        result |= {name: float(measured[name]) for name in ("nll", "accuracy")}
        return Learned(result, tuple(fits), pruned)

    def _valid(self, task: int) -> Validation:
        """Measures models on a task's validation sets, which stay on the device."""
        if task not in self._validations:
            self._validations[task] = Validation([self._tasks[task].valid])
        return self._validations[task]


class _Pruner:
    """Asks Optuna every few epochs which trials to stop; an ensemble goes by its first member."""

    def __init__(self, group: Sequence[Learner], measure: str):
        self._group, self._measure = group, measure
        self._trial_of = [n for n, one in enumerate(group) for _ in _network(one).members()]
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
        assert one.claim is not None
        if _network(one).training_options.stop_on != self._measure:
            return False  # it is tuned itself: losses do not compare
        return one.claim.hopeless(epoch + 1, -loss if self._measure == "accuracy" else loss)


def _network(one: Learner) -> TrainedEstimator:
    assert isinstance(one.estimator, TrainedEstimator)
    return one.estimator


def _members(one: Learner, schema: Schema) -> list[Member]:
    """What a learner trains: every member with its own recipe, since others may have another."""
    estimator = _network(one)
    return [
        replace(member, blueprint=member.recipe(estimator.blueprint))
        for member in estimator.members_on(schema, one.task)
    ]


def _by_sizes(learners: Sequence[Learner]) -> list[list[Learner]]:
    """Those whose models have the same sizes: each group is one population."""
    groups: dict[Sizes, list[Learner]] = defaultdict(list)
    for one in learners:
        groups[_network(one).sizes()].append(one)
    return list(groups.values())


# Estimators that do not train by gradients


class Fitted(NamedTuple):
    """A fitted estimator, and what its fit warned of: kinds and texts."""

    estimator: Estimator
    warned: tuple[tuple[type[Warning], str], ...]


class FittingJob(NamedTuple):
    """An estimator to fit to the training and validation sets of a task."""

    parts: Shared
    task: int
    estimator: Estimator


class SeparateTrials:
    """Fits the trials of a batch one by one, where the executor says."""

    def __init__(
        self,
        model: Estimator,
        parts: Sequence[tuple[Choices, Choices]],
        tuning: Tuning,
        executor: Executor | None = None,
    ):
        if isinstance(model, (BoostedLogit, LambdaMART)):
            lightgbm()  # without it every trial would fail, and the study would keep that
        self.batch = min(tuning.batch or 1, tuning.trials)
        self._executor = executor or SerialExecutor()
        if executor is not None:
            parts = [(train.in_memory(), valid.in_memory()) for train, valid in parts]
        self._parts = self._executor.put(list(parts))

    def learn(
        self, learners: Sequence[Learner], on_ended: OnEnded
    ) -> Iterator[tuple[Learner, Learned]]:
        """What becomes of each learner, as soon as it is fitted."""

        def job(number: int) -> FittingJob:
            return FittingJob(self._parts, learners[number].task, learners[number].estimator)

        for number, learned in self._executor.map_unordered(_learned, len(learners), job):
            yield learners[number], learned
            on_ended(0)

    def estimator(self, one: Learner, model: Fitted) -> Estimator:
        """The fitted estimator of a learner; only now is it said what its fit warned of."""
        for kind, text in model.warned:
            warnings.warn(text, kind, stacklevel=5)
        return model.estimator


def _learned(job: FittingJob, send: Send) -> Learned:
    train, valid = job.parts.get()[job.task]
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            estimator = job.estimator.fit(train, valid, progress=False)
            measured = estimator.evaluate(valid)
        except InputError as error:
            return Learned({"failed": str(error)}, None)
    if getattr(estimator, "interrupted_", False):
        raise KeyboardInterrupt
    result: dict[str, Any] = {"nll": float(measured.nll), "accuracy": float(measured.top1)}
    if hasattr(estimator, "best_round_"):
        result["best_round"] = int(estimator.best_round_)
    if not math.isfinite(result["nll"]):
        return Learned({"failed": "its validation NLL is not a finite number"}, None)
    warned = dict.fromkeys((one.category, str(one.message)) for one in raised)
    return Learned(result, Fitted(estimator, tuple(warned)))

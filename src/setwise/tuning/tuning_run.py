"""The studies of several tasks at once: claim trials, let them learn, store what they reached.

Trials become fitted models in two ways: as one population, if they train by gradients
(:class:`PopulationTrials`), or by one fit each (:class:`SeparateTrials`).

A database stores trials one by one, for workers that share them. A checkpoint is a file with all
trials of a batch, or none. A killed search continues from its last whole batch, with the best
models so far, and ends as if it had not been killed: the rounding of a trial may depend on those
that train with it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from setwise import _tensorfile
from setwise._arguments import plain
from setwise._errors import InputError
from setwise._executor import Executor
from setwise._tensorfile import named_arrays, with_arrays
from setwise.choices import Choices, Schema
from setwise.estimators import Estimator, TrainedEstimator
from setwise.estimators.base import trainable
from setwise.estimators.scikit_learn import unfitted
from setwise.models import Model
from setwise.training import Fit, Task
from setwise.training.checkpoint import fingerprint
from setwise.tuning.options import OnTrials, Tuning
from setwise.tuning.space import check_space, with_arguments
from setwise.tuning.storage import Storage, heartbeat
from setwise.tuning.study import Study
from setwise.tuning.trials import Learned, Learner, PopulationTrials, SeparateTrials

SCORED = "as returned"  # part of a study's name: studies that scored single members are others


class TuningRun:
    """Runs the studies of all tasks, and keeps the best models of this process."""

    def __init__(
        self,
        model: Estimator,
        parts: Sequence[tuple[Choices, Choices]],
        seeds: Sequence[int],
        tuning: Tuning,
        checkpoint: Path | None = None,
        executor: Executor | None = None,
    ):
        self._space = tuning.space_of(model)
        check_space(self._space, model)
        self.model, self.seeds, self.tuning = model, list(seeds), tuning
        self.measure = measure_of(model)
        learned = [Schema.learn(trainable(train), worst=True) for train, _ in parts]
        tasks = [
            Task(train.encoded(), schema.encode(trainable(valid), worst=True))
            for (schema, train), (_, valid) in zip(learned, parts, strict=True)
        ]
        self._trials: PopulationTrials | SeparateTrials
        if isinstance(model, TrainedEstimator):
            schemas = [schema for schema, _ in learned]
            self._trials = PopulationTrials(
                tasks, schemas, self.measure, tuning, "seed" in self._space, executor
            )
        else:
            self._trials = SeparateTrials(model, parts, tuning, executor)
        self.storage = Storage(tuning.storage)
        maximise = self.measure == "accuracy"
        with self.storage.faults():
            self.studies = [
                Study(self.storage, self._name(task, seed), self._space, maximise)
                for task, seed in zip(tasks, self.seeds, strict=True)
            ]
        # By task, the best trial of this process, or of earlier ones, from the checkpoint.
        self._best: dict[int, BestTrial] = {}
        self._checkpoint = checkpoint
        if checkpoint is not None:
            self._best = resumed(checkpoint, self.studies, self._skeletons)

    def claim(self) -> list[Learner]:
        """The next batch of every study."""
        tuning, most = self.tuning, self._trials.batch
        return [
            Learner(task, self._with(task, claim.values), claim)
            for task, study in enumerate(self.studies)
            for claim in study.claim(most, tuning.trials, tuning.seed + task, tuning.pruning)
        ]

    def run(self, claimed: Sequence[Learner], on_trials: OnTrials | None) -> None:
        """Train a batch and store the results; trials that do not end are given back.

        A combination of values that the estimator refuses is a trial that failed.
        """
        open_claims = {one.claim.trial: one for one in claimed if one.claim is not None}
        ended, total = self._ended(), self.tuning.trials * len(self.studies)

        def done(one: Learner, learned: Learned) -> None:
            nonlocal ended
            self._finish(one, learned)
            assert one.claim is not None
            del open_claims[one.claim.trial]
            ended += 1

        def on_ended(more: int) -> None:
            if on_trials is not None:
                on_trials(ended + more, total)

        try:
            with heartbeat(self.storage.base, frozenset(open_claims)):
                sound = []
                for one in claimed:
                    try:
                        one.estimator.check_arguments()
                        sound.append(one)
                    except InputError as error:
                        done(one, Learned({"failed": str(error)}, None))
                for one, learned in self._trials.learn(sound, on_ended):
                    done(one, learned)
        finally:
            for one in open_claims.values():
                assert one.claim is not None
                self.studies[one.task].give_back(one.claim)
        if self._checkpoint is not None:
            # Only networks are kept in it: other models are fitted again.
            kept = self._best if isinstance(self._trials, PopulationTrials) else {}
            write_checkpoint(self._checkpoint, self.studies, kept)

    def finished(self) -> bool:
        """Whether every study has its trials, wherever they ran; some may have more."""
        return all(len(study.finished()) >= self.tuning.trials for study in self.studies)

    def estimators(self) -> list[Estimator]:
        """For every task, the estimator of its best trial, fitted.

        Models of this process, and those in a checkpoint, are at hand; others are fitted again.
        """
        found: dict[int, Estimator] = {}
        missing: list[Learner] = []
        for task, study in enumerate(self.studies):
            best = study.best()
            one = Learner(task, self._with(task, best.params))
            known = self._best.get(task)
            if known is not None and known.trial == best.number:
                found[task] = self._trials.estimator(one, known.model)
            else:
                missing.append(one)
        for one, learned in self._trials.learn(missing, lambda more: None):
            if learned.failed is not None:
                raise InputError(f"the best trial cannot be fitted again: {learned.failed}")
            found[one.task] = self._trials.estimator(one, learned.model)
        return [found[task] for task in range(len(self.studies))]

    def _with(self, task: int, values: Mapping[str, Any]) -> Estimator:
        """The estimator of a task with these values; its seed is the task's, unless it is tuned."""
        fresh = unfitted(self.model)
        if "seed" in fresh.get_params(deep=False):
            fresh.set_params(seed=self.seeds[task])
        return with_arguments(fresh, values)

    def _finish(self, one: Learner, learned: Learned) -> None:
        """Store the result of a trial; the model of the best one is kept.

        A trial without a model counts, with the worst value there is, but is never the best.
        """
        assert one.claim is not None
        study, maximise = self.studies[one.task], self.measure == "accuracy"
        if learned.failed is not None:
            worst = 0.0 if maximise else math.inf
            study.finish(one.claim, worst, learned.result, learned.pruned)
            return
        value = learned.result[self.measure]
        study.finish(one.claim, value, learned.result, learned.pruned)
        best = self._best.get(one.task)
        sign = -1 if maximise else 1
        if not learned.pruned and (best is None or sign * value < sign * best.value):
            self._best[one.task] = BestTrial(study.number(one.claim), value, learned.model)

    def _skeletons(self, task: int, trial: int) -> list[Model]:
        """The models of a trial, without their weights."""
        assert isinstance(self._trials, PopulationTrials)
        values = self.studies[task].finished()[trial].params
        return self._trials.skeletons(Learner(task, self._with(task, values)))

    def _ended(self) -> int:
        return sum(len(study.finished()) for study in self.studies)

    def _name(self, task: Task, seed: int) -> str:
        """The same for the same model, space, data and seeds, so that a study continues."""
        model = self.model
        arguments = model.get_params(deep=False)
        if isinstance(model, TrainedEstimator):
            arguments |= {"training": asdict(model.training_options)}
        space = {name: str(values) for name, values in self._space.items()}
        tuning = [self.tuning.seed, self.tuning.pruning, SCORED]
        mark = fingerprint(None, task, [plain(arguments), space, seed, tuning])
        return f"{type(model).__name__}-{mark[:16]}"


def measure_of(model: Estimator) -> str:
    """The validation measure that trials are compared by: "nll" or "accuracy"."""
    return model.training_options.stop_on if isinstance(model, TrainedEstimator) else "nll"


KIND = "search"


class BestTrial(NamedTuple):
    """The best trial of one task so far: its number, its value and its model."""

    trial: int
    value: float
    model: Any
    """As in :class:`Learned`; in a checkpoint, the fits of a network's members."""


def write_checkpoint(path: Path, studies: Sequence[Study], best: Mapping[int, BestTrial]) -> None:
    """Write the finished trials of every study, and the best fits by task."""
    arrays = {
        f"{task} {number} {name}": array
        for task, one in best.items()
        for number, fit in enumerate(one.model)
        for name, array in named_arrays(jax.tree.map(_on_device, fit.model)).items()
    }
    meta = {
        "studies": {study.name: study.export_trials() for study in studies},
        "kept": {
            str(task): {
                "trial": one.trial, "value": one.value,
                "fits": [
                    {"history": list(fit.history), "best_epoch": fit.best_epoch}
                    for fit in one.model
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
    return jax.device_put(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf

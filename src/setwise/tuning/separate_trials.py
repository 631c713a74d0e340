"""Trials of estimators that do not train by gradients: one ``fit(train, validation)`` each."""

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from setwise._errors import InputError
from setwise._executor import Executor, Send, SerialExecutor, Shared
from setwise.choices import Choices
from setwise.estimators import BoostedLogit, Estimator, LambdaMART
from setwise.training.boosting import lightgbm
from setwise.tuning.options import Tuning
from setwise.tuning.population_trials import Learned, Learner, OnEnded


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

"""Tune: ask for a batch of trials, train it, store the results; and repeat."""

import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from setwise._arguments import instance
from setwise._errors import InputError
from setwise._executor import Executor
from setwise._page import notebook_html
from setwise.choices import Choices
from setwise.estimators import Estimator, named
from setwise.estimators.base import comparable, held_out, trainable
from setwise.tuning.options import OnTrials, Tuning

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

SECONDS_BETWEEN_LOOKS = 1.0
BEST_SHOWN = 10  # trials in a notebook


@dataclass(frozen=True)
class Trial:
    """One setting: its values, the validation measure it reached, and how long it trained.

    ``result`` has the NLL and the accuracy on the validation part, and the epochs of a network or
    the best round of trees.

    ``value`` is that of the model as it would be returned: of an ensemble, not of a member. A
    pruned trial has the value of its first member until then.
    """

    number: int
    values: dict[str, Any]
    value: float
    pruned: bool
    result: dict[str, Any]

    @property
    def failed(self) -> str | None:
        """Why the trial has no model: arguments that do not go together, or a failed fit."""
        return self.result.get("failed")


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best setting of a study, the estimator trained with it, and all trials.

    ``value`` is the estimator's own validation measure, of its ensemble where it is one: the NLL
    or, for networks that stop on it, the accuracy.
    """

    values: dict[str, Any]
    value: float
    measure: str
    estimator: Estimator
    trials: tuple[Trial, ...]
    study: str

    def best_so_far(self) -> list[float]:
        """The best value after each trial."""
        values = [math.nan if trial.pruned else trial.value for trial in self.trials]
        best = np.fmax if self.measure == "accuracy" else np.fmin
        return best.accumulate(values).tolist()

    def to_frame(self) -> Any:
        """A Polars frame of the trials in their order.

        Columns: trial, one per option of the space, the validation measure ("nll" or "accuracy"),
        and pruned.
        """
        import polars as pl

        options = {name: [one.values[name] for one in self.trials] for name in self.values}
        columns = {
            "trial": [one.number for one in self.trials], **options,
            self.measure: [one.value for one in self.trials],
            "pruned": [one.pruned for one in self.trials],
        }  # fmt: skip
        return pl.DataFrame(columns, strict=False)

    def _repr_html_(self) -> str:
        sign = -1 if self.measure == "accuracy" else 1
        best = sorted(self.trials, key=lambda one: (one.pruned, sign * one.value))
        rows = [
            [str(one.number), *(_text(one.values[name]) for name in self.values),
             "pruned" if one.pruned else f"{one.value:.4f}"]
            for one in best
        ]  # fmt: skip
        return notebook_html(
            ["trial", *self.values, f"validation {self.measure}"],
            rows[:BEST_SHOWN],
            title=f"{type(self.estimator).__name__}: the best of {len(self.trials)} trials has "
            f"a validation {self.measure} of {self.value:.4f}",
            note="" if len(rows) <= BEST_SHOWN else f"The {BEST_SHOWN} best; to_frame() has all.",
        )


def tune(
    model: str | Estimator,
    choices: Choices,
    validation: Choices | None = None,
    *,
    tuning: Tuning = Tuning(),  # noqa: B008 (frozen)
    on_trials: OnTrials | None = None,
) -> Tuned:
    """Find the setting with the best validation measure, and the model trained with it.

    Args:
        model: an estimator with arguments to vary, or its name in the zoo. What the space does
            not name stays as it is here. Networks, which train by gradients, train several trials
            at once; ``training.stop_on`` says which measure counts; every trial trains all members
            of an ensemble: to tune faster, take ``ensemble=1``. Other estimators are fitted once
            per trial, and the validation NLL counts.
        choices: the training sets.
        validation: sets to stop on and to compare trials by; by default a fifth of the training
            sets. Test sets have no place here: keep them for :meth:`Estimator.evaluate`.
        tuning: how many trials, of which arguments, stored where.
        on_trials: called whenever trials finish.

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.generate("mnl", sets=300).choices)
    >>> small = sw.SDW(dimension=2, hidden=4, training=sw.Training(epochs=2))
    >>> tuned = tune(small, train, valid, tuning=sw.Tuning(trials=3, storage=None))
    >>> sorted(tuned.values), len(tuned.trials)
    (['decay', 'dropout', 'learning_rate', 'weight_decay'], 3)
    """
    estimator = tunable(model)
    estimator.check_arguments()
    instance(Tuning, "write tuning=setwise.Tuning(trials=20)")("tuning", tuning)
    seed = getattr(estimator, "seed", 0)
    if validation is None:
        choices, validation = held_out(trainable(choices), seed)
    else:
        comparable(trainable(validation, "validation"), trainable(choices))
    return tune_tasks(estimator, [(choices, validation)], [seed], tuning, on_trials)[0]


def tunable(model: str | Estimator) -> Estimator:
    """The estimator, if there is anything to tune in it."""
    estimator = named(model) if isinstance(model, str) else model
    instance(Estimator, "give one, such as setwise.SDA(), or its name")("model", estimator)
    if not estimator.get_params(deep=False):
        raise InputError(f"{type(estimator).__name__} has no arguments, so it has nothing to tune")
    return estimator


def tune_tasks(
    model: Estimator,
    parts: Sequence[tuple[Choices, Choices]],
    seeds: Sequence[int],
    tuning: Tuning,
    on_trials: OnTrials | None = None,
    checkpoint: Path | None = None,
    executor: Executor | None = None,
) -> list[Tuned]:
    """:func:`tune` on several pairs of training and validation sets at once, each with a seed.

    Each pair has a study of its own; the trials of networks train as one population. A file
    ``checkpoint``, in place of a storage, keeps whole batches: a killed search continues to the
    identical end. The executor, by default this process, trains the chunks of a population, or
    fits the trials of other estimators.
    """
    from setwise.tuning.tuning_run import TuningRun  # slow to import: it needs Optuna

    run = TuningRun(model, parts, seeds, tuning, checkpoint, executor)
    with closing(run.storage), run.storage.faults():
        while not run.finished():
            claims = run.claim()
            if claims:
                run.run(claims, on_trials)
            else:  # other processes run the last trials
                time.sleep(SECONDS_BETWEEN_LOOKS)
        estimators = run.estimators()
        return [
            Tuned(
                values=dict(study.best().params),
                value=float(study.best().values[0]),
                measure=run.measure,
                estimator=estimator,
                trials=tuple(_trial(trial) for trial in study.finished()),
                study=study.name,
            )
            for study, estimator in zip(run.studies, estimators, strict=True)
        ]


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _trial(trial: "FrozenTrial") -> Trial:
    return Trial(
        number=trial.number,
        values=dict(trial.params),
        value=float(trial.values[0]),
        pruned=trial.state.name == "PRUNED",
        result=trial.user_attrs.get("result", {}),
    )

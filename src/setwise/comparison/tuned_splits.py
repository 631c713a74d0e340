"""Tuned models on several splits: every split has a study of its own and never sees its test part.

The trials of all splits train together, as one population.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from setwise import _arguments
from setwise._errors import InputError
from setwise._executor import Executor
from setwise.choices import Choices, split
from setwise.estimators import TrainedEstimator
from setwise.estimators.base import trainable
from setwise.metrics import Metrics
from setwise.tuning import OnTrials, Tuned, Tuning, tunable, tune_tasks


@dataclass(frozen=True, eq=False)
class TunedSplit:
    """The outcome of one split: what tuning found, and how it does on the test part."""

    split: int
    tuned: Tuned
    test: Metrics
    seconds: float


def tune_splits(
    model: str | TrainedEstimator,
    choices: Choices,
    *,
    splits: int = 10,
    seed: int = 0,
    sizes: tuple[float, float, float] = (0.5, 0.25, 0.25),
    split_by: Literal["set", "group", "time"] = "set",
    tuning: Tuning = Tuning(),  # noqa: B008 (frozen)
    on_trials: OnTrials | None = None,
    executor: Executor | None = None,
) -> list[TunedSplit]:
    """Tune a model on random splits, and measure the best setting of each on its test part.

    Args:
        model: an estimator that trains by gradients, or its name in the zoo.
        choices: the data.
        splits: how many random splits.
        seed: split i uses seed + i, and so does its model.
        sizes: shares of training, validation and test sets.
        split_by: what stays together in a split, as ``by`` of :func:`setwise.split`.
        tuning: how many trials a split, of what, kept where.
        on_trials: called whenever trials finish.
        executor: where to train the trials; by default in this process. A job is a chunk of a
            population: on CPUs eight trials of a split.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=200).choices
    >>> small = sw.SDA(dimension=2, hidden=4, training=sw.Training(epochs=2))
    >>> done = tune_splits(small, choices, splits=2, tuning=sw.Tuning(trials=2, storage=None))
    >>> [len(one.tuned.trials) for one in done]
    [2, 2]
    """
    check_splits(splits, split_by, seed, sizes)
    trainable(choices)
    parts = [split(choices, sizes, seed + number, split_by) for number in range(splits)]
    return tune_parts(tunable(model), parts, seed, tuning, on_trials, executor=executor)


def check_splits(splits: int, split_by: str, seed: int, sizes: Sequence[float]) -> None:
    """Refuse a number of splits, their seed or their parts, that cannot be."""
    _arguments.each(_arguments.number(above=0), least=3)("sizes", sizes)
    if len(sizes) != 3:
        raise InputError(f"sizes={sizes} must be three: of training, validation and test sets")
    _arguments.whole()("splits", splits)
    _arguments.one_of("set", "group", "time")("split_by", split_by)
    _arguments.seed("seed", seed)
    if split_by == "time" and splits > 1:
        raise InputError("there is only one split by time; use splits=1")


def tune_parts(
    model: TrainedEstimator,
    parts: Sequence[tuple[Choices, ...]],
    seed: int,
    tuning: Tuning,
    on_trials: OnTrials | None = None,
    checkpoint: Path | None = None,
    executor: Executor | None = None,
) -> list[TunedSplit]:
    """:func:`tune_splits` for parts that are at hand: training, validation and test sets.

    A file ``checkpoint``, in place of a storage, keeps whole rounds of trials.
    """
    begin = time.perf_counter()
    seeds = [seed + number for number in range(len(parts))]
    pairs = [(part[0], part[1]) for part in parts]
    found = tune_tasks(model, pairs, seeds, tuning, on_trials, checkpoint, executor)
    seconds = (time.perf_counter() - begin) / len(parts)
    return [
        TunedSplit(number, tuned, tuned.estimator.evaluate(part[2]), seconds)
        for number, (tuned, part) in enumerate(zip(found, parts, strict=True))
    ]

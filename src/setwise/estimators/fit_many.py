"""One estimator on several parts of data, trained as one population."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from sklearn.base import clone

from setwise._arguments import each, instance, seed
from setwise._errors import InputError
from setwise.choices import Choices, Schema
from setwise.estimators.base import comparable, trainable
from setwise.estimators.trained import TrainedEstimator
from setwise.training import Task, check_fits, fit_population


def fit_together(
    estimator: TrainedEstimator | Sequence[TrainedEstimator],
    parts: Sequence[tuple[Choices, Choices]],
    seeds: Sequence[int],
) -> list[TrainedEstimator]:
    """A fitted copy of the estimator for every pair of training and validation sets.

    Each is what ``estimator.set_params(seed=seed).fit(train, validation)`` gives, up to rounding;
    all models of all pairs train as one program, which an accelerator does in little more time than
    one.

    Args:
        estimator: one that trains by gradients, such as ``setwise.SDA()``, or one for each pair,
            which may train in ways of their own; they stay as they are.
        parts: training and validation sets, in memory.
        seeds: one per pair.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=200).choices
    >>> parts = [sw.split(choices, seed=seed)[:2] for seed in (0, 1)]
    >>> small = sw.SDE(2, hidden=4, training=sw.Training(epochs=2))
    >>> [one.seed for one in fit_together(small, parts, seeds=(0, 1))]
    [0, 1]
    """
    each(_pair)("parts", parts)
    each(seed)("seeds", seeds)
    each_with = estimator if isinstance(estimator, Sequence) else [estimator] * len(parts)
    remedy = "give one that trains by gradients, such as setwise.SDA()"
    each(instance(TrainedEstimator, remedy))("estimator", each_with)
    for one in each_with:
        one.check_arguments()
    if not len(parts) == len(seeds) == len(each_with) or not parts:
        raise InputError(
            f"there are {len(parts)} pairs of sets, {len(seeds)} seeds and {len(each_with)} "
            "estimators; give the same number of each, at least one"
        )
    blueprint, sizes = each_with[0].blueprint, each_with[0].sizes()
    if any((one.blueprint, one.sizes()) != (blueprint, sizes) for one in each_with):
        raise InputError("the estimators are of different kinds or sizes; fit each kind by itself")
    fitted = [clone(one).set_params(seed=seed) for one, seed in zip(each_with, seeds, strict=True)]
    learned = [Schema.learn(trainable(train)) for train, _ in parts]
    valid = [comparable(trainable(valid, "validation"), train) for train, valid in parts]
    tasks = [
        Task(seen.encoded(), schema.encode(sets))
        for (schema, seen), sets in zip(learned, valid, strict=True)
    ]
    members = [member for task, one in enumerate(fitted) for member in one.members(task)]
    fits = fit_population(blueprint, sizes, tasks, members)
    check_fits(members, fits, name_tasks=True)
    made = iter(fits)
    for one, (schema, _), task in zip(fitted, learned, tasks, strict=True):
        one.learned(schema, list(islice(made, one.ensemble)), task.valid)
    return fitted


def _pair(name: str, value: Any) -> None:
    """Training and validation sets."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InputError(
            f"{name} must be a pair of training and validation sets, such as "
            "setwise.split(choices, (0.8, 0.2))"
        )

"""The scikit-learn face of the models, and the one place where a name becomes an estimator."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from setwise._errors import InputError
from setwise.artifact import Artifact
from setwise.estimators.base import Estimator
from setwise.estimators.logit import MNL, Summary
from setwise.estimators.networks import SDA, SDE, SDW, TrainedEstimator

CLASSES: Mapping[str, type[Estimator]] = {cls.__name__: cls for cls in (MNL, SDW, SDE, SDA)}

NAMED: Mapping[str, Callable[[], Estimator]] = {
    "mnl": MNL,
    "sdw": SDW,
    "sde": SDE,
    "sda": SDA,
    "sda_difference": lambda: SDA(comparison="difference"),
}
"""Estimators by their name in the zoo, with default arguments."""


def named(name: str) -> Estimator:
    """The estimator of this name, with default arguments.

    >>> named("sda")
    SDA()
    """
    if name not in NAMED:
        raise InputError(f"there is no model '{name}'; there are: {', '.join(NAMED)}")
    return NAMED[name]()


def configured(
    name: str, seed: int, dimension: int | None, training: Mapping[str, Any]
) -> Estimator:
    """The estimator of this name with some arguments changed; None leaves a default.

    >>> configured("sda", seed=1, dimension=8, training={"epochs": 5}).training.epochs
    5
    """
    estimator = named(name)
    known = estimator.get_params(deep=False)
    changed = {key: value for key, value in training.items() if value is not None}
    if "training" not in known:
        given = list(changed) + (["dimension"] if dimension is not None else [])
        if given:
            raise InputError(f"the model '{name}' is solved exactly and has no {', '.join(given)}")
        return estimator
    arguments = {"seed": seed, "training": replace(known["training"], **changed)}
    if dimension is not None:
        arguments["dimension"] = dimension
    return estimator.set_params(**arguments)


def load(path: str | Path) -> Estimator:
    """Read a model file that :meth:`Estimator.save` wrote."""
    artifact = Artifact.read(path)
    if artifact.estimator not in CLASSES:
        raise InputError(
            f"{path} holds a model '{artifact.estimator}', which this setwise does not know; "
            "upgrade it"
        )
    return CLASSES[artifact.estimator].from_artifact(artifact)


__all__ = [
    "CLASSES",
    "MNL",
    "NAMED",
    "SDA",
    "SDE",
    "SDW",
    "Estimator",
    "Summary",
    "TrainedEstimator",
    "configured",
    "load",
    "named",
]

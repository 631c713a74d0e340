"""The scikit-learn face of the models, and the one place where a name becomes an estimator."""

from collections.abc import Mapping
from pathlib import Path

from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._tensorfile import made_elsewhere
from setwise.estimators.base import Estimator
from setwise.estimators.basic import RandomChoice, SingleFeature
from setwise.estimators.boosting import LambdaMART
from setwise.estimators.catalogue import CATALOGUE, Entry, configured, everyone, named, zoo
from setwise.estimators.fit_many import fit_together
from setwise.estimators.loading import check_arrays, check_model
from setwise.estimators.logit import MNL, LinearContextLogit, WithinSetMNL
from setwise.estimators.mixed import MixedMNL
from setwise.estimators.nested import NestedLogit
from setwise.estimators.networks import SDA, SDE, SDW, ChoiceModel
from setwise.estimators.rankers import AdaRank, SVMRank
from setwise.estimators.reference_mnl import mnl_beside
from setwise.estimators.streaming import predict_file
from setwise.estimators.summary import Summary
from setwise.estimators.trained import TrainedEstimator
from setwise.scoring.model_file import Artifact

CLASSES: Mapping[str, type[Estimator]] = {
    cls.__name__: cls
    for cls in (
        MNL, SDW, SDE, SDA, ChoiceModel, LinearContextLogit, WithinSetMNL, NestedLogit, MixedMNL,
        SVMRank, AdaRank, SingleFeature, RandomChoice, LambdaMART,
    )
}  # fmt: skip
"""Estimators by the name that a model file holds."""


def load(path: str | Path) -> Estimator:
    """Read a model file that :meth:`Estimator.save` wrote."""
    check_path("path", path)
    artifact = Artifact.read(path)
    if artifact.estimator not in CLASSES:
        raise InputError(
            f"{path} holds a model '{artifact.estimator}', which this setwise does not know; "
            "upgrade it"
        )
    with made_elsewhere(path, "model"):
        check_arrays(artifact)
        estimator = CLASSES[artifact.estimator].from_artifact(artifact)
        check_model(estimator)
    return estimator


__all__ = [
    "CATALOGUE",
    "CLASSES",
    "MNL",
    "SDA",
    "SDE",
    "SDW",
    "AdaRank",
    "ChoiceModel",
    "Entry",
    "Estimator",
    "LambdaMART",
    "LinearContextLogit",
    "MixedMNL",
    "NestedLogit",
    "RandomChoice",
    "SVMRank",
    "SingleFeature",
    "Summary",
    "TrainedEstimator",
    "WithinSetMNL",
    "configured",
    "everyone",
    "fit_together",
    "load",
    "mnl_beside",
    "named",
    "predict_file",
    "zoo",
]

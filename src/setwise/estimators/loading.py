"""From a model file to an estimator; what the file says is checked before anything is predicted."""

from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._tensorfile import made_elsewhere
from setwise.estimators.auto import Auto
from setwise.estimators.base import Estimator
from setwise.estimators.basic import RandomChoice, SingleFeature
from setwise.estimators.boosting import BoostedLogit, LambdaMART
from setwise.estimators.logit import MNL, LinearContextLogit, WithinSetMNL
from setwise.estimators.maximum_likelihood import Estimated
from setwise.estimators.mixed import MixedMNL
from setwise.estimators.nested import NestedLogit
from setwise.estimators.networks import SDA, SDE, SDW, ChoiceModel
from setwise.estimators.rankers import AdaRank, SVMRank
from setwise.estimators.trained import TrainedEstimator
from setwise.scoring.model_file import Artifact

CLASSES: Mapping[str, type[Estimator]] = {
    cls.__name__: cls
    for cls in (
        MNL, SDW, SDE, SDA, ChoiceModel, LinearContextLogit, WithinSetMNL, NestedLogit, MixedMNL,
        SVMRank, AdaRank, SingleFeature, RandomChoice, LambdaMART, BoostedLogit, Auto,
    )
}  # fmt: skip
"""Estimators by the name that a model file holds."""

MAY_BE_UNKNOWN = "covariance"
"""How the names of arrays begin in which a number that was not identified is NaN."""


def load(path: str | Path) -> Estimator:
    """Read a model file that :meth:`Estimator.save` wrote, as an estimator.

    :func:`setwise.scoring.load_scorer` reads the same file as a scorer, which needs no JAX.
    """
    check_path("path", path)
    artifact = Artifact.read(path)
    if artifact.estimator not in CLASSES:
        raise InputError(
            f"{path} holds a model '{artifact.estimator}', which this setwise does not know; "
            "upgrade setwise"
        )
    with made_elsewhere(path, "model"):
        _check_arrays(artifact)
        estimator = CLASSES[artifact.estimator].from_artifact(artifact)
        _check_model(estimator)
    return estimator


def _check_arrays(artifact: Artifact) -> None:
    """Refuse arrays of weights that are not finite numbers."""
    for name, array in artifact.arrays.items():
        unknown = (
            name.startswith(MAY_BE_UNKNOWN) or name == "trees/threshold"
        )  # which may be infinite
        if array.dtype.kind == "f" and not unknown and not np.isfinite(array).all():
            raise InputError(f"the array '{name}' has values that are not finite numbers")


def _check_model(estimator: Estimator) -> None:
    """Refuse a model whose arrays do not fit together, or do not fit its columns."""
    if isinstance(estimator, Estimated):
        count = len(estimator.parameter_names_)
        shapes = {one.shape for one in estimator.covariances_.values()}
        if shapes != {(count, count)} or estimator.identified_.shape != (count,):
            raise InputError(f"the standard errors are not those of {count} parameters")
    if isinstance(estimator, TrainedEstimator) or not estimator.has_jax_model:
        return  # the arrays of the former were compared with their blueprint
    items = jax.ShapeDtypeStruct((3, estimator.schema_.width), jnp.float32)
    present = jax.ShapeDtypeStruct((3,), jnp.bool_)
    scores = jax.eval_shape(estimator.model_.scores, items, present)
    if (scores.shape, scores.dtype) != ((3,), jnp.float32):
        raise InputError(f"the model gives {scores.dtype} of shape {scores.shape} for 3 items")

"""Whether what a file says makes a model: checked before anything is predicted with it."""

import jax
import jax.numpy as jnp
import numpy as np

from setwise._errors import InputError
from setwise.estimators.base import Estimator
from setwise.estimators.maximum_likelihood import Estimated
from setwise.estimators.trained import TrainedEstimator
from setwise.models import Model
from setwise.scoring.model_file import Artifact

MAY_BE_UNKNOWN = ("covariance",)
"""Arrays in which a number that was not identified is NaN."""


def check_arrays(artifact: Artifact) -> None:
    """Refuse arrays of weights that are not finite numbers."""
    for name, array in artifact.arrays.items():
        unknown = name in MAY_BE_UNKNOWN or name == "trees/threshold"  # which may be infinite
        if array.dtype.kind == "f" and not unknown and not np.isfinite(array).all():
            raise InputError(f"the array '{name}' has values that are not finite numbers")


def check_model(estimator: Estimator) -> None:
    """Refuse a model whose arrays do not fit together, or do not fit its columns."""
    if isinstance(estimator, Estimated):
        count = len(estimator.parameter_names_)
        if estimator.covariance_.shape != (count, count) or estimator.identified_.shape != (count,):
            raise InputError(f"the standard errors are not those of {count} parameters")
    if isinstance(estimator, TrainedEstimator) or not isinstance(estimator.model_, Model):
        return  # the arrays of the former were compared with their blueprint
    items = jax.ShapeDtypeStruct((3, estimator.schema_.width), jnp.float32)
    present = jax.ShapeDtypeStruct((3,), jnp.bool_)
    scores = jax.eval_shape(estimator.model_.scores, items, present)
    if (scores.shape, scores.dtype) != ((3,), jnp.float32):
        raise InputError(f"the model gives {scores.dtype} of shape {scores.shape} for 3 items")

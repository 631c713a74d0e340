"""What estimators with a likelihood and standard errors share: their summary and their file."""

import warnings
from abc import abstractmethod
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from sklearn.exceptions import ConvergenceWarning

from setwise.artifact import Artifact
from setwise.estimators.base import Estimator
from setwise.estimators.summary import Summary
from setwise.models import Model

STATISTICS = ("log_likelihood", "null_log_likelihood", "sets", "iterations", "converged")


class Estimated(Estimator):
    """A model whose parameters maximise the likelihood, each with a standard error.

    Fitted attributes beside those of the class: ``covariance_`` and ``identified_`` (of all
    parameters, in the order of ``parameter_names_``), ``log_likelihood_``,
    ``null_log_likelihood_``, ``iterations_``, ``converged_``, ``sets_``.
    """

    ARRAYS: tuple[str, ...] = ("coef", "covariance", "identified")
    """Fitted attributes, without underscore, from which the model can be made again."""

    covariance_: Float[np.ndarray, "p p"]
    identified_: np.ndarray
    log_likelihood_: float
    null_log_likelihood_: float
    sets_: int

    @property
    @abstractmethod
    def parameter_names_(self) -> list[str]:
        """What each row of the summary and of ``covariance_`` belongs to."""

    @abstractmethod
    def summary(self) -> Summary:
        """Estimates, standard errors, z, p and measures of fit, as a table."""

    @abstractmethod
    def _model(self) -> Model:
        """The model that the fitted attributes describe, on standardised columns."""

    @cached_property
    def model_(self) -> Model:  # type: ignore[override]
        """What predicts; JAX is slow to start, and those who only estimate need not wait."""
        return self._model()

    @property
    def standard_errors_(self) -> Float[np.ndarray, " p"]:
        """From the inverse of the observed information; NaN where not identified."""
        variances = np.diag(self.covariance_)
        return np.sqrt(np.where(variances >= 0, variances, np.nan))

    def _to_artifact(self) -> Artifact:
        fitted = {name: getattr(self, f"{name}_") for name in STATISTICS}
        arrays = {name: getattr(self, f"{name}_") for name in self.ARRAYS}
        params = self.get_params(deep=False)
        return Artifact(type(self).__name__, params, self.schema_, fitted, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "Estimated":
        estimator = cls(**artifact.params)
        estimator.schema_ = artifact.schema
        for name in cls.ARRAYS:
            setattr(estimator, f"{name}_", artifact.arrays[name])
        for name in STATISTICS:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        return estimator


def warn_of_separation(names: list[str], separated: Bool[np.ndarray, " d"]) -> None:
    """Say which columns have no finite coefficient; call it from ``fit``."""
    if not separated.any():
        return
    quoted = [f"'{name}'" for name, one in zip(names, separated, strict=True) if one]
    shown = ", ".join(quoted[:5]) + (f" and {len(quoted) - 5} more" if len(quoted) > 5 else "")
    warnings.warn(
        f"the likelihood has no maximum: {shown} (together with others) tells "
        "the chosen items from the rest without error, so its coefficient grows without "
        "bound and its standard error means nothing; check it for a leak, or drop it",
        ConvergenceWarning,
        stacklevel=4,
    )

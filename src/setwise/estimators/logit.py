"""The multinomial logit, solved exactly, with the statistics that an economist expects."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning

from setwise._trees import with_arrays
from setwise.artifact import Artifact
from setwise.choices import Choices, Schema
from setwise.estimators.base import Estimator, trainable
from setwise.models import ZOO, Aggregation, Sizes
from setwise.training import maximise

ARRAYS = ("coef", "covariance", "identified")
STATISTICS = ("log_likelihood", "null_log_likelihood", "sets", "iterations", "converged")


class MNL(Estimator):
    """Multinomial logit (McFadden 1973): g(x, s) = x . b, by Newton to the exact optimum.

    Coefficients are in the table's units (of the transformed column, where a feature has a
    transform). A column that is a combination of others within every set, such as one of a full
    set of dummies, has no coefficient of its own: the last such column is the reference, with
    coefficient 0. Context features are equal for all items of a set, cancel, and are not used.

    Fitted attributes: ``coef_``, ``standard_errors_``, ``covariance_``, ``identified_``,
    ``feature_names_``, ``log_likelihood_``, ``null_log_likelihood_``, ``iterations_``,
    ``converged_``, ``sets_``.

    >>> import setwise as sw
    >>> model = MNL().fit(sw.datasets.load("modecanada"))
    >>> dict(zip(model.feature_names_, model.coef_.round(3).tolist()))["cost"]
    -0.051
    """

    def fit(
        self,
        choices: Choices,
        validation: Choices | None = None,
        *,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
    ) -> "MNL":
        """Solve; validation, checkpoint and progress are for models that train in epochs."""
        choices = trainable(choices)
        schema = Schema.fit(choices)
        optimum = maximise(schema.encode(choices, np.float64))
        if optimum.separated.any():
            names = [f"'{name}'" for name in np.array(schema.item_names)[optimum.separated]]
            warnings.warn(
                f"the likelihood has no maximum: {', '.join(names)} (together with others) tells "
                "the chosen items from the rest without error, so its coefficient grows without "
                "bound and its standard error means nothing; check it for a leak, or drop it",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.schema_ = schema
        scale = schema.item_scales
        self.coef_ = optimum.coefficients / scale
        self.covariance_ = optimum.covariance / np.outer(scale, scale)
        self.identified_ = optimum.identified
        for name in STATISTICS:
            setattr(self, f"{name}_", getattr(optimum, name))
        self.model_ = self._model()
        return self

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient belongs to."""
        return self.schema_.item_names

    @property
    def standard_errors_(self) -> Float[np.ndarray, " d"]:
        """From the inverse of the observed information; NaN where not identified."""
        return np.sqrt(np.diag(self.covariance_))

    def summary(self) -> "Summary":
        """Estimates, standard errors, z, p and measures of fit, as a table."""
        self._check_fitted()
        return Summary(
            tuple(self.feature_names_), self.coef_, self.standard_errors_, self.identified_,
            self.log_likelihood_, self.null_log_likelihood_, self.sets_,
        )  # fmt: skip

    def _model(self) -> Aggregation:
        """The same equation as every other model: f(x) = x . b on standardised columns."""
        theta = np.zeros((self.schema_.width, 1, 1), np.float32)
        theta[: len(self.coef_), 0, 0] = self.coef_ * self.schema_.item_scales
        skeleton = ZOO["mnl"].skeleton(self.schema_.width, Sizes())
        return with_arrays(skeleton, {"F.theta": theta})

    def _to_artifact(self) -> Artifact:
        fitted = {name: getattr(self, f"{name}_") for name in STATISTICS}
        arrays = {name: getattr(self, f"{name}_") for name in ARRAYS}
        return Artifact("MNL", self.get_params(deep=False), self.schema_, fitted, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "MNL":
        estimator = cls()
        estimator.schema_ = artifact.schema
        for name in ARRAYS:
            setattr(estimator, f"{name}_", artifact.arrays[name])
        for name in STATISTICS:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        estimator.model_ = estimator._model()
        return estimator


@dataclass(frozen=True, eq=False)
class Summary:
    """A logit's estimates; ``print`` shows the table, :meth:`to_json` gives plain values."""

    names: tuple[str, ...]
    coefficients: Float[np.ndarray, " d"]
    standard_errors: Float[np.ndarray, " d"]
    identified: np.ndarray
    log_likelihood: float
    null_log_likelihood: float
    sets: int

    @property
    def z(self) -> Float[np.ndarray, " d"]:
        """Estimate over standard error."""
        return self.coefficients / self.standard_errors

    @property
    def p(self) -> Float[np.ndarray, " d"]:
        """Two-sided p-values of z under the normal distribution."""
        return 2 * ndtr(-np.abs(self.z))

    @property
    def parameters(self) -> int:
        """Coefficients that were estimated."""
        return int(self.identified.sum())

    @property
    def rho2(self) -> float:
        """McFadden's 1 - logL / logL(equal chances)."""
        return 1 - self.log_likelihood / self.null_log_likelihood

    @property
    def aic(self) -> float:
        """2 k - 2 logL."""
        return 2 * self.parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """k log(sets) - 2 logL."""
        return self.parameters * float(np.log(self.sets)) - 2 * self.log_likelihood

    def to_json(self) -> dict[str, Any]:
        """Plain values: one entry a coefficient, and the measures of fit."""
        rows = zip(self.names, self.coefficients, self.standard_errors, self.z, self.p, strict=True)
        fields = ("name", "coefficient", "standard_error", "z", "p")
        whole = ("sets", "parameters", "log_likelihood", "null_log_likelihood")
        return {
            "coefficients": [
                {
                    f: v if isinstance(v, str) else _finite(v)
                    for f, v in zip(fields, row, strict=True)
                }
                for row in rows
            ],
            **{name: getattr(self, name) for name in (*whole, "rho2", "aic", "bic")},
        }

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "feature"))
        lines = [f"{'feature':<{width}}  {'estimate':>12} {'std. error':>12} {'z':>9} {'p':>9}"]
        for i, name in enumerate(self.names):
            if self.identified[i]:
                numbers = f"{self.coefficients[i]:>12.6g} {self.standard_errors[i]:>12.6g} "
                lines.append(f"{name:<{width}}  {numbers}{self.z[i]:>9.2f} {self.p[i]:>9.3g}")
            else:
                lines.append(f"{name:<{width}}  {0:>12} (reference: not identified by itself)")
        lines.append(
            f"log-likelihood {self.log_likelihood:.3f} (equal chances "
            f"{self.null_log_likelihood:.3f}), rho² {self.rho2:.4f}, AIC {self.aic:.1f}, "
            f"BIC {self.bic:.1f}, {self.sets:,} sets"
        )
        return "\n".join(lines)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

"""What estimators with a likelihood and standard errors share: their summary and their file."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from sklearn.exceptions import ConvergenceWarning

from setwise import _segments
from setwise._arguments import instance, number, optional
from setwise._errors import DataWarning, InputError
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.doctor.derived import Derived
from setwise.estimators.base import FEWEST_SETS, Estimator, warn_if_perfect
from setwise.estimators.summary import Summary
from setwise.models import Model
from setwise.scoring.model_file import Artifact
from setwise.training.separation import Separation

FIXED = "fixed: given, not estimated"
is_utility = optional(instance((str, Utility), "write a formula such as 'price + log(time)'"))
"""Check an argument that must be a formula, a :class:`setwise.Utility` or None."""

CERTAIN = 1e-3  # of log L at equal chances
SINGLE = 2.0**-24  # a number's rounding error in single precision, as a share of it
BLURRED = 0.005  # of a column's standard deviation within sets
STATISTICS = ("log_likelihood", "null_log_likelihood", "sets", "iterations", "converged")


class Estimated(Estimator):
    """A model whose parameters maximise the likelihood, each with a standard error.

    Fitted attributes beside those of the class: ``covariance_`` and ``identified_`` (of all
    parameters, in the order of ``parameter_names_``), ``log_likelihood_``,
    ``null_log_likelihood_``, ``iterations_``, ``converged_``, ``sets_``, and ``dropped_``: why a
    column has no coefficient of its own, by its name ("constant within sets", "a combination of
    ...", or the reference of a full set of dummies). ``derived_`` lists number columns that are
    products or functions of others in the training data
    (:class:`setwise.doctor.derived.Derived`): :mod:`setwise.consequences` warns of them.
    """

    ARRAYS: tuple[str, ...] = ("coef", "covariance", "identified")
    """Fitted attributes, without underscore, from which the model can be made again."""

    FITTED: ClassVar[Mapping[str, float]] = {}
    """More fitted numbers, without underscore, and what they are in older files; none below 0."""

    covariance_: Float[np.ndarray, "p p"]
    identified_: np.ndarray
    log_likelihood_: float
    null_log_likelihood_: float
    sets_: int
    converged_: bool
    dropped_: dict[str, str]
    derived_: list[Derived]

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
        names = (*STATISTICS, *self.FITTED, "dropped")
        fitted = {name: getattr(self, f"{name}_") for name in names}
        fitted["derived"] = [asdict(one) for one in self.derived_]
        arrays = {name: getattr(self, f"{name}_") for name in self.ARRAYS}
        params = self.get_params(deep=False)
        if params.get("utility") is not None:
            params["utility"] = Utility.of(params["utility"]).to_json()
        return Artifact(type(self).__name__, params, self.schema_, fitted, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "Estimated":
        params = dict(artifact.params)
        if params.get("utility") is not None:
            params["utility"] = Utility(**params["utility"])
        estimator = cls(**params)
        estimator.check_arguments()
        estimator.schema_ = artifact.schema
        for name in cls.ARRAYS:
            setattr(estimator, f"{name}_", artifact.arrays[name])
        for name in STATISTICS:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        for name, otherwise in cls.FITTED.items():
            value = artifact.fitted.get(name, otherwise)
            number(least=0)(f"{name}_", value)
            setattr(estimator, f"{name}_", value)
        estimator.dropped_ = artifact.fitted.get("dropped", {})  # older files do not say why
        estimator.derived_ = [Derived(**one) for one in artifact.fitted.get("derived", [])]
        return estimator


def with_utility(choices: Choices, utility: str | Utility | None) -> Choices:
    """The choices with the utility of an estimator, or as they are where it has none."""
    if utility is None:
        return choices
    own = choices.roles.utility
    if own is not None and own != Utility.of(utility):
        raise InputError(
            f"the choices have the utility '{own.formula}' and the estimator has another, "
            f"'{Utility.of(utility).formula}'; give one of them"
        )
    return choices.with_utility(utility)


def fixed_coefficients(schema: Schema) -> dict[int, float]:
    """The coefficients that the utility gives, in its own units, by the place of their term."""
    utility = schema.roles.utility
    if utility is None:
        return {}
    return {schema.item_names.index(name): value for name, value in utility.fixed.items()}


def with_fixed(data: Encoded, schema: Schema) -> Encoded:
    """Terms whose coefficients are given as an offset; their columns become 0."""
    fixed = fixed_coefficients(schema)
    if not fixed:
        return data
    places = list(fixed)
    weights = np.array([*fixed.values()]) * schema.item_scales[places]
    items = data.items.copy()
    items[:, places] = 0
    return replace(data, items=items, offset=data.items[:, places] @ weights)


def check_identified(names: Sequence[str], identified: Bool[np.ndarray, " d"]) -> None:
    """Refuse data of which no column has a coefficient."""
    if identified.any() or not len(identified):
        return
    quoted = ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")
    raise InputError(
        f"there is nothing to learn from {quoted}: every column is the same for all items of each "
        "set; put columns that differ between the items of a set among items"
    )


def warn_of_rounding(
    names: Sequence[str], data: Encoded, identified: Bool[np.ndarray, " d"]
) -> None:
    """Name columns whose differences within sets single precision blurs; call it from ``fit``."""
    within = np.sqrt((_segments.centred(data.items, data.offsets) ** 2).mean(0))
    rounding = SINGLE * np.abs(data.items).max(0, initial=0.0)
    blurred = np.flatnonzero(identified & (rounding > BLURRED * within)).tolist()
    if blurred:
        more = f" and {len(blurred) - 1} more" if len(blurred) > 1 else ""
        share = rounding[blurred[0]] / within[blurred[0]]
        warnings.warn(
            f"column '{names[blurred[0]]}'{more} differs within sets by little next to what it "
            f"differs between sets: coefficients are exact, but predictions, in single precision, "
            f"round its differences by up to {share:.1%}; subtract each set's smallest value first",
            DataWarning,
            stacklevel=4,
        )


def warn_of_no_maximum(names: Sequence[str], found: Separation, sets: int, l2: float = 0.0) -> None:
    """Say which columns have no finite coefficient; call it from ``fit``.

    ``l2`` is the strength of the penalty that the reported coefficients have instead; 0 if they
    have none.
    """
    if found:
        why, remedy = _separated(names, found, sets)
        why = f"the likelihood has no maximum: {why}, so that coefficients grow without bound"
    else:
        why, remedy = "the search for the likelihood's maximum did not end", "use fewer columns"
    instead = (
        f"; the coefficients given are penalised (l2={l2:g}, chosen by leave-one-out) so that "
        "predictions make sense; set l2= to choose the penalty, "
        if l2
        else ", and standard errors mean nothing; "
    )
    warnings.warn(f"{why}{instead}{remedy}", ConvergenceWarning, stacklevel=4)


def _separated(names: Sequence[str], found: Separation, sets: int) -> tuple[str, str]:
    """What separates the choices, and what to do about it."""
    quoted = [f"'{name}'" for name, one in zip(names, found.columns, strict=True) if one]
    shown = ", ".join(quoted[:5]) + (f" and {len(quoted) - 5} more" if len(quoted) > 5 else "")
    one = len(quoted) == 1
    tells = f"{shown} {'tells' if one else 'together tell'}"
    if found.sets == sets:
        return (
            f"{tells} the chosen items from the rest without error",
            "check it for a leak, or leave it out" if one else "check them for a leak",
        )
    return (
        f"{tells} chosen items from others without error in {found.sets:,} of {sets:,} sets, and "
        "no choice speaks against it",
        "merge a level that is never (or always) chosen with another, leave a column out, or "
        "check for a leak",
    )


def warn_if_certain(log_likelihood: float, null_log_likelihood: float, sets: int) -> None:
    """Warn of a likelihood that is next to that of certainty; call it from ``fit``."""
    warn_if_perfect(sets >= FEWEST_SETS and log_likelihood > CERTAIN * null_log_likelihood)


def without_context(schema: Schema) -> str:
    """A line for the summary of a model in which context cancels; empty if there is none."""
    names = [f"'{encoder.feature.column}'" for encoder in schema.model_context]
    if not names:
        return ""
    plural = len(names) > 1
    return (
        f"Context {', '.join(names)} {'are' if plural else 'is'} not used: equal for all items of "
        f"a set, {'they cancel' if plural else 'it cancels'}."
    )

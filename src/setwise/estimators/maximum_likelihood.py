"""What estimators with a likelihood and standard errors share: their summary and their file."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from setwise import _segments
from setwise._arguments import Check, flag, instance, number, one_of, optional, whole
from setwise._arguments import seed as check_seed
from setwise._errors import DataWarning, InputError
from setwise._shapes import Bool, Float, Int
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.choices.choices import rows_of
from setwise.doctor.derived import Derived, derived
from setwise.estimators.base import FEWEST_SETS, Estimator, warn_if_perfect
from setwise.estimators.scikit_learn import warn_of_convergence
from setwise.estimators.summary import Summary
from setwise.metrics.set_means import numbered
from setwise.scoring.model_file import Artifact
from setwise.training.covariances import KINDS, Resampling, sandwich
from setwise.training.newton import Optimum

if TYPE_CHECKING:
    from setwise.models import Model
    from setwise.training.separation import Separation

FIXED = "fixed: given, not estimated"
BOUND = "at its bound: monotone= allows no other sign"
is_utility = optional(instance((str, Utility), "write a formula such as 'price + log(time)'"))
"""Check an argument that must be a formula, a :class:`setwise.Utility` or None."""

LEAST = 1.0  # the weakest penalty of fits that have no maximum without one
CERTAIN = 1e-3  # of log L at equal chances
SINGLE = 2.0**-24  # a number's rounding error in single precision, as a share of it
BLURRED = 0.005  # of a column's standard deviation within sets
STATISTICS = ("log_likelihood", "null_log_likelihood", "sets", "iterations", "converged")
ENOUGH = 0.5  # of the resamples must have a maximum
MORE_STATISTICS: Mapping[str, tuple[Check, Any]] = {
    "rows": (whole(least=0), 0),
    "people": (whole(least=0), 0),
    "weighted": (flag, False),
    "constants": (whole(least=0), 0),
    "constants_log_likelihood": (optional(number()), None),
}
"""Fitted numbers that older files do not have: their check, and what they are then."""

OneEstimated = TypeVar("OneEstimated", bound="Estimated")


class Estimated(Estimator):
    """A model whose parameters maximise the likelihood, each with a standard error.

    Fitted attributes beside those of the class: ``covariances_`` by kind, ``covariance_`` (the
    default one) and ``identified_`` (of all parameters, in the order of ``parameter_names_``),
    ``log_likelihood_``, ``null_log_likelihood_`` (equal chances), ``constants_log_likelihood_``
    (constants of named alternatives alone; None without names), ``iterations_``, ``converged_``,
    ``sets_``, ``rows_``, ``people_`` (0 where they are not known), and ``dropped_``: why a column
    has no coefficient of its own, by its name ("constant within sets", "a combination of ...", or
    the reference of a full set of dummies). ``derived_`` lists number columns that are products or
    functions of others in the training data (:class:`setwise.doctor.derived.Derived`):
    :mod:`setwise.consequences` warns of them.

    Weights of sets are divided by their mean: only their ratios count.
    """

    ARRAYS: tuple[str, ...] = ("coef", "identified")
    """Fitted attributes, without underscore, from which the model can be made again."""

    FITTED: ClassVar[Mapping[str, float]] = {}
    """More fitted numbers, without underscore, and what they are in older files; none below 0."""

    covariances_: dict[str, Float[np.ndarray, "p p"]]
    identified_: np.ndarray
    log_likelihood_: float
    null_log_likelihood_: float
    constants_log_likelihood_: float | None
    constants_: int
    sets_: int
    rows_: int
    people_: int
    weighted_: bool
    converged_: bool
    dropped_: dict[str, str]
    _choices: Choices | None = None
    """What the model was fitted to, for the bootstrap; neither files nor pickles hold it."""

    @property
    @abstractmethod
    def parameter_names_(self) -> list[str]:
        """What each row of the summary and of ``covariance_`` belongs to."""

    @property
    @abstractmethod
    def parameters_(self) -> Float[np.ndarray, " p"]:
        """All estimates in one vector, in the order of ``parameter_names_``."""

    @abstractmethod
    def with_parameters(self: OneEstimated, parameters: Float[np.ndarray, " p"]) -> OneEstimated:
        """The same model with other parameters in the place of the estimates."""

    @abstractmethod
    def _remarks(self) -> "Remarks":
        """What the summary says beside the numbers."""

    @abstractmethod
    def _resampling(self, choices: Choices) -> Resampling:
        """What the bootstrap fits to every resample of these choices."""

    @abstractmethod
    def _model(self) -> "Model":
        """The model that the fitted attributes describe, on standardised columns."""

    @cached_property
    def model_(self) -> "Model":  # type: ignore[override]
        """What predicts; JAX is slow to start, and those who only estimate need not wait."""
        return self._model()

    @property
    def default_covariance_(self) -> str:
        """The covariance that is used if none is asked for.

        "cluster" where the person of each set is known, "robust" where sets have weights, else
        "classical".
        """
        if "cluster" in self.covariances_:
            return "cluster"
        return "robust" if self.weighted_ else "classical"

    @property
    def covariance_(self) -> Float[np.ndarray, "p p"]:
        """The default covariance of all parameters; NaN where not identified."""
        return self.covariance_of()

    @property
    def standard_errors_(self) -> Float[np.ndarray, " p"]:
        """From the default covariance; NaN where not identified."""
        return standard_errors(self.covariance_)

    def covariance_of(self, kind: str | None = None) -> Float[np.ndarray, "p p"]:
        """The covariance of all parameters, without fitting the model again.

        Args:
            kind: "classical" (the inverse of the information), "robust" (sets are independent),
                "cluster" (people are independent), "bootstrap" (people, or sets where people are
                not known, drawn anew; see :meth:`bootstrap`), or None for the default.
        """
        self.check_is_fitted()
        optional(one_of(*KINDS))("covariance", kind)
        kind = kind or self.default_covariance_
        if kind == "bootstrap" and kind not in self.covariances_:
            self.bootstrap()
        if kind not in self.covariances_:
            known = ", ".join(f'"{one}"' for one in self.covariances_)
            why = (
                "the person of each set is not known; read the choices with group="
                if kind == "cluster" and len(self.covariances_) > 1
                else "the file is of an older version; fit the model again"
            )
            raise InputError(f'there is no covariance "{kind}" ({why}); there are: {known}')
        return self.covariances_[kind]

    def bootstrap(self: OneEstimated, resamples: int = 200, seed: int = 0) -> OneEstimated:
        """Estimate the covariance by the bootstrap, for ``summary(covariance="bootstrap")``.

        Each resample draws as many people as there are, with replacement, each with all of their
        sets; where people are not known, sets. All resamples are fitted together, from the
        estimate on. The penalty, where there is one, stays as it is. A resample whose likelihood
        has no maximum is left out, with a warning.

        Args:
            resamples: how many, 200 by default.
            seed: of the draws; the same seed gives the same covariance.

        >>> import setwise as sw
        >>> model = sw.MNL().fit(sw.datasets.load("swissmetro").sample(300))
        >>> errors = model.bootstrap(50).summary(covariance="bootstrap").standard_errors
        >>> bool((errors[model.identified_] > 0).all())
        True
        """
        self.check_is_fitted()
        whole(least=2)("resamples", resamples)
        check_seed("seed", seed)
        choices = self.training_choices()
        drawn = self._resampling(choices).drawn(people_of(choices), resamples, seed)
        reached = ~np.isnan(drawn).any(1)
        if reached.sum() < max(2, ENOUGH * resamples):
            raise InputError(
                f"of {resamples} resamples only {int(reached.sum())} have a maximum of the "
                "likelihood: some columns tell chosen items without error in the others; use "
                'covariance="cluster" or "robust", or fewer columns'
            )
        if not reached.all():
            warn_of_convergence(
                f"{int((~reached).sum())} of {resamples} resamples have no maximum of the "
                "likelihood and are left out of the bootstrap; standard errors may be too small",
                stacklevel=2,
            )
        covariance = np.atleast_2d(np.cov(drawn[reached].T))
        self.covariances_["bootstrap"] = with_unknown(covariance, self.identified_)
        return self

    @cached_property
    def derived_(self) -> list[Derived]:
        """Number columns that are products, ratios or powers of others, found on first use."""
        return derived(self.training_choices())

    def training_choices(self) -> Choices:
        """What the model was fitted to; an estimator that was loaded or pickled forgot it."""
        if self._choices is None:
            raise InputError(
                "the data that this model was fitted to are not in its file; ask for it before "
                "saving, or fit the model again"
            )
        return self._choices

    def summary(self, covariance: str | None = None) -> Summary:
        """Estimates, standard errors, z, p and measures of fit, as a table.

        Args:
            covariance: whose standard errors, without fitting again: "classical" (sets are
                independent and the model is right), "robust" (sets are independent), "cluster"
                (people are independent) or "bootstrap" (of people, where they are known). By
                default "cluster" where the person of each set is known (``group=`` of
                :func:`setwise.read`), "robust" where sets have weights, else "classical".
        """
        errors, remarks = standard_errors(self.covariance_of(covariance)), self._remarks()
        kind = covariance or self.default_covariance_
        return Summary(
            tuple(self.parameter_names_), self.parameters_, errors, self.identified_,
            self.log_likelihood_, self.null_log_likelihood_, self.sets_, remarks.fixed,
            remarks.null, remarks.note, constants_log_likelihood=self.constants_log_likelihood_,
            constants=self.constants_, rows=self.rows_, people=self.people_,
            converged=self.converged_, covariance=kind, group=self.schema_.roles.group or "",
        )  # fmt: skip

    def _keep(
        self,
        choices: Choices,
        data: Encoded,
        bread: Float[np.ndarray, "q q"],
        scores: Float[np.ndarray, "sets q"],
        report: Callable[[Float[np.ndarray, "q q"]], Float[np.ndarray, "p p"]],
    ) -> None:
        """Keep the covariances of a fit, and what else a summary says of its data.

        ``bread`` is the classical covariance of the parameters that the likelihood has, 0 or NaN
        where they are not free, and ``report`` turns such a covariance into that of what is
        reported. ``identified_`` must be known.
        """
        bread, people = np.nan_to_num(bread), people_of(choices)
        found = {"classical": bread, "robust": sandwich(bread, scores)}
        if people is not None:
            found["cluster"] = sandwich(bread, scores, people)
        self.covariances_ = {
            kind: with_unknown(report(one), self.identified_) for kind, one in found.items()
        }
        self.people_ = 0 if people is None else int(people.max()) + 1
        self.rows_, self.weighted_ = int(choices.offsets[-1]), choices.weight is not None
        self.constants_log_likelihood_, self.constants_ = constants_only(choices, data)
        self._choices = choices
        self.__dict__.pop("derived_", None)  # that of an earlier fit

    def __getstate__(self) -> dict[str, Any]:
        if self._choices is not None:
            _ = self.derived_  # it cannot be found without them
        return {name: value for name, value in vars(self).items() if name != "_choices"}

    def _to_artifact(self) -> Artifact:
        names = (*STATISTICS, *MORE_STATISTICS, *self.FITTED, "dropped")
        fitted = {name: getattr(self, f"{name}_") for name in names}
        fitted["derived"] = [asdict(one) for one in self.derived_]
        arrays = {name: getattr(self, f"{name}_") for name in self.ARRAYS}
        arrays |= {_file_name(kind): one for kind, one in self.covariances_.items()}
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
        estimator.covariances_ = {
            kind: artifact.arrays[_file_name(kind)]
            for kind in KINDS
            if _file_name(kind) in artifact.arrays or kind == "classical"
        }
        for name in STATISTICS:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        for name, (check, otherwise) in MORE_STATISTICS.items():
            value = artifact.fitted.get(name, otherwise)
            check(f"{name}_", value)
            setattr(estimator, f"{name}_", value)
        for name, other in cls.FITTED.items():
            value = artifact.fitted.get(name, other)
            number(least=0)(f"{name}_", value)
            setattr(estimator, f"{name}_", value)
        estimator.dropped_ = artifact.fitted.get("dropped", {})  # older files do not say why
        estimator.derived_ = [Derived(**one) for one in artifact.fitted.get("derived", [])]
        return estimator


@dataclass(frozen=True, eq=False)
class Remarks:
    """What a summary says beside the numbers: see :class:`~setwise.estimators.summary.Summary`."""

    fixed: Mapping[str, str]
    note: str = ""
    null: Float[np.ndarray, " p"] | None = None


def _file_name(kind: str) -> str:
    """The name of a covariance among the arrays of a model file; older files have the first."""
    return "covariance" if kind == "classical" else f"covariance_{kind}"


def standard_errors(covariance: Float[np.ndarray, "p p"]) -> Float[np.ndarray, " p"]:
    """The roots of the variances; NaN where there is none."""
    variances = np.diag(covariance)
    return np.sqrt(np.where(variances >= 0, variances, np.nan))


def with_unknown(
    covariance: Float[np.ndarray, "p p"], identified: Bool[np.ndarray, " p"]
) -> Float[np.ndarray, "p p"]:
    """The covariance with NaN in the rows and columns of what was not estimated."""
    found = covariance.copy()
    unknown = ~identified & ~(np.diag(covariance) > 0)
    found[unknown], found[:, unknown] = np.nan, np.nan
    return found


def people_of(choices: Choices) -> Int[np.ndarray, " sets"] | None:
    """The person of each set, numbered from 0; None where they are not known."""
    return None if choices.group is None else numbered(choices.group, len(choices))


def with_mean_weight(data: Encoded) -> Encoded:
    """The same choices with weights of mean 1: likelihoods and errors do not depend on a unit."""
    if data.weight is None:
        return data
    return replace(data, weight=data.weight / data.weight.mean())


def constants_only(choices: Choices, data: Encoded) -> tuple[float | None, int]:
    """log L of a logit with constants of the alternatives alone, and how many they are.

    None and 0 where alternatives have no names, or sets chose the worst item. With a_k the constant
    of alternative k,

        log L = sum over sets of weight * (a_chosen - log sum over k in s of exp a_k).

    Sets that offer the same alternatives are one term of it. An alternative that is never chosen
    has no finite constant: log L is then the limit, up to rounding.
    """
    name = choices.roles.alternative
    if name is None or choices.worst is not None:
        return None, 0
    codes = np.concatenate([block.columns[name].values for block in choices.blocks()])
    codes = codes.astype(np.int64)
    if choices.outside:
        codes = np.insert(codes, choices.offsets[1:], codes.max() + 1)
    codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
    assert data.chosen is not None
    weight = np.ones(len(data)) if data.weight is None else data.weight
    count = int(codes.max()) + 1
    taken = np.bincount(codes[data.offsets[:-1] + data.chosen], weight, count)
    mark = np.random.default_rng(0).integers(2**63, size=count, dtype=np.uint64)
    _, first, same = np.unique(
        _segments.sums(mark[codes], data.offsets), return_index=True, return_inverse=True
    )
    offers = np.bincount(same.reshape(-1), weight)
    sizes = data.sizes[first]
    rows, offsets = rows_of(data.offsets[first], sizes), _segments.offsets_of(sizes)
    of_rows = codes[rows]

    def loss(a: Float[np.ndarray, " k"]) -> tuple[float, Float[np.ndarray, " k"]]:
        values = a[of_rows]
        p = _segments.softmax(values, offsets) * _segments.spread(offers, offsets)
        total = offers @ _segments.log_sum_exp(values, offsets)
        return float(total - taken @ a), np.bincount(of_rows, p, count) - taken

    from scipy.optimize import minimize  # slow to import

    start = np.log(np.maximum(taken, 0.5))
    found = minimize(loss, start, jac=True, method="BFGS" if count < 50 else "L-BFGS-B")
    return -float(found.fun), count - 1


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


def warn_of_rounding(names: Sequence[str], logit: Optimum) -> None:
    """Name columns whose differences within sets single precision blurs; call it from ``fit``."""
    items = logit.data.items
    within = np.sqrt(np.diag(logit.within) / max(len(items), 1))
    bound = SINGLE * np.sqrt(np.einsum("ij,ij->j", items, items))  # no number is larger
    some = np.flatnonzero(logit.identified & (bound > BLURRED * within))
    rounding = SINGLE * np.abs(items[:, some]).max(0, initial=0.0)
    share = rounding / within[some]
    blurred = some[share > BLURRED].tolist()
    if blurred:
        more = f" and {len(blurred) - 1} more" if len(blurred) > 1 else ""
        warnings.warn(
            f"column '{names[blurred[0]]}'{more} differs within sets by little next to what it "
            f"differs between sets: coefficients are exact, but predictions, in single precision, "
            f"round its differences by up to {share[share > BLURRED][0]:.1%}; subtract each set's "
            "smallest value first",
            DataWarning,
            stacklevel=4,
        )


def warn_of_no_maximum(
    names: Sequence[str],
    found: "Separation | None",
    sets: int,
    l2: float = 0.0,
    own: bool = True,
) -> None:
    """Say which columns have no finite coefficient; call it from ``fit``.

    ``l2`` is the strength of the penalty that the reported coefficients have instead; 0 if they
    have none. ``own`` says whether the estimator has an argument for it.
    """
    if found is not None:
        why, remedy = _separated(names, found, sets)
        why = f"the likelihood has no maximum: {why}, so that coefficients grow without bound"
    else:
        why, remedy = "the search for the likelihood's maximum did not end", "use fewer columns"
    choose = "set l2= to choose the penalty, " if own else ""
    instead = (
        f"; the coefficients given are penalised (l2={l2:g}, chosen by leave-one-out) so that "
        f"predictions make sense; {choose}"
        if l2
        else ", and standard errors mean nothing; "
    )
    warn_of_convergence(f"{why}{instead}{remedy}", stacklevel=4)


def about_penalty(l2: float, asked: bool) -> str:
    """What a penalty does to estimates and standard errors, for the summary; empty without one."""
    if l2 == 0:
        return ""
    none = "" if asked else "The likelihood has no maximum. "
    return (
        f"{none}Estimates are penalised (l2={l2:g}), which draws them towards 0.\n"
        "Standard errors leave this bias out, so that z and p are not classical tests. AIC and "
        "BIC count every coefficient in full."
    )


def about_bounds(dropped: Mapping[str, str]) -> str:
    """What coefficients at a bound mean for standard errors; empty if there are none."""
    if BOUND not in dropped.values():
        return ""
    return (
        "Coefficients at their bound have no standard error; those of the others are for the case "
        "that these stay there.\nLikelihood ratios of such a fit are not chi-squared."
    )


def _separated(names: Sequence[str], found: "Separation", sets: int) -> tuple[str, str]:
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

"""Tests between fitted models: likelihood ratio, Wald and score for nested ones, and for others.

A small model is nested in a large one if it is the large one with some parameters at given values:
coefficients at 0, a nest's lambda at 1, or what ``fixed=`` of a utility gives.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtr
from scipy.stats import chi2

from setwise._arguments import checked, instance, one_of, optional
from setwise._errors import InputError
from setwise.estimators import Estimator
from setwise.estimators.base import fitted, is_choices
from setwise.estimators.latent import LatentClass
from setwise.estimators.logit import ConvexLogit
from setwise.estimators.maximum_likelihood import Estimated, people_of
from setwise.estimators.mixed_logit import MixedLogit
from setwise.metrics.measures import error_of_mean
from setwise.training.covariances import sums_by_person

LEVEL = 0.05
SAME = 1e-6  # of a log-likelihood: what differs by more is of other data
KINDS = ("classical", "robust", "cluster")


def estimated(name: str, value: Any) -> None:
    """Check an argument that must be a fitted model with a likelihood."""
    remedy = "give a fitted MNL, LinearContextLogit, WithinSetMNL, NestedLogit or MixedMNL"
    instance(Estimated, remedy)(name, value)
    value.check_is_fitted()


@dataclass(frozen=True)
class ModelTest:
    """The outcome of a test between two models.

    ``p`` is the share of data sets, were the hypothesis true, whose statistic is at least as far
    out. ``degrees`` is 0 where the statistic is normal and not chi-squared.

    >>> print(ModelTest("likelihood ratio", 7.2, 2, 0.0273, "the small model is right"))
    likelihood ratio: 7.20, 2 degrees of freedom, p = 0.0273
    Hypothesis: the small model is right. Rejected at 5 %.
    """

    name: str
    statistic: float
    degrees: int
    p: float
    hypothesis: str
    warnings: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether the hypothesis is rejected at the level of 5 %."""
        return self.p < LEVEL

    def __str__(self) -> str:
        p = "p < 0.0001" if self.p < 1e-4 else f"p = {self.p:.4f}"
        plural = "s" if self.degrees > 1 else ""
        degrees = f"{self.degrees} degree{plural} of freedom, " if self.degrees else ""
        said = "Rejected" if self.rejected else "Not rejected"
        lines = [
            f"{self.name}: {self.statistic:.2f}, {degrees}{p}",
            f"Hypothesis: {self.hypothesis}. {said} at 5 %.",
        ]
        return "\n".join(lines + [f"Warning: {one}" for one in self.warnings])


@checked(small=estimated, large=estimated)
def likelihood_ratio(small: Estimated, large: Estimated) -> ModelTest:
    """Whether a larger model fits better than chance allows: 2 (log L large - log L small).

    It supposes that sets are independent, or people where the large model is a mixed logit or
    latent classes over panels. Where people choose several times, or sets have weights, p is too
    small, which the result says: use :func:`wald` then. It also says where the small model is at
    the edge of the large one: a spread of 0, or fewer classes.

    Args:
        small: a fitted model that is the large one with some parameters given.
        large: a model fitted to the same choices.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> small, large = (sw.MNL(one).fit(choices) for one in ("cost", "cost + ivt + ovt"))
    >>> found = likelihood_ratio(small, large)
    >>> found.degrees, found.rejected
    (2, True)
    """
    _same_data(small, large)
    degrees = int(large.identified_.sum() - small.identified_.sum())
    gain = large.log_likelihood_ - small.log_likelihood_
    if degrees < 1 or gain < -SAME * abs(large.log_likelihood_):
        raise InputError(
            f"the first model has {int(small.identified_.sum())} parameters and log-likelihood "
            f"{small.log_likelihood_:.3f}, the second {int(large.identified_.sum())} and "
            f"{large.log_likelihood_:.3f}: the first is not nested in the second; give the small "
            "model first, or compare with vuong or ben_akiva_swait"
        )
    statistic = max(2 * gain, 0.0)
    told = []
    if 0 < large.people_ < large.sets_ and not _of_people(large):
        told.append("choices of one person are alike, and p is too small; use wald, which heeds it")
    if large.weighted_:
        told.append("with weights the statistic is not chi-squared; use wald, which heeds them")
    return ModelTest(
        "likelihood ratio", statistic, degrees, float(chi2.sf(statistic, degrees)),
        "the small model is right", (*told, *_edges(small, large), *_flaws(small, large)),
    )  # fmt: skip


@checked(small=estimated, large=estimated)
def wald(small: Estimated, large: Estimated, covariance: str | None = None) -> ModelTest:
    """Whether the estimates of a large model are those that a small one gives them.

        W = (b - b0)' V^-1 (b - b0)

    over the parameters that the small model gives: 0 for those that it does not have, 1 for the
    lambdas of nests, or its fixed coefficients. V is their covariance in the large model.

    Args:
        small: a fitted model that is the large one with some parameters given; parameters are
            matched by their names.
        large: a model fitted to the same choices.
        covariance: as in ``summary``: by default clustered by person where people are known.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> small, large = (sw.MNL(one).fit(choices) for one in ("cost", "cost + ivt + ovt"))
    >>> wald(small, large, "robust").degrees
    2
    """
    _same_data(small, large)
    given, values = _given(small, large)
    V = large.covariance_of(covariance)[np.ix_(given, given)]
    apart = large.parameters_[given] - values[given]
    statistic = float(apart @ np.linalg.solve(V, apart))
    degrees = int(given.sum())
    kind = covariance or large.default_covariance_
    return ModelTest(
        f"Wald, {kind} covariance", statistic, degrees, float(chi2.sf(statistic, degrees)),
        "the small model is right", (*_edges(small, large), *_flaws(small, large)),
    )  # fmt: skip


@checked(small=estimated, large=estimated, covariance=optional(one_of(*KINDS)))
def score_test(small: Estimated, large: Estimated, covariance: str | None = None) -> ModelTest:
    """Whether the likelihood of a large model still rises at the estimates of a small one.

        S = g' V^-1 g,    g = the gradient in the parameters that the small model gives,

    at the large model's maximum with these parameters given. V is the variance of g: by the
    information ("classical"), or by the sum of squares of its terms over sets ("robust") or
    people ("cluster").

    Args:
        small: a fitted model that is the large one with some parameters given.
        large: an ``MNL``, ``LinearContextLogit`` or ``WithinSetMNL``, fitted in this session.
        covariance: by default that of the large model.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> small, large = (sw.MNL(one).fit(choices) for one in ("cost", "cost + ivt + ovt"))
    >>> score_test(small, large).degrees
    2
    """
    if not isinstance(large, ConvexLogit):
        raise InputError(
            f"score_test takes an MNL, LinearContextLogit or WithinSetMNL as the large model, not "
            f"{type(large).__name__}; use likelihood_ratio or wald"
        )
    _same_data(small, large)
    given, values = _given(small, large)
    kind = covariance or large.default_covariance_
    if kind == "cluster":
        large.covariance_of(kind)  # refuses where people are not known
    free = large.identified_ & ~given
    scores, information = large.derivatives_given(given, values)
    pull = np.linalg.solve(information[np.ix_(free, free)], information[np.ix_(free, given)])
    each = scores[:, given] - scores[:, free] @ pull
    g = each.sum(0)
    if kind == "classical":
        V = information[np.ix_(given, given)] - information[np.ix_(given, free)] @ pull
    else:
        people = people_of(large.training_choices()) if kind == "cluster" else None
        terms = each if people is None else sums_by_person(each, people)
        V = terms.T @ terms
    statistic, degrees = float(g @ np.linalg.solve(V, g)), int(given.sum())
    return ModelTest(
        f"score, {kind} variance", statistic, degrees, float(chi2.sf(statistic, degrees)),
        "the small model is right", _flaws(small),
    )  # fmt: skip


@checked(first=fitted, second=fitted, choices=is_choices)
def vuong(first: Estimator, second: Estimator, choices: Any) -> ModelTest:
    """Whether one of two models, neither of which is a part of the other, predicts better.

        z = sum over sets of d / its standard error,  d = log P_first(chosen) - log P_second(chosen)

    (Vuong 1989). z above 0 speaks for the first model. The error is clustered by person where the
    choices say who chose. On the training choices, a model with more parameters has an advantage;
    use test choices to be fair.

    Args:
        first: any fitted model.
        second: another.
        choices: what both predict.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> time, cost = (sw.MNL(one).fit(choices) for one in ("ivt + ovt", "cost"))
    >>> vuong(time, cost, choices).statistic > 2
    True
    """
    gain = second.outcomes(choices).nll - first.outcomes(choices).nll
    weight = np.ones(len(gain)) if choices.weight is None else choices.weight
    share = weight / weight.sum()
    error = error_of_mean(gain, share, choices.group)
    if not error > 0:
        raise InputError("both models give every choice the same probability; compare others")
    z = float(gain @ share) / error
    return ModelTest("Vuong", z, 0, float(2 * ndtr(-abs(z))), "both models predict equally well")


@checked(first=estimated, second=estimated)
def ben_akiva_swait(first: Estimated, second: Estimated) -> ModelTest:
    """A bound on the chance that the better of two models is the wrong one.

        p <= Phi(-sqrt(-2 log L(0) (r - s) + (k_r - k_s)))

    (Ben-Akiva and Swait 1986), with r and s the adjusted rho² of the model that has more of it and
    of the other, and k their parameters. It supposes that sets are independent.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> time, cost = (sw.MNL(one).fit(choices) for one in ("ivt + ovt", "cost"))
    >>> ben_akiva_swait(time, cost).p < 0.001
    True
    """
    _same_data(first, second)
    better, other = sorted((first.summary(), second.summary()), key=lambda s: -s.adjusted_rho2)
    gap = better.adjusted_rho2 - other.adjusted_rho2
    inside = -2 * better.null_log_likelihood * gap + better.parameters - other.parameters
    z = float(np.sqrt(max(inside, 0.0)))
    which = "first" if better.log_likelihood == first.log_likelihood_ else "second"
    told: tuple[str, ...] = ()
    if 0 < first.people_ < first.sets_:
        told = ("choices of one person are alike, and p is too small; use vuong, which heeds it",)
    return ModelTest(
        "Ben-Akiva and Swait", z, 0, float(ndtr(-z)),
        f"the {which} model, whose adjusted rho² is higher by {gap:.4f}, is the wrong one", told,
    )  # fmt: skip


def _given(
    small: Estimated, large: Estimated
) -> tuple[Bool[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """The parameters of the large model that the small one gives, and the values."""
    null = large.summary().null
    values = np.zeros(len(large.parameters_)) if null is None else null.copy()
    names, free = small.parameter_names_, set()
    for name, value, identified in zip(names, small.parameters_, small.identified_, strict=True):
        if identified:
            free.add(name)
        elif name in large.parameter_names_:
            values[large.parameter_names_.index(name)] = value
    given = large.identified_ & ~np.isin(large.parameter_names_, list(free))
    missing = free - {
        name for name, one in zip(large.parameter_names_, large.identified_, strict=True) if one
    }
    if missing or not given.any():
        why = (
            f"the first has '{sorted(missing)[0]}', which the second does not estimate"
            if missing
            else "the second has no parameter that the first does not have"
        )
        raise InputError(
            f"the first model is not nested in the second: {why}; give the small model first, or "
            "compare with vuong or ben_akiva_swait"
        )
    return given, values


def _same_data(first: Estimated, second: Estimated) -> None:
    gap = abs(first.null_log_likelihood_ - second.null_log_likelihood_)
    if first.sets_ != second.sets_ or gap > SAME * abs(first.null_log_likelihood_):
        raise InputError(
            f"the models were fitted to different choices ({first.sets_:,} and {second.sets_:,} "
            "sets); fit both to the same"
        )


def _of_people(model: Estimated) -> bool:
    """Whether the likelihood is a product over people, not over sets."""
    return isinstance(model, MixedLogit) or (isinstance(model, LatentClass) and model.PANELS)


def _spreads(model: Estimated) -> int:
    """How many estimated parameters say by how much people differ."""
    if not isinstance(model, MixedLogit):
        return 0
    return int(model.identified_[len(model.coef_) :].sum())


def _edges(small: Estimated, large: Estimated) -> tuple[str, ...]:
    """Where the small model is not inside the large one, but at its edge."""
    classes = small.classes_ if isinstance(small, LatentClass) else 1
    if isinstance(large, LatentClass) and large.classes_ > classes:
        return (
            "a number of classes has no chi-squared test, since a class of nobody can have any "
            "coefficients; compare BIC, or the likelihood of people held out",
        )
    if _spreads(large) > _spreads(small):
        return (
            "a spread of 0 is the least that there is, and p is too large: of one spread, half "
            "of it is right",
        )
    return ()


def _flaws(*models: Estimated) -> tuple[str, ...]:
    """Why a chi-squared distribution may not hold."""
    told = []
    for one in models:
        if not one.converged_:
            told.append(f"the {type(one).__name__} did not converge, and p means little")
        if getattr(one, "l2_", 0) > 0:
            told.append(f"the {type(one).__name__} is penalised, and p means little")
    return tuple(told)

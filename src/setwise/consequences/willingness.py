"""Willingness to pay and consumer surplus, in units of the price column.

What one more of a feature is worth, and what a set is worth to those who choose from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from setwise import _segments
from setwise._arguments import checked, one_of, optional, text, whole
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise.choices import Choices, Encoded, Schema
from setwise.consequences.derived_columns import made_of, tell
from setwise.estimators import (
    MNL,
    CrossNestedLogit,
    Estimator,
    LatentClass,
    LinearContextLogit,
    MixedLogit,
    NestedLogit,
    WithinSetMNL,
)
from setwise.estimators.base import fitted
from setwise.estimators.basic import LinearScorer
from setwise.estimators.maximum_likelihood import Estimated
from setwise.estimators.summary import NORMAL
from setwise.training.covariances import KINDS

INTERVALS = ("delta", "krinsky_robb")

VARIES = 1e-9  # of a worth between people
STEP = 1e-3  # of a standard error: for slopes by central differences

UTILITY = (
    "what one more of '{of}' is worth then differs from row to row, and the coefficient of '{of}' "
    "alone does not tell it; fit without '{column}', or add up both by hand"
)


@dataclass(frozen=True, eq=False)
class WillingnessToPay:
    """What one unit more of each feature is worth, in units of price, with standard errors.

    >>> print(WillingnessToPay("cost", ("time",), np.array([-0.5]), np.array([0.1])))
    feature       worth  std. error  95% interval
    time        -0.5000      0.1000  [-0.696, -0.304]
    in units of 'cost'; negative: what people would be paid for one more
    """

    price: str
    names: tuple[str, ...]
    values: Float[np.ndarray, " features"]
    standard_errors: Float[np.ndarray, " features"]
    """By the delta method; NaN for columns without a coefficient of their own."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Why columns have no coefficient of their own, by name."""
    bounds: Float[np.ndarray, "features 2"] | None = None
    """The 95 % intervals of Krinsky and Robb; None for those of the delta method."""
    covariance: str = ""
    """The covariance of the estimates that was used, for the note."""

    @property
    def intervals(self) -> Float[np.ndarray, "features 2"]:
        """From low to high, 95 %; NaN for columns without a coefficient of their own."""
        if self.bounds is not None:
            return self.bounds
        reach = NORMAL * self.standard_errors
        return np.stack([self.values - reach, self.values + reach], 1)

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.names.index(name)])

    def to_frame(self) -> Any:
        """A Polars frame: feature, worth, standard_error, and the 95 % interval low, high."""
        import polars as pl

        low, high = self.intervals.T
        columns = {
            "feature": list(self.names), "worth": self.values,
            "standard_error": self.standard_errors, "low": low, "high": high,
        }  # fmt: skip
        return pl.DataFrame(columns, nan_to_null=True)

    def _repr_html_(self) -> str:
        rows = []
        for name, value, error, low, high in self.to_frame().rows():
            known = ["", "reference"]
            if error is not None:
                known = [f"{error:.4f}", f"[{low:.3f}, {high:.3f}]"]
            rows.append([name, f"{value:.4f}", *known])
        heads = ["feature", "worth", "std. error", "95% interval"]
        return notebook_html(heads, rows, note=self._note())

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "feature"))
        lines = [f"{'feature':<{width}} {'worth':>11}  {'std. error':>10}  95% interval"]
        rows = zip(self.names, self.values, self.standard_errors, self.intervals, strict=True)
        for name, value, error, (low, high) in rows:
            if np.isnan(error):
                why = self.dropped.get(name, "not identified by itself")
                lines.append(f"{name:<{width}} {value:>11.4f}  ({why})")
                continue
            lines.append(f"{name:<{width}} {value:>11.4f}  {error:>10.4f}  [{low:.3f}, {high:.3f}]")
        return "\n".join([*lines, self._note()])

    def _note(self) -> str:
        how = "" if self.bounds is None else "; intervals of Krinsky and Robb"
        whose = f"; {self.covariance} standard errors" if self.covariance else ""
        said = f"in units of '{self.price}'; negative: what people would be paid for one more"
        return f"{said}{whose}{how}"


@dataclass(frozen=True, eq=False)
class Weights:
    """Coefficients of one utility that is linear in its columns, in the table's units."""

    names: tuple[str, ...]
    values: Float[np.ndarray, " k"]
    covariance: Float[np.ndarray, "k k"]
    identified: Bool[np.ndarray, " k"]
    suffix: str = ""


@checked(
    estimator=fitted,
    price=text,
    covariance=optional(one_of(*KINDS)),
    interval=one_of(*INTERVALS),
    draws=whole(least=100),
    seed=check_seed,
)
def willingness_to_pay(
    estimator: Estimator,
    price: str,
    at: Any = None,
    *,
    covariance: str | None = None,
    interval: str = "delta",
    draws: int = 10_000,
    seed: int = 0,
) -> WillingnessToPay:
    """What people would pay for one more of each feature, by models that are linear in price.

        worth(k) = - beta_k / beta_price,
        variance = (V_kk + 2 worth(k) V_kp + worth(k)^2 V_pp) / beta_price^2   (delta method)

    with V the covariance of the estimates. A unit is one of the column as the model reads it: of
    log(time), where it reads that. The MNL, the nested logit (whose lambdas cancel) and latent
    classes, class by class, have one answer for all sets. The linear context logit has another in
    each context: its weights theta + A mean(x) are taken at the mean context of the sets ``at``,
    with the context held as it is.

    ``MixedLogit`` gives the mean and, where people differ, the standard deviation over people of
    their own worth, -beta_k / beta_price at each of 4,096 points of the distribution. That is the
    mean of a ratio, not a ratio of means. In willingness-to-pay space the mean of a normal
    coefficient is the estimate itself. If some people like to pay by the fitted distribution, the
    ratio means nothing, and there is an error.

    Args:
        estimator: a fitted ``MNL``, ``NestedLogit``, ``CrossNestedLogit``, ``LatentClass``,
            ``MixedMNL``, ``MixedLogit`` or ``LinearContextLogit``.
        price: the column of prices, read without a transform.
        at: of a ``LinearContextLogit`` only: choices or a table whose average context counts.
        covariance: V, as in ``summary``: by default clustered by person where people are known.
        interval: "delta" (symmetric), or "krinsky_robb": the middle 95 % of what normal draws of
            the estimates give, which need not be symmetric. Where the sign of the price
            coefficient is in doubt, the ratio has no variance; only the latter shows it.
        draws: of Krinsky and Robb.
        seed: of the draws.

    >>> import setwise as sw
    >>> model = sw.MNL().fit(sw.datasets.load("modecanada"))
    >>> round(willingness_to_pay(model, "cost")["ivt"], 3)
    -0.174
    """
    if at is not None and not isinstance(estimator, LinearContextLogit):
        raise InputError(
            f"at= is for the linear context logit, whose weights depend on the set; those of "
            f"{type(estimator).__name__} do not: leave it out"
        )
    names, values, errors, bounds = [], [], [], []
    if isinstance(estimator, MixedLogit):
        _tell_of_others(estimator, price)
        return _over_people(estimator, price, covariance, draws if interval != "delta" else 0, seed)
    utilities = linear_weights(estimator, price, at, covariance)
    assert isinstance(estimator, Estimated)  # all that have such weights
    _tell_of_others(estimator, price)
    for weights in utilities:
        place = weights.names.index(price)
        check_price(price, float(weights.values[place]), weights.identified[place], weights.suffix)
        beta, V = float(weights.values[place]), weights.covariance
        worth = -weights.values / beta
        variance = np.diag(V) + 2 * worth * V[:, place] + worth**2 * V[place, place]
        error = np.sqrt(np.maximum(variance, 0)) / abs(beta)
        others = np.arange(len(worth)) != place
        names += [name + weights.suffix for name in np.array(weights.names, object)[others]]
        values.append(worth[others])
        errors.append(np.where(weights.identified, error, np.nan)[others])
        if interval == "krinsky_robb":
            middle = _krinsky_robb(weights, place, draws, seed)
            bounds.append(np.where(weights.identified[:, None], middle, np.nan)[others])
    dropped = {
        name + weights.suffix: reason
        for weights in utilities
        for name, reason in estimator.dropped_.items()
    }
    return WillingnessToPay(
        price, tuple(names), np.concatenate(values), np.concatenate(errors), dropped,
        np.concatenate(bounds) if bounds else None, covariance or estimator.default_covariance_,
    )  # fmt: skip


def _tell_of_others(estimator: Estimator, price: str) -> None:
    """Warn of features that are made of others."""
    others = [name for name in estimator.schema_.item_names if name != price]
    tell([one for one in made_of(estimator, others) if one.column != price], UTILITY)


def _over_people(
    estimator: MixedLogit, price: str, covariance: str | None, draws: int, seed: int
) -> WillingnessToPay:
    """The mean and the spread over people, with errors by the delta method in all parameters."""
    tell(made_of(estimator, [price]), UTILITY)
    _check_transform(estimator.schema_, price)
    place, known = estimator.price_place(price), estimator.identified_
    V = np.nan_to_num(estimator.covariance_of(covariance))
    check_price(price, float(estimator.population_values()[place].mean()), known[place], "")
    worth = estimator.population_values(price)
    varies = np.ptp(worth, axis=1) > VARIES * np.abs(worth).max(1)
    names = [name for name in estimator.feature_names() if name != price]
    own = np.delete(known[: len(estimator.coef_)], place) | varies

    def of(parameters: Float[np.ndarray, " p"]) -> Float[np.ndarray, " features"]:
        beta = estimator.with_parameters(parameters).population_values()
        found = np.delete(-beta / beta[place], place, axis=0)
        return np.concatenate([found.mean(1), found[varies].std(1)])

    at, values = estimator.parameters_, of(estimator.parameters_)
    slopes = np.zeros((len(values), len(at)))
    for one in np.flatnonzero(np.diag(V) > 0):
        step = STEP * np.sqrt(V[one, one]) * np.eye(len(at))[one]
        slopes[:, one] = (of(at + step) - of(at - step)) / (2 * STEP * np.sqrt(V[one, one]))
    errors = np.sqrt(np.maximum(np.einsum("fp,pq,fq->f", slopes, V, slopes), 0))
    errors[: len(names)][~own] = np.nan
    bounds = None
    if draws:
        drawn = np.array([of(one) for one in normal_draws(at, V, draws, seed)])
        bounds = np.where(np.isnan(errors)[:, None], np.nan, _middle(drawn))
    spreads = [f"sd({name})" for name, one in zip(names, varies, strict=True) if one]
    kind = covariance or estimator.default_covariance_
    return WillingnessToPay(
        price, (*names, *spreads), values, errors, estimator.dropped_, bounds, kind
    )


def _krinsky_robb(weights: Weights, place: int, draws: int, seed: int) -> Float[np.ndarray, "k 2"]:
    """The middle 95 % of -b_k / b_price over normal draws of the coefficients."""
    drawn = normal_draws(weights.values, weights.covariance, draws, seed)
    return _middle(-drawn / drawn[:, place, None])


def normal_draws(
    mean: Float[np.ndarray, " k"], covariance: Float[np.ndarray, "k k"], draws: int, seed: int
) -> Float[np.ndarray, "draws k"]:
    """Draws of estimates around what was found."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    return np.random.default_rng(seed).normal(size=(draws, len(values))) @ root.T + mean


def _middle(drawn: Float[np.ndarray, "draws k"]) -> Float[np.ndarray, "k 2"]:
    return np.quantile(drawn, [0.025, 0.975], axis=0).T


LINEAR = (MNL, NestedLogit, CrossNestedLogit, LatentClass)
"""Models whose utility is linear in the columns, the same in all sets."""


def linear_weights(
    estimator: Estimator, price: str, at: Any = None, covariance: str | None = None
) -> list[Weights]:
    """The utilities of a model that is linear in price: one, or one per class."""
    if isinstance(estimator, (*LINEAR, LinearContextLogit)):
        tell(made_of(estimator, [price]), UTILITY)
    if isinstance(estimator, LinearContextLogit):
        _check_transform(estimator.schema_, price)
        return [_in_context(estimator, at, covariance)]
    if not isinstance(estimator, LINEAR):
        raise InputError(_why_not(estimator))
    _check_transform(estimator.schema_, price)
    names, V = tuple(estimator.feature_names_), np.nan_to_num(estimator.covariance_of(covariance))
    d = len(names)
    if isinstance(estimator, LatentClass):
        return [
            Weights(names, estimator.coef_[k], V[np.ix_(places, places)],
                    estimator.identified_[places], f" (class {k + 1})")
            for k, places in enumerate(estimator.coefficient_places())
        ]  # fmt: skip
    return [Weights(names, estimator.coef_, V[:d, :d], estimator.identified_[:d])]


def check_price(price: str, beta: float, identified: Any, suffix: str) -> None:
    """Refuse a price that does not lower utility: nothing can be counted in it."""
    if not identified:
        raise InputError(
            f"the coefficient of '{price}'{suffix} is not identified (the column is a combination "
            "of others within every set), so that nothing can be counted in it"
        )
    if beta >= 0:
        raise InputError(
            f"the coefficient of '{price}'{suffix} is {beta:.4g}, not negative: by this model "
            "people like to pay, and what they would pay for a feature means nothing; look for a "
            "quality that goes with the price and is missing among the features"
        )


def _check_transform(schema: Schema, price: str) -> None:
    for encoder in schema.items:
        if encoder.feature.column == price and encoder.kind == "number":
            if encoder.feature.transform == "none":
                return
            raise InputError(
                f"the model reads {encoder.feature}, so that what one more of '{price}' costs in "
                "utility depends on its level; train with the plain column"
            )
    numbers = [e.feature.column for e in schema.items if e.kind == "number"]
    raise InputError(
        f"the model has no number column '{price}' among its items; it has: {', '.join(numbers)}"
    )


def _in_context(estimator: LinearContextLogit, at: Any, kind: str | None) -> Weights:
    """theta + A m at the mean context m, over the scales: linear in the parameters."""
    if at is None:
        raise InputError(
            "a linear context logit weighs price and features differently in each context; say in "
            "which, with at=choices: the average context of these sets counts"
        )
    schema, names = estimator.schema_, tuple(estimator.schema_.item_names)
    choices = estimator.as_choices(at)
    data = schema.encode(choices, np.float64)
    means = _segments.means(data.items, data.offsets)
    weight = np.ones(len(choices)) if choices.weight is None else choices.weight
    mean = weight @ np.hstack([means, data.context]) / weight.sum()
    d = len(names)
    linear = np.hstack([np.eye(d), np.kron(np.eye(d), mean)]) / schema.item_scales[:, None]
    covariance = linear @ np.nan_to_num(estimator.covariance_of(kind)) @ linear.T
    return Weights(names, linear @ estimator.coef_, covariance, estimator.identified_[:d])


def _why_not(estimator: Estimator) -> str:
    name = type(estimator).__name__
    if isinstance(estimator, WithinSetMNL):
        why = "reads a price's place among the others too, so that no one number is its weight"
    elif isinstance(estimator, LinearScorer):
        why = "ranks: its scores are not utilities, and its coefficients have no standard errors"
    else:
        why = "has no coefficient of price: what money is worth differs from item to item and set"
    return (
        f"{name} {why}; use MNL, NestedLogit, LatentClass, MixedLogit or LinearContextLogit, or "
        "ask what a change of price does with counterfactual or elasticities"
    )


def surplus(estimator: Estimator, choices: Choices, price: str) -> Float[np.ndarray, " sets"]:
    """The expected utility of the best item, over the price coefficient (Small and Rosen 1981).

        S(s) = log sum over x in s of exp V(x) / -beta_price                 (MNL)
        S(s) = log sum over nests k of exp(lambda_k I_k) / -beta_price       (nested logit)
        S(s) = sum over classes c of pi_c S_c(s)                             (latent classes)
        S(s) = the mean of S over the points that predictions average over   (mixed logit)

    Utility has no zero point: only differences of S between sets mean something.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> surplus(sw.MNL().fit(choices), choices, "cost").shape
    (4324,)
    """
    if isinstance(estimator, MixedLogit):
        return _mean_surplus(estimator, choices, price)
    if not isinstance(estimator, (MNL, NestedLogit, LatentClass)):
        raise InputError(
            f"{type(estimator).__name__} has no consumer surplus: for that, utility is linear "
            "in price and does not depend on the other items; use MNL, NestedLogit, LatentClass or "
            "MixedLogit, or leave price= out"
        )
    betas = []
    for weights in linear_weights(estimator, price):
        place = weights.names.index(price)
        check_price(price, float(weights.values[place]), weights.identified[place], weights.suffix)
        betas.append(-float(weights.values[place]))
    encoding = estimator.schema_.over(choices)
    found = []
    for part in encoding.blocks():
        data = part.encoded(np.float64)
        shares = estimator.class_shares(data) if isinstance(estimator, LatentClass) else 1.0
        found.append((_logsums(estimator, data) / betas * shares).sum(1))
    return np.concatenate(found)


def _mean_surplus(
    estimator: MixedLogit, choices: Choices, price: str
) -> Float[np.ndarray, " sets"]:
    """The mean over tastes: each divides its logsum by its own price coefficient."""
    tell(made_of(estimator, [price]), UTILITY)
    _check_transform(estimator.schema_, price)
    estimator.population_values(price)  # refuses a price that some people like
    points, place = estimator.prediction_points(), estimator.price_place(price)
    beta = -points[place] / estimator.schema_.item_scales[place]
    found = []
    for part in estimator.schema_.over(choices).blocks():
        data = part.encoded(np.float64)
        logsums = _segments.log_sum_exp(data.items[:, : len(points)] @ points, data.offsets)
        found.append((logsums / beta).mean(1))
    return np.concatenate(found)


def _logsums(
    estimator: MNL | NestedLogit | LatentClass, data: Encoded
) -> Float[np.ndarray, "sets classes"]:
    names = estimator.schema_.item_names
    scale = estimator.schema_.item_scales
    places = [names.index(name) for name in estimator.feature_names_]
    utilities = data.items[:, places] @ (np.atleast_2d(estimator.coef_) * scale[places]).T
    if not isinstance(estimator, NestedLogit):
        return _segments.log_sum_exp(utilities, data.offsets)
    # The scores of a nested logit add up, as exponentials, to the sum over its outermost nests.
    scores = estimator.log_odds(data, utilities[:, 0])
    return _segments.log_sum_exp(scores, data.offsets)[:, None]

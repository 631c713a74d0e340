"""Expected shares: how often each alternative is chosen, if the model is right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from setwise._arguments import checked, columns, one_of, optional
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise._segments import owners
from setwise.choices import Choices
from setwise.choices.alternatives import Alternatives
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.estimators.maximum_likelihood import Estimated
from setwise.metrics.measures import error_of_mean
from setwise.training.covariances import KINDS

STEP = 0.1  # of a standard error: single precision blurs smaller changes of probabilities


@dataclass(frozen=True, eq=False)
class Shares:
    """The expected share of each alternative, with its standard error over sets or people.

    >>> print(Shares(("bus", "car"), np.array([0.25, 0.75]), np.array([0.05, 0.05]), 80))
    alternative     share  std. error
    bus            0.2500      0.0500
    car            0.7500      0.0500
    80 sets
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, " levels"]
    standard_errors: Float[np.ndarray, " levels"]
    sets: int
    estimation_errors: Float[np.ndarray, " levels"] | None = None
    """How well the model is estimated: by the delta method, where a covariance was asked for."""

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.names.index(name)])

    def to_frame(self) -> Any:
        """A Polars frame: alternative, share, standard_error."""
        import polars as pl

        columns = {"alternative": list(self.names), "share": self.values}
        columns["standard_error"] = self.standard_errors
        if self.estimation_errors is not None:
            columns["estimation_error"] = self.estimation_errors
        return pl.DataFrame(columns, nan_to_null=True)

    def _repr_html_(self) -> str:
        rows = [
            [str(cell) if place == 0 else f"{cell:.4f}" for place, cell in enumerate(row)]
            for row in self.to_frame().rows()
        ]
        heads = ["alternative", "share", "std. error", "of the estimates"][: len(rows[0])]
        return notebook_html(heads, rows, note=f"{self.sets:,} sets")

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "alternative"))
        more = "" if self.estimation_errors is None else "  of the estimates"
        lines = [f"{'alternative':<{width}} {'share':>9}  {'std. error':>10}{more}"]
        for name, value, error, *rest in self.to_frame().rows():
            last = f"  {rest[0]:>16.4f}" if rest else ""
            lines.append(f"{name:<{width}} {value:>9.4f}  {error:>10.4f}{last}")
        return "\n".join([*lines, f"{self.sets:,} sets"])


@checked(estimator=fitted, by=columns, covariance=optional(one_of(*KINDS)))
def expected_shares(
    estimator: Estimator, data: Any, by: str | Sequence[str], covariance: str | None = None
) -> Shares:
    """The share of each alternative in the choices that the model expects.

        share(k) = mean over s, by the sets' weights, of the sum over a in k of P_s(a)

    Shares add up to 1, the outside option's included. The standard error is that of a mean over
    independent people where the data say who chose, else over sets. It says how much other sets
    would move the share. How well the model is estimated is another matter: ``covariance`` adds
    ``estimation_errors``, by the delta method, for models with standard errors.

    Args:
        estimator: a fitted model.
        data: a :class:`~setwise.Choices` or any table with the columns of the training table.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.
        covariance: of the estimates: "classical", "robust", "cluster" or "bootstrap". It takes two
            predictions per parameter. None, the default, computes no ``estimation_errors``.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(300)
    >>> modes = ["is_train", "is_sm", "is_car"]
    >>> round(float(expected_shares(sw.MNL().fit(choices), choices, modes).values.sum()), 6)
    1.0
    """
    choices = estimator.as_choices(data)
    outside = estimator.schema_.outside
    known = Alternatives.of(data, choices, by, outside)
    offsets = offsets_with(choices, outside)
    each = of_sets(probabilities(estimator, choices), offsets, known)
    weight = np.ones(len(choices)) if choices.weight is None else choices.weight
    weight = weight / weight.sum()
    errors = np.array([error_of_mean(column, weight, choices.group) for column in each.T])
    estimation = None
    if covariance is not None:
        estimation = delta_errors(
            estimator,
            lambda one: weight @ of_sets(probabilities(one, choices), offsets, known),
            covariance,
        )
    return Shares(known.names, weight @ each, errors, len(choices), estimation)


def delta_errors(
    estimator: Estimator,
    of: Callable[[Estimated], Float[np.ndarray, " k"]],
    covariance: str,
) -> Float[np.ndarray, " k"]:
    """Standard errors of numbers that a model's estimates give, by the delta method.

        variance = sum over j of (d of / d l_j)^2,  with l_j the columns of a root of V

    by central differences of a tenth of a standard error along each column.
    """
    if not isinstance(estimator, Estimated):
        raise InputError(
            f"{type(estimator).__name__} has no covariance of estimates; leave covariance= out, or "
            "use MNL, LinearContextLogit, WithinSetMNL, NestedLogit or MixedMNL"
        )
    values, vectors = np.linalg.eigh(np.nan_to_num(estimator.covariance_of(covariance)))
    wide = values > 1e-12 * max(values.max(initial=0.0), 0.0)
    slopes = []
    for column in (vectors[:, wide] * np.sqrt(values[wide])).T:
        high, low = (
            of(estimator.with_parameters(estimator.parameters_ + sign * STEP * column))
            for sign in (1, -1)
        )
        slopes.append((high - low) / (2 * STEP))
    return np.sqrt((np.array(slopes) ** 2).sum(0))


def probabilities(estimator: Estimator, choices: Choices) -> Float[np.ndarray, " rows"]:
    """P(x | s) of every row, set after set; the outside option, where there is one, last."""
    parts = [
        np.exp(estimator.row_log_probabilities(part)) for part in estimator.encoded_parts(choices)
    ]
    return np.concatenate(parts).astype(np.float64)


def offsets_with(choices: Choices, outside: bool) -> Int[np.ndarray, " sets_and_one"]:
    """Where sets begin and end once each has its outside option, if the model has one."""
    return choices.offsets + np.arange(len(choices.offsets)) * int(outside)


def of_sets(
    probability: Float[np.ndarray, " rows"],
    offsets: Int[np.ndarray, " sets_and_one"],
    known: Alternatives,
) -> Float[np.ndarray, "sets levels"]:
    """The probability of each alternative, per set."""
    sets, levels = len(offsets) - 1, len(known.names)
    each = np.bincount(owners(offsets) * levels + known.codes, probability, sets * levels)
    return each.reshape(sets, levels)

"""Expected shares: how often each alternative is chosen, if the model is right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from setwise._arguments import checked, columns
from setwise._page import notebook_html
from setwise._segments import owners
from setwise.choices import Choices
from setwise.choices.alternatives import Alternatives
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.metrics import standard_error


@dataclass(frozen=True, eq=False)
class Shares:
    """The expected share of each alternative, with its standard error over sets.

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

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.names.index(name)])

    def to_frame(self) -> Any:
        """A Polars frame: alternative, share, standard_error."""
        import polars as pl

        columns = {"alternative": list(self.names), "share": self.values}
        return pl.DataFrame(columns | {"standard_error": self.standard_errors}, nan_to_null=True)

    def _repr_html_(self) -> str:
        rows = [
            [name, f"{value:.4f}", f"{error:.4f}"]
            for name, value, error in zip(
                self.names, self.values, self.standard_errors, strict=True
            )
        ]
        heads = ["alternative", "share", "std. error"]
        return notebook_html(heads, rows, note=f"{self.sets:,} sets")

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "alternative"))
        lines = [f"{'alternative':<{width}} {'share':>9}  {'std. error':>10}"]
        rows = zip(self.names, self.values, self.standard_errors, strict=True)
        lines += [f"{name:<{width}} {value:>9.4f}  {error:>10.4f}" for name, value, error in rows]
        return "\n".join([*lines, f"{self.sets:,} sets"])


@checked(estimator=fitted, by=columns)
def expected_shares(estimator: Estimator, data: Any, by: str | Sequence[str]) -> Shares:
    """The share of each alternative in the choices that the model expects.

        share(k) = mean over s, by the sets' weights, of the sum over a in k of P_s(a)

    Shares add up to 1, the outside option's included. The standard error is that of a mean over
    independent sets: it says how much other sets would move the share, not how well the model is
    estimated.

    Args:
        estimator: a fitted model.
        data: a :class:`~setwise.Choices` or any table with the columns of the training table.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(300)
    >>> modes = ["is_train", "is_sm", "is_car"]
    >>> round(float(expected_shares(sw.MNL().fit(choices), choices, modes).values.sum()), 6)
    1.0
    """
    choices = estimator.as_choices(data)
    outside = estimator.schema_.outside
    known = Alternatives.of(data, choices, by, outside)
    each = of_sets(probabilities(estimator, choices), offsets_with(choices, outside), known)
    weight = np.ones(len(choices)) if choices.weight is None else choices.weight
    weight = weight / weight.sum()
    errors = np.array([standard_error(column, weight) for column in each.T])
    return Shares(known.names, weight @ each, errors, len(choices))


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

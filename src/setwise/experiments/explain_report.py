"""What follows from a model? Elasticities, diversion and a change of the sets, in one thing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._arguments import checked, columns, each, optional, text
from setwise._errors import InputError
from setwise.choices.alternatives import column_of
from setwise.choices.columns import Column
from setwise.consequences import (
    Counterfactual,
    Diversions,
    Elasticities,
    counterfactual,
    diversion_ratios,
    elasticities,
)
from setwise.consequences.changes import Change, is_change
from setwise.consequences.counterfactual import ShareChange
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.violations.bootstrap import LevelMatrix

HEADS = ("measure", "value", "95 % interval", "what it says")
SHARE_HEADS = ("alternative", "before %", "after %", "change", "± s.e.")


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a fitted model expects when a column changes, and when the sets do.

    ``diverted`` is None where no column tells alternatives apart, ``changed`` where no change is
    asked about.
    """

    model: str
    data: str
    elastic: Elasticities
    diverted: Diversions | None = None
    changed: Counterfactual | None = None

    @property
    def leaving(self) -> float:
        """Of 100 choices, how many leave their item with the change; 0 without one."""
        if self.changed is None:
            return 0.0
        lost = np.maximum(self.changed.before - self.changed.after, 0).sum()
        return float(100 * lost / self.changed.sets)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The mean elasticities as text, under :data:`HEADS`."""
        when = f"when an item's {self.elastic.column} rises by 1 %,"
        measures = (
            ("own elasticity", self.elastic.own, True, f"{when} its own probability"),
            ("cross elasticity", self.elastic.cross, False, f"{when} that of another item"),
        )
        return [
            (name, f"{value:.4f}", "{:.4f} to {:.4f}".format(*self.elastic.interval(own)),
             f"{said} {moves(value)}")
            for name, value, own, said in measures
        ]  # fmt: skip

    def share_rows(self) -> list[tuple[str, ...]]:
        """The shares before and after the change as text, under :data:`SHARE_HEADS`."""
        shares = None if self.changed is None else self.changed.shares
        if shares is None:
            return []
        columns = (shares.before, shares.after, shares.standard_errors)
        return [
            (name, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}", f"{error:.2f}")
            for name, before, after, error in zip(
                shares.names, *(100 * each for each in columns), strict=True
            )
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        elastic = self.elastic
        found: dict[str, Any] = {"model": self.model, "data": self.data, "column": elastic.column}
        for name, value, own in (("own", elastic.own, True), ("cross", elastic.cross, False)):
            low, high = elastic.interval(own)
            found[f"{name}_elasticity"] = {"value": value, "low": low, "high": high}
        if elastic.between is not None:
            found["elasticities"] = _matrix_json(elastic.between)
        if self.diverted is not None and self.diverted.between is not None:
            found["diversion"] = _matrix_json(self.diverted.between)
        if self.changed is not None:
            found["changes"] = [str(one) for one in self.changed.changes]
            found["leaving_of_100"] = self.leaving
            if self.changed.shares is not None:
                found["shares"] = _shares_json(self.changed.shares)
        return found

    def __str__(self) -> str:
        parts = (self.elastic, self.diverted, self.changed)
        return "\n\n".join(str(part) for part in parts if part is not None)


@checked(estimator=fitted, column=text, by=optional(columns), changes=each(is_change, least=0))
def explain_model(
    estimator: Estimator,
    data: Any,
    column: str,
    by: str | Sequence[str] | None = None,
    changes: Sequence[Change] = (),
) -> Explanation:
    """Elasticities, diversion ratios and what changes of the sets would do.

    Args:
        estimator: a fitted model that has derivatives.
        data: a :class:`~setwise.Choices` or any table with the columns of the training table.
        column: a number among the item features, such as the price.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.
        changes: of the sets, one after the other.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(200)
    >>> found = explain_model(sw.MNL().fit(choices), choices, "cost")
    >>> [row[0] for row in found.rows()], found.diverted
    (['own elasticity', 'cross elasticity'], None)
    """
    return Explanation(
        type(estimator).__name__,
        repr(estimator._choices(data)),
        elasticities(estimator, data, column, by),
        None if by is None else diversion_ratios(estimator, data, column, by),
        counterfactual(estimator, data, list(changes), by=by) if changes else None,
    )


def typed_values(estimator: Estimator, data: Any, texts: Mapping[str, str]) -> dict[str, Any]:
    """Values that were written as text, each read as the kind of its column in the table.

    A category whose names are numbers keeps its names: '1' is not 1.0.

    >>> import setwise as sw
    >>> choices = sw.read({"set": [1, 1], "zone": [1, 2], "cost": [3.0, 4.0], "chosen": [0, 1]},
    ...                   set="set", chosen="chosen", items=["category(zone)", "cost"])
    >>> typed_values(sw.RandomChoice().fit(choices), choices, {"zone": "1", "cost": "3"})
    {'zone': '1', 'cost': 3.0}
    """
    choices = estimator._choices(data)
    return {
        name: _typed(name, column_of(data, choices, name), text) for name, text in texts.items()
    }


def moves(value: float) -> str:
    """An elasticity in words.

    >>> moves(-0.634), moves(0.001)
    ('falls by 0.63 %', 'hardly moves')
    """
    if np.isnan(value):
        return "is not known"
    if abs(value) < 0.005:
        return "hardly moves"
    return f"{'rises' if value > 0 else 'falls'} by {abs(value):.2f} %"


def _matrix_json(matrix: LevelMatrix) -> dict[str, Any]:
    numbers = {name: getattr(matrix, name).tolist() for name in ("values", "low", "high")}
    return {"names": list(matrix.names), **numbers}


def _shares_json(shares: ShareChange) -> dict[str, dict[str, float]]:
    rows = zip(shares.names, shares.before, shares.after, shares.standard_errors, strict=True)
    return {
        name: {"before": float(before), "after": float(after), "standard_error": float(error)}
        for name, before, after, error in rows
    }


def _typed(name: str, column: Column, text: str) -> Any:
    try:
        if column.kind == "number":
            value, dtype = float(text), column.values.dtype
            # A column of short floats holds 0.1 as they have it.
            return float(dtype.type(value)) if dtype.kind == "f" else value
        return text if column.kind == "category" else np.datetime64(text)
    except ValueError:
        known = column.values[~column.missing][:1]
        example = f"; write for example {name}={known[0]}" if len(known) else ""
        raise InputError(
            f"column '{name}' holds {column.kind}s, and '{text}' is none{example}"
        ) from None

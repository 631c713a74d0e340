"""Checks of single columns: what no model can take is refused, with its row and a remedy."""

from collections.abc import Collection

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Bool, Float
from setwise.choices.choices import Choices
from setwise.choices.columns import Column
from setwise.choices.features import Feature
from setwise.choices.tables import Table


def sound(table: Table, feature: Feature, role: str, names: Collection[str] = ()) -> Column:
    """A feature's column, with every value that no model can take refused.

    Text in the columns ``names`` is known to be names.
    """
    name = feature.column
    column = table.column(name, role, feature.category, name in names)
    if feature.transform != "none" and column.kind != "number":
        raise InputError(
            f"feature '{feature}' needs numbers, but column '{name}' is a {column.kind}"
        )
    missing = column.missing
    if missing.any() and not (feature.impute and column.kind != "date"):
        fixed = column.kind == "date" or role == "weight"
        remedy = "fill it" if fixed else f"fill it, or use impute({feature})"
        what = "missing or not a number" if column.kind == "number" else "missing"
        raise InputError(f"column '{name}' is {what} at {_rows(missing)}; {remedy}")
    if column.kind == "number":
        refuse(name, np.isinf(column.values), "infinite", "replace it by a number")
        if feature.transform == "log":
            bad, zero = column.values <= 0, (column.values >= 0) | missing
            remedy = f"use log1p({name})" if zero.all() else f"take {name} as it is, or shift it"
            refuse(name, bad, "not positive", f"log needs positive numbers; {remedy}")
        elif feature.transform != "none":
            bad = column.values < 0
            remedy = f"{feature.transform} needs numbers of at least 0; take {name} as it is"
            refuse(name, bad, "negative", remedy)
    if column.kind == "date":
        early = column.values < np.datetime64("1000-01-01")
        refuse(name, early, "before the year 1000", "write years with four digits")
    return column


def refuse(name: str, bad: Bool[np.ndarray, " rows"], what: str, remedy: str) -> None:
    """An error that names the first bad row, if there is one."""
    if bad.any():
        raise InputError(f"column '{name}' is {what} at {_rows(bad)}; {remedy}")


def _rows(bad: Bool[np.ndarray, " rows"]) -> str:
    count = int(bad.sum())
    return f"row {int(np.argmax(bad))}" + (f" (and {count - 1} more)" if count > 1 else "")


def finite(probability: Float[np.ndarray, " rows"], choices: Choices) -> Float[np.ndarray, " rows"]:
    """Probabilities of these choices' rows, or an error that names a set for which there are none.

    Weights or values near the limits of single precision overflow, and then nothing is known.
    """
    if not np.isfinite(probability).all():
        row = int(np.argmin(np.isfinite(probability)))
        at = int(np.searchsorted(choices.offsets, row, "right")) - 1
        raise InputError(
            f"the model gives no probabilities for set '{choices.roles.set}'="
            f"{choices.set_ids[at]}: its numbers are too large; check the set's columns, or train "
            "the model again"
        )
    return probability

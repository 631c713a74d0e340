"""What reading refuses in a single column: missing and infinite values, wrong types and signs."""

from collections.abc import Iterator

import numpy as np

from setwise.doctor.examination import Finding, counted
from setwise.doctor.examined import Examined

MOSTLY = 0.95


def wrong_type(one: Examined) -> Iterator[Finding]:
    """A type that is no feature, numbers or dates that were written as text."""
    trouble = one.trouble
    if trouble is None:
        return
    rows = () if trouble.row is None else (trouble.row,)
    yield Finding(
        "error", trouble.code, trouble.message, trouble.remedy, one.name, rows, count=trouble.count,
    )  # fmt: skip


def wrong_transform(one: Examined) -> Iterator[Finding]:
    """A logarithm or a root of what has none."""
    transform, name = one.feature.transform, one.name
    if transform == "none" or (one.trouble is not None and one.trouble.code == "type"):
        return
    if one.kind != "number":
        message = f"feature '{one.feature}' needs numbers, but column '{name}' is a {one.kind}"
        yield Finding("error", "wrong-transform", message, f"use {name} as it is", name)
        return
    bad = one.values <= 0 if transform == "log" else one.values < 0
    if bad.any():
        what = "not positive" if transform == "log" else "negative"
        helps = transform == "log" and not (one.values < 0).any()
        yield Finding(
            "error", "wrong-transform",
            f"column '{name}' is {what} in {counted(int(bad.sum()), 'row', len(bad))}, so that "
            f"'{one.feature}' has no value there",
            f"use log1p({name})" if helps else f"use {name} as it is, or correct it",
            name, **one.sets.rows_where(bad),
        )  # fmt: skip


def missing(one: Examined) -> Iterator[Finding]:
    """Values that are absent, and not imputed."""
    if not one.any_missing or (one.trouble is not None and one.trouble.code == "type"):
        return
    name, feature = one.name, one.feature
    bad = one.missing
    number = int(bad.sum())
    what = "missing or not a number" if one.kind == "number" else "missing"
    share = counted(number, "row", len(bad))
    place = one.sets.rows_where(bad)
    if feature.impute and one.kind != "date":
        if one.empty:
            yield Finding(
                "warning", "empty", f"column '{name}' has no value at all to impute from",
                "leave it out: training refuses it", name, **place,
            )  # fmt: skip
        else:
            yield Finding(
                "note", "missing", f"column '{name}' is {what} in {share}",
                f"nothing to do: '{feature}' fills it", name, **place,
            )  # fmt: skip
        return
    if one.empty:
        remedy = f"leave it out of {_roles(one)}: it has no value at all"
    elif one.kind == "date":
        remedy = f"fill it, or leave it out of {_roles(one)}"
    else:
        remedy = f"use impute({feature}), or fill it"
        if number > MOSTLY * len(bad):
            remedy += f"; with so few values, leaving it out of {_roles(one)} may serve better"
    yield Finding(
        "error", "missing", f"column '{name}' is {what} in {share}", remedy, name, **place
    )


def infinite(one: Examined) -> Iterator[Finding]:
    """Infinite numbers."""
    bad = np.isinf(one.values)
    if one.kind == "number" and bad.any():
        yield Finding(
            "error", "infinite",
            f"column '{one.name}' is infinite in {counted(int(bad.sum()), 'row', len(bad))}",
            f"replace it by a number, or by nothing and use impute({one.feature})",
            one.name, **one.sets.rows_where(bad),
        )  # fmt: skip


def early_dates(one: Examined) -> Iterator[Finding]:
    """Dates whose year was written with two digits."""
    if one.kind != "date":
        return
    bad = one.column.values < np.datetime64("1000-01-01")
    if bad.any():
        yield Finding(
            "error", "early-dates",
            f"column '{one.name}' is before the year 1000 in "
            f"{counted(int(bad.sum()), 'row', len(bad))}",
            "write years with four digits", one.name, **one.sets.rows_where(bad),
        )  # fmt: skip


def varying_context(one: Examined) -> Iterator[Finding]:
    """Features of the whole set that differ within one."""
    if one.role != "context" or not one.differs.any():
        return
    yield Finding(
        "error", "context-varies",
        f"column '{one.name}' is in context, but differs within "
        f"{counted(int(one.differs.sum()), 'set', len(one.sets))}",
        f"put {one.feature} into items", one.name, **one.sets.sets_where(one.differs),
    )  # fmt: skip


def _roles(one: Examined) -> str:
    return "items" if one.role == "item" else "context"

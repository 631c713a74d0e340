"""Checks of a table's columns, the grouping of its rows into sets, and the chosen item of each set.

What no model can take is refused, with its place and a remedy.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from setwise import _segments
from setwise._arguments import one_of
from setwise._errors import InputError
from setwise._shapes import Bool, Float, Int, Shaped
from setwise.choices.choices import Choices, Column
from setwise.choices.features import TRANSFORMS, Feature
from setwise.choices.tables import Table


@dataclass(frozen=True, eq=False)
class Grouping:
    """The order that brings the rows of each set together, sets by first appearance.

    Set ``i`` has the rows ``order[offsets[i] : offsets[i + 1]]`` of the table.

    >>> grouping = Grouping.of("trip", np.array([7, 9, 7]), np.arange(3))
    >>> grouping.order.tolist(), grouping.offsets.tolist(), grouping.set_ids.tolist()
    ([0, 2, 1], [0, 2, 3], [7, 9])
    """

    set_name: str
    order: Int[np.ndarray, " kept"]
    offsets: Int[np.ndarray, " sets_and_one"]
    set_ids: Shaped[np.ndarray, " sets"]

    @classmethod
    def of(
        cls, set_name: str, ids: Shaped[np.ndarray, " rows"], kept: Int[np.ndarray, " kept"]
    ) -> "Grouping":
        """Group the kept rows by the id of their set."""
        ids = ids[kept]
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        in_order = np.sort(ids[starts])  # NumPy's unique is many times slower here
        if (in_order[1:] != in_order[:-1]).all():  # already side by side
            return cls(set_name, kept, np.append(starts, len(ids)), ids[starts])
        _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
        by_appearance = np.argsort(np.argsort(first))
        codes = by_appearance[codes.reshape(-1)]
        order = np.argsort(codes, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        return cls(set_name, kept[order], offsets, ids[order][offsets[:-1]])

    def once_per_set(self, column: Column, name: str) -> Column:
        """A column that is constant within each set, reduced to one value per set."""
        ordered = column.take(self.order)
        firsts = ordered.take(self.offsets[:-1])
        spread = np.repeat(firsts.values, np.diff(self.offsets))
        differs = (ordered.values != spread) & ~(ordered.missing & (spread != spread))
        if differs.any():
            row = int(np.argmax(differs))
            set_id = self.set_ids[int(np.searchsorted(self.offsets, row, side="right")) - 1]
            raise InputError(
                f"column '{name}' differs within set '{self.set_name}'={set_id} "
                f"(row {int(self.order[row])}); it must be constant within each set"
                " (item features go in items)",
                row=int(self.order[row]),
                column=name,
                set=set_id,
            )
        return firsts


def valid_column(table: Table, feature: Feature, role: str, names: Collection[str] = ()) -> Column:
    """A feature's column, with every value that no model can take refused.

    Text in the columns ``names`` is known to be names.
    """
    name = feature.column
    column = table.column(name, role, feature.category, name in names)
    if feature.transform != "none" and column.kind != "number":
        raise InputError(
            f"feature '{feature}' needs numbers, but column '{name}' is a {column.kind}; "
            f"convert it to numbers, or take {name} as it is",
            column=name,
        )
    missing = column.missing
    if missing.any() and not (feature.impute and column.kind != "date"):
        fixed = column.kind == "date" or role == "weight"
        remedy = "fill it" if fixed else f"fill it, or use impute({feature})"
        what = "missing or not a number" if column.kind == "number" else "missing"
        refuse(name, missing, what, remedy)
    if column.kind == "number":
        refuse(name, np.isinf(column.values), "infinite", "replace it by a number")
        transform = TRANSFORMS[feature.transform]
        if transform.domain != "all":
            remedy = f"take {name} as it is"
            if transform.domain == "positive":
                zeros = not (column.values < 0).any()
                remedy = f"use log1p({name})" if zeros else f"{remedy}, or shift it"
            remedy = f"{feature.transform} needs {transform.needs}; {remedy}"
            refuse(name, transform.undefined(column.values), transform.outside, remedy)
    if column.kind == "date":
        early = column.values < np.datetime64("1000-01-01")
        refuse(name, early, "before the year 1000", "write years with four digits")
    return column


def refuse(name: str, bad: Bool[np.ndarray, " rows"], what: str, remedy: str) -> None:
    """An error that names the first bad row, if there is one."""
    if bad.any():
        row, more = int(np.argmax(bad)), int(bad.sum()) - 1
        rows = f"row {row} (and {more} more)" if more else f"row {row}"
        raise InputError(f"column '{name}' is {what} at {rows}; {remedy}", row=row, column=name)


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
            "the model again",
            set=choices.set_ids[at],
        )
    return probability


@dataclass(frozen=True)
class Irregular:
    """What to do with sets and rows that a choice model cannot take as they are."""

    on_none: Literal["error", "drop", "outside"] = "error"
    on_multiple: Literal["error", "drop"] = "error"
    on_duplicate: Literal["error", "drop", "keep"] = "error"

    def __post_init__(self) -> None:
        allowed = {
            "on_none": ("error", "drop", "outside"),
            "on_multiple": ("error", "drop"),
            "on_duplicate": ("error", "drop", "keep"),
        }
        for name, values in allowed.items():
            one_of(*values)(name, getattr(self, name))


def marks(table: Table, name: str) -> Bool[np.ndarray, " rows"]:
    """The chosen column as booleans, refusing anything but 0 and 1."""
    column = table.column(name, "chosen")
    if column.kind != "number":
        what = "text or categories" if column.kind == "category" else "dates"
        remedy = f"compare it with the word for chosen, such as table['{name}'] == 'yes'"
        if set(column.levels or "?") <= {"0", "1"}:
            remedy = f"convert it, such as table['{name}'].astype(int)"
        raise InputError(
            f"chosen column '{name}' holds {what}, such as '{column.text()[0]}' at row 0; it must "
            f"hold 0 and 1, or booleans: {remedy}",
            row=0,
            column=name,
        )
    wrong = ~np.isin(column.values, (0, 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        value = float(column.values[row])
        found = "missing" if value != value else str(int(value) if value % 1 == 0 else value)
        raise InputError(
            f"chosen column '{name}' is {found} at row {row}; each row needs 0 or 1",
            row=row,
            column=name,
        )
    return column.values == 1


def with_choice(
    choices: Choices, marked: Bool[np.ndarray, " rows"], irregular: Irregular
) -> Choices:
    """Find the chosen item of each set; other sets are refused, dropped, or chose the outside."""
    counts = _segments.sums(marked, choices.offsets)
    several, none = counts > 1, counts == 0
    name = choices.roles.set
    if several.any() and irregular.on_multiple == "error":
        which = int(np.argmax(several))
        raise InputError(
            f"set '{name}'={choices.set_ids[which]} has {counts[which]} chosen items; each set "
            'needs exactly one (use on_multiple="drop" to skip such sets)',
            set=choices.set_ids[which],
        )
    if none.any() and irregular.on_none == "error" and not choices.outside:
        set_id = choices.set_ids[np.argmax(none)]
        raise InputError(
            f"set '{name}'={set_id} has no chosen item; each set needs exactly one (use "
            'on_none="drop" to skip such sets, or on_none="outside" if choosing nothing was '
            "possible)",
            set=set_id,
        )
    position = np.arange(len(marked)) - np.repeat(choices.offsets[:-1], choices.sizes)
    chosen = np.where(none, choices.sizes, 0)
    sets = np.repeat(np.arange(len(choices)), choices.sizes)
    chosen[sets[marked]] = position[marked]
    outside = choices.outside and irregular.on_none != "drop"
    keep = ~several if outside else ~several & ~none
    dropped = replace(
        choices.dropped,
        without_choice=0 if outside else int(none.sum()),
        several_choices=int(several.sum()),
    )
    if not keep.any():
        raise InputError("no set is left: every set has no or several chosen items")
    whole = replace(choices, chosen=chosen, dropped=dropped)
    return whole if keep.all() else whole.take(np.flatnonzero(keep))

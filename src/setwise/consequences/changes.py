"""Changes of an assortment: an item more, items less, or a column with other values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise import _segments
from setwise._arguments import anything, by_name, check_all, instance, number, optional, text
from setwise._errors import InputError
from setwise.choices import Choices, Schema
from setwise.choices.columns import Column
from setwise.choices.encoders import OTHER

Where = Mapping[str, Any]
"""Columns and the value, or list of values, that a row must have in each of them."""

ADDED = -1  # in place of a row of the table


@dataclass(frozen=True)
class Reprice:
    """Other values in a number column: times a factor, or a function of those that are there.

    ``where`` says in which rows, such as ``{"mode": "train"}`` or ``{"mode": ["train", "bus"]}``.
    """

    column: str
    to: float | int | Callable[[Float[np.ndarray, " rows"]], Float[np.ndarray, " rows"]]
    where: Where | None = None

    def __post_init__(self) -> None:
        check = anything if callable(self.to) else number()
        checks = {"column": text, "to": check, "where": optional(by_name(anything, least=0))}
        check_all(checks, vars(self))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return tuple(self.where or ())

    def __call__(self, choices: Choices, schema: Schema) -> Choices:
        """The choices after it, for a model with this schema."""
        transforms = {
            e.feature.column: e.feature.transform for e in schema.items if e.kind == "number"
        }
        if self.column not in transforms:
            raise InputError(
                f"the model has no number column '{self.column}' among its items to change; it "
                f"has: {', '.join(transforms)}"
            )
        rows = matching(choices, self.where)
        old = choices.columns[self.column].values
        new = old.astype(np.float64)
        new[rows] = self.to(new[rows]) if callable(self.to) else new[rows] * self.to
        bad = ~np.isfinite(new) & ~np.isnan(old)
        if transforms[self.column] != "none":
            bad |= new <= 0 if transforms[self.column] == "log" else new < 0
        if bad.any():
            at = int(np.argmax(bad))
            raise InputError(
                f"the change makes '{self.column}' {new[at]:g} at row {int(choices.rows[at])} "
                f"(it was {old[at]:g}), which the model cannot read; choose another factor"
            )
        return replace(choices, columns={**choices.columns, self.column: Column(new)})

    def __str__(self) -> str:
        what = "a function of it" if callable(self.to) else f"× {self.to:g}"
        return f"'{self.column}' {what}{_said(self.where)}"


@dataclass(frozen=True)
class Remove:
    """Items that are no longer offered: all rows that have these values."""

    where: Where

    def __post_init__(self) -> None:
        by_name(anything)("where", self.where)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return tuple(self.where)

    def __call__(self, choices: Choices, schema: Schema) -> Choices:
        """The choices after it, for a model with this schema."""
        stays = ~matching(choices, self.where)
        owner = _segments.owners(choices.offsets)
        left = np.bincount(owner[stays], minlength=len(choices))
        if not schema.outside and (left == 0).any():
            which = choices.set_ids[int(np.argmax(left == 0))]
            raise InputError(
                f"nothing would be left in set '{choices.roles.set}'={which} "
                f"({int((left == 0).sum()):,} such sets in all); remove less, or leave them out"
            )
        return replace(
            choices,
            columns={name: column.take(stays) for name, column in choices.columns.items()},
            offsets=_segments.offsets_of(left),
            table_rows=choices.rows[stays],
        )

    def __str__(self) -> str:
        return f"without items{_said(self.where)}"


@dataclass(frozen=True)
class Add:
    """One more item in every set, the last of them.

    ``item`` gives its value in every item column (and in those that name alternatives): one for
    all sets, or a sequence with one a set.
    """

    item: Mapping[str, Any]

    def __post_init__(self) -> None:
        by_name(anything)("item", self.item)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return tuple(self.item)

    def __call__(self, choices: Choices, schema: Schema) -> Choices:
        """The choices after it, for a model with this schema."""
        missing = [name for name in choices.columns if name not in self.item]
        if missing:
            raise InputError(f"the item to add has no value of {', '.join(missing)}; give one")
        _check_levels(self.item, schema)
        ends = choices.offsets[1:]
        return replace(
            choices,
            columns={
                name: _inserted(name, column, self.item[name], ends)
                for name, column in choices.columns.items()
            },
            offsets=choices.offsets + np.arange(len(choices.offsets)),
            table_rows=np.insert(choices.rows, ends, ADDED),
        )

    def __str__(self) -> str:
        few = ", ".join(
            f"{name}={value if np.ndim(value) == 0 else '…'}" for name, value in self.item.items()
        )
        return f"with an item more: {few}"


Change = Reprice | Remove | Add


def is_change(name: str, value: Any) -> None:
    """Check an argument that must be a change."""
    remedy = "give a Reprice, Remove or Add of setwise.consequences"
    instance((Reprice, Remove, Add), remedy)(name, value)


def matching(choices: Choices, where: Where | None) -> Bool[np.ndarray, " rows"]:
    """The rows that have one of the values wanted in each column; there is at least one.

    >>> import setwise as sw
    >>> choices = sw.read({"set": [1, 1], "mode": ["bus", "car"], "chosen": [0, 1]},
    ...                   set="set", chosen="chosen")
    >>> matching(choices, {"mode": "car"}).tolist()
    [False, True]
    """
    rows = np.ones(int(choices.offsets[-1]), bool)
    for name, wanted in (where or {}).items():
        several = list(wanted) if isinstance(wanted, (list, tuple, set, np.ndarray)) else [wanted]
        rows &= np.isin(choices.columns[name].text(), several)
    if not rows.any():
        raise InputError(f"no item is one{_said(where)}; look at the values of these columns")
    return rows


def _said(where: Where | None) -> str:
    parts = [f"{name}={value!r}" for name, value in (where or {}).items()]
    return f" where {' and '.join(parts)}" if parts else ""


def _check_levels(item: Mapping[str, Any], schema: Schema) -> None:
    """Refuse levels of a category that the model never saw, before they have no row to name."""
    for encoder in schema.items:
        if encoder.kind == "category" and OTHER not in encoder.levels:
            name = encoder.feature.column
            new = [str(one) for one in np.atleast_1d(item[name]) if str(one) not in encoder.levels]
            if new:
                raise InputError(
                    f"the item to add has {name}={new[0]}, which training data did not have (it "
                    f"had: {', '.join(encoder.levels[:8])})"
                )


def _inserted(name: str, column: Column, value: Any, ends: Int[np.ndarray, " sets"]) -> Column:
    """The column with one more value at the end of each set."""
    values: Any = np.asarray(value)
    if values.ndim > 0 and values.shape != ends.shape:
        raise InputError(
            f"the item to add has {values.size} values of '{name}', and there are {len(ends)} "
            "sets; give one for all, or one a set"
        )
    if column.levels is None:
        if values.dtype.kind not in "fiubM":
            raise InputError(f"column '{name}' is a {column.kind}, and {value!r} is none")
        kept = column.values if column.kind == "date" else column.values.astype(np.float64)
        return Column(np.insert(kept, ends, values))
    texts = np.broadcast_to(values.astype(str), ends.shape)
    levels = list(dict.fromkeys([*column.levels, *texts.tolist()]))
    codes = np.array([levels.index(text) for text in texts], column.values.dtype)
    return Column(np.insert(column.values, ends, codes), tuple(levels))


def applied(changes: Sequence[Change], choices: Choices, schema: Schema) -> Choices:
    """The choices after all changes, one after the other; what was chosen is no longer known."""
    for change in changes:
        choices = change(choices, schema)
    return replace(choices, chosen=None, fold=None)

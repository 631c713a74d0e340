"""Counterfactual assortments: what a model expects if items are added, removed or repriced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from setwise import _segments
from setwise._arguments import (
    anything,
    by_name,
    check_all,
    checked,
    columns,
    each,
    instance,
    number,
    optional,
    shown,
    text,
)
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise.choices import Choices, Schema
from setwise.choices.alternatives import OUTSIDE, Alternatives, column_of
from setwise.choices.choices import Column
from setwise.choices.encoders import OTHER
from setwise.consequences.derived_columns import TOO, warn_of_derived
from setwise.consequences.shares import of_sets, offsets_with, probabilities
from setwise.consequences.willingness import surplus
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.metrics import SetMean, standard_error

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
            table_rows=choices.cells[stays],
        )

    def __str__(self) -> str:
        return f"without items{_said(self.where)}"


@dataclass(frozen=True)
class Add:
    """One more item in every set, the last of them.

    ``item`` gives its value in every item column (and in those that name alternatives): one for
    all sets, or a sequence with one per set.
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
            table_rows=np.insert(choices.cells, ends, ADDED),
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
            "sets; give one for all, or one per set"
        )
    if column.levels is None:
        fits = values.dtype.kind == "M" if column.kind == "date" else values.dtype.kind in "fiub"
        if not fits or not np.isfinite(values).all():
            example = "numpy.datetime64('2020-12-31')" if column.kind == "date" else "3.0"
            raise InputError(
                f"column '{name}' is a {column.kind}, and {shown(value)} of the item to add is "
                f"none; give one such as {example}"
            )
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


ROWS_SHOWN = 12  # in a notebook

__all__ = ["Add", "Counterfactual", "Remove", "Reprice", "ShareChange", "counterfactual"]


@dataclass(frozen=True, eq=False)
class ShareChange:
    """Expected shares of alternatives before and after, with the standard error of the change."""

    names: tuple[str, ...]
    before: Float[np.ndarray, " levels"]
    after: Float[np.ndarray, " levels"]
    standard_errors: Float[np.ndarray, " levels"]
    """Of the change, after - before: each set is compared with itself."""

    def to_frame(self) -> Any:
        """A Polars frame: alternative, before, after, change, standard_error (of the change)."""
        import polars as pl

        columns = {
            "alternative": list(self.names), "before": self.before, "after": self.after,
            "change": self.after - self.before, "standard_error": self.standard_errors,
        }  # fmt: skip
        return pl.DataFrame(columns, nan_to_null=True)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, title: str = "", note: str = "") -> str:
        """The table as a notebook shows it, with a line above and one below."""
        rows = [
            [name, f"{before:.4f}", f"{after:.4f}", f"{change:+.4f}",
             "" if error is None else f"{error:.4f}"]
            for name, before, after, change, error in self.to_frame().rows()
        ]  # fmt: skip
        heads = ["alternative", "before", "after", "change", "± s.e."]
        return notebook_html(heads, rows, title=title, note=note)

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "alternative"))
        lines = [
            f"{'alternative':<{width}} {'before':>9} {'after':>9} {'change':>9}  {'± s.e.':>8}"
        ]
        rows = zip(self.names, self.before, self.after, self.standard_errors, strict=True)
        for name, before, after, error in rows:
            change = after - before
            lines.append(
                f"{name:<{width}} {before:>9.4f} {after:>9.4f} {change:>+9.4f}  {error:>8.4f}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """One row per item that was there before or is there after, in the order of the sets."""

    changes: tuple[Change, ...]
    set_ids: Shaped[np.ndarray, " rows"]
    row: Int[np.ndarray, " rows"]
    """In the table; -1 for an item that was added."""
    before: Float[np.ndarray, " rows"]
    """P(x | s) before; 0 for an item that was not there."""
    after: Float[np.ndarray, " rows"]
    """P(x | s) after; 0 for an item that is gone."""
    sets: int
    shares: ShareChange | None
    """The shares of alternatives, if ``by`` names them."""
    surplus: SetMean | None
    """Change of consumer surplus per choice, in units of price, where ``price`` is named."""

    def to_frame(self) -> Any:
        """A Polars frame with the columns set, row, before and after."""
        import polars as pl

        return pl.DataFrame(
            {"set": self.set_ids, "row": self.row, "before": self.before, "after": self.after}
        )

    def _repr_html_(self) -> str:
        title = f"{self._changes()}; {self._leaving()}"
        if self.shares is not None:
            return self.shares.html(title, self._surplus())
        first = self.to_frame().head(ROWS_SHOWN)
        rows = [[str(set), str(row), f"{p:.4f}", f"{q:.4f}"] for set, row, p, q in first.rows()]
        note = "" if len(self.row) <= ROWS_SHOWN else f"The first of {len(self.row):,} rows."
        return notebook_html(first.columns, rows, title=title, note=f"{note} {self._surplus()}")

    def __str__(self) -> str:
        lines = [self._changes(), self._leaving()]
        if self.shares is not None:
            lines.append(str(self.shares))
        return "\n".join([*lines, self._surplus()] if self.surplus is not None else lines)

    def _changes(self) -> str:
        return f"{self.sets:,} sets; " + "; then ".join(str(one) for one in self.changes)

    def _leaving(self) -> str:
        left = np.maximum(self.before - self.after, 0).sum() / self.sets
        return f"of 100 choices, {100 * left:.1f} leave their item"

    def _surplus(self) -> str:
        if self.surplus is None:
            return ""
        low, high = self.surplus.interval()
        return (
            f"consumer surplus per choice {self.surplus.mean:+.4f}, 95% over sets from "
            f"{low:+.4f} to {high:+.4f}, in units of price"
        )


def _one_or_several(name: str, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        each(is_change)(name, value)
    else:
        is_change(name, value)


@checked(estimator=fitted, change=_one_or_several, by=optional(columns), price=optional(text))
def counterfactual(
    estimator: Estimator,
    data: Any,
    change: Change | Sequence[Change],
    *,
    by: str | Sequence[str] | None = None,
    price: str | None = None,
) -> Counterfactual:
    """What the model expects before and after a change of the sets.

    The change is one of :class:`Reprice`, :class:`Remove` and :class:`Add`, or several in turn.
    Context-dependent models see the changed set as a whole: odds of items that stay may move.

    Args:
        estimator: a fitted model, any of them.
        data: a :class:`~setwise.Choices`, whose weights count in shares and surplus, or any table
            with the columns of the training table.
        change: what is different.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart;
            gives their shares before and after.
        price: the price column of an ``MNL``, ``NestedLogit`` or ``MixedMNL``; gives the change of
            consumer surplus, (logsum after - logsum before) / -beta_price.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(300)
    >>> model, modes = sw.MNL().fit(choices), ["is_train", "is_sm", "is_car"]
    >>> dearer = counterfactual(model, choices, Reprice("cost", 1.2, {"is_car": 1}), by=modes)
    >>> bool(dearer.shares.after[2] < dearer.shares.before[2])
    True
    """
    choices = estimator.as_choices(data)
    if choices.ranking is not None:
        raise InputError(
            "these choices are the stages of rankings, in which an item is there several times; "
            "give the table that they were read from"
        )
    changes = tuple(change) if isinstance(change, Sequence) else (change,)
    names = {name for one in changes for name in one.columns}
    names |= set() if by is None else {by} if isinstance(by, str) else set(by)
    schema, known = estimator.schema_, with_columns(choices, data, names)
    changed = applied(changes, known, schema)
    moved = [one.column for one in changes if isinstance(one, Reprice)]
    if moved:
        warn_of_derived(estimator, choices, moved, TOO)
    before = probabilities(estimator, choices)
    after = probabilities(estimator, changed)
    old, new = _items(before, choices, schema.outside), _items(after, changed, schema.outside)
    sets, row, was, will = _joined(choices, changed, old, new)
    shares = None
    if by is not None:
        each = [
            _levels(one, probability, by, schema.outside)
            for one, probability in ((known, before), (changed, after))
        ]
        shares = _share_change(each, choices.weight)
    worth = None
    if price is not None:
        gained = surplus(estimator, changed, price) - surplus(estimator, choices, price)
        worth = SetMean(gained, choices.weight)
    return Counterfactual(
        changes, choices.set_ids[sets], row, was, will, len(choices), shares, worth
    )


def with_columns(choices: Choices, data: Any, names: set[str]) -> Choices:
    """In memory, with these columns of the table added to the features."""
    loaded = choices.in_memory()
    more = {n: column_of(data, choices, n) for n in sorted(names) if n not in loaded.columns}
    return replace(loaded, columns={**loaded.columns, **more})


def _items(
    probability: Float[np.ndarray, " rows"], choices: Choices, outside: bool
) -> Float[np.ndarray, " items"]:
    """Without the outside options."""
    if not outside:
        return probability
    return np.delete(probability, choices.offsets[1:] + np.arange(len(choices)))


def _joined(
    choices: Choices,
    changed: Choices,
    old: Float[np.ndarray, " before"],
    new: Float[np.ndarray, " after"],
) -> tuple[Any, Any, Any, Any]:
    """Set, row of the table, P before and P after, of every item that is in either."""
    owner, of_new = _segments.owners(choices.offsets), _segments.owners(changed.offsets)
    added = changed.cells == ADDED
    will = np.zeros(len(old))
    # A cell of the table is in one set once: it finds its item again.
    order = np.argsort(choices.cells)
    will[order[np.searchsorted(choices.cells, changed.cells[~added], sorter=order)]] = new[~added]
    sets = np.concatenate([owner, of_new[added]])
    place = np.argsort(sets, kind="stable")  # added items come after the others of their set
    none = np.zeros(int(added.sum()))
    row = np.concatenate([choices.rows, changed.cells[added]])
    was, will = np.concatenate([old, none]), np.concatenate([will, new[added]])
    return sets[place], row[place], was[place], will[place]


def _levels(
    choices: Choices,
    probability: Float[np.ndarray, " rows"],
    by: str | Sequence[str],
    outside: bool,
) -> tuple[tuple[str, ...], Float[np.ndarray, "sets levels"]]:
    """The alternatives, and of each set what each of them has."""
    known = Alternatives.of(choices, choices, by, outside)
    return known.names, of_sets(probability, offsets_with(choices, outside), known)


def _share_change(
    each: list[tuple[tuple[str, ...], Float[np.ndarray, "sets _"]]],
    weight: Float[np.ndarray, " sets"] | None,
) -> ShareChange:
    """Shares of all alternatives that are there before or after."""
    names = list(dict.fromkeys(name for found, _ in each for name in found))
    names.sort(key=lambda name: name == OUTSIDE)
    before, after = (
        np.stack([p[:, found.index(n)] if n in found else np.zeros(len(p)) for n in names], 1)
        for found, p in each
    )
    share = np.ones(len(before)) if weight is None else weight
    share = share / share.sum()
    errors = np.array([standard_error(one, share) for one in (after - before).T])
    return ShareChange(tuple(names), share @ before, share @ after, errors)

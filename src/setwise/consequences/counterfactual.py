"""Counterfactual assortments: what a model expects if items come, go or change their price."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise import _segments
from setwise._arguments import checked, columns, each, optional, text
from setwise._page import notebook_html
from setwise.choices import Choices
from setwise.choices.alternatives import OUTSIDE, Alternatives, column_of
from setwise.consequences.changes import ADDED, Add, Change, Remove, Reprice, applied, is_change
from setwise.consequences.moved import TOO, warn_of_derived
from setwise.consequences.shares import of_sets, offsets_with, probabilities
from setwise.consequences.surplus import surplus
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.metrics import SetMean, standard_error

ROWS_SHOWN = 12  # in a notebook

__all__ = ["Add", "Counterfactual", "Remove", "Reprice", "ShareChange", "counterfactual"]


@dataclass(frozen=True, eq=False)
class ShareChange:
    """Expected shares of alternatives before and after, with the standard error of the change."""

    names: tuple[str, ...]
    before: Float[np.ndarray, " levels"]
    after: Float[np.ndarray, " levels"]
    standard_errors: Float[np.ndarray, " levels"]
    """Of after - before, over sets: each set is compared with itself."""

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
    """One row an item that was there before or is there after, in the order of the sets."""

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
    """Of alternatives, where ``by`` names them."""
    surplus: SetMean | None
    """Change of consumer surplus a choice, in units of price, where ``price`` is named."""

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
            f"consumer surplus a choice {self.surplus.mean:+.4f}, 95% over sets from "
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
    """In memory, with these columns of the table beside the features."""
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
    added = changed.rows == ADDED
    will = np.zeros(len(old))
    # A row of the table is in one set once: it finds its item again.
    order = np.argsort(choices.rows)
    will[order[np.searchsorted(choices.rows, changed.rows[~added], sorter=order)]] = new[~added]
    sets = np.concatenate([owner, of_new[added]])
    place = np.argsort(sets, kind="stable")  # added items come after the others of their set
    none = np.zeros(int(added.sum()))
    row = np.concatenate([choices.rows, changed.rows[added]])
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

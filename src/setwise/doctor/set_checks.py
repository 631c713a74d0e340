"""Checks of the sets and of what was chosen in them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int

from setwise.choices.column_types import EXACT
from setwise.doctor.examination import Finding, Summary, counted
from setwise.doctor.sets import EXAMPLES, Sets, comparable
from setwise.doctor.typed import understood

if TYPE_CHECKING:
    import polars as pl

BARS = 12


def missing_ids(name: str, ids: "pl.Series") -> Iterator[Finding]:
    """Rows that belong to no set."""
    rows = comparable(ids).is_null().arg_true()
    if len(rows):
        yield Finding(
            "error", "set-missing",
            f"set column '{name}' is missing in {counted(len(rows), 'row', len(ids))}, which were "
            "left out of this examination",
            "give every row the id of its set, or delete the row", name,
            tuple(rows.head(EXAMPLES).to_list()), count=len(rows),
        )  # fmt: skip
    if ids.dtype.is_float():
        rounded = (ids.abs() >= EXACT).fill_null(False) & ids.is_not_nan()
        rows = rounded.arg_true()
        if len(rows):
            yield Finding(
                "error", "set-rounded",
                f"set column '{name}' is infinite or beyond 2**53 in "
                f"{counted(len(rows), 'row', len(ids))}, and floats cannot tell such ids apart",
                "give it as whole numbers or text", name, tuple(rows.head(EXAMPLES).to_list()),
                count=len(rows),
            )  # fmt: skip


def marks(
    name: str, series: "pl.Series", sets: Sets
) -> tuple[Bool[np.ndarray, " rows"] | None, list[Finding]]:
    """The chosen column as booleans, and what is wrong with it.

    Missing values count as not chosen; with other values than 0 and 1 nothing is known.
    """
    column, trouble = understood(name, series)
    if trouble is not None or column.kind != "number":
        what = trouble.message if trouble else f"column '{name}' is a {column.kind}"
        return None, [
            Finding(
                "error", "chosen-values", f"{what}; it is the chosen column, so that choices and "
                "leaks were not examined",
                "write 1 for the chosen item and 0 for the others, as numbers", name,
            )
        ]  # fmt: skip
    values = sets.arranged(column.values)
    wrong = ~np.isin(values, (0, 1))
    if not wrong.any():
        return values == 1, []
    gone = np.isnan(values)
    only_gaps = bool((wrong == gone).all())
    shown = "missing" if only_gaps else f"{values[np.argmax(wrong & ~gone)]:g}"
    after = "counted as not chosen here" if only_gaps else "choices and leaks were not examined"
    finding = Finding(
        "error", "chosen-values",
        f"chosen column '{name}' is neither 0 nor 1 in "
        f"{counted(int(wrong.sum()), 'row', len(wrong))}, such as {shown}; {after}",
        "write 1 for the chosen item and 0 for the others", name, **sets.rows_where(wrong),
    )  # fmt: skip
    return (values == 1 if only_gaps else None), [finding]


def without_choice(sets: Sets) -> Iterator[Finding]:
    """Sets in which nothing is marked as chosen."""
    if sets.marks is not None and (none := sets.choices == 0).any():
        yield Finding(
            "error", "no-choice",
            f"{counted(int(none.sum()), 'set', len(sets))} without a chosen item; each set needs "
            "exactly one",
            'use on_none="drop" (--on-none drop) to skip them, or "outside" if choosing nothing '
            "was possible",
            **sets.sets_where(none),
        )  # fmt: skip


def several_choices(sets: Sets) -> Iterator[Finding]:
    """Sets in which more than one item is marked."""
    if sets.marks is not None and (several := sets.choices > 1).any():
        chosen = sets.rows_where(sets.marks & sets.spread(several))
        yield Finding(
            "error", "several-choices",
            f"{counted(int(several.sum()), 'set', len(sets))} with several chosen items; each set "
            "needs exactly one",
            'use on_multiple="drop" (--on-multiple drop) to skip them',
            rows=chosen["rows"], sets=sets.sets_where(several)["sets"], count=int(several.sum()),
        )  # fmt: skip


def single_items(sets: Sets) -> Iterator[Finding]:
    """Sets of one item, where there is nothing to choose."""
    if (single := sets.sizes == 1).any():
        yield Finding(
            "warning", "one-item-sets",
            f"{counted(int(single.sum()), 'set', len(sets))} of one item only, which teach nothing "
            "and flatter every measure",
            "leave them out: choices.limit(min_items=2) (--min-items 2)",
            **sets.sets_where(single),
        )  # fmt: skip


def rows_apart(sets: Sets) -> Iterator[Finding]:
    """Rows of one set that do not follow each other."""
    if sets.order is None:
        return
    jumps = np.diff(sets.order, prepend=sets.order[0] - 1) > 1
    jumps[sets.offsets[:-1]] = False
    if jumps.any():
        number = int((sets.total(jumps) > 0).sum())
        yield Finding(
            "note", "rows-apart",
            f"the rows of {counted(number, 'set', len(sets))} do not follow each other",
            "nothing to do for reading; sort large tables by set to read them faster",
            **(sets.rows_where(jumps) | {"count": number}),
        )  # fmt: skip


SET_CHECKS = (without_choice, several_choices, single_items, rows_apart)


def summary(
    sizes: Int[np.ndarray, " sets"], choices: int | None, rows: int, columns: int
) -> Summary:
    """The table in numbers."""
    low, high = int(sizes.min()), int(sizes.max())
    edges = np.unique(np.linspace(low, high + 1, min(BARS, high + 1 - low) + 1).round().astype(int))
    counts, _ = np.histogram(sizes, edges)
    bars = zip(edges[:-1].tolist(), (edges[1:] - 1).tolist(), counts.tolist(), strict=True)
    return Summary(
        rows, columns, len(sizes), choices,
        low, float(np.median(sizes)), float(sizes.mean()), high, tuple(bars),
    )  # fmt: skip

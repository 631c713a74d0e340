"""The door: every check of outside data happens here, once; inside, code assumes it is sound."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int, Shaped

from setwise._errors import InputError
from setwise.choices.choices import Choices, Dropped
from setwise.choices.columns import Column
from setwise.choices.features import Feature, Roles
from setwise.choices.tables import Table, open_table


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
            if getattr(self, name) not in values:
                raise InputError(f"{name}={getattr(self, name)!r} is not one of {values}")


def read(
    table: Any,
    *,
    set: Any,
    chosen: Any = None,
    items: Sequence[str] | None = None,
    context: Sequence[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    on_none: Literal["error", "drop", "outside"] = "error",
    on_multiple: Literal["error", "drop"] = "error",
    on_duplicate: Literal["error", "drop", "keep"] = "error",
    rare: float = 0.01,
) -> Choices:
    """Read choices from a long table: one row an item, rows of one set in any order.

    Args:
        table: a path to Parquet or CSV, a Polars or pandas frame, a mapping of arrays, or a
            matrix; with a matrix, ``set`` and ``chosen`` are vectors (``set`` holds one id a row,
            or the sizes of consecutive sets as LightGBM's ``group`` does).
        set: the column that names the choice set of each row.
        chosen: the 0/1 column that marks the chosen item; leave it out for prediction.
        items: features of items, as names or expressions such as ``log(price)``
            (see :mod:`setwise.choices.features`); by default every column without another role.
        context: features of the whole set (the person, the search), constant within a set.
        weight: a positive weight a set.
        group: a column such as the user's id, for splits that keep each user on one side.
        time: a column to split by time.
        on_none: sets without a choice: "error", "drop", or "outside" (an outside option joins
            every set, and was taken where nothing was chosen).
        on_multiple: sets with several choices: "error" or "drop".
        on_duplicate: rows equal to an earlier row in every column: "error", "drop" or "keep".
        rare: category levels in fewer than this share of the training rows are grouped as "other".

    >>> import setwise as sw
    >>> sw.read({"trip": [1, 1, 2, 2], "cost": [3.0, 1.0, 2.0, 5.0], "taken": [0, 1, 1, 0]},
    ...         set="trip", chosen="taken", items=["log(cost)"])
    Choices(2 sets of 2 items, 4 rows; items: log(cost))
    """
    irregular = Irregular(on_none, on_multiple, on_duplicate)
    if isinstance(table, np.ndarray):
        table, set, chosen, items = _from_matrix(table, set, chosen, items)
    opened = open_table(table)
    taken = [set, chosen, weight, group, time]
    context_features = tuple(Feature.parse(text, opened.names) for text in context)
    if items is None:
        taken += [feature.column for feature in context_features]
        items = [name for name in opened.names if name not in taken]
    features = tuple(Feature.parse(text, opened.names) for text in items)
    roles = Roles(set, chosen, features, context_features, weight, group, time)
    return read_as(roles, opened, irregular, rare)


def read_as(
    roles: Roles, table: Table, irregular: Irregular, rare: float = 0.01, outside: bool = False
) -> Choices:
    """Read a table whose columns' roles are known: what :func:`read` and prediction share."""
    _check_roles(roles, table)
    ids = table.ids(roles.set, "set")
    kept, duplicates = _without_duplicates(table, irregular, roles.set, ids)
    order, offsets, set_ids = _group_rows(ids, kept)
    columns = {
        feature.column: _sound(table, feature, "item").take(order) for feature in roles.items
    }
    context = {
        feature.column: _once_a_set(
            _sound(table, feature, "context"), feature.column, order, offsets, roles.set, set_ids
        )
        for feature in roles.context
    }
    choices = Choices(
        roles, columns, context, offsets, order, set_ids,
        weight=_weights(table, roles, order, offsets, set_ids),
        group=_split_column(table, "group", roles, order, offsets, set_ids),
        time=_split_column(table, "time", roles, order, offsets, set_ids),
        outside=outside or irregular.on_none == "outside", rare=rare,
        dropped=Dropped(duplicate_rows=duplicates),
    )  # fmt: skip
    if roles.chosen is None:
        return choices
    return _with_choice(choices, _marks(table, roles.chosen)[order], irregular)


def _from_matrix(
    matrix: Shaped[np.ndarray, "rows d"], sets: Any, chosen: Any, names: Sequence[str] | None
) -> tuple[dict[str, np.ndarray], str, str | None, list[str]]:
    """A matrix with vectors for set and chosen, as named columns."""
    if matrix.ndim != 2:
        raise InputError(f"the feature matrix has shape {matrix.shape}; it needs rows x features")
    rows, features = matrix.shape
    names = [f"x{i}" for i in range(features)] if names is None else list(names)
    if len(names) != features:
        raise InputError(f"items names {len(names)} features, but the matrix has {features}")
    ids = np.asarray(sets)
    if len(ids) != rows and ids.dtype.kind in "iu" and ids.sum() == rows:
        ids = np.repeat(np.arange(len(ids)), ids)  # sizes of consecutive sets, as in LightGBM
    table = {name: matrix[:, i] for i, name in enumerate(names)} | {"set": ids}
    if chosen is not None:
        table["chosen"] = np.asarray(chosen)
    for role in ("set", "chosen"):
        if role in table and table[role].shape != (rows,):
            raise InputError(
                f"{role}= has shape {table[role].shape}; a matrix of {rows} rows needs one value a "
                "row (or, for set=, sizes that add up to the rows)"
            )
    return table, "set", None if chosen is None else "chosen", names


def _check_roles(roles: Roles, table: Table) -> None:
    if table.rows == 0:
        raise InputError("the table is empty; it needs at least one set of items")
    for name, role in ((roles.set, "set"), (roles.chosen, "chosen"), (roles.weight, "weight")):
        if name is not None:
            table.series(name, role)
    if not roles.items:
        raise InputError("there are no item features; name at least one column in items")
    used = [feature.column for feature in roles.items + roles.context]
    for name in used:
        if used.count(name) > 1:
            raise InputError(f"column '{name}' is named twice among items and context; keep one")
        if name in (roles.set, roles.chosen):
            role = "set" if name == roles.set else "chosen"
            raise InputError(
                f"column '{name}' is the {role} column; it cannot be a feature as well"
            )


def _without_duplicates(
    table: Table, irregular: Irregular, set_name: str, ids: Shaped[np.ndarray, " rows"]
) -> tuple[Int[np.ndarray, " kept"], int]:
    """Row numbers to keep, and how many repeated rows were left out."""
    everything = np.arange(table.rows)
    if irregular.on_duplicate == "keep":
        return everything, 0
    repeated = table.duplicates()
    if repeated.any() and irregular.on_duplicate == "error":
        row = int(np.argmax(repeated))
        raise InputError(
            f"row {row} repeats an earlier row of set '{set_name}'={ids[row]} in every column "
            f'({int(repeated.sum())} such rows in all); use on_duplicate="drop" to keep the '
            'first of each, or on_duplicate="keep" if they are different items'
        )
    return everything[~repeated], int(repeated.sum())


def _group_rows(
    ids: Shaped[np.ndarray, " rows"], kept: Int[np.ndarray, " kept"]
) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " sets_and_one"], Shaped[np.ndarray, " sets"]]:
    """Rows ordered so that sets are contiguous, sets in order of first appearance."""
    ids = ids[kept]
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    if len(np.unique(ids[starts])) == len(starts):  # already side by side
        return kept, np.append(starts, len(ids)), ids[starts]
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(np.argsort(first))
    codes = by_appearance[codes.reshape(-1)]
    order = np.argsort(codes, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    return kept[order], offsets, ids[order][offsets[:-1]]


def _sound(table: Table, feature: Feature, role: str) -> Column:
    """A feature's column, with every value that no model can take refused."""
    name = feature.column
    column = table.column(name, role, feature.category)
    if feature.transform != "none" and column.kind != "number":
        raise InputError(
            f"feature '{feature}' needs numbers, but column '{name}' is a {column.kind}"
        )
    missing = column.missing
    if missing.any() and not (feature.impute and column.kind != "date"):
        remedy = f"fill it, or use impute({feature})" if column.kind != "date" else "fill it"
        what = "missing or not a number" if column.kind == "number" else "missing"
        raise InputError(f"column '{name}' is {what} at {_rows(missing)}; {remedy}")
    if column.kind == "number":
        _refuse(name, np.isinf(column.values), "infinite", "replace it by a number")
        if feature.transform == "log":
            bad = column.values <= 0
            _refuse(name, bad, "not positive", f"log needs positive numbers; use log1p({name})")
        elif feature.transform != "none":
            bad = column.values < 0
            _refuse(name, bad, "negative", f"{feature.transform} needs numbers of at least 0")
    return column


def _refuse(name: str, bad: Bool[np.ndarray, " rows"], what: str, remedy: str) -> None:
    if bad.any():
        raise InputError(f"column '{name}' is {what} at {_rows(bad)}; {remedy}")


def _rows(bad: Bool[np.ndarray, " rows"]) -> str:
    count = int(bad.sum())
    return f"row {int(np.argmax(bad))}" + (f" (and {count - 1} more)" if count > 1 else "")


def _once_a_set(
    column: Column,
    name: str,
    order: Int[np.ndarray, " kept"],
    offsets: Int[np.ndarray, " sets_and_one"],
    set_name: str,
    set_ids: Shaped[np.ndarray, " sets"],
) -> Column:
    """A column that is constant within each set, reduced to one value a set."""
    ordered = column.take(order)
    firsts = ordered.take(offsets[:-1])
    spread = np.repeat(firsts.values, np.diff(offsets))
    differs = (ordered.values != spread) & ~(ordered.missing & (spread != spread))
    if differs.any():
        row = int(np.argmax(differs))
        which = int(np.searchsorted(offsets, row, side="right")) - 1
        raise InputError(
            f"column '{name}' differs within set '{set_name}'={set_ids[which]} "
            f"(row {int(order[row])}); it must be constant within each set"
            " (item features go in items)"
        )
    return firsts


def _weights(
    table: Table,
    roles: Roles,
    order: Int[np.ndarray, " kept"],
    offsets: Int[np.ndarray, " sets_and_one"],
    set_ids: Shaped[np.ndarray, " sets"],
) -> Shaped[np.ndarray, " sets"] | None:
    if roles.weight is None:
        return None
    column = _sound(table, Feature(roles.weight), "weight")
    if column.kind != "number":
        raise InputError(f"weight column '{roles.weight}' is a {column.kind}; weights are numbers")
    _refuse(roles.weight, column.values <= 0, "not positive", "weights are positive numbers")
    once = _once_a_set(column, roles.weight, order, offsets, roles.set, set_ids)
    return once.values.astype(np.float64)


def _split_column(
    table: Table,
    role: Literal["group", "time"],
    roles: Roles,
    order: Int[np.ndarray, " kept"],
    offsets: Int[np.ndarray, " sets_and_one"],
    set_ids: Shaped[np.ndarray, " sets"],
) -> Shaped[np.ndarray, " sets"] | None:
    """The column to split by, one value a set."""
    name = getattr(roles, role)
    if name is None:
        return None
    values, codes = np.unique(table.ids(name, role), return_inverse=True)
    column = Column(codes.reshape(-1).astype(np.float64))
    once = _once_a_set(column, name, order, offsets, roles.set, set_ids)
    return values[once.values.astype(np.int64)]


def _marks(table: Table, name: str) -> Bool[np.ndarray, " rows"]:
    """The chosen column as booleans, refusing anything but 0 and 1."""
    column = table.column(name, "chosen")
    if column.kind != "number":
        raise InputError(f"chosen column '{name}' is a {column.kind}; it must hold 0 and 1")
    wrong = ~np.isin(column.values, (0, 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"chosen column '{name}' is {column.values[row]:g} at row {row}; each row needs 0 or 1"
        )
    return column.values == 1


def _with_choice(
    choices: Choices, marked: Bool[np.ndarray, " rows"], irregular: Irregular
) -> Choices:
    """Find the chosen item of each set; refuse, drop or give to the outside option the rest."""
    counts = np.add.reduceat(marked.astype(np.int64), choices.offsets[:-1])
    several, none = counts > 1, counts == 0
    name = choices.roles.set
    if several.any() and irregular.on_multiple == "error":
        which = int(np.argmax(several))
        raise InputError(
            f"set '{name}'={choices.set_ids[which]} has {counts[which]} chosen items; each set "
            'needs exactly one (use on_multiple="drop" to skip such sets)'
        )
    if none.any() and irregular.on_none == "error" and not choices.outside:
        raise InputError(
            f"set '{name}'={choices.set_ids[np.argmax(none)]} has no chosen item; each set needs "
            'exactly one (use on_none="drop" to skip such sets, or on_none="outside" if choosing '
            "nothing was possible)"
        )
    position = np.arange(len(marked)) - np.repeat(choices.offsets[:-1], choices.sizes)
    chosen = np.where(none, choices.sizes, 0)
    sets = np.repeat(np.arange(len(choices)), choices.sizes)
    chosen[sets[marked]] = position[marked]
    keep = ~several if choices.outside else ~several & ~none
    dropped = replace(
        choices.dropped,
        without_choice=0 if choices.outside else int(none.sum()),
        several_choices=int(several.sum()),
    )
    if not keep.any():
        raise InputError("no set is left: every set has no or several chosen items")
    whole = replace(choices, chosen=chosen, dropped=dropped)
    return whole if keep.all() else whole.take(np.flatnonzero(keep))


def expressions(text: str | Iterable[str]) -> list[str]:
    """Feature expressions from the command line: separated by commas outside parentheses."""
    parts = [text] if isinstance(text, str) else list(text)
    return [piece.strip() for part in parts for piece in part.split(",") if piece.strip()]

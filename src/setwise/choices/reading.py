"""Reading tables as choices: every check of outside data happens here, once.

Inside the library, code assumes that choices are valid. The other direction is here too: choices
as plain records, as a service takes them.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from setwise._arguments import number
from setwise._errors import InputError
from setwise._shapes import Float, Int, Shaped
from setwise.choices.choices import Choices, Column, Dropped
from setwise.choices.column_types import unmasked
from setwise.choices.features import Feature, Roles, default_items
from setwise.choices.rankings import best_and_worst, rank_column, ranked
from setwise.choices.reshaping import LongTable
from setwise.choices.schema import Schema
from setwise.choices.table_files import CsvFormat
from setwise.choices.tables import Table, listed, meant, open_table, require_column
from setwise.choices.validation import Grouping, Irregular, marks, refuse, valid_column, with_choice

SETS_IN_SAMPLE = 24
ROWS_IN_SAMPLE = 2_400
WEIGHTS_APART = 1e9


def few(choices: Choices, sets: int = SETS_IN_SAMPLE) -> Choices:
    """A few sets to show what the data look like: a random sample, always the same.

    If sets are large, fewer are taken: at most 2,400 rows, or a single set. Sets that chose the
    worst item are left out.

    >>> import setwise as sw
    >>> few(sw.datasets.generate("mnl", sets=50, items=4, features=2).choices, 3)
    Choices(3 sets of 4 items, 12 rows; items: x0, x1)
    """
    drawn = choices.of_best().sample(sets)
    fits = int(np.searchsorted(drawn.offsets, ROWS_IN_SAMPLE, "right")) - 1
    return drawn if fits >= len(drawn) else drawn.take(np.arange(max(fits, 1)))


def records(choices: Choices) -> list[dict[str, Any]]:
    """Every set as ``{"items": [{column: value}], "context": {column: value}, "chosen": place}``.

    Values are numbers, text, dates as text, and None where missing. ``context`` is there if the
    choices have context columns, ``chosen`` if they say what was chosen: the place of the item, or
    None for the outside option. ``names`` is there if alternatives have a column of their own.

    >>> import setwise as sw
    >>> records(sw.read({"trip": [7, 7], "cost": [3.0, 1.0], "mode": ["car", "bus"],
    ...                  "taken": [0, 1]}, set="trip", chosen="taken"))
    [{'items': [{'cost': 3.0, 'mode': 'car'}, {'cost': 1.0, 'mode': 'bus'}], 'chosen': 1}]
    """
    features = [feature.column for feature in choices.roles.items]
    items = {name: _plain(choices.columns[name]) for name in features}
    around = [feature.column for feature in choices.roles.context]
    context = {name: _plain(choices.context[name]) for name in around}
    alternative = choices.roles.alternative
    named = None if alternative in items else alternative
    names = None if named is None else choices.columns[named].text().tolist()
    found = []
    for at, size in enumerate(choices.sizes.tolist()):
        begin = int(choices.offsets[at])
        rows = range(begin, begin + size)
        one: dict[str, Any] = {
            "items": [{name: values[row] for name, values in items.items()} for row in rows]
        }
        if context:
            one["context"] = {name: values[at] for name, values in context.items()}
        if names is not None:
            one["names"] = [str(names[row]) for row in rows]
        if choices.chosen is not None:
            place = int(choices.chosen[at])
            one["chosen"] = place if place < size else None
        found.append(one)
    return found


def _plain(column: Column) -> list[Any]:
    if column.kind == "date":
        days = column.values.astype("datetime64[D]")
        whole = (days == column.values).all()
        return np.datetime_as_string(days if whole else column.values).tolist()
    values = column.text().astype(object)
    values[column.missing] = None
    return values.tolist()


def read(
    table: Any,
    *,
    set: Any,
    chosen: Any = None,
    rank: str | None = None,
    worst: str | None = None,
    items: Sequence[str] | None = None,
    context: Sequence[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    alternative: str | None = None,
    on_none: Literal["error", "drop", "outside"] = "error",
    on_multiple: Literal["error", "drop"] = "error",
    on_duplicate: Literal["error", "drop", "keep"] = "error",
    rare: float = 0.01,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Choices:
    """Read choices from a long table: one row per item, rows of one set in any order.

    Args:
        table: a path to Parquet or CSV, a Polars or pandas frame, a mapping of arrays, or a
            matrix; with a matrix, ``set`` and ``chosen`` are vectors (``set`` holds one id per row,
            or the sizes of consecutive sets as LightGBM's ``group`` does).
        set: the column that names the choice set of each row.
        chosen: the 0/1 column that marks the chosen item; leave it out for prediction.
        rank: instead of ``chosen``, the column with the rank of each item: 1 for the best, 2 for
            the next, and so on; empty for items that were not ranked and are below all others.
            Each ranked set becomes a sequence of choices: the best of all, the best of the rest,
            and so on (the exploded logit; :mod:`setwise.choices.rankings`). Splits keep rankings
            whole.
        worst: the 0/1 column that marks the worst item, where ``chosen`` marks the best: each set
            becomes two choices, the best of all and the worst of the rest.
        items: features of items, as names or expressions such as ``log(price)``
            (see :mod:`setwise.choices.features`); by default every column without another role.
        context: features of the whole set (the person, the search), constant within a set.
        weight: a column with a positive weight per set.
        group: a column such as the user's id, for splits that keep each user on one side. With
            ``rank`` or ``worst`` it is the set column by default: all stages of a set are the
            answers of one person.
        time: a column to split by time.
        alternative: a column that names the alternative of each row, such as "car" or "train",
            each at most once per set. Models do not see it; constants, coefficients and nests by
            alternative use it (:class:`setwise.Utility`).
        on_none: sets without a choice: "error", "drop", or "outside" (an outside option joins
            every set, and was taken where nothing was chosen; not for rankings).
        on_multiple: sets with several choices, or with a rank twice: "error" or "drop".
        on_duplicate: rows equal to an earlier row in every column: "error", "drop" or "keep".
        rare: category levels in fewer than this share of the training rows are grouped as "other".
        sep: of a CSV file, what stands between values; by default a comma (in .tsv files a tab).
        decimal: of a CSV file, the decimal point: "." (the default) or ",".
        encoding: of a CSV file, its encoding, such as "latin-1" or "utf-16"; by default UTF-8.

    >>> import setwise as sw
    >>> sw.read({"trip": [1, 1, 2, 2], "cost": [3.0, 1.0, 2.0, 5.0], "taken": [0, 1, 1, 0]},
    ...         set="trip", chosen="taken", items=["log(cost)"])
    Choices(2 sets of 2 items, 4 rows; items: log(cost))
    >>> sw.read({"trip": [1, 1, 1, 2, 2, 2], "cost": [3.0, 1.0, 2.0, 5.0, 4.0, 6.0],
    ...          "rank": [3, 1, 2, None, 1, None]}, set="trip", rank="rank")
    Choices(3 sets of 2 to 3 items, 8 rows; items: cost)
    """
    irregular = Irregular(on_none, on_multiple, on_duplicate)
    number(least=0, below=1)("rare", rare)
    items = None if items is None else feature_texts("items", items)
    context = feature_texts("context", context)
    if isinstance(table, np.ndarray) and not table.dtype.names:
        table, set, chosen, items = from_matrix(table, set, chosen, items)
    opened = open_table(table, CsvFormat(sep, decimal, encoding))
    named = {
        "set": set, "chosen": chosen, "rank": rank, "worst": worst, "weight": weight,
        "group": group, "time": time, "alternative": alternative,
    }  # fmt: skip
    for role, name in named.items():
        if not isinstance(name, str) and (name is not None or role == "set"):
            raise InputError(
                f"{role}= must be the name of a column, not {type(name).__name__}; "
                "vectors (of set and chosen) go with a matrix"
            )
    roles = asked_roles(opened.names, items, context, **named)
    check_parts(roles)
    check_answers(roles, irregular)
    return read_as(roles, opened, irregular, rare)


def asked_roles(
    names: Sequence[str],
    items: Sequence[str] | None,
    context: Sequence[str],
    *,
    set: str,
    chosen: str | None,
    rank: str | None = None,
    worst: str | None = None,
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    alternative: str | None = None,
) -> Roles:
    """The roles that a user gives to the columns of a table, with features as expressions.

    Without ``items``, every column that has no other role is one. The stages of a ranked set are
    answers of one person, and so are in one group.
    """
    around = tuple(Feature.asked(text, names) for text in context)
    if items is None:
        taken = [set, chosen, rank, worst, weight, group, time, alternative]
        taken += [feature.column for feature in around]
        items = default_items(names, taken)
    features = tuple(Feature.asked(text, names) for text in items)
    group = group_of_stages(set, rank, worst, group)
    return Roles(
        set, chosen, features, around, weight, group, time, alternative, rank=rank, worst=worst
    )


def group_of_stages(set: str, rank: str | None, worst: str | None, group: str | None) -> str | None:
    """The column of the person: of rankings, the set's where no other is given."""
    return set if group is None and (rank, worst) != (None, None) else group


def check_answers(roles: Roles, irregular: Irregular) -> None:
    """Refuse roles of answers that exclude each other."""
    if roles.rank is not None and (roles.chosen is not None or roles.worst is not None):
        other = "chosen" if roles.chosen is not None else "worst"
        raise InputError(
            f"rank= and {other}= both say what was chosen; leave {other}= out, or rank= if the "
            "sets are not ranked"
        )
    if roles.worst is not None and roles.chosen is None:
        raise InputError(
            "worst= marks the worst item of the rest, so that chosen= must mark the best; name its "
            "column, or rank the items with rank="
        )
    if roles.rank is None and roles.worst is None:
        return
    if irregular.on_none == "outside":
        raise InputError(
            'on_none="outside" adds an option that has no rank and cannot be the worst; make '
            "choosing nothing an item of each set, and rank it"
        )
    counted = [str(one) for one in roles.items if one.popularity]
    if roles.worst is not None and counted:
        raise InputError(
            f"'{counted[0]}' counts how often items are chosen as the best, and worst= asks for "
            "the worst as well; leave one of them out"
        )


def feature_texts(name: str, given: Any) -> list[str]:
    """Feature expressions as a list; one may be given as a word."""
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    if isinstance(given, (Mapping, Set)) or not isinstance(given, Iterable):
        raise InputError(
            f"{name}={given!r} must be a list of column names, such as {name}=['price']"
        )
    listed = list(given)
    for place, one in enumerate(listed):
        if not isinstance(one, str):
            raise InputError(f"{name}[{place}]={one!r} must be the name of a column, as text")
    return [str(one) for one in listed]


def check_parts(roles: Roles) -> None:
    """Refuse a column that has two roles which exclude each other."""
    features = {feature.column: "feature" for feature in roles.items + roles.context}
    parts = {
        "set": roles.set, "chosen": roles.chosen, "rank": roles.rank, "worst": roles.worst,
        "weight": roles.weight, "alternative": roles.alternative,
    }  # fmt: skip
    others = {"group": roles.group, "time": roles.time}
    for part, name in parts.items():
        for other, column in [*parts.items(), *others.items()]:
            fits = part == other or (part == "set" and other in others)
            if name is not None and column == name and not fits:
                raise InputError(
                    f"column '{name}' is given as {part}= and as {other}=; each needs its own",
                    column=name,
                )
    for name, what in ((roles.rank, "rank"), (roles.worst, "worst column")):
        if name in features:
            raise InputError(
                f"column '{name}' is the {what}; it cannot be a feature as well", column=name
            )
    if roles.weight in features:
        raise InputError(
            f"column '{roles.weight}' is the weight; it cannot be a feature as well",
            column=roles.weight,
        )
    if roles.alternative in features:
        raise InputError(
            f"column '{roles.alternative}' names the alternatives; it cannot be a feature as well: "
            "leave it out of items and context (a utility gives each alternative a constant)",
            column=roles.alternative,
        )


def read_as(
    roles: Roles,
    table: Table,
    irregular: Irregular,
    rare: float = 0.01,
    outside: bool = False,
    names: Collection[str] = (),
) -> Choices:
    """Read a table whose columns' roles are known: what :func:`read` and prediction share.

    Text in the columns ``names`` is known to be names, however much they look like numbers.
    """
    if table.rows == 0:
        raise InputError("the table is empty; it needs at least one set of items")
    check_roles(roles, table.names, table.native)
    ids = table.ids(roles.set, "set")
    kept, duplicates = _without_duplicates(table, irregular, roles.set, ids)
    grouping = Grouping.of(roles.set, ids, kept)
    columns = {
        feature.column: valid_column(table, feature, "item", names).take(grouping.order)
        for feature in roles.items
    }
    if roles.alternative is not None:
        named = Feature(roles.alternative, category=True)
        column = valid_column(table, named, "alternative", names).take(grouping.order)
        columns[roles.alternative] = column
        _once_per_alternative(column, roles.alternative, grouping)
    context = {
        feature.column: grouping.once_per_set(
            valid_column(table, feature, "context", names), feature.column
        )
        for feature in roles.context
    }
    choices = Choices(
        roles, columns, context, grouping.offsets, grouping.order, grouping.set_ids,
        weight=_weights(table, roles, grouping),
        group=_split_column(table, "group", roles, grouping),
        time=_split_column(table, "time", roles, grouping),
        outside=outside or irregular.on_none == "outside", rare=rare,
        dropped=Dropped(duplicate_rows=duplicates),
    )  # fmt: skip
    if roles.rank is not None:
        return ranked(choices, rank_column(table, roles.rank)[grouping.order], irregular)
    if roles.chosen is None:
        return choices
    if roles.worst is not None:
        return best_and_worst(choices, table, irregular)
    return with_choice(choices, marks(table, roles.chosen)[grouping.order], irregular)


def read_reshaped(
    roles: Roles,
    table: Table,
    irregular: Irregular,
    rare: float = 0.01,
    outside: bool = False,
    names: Collection[str] = (),
) -> Choices:
    """Read a wide table whose layout is in the roles, as :func:`read_as` reads a long one."""
    taken = outside or irregular.on_none == "outside"
    long = LongTable(roles, table, irregular, taken, names)
    with long.naming_wide():
        choices = read_as(roles, long, irregular, rare, outside, names)
    return replace(choices, table_rows=long.numbers[choices.cells])


def is_wide(roles: Roles, names: Collection[str]) -> bool:
    """Whether a table with these columns is wide, as the one was that the roles are of."""
    if roles.wide is None:
        return False
    items = [one.column for one in roles.items]
    context = [one.column for one in roles.context]
    return roles.wide.is_shape_of(names, items, [roles.set, *items, *context])


def read_like(
    schema: Schema, table: Any, with_choice: bool = False, irregular: Irregular | None = None
) -> Choices:
    """Read a table as that of the schema was: the same columns in the same roles.

    Where that was a wide table, this one may be wide or long.

    Without the choice no other column is needed than the set's and the features'.
    """
    roles, opened = schema.roles, open_table(table)
    if with_choice:
        if roles.chosen is None and roles.rank is None:
            raise InputError("this model's training table had no chosen column to evaluate by")
        group = group_of_stages(roles.set, roles.rank, roles.worst, None)
        roles = replace(roles, group=group, time=None)
    else:
        roles = replace(
            roles, chosen=None, rank=None, worst=None, weight=None, group=None, time=None
        )
    if irregular is None:  # prediction takes rows as they come
        irregular = Irregular() if with_choice else Irregular(on_duplicate="keep")
    names = [one.feature.column for one in schema.items + schema.context if one.looked_up]
    if is_wide(roles, opened.names):
        return read_reshaped(roles, opened, irregular, outside=schema.outside, names=names)
    roles = replace(roles, wide=None)
    if roles.alternative not in [feature.column for feature in roles.items]:
        roles = replace(roles, alternative=None)  # the model does without it
    for feature in roles.items + roles.context:
        if feature.column not in opened.names:
            raise InputError(
                f"feature column '{feature.column}' is missing; the model was trained with it (the "
                f"table has: {listed(opened.names)}); "
                f"{meant(feature.column, opened.names, opened.native)}",
                column=feature.column,
            )
    return read_as(roles, opened, irregular, outside=schema.outside, names=names)


def from_matrix(
    matrix: Shaped[np.ndarray, "..."], sets: Any, chosen: Any, names: Sequence[str] | None
) -> tuple[dict[str, np.ndarray], str, str | None, list[str]]:
    """A matrix with vectors for set and chosen, as named columns."""
    matrix = unmasked(matrix)
    if matrix.ndim != 2:
        raise InputError(
            f"the feature matrix has shape {matrix.shape}; reshape it to rows x features, with one "
            "row per item"
        )
    rows, features = matrix.shape
    names = [f"x{i}" for i in range(features)] if names is None else list(names)
    if len(names) != features:
        raise InputError(
            f"items names {len(names)} features, but the matrix has {features}; name every column"
        )
    ids = unmasked(sets)
    sizes = ids.ndim == 1 and len(ids) != rows and ids.dtype.kind in "iu" and ids.sum() == rows
    if sizes and ids.min() > 0:  # of consecutive sets, as in LightGBM
        ids = np.repeat(np.arange(len(ids)), ids)
    columns = [Feature.parse(name).column for name in names]
    table = {name: matrix[:, i] for i, name in enumerate(columns)} | {"set": ids}
    if chosen is not None:
        table["chosen"] = unmasked(chosen)
    for role in ("set", "chosen"):
        if role in table and table[role].shape != (rows,):
            raise InputError(
                f"{role}= has shape {table[role].shape}; a matrix of {rows} rows needs one value "
                "per row (or, for set=, positive sizes that add up to the rows)"
            )
    return table, "set", None if chosen is None else "chosen", names


def check_roles(roles: Roles, names: Sequence[str], native: Any = None) -> None:
    """Refuse roles that the columns of a table cannot have."""
    for role in ("set", "chosen", "rank", "worst", "weight"):
        name = getattr(roles, role)
        if name is not None:
            require_column(name, role, names, native)
    if not roles.items:
        raise InputError("there are no item features; name at least one column in items")
    used = [feature.column for feature in roles.items + roles.context]
    for feature in roles.context:
        if feature.popularity:
            raise InputError(
                f"'{feature}' is among the context, but a whole set is never chosen; "
                "popularity is for items",
                column=feature.column,
            )
    for name in used:
        if used.count(name) > 1:
            raise InputError(
                f"column '{name}' is named twice among items and context; keep one", column=name
            )
        if name in (roles.set, roles.chosen):
            role = "set" if name == roles.set else "chosen"
            raise InputError(
                f"column '{name}' is the {role} column; it cannot be a feature as well",
                column=name,
            )
    for features, role in ((roles.items, "item"), (roles.context, "context")):
        for feature in features:
            require_column(feature.column, role, names, native)


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
            'first of each, or on_duplicate="keep" if they are different items',
            row=row,
            set=ids[row],
        )
    return everything[~repeated], int(repeated.sum())


def _once_per_alternative(column: Column, name: str, grouping: Grouping) -> None:
    """Refuse a set that has an alternative twice: its name would not tell the rows apart."""
    sizes = np.diff(grouping.offsets)
    sets = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((column.values, sets))
    again = (np.diff(sets[order]) == 0) & (np.diff(column.values[order]) == 0)
    if again.any():
        first, second = sorted(order[np.argmax(again) : np.argmax(again) + 2].tolist())
        which, rows = grouping.set_ids[sets[first]], grouping.order[[first, second]]
        raise InputError(
            f"set '{grouping.set_name}'={which} has the alternative '{column.text()[first]}' at "
            f"row {rows[0]} and again at row {rows[1]}; a name stands for one row of a set: "
            f"correct it, or read '{name}' as a category among items",
            row=int(rows[0]),
            column=name,
            set=which,
            also_rows=[int(rows[1])],
        )


def _weights(table: Table, roles: Roles, grouping: Grouping) -> Float[np.ndarray, " sets"] | None:
    if roles.weight is None:
        return None
    column = valid_column(table, Feature(roles.weight), "weight")
    if column.kind != "number":
        raise InputError(
            f"weight column '{roles.weight}' is a {column.kind}; weights are numbers",
            column=roles.weight,
        )
    refuse(roles.weight, column.values <= 0, "not positive", "weights are positive numbers")
    wide = (column.values > 1e30) | (column.values < 1e-30)
    refuse(roles.weight, wide, "outside 1e-30 to 1e30", "divide the weights by their mean")
    tiny = column.values < column.values.max() / WEIGHTS_APART
    what = f"less than a billionth of the largest weight, {column.values.max():g},"
    refuse(roles.weight, tiny, what, "such sets count for nothing: correct the weights")
    return grouping.once_per_set(column, roles.weight).values.astype(np.float64)


def _split_column(
    table: Table, role: Literal["group", "time"], roles: Roles, grouping: Grouping
) -> Shaped[np.ndarray, " sets"] | None:
    """The column to split by, one value per set."""
    name = getattr(roles, role)
    if name is None:
        return None
    values, codes = np.unique(table.ids(name, role), return_inverse=True)
    column = Column(codes.reshape(-1).astype(np.float64))
    return values[grouping.once_per_set(column, name).values.astype(np.int64)]


def expressions(option: str, text: str | Iterable[str]) -> list[str]:
    """Feature expressions of an option of the command line: separated by commas.

    Commas in parentheses belong to an expression; one at the end is ignored.
    """
    found = []
    for part in [text] if isinstance(text, str) else text:
        pieces = [piece.strip() for piece in re.split(r",(?![^()]*\))", part)]
        pieces = [] if not any(pieces) else pieces if pieces[-1] else pieces[:-1]
        if not all(pieces):
            raise InputError(
                f"--{option} '{part}' has a comma with nothing before it; name a feature there, or "
                "remove the comma"
            )
        found += [piece for piece in pieces if piece]
    return found

"""Reading wide tables: one row per choice, one column per alternative and feature."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from setwise._arguments import number, optional, text
from setwise._errors import InputError
from setwise.choices.choices import Choices
from setwise.choices.features import Feature, Roles
from setwise.choices.layout import (
    ALT,
    WideLayout,
    alternative_of,
    alternatives_in,
    feature_name,
    numbered,
)
from setwise.choices.reading import (
    check_answers,
    check_parts,
    feature_texts,
    group_of_stages,
    read_reshaped,
)
from setwise.choices.table_files import CsvFormat
from setwise.choices.tables import Table, listed, open_table, require_column
from setwise.choices.validation import Irregular

Patterns = str | Sequence[str] | Mapping[str, str]
Alternatives = Sequence[Any] | Mapping[Any, str | None]


def read_wide(
    table: Any,
    *,
    chosen: str | None = None,
    rank: str | None = None,
    worst: str | None = None,
    items: Patterns,
    alternatives: Alternatives | None = None,
    available: str | None = None,
    fill: int | float | None = None,
    set: str | None = None,
    context: Sequence[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    on_none: Literal["error", "drop", "outside"] = "error",
    rare: float = 0.01,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Choices:
    """Read choices from a wide table: one row per choice, one column per alternative and feature.

    A model that is fitted to these choices predicts wide tables like this one, and long ones.

    Args:
        table: a path to Parquet or CSV, a Polars or pandas frame, or a mapping of arrays.
        chosen: the column that says which alternative was chosen: its name, its number, or a code
            that ``alternatives`` explains; leave it out for prediction.
        rank: instead of ``chosen``, the pattern of the columns with the rank of each alternative,
            such as "rank_{alt}": 1 for the best, 2 for the next, and so on; empty for alternatives
            that were not ranked. See ``rank`` of :func:`setwise.read`.
        worst: the column that says which alternative is the worst, where ``chosen`` says which is
            the best. See ``worst`` of :func:`setwise.read`.
        items: patterns of columns, with ``{alt}`` where the alternative stands. "price.{alt}"
            gives the feature price; ``{"time": "{alt}_TT"}`` names it. Expressions around a
            pattern are those of :func:`setwise.read`: "log(price.{alt})".
        alternatives: by default those that the patterns find, in the order of the columns. A list
            selects and orders them. A mapping says which value of the choice column is which:
            ``{1: "TRAIN", 2: "SM", 3: "CAR"}``, and None for no choice. Alternatives that are only
            numbered (price_1, price_2) have no names, unless they are listed here.
        available: the pattern of 0/1 columns, such as "{alt}_AV". An alternative without such a
            column is always available. Where it is not available, its other columns do not matter.
        fill: what a feature is for alternatives that have no column for it, such as 0.
        set: a column with the id of each choice; by default the number of the row, from 0.
        context: features of the whole row (the person, the trip).
        weight: a column with a positive weight per row.
        group: a column with the person, who may choose several times. With ``rank`` or ``worst``
            each row is a person by default.
        time: a column to split by time.
        on_none: rows that chose no alternative (missing, 0, empty or None by ``alternatives``):
            "error", "drop", or "outside" (an outside option joins every set).
        rare: category levels in fewer than this share of the training rows are grouped as "other".
        sep: of a CSV file, what stands between values; by default a comma (in .tsv files a tab).
        decimal: of a CSV file, the decimal point: "." (the default) or ",".
        encoding: of a CSV file, its encoding; by default UTF-8.

    >>> import setwise as sw
    >>> table = {"mode": ["car", "bus"], "cost.bus": [2.0, 1.0], "cost.car": [3.0, 4.0],
    ...          "income": [5.0, 2.0]}
    >>> choices = sw.read_wide(table, chosen="mode", items=["cost.{alt}"], context=["income"])
    >>> choices
    Choices(2 sets of 2 items, 4 rows; items: cost; context: income; alternatives: alternative)
    >>> choices.chosen.tolist(), choices.columns["alternative"].levels
    ([1, 0], ('bus', 'car'))
    """
    irregular = Irregular(on_none, on_duplicate="keep")
    number(least=0, below=1)("rare", rare)
    optional(number())("fill", fill)
    opened = open_table(table, CsvFormat(sep, decimal, encoding))
    taken = {
        "chosen": chosen, "worst": worst, "set": set, "weight": weight, "group": group,
        "time": time,
    }  # fmt: skip
    for role, name in taken.items():
        optional(text)(role, name)
        if name is not None:
            require_column(name, role, opened.names, opened.native)
    around = tuple(Feature.asked(one, opened.names) for one in feature_texts("context", context))
    features = _features(items, opened.names)
    _check_pattern("available", available, "{alt}_AV")
    _check_pattern("rank", rank, "rank_{alt}")
    others = [*taken.values(), *(one.column for one in around)]
    patterns = [feature.column for feature in features.values()]
    names, named, codes = _alternatives(alternatives, patterns, opened, others)
    layout = WideLayout(
        tuple(names), tuple(zip(features, patterns, strict=True)), available, fill, codes,
        has_set=set is not None, rank=rank,
    )  # fmt: skip
    used = [*features, *(name for name in others if name is not None)]
    own = set or _free("row", [*used, *opened.names])
    label = _free("alternative", [*used, own, *opened.names]) if named else None
    found = tuple(replace(feature, column=name) for name, feature in features.items())
    ranks = None if rank is None else _free("rank", [*used, own, *opened.names])
    person = group_of_stages(own, ranks, worst, group)
    roles = Roles(
        own, chosen, found, around, weight, person, time, label, wide=layout, rank=ranks,
        worst=worst,
    )  # fmt: skip
    _check_names(features, others)
    check_parts(roles)
    check_answers(roles, irregular)
    return read_reshaped(roles, opened, irregular, rare)


def _features(items: Any, names: Sequence[str]) -> dict[str, Feature]:
    """Every item feature by its name; its column is a pattern still."""
    pairs: list[tuple[str | None, str]]
    if isinstance(items, Mapping):
        for name, one in items.items():
            text("the name of an item feature", name)
            text(f"items[{name!r}]", one)
        pairs = list(items.items())
    else:
        pairs = [(None, one) for one in feature_texts("items", items)]
    if not pairs:
        raise InputError("there are no item features; give patterns, such as items=['price.{alt}']")
    found: dict[str, Feature] = {}
    for asked, one in pairs:
        whole = one.count(ALT) == 1 and any(alternative_of(one, name) for name in names)
        feature = Feature.asked(one, [one] if whole else [])
        if feature.column.count(ALT) != 1:
            raise InputError(
                f"item '{one}' must have {ALT} once, where the alternative stands, such as "
                "'price.{alt}'; columns with one value for all alternatives go in context="
            )
        name = asked or feature_name(feature.column)
        if not name:
            raise InputError(
                f"item '{one}' leaves no name for the feature; name it: items={{'price': '{one}'}}"
            )
        if name in found:
            raise InputError(
                f"two patterns give a feature named '{name}'; name them, such as "
                f"items={{'{name}': ..., 'other': '{one}'}}"
            )
        found[name] = feature
    return found


def _check_pattern(name: str, pattern: Any, example: str) -> None:
    optional(text)(name, pattern)
    if pattern is not None and pattern.count(ALT) != 1:
        raise InputError(
            f"{name}='{pattern}' must have {ALT} once, where the alternative stands, such as "
            f"'{example}'"
        )


def _alternatives(
    given: Any, patterns: Sequence[str], table: Table, taken: Iterable[str | None]
) -> tuple[list[str], bool, tuple[tuple[Any, str | None], ...]]:
    """The alternatives, whether they have names, and the codes of the choice column."""
    if given is None:
        found = _found(patterns, table, [*taken])
        return found, not numbered(found), ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(
            f"alternatives={given!r} must be a list of names, or a mapping from the values of the "
            "choice column to names"
        )
    codes: tuple[tuple[Any, str | None], ...] = ()
    values: Iterable[Any] = given
    if isinstance(given, Mapping):
        codes = tuple((_code(key), None if one is None else str(one)) for key, one in given.items())
        values = (one for _, one in codes if one is not None)
    names = [str(one) for one in values]
    if not codes and len({*names}) < len(names):
        raise InputError(f"alternatives={names} has a name twice; give each once")
    names = list(dict.fromkeys(names))
    if not names or not all(names):
        raise InputError("alternatives= is empty or has an empty name; name the alternatives")
    return names, True, codes


def _code(key: Any) -> Any:
    """A code that a file can hold."""
    if isinstance(key, (str, int, float)):
        return key
    return key.item() if hasattr(key, "item") else str(key)


def _found(patterns: Sequence[str], table: Table, taken: Sequence[str | None]) -> list[str]:
    bare = next((one for one in patterns if one == ALT), None)
    if bare is not None:
        raise InputError(
            "the pattern '{alt}' fits every column; name the alternatives with alternatives="
        )
    found = alternatives_in(patterns, table.names, taken)
    if not found:
        raise InputError(
            f"no column fits the pattern{'s' * (len(patterns) > 1)} {listed(list(patterns))}; the "
            f"table has: {listed(table.names)}"
        )
    numbers = numbered(found)
    if numbers and len(numbers) < len(found):
        rest = [one for one in found if one not in numbers]
        raise InputError(
            f"the patterns find numbers ({listed(numbers)}) and names ({listed(rest)}) for the "
            f"alternatives; select them, such as alternatives={numbers}"
        )
    return found


def _check_names(features: Mapping[str, Feature], others: Sequence[str | None]) -> None:
    """Refuse an item feature that has the name of another column that is read."""
    for name, feature in features.items():
        if name in others:
            raise InputError(
                f"the feature of '{feature.column}' has the name of column '{name}', which has a "
                f"role of its own; name it otherwise, such as items={{'item_{name}': "
                f"'{feature.column}'}}",
                column=name,
            )


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name

"""The values that options take, and the options of every command that reads a table."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from setwise.choices import Choices


OnNone = Literal["error", "drop", "outside"]
OnMultiple = Literal["error", "drop"]
OnDuplicate = Literal["error", "drop", "keep"]
SplitBy = Literal["set", "group", "time"]
Preset = Literal["default", "paper"]
StopOn = Literal["nll", "accuracy"]
Objective = Literal["cross_entropy", "pairwise", "listwise"]
SpaceName = Literal["paper", "training", "wide", "trees", "lambdamart"]
RawName = Literal["expedia", "outbrain", "amadeus"]
View = Literal["paper", "full"]
ReproducePreset = Literal["quick", "paper"]
PaperPart = Literal["table1", "ablation", "full", "figures", "all"]
Outcome = Literal["click", "book"]


def seed_option(text: str) -> Any:
    """The option ``--seed``; an invalid seed is refused before any work."""
    return typer.Option(help=text, callback=_seed)


def _seed(value: int | None) -> int | None:
    from setwise._arguments import optional, seed

    optional(seed)("seed", value)
    return value


def names(option: str, text: str) -> list[str]:
    """The names that an option lists, separated by commas: at least one, none empty, none twice.

    >>> names("--models", "mnl, sda")
    ['mnl', 'sda']
    """
    from setwise._errors import InputError

    found = [one.strip() for one in text.split(",")]
    if not all(found):
        raise InputError(f"{option} '{text}' has an empty name; give names separated by commas")
    for one in found:
        if found.count(one) > 1:
            raise InputError(f"{option} names '{one}' twice; give each name once")
    return found


def signs_of(option: str, text: str) -> dict[str, int]:
    """The signs that an option gives to columns, separated by commas.

    >>> signs_of("--sign", "price=-1, stars=+1")
    {'price': -1, 'stars': 1}
    """
    from setwise._errors import InputError

    found: dict[str, int] = {}
    for one in names(option, text):
        column, equals, value = (part.strip() for part in one.rpartition("="))
        if not (column and equals) or value not in ("1", "+1", "-1"):
            raise InputError(f"{option} '{one}' must be a column and 1 or -1, such as 'price=-1'")
        if column in found:
            raise InputError(f"{option} gives '{column}' twice; give each column once")
        found[column] = int(value)
    return found


# The boxes in which --help shows the options of a command.
COLUMNS = "What the columns mean"
WIDE = "Wide tables: one row per choice"
ROWS = "Which sets and rows"
CSV = "CSV files"
TRAINING = "Training"
FILE = "What the model file says of itself"
CLUSTER = "Several machines"


def boxed(box: str, text: str, **more: Any) -> Any:
    """An option that --help shows in this box."""
    return typer.Option(help=text, rich_help_panel=box, **more)


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Sep = Annotated[str | None, boxed(CSV, "The separator between values, such as ';'. Default: ','.")]
Decimal = Annotated[str | None, boxed(CSV, "The decimal point, '.' or ','. Default: '.'.")]
Encoding = Annotated[str | None, boxed(CSV, "The encoding, such as latin-1. Default: utf-8.")]

TABLE_HELP = (
    "A Parquet or CSV file with one row per item or, with {alt} in --items, one row per choice; a "
    "data file (.setwise-data), or the name of a shipped data set."
)
SET_HELP = "Column with the id of the choice set; for a wide table, by default the row's number."
CHOSEN_HELP = (
    "Column that is 1 for the chosen item and 0 for the others; in a wide table, the chosen "
    "alternative."
)
RANK_HELP = (
    "Column with the rank of each item, 1 for the best, empty if it was not ranked; instead of "
    "--chosen. In a wide table, a pattern of columns, such as 'rank_{alt}'."
)
WORST_HELP = (
    "Column that is 1 for the worst item and 0 for the others, where --chosen marks the best; in a "
    "wide table, the worst alternative."
)
CONTEXT_HELP = "Features of the whole set, separated by commas."
WEIGHT_HELP = "Column with a positive weight per set. Default: equal weights."
GROUP_HELP = "Column with the respondent, to split by and to cluster standard errors by."
TIME_HELP = "Column with the time of the choice, to split by."
RARE_HELP = "Category levels in less than this share of rows become 'other'."
MAX_ITEMS_HELP = "Leave out sets with more items. Default: no limit."
MAX_SETS_HELP = "Use a random sample of this many sets. Default: all sets."
LIKE_HELP = (
    "The table is the raw file (or folder) of this public data set, whose columns have known roles."
)
VIEW_HELP = "With --like: the paper's features, or all features."
ITEMS_HELP = (
    "Item features, separated by commas: column names, or log(x), log1p(x), sqrt(x), category(x), "
    "other(x), popularity(x), impute(x). Default: every column without another role. For a wide "
    "table, patterns of columns, such as 'price.{alt},time={alt}_TT'."
)
ALTERNATIVE_HELP = "Column that names the alternative of each row, for constants and nests."
ALTERNATIVES_HELP = (
    "The alternatives, such as 'TRAIN,SM,CAR', or the codes of the chosen column, "
    "such as '1=TRAIN,2=SM,3=CAR,9=' (9 means no choice). Default: those that the columns name."
)
AVAILABLE_HELP = "Pattern of the 0/1 columns of availability, such as '{alt}_AV'."
FILL_HELP = "The number for alternatives without a column. Default: refuse the table."
UTILITY_HELP = (
    "Formula of the utility, such as 'price + catch | income | time': generic terms | context by "
    "alternative | items by alternative. Default: every item column."
)
REFERENCE_HELP = "With --utility: the alternative without a constant. Default: the first."
OUTSIDE_HELP = (
    "Sets without a choice: refuse the table, drop them, or add an outside option to every set."
)
REPORT_HELP = "HTML page to write, with tables and pictures."
EPOCHS_HELP = "Most passes over the training sets. Default: 300 for most models."
MULTIPLE_HELP = "Sets with several choices: refuse the table, or drop them."
DUPLICATE_HELP = "Rows equal to an earlier row in all columns: refuse the table, drop or keep them."
SPLIT_BY_HELP = (
    "Split sets at random, whole groups at random (needs --group), or by time (needs --time)."
)


ROLES = ("set", "chosen", "rank", "worst", "weight", "group", "time", "alternative")
OF_WIDE = ("alternatives", "available", "fill")


@dataclass(frozen=True)
class Source:
    """A table on the command line, with the roles of its columns."""

    table: Annotated[str, typer.Argument(help=TABLE_HELP)]
    set: Annotated[str | None, boxed(COLUMNS, SET_HELP)] = None
    chosen: Annotated[str | None, boxed(COLUMNS, CHOSEN_HELP)] = None
    rank: Annotated[str | None, boxed(COLUMNS, RANK_HELP)] = None
    worst: Annotated[str | None, boxed(COLUMNS, WORST_HELP)] = None
    items: Annotated[str | None, boxed(COLUMNS, ITEMS_HELP)] = None
    context: Annotated[str | None, boxed(COLUMNS, CONTEXT_HELP)] = None
    alternative: Annotated[str | None, boxed(COLUMNS, ALTERNATIVE_HELP)] = None
    alternatives: Annotated[str | None, boxed(WIDE, ALTERNATIVES_HELP)] = None
    available: Annotated[str | None, boxed(WIDE, AVAILABLE_HELP)] = None
    fill: Annotated[float | None, boxed(WIDE, FILL_HELP)] = None
    utility: Annotated[str | None, boxed(COLUMNS, UTILITY_HELP)] = None
    reference: Annotated[str | None, boxed(COLUMNS, REFERENCE_HELP)] = None
    weight: Annotated[str | None, boxed(COLUMNS, WEIGHT_HELP)] = None
    group: Annotated[str | None, boxed(COLUMNS, GROUP_HELP)] = None
    time: Annotated[str | None, boxed(COLUMNS, TIME_HELP)] = None
    on_none: Annotated[OnNone, boxed(ROWS, OUTSIDE_HELP)] = "error"
    on_multiple: Annotated[OnMultiple, boxed(ROWS, MULTIPLE_HELP)] = "error"
    on_duplicate: Annotated[OnDuplicate, boxed(ROWS, DUPLICATE_HELP)] = "error"
    rare: Annotated[float, boxed(COLUMNS, RARE_HELP)] = 0.01
    sep: Sep = None
    decimal: Decimal = None
    encoding: Encoding = None
    min_items: Annotated[int, boxed(ROWS, "Leave out sets with fewer items.")] = 1
    max_items: Annotated[int | None, boxed(ROWS, MAX_ITEMS_HELP)] = None
    max_sets: Annotated[int | None, boxed(ROWS, MAX_SETS_HELP)] = None
    like: Annotated[RawName | None, boxed(COLUMNS, LIKE_HELP)] = None
    view: Annotated[View, boxed(COLUMNS, VIEW_HELP)] = "paper"

    def read(self, seed: int) -> "Choices":
        """The choices that the options describe."""
        from setwise._arguments import whole
        from setwise._errors import InputError
        from setwise.choices import Utility

        whole()("min_items", self.min_items)
        if self.reference is not None and self.utility is None:
            raise InputError("--reference goes with --utility; leave it out, or give a formula")
        choices = self._whole().limit(self.max_items, self.min_items)
        if self.utility is not None:
            choices = choices.with_utility(Utility(self.utility, self.reference))
        return choices if self.max_sets is None else choices.sample(self.max_sets, seed)

    def reads(self) -> list[str | Path]:
        """The files that are read, which must not be overwritten."""
        from setwise.paper.raw import raw_files

        if self.like is not None and self.table:
            return [*raw_files(self.table)]
        return [] if Path(self.table).is_dir() else [self.table]

    def _whole(self) -> "Choices":
        from setwise.choices import open_choices
        from setwise.cli.tables import csv_format, is_data_file
        from setwise.paper import load_raw

        if self.like is not None or is_data_file(self.table):
            csv_format(None, self.sep, self.decimal, self.encoding)

        if is_data_file(self.table):
            self._refuse_roles("a data file, which already has the roles")
            return open_choices(self.table)
        if self.like is not None:
            self._refuse_roles(f"read like {self.like}, which has known roles")
            return load_raw(self.like, self.table, self.view)
        return self._read_table()

    def _refuse_roles(self, what: str) -> None:
        from setwise._errors import InputError

        for name in (*ROLES, "items", "context", *OF_WIDE):
            if getattr(self, name) is not None:
                raise InputError(
                    f"--{name} gives a column a role, but {self.table} is {what}; leave it out"
                )

    def _read_table(self) -> "Choices":
        from setwise import datasets
        from setwise._errors import InputError
        from setwise.choices import expressions, read, read_wide
        from setwise.cli.tables import csv_format, is_dataset, read_table
        from setwise.doctor import suggestion

        roles: dict[str, Any] = datasets.roles(self.table) if is_dataset(self.table) else {}
        form = csv_format(self.table, self.sep, self.decimal, self.encoding)
        table = read_table(self.table, form)
        given = {name: getattr(self, name) for name in ROLES if getattr(self, name) is not None}
        for name in ("items", "context"):
            if getattr(self, name) is not None:
                given[name] = expressions(name, getattr(self, name))
        if given.get("context") == []:
            raise InputError("--context is empty; name a column, or leave the option out")
        wide = wide_arguments(self.items, self.alternatives, self.available, self.fill)
        if wide is not None:
            self._check_wide()
            return read_wide(table, **given | wide, on_none=self.on_none, rare=self.rare)
        roles |= given
        for name in ("set", "chosen"):
            if name not in roles and not (name == "chosen" and "rank" in roles):
                raise InputError(
                    f"--{name} is missing: name the {name} column of {self.table}"
                    f"{suggestion(table, self.table)}"
                )
        return read(
            table, **roles, on_none=self.on_none, on_multiple=self.on_multiple,
            on_duplicate=self.on_duplicate, rare=self.rare,
        )  # fmt: skip

    def _check_wide(self) -> None:
        """Refuse options that are for long tables, and a wide table that says nothing."""
        from setwise._errors import InputError

        if self.chosen is None and self.rank is None:
            raise InputError(f"--chosen is missing: name the choice column of {self.table}")
        for name in ("alternative", "on_multiple", "on_duplicate"):
            if getattr(self, name) not in (None, "error"):
                option = name.replace("_", "-")
                raise InputError(
                    f"--{option} is for long tables, but --items has {{alt}}; leave it out"
                )


def wide_arguments(
    items: str | None, alternatives: str | None, available: str | None, fill: float | None
) -> dict[str, Any] | None:
    """The arguments of ``read_wide`` that these options are; None for a long table.

    >>> wide_arguments("cost.{alt},time={alt}_TT", "1=bus,2=car", None, None)
    {'items': {'cost': 'cost.{alt}', 'time': '{alt}_TT'}, 'alternatives': {'1': 'bus', '2': 'car'}}
    """
    from setwise._errors import InputError
    from setwise.choices import expressions
    from setwise.choices.features import Feature
    from setwise.choices.layout import ALT, feature_name

    given = {"alternatives": alternatives, "available": available, "fill": fill}
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if items is None or ALT not in items:
        for name in found:
            raise InputError(
                f"--{name} is for wide tables; give --items patterns with {ALT}, such as "
                "'price.{alt}'"
            )
        return None
    patterns: dict[str, str] = {}
    for one in expressions("items", items):
        left, equals, right = one.partition("=")
        named = bool(equals) and ALT not in left and ALT in right
        pattern = right.strip() if named else one
        name = left.strip() if named else feature_name(Feature.parse(pattern).column)
        if name in patterns:
            raise InputError(f"--items gives '{name}' twice; name one, such as other={pattern}")
        patterns[name] = pattern
    found = {"items": patterns, **found}
    if alternatives is not None:
        found["alternatives"] = _alternatives(alternatives)
    return found


def _alternatives(text: str) -> list[str] | dict[str, str | None]:
    """The alternatives as a list, or by the codes that stand before them."""
    listed = names("--alternatives", text)
    if not any("=" in one for one in listed):
        return listed
    pairs = [one.partition("=") for one in listed]
    return {code.strip(): name.strip() or None for code, _, name in pairs}


def takes_source(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :class:`Source`; it receives them as its first argument."""
    return _with_source(command, inspect.Parameter.empty)


def may_take_source(command: Callable[..., None]) -> Callable[..., None]:
    """The same, with an optional table that comes after the command's own arguments."""
    return _with_source(command, "")


def _with_source(command: Callable[..., None], table: Any) -> Callable[..., None]:
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=field.type,
            default=table if field.name == "table" else field.default,
        )
        for field in fields(Source)
    ]
    own = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def with_source(**arguments: Any) -> None:
        source = Source(**{parameter.name: arguments.pop(parameter.name) for parameter in shared})
        command(source, **arguments)

    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    every = [*shared, *own] if table is inspect.Parameter.empty else [*own, *shared]
    with_source.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    return with_source

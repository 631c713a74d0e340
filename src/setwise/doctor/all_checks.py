"""The examination: every check of every column, with a few columns in memory at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from setwise._arguments import callback, checked, columns, each, optional, text
from setwise._errors import InputError
from setwise._executor import in_threads
from setwise.choices import (
    Choices,
    Feature,
    Roles,
    open_choices,
    open_table,
    read,
    read_wide,
    verify,
)
from setwise.choices.layout import ALT
from setwise.choices.reading import asked_roles, check_roles
from setwise.choices.stored import SUFFIX
from setwise.doctor.column_checks import (
    constant,
    early_dates,
    identifier,
    infinite,
    missing,
    outliers,
    position,
    rare_levels,
    skew,
    varying_context,
    wrong_transform,
    wrong_type,
)
from setwise.doctor.columns import ExaminedFeature, ExaminedSets, features_of, understood
from setwise.doctor.derived import Products
from setwise.doctor.leaks import ChoiceLeaks, leak
from setwise.doctor.report import SEVERITIES, Examination, Finding, TableSummary
from setwise.doctor.set_checks import (
    SET_CHECKS,
    Deviations,
    RowHashes,
    marks,
    missing_ids,
    refused_ids,
    single_items,
    summary,
)
from setwise.doctor.shapes import suggestion, wide
from setwise.doctor.source import Source, as_polars, open_source

Role = Literal["item", "context"]
OnColumn = Callable[[str, int, int], None]
AT_ONCE = 2  # columns in memory
MOST_ROWS = 20_000_000  # of choices; about 2 GB

COLUMN_CHECKS: tuple[Callable[[ExaminedFeature], Iterator[Finding]], ...] = (
    wrong_type,
    wrong_transform,
    missing,
    infinite,
    early_dates,
    varying_context,
    constant,
    leak,
    position,
    identifier,
    rare_levels,
    skew,
    outliers,
)


@checked(
    set=optional(text),
    chosen=optional(text),
    rank=optional(text),
    worst=optional(text),
    context=each(text, least=0),
    alternative=optional(text),
    on_column=optional(callback),
)
def examine(
    table: Any,
    *,
    set: str | None = None,
    chosen: str | None = None,
    rank: str | None = None,
    worst: str | None = None,
    items: Sequence[str] | Mapping[str, str] | None = None,
    context: Sequence[str] = (),
    alternative: str | None = None,
    alternatives: Any = None,
    available: str | None = None,
    fill: int | float | None = None,
    on_column: OnColumn | None = None,
) -> Examination:
    """Find everything that is wrong or suspicious in a table, without refusing it.

    An error is what :func:`setwise.choices.read` with the same arguments refuses; warnings and
    notes it takes. Rows count from 0 in the table's order, as in the errors of ``read``. A wide
    table (items with ``{alt}``) is examined as :func:`setwise.choices.read_wide` reads it.

    Args:
        table: a path to Parquet or CSV, a frame, a mapping of arrays, or a ``.setwise-data``
            file, whose checksums are verified (it knows its columns' roles).
        set: the column that names the choice set of each row.
        chosen: the 0/1 column that marks the chosen item.
        rank: the column of ranks, as ``read`` takes it; leaks are looked for in every stage.
        worst: the 0/1 column that marks the worst item; leaks are looked for among the best.
        items: features of items, as names or expressions; by default every other column.
        context: features of the whole set.
        alternative: the column that names the alternative of each row.
        alternatives: of a wide table, as ``read_wide`` takes them.
        available: of a wide table, the pattern of its 0/1 columns of availability.
        fill: of a wide table, the number for alternatives that have no column.
        on_column: called with the column that is examined, the number done, and of all.

    >>> examination = examine({"trip": [1, 1, 2, 2], "cost": [3.0, 1.0, 2.0, 5.0],
    ...                        "taken": [0, 1, 0, 0]}, set="trip", chosen="taken")
    >>> [(one.severity, one.code, one.sets) for one in examination.findings]
    [('error', 'no-choice', ('2',))]
    """
    tell = on_column or (lambda name, done, of: None)
    stored = isinstance(table, (str, Path)) and Path(table).suffix.lower() == SUFFIX
    if (stored or isinstance(table, Choices)) and any((set, chosen, rank, worst, items, context)):
        label = table if stored else "a Choices"
        raise InputError(
            f"{label} knows the roles of its columns; leave set, chosen, rank, worst, items and "
            "context out"
        )
    if isinstance(table, Choices):
        return _examine_choices(table, "choices", tell)
    if stored:
        verify(table)
        return _examine_choices(open_choices(table), str(table), tell)
    given = {"alternatives": alternatives, "available": available, "fill": fill}
    if is_wide_request(items, given):
        asked = {"set": set, "chosen": chosen, "rank": rank, "worst": worst, "items": items,
                 "context": context, **given}  # fmt: skip
        return _examine_read(read_wide, table, asked, tell)
    if isinstance(items, Mapping):
        raise InputError("items= as a mapping is for wide tables; its patterns have {alt}")
    if set is not None and (rank is not None or worst is not None):
        asked = {"set": set, "chosen": chosen, "rank": rank, "worst": worst, "items": items,
                 "context": context, "alternative": alternative}  # fmt: skip
        return _examine_read(read, table, asked, tell)
    source = open_source(table)
    if set is None or chosen is None:
        role = "set" if set is None else "chosen"
        raise InputError(
            f"{role}= (--{role}) is missing: name the {role} column of {source.label}"
            f"{suggestion(table, source.label)}"
        )
    items = [items] if isinstance(items, str) else items
    context = [context] if isinstance(context, str) else context
    if set == chosen:
        raise InputError(f"column '{set}' is given as set= and as chosen=; each needs its own")
    roles = asked_roles(
        source.names, items, context, set=set, chosen=chosen, alternative=alternative
    )
    return _examine_long(source, roles, chosen, tell)


def _examine_long(source: Source, roles: Roles, chosen: str, tell: OnColumn) -> Examination:
    """The examination of a long table; one that looks wide is said to."""
    try:
        check_roles(roles, source.names)
    except InputError as error:
        call = wide(source.head())
        if call is None:
            raise
        raise InputError(
            f"{error}; the table looks wide: {call.written(source.label)}", column=error.column
        ) from None
    features: dict[str, tuple[Feature, Role]] = {
        feature.column: (feature, "item") for feature in roles.items
    }
    features |= {feature.column: (feature, "context") for feature in roles.context}
    found = _examine_source(source, roles.set, chosen, features, tell)
    call = wide(source.head()) if found.errors else None
    if call is None:
        return found
    looks = Finding(
        "warning", "wide-table", "the table looks wide, with one row per choice",
        f"read it with {call.written(source.label)}",
    )  # fmt: skip
    return _examination(found.table, found.summary, [*found.findings, looks])


def is_wide_request(items: Any, given: Mapping[str, Any]) -> bool:
    """Whether the items are patterns of a wide table; other arguments for one are an error."""
    if not isinstance(items, Mapping):
        optional(columns)("items", items)
    named = [items] if isinstance(items, str) else items or ()
    patterns = named.values() if isinstance(named, Mapping) else named
    if any(ALT in str(one) for one in patterns):
        return True
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name}= (--{name}) is for wide tables; give items= patterns, as 'price.{{alt}}'"
            )
    return False


def _examine_read(
    reader: Callable[..., Choices], table: Any, asked: dict[str, Any], tell: OnColumn
) -> Examination:
    """What reading refuses in a wide or ranked table, and what is suspicious in its choices."""
    label = str(table) if isinstance(table, (str, Path)) else "a table"
    opened, findings = open_table(table), []
    for on_none in ("error", "drop"):
        try:
            choices = reader(opened, **asked, on_none=on_none)
        except InputError as error:
            if error.row is None and error.set is None:
                raise  # about the arguments
            message, _, remedy = str(error).rpartition("; ")
            code = "wide-table" if reader is read_wide else "ranking"
            rows = () if error.row is None else (error.row,)
            sets = () if error.set is None else (str(error.set),)
            findings.append(Finding("error", code, message, remedy, error.column, rows, sets))
        else:
            found = _examine_choices(choices, label, tell)
            findings += [
                replace(one, rows=tuple(dict.fromkeys(one.rows))) for one in found.findings
            ]
            return _examination(label, found.summary, findings)
    return _examination(label, TableSummary(opened.rows, len(opened.names)), findings[:1])


def _examine_source(
    source: Source, set: str, chosen: str, features: dict[str, tuple[Feature, Role]], tell: OnColumn
) -> Examination:
    bare = TableSummary(source.rows, len(source.names))
    findings: list[Finding] = []
    if source.rows == 0:
        empty = Finding("error", "empty-table", "the table has no rows", "give it at least one set")
        return _examination(source.label, bare, [*findings, empty])
    raw_ids, choice = (series for _, series in source.each([set, chosen]))
    ids = as_polars(raw_ids)
    findings += list(missing_ids(set, ids)) or list(refused_ids(set, raw_ids))
    sets = ExaminedSets.of(ids)
    if len(sets) == 0:
        return _examination(source.label, bare, findings)
    known, wrong = marks(chosen, choice, sets)
    sets = replace(sets, marks=known)
    findings += wrong
    hashes = RowHashes(source.rows, source.compares_rows)
    hashes.add(ids)
    hashes.add(as_polars(choice))
    others = [name for name in source.names if name not in (set, chosen)]
    if not source.compares_rows:
        others = [name for name in others if name in features]
    across, about_columns = _Across(sets), []

    def columns() -> Iterator[tuple[Any, Feature, Role]]:
        for done, (name, series) in enumerate(source.each(others)):
            tell(name, done, len(others))
            hashes.add(as_polars(series))
            if name in features:
                yield series, *features[name]

    def work(column: tuple[Any, Feature, Role]) -> tuple[ExaminedFeature, list[Finding]]:
        return _examined(*column, sets)

    for one, found in in_threads(work, columns(), AT_ONCE, ahead=0):
        about_columns += across.add(one, found)
    findings += hashes.repeated(ids)
    findings += [finding for check in SET_CHECKS for finding in check(sets)]
    findings += across.joined(about_columns)
    choices = None if known is None else int(known.sum())
    numbers = summary(sets.sizes, choices, source.rows, len(source.names))
    return _examination(source.label, numbers, findings)


def _examine_choices(choices: Choices, label: str, tell: OnColumn) -> Examination:
    """What is suspicious in choices: what is wrong was refused when they were read.

    So a part of very many hides no error, and sets at even distances are examined.
    """
    roles, sizes, rows = choices.roles, choices.sizes, int(choices.offsets[-1])
    taken = None
    if choices.chosen is not None:
        taken = int((choices.chosen < sizes).sum())  # elsewhere, the outside option was taken
    numbers = summary(sizes, taken, rows, len(roles.items) + len(roles.context))
    findings = []
    choices = choices.of_best()
    step = -(-rows // MOST_ROWS)
    if step > 1:
        findings.append(
            Finding(
                "note", "sample", f"one set in {step} was examined, since there are {rows:,} rows",
                "nothing to do",
            )
        )  # fmt: skip
        choices = choices.take(np.arange(0, len(choices), step))
    sets = ExaminedSets.of_choices(choices)
    across = _Across(sets)
    findings += single_items(sets)
    count = len(roles.items) + len(roles.context)
    for done, one in enumerate(features_of(choices, sets)):
        tell(one.name, done, count)
        findings += across.add(one, _about(one))
    return _examination(label, numbers, across.joined(findings))


class _Across:
    """Checks that look at several columns at once, of sets at even distances."""

    def __init__(self, sets: ExaminedSets):
        self._deviations, self._answers = Deviations(sets), ChoiceLeaks(sets)
        self._products = Products(sets)
        self._leaks: list[str] = []

    def add(self, one: ExaminedFeature, found: list[Finding]) -> list[Finding]:
        """Take a feature in; what was found about it by itself comes back."""
        self._deviations.add(one)
        self._answers.add(one)
        self._products.add(one)
        if any(finding.code in ("leak", "copy-of-chosen") for finding in found):
            self._leaks.append(one.name)
        return found

    def joined(self, findings: list[Finding]) -> list[Finding]:
        """All findings: a column that holds the answer is not advised to go into context."""
        answers = [answer.finding() for answer in self._answers.found(tuple(self._leaks))]
        held = {finding.column for finding in answers}
        kept = [
            finding
            for finding in findings
            if finding.code != "constant-within-sets" or finding.column not in held
        ]
        return [*kept, *answers, *self._deviations.pairs(), *self._products.findings()]


def _examined(
    series: Any, feature: Feature, role: Role, sets: ExaminedSets
) -> tuple[ExaminedFeature, list[Finding]]:
    column, trouble = understood(feature.column, series, feature.category)
    if sets.order is not None:
        column = column.take(sets.order)
    one = ExaminedFeature(feature, role, column, sets, trouble)
    return one, _about(one)


def _about(one: ExaminedFeature) -> list[Finding]:
    return [finding for check in COLUMN_CHECKS for finding in check(one)]


def _examination(label: str, numbers: TableSummary, findings: list[Finding]) -> Examination:
    worst_first = sorted(findings, key=lambda one: SEVERITIES.index(one.severity))
    return Examination(label, numbers, tuple(worst_first))

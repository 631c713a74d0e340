"""How people read columns and items: labels, units, ranges of the data, and names of items."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

import numpy as np

from setwise._arguments import by_name, check_all, checked, each, instance, optional, text
from setwise._errors import InputError
from setwise._shapes import Bool, Int
from setwise.choices.choices import Choices
from setwise.choices.features import Feature

MOST_ROWS = 200_000
"""Of more rows, a random sample of the sets is looked at."""
INSIDE = 0.005, 0.995
"""The quantiles between which a range lies: a few extreme values would make a slider useless."""
MOST_NAMES = 100  # a column with more levels hardly names items
MEETINGS = 10.0  # 0/1 columns that never meet, though by chance they would that often, exclude it

_template = optional(text)


@dataclass(frozen=True)
class Display:
    """How the page of ``setwise serve`` shows a model's columns and items.

    ``ranges`` has the least and the largest usual value of each number column, and whether all its
    values are whole. ``one_hot`` lists the groups of 0/1 columns of which at most one is 1 in a
    row. ``item_name`` is a template such as ``"{brand}, {stars} stars"``; a column of a group
    stands for the whole group. Without a template items are named by their alternative.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> display = Display.of(choices, labels={"ivt": "time in the vehicle (min)"})
    >>> display.one_hot, display.item_name
    ((('is_car', 'is_train', 'is_bus', 'is_air'),), '{is_car}')
    >>> display.labelled("ivt"), display.labelled("cost")
    (('time in the vehicle', 'min'), ('cost', None))
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, Sequence[float | bool]] = field(default_factory=dict)
    one_hot: Sequence[Sequence[str]] = ()
    item_name: str | None = None

    @classmethod
    @checked(labels=by_name(text, 0), item_name=_template)
    def of(
        cls,
        choices: Choices,
        labels: Mapping[str, str] | None = None,
        item_name: str | None = None,
    ) -> "Display":
        """What these choices tell of their columns.

        Args:
            choices: the training data.
            labels: text for columns, by name; a unit comes last, in brackets: ``"travel time
                (min)"``. Columns without a label are shown by their name. The label of a 0/1
                column that belongs to a group is that of its level: ``{"is_sm": "Swissmetro"}``.
            item_name: a template that names an item by its columns. By default items are named by
                the column of alternatives, or by a category or a group of 0/1 columns that
                differs among the items of every set.
        """
        labels = dict(labels or {})
        features = [*choices.roles.items, *choices.roles.context]
        known = [feature.column for feature in features]
        for name in [*labels, *_columns_of(item_name)]:
            if name not in known:
                raise InputError(
                    f"there is no column '{name}' to show; the columns are: {', '.join(known)}"
                )
        seen = choices.of_best()
        rows = max(int(seen.offsets[-1]), 1)
        seen = seen.sample(max(1, MOST_ROWS * len(seen) // rows))
        own = tuple(_groups(list(_binary(seen, choices.roles.items))))
        around = tuple(_groups(list(_binary(seen, choices.roles.context))))
        if item_name is None:
            item_name = _naming(seen, own)
        return cls(labels, dict(_ranges(seen, features)), own + around, item_name)

    def labelled(self, column: str) -> tuple[str, str | None]:
        """A column's label and its unit."""
        found = re.fullmatch(r"(.*?)(?:\s*\(([^()]*)\))?", self.labels.get(column, column), re.S)
        assert found is not None
        return (found[1], found[2]) if found[1] and column in self.labels else (found[0], None)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a model file."""
        return {name: value for name, value in vars(self).items() if value}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Display":
        """What :meth:`to_json` wrote, with each part checked."""
        check_all(_PARTS, plain)
        pick = {name: plain[name] for name in _PARTS if name in plain}
        if any(len(one) != len(RANGE) for one in pick.get("ranges", {}).values()):
            raise InputError(f"a range is not {', '.join(RANGE)}")
        groups = tuple(tuple(one) for one in pick.get("one_hot", ()))
        return cls(**pick | {"one_hot": groups})


RANGE = ("least", "largest", "whole")
_PARTS = {
    "labels": by_name(text, 0),
    "ranges": by_name(instance(list, "write a range"), 0),
    "one_hot": each(each(text), 0),
    "item_name": _template,
}


def _columns_of(template: str | None) -> list[str]:
    """The columns that a template names."""
    if template is None:
        return []
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise InputError(
            f"item_name={template!r} has unpaired braces ({error}); write it like '{{brand}}'"
        ) from None
    found = [name for _, name, form, how in parts if name is not None and not form and how is None]
    if not found or len(found) < sum(name is not None for _, name, _, _ in parts):
        raise InputError(
            f"item_name={template!r} must name columns in braces and nothing else in them, like "
            "'{brand}, {stars} stars'"
        )
    return found


def _values(choices: Choices, feature: Feature) -> Any:
    """The numbers of a column as floats; None for other columns and numbers that are names."""
    where = choices.context if feature.column in choices.context else choices.columns
    column = where[feature.column]
    if column.kind != "number" or feature.category:
        return None
    return column.values.astype(np.float64)


def _ranges(
    choices: Choices, features: Sequence[Feature]
) -> Iterator[tuple[str, tuple[float, float, bool]]]:
    """Of every number column with two values or more: its usual range, and whether it is whole."""
    for feature in features:
        values = _values(choices, feature)
        values = None if values is None else values[np.isfinite(values)]
        if values is None or len(values) == 0 or values.min() == values.max():
            continue
        low, high = np.quantile(values, INSIDE, method="nearest").tolist()
        if low == high:
            low, high = float(values.min()), float(values.max())
        yield feature.column, (low, high, bool((values == np.round(values)).all()))


def _binary(
    choices: Choices, features: Sequence[Feature]
) -> Iterator[tuple[str, Bool[np.ndarray, " rows"] | None]]:
    """Every column, as flags if it is 0 in some rows and 1 in all the others."""
    for feature in features:
        values = _values(choices, feature)
        is_binary = values is not None and np.unique(values).tolist() == [0, 1]
        yield feature.column, values == 1 if is_binary else None


def _groups(
    columns: Sequence[tuple[str, Bool[np.ndarray, " rows"] | None]],
) -> Iterator[tuple[str, ...]]:
    """Neighbouring 0/1 columns that exclude each other.

    Either one of them is 1 in every row, or they begin alike and one level is left out.

    >>> a, b = np.eye(2, dtype=bool).repeat(20, axis=1)
    >>> list(_groups([("new", a), ("is_a", a), ("is_b", b), ("x", None)]))
    [('is_a', 'is_b')]
    """
    place = 0
    while place < len(columns):
        names = _run(columns[place:])
        if names:
            yield names
        place += max(1, len(names))


def _run(columns: Sequence[tuple[str, Bool[np.ndarray, " rows"] | None]]) -> tuple[str, ...]:
    """The longest group that begins with the first column; none if there is no group."""
    first = columns[0][0]
    best = 0
    taken: Any = None
    alike = _head(first) != ""
    for place, (name, flags) in enumerate(columns):
        if flags is None or (taken is not None and not _excluded(taken, flags)):
            break
        taken = flags if taken is None else taken | flags
        alike = alike and _head(name) == _head(first)
        if place > 0 and (alike or taken.all()):
            best = place + 1
    return tuple(name for name, _ in columns[:best])


def _excluded(taken: Bool[np.ndarray, " rows"], flags: Bool[np.ndarray, " rows"]) -> bool:
    """Whether two never meet, though by chance they would."""
    by_chance = len(flags) * float(taken.mean()) * float(flags.mean())
    return by_chance >= MEETINGS and not bool((taken & flags).any())


def _head(name: str) -> str:
    """How a name begins: "is_train" with "is_"."""
    found = re.match(r"[^_.=: ]+[_.=: ]", name)
    return found[0] if found else ""


def _naming(choices: Choices, one_hot: Sequence[Sequence[str]]) -> str | None:
    """A template of the column that names the items; None if their alternatives do, or nothing."""
    items = [feature.column for feature in choices.roles.items]
    alternative = choices.roles.alternative
    if alternative is not None:
        return f"{{{alternative}}}" if alternative in items else None
    for feature in choices.roles.items:
        column = choices.columns[feature.column]
        is_name = column.levels is not None and len(column.levels) <= MOST_NAMES
        if is_name and _tells_apart(choices, column.values.astype(np.int64)):
            return f"{{{feature.column}}}"
    for group in one_hot:
        flags = np.stack([choices.columns[name].values == 1 for name in group])
        if _tells_apart(choices, np.where(flags.any(0), flags.argmax(0), -1)):
            return f"{{{group[0]}}}"
    return None


def _tells_apart(choices: Choices, codes: Int[np.ndarray, " rows"]) -> bool:
    """Whether no two items of a set have the same code, and none is without."""
    if bool((codes < 0).any()) or int(choices.sizes.max(initial=0)) < 2:
        return False
    owners = np.repeat(np.arange(len(choices)), choices.sizes)
    pairs = owners * (int(codes.max()) + 1) + codes
    return len(np.unique(pairs)) == len(pairs)

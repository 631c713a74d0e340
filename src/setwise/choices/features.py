"""What the user asks of each column, and which part each column plays.

A feature is written as its column's name, or as an expression around it:

``log(price)``, ``log1p(price)``, ``sqrt(price)``
    the transformed number
``category(brand_id)``
    one-hot levels, for numbers that are names; text is a category anyway
``other(brand)``
    a category that takes levels never seen in training as "other" instead of refusing them
``popularity(hotel_id)``
    one number for a column of names: how much more often than by chance the items of this name
    are chosen in training sets; see :mod:`setwise.choices.schema`
``impute(review)``
    missing numbers become the training median, with an indicator column; a missing category
    becomes a level of its own

Expressions nest: ``impute(log(price))``.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from setwise._arguments import check_all, flag, instance, one_of, optional
from setwise._errors import InputError
from setwise._shapes import Bool, Float, Num
from setwise.choices.layout import WideLayout
from setwise.choices.utility import Utility

Transform = Literal["none", "log", "log1p", "sqrt"]
a_name = instance(str, "name a column")

FUNCTIONS = ("log", "log1p", "sqrt", "category", "other", "popularity", "impute")
_EXPRESSION = re.compile(rf"^({'|'.join(FUNCTIONS)})\s*\((.+)\)$")
_CALL = re.compile(r"(\w+)\s*\((.*)", re.DOTALL)


@dataclass(frozen=True)
class NumberTransform:
    """A function of a number, its inverse, and the numbers for which it has no value.

    >>> TRANSFORMS["log"].undefined(np.array([2.0, 0.0])).tolist()
    [False, True]
    """

    function: Callable[[Any], Any]
    inverse: Callable[[Any], Any]
    domain: Literal["all", "positive", "not negative"] = "all"
    why: str = ""
    """Why a number outside of the domain cannot be taken, for people who send one number."""

    @property
    def outside(self) -> str:
        """What a number is that has no value."""
        return "not positive" if self.domain == "positive" else "negative"

    @property
    def needs(self) -> str:
        """The numbers that have a value."""
        return "positive numbers" if self.domain == "positive" else "numbers of at least 0"

    def undefined(self, values: Num[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Where there is no value; missing numbers are not counted."""
        if self.domain == "all":
            return np.zeros(len(values), bool)
        return values <= 0 if self.domain == "positive" else values < 0

    def __call__(self, values: Num[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The transformed numbers."""
        if self.domain == "all" and values.dtype.kind == "f":
            return values  # standardisation, which follows, is in double precision
        # Logarithms of times or of large amounts differ in digits that float32 does not have.
        return self.function(values.astype(np.float64, copy=False))

    def defined(self, values: Num[np.ndarray, " n"]) -> Float[np.ndarray, " seen"]:
        """The transformed numbers of those that have a value.

        >>> TRANSFORMS["sqrt"].defined(np.array([-1.0, 1.0, 4.0])).tolist()
        [1.0, 2.0]
        """
        return self(values[~self.undefined(values)])


TRANSFORMS: dict[str, NumberTransform] = {
    "none": NumberTransform(np.asarray, np.asarray),
    "log": NumberTransform(
        np.log, np.exp, "positive", "its logarithm is taken: give a positive number"
    ),
    "log1p": NumberTransform(np.log1p, np.expm1, "not negative", "give a number of at least 0"),
    "sqrt": NumberTransform(
        np.sqrt, np.square, "not negative", "its root is taken: give a number of at least 0"
    ),
}


@dataclass(frozen=True)
class Feature:
    """One column and how a model sees it.

    >>> Feature.parse("impute(log(price))")
    Feature(column='price', transform='log', category=False, other=False, impute=True, \
popularity=False)
    >>> str(Feature.parse("impute(log(price))"))
    'impute(log(price))'
    """

    column: str
    transform: Transform = "none"
    category: bool = False
    other: bool = False
    impute: bool = False
    popularity: bool = False

    @classmethod
    def parse(cls, text: str, columns: Iterable[str] = ()) -> "Feature":
        """Read an expression; a name that is in ``columns`` as it stands is that column."""
        match = None if text in columns else _EXPRESSION.match(text.strip())
        if match is None:
            return cls(text)
        inner, name = cls.parse(match[2], columns), match[1]
        numeric = name in ("log", "log1p", "sqrt")
        if (numeric and (inner.category or inner.transform != "none")) or (
            name in ("category", "other", "popularity") and inner.transform != "none"
        ):
            raise InputError(
                f"feature '{text}' transforms '{inner.column}' twice; "
                "a column is a number with one transform or a category"
            )
        if numeric:
            return replace(inner, transform=name)  # type: ignore[arg-type]
        if name == "impute":
            return replace(inner, impute=True)
        return replace(
            inner, category=True, other=inner.other or name == "other",
            popularity=inner.popularity or name == "popularity",
        )  # fmt: skip

    @classmethod
    def asked(cls, text: str, columns: Collection[str]) -> "Feature":
        """Read an expression over a table with these columns; a mistake in it is an error.

        >>> Feature.asked("log(price", ["price"])
        Traceback (most recent call last):
        ...
        setwise._errors.InputError: feature 'log(price' has a '(' without its ')'; write it as \
log(price)
        """
        found = cls.parse(text, columns)
        inner = found.column.strip()
        if found.column not in columns and inner in columns:
            return replace(found, column=inner)
        call = None if found.column in columns else _CALL.fullmatch(inner)
        opened, closed = text.count("("), text.count(")")
        if found.column in columns or (call is None and opened == closed):
            return found  # whether the column is there is seen when it is read
        if opened > closed:
            whole = (
                f"{text.strip()})" if not text.strip().endswith("(") else f"{text.strip()}price)"
            )
            raise InputError(f"feature '{text}' has a '(' without its ')'; write it as {whole}")
        if opened < closed:
            raise InputError(f"feature '{text}' has a ')' too many; remove it")
        assert call is not None
        if call[1] in FUNCTIONS:
            raise InputError(f"feature '{text}' names no column; write {call[1]}(column)")
        raise InputError(
            f"feature '{text}' uses {call[1]}(), which is not a function here and not a column; "
            f"the functions are: {', '.join(FUNCTIONS)}"
        )

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Feature":
        """The feature of which a file has these values."""
        flags = dict.fromkeys(("category", "other", "impute", "popularity"), flag)
        transforms = one_of(*get_args(Transform))
        check_all({"column": a_name, "transform": transforms, **flags}, plain)
        return cls(**plain)

    def __str__(self) -> str:
        text = self.column
        if self.popularity:
            text = f"popularity({text})"
        elif self.category:
            text = f"other({text})" if self.other else f"category({text})"
        if self.transform != "none":
            text = f"{self.transform}({text})"
        return f"impute({text})" if self.impute else text


def default_items(names: Sequence[str], taken: Collection[str | None]) -> list[str]:
    """Every column without another role; one without a name is an error."""
    items = [name for name in names if name not in taken]
    if "" in items:
        raise InputError(
            f"column {names.index('') + 1} of the table has no name and would be a feature (pandas "
            "writes its index so: use to_csv(index=False)); name it, or list the features in items"
        )
    return items


_COLUMNS = ("set", "chosen", "weight", "group", "time", "alternative", "rank", "worst")


@dataclass(frozen=True)
class Roles:
    """The roles of the columns in a table of choices.

    ``alternative`` names the alternative of each row; models do not see it. ``utility`` is the
    formula that makes numbers of the columns, where there is one; items and context are then read
    for it. ``wide`` says which columns of a wide table they were read from. ``rank`` is the column
    of ranks, and ``worst`` marks the worst item where ``chosen`` marks the best.
    """

    set: str
    chosen: str | None
    items: tuple[Feature, ...]
    context: tuple[Feature, ...] = ()
    weight: str | None = None
    group: str | None = None
    time: str | None = None
    alternative: str | None = None
    utility: Utility | None = None
    wide: WideLayout | None = None
    rank: str | None = None
    worst: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for a model file."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in _COLUMNS}
        return plain | {
            "items": [vars(feature) for feature in self.items],
            "context": [vars(feature) for feature in self.context],
            "utility": None if self.utility is None else self.utility.to_json(),
            "wide": None if self.wide is None else self.wide.to_json(),
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Roles":
        """The roles that :meth:`to_json` wrote."""
        plain = {"rank": None, "worst": None} | plain  # older files have none
        features = {
            name: tuple(Feature.from_json(one) for one in plain[name])
            for name in ("items", "context")
        }
        check_all(dict.fromkeys(_COLUMNS, optional(a_name)) | {"set": a_name}, plain)
        utility, wide = plain.get("utility"), plain.get("wide")
        made = {
            "utility": None if utility is None else Utility(**utility),
            "wide": None if wide is None else WideLayout.from_json(wide),
        }
        return cls(**(plain | features | made))

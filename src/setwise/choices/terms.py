"""The terms of a utility, fitted to training data: from columns to numbers, with NumPy alone.

A fitted term is one column: categories, splines and coefficients per alternative are multiplied
out. Terms are plain JSON, so that a model file holds them and nothing in it is evaluated as code.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Float64
from setwise.choices.choices import Choices, Column
from setwise.choices.column_types import categories
from setwise.choices.encoders import FARTHEST, LARGEST, BadValue, Encoder, FeatureEncoder, Vector
from setwise.choices.features import Feature, Roles
from setwise.choices.tables import meant
from setwise.choices.utility import (
    ARGUMENTS,
    FUNCTIONS,
    OPERATORS,
    Node,
    Parsed,
    Product,
    Utility,
    columns_of,
    parts_of,
)

CONSTANT = "constant"
DEEPEST = 40  # of expressions in a file: more would exhaust the stack


@dataclass(frozen=True)
class Term:
    """One column that is computed from others.

    >>> term = Term("cost / 2", ("/", ("column", "cost"), ("number", 2.0)))
    >>> term.values({"cost": Column(np.array([3.0, 1.0]))}).tolist()
    [1.5, 0.5]
    """

    name: str
    expression: Node

    def values(self, columns: Mapping[str, Column]) -> Vector:
        """The numbers of every row; not finite where the expression has no value."""
        with np.errstate(all="ignore"):
            found = _value(self.expression, columns)
        rows = len(next(iter(columns.values())).values)
        return np.broadcast_to(np.asarray(found, np.float64), (rows,))

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {"name": self.name, "expression": self.expression}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Term":
        """The term of which a file has these values."""
        name = plain["name"]
        if not isinstance(name, str):
            raise InputError("a term of the utility has no name")
        return cls(name, _checked(plain["expression"]))


@dataclass(frozen=True)
class Terms:
    """All terms of a fitted utility, and the coefficients that are given.

    ``alternative`` is the column of alternatives where the terms use it.
    """

    terms: tuple[Term, ...]
    alternative: str | None

    @property
    def names(self) -> list[str]:
        """The names of the terms, as coefficients are labelled."""
        return [one.name for one in self.terms]

    @classmethod
    def fit(cls, utility: Utility, choices: Choices) -> "Terms":
        """Multiply out the formula over the levels, alternatives and quantiles of these choices."""
        return cls(*_Fitting(utility, choices).terms())

    def of(self, columns: Mapping[str, Column]) -> Float64[np.ndarray, "rows terms"]:
        """The terms of rows whose columns, context included, have one value per row."""
        return np.stack([one.values(columns) for one in self.terms], 1)

    def with_marks(self, column: str, marks: Mapping[str, Sequence[str]]) -> "Terms":
        """With one more term per name: 1 for these alternatives and 0 for the others."""
        added = tuple(Term(name, marked(column, some)) for name, some in marks.items())
        return Terms(self.terms + added, column)

    def with_context(self, formula: Utility, choices: Choices) -> "Terms":
        """With the terms of a formula of context alone, which are equal for all items of a set."""
        return Terms(self.terms + _Fitting(formula, choices).context_terms(), self.alternative)

    def of_context(self, context: Collection[str]) -> list[int]:
        """The places of the terms that are computed from these columns of context alone."""
        return [
            place
            for place, one in enumerate(self.terms)
            if columns_of(one.expression) <= set(context)
        ]

    def depend_on(self, column: str) -> list[int]:
        """The places of the terms that change with a column."""
        return [
            place for place, one in enumerate(self.terms) if column in columns_of(one.expression)
        ]

    def slopes(
        self, columns: Mapping[str, Column], column: str
    ) -> Float64[np.ndarray, "rows terms"]:
        """The derivative of every term with respect to a number column, row by row.

        By central differences in double precision, which are right to about nine digits.
        """
        x = columns[column].values.astype(np.float64)
        step = np.cbrt(np.finfo(float).eps) * np.maximum(np.abs(x), 1e-3)
        high, low = x + step, x - step
        ends = [self.of({**columns, column: Column(end)}) for end in (high, low)]
        return (ends[0] - ends[1]) / (high - low)[:, None]

    def check(self, encoders: Mapping[str, Encoder]) -> None:
        """Refuse terms, as of a crafted file, that these columns cannot give."""
        for one in self.terms:
            for part in parts_of(one.expression):
                kind = {"column": "number", "level": "category"}.get(part[0])
                if kind is not None and encoders[part[1]].kind != kind:
                    raise InputError(f"the term '{one.name}' needs a {kind}, '{part[1]}'")

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {"terms": [one.to_json() for one in self.terms], "alternative": self.alternative}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Terms":
        """The terms of which a file has these values."""
        alternative = plain["alternative"]
        if alternative is not None and not isinstance(alternative, str):
            raise InputError("the utility's column of alternatives is not a name")
        return cls(tuple(Term.from_json(one) for one in plain["terms"]), alternative)


@dataclass(frozen=True, eq=False)
class TermEncoder:
    """Fitted terms with the training mean and scale of each: what models see of a utility.

    ``raw`` are the encoders of the columns that the terms are computed from.
    """

    terms: Terms
    raw: tuple[FeatureEncoder, ...]
    mean: Vector
    scale: Vector

    def encoded(
        self, columns: Mapping[str, Column], given: Mapping[str, Sequence[Any]] | None = None
    ) -> Float64[np.ndarray, "rows terms"]:
        """The standardised terms; a value that cannot be taken is a :class:`BadValue`.

        ``given`` are values as they were sent, for the error.
        """
        for one in self.raw:
            one.refuse_unknown(columns[one.name], (given or {}).get(one.name))
        values = (self.terms.of(columns) - self.mean) / self.scale
        if values.size and not (np.abs(values) <= FARTHEST).all():
            raise self._bad(columns, values)
        return values

    def training_values(self, columns: Mapping[str, Column]) -> Float64[np.ndarray, "rows terms"]:
        """The terms of training rows, as they are; one without a value or too large is refused."""
        values = self.terms.of(columns)
        if values.size and not (np.abs(values) <= LARGEST).all():
            raise self._bad(columns, values)
        return values

    def _bad(
        self, columns: Mapping[str, Column], values: Float64[np.ndarray, "rows terms"]
    ) -> BadValue:
        finite = np.isfinite(values)
        size = np.where(finite, np.abs(values), np.inf)
        row, place = np.unravel_index(int(np.argmax(size)), size.shape)
        term = self.terms.terms[int(place)]
        numbers = [one for one in sorted(columns_of(term.expression)) if one in columns]
        column = next((one for one in numbers if columns[one].kind == "number"), term.name)
        shown = f"{columns[column].values[row]:g}" if column in columns else "given"
        why = f", for which the term '{term.name}' has no value"
        if finite[row, place]:
            why = f", which makes the term '{term.name}' too large to compute with"
        return BadValue(int(row), column, shown, why, "; correct it, or change the formula")


def used_roles(utility: Utility, choices: Choices) -> Roles:
    """The roles of just the columns that a utility uses; a column that is missing is an error."""
    parsed, roles = utility.parsed(), choices.roles
    if parsed.chosen not in (None, roles.chosen):
        raise InputError(
            f"the utility '{utility.formula}' explains '{parsed.chosen}', but the chosen column is "
            f"'{roles.chosen}'; leave out what stands before ~"
        )
    names = set().union(*(one.columns() for one in parsed.products))
    known = [*choices.columns, *choices.context]
    for name in sorted(names):
        if name not in known:
            raise InputError(
                f"the utility '{utility.formula}' names '{name}', which is not a column of these "
                f"choices; they have: {', '.join(known)}; {meant(name, known)}",
                column=name,
            )
    as_names = {
        part[1]
        for one in parsed.products
        for factor in one.factors
        for part in parts_of(factor)
        if part[0] in ("category", "level")
    }
    if roles.alternative is not None and parsed.uses_alternatives:
        names.add(roles.alternative)
    wanted = [
        Feature(name, category=name in as_names or _column(choices, name).levels is not None)
        for name in known
        if name in names
    ]
    return replace(
        roles,
        items=tuple(one for one in wanted if one.column in choices.columns),
        context=tuple(one for one in wanted if one.column in choices.context),
        utility=utility,
    )


def row_columns(features: Sequence[Feature], choices: Choices) -> dict[str, Column]:
    """The columns that terms are computed from, context too with one value per row."""
    owners = np.repeat(np.arange(len(choices)), choices.sizes)
    found = {}
    for feature in features:
        name = feature.column
        if name not in choices.columns and name not in choices.context:
            known = ", ".join([*choices.columns, *choices.context])
            raise InputError(
                f"feature column '{name}' is missing; the model was trained with it (columns here: "
                f"{known})",
                column=name,
            )
        column = _as_asked(_column(choices, name), feature)
        found[name] = column if name in choices.columns else column.take(owners)
    return found


def _as_asked(column: Column, feature: Feature) -> Column:
    """A number as names, where the formula takes it as such."""
    if feature.category and column.levels is None:
        return categories(column.values)
    return column


def _column(choices: Choices, name: str) -> Column:
    return choices.columns[name] if name in choices.columns else choices.context[name]


@dataclass(frozen=True)
class _Fitting:
    """Multiplies out one formula over the levels and alternatives of training choices."""

    utility: Utility
    choices: Choices

    def terms(self) -> tuple[tuple[Term, ...], str | None]:
        parsed = self.utility.parsed()
        self._check_parts(parsed)
        column = self.choices.roles.alternative
        names = self._alternatives(parsed)
        found = [Term(name, node) for one in parsed.generic for name, node in self._expanded(one)]
        others = [name for name in names if name != self._reference(names)]
        if column is not None and parsed.constants is not False:
            found += [Term(f"{CONSTANT}:{name}", ("level", column, name)) for name in others]
        for products, which in ((parsed.by_context, others), (parsed.by_item, names)):
            found += [
                Term(f"{name}:{one}", ("*", node, ("level", column, one)))
                for product in products
                for name, node in self._expanded(product)
                for one in which
            ]
        if not found:
            raise self._error("has no term")
        labels = [one.name for one in found]
        twice = next((name for name in labels if labels.count(name) > 1), None)
        if twice is not None:
            raise self._error(f"has the term '{twice}' twice; leave one out")
        unknown = [name for name in self.utility.fixed if name not in labels]
        if unknown:
            raise self._error(
                f"has no term '{unknown[0]}' whose coefficient could be fixed; its terms are: "
                f"{', '.join(labels)}"
            )
        uses_names = any(
            column in columns_of(one.expression) for one in found if column is not None
        )
        return tuple(found), column if uses_names else None

    def context_terms(self) -> tuple[Term, ...]:
        products = self.utility.parsed().generic
        return tuple(Term(name, node) for one in products for name, node in self._expanded(one))

    def _alternatives(self, parsed: Parsed) -> list[str]:
        column = self.choices.roles.alternative
        if column is None:
            if parsed.needs_alternatives:
                raise self._error(
                    "has coefficients or constants by alternative, but these choices do not name "
                    "their alternatives; read them with alternative='column', or leave out what "
                    "follows the first bar"
                )
            return []
        codes = np.unique(self.choices.columns[column].values)
        levels = self.choices.levels(column)
        return [levels[code] for code in codes.tolist()]

    def _reference(self, names: Sequence[str]) -> str | None:
        reference = self.utility.reference
        if reference is None:
            return names[0] if names else None
        if reference not in names:
            known = f"; the alternatives are: {', '.join(names)}" if names else ""
            raise self._error(
                f"has the reference '{reference}', which is not an alternative{known}"
            )
        return reference

    def _check_parts(self, parsed: Parsed) -> None:
        """Refuse terms that cannot have the coefficients of the part they stand in."""
        items = self.choices.columns
        for one in parsed.generic:
            if not one.names_alternatives and not any(name in items for name in one.columns()):
                raise self._error(
                    f"has '{one.name}' in its first part, but it is the same for all alternatives "
                    "of a set and cancels; put it after the first bar, or multiply it with an item "
                    "column"
                )
        for one in parsed.by_context:
            mixed = [name for name in one.columns() if name in items]
            if mixed:
                raise self._error(
                    f"has '{one.name}' in its second part, which is for context, but '{mixed[0]}' "
                    "differs between the alternatives of a set; put it after the second bar"
                )

    def _expanded(self, product: Product) -> Iterator[tuple[str, Node]]:
        """The columns that a term of the formula becomes, with their names."""
        kinds = [self._category(factor) for factor in product.factors]
        numbers = any(kind is None for kind in kinds)
        choices = [
            self._levels_of(kind, keep_first=numbers)
            if kind is not None
            else self._columns_of(factor, text)
            for factor, kind, text in zip(product.factors, kinds, product.texts, strict=True)
        ]
        for combination in itertools.product(*choices):
            nodes = [node for _, node in combination]
            node = nodes[0]
            for other in nodes[1:]:
                node = ("*", node, other)
            yield ":".join(name for name, _ in combination), node

    def _category(self, factor: Node) -> str | None:
        """The column of a factor that is a category."""
        if factor[0] == "category":
            return str(factor[1])
        if factor[0] == "column" and _column(self.choices, factor[1]).levels is not None:
            return str(factor[1])
        return None

    def _levels_of(self, column: str, keep_first: bool) -> list[tuple[str, Node]]:
        levels = _used_levels(self.choices, column)
        return [
            (f"{column}={level}", ("level", column, level))
            for level in (levels if keep_first else levels[1:])
        ]

    def _columns_of(self, factor: Node, text: str) -> list[tuple[str, Node]]:
        """A number as it is; a spline or a piecewise function as its columns."""
        node = self._resolved(factor)
        if factor[0] == "piecewise":
            return _pieces(node[1], factor[2], text)
        if factor[0] == "bs":
            return self._spline(node[1], factor[2], factor[3], text)
        return [(text, node)]

    def _resolved(self, node: Node) -> Node:
        """With alternatives by their column; categories and splines inside others are refused."""
        kind = node[0]
        if kind == "only":
            names = self._alternatives(self.utility.parsed())
            for one in node[1]:
                if one not in names:
                    raise self._error(
                        f"has only({one}), which is not an alternative; the alternatives are: "
                        f"{', '.join(names)}"
                    )
            assert self.choices.roles.alternative is not None
            return marked(self.choices.roles.alternative, node[1])
        if kind == "column":
            column = _column(self.choices, node[1])
            if column.kind != "number":
                raise self._error(
                    f"computes with '{node[1]}', which is a {column.kind}; use it alone, or "
                    f"compare it: {node[1]} == 'text'"
                )
            return node
        if kind == "level":
            known = _used_levels(self.choices, node[1])
            if node[2] not in known:
                shown = ", ".join(known[:8])
                raise self._error(f"compares '{node[1]}' with '{node[2]}'; it has: {shown}")
            return node
        if kind == "number":
            return node
        if kind == "category":
            raise self._error(f"computes with C({node[1]}); use it alone")
        return tuple(self._inner(one) for one in node)

    def _inner(self, one: Any) -> Any:
        if not isinstance(one, tuple) or not one or not isinstance(one[0], str):
            return one
        if one[0] in ("bs", "piecewise"):
            raise self._error(f"computes with {one[0]}(...); use it alone")
        return self._resolved(one)

    def _spline(self, x: Node, df: int, degree: int, text: str) -> list[tuple[str, Node]]:
        columns = {name: _column(self.choices, name) for name in columns_of(x)}
        rows = {len(one.values) for one in columns.values()}
        if len(rows) > 1:
            raise self._error(f"has {text} of item and context columns together; split it")
        known = Term(text, x).values(columns)
        if not np.isfinite(known).all():
            raise self._error(f"has {text}, which has no value in some rows; correct the formula")
        inside = np.linspace(0, 1, df - degree + 2)
        knots = np.quantile(known, inside)
        if len(np.unique(knots)) < len(knots):
            raise self._error(f"has {text}, but the column has too few values for it; lower df=")
        padded = (*[knots[0]] * degree, *knots.tolist(), *[knots[-1]] * degree)
        whole = tuple(float(one) for one in padded)
        return [
            (f"{text}[{place}]", ("spline", x, whole, degree, place)) for place in range(1, df + 1)
        ]

    def _error(self, why: str) -> InputError:
        return InputError(f"the utility '{self.utility.formula}' {why}")


def marked(column: str, levels: Sequence[str]) -> Node:
    """The expression that is 1 where a column has one of these levels."""
    total: Node = ("level", column, levels[0])
    for level in levels[1:]:
        total = ("+", total, ("level", column, level))
    return total


def _used_levels(choices: Choices, column: str) -> list[str]:
    """The levels of a category that some row has, in their order."""
    values = _as_asked(_column(choices, column), Feature(column, category=True))
    levels = values.levels or ()
    return [levels[code] for code in np.unique(values.values).tolist() if code >= 0]


def _pieces(x: Node, knots: Sequence[float], text: str) -> list[tuple[str, Node]]:
    """The lengths of x below the first point, between each two, and above the last."""
    inner = text.removeprefix("piecewise(").partition(",")[0]
    edges = [None, *knots, None]
    found: list[tuple[str, Node]] = []
    for low, high in itertools.pairwise(edges):
        node = x if high is None else ("min", x, ("number", float(high)))
        if low is not None:
            node = ("-", ("max", node, ("number", float(low))), ("number", float(low)))
        ends = ["" if one is None else f"{one:g}" for one in (low, high)]
        found.append((f"{inner}[{ends[0]}:{ends[1]}]", node))
    return found


def _value(node: Node, columns: Mapping[str, Column]) -> Any:
    kind = node[0]
    if kind == "column":
        return columns[node[1]].values.astype(np.float64)
    if kind == "number":
        return node[1]
    if kind == "level":
        column = columns[node[1]]
        levels = list(column.levels or ())
        code = levels.index(node[2]) if node[2] in levels else len(levels)
        return (column.values == code).astype(np.float64)
    if kind == "spline":
        return _basis(_value(node[1], columns), node[2], node[3], node[4])
    function = FUNCTIONS.get(kind) or OPERATORS[kind]
    return np.multiply(1.0, function(*(_value(one, columns) for one in node[1:])))


def _basis(x: Any, knots: Sequence[float], degree: int, place: int) -> Any:
    """One B-spline by the recursion of Cox and de Boor; beyond the ends as at the ends."""
    x = np.clip(x, knots[0], knots[-1])
    low, high = knots[place], knots[place + degree + 1]
    if degree == 0:
        last = knots[place + 1] == knots[-1] and knots[place] < knots[place + 1]
        inside = (x >= knots[place]) & ((x < knots[place + 1]) | (last & (x == knots[-1])))
        return inside.astype(np.float64)
    total = np.zeros_like(np.asarray(x, np.float64))
    if knots[place + degree] > low:
        rise = (x - low) / (knots[place + degree] - low)
        total = total + rise * _basis(x, knots, degree - 1, place)
    if high > knots[place + 1]:
        fall = (high - x) / (high - knots[place + 1])
        total = total + fall * _basis(x, knots, degree - 1, place + 1)
    return total


def _checked(plain: Any, depth: int = 0) -> Node:
    """An expression of a file, if it is one; lists become tuples."""
    if depth > DEEPEST or not isinstance(plain, (list, tuple)) or not plain:
        raise InputError("an expression of the utility is not valid")
    kind, *rest = plain
    shapes: dict[str, Collection[Any]] = {
        "column": (str,), "number": (float,), "level": (str, str),
        "spline": ("node", "knots", int, int),
    }  # fmt: skip
    if kind in FUNCTIONS or kind in OPERATORS:
        shapes[kind] = ("node",) * (2 if kind in OPERATORS else ARGUMENTS.get(kind, 1))
    if not isinstance(kind, str) or kind not in shapes or len(shapes[kind]) != len(rest):
        raise InputError("an expression of the utility is not valid")
    found: list[Any] = [kind]
    for shape, one in zip(shapes[kind], rest, strict=True):
        found.append(_checked_part(shape, one, depth))
    if kind == "spline":
        knots, degree, place = found[2:]
        if not 0 < degree <= 5 or not 0 <= place < len(knots) - degree - 1:
            raise InputError("a spline of the utility is not valid")
    return tuple(found)


def _checked_part(shape: Any, one: Any, depth: int) -> Any:
    if shape == "node":
        return _checked(one, depth + 1)
    if shape == "knots":
        numbers = isinstance(one, (list, tuple)) and all(type(k) is float for k in one)
        if not numbers or not all(map(math.isfinite, one)) or list(one) != sorted(one):
            raise InputError("a spline of the utility has knots that are not rising numbers")
        return tuple(one)
    if type(one) is not shape or (shape is float and not math.isfinite(one)):
        raise InputError("an expression of the utility is not valid")
    return one

"""A utility in one line: ``price + catch | income | time``.

The parts between the bars are those of the choice modelling packages of R:

1. terms with one coefficient for all alternatives;
2. context (the person, the trip), with a coefficient per alternative except the reference. The
   constants of the alternatives belong to this part: they are there unless it says ``0``;
3. terms with a coefficient per alternative, the reference included.

Terms are added with ``+`` and multiplied with ``:``; ``a*b`` is ``a + b + a:b`` (formulaic reads
these signs). A term is a column or an expression of columns: numbers, ``+ - * / **`` within
``I(...)``, comparisons, and the functions of :data:`FUNCTIONS`.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from setwise._arguments import by_name, check_all, number, optional, text
from setwise._errors import InputError

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "log": np.log,
    "log1p": np.log1p,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
}
"""Functions of numbers in a formula, by name."""
ARGUMENTS = dict.fromkeys(("min", "max"), 2)  # the others take one
SPECIAL = ("I", "C", "only", "bs", "piecewise")
OPERATORS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Eq: "==",
    ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip

Node = tuple[Any, ...]
"""An expression: ("column", name), ("number", value), ("level", column, level), ("only", names),
("category", column), ("bs", x, df, degree), ("piecewise", x, knots), or a function or operator with
its arguments. Fitted expressions also have ("spline", x, knots, degree, place)."""


@dataclass(frozen=True)
class Product:
    """One term of a formula: the product of its factors, and how each is written."""

    texts: tuple[str, ...]
    factors: tuple[Node, ...]

    @property
    def name(self) -> str:
        """The term as it is written."""
        return ":".join(self.texts)

    def columns(self) -> set[str]:
        """The columns that it is computed from, the one of alternatives not counted."""
        return {name for factor in self.factors for name in columns_of(factor)}

    @property
    def names_alternatives(self) -> bool:
        """Whether it is 0 for some alternatives by their name."""
        return any(part[0] == "only" for one in self.factors for part in parts_of(one))


@dataclass(frozen=True)
class Parsed:
    """The terms of a formula, part by part."""

    generic: tuple[Product, ...]
    by_context: tuple[Product, ...]
    by_item: tuple[Product, ...]
    constants: bool | None
    """Whether the alternatives have constants; None where the formula does not say."""
    chosen: str | None
    """What stands before ``~``."""

    @property
    def products(self) -> tuple[Product, ...]:
        """All terms."""
        return self.generic + self.by_context + self.by_item

    @property
    def needs_alternatives(self) -> bool:
        """Whether it cannot be computed without names of the alternatives."""
        named = any(one.names_alternatives for one in self.products)
        return bool(self.by_context or self.by_item or self.constants or named)

    @property
    def uses_alternatives(self) -> bool:
        """Whether it uses their names where there are some: constants need not be asked for."""
        return self.needs_alternatives or self.constants is None


@dataclass(frozen=True)
class Utility:
    """The utility of an alternative as a formula, for a logit or as the features of any model.

    Args:
        formula: ``generic | context by alternative | items by alternative``. Where alternatives
            have names (``alternative=`` of :func:`setwise.read`), each but the reference has a
            constant, unless the second part says ``0``. What may stand before ``~`` is the name of
            the chosen column. Names with spaces or signs stand in backticks.

            ==========================  ====================================================
            ``log(x)``                  also log1p, exp, sqrt, abs, min(x, y), max(x, y)
            ``I(x**2 / 100)``           arithmetic; ``I(cost * (age < 30))`` has a comparison
            ``a:b``, ``a*b``            products of columns, of categories, of context and items
            ``C(zone)``                 numbers as names: a coefficient per level but the first
            ``only(car, train)``        1 for these alternatives and 0 for the others:
                                        ``time:only(car, train)`` has one coefficient for both
            ``bs(x, df=5)``             a cubic spline with df columns, knots at quantiles
            ``piecewise(x, 10, 20)``    a slope below 10, one from 10 to 20, one above
            ==========================  ====================================================
        reference: the alternative without constant and without context coefficients; by default
            the first.
        fixed: coefficients that are given and not estimated, by the name of the term.

    A term is computed anew whenever a column changes: elasticities, counterfactuals, requests to a
    service and predictions for new tables follow a column through every term that contains it.

    >>> import setwise as sw
    >>> table = {"trip": [1, 1, 2, 2], "cost": [3.0, 1.0, 2.0, 5.0],
    ...          "mode": ["car", "bus", "bus", "car"], "taken": [0, 1, 1, 0]}
    >>> choices = sw.read(table, set="trip", chosen="taken", alternative="mode")
    >>> used = choices.with_utility(sw.Utility("log(cost)", reference="car"))
    >>> sw.Schema.fit(used).item_names
    ['log(cost)', 'constant:bus']
    """

    formula: str
    reference: str | None = None
    fixed: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks = {"formula": text, "reference": optional(text), "fixed": by_name(number(), 0)}
        check_all(checks, vars(self))

    @classmethod
    def of(cls, given: "str | Utility") -> "Utility":
        """A utility as it is, or the formula of one."""
        if isinstance(given, cls):
            return given
        text("utility", given)
        return cls(str(given))

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {"formula": self.formula, "reference": self.reference, "fixed": dict(self.fixed)}

    def parsed(self) -> Parsed:
        """The terms of the formula; what cannot be read is an error that says where."""
        left, tilde, right = _cut(self.formula, "~", 2)
        chosen = _unquoted(left) if tilde else None
        parts = _split(right if tilde else self.formula, "|")
        if len(parts) > 3:
            raise self._error(
                "has more than two bars; write it as generic | context by alternative | items by "
                "alternative"
            )
        parts += [""] * (3 - len(parts))
        second = self._terms(parts[1], constants=True)
        constants: bool | None = any(one.factors == (("number", 1.0),) for one in second)
        if not parts[1].strip():
            constants = None
        return Parsed(
            self._terms(parts[0]), tuple(one for one in second if one.columns()),
            self._terms(parts[2]), constants, chosen,
        )  # fmt: skip

    def _terms(self, part: str, constants: bool = False) -> tuple[Product, ...]:
        """The terms of one part; ``constants`` are a term of it unless it says 0."""
        if not part.strip():
            return (Product(("1",), (("number", 1.0),)),) if constants else ()
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser

        quoted: list[str] = []

        def kept(match: re.Match[str]) -> str:
            quoted.append(match[1])
            return f"quoted_{len(quoted) - 1}_"

        plain = re.sub(r"`([^`]+)`", kept, part)
        try:
            terms = DefaultFormulaParser(include_intercept=constants).get_terms(plain)
        except (FormulaicError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error)).splitlines()[0].rstrip(".")
            raise self._error(f"cannot be read ({why}); correct it") from None
        found = []
        for term in terms:
            texts = [str(factor.expr) for factor in term.factors]
            shown = [re.sub(r"quoted_(\d+)_", lambda m: quoted[int(m[1])], one) for one in texts]
            factors = tuple(self._expression(one, quoted) for one in texts)
            found.append(Product(tuple(shown), factors))
        return tuple(found)

    def _expression(self, source: str, quoted: list[str]) -> Node:
        try:
            tree = ast.parse(source.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._error(f"has '{source}', which is not an expression; correct it") from None
        return _Reader(self, source, quoted).node(tree)

    def _error(self, why: str) -> InputError:
        return InputError(f"the utility '{self.formula}' {why}")


@dataclass(frozen=True)
class _Reader:
    """Turns Python's syntax tree of one factor into a :data:`Node`; nothing is evaluated."""

    utility: Utility
    source: str
    quoted: list[str]

    def node(self, tree: ast.expr) -> Node:
        if isinstance(tree, ast.Name):
            return ("column", self._name(tree.id))
        if isinstance(tree, ast.Constant) and _is_number(tree.value):
            return ("number", float(tree.value))  # type: ignore[arg-type]
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.USub, ast.UAdd)):
            inner = self.node(tree.operand)
            return inner if isinstance(tree.op, ast.UAdd) else ("*", ("number", -1.0), inner)
        if isinstance(tree, ast.BinOp) and type(tree.op) in _SIGNS:
            return (_SIGNS[type(tree.op)], self.node(tree.left), self.node(tree.right))
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _SIGNS:
            return self._comparison(tree)
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            return self._call(tree.func.id, tree)
        raise self._error("is not arithmetic, a comparison or a known function")

    def _comparison(self, tree: ast.Compare) -> Node:
        sign, right = _SIGNS[type(tree.ops[0])], tree.comparators[0]
        if isinstance(right, ast.Constant) and isinstance(right.value, str):
            if not isinstance(tree.left, ast.Name) or sign not in ("==", "!="):
                raise self._error("compares text; write column == 'text'")
            same = ("level", self._name(tree.left.id), right.value)
            return same if sign == "==" else ("-", ("number", 1.0), same)
        return (sign, self.node(tree.left), self.node(right))

    def _call(self, name: str, tree: ast.Call) -> Node:
        options = {one.arg: self._number(one.value) for one in tree.keywords if one.arg}
        if name in FUNCTIONS:
            wanted = ARGUMENTS.get(name, 1)
            if len(tree.args) != wanted or tree.keywords:
                raise self._error(f"gives {name} {len(tree.args)} arguments; it takes {wanted}")
            return (name, *(self.node(one) for one in tree.args))
        if name == "only" and tree.args and not tree.keywords:
            return ("only", tuple(self._word(one) for one in tree.args))
        if name in ("I", "C") and len(tree.args) == 1 and not tree.keywords:
            if name == "I":
                return self.node(tree.args[0])
            if isinstance(tree.args[0], ast.Name):
                return ("category", self._name(tree.args[0].id))
        if name == "bs" and len(tree.args) == 1 and options.keys() <= {"df", "degree"}:
            degree = int(options.get("degree", 3))
            df = int(options.get("df", degree + 2))
            if not 1 <= degree <= 5 or not degree <= df <= 30:
                raise self._error("needs a degree from 1 to 5 and a df from the degree to 30")
            return ("bs", self.node(tree.args[0]), df, degree)
        if name == "piecewise" and len(tree.args) > 1 and not tree.keywords:
            knots = tuple(self._number(one) for one in tree.args[1:])
            if any(low >= high for low, high in pairwise(knots)):
                raise self._error("needs its points in rising order")
            return ("piecewise", self.node(tree.args[0]), knots)
        if name in SPECIAL:
            raise self._error(f"does not use {name} as it is meant; see sw.Utility for an example")
        known = ", ".join((*FUNCTIONS, *SPECIAL))
        raise self._error(f"uses {name}, which is not a function here; the functions are: {known}")

    def _name(self, name: str) -> str:
        match = re.fullmatch(r"quoted_(\d+)_", name)
        return self.quoted[int(match[1])] if match else name

    def _word(self, tree: ast.expr) -> str:
        if isinstance(tree, ast.Name):
            return self._name(tree.id)
        if isinstance(tree, ast.Constant) and isinstance(tree.value, (str, int)):
            return str(tree.value)
        raise self._error("names an alternative by an expression; write only(car) or only('car')")

    def _number(self, tree: ast.expr) -> float:
        node = self.node(tree)
        if node[0] == "number":
            return float(node[1])
        if node[0] == "*" and node[1:2] == (("number", -1.0),) and node[2][0] == "number":
            return -float(node[2][1])
        raise self._error("has an expression where a number is needed")

    def _error(self, why: str) -> InputError:
        source = re.sub(r"quoted_(\d+)_", lambda m: self.quoted[int(m[1])], self.source)
        return InputError(
            f"the utility '{self.utility.formula}' has '{source}', which {why}; correct it"
        )


def parts_of(node: Node) -> Iterator[Node]:
    """The expression and all expressions within it."""
    yield node
    for one in node[1:]:
        if isinstance(one, tuple) and one and isinstance(one[0], str) and node[0] != "only":
            yield from parts_of(one)


def columns_of(node: Node) -> set[str]:
    """The columns of an expression.

    >>> sorted(columns_of(("*", ("column", "cost"), ("level", "brand", "Ibis"))))
    ['brand', 'cost']
    """
    return {one[1] for one in parts_of(node) if one[0] in ("column", "category", "level")}


def _cut(text: str, mark: str, most: int) -> tuple[str, str, str]:
    parts = _split(text, mark)
    if len(parts) > most:
        raise InputError(f"the utility '{text}' has '{mark}' more than once; correct it")
    return (parts[0], mark, parts[1]) if len(parts) > 1 else (text, "", "")


def _split(text: str, mark: str) -> list[str]:
    """The parts of a formula between marks that are not in parentheses or quotes.

    >>> _split("a + only('x|y') | b", "|")
    ["a + only('x|y') ", ' b']
    """
    parts, depth, quote = [""], 0, ""
    for one in text:
        if quote:
            quote = "" if one == quote else quote
        elif one in "'\"`":
            quote = one
        elif one in "([{":
            depth += 1
        elif one in ")]}":
            depth -= 1
        elif one == mark and depth == 0:
            parts.append("")
            continue
        parts[-1] += one
    return parts


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _unquoted(text: str) -> str:
    return text.strip().strip("`")

"""Columns that are made of others by hand: products, ratios, powers, logarithms, sums.

A model takes ``price`` and ``price_inc``, which is price times income, for two columns that have
nothing to do with each other. Who then changes the price alone gets a wrong answer. Column y is
made of x if it is, in every row and up to rounding, a combination of 1, x and a function of x; or
of 1, x and another column z; or of 1, x, z and x z (or x / z, or z / x); and not of 1 and z alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from setwise import _segments
from setwise._shapes import Bool, Float, Int
from setwise.choices import Choices
from setwise.choices.choices import Column
from setwise.doctor.columns import ExaminedFeature, ExaminedSets, features_of
from setwise.doctor.report import Finding

ROWS = 2_000
FIRST_ROWS = 48  # nearly all combinations fail in these
FEWEST_ROWS = 30
FEWEST_VALUES = 5  # of x: a dummy makes many things
MOST_LEVELS = 20  # of a category whose levels may have weights of their own
ROUNDING = 1e-4  # of y's standard deviation
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "{x}²": np.square, "{x}³": lambda x: x**3, "the root of {x}": np.sqrt,
    "the logarithm of {x}": np.log, "the logarithm of 1 + {x}": np.log1p, "1 / {x}": np.reciprocal,
}  # fmt: skip
PRODUCTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "{x} × {z}": np.multiply, "{x} / {z}": np.divide, "{z} / {x}": lambda x, z: z / x,
}  # fmt: skip


@dataclass(frozen=True)
class Derived:
    """A column that is made of another one, with the relation in words.

    >>> print(Derived("price_inc", "price", "'price' × 'income'"))
    column 'price_inc' is 'price' × 'income', up to a linear function
    """

    column: str
    of: str
    relation: str
    linear: bool = False
    partner: str | None = None
    """The other column of the relation, if there is one."""

    def __str__(self) -> str:
        suffix = "" if self.linear else ", up to a linear function"
        return f"column '{self.column}' is {self.relation}{suffix}"


@dataclass(frozen=True, eq=False)
class _Factor:
    name: str
    values: Float[np.ndarray, " rows"]
    level: str | None = None

    def __str__(self) -> str:
        return f"'{self.name}'" if self.level is None else f"({self.name} = {self.level})"


@dataclass(frozen=True, eq=False)
class _Form:
    """What y may be made of, next to 1: x, with a function of it, with z, or with both."""

    words: str
    linear: bool
    columns: Callable[[np.ndarray, np.ndarray], list[np.ndarray]]
    partner: bool = True
    divides: bool = False


def _forms() -> Iterator[_Form]:
    """The simplest first."""
    yield _Form("a multiple of {x}", True, lambda x, z: [x], partner=False)
    for words, function in FUNCTIONS.items():
        yield _Form(words, False, partial(_with_function, function), partner=False)
    yield _Form("a sum of {x} and {z}", True, lambda x, z: [x, z])
    for words, product in PRODUCTS.items():
        yield _Form(words, False, partial(_with_product, product), divides="/" in words)


def _with_function(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, z: np.ndarray
) -> list[np.ndarray]:
    return [x, function(x)]


def _with_product(
    product: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, z: np.ndarray
) -> list[np.ndarray]:
    return [x, z, product(x, z)]


FORMS = tuple(_forms())


class Derivations:
    """Numbers of some rows, and which of them are made of others."""

    def __init__(self, owner: Int[np.ndarray, " rows"]):
        self._owner = owner
        self.numbers: dict[str, Float[np.ndarray, " rows"]] = {}
        """The items' numbers: what may be changed, and what may be made of it."""
        self.factors: list[_Factor] = []
        """What an item's number may be multiplied with."""

    @classmethod
    def of_choices(cls, choices: Choices) -> "Derivations":
        """Those of sets at even distances."""
        step = max(1, -(-int(choices.offsets[-1]) // ROWS))
        some = choices if step == 1 else choices.take(np.arange(0, len(choices), step))
        sets = ExaminedSets.of_choices(some)
        made = cls(_segments.owners(sets.offsets))
        for one in features_of(some, sets):
            made.add(one.name, one.column, one.role == "item")
        return made

    def add(self, name: str, column: Column, item: bool) -> None:
        """Take a column in; missing values are left out of every comparison with it."""
        if column.kind == "number":
            values = column.values.astype(np.float64)
            self.factors.append(_Factor(name, values))
            if item:
                self.numbers[name] = values
        elif column.levels is not None:
            codes = np.unique(column.values[column.values >= 0])
            if 2 <= len(codes) <= MOST_LEVELS:
                for code in codes:
                    here = (column.values == code).astype(np.float64)
                    self.factors.append(_Factor(name, here, str(column.levels[code])))

    def found(self, of: Sequence[str] | None = None) -> Iterator[Derived]:
        """Columns that are made of these; without, of any. One relation for each pair."""
        if len(self._owner) < FEWEST_ROWS:
            return
        for name in self.numbers if of is None else of:
            if name in self.numbers:
                yield from self._made_of(name)

    def _made_of(self, name: str) -> Iterator[Derived]:
        x = self.numbers[name]
        if len(np.unique(x[np.isfinite(x)])) < FEWEST_VALUES:
            return
        left = [other for other in self.numbers if other != name and other in self._candidates]
        order = list(self.numbers)
        partners: dict[str, str] = {}
        waiting = []
        with np.errstate(all="ignore"):
            for form in FORMS:
                for other, z in self._likely(name, left, form):
                    if other not in left or not self._certain(
                        x, self.numbers[other], z.values, form
                    ):
                        continue
                    relation = form.words.format(x=f"'{name}'", z=z)
                    partner = z.name if form.partner else None
                    made = Derived(other, name, relation, form.linear, partner)
                    # If c is a + b, then b is c - a: what stands last in the table was made.
                    if z.name in left and order.index(z.name) > order.index(other):
                        waiting.append((made, z.name))
                    elif partners.get(z.name) != other:
                        partners[other] = z.name
                        left.remove(other)
                        yield made
            for made, z_name in waiting:
                if made.column in left and partners.get(z_name) != made.column:
                    partners[made.column] = z_name
                    left.remove(made.column)
                    yield made
            for other in left:
                why = self._by_parts(x, self.numbers[other])
                if why is not None and other not in partners.values():
                    yield Derived(other, name, f"'{name}' {why}", True)

    @cached_property
    def _few(self) -> Int[np.ndarray, " few"]:
        """Some rows, in which every column that has most of its values has one."""
        table = np.stack(list(self.numbers.values()))
        there = np.isfinite(table)
        rows = np.flatnonzero(there[there.mean(1) > 0.5].all(0))
        return rows[:: max(1, len(rows) // FIRST_ROWS)]

    def _likely(self, name: str, left: list[str], form: _Form) -> list[tuple[str, _Factor]]:
        """Columns that some rows allow to be made of x so, with the other column z of each."""
        factors = [_Factor(name, self.numbers[name])]
        if form.partner:
            factors = [z for z in self.factors if z.name != name and not (form.divides and z.level)]
        few = self._few
        if not left or not factors or len(few) < FEWEST_ROWS // 2:
            return []
        table = np.stack([self.numbers[other][few] for other in left], 1)
        x = self.numbers[name][few]
        bases = np.stack([np.stack(form.columns(x, z.values[few]), 1) for z in factors])
        known = np.isfinite(bases).all((1, 2))
        likely = _made(table, np.where(known[:, None, None], bases, 1.0)) & known[:, None]
        return [(left[k], factors[j]) for j, k in np.argwhere(likely) if left[k] != factors[j].name]

    def _certain(
        self,
        x: Float[np.ndarray, " rows"],
        y: Float[np.ndarray, " rows"],
        z: Float[np.ndarray, " rows"],
        form: _Form,
    ) -> bool:
        """Whether y is made of x so in every row, and not of z alone."""
        basis = np.stack(form.columns(x, z), 1)
        rows = np.isfinite(basis).all(1) & np.isfinite(y)
        if rows.sum() < max(FEWEST_ROWS, len(x) // 2):
            return False
        if not _made(y[rows, None], basis[None, rows])[0, 0]:
            return False
        return not form.partner or not _made(y[rows, None], z[None, rows, None], slack=100.0)[0, 0]

    @cached_property
    def _candidates(self) -> set[str]:
        """Numbers with several values that differ within sets: others cannot be made of items'."""
        firsts = np.searchsorted(self._owner, self._owner)
        return {
            name
            for name, values in self.numbers.items()
            if len(np.unique(values)) > 2 and (values != values[firsts]).any()
        }

    def _by_parts(self, x: Float[np.ndarray, " rows"], y: Float[np.ndarray, " rows"]) -> str | None:
        """Whether y is x times what is the same in a set, or x in some rows and 0 in the others."""
        if _parts(x[:FIRST_ROWS], y[:FIRST_ROWS], self._owner[:FIRST_ROWS]) is None:
            return None
        here = np.isfinite(x) & np.isfinite(y)
        if here.sum() < FEWEST_ROWS or len(np.unique(x[here & (y != 0)])) < FEWEST_VALUES:
            return None
        return _parts(x[here], y[here], self._owner[here])


def _parts(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], owner: Int[np.ndarray, " n"]
) -> str | None:
    if ((x == 0) & (y != 0)).any():
        return None
    known = (x != 0) & np.isfinite(x) & np.isfinite(y)
    if not known.any():
        return None
    x, ratio, owner = x[known], y[known] / x[known], owner[known]
    firsts = np.searchsorted(owner, owner)
    differs = (x != x[firsts]).mean() > 0.1
    if differs and np.allclose(ratio, ratio[firsts], rtol=1e-6, atol=0):
        return "× what is the same for all items of a set"
    other = ratio[ratio != 0]
    if 0 < len(other) < len(ratio) and np.allclose(other, other[0], rtol=1e-9, atol=0):
        return "in some rows and 0 in the others"
    return None


def derived(choices: Choices, of: Sequence[str] | None = None) -> list[Derived]:
    """Number columns of items that are made of others (of these, or of any), in a sample of rows.

    >>> import setwise as sw
    >>> rng = np.random.default_rng(0)
    >>> price, income = rng.uniform(1, 9, 90), np.repeat(rng.uniform(1, 9, 30), 3)
    >>> choices = sw.read({"set": np.repeat(np.arange(30), 3), "chosen": np.tile([1, 0, 0], 30),
    ...                    "price": price, "income": income, "price_inc": price * income},
    ...                   set="set", chosen="chosen")
    >>> [str(one) for one in derived(choices, ["price"])]
    ["column 'price_inc' is 'price' × 'income', up to a linear function"]
    """
    return list(Derivations.of_choices(choices).found(of))


class Products:
    """For an examination: which columns are products or functions of others."""

    def __init__(self, sets: ExaminedSets):
        step = max(1, -(-sets.rows // ROWS))
        taken = np.arange(len(sets)) % step == 0
        self._rows: Int[np.ndarray, " rows"] = np.flatnonzero(_segments.spread(taken, sets.offsets))
        self._made = Derivations(sets.owners(self._rows))

    def add(self, one: ExaminedFeature) -> None:
        """Take a feature in."""
        self._made.add(one.name, one.column.take(self._rows), one.role == "item")

    def findings(self) -> Iterator[Finding]:
        """A note for each column; multiples and sums are collinear, and told as such."""
        told: set[str] = set()
        for one in self._made.found():
            if {one.column, one.of} & told or (one.linear and "×" not in one.relation):
                continue
            told.add(one.column)
            yield Finding(
                "note", "made-of-others", str(one),
                f"remember that a change of '{one.of}' alone leaves '{one.column}' as it is: "
                "elasticities and counterfactuals take them for two columns", one.column,
            )  # fmt: skip


def _made(
    table: Float[np.ndarray, "rows m"], bases: Float[np.ndarray, "b rows k"], slack: float = 1.0
) -> Bool[np.ndarray, "b m"]:
    """Whether each column of a table is a combination of 1 and the columns of each basis."""
    scale = np.abs(bases).max(1, keepdims=True)
    ones = np.ones((*bases.shape[:2], 1))
    q, r = np.linalg.qr(np.concatenate([ones, bases / np.where(scale > 0, scale, 1)], 2))
    full = np.abs(np.diagonal(r, axis1=1, axis2=2)) > 1e-10 * np.sqrt(bases.shape[1])
    q = q * full[:, None, :]
    table = table / np.abs(table).max(0)  # a column with a missing value becomes NaN, and is not
    rest = np.abs(table - q @ (q.swapaxes(1, 2) @ table))
    apart = np.abs(table - np.median(table, 0))
    usual = np.where(np.median(apart, 0) > 0, np.median(apart, 0), apart.mean(0))
    spread = table.std(0)
    tight = rest.max(1) <= 10 * slack * ROUNDING * spread
    return (spread > 0) & tight & (np.median(rest, 1) <= slack * ROUNDING * usual)

"""Mechanisms: how several selves, each with a utility for every item, make one score.

All here are sums over the selves of one function of a self's utilities in the set,

    g(x, s) = sum_i phi(u_i(x); u_i(z) for z in s),

with its parameters fixed. They are the classical models of the zoo, for items without features, and
they are computed with fractions: equal scores are equal, not almost equal.

Triple bases: utilities that decide between two items and are silent on every other set.

A triple basis for (x1, x2, x3) is a list of utilities under which a mechanism prefers x1 to x2 on
{x1, x2} and is indifferent on {x1, x3}, {x2, x3} and {x1, x2, x3}. Where a mechanism has one, any
single choice can be changed without touching the others, so that it expresses every choice function
(:func:`setwise.paper.theory.rationalise`). Where it has none, it cannot.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from setwise._arguments import checked, instance, number, whole
from setwise._errors import InputError

Exact = int | Fraction
Felt = Callable[[Sequence[Exact]], list[Exact]]
"""phi: from one self's utilities of the items of a set to what it adds to each item's score."""
Kind = Literal["range", "gains", "pairs"]


@dataclass(frozen=True)
class Mechanism:
    """A sum over selves of ``felt``, one self's utilities in a set.

    ``kind`` is what :func:`setwise.paper.theory.has_triple_basis` reasons about: "range" (Tversky's
    weights), "gains" (a function of what an item has above the least of the set) or "pairs" (on two
    items, the margin is that of one utility function: see :func:`triple_basis`).
    """

    name: str
    formula: str
    kind: Kind
    rho: Fraction
    felt: Felt
    product: bool = False
    """Whether selves multiply: ``scores`` are then exp g, which ranks items as g does."""

    def scores(self, utilities: Sequence[Sequence[Exact]]) -> list[Exact]:
        """g (or exp g) of each item of a set, from the utilities of each self for those items.

        >>> tversky().scores([[3, 1], [0, 4]])  # ranges 2 and 4
        [6, 18]
        """
        each = zip(*(self.felt(self_) for self_ in utilities), strict=True)
        return [math.prod(felt) if self.product else sum(felt) for felt in each]

    def __repr__(self) -> str:
        return f"Mechanism({self.name}: {self.formula})"


@checked(rho=whole())
def tversky(rho: int = 1) -> Mechanism:
    """sum_i (max u_i - min u_i)^rho u_i(x): selves for whom the items differ most weigh most.

    Args:
        rho: a whole number, so that scores are exact; the argument for a triple basis holds for
            every rho > 0.
    """

    def felt(u: Sequence[Exact]) -> list[Exact]:
        weight = (max(u) - min(u)) ** rho
        return [weight * value for value in u]

    return Mechanism(
        "tversky", f"sum_i (max u_i - min u_i)^{rho} u_i(x)", "range", Fraction(rho), felt
    )


@checked(rho=number(above=0))
def ccm(rho: Exact = Fraction(1, 2)) -> Mechanism:
    """sum_i (u_i(x) - min u_i)^rho: gains over the least of the set.

    Args:
        rho: positive. With a fraction, utilities must be such that the powers are fractions too.

    >>> ccm().scores([[25, 16, 0]])
    [Fraction(5, 1), Fraction(4, 1), Fraction(0, 1)]
    """
    power = _positive(rho)

    def felt(u: Sequence[Exact]) -> list[Exact]:
        return [exact_power(Fraction(value - min(u)), power) for value in u]

    kind: Kind = "pairs" if power == 1 else "gains"  # with rho = 1 the least cancels: it is mnl
    return Mechanism("ccm", f"sum_i (u_i(x) - min u_i)^({power})", kind, power, felt)


def kaneko_nakamura() -> Mechanism:
    """sum_i log(u_i(x) - min u_i + 1), Nash's product of gains; another epsilon is another unit.

    >>> kaneko_nakamura().scores([[2, 1, 0], [0, 1, 1]])  # exp g: (2 + 1)(0 + 1), ...
    [3, 4, 2]
    """

    def felt(u: Sequence[Exact]) -> list[Exact]:
        return [value - min(u) + 1 for value in u]

    formula = "sum_i log(u_i(x) - min u_i + 1)"
    return Mechanism("kaneko_nakamura", formula, "gains", Fraction(0), felt, product=True)


@checked(loss=number(least=1))
def lam(loss: Exact = 2) -> Mechanism:
    """sum_i kink(u_i(x) - (max u_i + min u_i) / 2), where kink(z) = z, or loss z below zero.

    >>> lam().scores([[4, 0]])
    [Fraction(2, 1), Fraction(-4, 1)]
    """
    kink = _kinked(loss)

    def felt(u: Sequence[Exact]) -> list[Exact]:
        middle = Fraction(max(u) + min(u), 2)
        return [kink(value - middle) for value in u]

    formula = f"sum_i kink_{loss}(u_i(x) - (max u_i + min u_i) / 2)"
    return Mechanism("lam", formula, "pairs", Fraction(1), felt)


@checked(loss=number(least=1))
def average_reference(loss: Exact = 2) -> Mechanism:
    """sum_i kink(u_i(x) - mean u_i): loss aversion against the plain average of the set."""
    kink = _kinked(loss)

    def felt(u: Sequence[Exact]) -> list[Exact]:
        mean = Fraction(sum(u), len(u))
        return [kink(value - mean) for value in u]

    formula = f"sum_i kink_{loss}(u_i(x) - mean u_i)"
    return Mechanism("average_reference", formula, "pairs", Fraction(1), felt)


@checked(rho=number(above=0))
def nccm(rho: Exact = 2) -> Mechanism:
    """sum_i (max - min) ((u_i(x) - min) / (max - min))^rho, 0 where max = min."""
    power = _positive(rho)

    def felt(u: Sequence[Exact]) -> list[Exact]:
        spread = max(u) - min(u)
        if spread == 0:
            return [0 for _ in u]
        return [spread * exact_power(Fraction(value - min(u)) / spread, power) for value in u]

    formula = f"sum_i (max - min) ((u_i(x) - min) / (max - min))^({power})"
    return Mechanism("nccm", formula, "pairs", Fraction(1), felt)


def mnl() -> Mechanism:
    """sum_i u_i(x): selves that ignore the set add up to one self."""
    return Mechanism("mnl", "sum_i u_i(x)", "pairs", Fraction(1), list)


def exact_power(value: Fraction, rho: Fraction) -> Fraction:
    """value^rho for value >= 0, if it is a fraction; an error otherwise.

    >>> exact_power(Fraction(16, 9), Fraction(1, 2))
    Fraction(4, 3)
    """
    raised = value**rho.numerator
    top, bottom = (_root(part, rho.denominator) for part in (raised.numerator, raised.denominator))
    if top is None or bottom is None:
        raise InputError(
            f"({value})^({rho}) is not a fraction, so scores would not be exact; give utilities "
            "whose powers are fractions"
        )
    return Fraction(top, bottom)


def _root(value: int, degree: int) -> int | None:
    """The whole root, by halving; None if there is none."""
    low, high = 0, value
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    return low if low**degree == value else None


def _kinked(loss: Exact) -> Callable[[Fraction], Fraction]:
    return lambda z: z * loss if z < 0 else z


def _positive(rho: Exact) -> Fraction:
    return Fraction(rho)


Triple = tuple[Exact, Exact, Exact]

OTHER_SETS = ((0, 2), (1, 2), (0, 1, 2))
"""Places of the items of the sets on which a triple basis is indifferent."""

RANGE: tuple[Triple, ...] = ((-2, -1, 0), (-1, 1, 0), (1, 2, 0), (2, 0, 0), (0, -2, 0))


@dataclass(frozen=True)
class TripleBasis:
    """Utilities (u(x1), u(x2), u(x3)), one triple a self, and the mechanism they are a basis of.

    >>> from setwise.paper.theory import ccm
    >>> basis = triple_basis(ccm())
    >>> print(basis)
    A triple basis of ccm, g(x, s) = sum_i (u_i(x) - min u_i)^(1/2)
      self   x1   x2   x3
         1   25   16    0
         2    0    1    1
         3    0    0   16
      {x1 x2}     scores 3 1: prefers x1
      {x1 x3}     scores 5 5: indifferent
      {x2 x3}     scores 4 4: indifferent
      {x1 x2 x3}  scores 5 5 5: indifferent
    """

    mechanism: Mechanism
    utilities: tuple[Triple, ...]

    def scores(self, places: Sequence[int]) -> list[Exact]:
        """g of the items at these places (0, 1, 2) when they are the set."""
        return self.mechanism.scores([[u[place] for place in places] for u in self.utilities])

    def verify(self) -> None:
        """Check all four sets, exactly; an error if one is wrong."""
        first, second = self.scores((0, 1))
        if first <= second or any(len(set(self.scores(places))) > 1 for places in OTHER_SETS):
            raise ArithmeticError(
                f"these utilities are not a triple basis of {self.mechanism.name}: {self.utilities}"
            )

    def __str__(self) -> str:
        lines = [f"A triple basis of {self.mechanism.name}, g(x, s) = {self.mechanism.formula}"]
        lines.append("  self   x1   x2   x3")
        for place, u in enumerate(self.utilities, 1):
            lines.append(f"  {place:4} " + " ".join(f"{value!s:>4}" for value in u))
        for places in ((0, 1), *OTHER_SETS):
            name = "{" + " ".join(f"x{place + 1}" for place in places) + "}"
            scores = self.scores(places)
            said = "indifferent" if len(set(scores)) == 1 else "prefers x1"
            lines.append(f"  {name:<11} scores {' '.join(map(str, scores))}: {said}")
        return "\n".join(lines)


A_MECHANISM = instance(Mechanism, "make one, such as setwise.paper.theory.tversky()")


@checked(mechanism=A_MECHANISM)
def has_triple_basis(mechanism: Mechanism) -> bool:
    """Whether a mechanism has a triple basis; :func:`triple_basis` has the arguments.

    >>> from setwise.paper.theory import lam, tversky
    >>> has_triple_basis(tversky()), has_triple_basis(lam())
    (True, False)
    """
    return mechanism.kind != "pairs"


@checked(mechanism=A_MECHANISM)
def triple_basis(mechanism: Mechanism) -> TripleBasis:
    """A triple basis of a mechanism, checked with exact arithmetic.

    **No basis: pairs that add up** (lam, nccm, average_reference, mnl, and ccm with rho = 1). On
    two items these mechanisms see the difference of utilities and nothing else: with k a constant
    (for lam and average_reference (1 + loss)/2, otherwise 1), the margin of x over y on {x, y} is

        D(x, y) = sum_i k (u_i(x) - u_i(y)),   hence   D(x1, x2) = D(x1, x3) - D(x2, x3)

    for any number of selves. A basis needs D(x1, x3) = D(x2, x3) = 0, and then D(x1, x2) = 0: it
    cannot prefer x1. Nor is there an approximate basis, since |D(x1, x2)| is at most the sum of the
    two others. Such a mechanism cannot even choose in a circle from pairs. (All of these are
    scale-invariant, so that scale invariance alone does not give a basis.)

    **Tversky**, for every rho > 0: five selves; the margin is 2 (2^rho - 1).

    **Gains over the least**, sum_i S(u_i(x) - min u_i) with S(0) = 0 (ccm, kaneko_nakamura):

    - S(p) + S(q) > S(p + q), as where S is strictly concave: three selves, (p + q, q, 0), (0, A, A)
      and (0, 0, q) with S(A) = S(p + q) - S(q). Pairs with x3 tie at S(p + q) and at S(q), the
      triple at S(p + q); on {x1, x2} x1 leads by S(p) - S(A) = S(p) + S(q) - S(p + q).
    - ccm with rho > 1: 2^rho - 1 selves (1, 0, 0), then (1, 1, 0), (0, 1, 2), (1, 2, 0), (1, 0, 2),
      (2, 0, 1), (0, 2, 1); x1 leads by 2^rho - 2. (If 2^rho is not a whole number, one self scaled
      by (2^rho - 1)^(1/rho) stands for the first ones.)

    Exact utilities of ccm are given for rho = 1/2 and for whole rho. Sums over selves with other
    weights than these (krs, orhun's learned average, nested logit) are not decided here.
    """
    if not has_triple_basis(mechanism):
        raise InputError(
            f"{mechanism.name} has no triple basis: its margins on pairs add up, so that "
            "indifference on {x1 x3} and {x2 x3} makes it indifferent on {x1 x2}; "
            "take tversky() or ccm()"
        )
    basis = TripleBasis(mechanism, _utilities(mechanism))
    basis.verify()
    return basis


def _utilities(mechanism: Mechanism) -> tuple[Triple, ...]:
    rho = mechanism.rho
    if mechanism.kind == "range":
        return RANGE
    if mechanism.product:  # S = log(1 + z), p = q = 1: A = 1/2
        return (2, 1, 0), (0, Fraction(1, 2), Fraction(1, 2)), (0, 0, 1)
    if rho == Fraction(1, 2):  # S = sqrt, p = 9, q = 16: A = 1
        return (25, 16, 0), (0, 1, 1), (0, 0, 16)
    if rho.denominator == 1:
        copies: tuple[Triple, ...] = ((1, 0, 0),) * (2**rho.numerator - 1)
        return (
            *copies, (1, 1, 0), (0, 1, 2), (1, 2, 0), (1, 0, 2), (2, 0, 1), (0, 2, 1),
        )  # fmt: skip
    raise InputError(
        f"{mechanism.name} with rho={rho} has a triple basis, but not one of fractions that is "
        "known here; take rho=1/2 or a whole rho"
    )

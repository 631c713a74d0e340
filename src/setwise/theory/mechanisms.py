"""Mechanisms: how several selves, each with a utility for every item, make one score.

All here are sums over the selves of one function of a self's utilities in the set,

    g(x, s) = sum_i phi(u_i(x); u_i(z) for z in s),

with its parameters fixed. They are the classical models of the zoo, for items without features, and
they are computed with fractions: equal scores are equal, not almost equal.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from setwise._arguments import checked, number, whole
from setwise._errors import InputError

Exact = int | Fraction
Felt = Callable[[Sequence[Exact]], list[Exact]]
"""phi: from one self's utilities of the items of a set to what it adds to each item's score."""
Kind = Literal["range", "gains", "pairs"]


@dataclass(frozen=True)
class Mechanism:
    """A sum over selves of ``felt``, one self's utilities in a set.

    ``kind`` is what :func:`setwise.theory.has_triple_basis` reasons about: "range" (Tversky's
    weights), "gains" (a function of what an item has above the least of the set) or "pairs" (on two
    items, the margin is that of one utility function: see :func:`setwise.theory.triple_basis`).
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
            f"({value})^({rho}) is no fraction, so that scores would not be exact; give utilities "
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

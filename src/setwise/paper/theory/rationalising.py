"""Every choice function is an aggregation: its selves, built from triple bases and checked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from setwise._arguments import checked, instance, whole
from setwise.paper.theory.choice_functions import ChoiceFunction, Subset, written
from setwise.paper.theory.mechanisms import triple_basis, tversky


class PlacedBasis(NamedTuple):
    """A triple basis that makes ``choice`` win on ``subset``, ``scale`` times as loud as the plain.

    The choice is at level 1, the rest of the subset at level 2, all other items at level 3.
    """

    choice: str
    subset: tuple[str, ...]
    scale: int


@dataclass(frozen=True, eq=False)
class Rationalisation:
    """Selves whose aggregation g(x, s) = sum_i (max u_i - min u_i)^rho u_i(x) makes given choices.

    >>> c = ChoiceFunction.from_table({"ab": "a", "bc": "b", "ac": "c", "abc": "a"})
    >>> found = rationalise(c)
    >>> found
    Rationalisation(6 selves: a base order and 1 triple basis; 3 items)
    >>> found.scores("ac")
    {'a': 0, 'c': 4}
    """

    choice_function: ChoiceFunction
    rho: int
    order: tuple[str, ...]
    """The base order, best first."""
    bases: tuple[PlacedBasis, ...]
    utilities: tuple[tuple[int, ...], ...]
    """One row a self: the base order's, then five a basis; one column an item."""

    @property
    def dimension(self) -> int:
        """l, the number of selves: 1 + 5 times the number of bases."""
        return len(self.utilities)

    def scores(self, subset: Subset) -> dict[str, int]:
        """g(x, s) of the items of a subset, exactly."""
        c = self.choice_function
        mask = c.mask(subset)
        return dict(zip(c.subset(mask), self._scores(mask), strict=True))

    def choice(self, subset: Subset) -> str:
        """The item with the highest score."""
        scores = self.scores(subset)
        return max(scores, key=lambda name: scores[name])

    def verify(self) -> None:
        """Check every subset, with whole numbers: the choice scores more than all others."""
        c = self.choice_function
        for mask in range(1, len(c.chosen)):
            names = c.subset(mask)
            scores = self._scores(mask).tolist()
            best = scores.pop(names.index(c.items[c.chosen[mask]]))
            if any(score >= best for score in scores):
                raise ArithmeticError(
                    f"the aggregation does not choose {c.items[c.chosen[mask]]!r} from "
                    f"{written(names)}; this is a fault of setwise: please report it"
                )

    def describe(self) -> str:
        """The selves as a table, with what each group of them is for."""
        names = self.choice_function.items
        n, l = len(self.bases), self.dimension  # noqa: E741
        said = "base order: " + " > ".join(self.order)
        notes = {0: said} | {
            1 + 5 * number: f"{written(basis.subset)} -> {basis.choice}"
            for number, basis in enumerate(self.bases)
        }
        width = max(len(str(v)) for row in (*self.utilities, names) for v in row) + 2
        lines = [
            f"g(x, s) = {tversky(self.rho).formula}",
            f"{l} sel{'f' if l == 1 else 'ves'}: a base order and {_count(n)}",
            "  self" + "".join(f"{name:>{width}}" for name in names),
        ]
        for number, row in enumerate(self.utilities):
            cells = "".join(f"{value:>{width}}" for value in row)
            lines.append(f"  {number + 1:4}{cells}   {notes.get(number, '')}".rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        l, n = self.dimension, len(self.bases)  # noqa: E741
        return (
            f"Rationalisation({l} sel{'f' if l == 1 else 'ves'}: a base order and {_count(n)}; "
            f"{len(self.choice_function.items)} items)"
        )

    def _scores(self, mask: int) -> Shaped[np.ndarray, " items"]:
        # Python's own whole numbers in an array: they do not overflow.
        u = np.array(self.utilities, object)[:, _places(mask, len(self.choice_function.items))]
        return (u.max(1) - u.min(1)) ** self.rho @ u


A_CHOICE_FUNCTION = instance(ChoiceFunction, "make one with setwise.paper.theory.ChoiceFunction")


@checked(choice_function=A_CHOICE_FUNCTION, rho=whole())
def rationalise(choice_function: ChoiceFunction, rho: int = 1) -> Rationalisation:
    """Selves whose aggregation makes exactly these choices, from every subset.

    The mechanism is Tversky's, g(x, s) = sum_i (max u_i - min u_i)^rho u_i(x). The first self is
    the *base order* c(X), c(X without c(X)), …: it alone is right wherever IIA holds. Then, from
    large sets to small, where the choice so far is not c(B), a triple basis for (c(B), the rest of
    B, the items outside B) is added, five selves. It lifts c(B) in B and in subsets of B, which
    come later, and is silent on every other set. Its scale a is the least whole number that
    outweighs what was there: a^(rho + 1) 2 (2^rho - 1) is more than c(B) lacks.

    The result is checked on all subsets with whole numbers before it is returned.

    Args:
        choice_function: the choices, from every subset.
        rho: how much the range of a self's utilities counts; a whole number, at least 1.

    >>> found = rationalise(ChoiceFunction.random(5, seed=0))
    >>> found.dimension, len(found.bases)
    (71, 14)
    >>> print(rationalise(ChoiceFunction.from_callable("ab", max)).describe())
    g(x, s) = sum_i (max u_i - min u_i)^1 u_i(x)
    1 self: a base order and no triple basis
      self  a  b
         1  0  1   base order: b > a
    """
    c = choice_function
    n = len(c.items)
    base = _base_utility(c)
    placed: list[tuple[int, int, int]] = []  # mask of the set, place of the choice, scale
    for mask in _from_large_to_small(n):
        lacks = _lacks(c, mask, base, rho, placed)
        if lacks >= 0:
            placed.append((mask, int(c.chosen[mask]), _loud_enough(lacks, rho)))
    plain = triple_basis(tversky(rho)).utilities
    utilities = [tuple(base)]
    for mask, choice, scale in placed:
        levels = [0 if z == choice else 1 if mask >> z & 1 else 2 for z in range(n)]
        utilities += [tuple(scale * int(u[level]) for level in levels) for u in plain]
    found = Rationalisation(
        c,
        rho,
        tuple(sorted(c.items, key=lambda name: -base[c.items.index(name)])),
        tuple(PlacedBasis(c.items[choice], c.subset(mask), a) for mask, choice, a in placed),
        tuple(utilities),
    )
    found.verify()
    return found


@dataclass(frozen=True, eq=False)
class UniversalAggregation:
    """g(x, s) = < w(s), F(x) > with F(x) the unit vector of x and w(s) that of c(s).

    So every choice function on n items is an aggregation of n scores, if w may be any function of
    the set. Nothing is gained: w has to know all choices by heart. Triple bases show that a *fixed*
    w, the range of the scores, is enough, at the price of more scores.

    >>> c = ChoiceFunction.random(4, seed=3)
    >>> same = universal(c)
    >>> same.dimension, same.scores("ab")[c.choice("ab")]
    (4, 1)
    """

    choice_function: ChoiceFunction

    @property
    def dimension(self) -> int:
        """l, one score an item."""
        return len(self.choice_function.items)

    def scores(self, subset: Subset) -> dict[str, int]:
        """g(x, s) of the items of a subset: 1 for the choice and 0 for the others."""
        c = self.choice_function
        mask = c.mask(subset)
        F = np.eye(self.dimension, dtype=np.int64)
        w = F[c.chosen[mask]]
        places = _places(mask, self.dimension)
        return dict(zip(c.subset(mask), (F[places] @ w).tolist(), strict=True))

    def verify(self) -> None:
        """Check every subset: the choice scores strictly more than the others."""
        c = self.choice_function
        for mask in range(1, len(c.chosen)):
            scores = self.scores(c.subset(mask))
            best = scores.pop(c.items[c.chosen[mask]])
            if any(score >= best for score in scores.values()):
                raise ArithmeticError(f"the choice from {written(c.subset(mask))} is not the best")


@checked(choice_function=A_CHOICE_FUNCTION)
def universal(choice_function: ChoiceFunction) -> UniversalAggregation:
    """The aggregation whose weights are the choices themselves, checked on all subsets."""
    found = UniversalAggregation(choice_function)
    found.verify()
    return found


def _base_utility(c: ChoiceFunction) -> list[int]:
    """n - 1 for c(X), n - 2 for what is chosen from the rest, and so on."""
    utility, mask = [0] * len(c.items), len(c.chosen) - 1
    for value in reversed(range(len(c.items))):
        utility[c.chosen[mask]] = value
        mask ^= 1 << int(c.chosen[mask])
    return utility


def _from_large_to_small(n: int) -> Iterator[int]:
    """Masks of the sets of two items or more."""
    masks = (mask for mask in range(1 << n) if mask.bit_count() > 1)
    return iter(sorted(masks, key=lambda mask: -mask.bit_count()))


def _lacks(
    c: ChoiceFunction, mask: int, base: list[int], rho: int, placed: list[tuple[int, int, int]]
) -> int:
    """How much the best other item of the set has over c(s), before a basis is added for it."""
    present = _places(mask, len(base))
    values = [base[z] for z in present]
    spread = (max(values) - min(values)) ** rho
    scores = {z: spread * base[z] for z in present}
    for other, choice, scale in placed:
        if mask & other == mask and choice in scores:
            scores[choice] += scale ** (rho + 1) * _margin(rho)
    chosen = scores.pop(int(c.chosen[mask]))
    return max(scores.values()) - chosen


def _margin(rho: int) -> int:
    """By how much the plain basis prefers its choice."""
    return 2 * (2**rho - 1)


def _loud_enough(lacks: int, rho: int) -> int:
    """The least scale whose margin is more than what is lacking."""
    scale = 1
    while scale ** (rho + 1) * _margin(rho) <= lacks:
        scale += 1
    return scale


def _places(mask: int, n: int) -> list[int]:
    return [place for place in range(n) if mask >> place & 1]


def _count(bases: int) -> str:
    return "no triple basis" if bases == 0 else f"{bases} triple bas{'is' if bases == 1 else 'es'}"

"""Choice functions: one choice from every non-empty subset of a few items.

A subset is a number, its *mask*: bit i is set where item i is in. So a choice function on n items
is a vector of 2^n - 1 choices, and questions about all subsets are questions about vectors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
from jaxtyping import Bool, Int

from setwise._errors import InputError
from setwise.choices.choices import generator

MOST_ITEMS = 12
"""A function on more has too many subsets to go through them all by pairs."""

Subset = Iterable[str]


@dataclass(frozen=True, eq=False)
class ChoiceFunction:
    """c(s) for every non-empty subset s of ``items``.

    ``chosen[mask]`` is the place, in ``items``, of what is chosen from the subset with that mask;
    ``chosen[0]``, of the empty set, is -1.

    >>> c = ChoiceFunction.from_table({"ab": "a", "bc": "b", "ac": "c", "abc": "a"})
    >>> c.choice("ac"), c.choice(["a", "b", "c"])
    ('c', 'a')
    >>> c.violations()
    [('a', 'c')]
    """

    items: tuple[str, ...]
    chosen: Int[np.ndarray, " subsets"]

    def __post_init__(self) -> None:
        _check_items(self.items)
        if self.chosen.shape != (1 << len(self.items),):
            raise InputError(
                f"chosen has {len(self.chosen):,} places; {len(self.items)} items have "
                f"{1 << len(self.items):,} subsets, the empty one (whose choice is -1) included"
            )
        masks = np.arange(1, len(self.chosen))
        inside = (self.chosen[1:] >= 0) & (self.chosen[1:] < len(self.items))
        inside[inside] = masks[inside] >> self.chosen[1:][inside] & 1 > 0
        if not inside.all():
            mask = int(masks[~inside][0])
            raise InputError(
                f"the choice from {written(self.subset(mask))}, place {self.chosen[mask]}, is not "
                "in it; choose one of its items"
            )

    @classmethod
    def from_callable(
        cls, items: Iterable[str], choose: Callable[[tuple[str, ...]], str]
    ) -> "ChoiceFunction":
        """The function that ``choose`` computes from each subset, a tuple in the items' order.

        >>> print(ChoiceFunction.from_callable("abc", min))
        {a b} -> a, {a c} -> a, {b c} -> b, {a b c} -> a
        """
        names = tuple(items)
        _check_items(names)
        chosen = np.full(1 << len(names), -1)
        for mask in range(1, len(chosen)):
            subset = _subset(names, mask)
            choice = choose(subset)
            if choice not in subset:
                raise InputError(f"the choice from {written(subset)} is {choice!r}, not one of it")
            chosen[mask] = names.index(choice)
        return cls(names, chosen)

    @classmethod
    def from_table(cls, table: Mapping[Subset, str]) -> "ChoiceFunction":
        """From subsets and their choices; a key is a tuple, a frozenset or text (one-letter items).

        Sets of one item may be left out; every other subset of the items that appear must be there.
        """
        rows = {frozenset(subset): choice for subset, choice in table.items()}
        if len(rows) < len(table):
            raise InputError("the table gives one subset twice; give each subset one choice")
        items = sorted(frozenset().union(*rows, rows.values()))

        def choose(subset: tuple[str, ...]) -> str:
            if len(subset) == 1:
                return rows.get(frozenset(subset), subset[0])
            if frozenset(subset) not in rows:
                raise InputError(f"the table has no choice from {written(subset)}; add it")
            return rows[frozenset(subset)]

        return cls.from_callable(items, choose)

    @classmethod
    def random(cls, items: int | Iterable[str], seed: int = 0) -> "ChoiceFunction":
        """Each choice drawn alike from its subset; a number of items calls them a, b, c, …

        >>> ChoiceFunction.random(6, seed=1)
        ChoiceFunction(6 items, 57 choices, 53 of them violate IIA)
        """
        rng = generator(seed)
        names = _names(items)
        return cls.from_callable(names, lambda subset: subset[rng.integers(len(subset))])

    @classmethod
    def rational(cls, order: Iterable[str]) -> "ChoiceFunction":
        """The best of each subset by one order, given best first: IIA holds.

        >>> ChoiceFunction.rational("cab").choice("ab")
        'a'
        >>> ChoiceFunction.rational("cab").violations()
        []
        """
        best_first = tuple(order)
        return cls.from_callable(sorted(best_first), lambda s: min(s, key=best_first.index))

    def subset(self, mask: int) -> tuple[str, ...]:
        """The items of a mask.

        >>> ChoiceFunction.rational("abc").subset(0b101)
        ('a', 'c')
        """
        return _subset(self.items, mask)

    def mask(self, subset: Subset) -> int:
        """The mask of some items."""
        names = list(subset)
        for name in names:
            if name not in self.items:
                raise InputError(f"there is no item {name!r}; there are: {', '.join(self.items)}")
        if not names:
            raise InputError("nothing can be chosen from the empty set; give at least one item")
        return sum(1 << self.items.index(name) for name in set(names))

    def choice(self, subset: Subset) -> str:
        """c(s)."""
        return self.items[self.chosen[self.mask(subset)]]

    def violations(self) -> list[tuple[str, ...]]:
        """The subsets that violate IIA, the smallest first.

        s violates IIA if some larger s' has c(s') in s and c(s') ≠ c(s): what was chosen from more
        is still there, and is not chosen.
        """
        masks = np.flatnonzero(self.violates())
        return [self.subset(int(mask)) for mask in sorted(masks, key=lambda m: (m.bit_count(), m))]

    def violates(self) -> Bool[np.ndarray, " subsets"]:
        """Whether the subset of each mask violates IIA."""
        masks = np.arange(len(self.chosen))
        found = np.zeros(len(masks), bool)
        for mask in range(1, len(masks)):
            above = self.chosen[(masks & mask) == mask]
            found[mask] = ((mask >> above & 1 > 0) & (above != self.chosen[mask])).any()
        return found

    def __str__(self) -> str:
        masks = sorted(range(1, len(self.chosen)), key=lambda mask: (mask.bit_count(), mask))
        rows = [
            f"{written(self.subset(mask))} -> {self.items[self.chosen[mask]]}"
            for mask in masks
            if mask.bit_count() > 1
        ]
        return ", ".join(rows)

    def __repr__(self) -> str:
        n = len(self.items)
        return (
            f"ChoiceFunction({n} items, {2**n - n - 1} choices, "
            f"{int(self.violates().sum())} of them violate IIA)"
        )


def written(subset: Iterable[str]) -> str:
    """A subset as people write it.

    >>> written("ab")
    '{a b}'
    """
    return "{" + " ".join(subset) + "}"


def _subset(items: Sequence[str], mask: int) -> tuple[str, ...]:
    return tuple(name for place, name in enumerate(items) if mask >> place & 1)


def _names(items: int | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(items, (int, Iterable)):
        raise InputError(f"items={items!r} must be a whole number, or the items' names")
    if not isinstance(items, int):
        return tuple(items)
    if not 1 <= items <= MOST_ITEMS:
        raise InputError(f"items={items} must be from 1 to {MOST_ITEMS}")
    return tuple(ascii_lowercase[:items])


def _check_items(items: tuple[str, ...]) -> None:
    if not 1 <= len(items) <= MOST_ITEMS:
        raise InputError(f"there are {len(items)} items; give 1 to {MOST_ITEMS}")
    if len(set(items)) < len(items):
        twice = next(name for name in items if items.count(name) > 1)
        raise InputError(f"item {twice!r} is given twice; give each item its own name")

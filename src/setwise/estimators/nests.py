"""Nests of named alternatives: their tree, what is refused, and what is said of their lambdas."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from setwise._arguments import by_name, each, flag, or_word, text
from setwise._errors import InputError
from setwise.choices import Choices
from setwise.choices.alternatives import shown

Tree: TypeAlias = Mapping[str, Any]
"""Alternatives by the name of their nest, or further nests."""

NOTE = "z and p of a lambda test lambda = 1, where its nest is none."
ALONE = "not identified: no set has two items of this nest"
ALONE_WITHIN = "not identified: no set has two of the nests within this nest"
ABOVE = "above 1, which is inconsistent with utility maximisation"

is_one_lambda = or_word("by level", flag)
"""Check an argument that must be True, False or "by level"."""


def is_tree(name: str, value: Any) -> None:
    """Check nests that may hold nests: a mapping from names to lists, or to such mappings.

    >>> is_tree("nests", {"public": {"rail": ["train", "metro"], "bus": "coach"}})
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: nests['public']['bus']='coach' must be a list or tuple of at least \
1 value
    """
    by_name(lambda one, inner: _is_nest(one, inner))(name, value)


def _is_nest(name: str, value: Any) -> None:
    (is_tree if isinstance(value, Mapping) else each(text))(name, value)


@dataclass(frozen=True)
class Branches:
    """A tree of nests in the order of its levels, the outermost first."""

    names: tuple[str, ...]
    parents: tuple[int, ...]
    """The place of the nest around each nest; -1 at the top."""
    members: dict[str, list[str]]
    """All alternatives of each nest, however deep."""

    @classmethod
    def of(cls, nests: Tree, order: Sequence[str] = ()) -> "Branches":
        """Lay out a tree; ``order`` is that of the names, where it is known already.

        >>> tree = Branches.of({"public": {"rail": ["train", "metro"], "road": ["bus"]},
        ...                     "private": ["car"]})
        >>> tree.names, tree.parents
        (('public', 'private', 'rail', 'road'), (-1, -1, 0, 0))
        >>> tree.members["public"]
        ['train', 'metro', 'bus']
        """
        around, members = dict[str, str | None](), dict[str, list[str]]()
        level: list[tuple[str | None, Tree]] = [(None, nests)]
        while level:
            below = list[tuple[str | None, Tree]]()
            for outer, inner in level:
                for name, one in inner.items():
                    if name in around:
                        raise InputError(
                            f"two nests are called '{name}'; give each nest a name of its own"
                        )
                    around[name], members[name] = outer, list(_alternatives(one))
                    if isinstance(one, Mapping):
                        below.append((name, one))
            level = below
        names = tuple(order or around)
        places = {name: place for place, name in enumerate(names)} | {None: -1}
        return cls(names, tuple(places[around[name]] for name in names), members)

    @property
    def depths(self) -> list[int]:
        """How many nests are around each nest."""
        found = list[int]()
        for parent in self.parents:
            found.append(0 if parent < 0 else found[parent] + 1)
        return found

    @property
    def levels(self) -> tuple[int, ...]:
        """How many nests each level has."""
        return tuple(np.bincount(self.depths).tolist())

    def products(self, lambdas: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """The product of each nest's lambda and those of the nests around it.

        >>> tree = Branches.of({"public": {"rail": ["train", "metro"], "road": ["bus"]}})
        >>> tree.products(np.array([0.8, 0.5, 1.0])).tolist()
        [0.8, 0.4, 0.8]
        """
        found = lambdas.copy()
        for place, parent in enumerate(self.parents):
            if parent >= 0:
                found[place] *= found[parent]
        return found

    def shared(self, one_lambda: bool | str) -> tuple[int, ...]:
        """The place among the parameters of each nest's lambda."""
        if one_lambda == "by level":
            return tuple(self.depths)
        return (0,) * len(self.names) if one_lambda else tuple(range(len(self.names)))


def _alternatives(nest: Tree | Sequence[str]) -> Iterator[str]:
    """All alternatives of a nest, however deep."""
    if isinstance(nest, Mapping):
        for inner in nest.values():
            yield from _alternatives(inner)
    else:
        yield from nest


def check_alternatives(nests: Mapping[str, Sequence[str]], choices: Choices, remedy: str) -> None:
    """Refuse nests of alternatives that there are not; ``remedy`` says what else could be given."""
    name = choices.roles.alternative
    if name is None or choices.roles.utility is None:
        raise InputError(
            "nests= lists named alternatives and goes with a utility; read the choices with "
            f"alternative= (or from a wide table) and give utility={remedy}"
        )
    known = choices.levels(name)
    for nest, members in nests.items():
        for one in members:
            if one not in known:
                raise InputError(
                    f"nests['{nest}'] has '{one}', which is not an alternative; the "
                    f"alternatives are: {shown(known)}"
                )


def check_one_nest_each(nests: Tree, within: str = "nests") -> None:
    """Refuse alternatives that are in two nests, neither of which holds the other.

    >>> check_one_nest_each({"road": ["bus"], "public": {"rail": ["train"], "all": ["bus"]}})
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: 'bus' is in nests['road'] and in nests['public']['all']; an \
alternative can be in one nest only; use CrossNestedLogit
    """
    seen = dict[str, str]()
    for place, name in _innermost(nests, within):
        if name in seen:
            raise InputError(
                f"'{name}' is in {seen[name]} and in {place}; an alternative can be in one nest "
                "only; use CrossNestedLogit"
            )
        seen[name] = place


def _innermost(nests: Tree, within: str) -> Iterator[tuple[str, str]]:
    """Each innermost nest, as one would write it, and each of its alternatives."""
    for name, one in nests.items():
        place = f"{within}['{name}']"
        if isinstance(one, Mapping):
            yield from _innermost(one, place)
        else:
            yield from ((place, alternative) for alternative in one)


def above(names: Sequence[str], lambdas: Float[np.ndarray, " r"]) -> str:
    """The lambdas above 1, for a warning and for a summary; empty if there are none.

    >>> above(["lambda(road)", "lambda(rail)"], np.array([1.5, 0.5]))
    'lambda(road) = 1.5 is above 1, which is inconsistent with utility maximisation'
    """
    large = [
        f"{name} = {value:.4g}" for name, value in zip(names, lambdas, strict=True)
        if value > 1 + 1e-6
    ]  # fmt: skip
    return f"{', '.join(large)} {'is' if len(large) == 1 else 'are'} {ABOVE}" if large else ""


def warn_if_above(names: Sequence[str], lambdas: Float[np.ndarray, " r"]) -> None:
    """Warn of lambdas above 1; call it from what ``fit`` calls to warn."""
    if said := above(names, lambdas):
        warnings.warn(f"{said}; give its alternatives other nests, or none", stacklevel=5)

"""Category columns from numbers that are names, and from text."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from setwise.choices.columns import Column
from setwise.datasets.raw.lookups import Ids

UNKNOWN = "unknown"


def category(values: Int[np.ndarray, " n"], names: Mapping[int, str] | None = None) -> Column:
    """Numbers as levels in their order; ``names`` gives other words for some.

    >>> category(np.array([9, -1, 10]), {-1: "unknown"}).levels
    ('unknown', '9', '10')
    """
    ids = Ids.of(values)
    return Column(ids.find(values), levels_of(ids, names))


def levels_of(ids: Ids, names: Mapping[int, str] | None = None) -> tuple[str, ...]:
    """Ids as the levels of a category."""
    return tuple((names or {}).get(one, str(one)) for one in ids.ids.tolist())


def named(codes: Int[np.ndarray, " n"], names: Sequence[str]) -> Column:
    """Codes into names as a category: equal names are one level, and every level occurs.

    >>> column = named(np.array([2, 0, 2]), ["US", "DE", "CA"])
    >>> column.levels, column.values.tolist()
    (('CA', 'US'), [0, 1, 0])
    """
    used = np.zeros(len(names), bool)
    used[codes] = True
    levels = sorted({name for name, occurs in zip(names, used, strict=True) if occurs})
    place = {level: i for i, level in enumerate(levels)}
    table = np.array([place.get(name, -1) for name in names], np.int32)
    return Column(table[codes], tuple(levels))


def codes_of(series: Any, levels: dict[str, int]) -> Int[np.ndarray, " n"]:
    """Text (a Polars series) as codes; a level that ``levels`` does not have is added to it.

    >>> import polars as pl
    >>> levels = {"US": 0}
    >>> codes_of(pl.Series(["DE", "US", "DE"]), levels).tolist(), levels
    ([1, 0, 1], {'US': 0, 'DE': 1})
    """
    import polars as pl

    here = series.unique(maintain_order=True)
    codes = np.array([levels.setdefault(level, len(levels)) for level in here], np.int32)
    return codes[series.cast(pl.Enum(here)).to_physical().to_numpy()]

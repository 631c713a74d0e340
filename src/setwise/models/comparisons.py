"""The comparison of an item's scores F(x) with the set's reference point r(s)."""

from collections.abc import Callable

from setwise._types import Array, Evaluated, Float
from setwise.models.item_functions import ItemScores

Comparison = Callable[[ItemScores, Float[Array, "..."]], Evaluated]


def difference(f: ItemScores, r: Float[Array, " l"]) -> Evaluated:
    """f_i(x) - r_i(s): the paper's Eq. 5, scores and references are numbers."""
    return f.values[:, :, 0] - r


def inner(f: ItemScores, r: Float[Array, "l k"]) -> Evaluated:
    """< f_i(x), r_i(s) >: what the paper's experiments use, both are vectors of size k."""
    return f.inner(r)

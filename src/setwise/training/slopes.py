"""A penalty on steps that go the wrong way: more of a column must not raise, or lower, P(a).

    penalty = strength * mean over sets of max(0, - sign_j (change of log P(a)) / REACH)

For each set one item a and one column j of those with a sign take their turn: the column, as models
see it, rises by up to ``REACH`` standard deviations, and all else stays. The penalty is 0 where no
step goes the wrong way. Steps are real ones, since derivatives miss jumps: where two items of a set
are equal in a column, raising one moves its place among the others at once. It is no guarantee:
elsewhere, and where the data speak against it strongly, steps may go the wrong way.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int

from setwise import _masked
from setwise._types import Array, Float, Items, Mask
from setwise.models import Model

REACH = 0.5
"""The longest step, in standard deviations of the column."""
GOLDEN, SILVER = 0.618034, 0.414214
"""Multiples of them, without their whole parts, are spread evenly between 0 and 1."""


class Slopes(NamedTuple):
    """The signs of slopes by encoded column, and how strongly the others are penalised."""

    signs: tuple[tuple[int, int], ...]
    strength: float


def wrong_slopes(
    model: Model,
    items: Float[Array, "batch n d"],
    present: Bool[Array, "batch n"],
    places: Int[Array, " batch"],
    turn: Int[Array, ""],
    slopes: Slopes,
) -> Float[Array, " batch"]:
    """Each set's penalty, for one of its items and one of the columns.

    Args:
        model: what is trained; dropout plays no part.
        items: those of the sets, padded.
        present: which of them are there.
        places: of the sets in their batch: with ``turn``, it says which item and column to take,
            and how far to go. Sets are in another order in each epoch, so that in the end all have
            had their turn.
        turn: the number of the batch.
        slopes: the signs and the strength.
    """
    columns, signs = (jnp.array(one) for one in zip(*slopes.signs, strict=True))

    def one(items: Items, present: Mask, place: Int[Array, ""]) -> Float[Array, ""]:
        column = place % len(columns)
        row = (turn + place // len(columns)) % jnp.maximum(present.sum(), 1)
        step = REACH * (1 - (GOLDEN * turn + SILVER * place) % 1)
        raised = items.at[row, columns[column]].add(step)
        before, after = (
            _masked.log_softmax(model.scores(each, present), present)[row]
            for each in (items, raised)
        )
        return slopes.strength * jax.nn.relu(signs[column] * (before - after)) / REACH

    return jax.vmap(one)(items, present, places)

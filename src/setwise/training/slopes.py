"""A penalty on slopes that go the wrong way: more of a column must not raise, or lower, P(a).

    penalty = strength * mean over the sets of a batch of max(0, - sign_j d log P(a) / d z_aj)

For each set one item a and one column j of those with a sign, in turn; z is the column as models
see it, and the derivative is JAX's, in forward mode. It is 0 where no slope is wrong. A penalty is
no guarantee: elsewhere, and where the data speak against it strongly, slopes may be wrong.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int

from setwise import _masked
from setwise._types import Array, Float, Items, Mask, Scores
from setwise.models import Model


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
        places: of the sets in their batch: with ``turn``, it says which item and column to take.
            Sets are in another order in each epoch, so that in the end all have had their turn.
        turn: the number of the batch.
        slopes: the signs and the strength.
    """
    columns, signs = (jnp.array(one) for one in zip(*slopes.signs, strict=True))

    def one(items: Items, present: Mask, place: Int[Array, ""]) -> Float[Array, ""]:
        column = place % len(columns)
        row = (turn + place // len(columns)) % jnp.maximum(present.sum(), 1)

        def logs(items: Items) -> Scores:
            return _masked.log_softmax(model.scores(items, present), present)

        tangent = jnp.zeros_like(items).at[row, columns[column]].set(signs[column])
        slope = jax.jvp(logs, (items,), (tangent,))[1][row]
        return slopes.strength * jax.nn.relu(-slope)

    return jax.vmap(one)(items, present, places)

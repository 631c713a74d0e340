"""What training minimises, for one set: scores, which items are present, which was chosen."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Int

from setwise import _masked
from setwise._types import Array, Float, Mask, Scores

Chosen = Int[Array, ""]
Loss = Float[Array, ""]


def cross_entropy(scores: Scores, present: Mask, chosen: Chosen) -> Loss:
    """- log P(chosen | s): the likelihood of choice models.

    >>> float(cross_entropy(jnp.zeros(4), jnp.ones(4, bool), jnp.array(2))) == float(jnp.log(4.0))
    True
    """
    return -_masked.log_softmax(scores, present)[chosen]


def pairwise(scores: Scores, present: Mask, chosen: Chosen) -> Loss:
    """Mean over the other items z of log(1 + exp(g(z) - g(chosen))), RankNet's loss."""
    others = present & (jnp.arange(len(scores)) != chosen)
    return _masked.mean(jax.nn.softplus(scores - scores[chosen]), others)


def listwise(scores: Scores, present: Mask, chosen: Chosen) -> Loss:
    """1 - NDCG with a smooth rank (ApproxNDCG): rank = 1 + sum over others of sigmoid(g(z) - g).

    With one relevant item the NDCG is 1 / log2(1 + rank).
    """
    others = present & (jnp.arange(len(scores)) != chosen)
    ahead = jnp.where(others, jax.nn.sigmoid(scores - scores[chosen]), 0)
    return 1 - jnp.log(2.0) / jnp.log1p(1 + ahead.sum())


OBJECTIVES: Mapping[str, Callable[[Scores, Mask, Chosen], Loss]] = {
    "cross_entropy": cross_entropy,
    "pairwise": pairwise,
    "listwise": listwise,
}

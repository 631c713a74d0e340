"""Separable regions of a fitted model: on which sets which of its score functions decides.

The paper's Theorem 1 explains aggregation by regions of sets that one score function separates from
the rest, and within which one decides. A fitted model need not be built like the proof. This module
looks how far it is.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from setwise._arguments import checked
from setwise._errors import InputError
from setwise._types import Array, Float, Items, Mask
from setwise.choices import Encoded
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.estimators.removals import scores_without_each, set_batches
from setwise.models import Aggregation
from setwise.training.device import DeviceData, map_sets, to_device


@dataclass(frozen=True, eq=False)
class Regions:
    """What each of the l score functions does on each set; see :func:`separable_regions`."""

    decided_by: Int[np.ndarray, " sets"]
    """The score function, from 0, that decides alone; -1 where none does."""
    agrees: Bool[np.ndarray, "sets l"]
    """Whether the prediction is the one that the score function alone would make."""
    violations: Int[np.ndarray, " sets"]
    """How many subsets with one item less, the predicted one kept, violate IIA."""
    separated: Int[np.ndarray, "sets l"]
    """How many of them the score function separates."""
    separable: Int[np.ndarray, " sets"]
    """How many of them at least one score function separates."""

    def describe(self, most: int = 10) -> str:
        """The regions in words and a table of the score functions that agree most often."""
        sets, functions = self.agrees.shape
        total = int(self.violations.sum())
        alone = np.bincount(self.decided_by[self.decided_by >= 0], minlength=functions)
        lines = [
            f"{sets:,} sets, {functions} score functions",
            f"one decides alone on {alone.sum() / sets:.1%} of the sets",
            f"{(self.violations > 0).mean():.1%} of the sets have a violating subset; of the "
            f"{total:,} such subsets, {_share(int(self.separable.sum()), total)} are separable",
            "  function   decides alone   agrees   separates",
        ]
        agrees = self.agrees.mean(0)
        for i in np.argsort(-agrees, kind="stable")[:most]:
            separates = _share(int(self.separated[:, i].sum()), total)
            share = f"{alone[i] / sets:.1%}"
            lines.append(f"  {i:8}   {share:>13}   {agrees[i]:6.1%}   {separates:>9}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        total = int(self.violations.sum())
        return (
            f"Regions({len(self.agrees):,} sets; one of {self.agrees.shape[1]} score functions "
            f"decides alone on {(self.decided_by >= 0).mean():.1%}; {total:,} violating subsets, "
            f"{_share(int(self.separable.sum()), total)} separable)"
        )


@checked(estimator=fitted)
def separable_regions(estimator: Estimator, data: Any) -> Regions:
    """On which sets which score function of a fitted aggregation decides, agrees and separates.

    The score of an item is a sum over score functions, g(x, s) = sum_i g_i(x, s), with
    g_i(x, s) = w_i(s) mu(f_i(x) compared with r_i(s)). With y = h(s) the prediction:

    - i **agrees** on s if y alone has the highest g_i;
    - i **decides alone** on s if no other item could catch up even if all other functions spoke for
      it: g_i(y, s) - g_i(x, s) > sum over j != i of |g_j(y, s) - g_j(x, s)| for every other x.
      At most one does. This is the paper's isolation, as it can be seen in a fitted model;
    - s without x **violates** IIA if x is not y and h(s without x) is not y;
    - i **separates** that subset if its items all have a higher g_i than x. It is the paper's
      separation with the set s for the universe of items, since no other items are known to be
      there; weights have signs, so g_i rather than f_i says which end is the top.

    Read the share of separable subsets against chance: an item is the lowest of n by chance with
    probability 1/n, so l unrelated functions separate about 1 - (1 - 1/n)^l of all subsets.

    Args:
        estimator: a fitted aggregation (SDW, SDE, SDA, the classical models of the zoo), one model,
            not an ensemble.
        data: choices, or a table with the columns of the training table.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(200)
    >>> separable_regions(sw.MNL().fit(choices), choices)
    Regions(200 sets; one of 1 score functions decides alone on 100.0%; 0 violating subsets, none \
separable)
    """
    choices = estimator.as_choices(data)
    model = getattr(estimator, "model_", None)
    if not isinstance(model, Aggregation):
        raise InputError(
            f"{type(estimator).__name__} is not one aggregation of score functions, so that it has "
            "no separable regions; fit an SDW, SDE or SDA with ensemble=1"
        )
    parts = [
        _regions(model, part, estimator.schema_.outside)
        for part in estimator.encoded_parts(choices)
    ]
    best, *rest = (np.concatenate(each) for each in zip(*parts, strict=True))
    if (best < -1).any():
        which = choices.set_ids[int(np.argmax(best < -1))]
        raise InputError(
            f"the model's scores in set '{choices.roles.set}'={which} are not numbers, so that "
            "it predicts nothing; train it again, with a smaller learning rate"
        )
    return Regions(best, *rest)


def contributions(model: Aggregation, items: Items, present: Mask) -> Float[Array, "n l"]:
    """g_i(x, s) of every item and score function; their sum over i is the model's score.

    If < b, x > is added to the aggregation, it counts as one more function, the last.
    """
    x = model.view(items, present)
    f = model.F(x)
    w, r = model.w(f, present, None), model.r(f, present, None)
    g = model.mu(model.compare(f, r)) * w
    return g if model.b is None else jnp.concatenate([g, (x @ model.b)[:, None]], 1)


def _regions(model: Aggregation, encoded: Encoded, outside: bool) -> tuple[np.ndarray, ...]:
    data, sets = to_device(encoded), []
    found: list[tuple[np.ndarray, ...]] = []
    for some in set_batches(encoded):
        results = _program(model, data, some.batches, some.width, outside)
        sets.append(some.sets)
        found.append(
            tuple(np.asarray(x).reshape(-1, *x.shape[2:])[: len(some.sets)] for x in results)
        )
    order = np.argsort(np.concatenate(sets))
    return tuple(np.concatenate(each)[order] for each in zip(*found, strict=True))


@eqx.filter_jit
def _program(
    model: Aggregation,
    data: DeviceData,
    sets: Int[Array, "steps batch"],
    width: int,
    outside: bool,
) -> tuple[Array, ...]:
    return map_sets(lambda x, present: _of_one_set(model, x, present, outside), data, sets, width)


def _of_one_set(
    model: Aggregation, items: Items, present: Mask, outside: bool
) -> tuple[Array, ...]:
    place = jnp.arange(len(present))

    scores = scores_without_each(model, items, present)
    winners = jnp.argmax(scores, 1)  # the first of equals; NaN comes before all
    sound = ~jnp.isnan(jnp.take_along_axis(scores, winners[:, None], 1))
    best, without = winners[0], winners[1:]
    twins = present & (items == items[best]).all(1)  # equal items are one and the same
    can_go = (place < present.sum() - outside) & (place != jnp.argmax(twins))
    violates = can_go & ~twins[without]

    g = contributions(model, items, present)
    lead = g[best] - g  # of the prediction over each item, by each score function
    against = jnp.abs(lead).sum(1, keepdims=True) - jnp.abs(lead)
    rival = (present & ~twins)[:, None]
    alone = (~rival | (lead > against)).all(0) & rival.any()
    agrees = (~rival | (lead > 0)).all(0)
    others = present[None, :] & (place[:, None] != place[None, :])
    least = jnp.where(others[:, :, None], g[None], jnp.inf).min(1)  # of the items that stay
    separates = violates[:, None] & (g < least)
    decided_by = jnp.where(alone.any(), jnp.argmax(alone), -1)
    return (
        jnp.where(sound.all(), decided_by, -2),
        agrees,
        violates.sum(),
        separates.sum(0),
        separates.any(1).sum(),
    )


def _share(part: int, whole: int) -> str:
    return "none" if whole == 0 else f"{part / whole:.1%}"

"""Scores of sets with each of their items taken away in turn: the one way to take items away.

JAX models score a set whole and with each item masked in one compiled program, many sets at a
time. Other models score copies of each set with one row less (:meth:`Encoded.without_each`).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from setwise._errors import InputError
from setwise._segments import offsets_of
from setwise._types import Array, Items, Mask
from setwise.choices import Choices, Encoded, bucket
from setwise.estimators.base import Estimator
from setwise.metrics.pairs import Pairs, Responses
from setwise.models import Model
from setwise.training.device import DeviceData, map_sets, to_device

ROWS_PER_BATCH = 16_384  # in a compiled step
PAIRS_PER_CHUNK = 2_000_000  # that leave the device at a time
COPIES_PER_CHUNK = 500_000  # rows of copies, for models that are not JAX's

RowScores = Callable[[Encoded], Float[np.ndarray, " rows"]]
"""Scores of all rows, such as log P(x | s)."""


class Removals(NamedTuple):
    """Some sets, padded to a common width: their scores g whole, and with each item gone.

    Scores of absent items are minus infinity. log P_s(a) / P_s(b) = g_s(a) - g_s(b), so that
    log-odds need no softmax and have no rounding error from one.
    """

    sets: Int[np.ndarray, " m"]
    part: Encoded
    rows: Int[np.ndarray, "m width"]  # of the part; 0 where absent
    present: Bool[np.ndarray, "m width"]
    can_go: Bool[np.ndarray, "m width"]  # neither outside options nor the only item of a set
    whole: Float[np.ndarray, "m width"]
    left: Float[np.ndarray, "m gone width"]

    @property
    def stays(self) -> Bool[np.ndarray, "m gone width"]:
        """Which items are left after each removal that is tried."""
        others = ~np.eye(self.present.shape[1], dtype=bool)
        return self.can_go[:, :, None] & self.present[:, None, :] & others


class SetBatches(NamedTuple):
    """Some sets of at most ``width`` rows, and the same in batches for the device."""

    width: int
    sets: Int[np.ndarray, " m"]
    batches: Int[Array, "steps batch"]  # -1 fills them up


def without_each(estimator: Estimator, choices: Choices) -> Iterator[Removals]:
    """Take every item of every set away in turn; the memory is bounded.

    >>> import setwise as sw
    >>> choices = sw.read({"set": [1, 1, 1], "x": [1.0, 2.0, 4.0], "chosen": [0, 0, 1]},
    ...                   set="set", chosen="chosen")
    >>> (one,) = without_each(sw.RandomChoice().fit(choices), choices)
    >>> np.abs(one.left[0]).tolist()  # of minus infinity, too
    [[inf, 0.0, 0.0], [0.0, inf, 0.0], [0.0, 0.0, inf]]
    """
    model = estimator.model_ if estimator.has_jax_model else estimator.row_log_probabilities
    before = 0
    for part in estimator.encoded_parts(choices):
        for one in removals(model, part, estimator.schema_.outside):
            found = one._replace(sets=one.sets + before)
            _check(found, choices)
            yield found
        before += len(part)


def removals(model: Model | RowScores, encoded: Encoded, outside: bool) -> Iterator[Removals]:
    """The removals of encoded sets; an ``outside`` option, each set's last row, never leaves."""
    is_jax = isinstance(model, Model)
    data = to_device(encoded) if is_jax else None
    for some in set_batches(encoded, PAIRS_PER_CHUNK if is_jax else COPIES_PER_CHUNK):
        place, size = np.arange(some.width), encoded.sizes[some.sets][:, None]
        present = place < size
        can_go = (place < size - int(outside)) & (size > 1)
        rows = np.where(present, encoded.offsets[some.sets][:, None] + place, 0)
        if isinstance(model, Model):
            assert data is not None
            table = _first(_program(model, data, some.batches, some.width), len(some.sets))
            yield Removals(some.sets, encoded, rows, present, can_go, table[:, 0], table[:, 1:])
        else:
            whole = np.full(present.shape, -np.inf)
            left = np.full((*present.shape, some.width), -np.inf)
            one = Removals(some.sets, encoded, rows, present, can_go, whole, left)
            one.whole[present] = model(encoded.take(some.sets))
            if can_go.any():
                one.left[one.stays] = model(encoded.without_each(rows[can_go]))
            yield one


def scores_without_each(
    model: Model, items: Items, present: Mask
) -> Float[Array, "whole_and_gone width"]:
    """g of one padded set: first whole, then with the item at each place gone.

    All of them go through one piece of program, so that rounding does not tell them apart.
    """
    width = len(present)

    def without(place: Array) -> Float[Array, " width"]:
        left = present & (jnp.arange(width) != place)
        return jnp.where(left, model.scores(items, left), -jnp.inf)

    return over_places(without, -1, width)


def over_places(function: Callable[[Array], Array], first: int, width: int) -> Array:
    """The function of each of the places from ``first`` up to ``width``, many at a time.

    What does not depend on the place is the same in all of them, to the last bit.
    """
    count = width - first
    size = min(count, max(1, ROWS_PER_BATCH // width))
    steps = -(-count // size)
    places = jnp.arange(first, first + steps * size).reshape(steps, size)
    found = jax.lax.map(jax.vmap(function), places)
    return found.reshape(steps * size, *found.shape[2:])[:count]


def set_batches(encoded: Encoded, most_pairs: int | None = None) -> Iterator[SetBatches]:
    """All sets, some at a time, with a bounded number of pairs of rows.

    Batches of one width have one shape, so that they need one compiled program.
    """
    most = PAIRS_PER_CHUNK if most_pairs is None else most_pairs
    for one in bucket(encoded.sizes):
        pairs = one.width * (one.width + 1)
        batch = min(len(one.sets), max(1, ROWS_PER_BATCH // pairs))
        steps = min(-(-len(one.sets) // batch), max(1, most // (pairs * batch)))
        for begin in range(0, len(one.sets), steps * batch):
            sets = one.sets[begin : begin + steps * batch]
            filled = np.full(steps * batch, -1, np.int32)
            filled[: len(sets)] = sets
            yield SetBatches(one.width, sets, jax.device_put(filled.reshape(steps, batch)))


def probability_changes(estimator: Estimator, choices: Choices) -> Responses:
    """P_{s-b}(a) - P_s(a) of all pairs of items, -P_s(b) for a = b; NaN where b is alone."""
    rows = choices.sizes + int(estimator.schema_.outside)
    change, offsets = Pairs.empty(rows, choices.sizes), offsets_of(rows)
    probability = np.empty(int(offsets[-1]))
    for one in without_each(estimator, choices):
        wide = one.whole.astype(np.float64)
        before = np.exp(wide - logsumexp(wide, axis=1, keepdims=True))
        left = np.full(one.left.shape, -np.inf)
        np.copyto(left, one.left, where=one.stays)
        with np.errstate(invalid="ignore"):  # of removals that leave nothing
            after = np.exp(left - logsumexp(left, axis=2, keepdims=True))
        place = np.arange(one.present.shape[1])
        probability[(offsets[one.sets][:, None] + place)[one.present]] = before[one.present]
        change.fill(one.sets, after - before[:, None, :])
    return Responses(change, probability)


@eqx.filter_jit
def _program(
    model: Model, data: DeviceData, batches: Int[Array, "steps batch"], width: int
) -> Float[Array, "steps batch whole_and_gone width"]:
    return map_sets(partial(scores_without_each, model), data, batches, width)


def _first(found: Float[Array, " steps batch *rest"], sets: int) -> Float[np.ndarray, " m *rest"]:
    """The results of the sets themselves, without what filled up the batches."""
    return np.asarray(found).reshape(-1, *found.shape[2:])[:sets]


def _check(one: Removals, choices: Choices) -> None:
    unsound = np.isnan(one.whole).any(1) | (np.isnan(one.left) & one.stays).any((1, 2))
    if unsound.any():
        which = choices.set_ids[one.sets[int(np.argmax(unsound))]]
        raise InputError(
            f"the model's scores in set '{choices.roles.set}'={which} are not numbers, so it "
            "predicts nothing; train it again, with a smaller learning rate"
        )

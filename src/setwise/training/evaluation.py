"""Log-probabilities of every row, for validation and prediction: sets of any size, any number.

Which members of an ensemble count, and how much: chosen on the validation part.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from setwise.choices import Bucket, Encoded, Encoding, bucket, round_up
from setwise.metrics import Ranks
from setwise.models import Model
from setwise.training.device import DeviceData, to_device
from setwise.training.loop import log_probabilities
from setwise.training.processes import ALONE, Group

ROWS_A_BATCH = 16_384
ROWS_A_CHUNK = 2_000_000


class Scorer:
    """Scores the same choices again and again (as validation does) without moving them again."""

    def __init__(self, encoded: Encoded):
        self._offsets = encoded.offsets
        self._data: DeviceData = to_device(encoded)
        self._buckets = bucket(encoded.sizes, overhead=0.2)
        self._batches = [in_batches(one, _batch_size(one)) for one in self._buckets]

    def __call__(self, model: Model) -> Float[np.ndarray, " rows"]:
        """log P(x | s) of every row."""
        flat = np.empty(int(self._offsets[-1]), np.float32)
        for one, sets in zip(self._buckets, self._batches, strict=True):
            table = np.asarray(log_probabilities(model, self._data, sets, one.width))
            table = table.reshape(-1, one.width)[: len(one.sets)]
            sizes = np.diff(self._offsets)[one.sets]
            present = np.arange(one.width) < sizes[:, None]
            rows = self._offsets[:-1][one.sets][:, None] + np.arange(one.width)
            flat[rows[present]] = table[present]
        return flat


class Validation:
    """Mean NLL and accuracy on the same choices, again and again.

    In a group every process scores its share of the sets; the results are those of all.
    """

    def __init__(self, data: Encoded | Encoding, group: Group = ALONE):
        self.weight = data.weight if isinstance(data, Encoded) else data.choices.weight
        self._group, sets = group, len(data)
        begin, end = (sets * part // group.size for part in (group.place, group.place + 1))
        self._data = data if group.size == 1 else _between(data, begin, end)
        self._own_weight = None if self.weight is None else self.weight[begin:end]
        in_memory = isinstance(self._data, Encoded) and end > begin
        self._score = Scorer(self._data) if in_memory else None  # type: ignore[arg-type]

    def __call__(self, model: Model) -> tuple[float, float]:
        """By the sets' weights."""
        nll, top, weight = self._group.total(self._sums(model)).tolist()
        # Dividing last keeps equal accuracies equal: sums of ones are exact.
        return nll / weight, top / weight

    def _sums(self, model: Model) -> Float[np.ndarray, " 3"]:
        """Of this process's sets: NLL and hits by weight, and the weight."""
        each = [(np.zeros(0), np.zeros(0))]
        for scores, part in self._scored(model):
            assert part.chosen is not None
            nll = -scores[part.offsets[:-1] + part.chosen].astype(np.float64)
            if np.isnan(nll).any():  # weights that are no numbers have no accuracy either
                return np.full(3, math.nan)
            each.append((nll, Ranks.of(scores, part.offsets, part.chosen).top(1)))
        nll, top = (np.concatenate(values) for values in zip(*each, strict=True))
        weight = np.ones(len(nll)) if self._own_weight is None else self._own_weight
        return np.array([nll @ weight, top @ weight, weight.sum()])

    def of_chosen(self, model: Model) -> Float[np.ndarray, " sets"]:
        """log P of the chosen item of every set."""
        own = [
            scores[part.offsets[:-1] + part.chosen].astype(np.float64)
            for scores, part in self._scored(model)
        ]
        return np.concatenate(self._group.joined(np.concatenate([np.zeros(0), *own])))

    def _scored(self, model: Model) -> Iterator[tuple[Float[np.ndarray, " rows"], Encoded]]:
        """log P of the rows: of all at once, or, of data on disk, a part at a time."""
        if len(self._data) == 0:
            return
        if isinstance(self._data, Encoded):
            assert self._score is not None
            yield self._score(model), self._data
        else:
            for block in self._data.blocks():
                part = block.encoded()
                yield Scorer(part)(model), part


def row_log_probabilities(model: Model, encoded: Encoded) -> Float[np.ndarray, " rows"]:
    """log P(x | s) of every row, in chunks of sets that bound the memory."""
    number = encoded.offsets[:-1] // ROWS_A_CHUNK
    cuts = np.flatnonzero(np.diff(number)) + 1
    chunks = itertools.pairwise([0, *cuts.tolist(), len(encoded)])
    return np.concatenate([Scorer(_sets(encoded, *chunk))(model) for chunk in chunks])


def _between(data: Encoded | Encoding, begin: int, end: int) -> Encoded | Encoding:
    """Consecutive sets."""
    if isinstance(data, Encoded):
        return _sets(data, begin, end)
    return data.take(np.arange(begin, end))


def _sets(encoded: Encoded, begin: int, end: int) -> Encoded:
    first, last = encoded.offsets[begin], encoded.offsets[end]
    return Encoded(
        encoded.items[first:last],
        encoded.context[begin:end],
        encoded.offsets[begin : end + 1] - first,
        None if encoded.chosen is None else encoded.chosen[begin:end],
        None if encoded.weight is None else encoded.weight[begin:end],
    )


def in_batches(one: Bucket, size: int) -> Int[jax.Array, "steps batch"]:
    """The bucket's sets in batches of this size; -1 fills the last, and a few more."""
    steps = round_up(-(-len(one.sets) // size))
    sets = np.full(steps * size, -1, np.int32)
    sets[: len(one.sets)] = one.sets
    return jnp.asarray(sets.reshape(steps, size))


def _batch_size(one: Bucket) -> int:
    return min(round_up(len(one.sets)), max(1, ROWS_A_BATCH // one.width))


PICKS = 32


def select(
    log_p: Float[np.ndarray, "members sets"], weight: Float[np.ndarray, " sets"] | None = None
) -> Float[np.ndarray, " members"]:
    """The weight of each member, by greedy selection with replacement (Caruana et al. 2004).

        add, 32 times, the member m that makes the mean of the probabilities picked so far best:
        argmax_m sum over s of log (sum over picks p of P_p(s) + P_m(s))

    The weight of a member is its share of the picks. Each step looks one member ahead, so that a
    small validation part is hardly fitted, and members that only add noise get nothing.

    Args:
        log_p: log P of what was chosen in each validation set, one row a member.
        weight: of the sets.

    >>> log_p = np.log([[0.9, 0.1], [0.1, 0.9], [0.1, 0.1]])
    >>> select(log_p).tolist()
    [0.5, 0.5, 0.0]
    """
    members, sets = log_p.shape
    share = np.ones(sets) if weight is None else weight
    picked, counts = np.full(sets, -np.inf), np.zeros(members)
    for _ in range(PICKS):
        tried = np.logaddexp(picked, log_p)
        best = int(np.argmax(tried @ share))
        picked, counts[best] = tried[best], counts[best] + 1
    return counts / PICKS


def weigh(models: Sequence[Model], valid: Encoded | Encoding) -> Float[np.ndarray, " members"]:
    """:func:`select` for models that were trained, by the weights of the validation sets."""
    validation = Validation(valid, Group.current())
    return select(np.stack([validation.of_chosen(model) for model in models]), validation.weight)

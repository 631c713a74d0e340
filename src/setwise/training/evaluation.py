"""Models on many sets of any size: log-probabilities of every row, and validation.

Which members of an ensemble count, and how much: chosen on the validation part.
"""

import itertools
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int

from setwise.choices import Bucket, Encoded, Encoding, bucket, round_up
from setwise.models import Model
from setwise.training.device import DeviceData, DeviceShape, first_sets, to_device
from setwise.training.epoch import log_probabilities, validate
from setwise.training.population_plan import in_memory, validation_batch
from setwise.training.processes import ALONE, Group

ROWS_PER_BATCH = 16_384
ROWS_PER_CHUNK = 2_000_000
SETS_PER_SUM = 512  # sums of more in float32 would lose digits
OVERHEAD = 0.2
ROWS_WORTH_A_PROGRAM = 100_000  # are scored in the time in which a program compiles


class RowScorer:
    """Scores the same choices again and again without moving them again."""

    def __init__(self, encoded: Encoded):
        self._offsets = encoded.offsets
        self._data: DeviceData = to_device(encoded)
        least = ROWS_WORTH_A_PROGRAM / max(1, int(encoded.offsets[-1]))
        self._buckets = bucket(encoded.sizes, overhead=max(OVERHEAD, least))
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


class _ValidationPart(NamedTuple):
    """Sets on the device, in batches of sets that are at most so wide."""

    data: DeviceData
    batches: list[tuple[int, Int[jax.Array, "streams steps batch"]]]


class Validation:
    """Mean NLL and accuracy of models on the same choices, again and again.

    Args:
        tasks: the validation sets.
        streams: the number of the task that the models of each stream validate on.
        batch_size: sets per batch; None for models that are alone, whose sets come in buckets of
            like sizes. That compiles a program per bucket. Many models share one program, as wide
            as the largest set: compiling would cost more than padding.
        group: every process scores its share of the sets; the results are those of all.
    """

    def __init__(
        self,
        tasks: Sequence[Encoded | Encoding],
        streams: Sequence[int] = (0,),
        batch_size: int | None = None,
        group: Group = ALONE,
    ):
        self._group, self._tasks, self._batch_size = group, tasks, batch_size
        self._counts = np.array([[len(tasks[task])] for task in streams])
        self._resident: list[_ValidationPart] | None = None
        if batch_size is not None:
            data = to_device(*map(in_memory, tasks))
            self._resident = [_ValidationPart(data, [self._in_one_width(streams)])]
        elif isinstance(tasks[0], Encoded):
            self._resident = list(self._in_buckets())

    def of_streams(self, streams: Sequence[int]) -> "Validation":
        """For fewer of many models; the sets stay where they are."""
        assert self._resident is not None
        fewer = copy(self)
        fewer._counts = np.array([[len(self._tasks[task])] for task in streams])
        fewer._resident = [_ValidationPart(self._resident[0].data, [self._in_one_width(streams)])]
        return fewer

    @property
    def resident(self) -> bool:
        """Whether the sets stay on the device."""
        return self._resident is not None

    def __call__(
        self, models: Model
    ) -> tuple[Float[np.ndarray, "streams lanes"], Float[np.ndarray, "streams lanes"]]:
        """NLL and accuracy, by the sets' weights, of models with the axes (streams, lanes)."""
        sums: Any = np.zeros((2, 1, 1))
        for part in self._in_buckets() if self._resident is None else self._resident:
            for width, sets in part.batches:
                found = validate(models, part.data, sets, width)
                sums = sums + np.stack([np.asarray(one, np.float64).sum(-1) for one in found])
        total = self._group.total(sums.ravel()).reshape(sums.shape)
        # Dividing last keeps equal accuracies equal: sums of ones are exact.
        nll, accuracy = total / self._counts
        return nll, np.where(np.isnan(nll), np.nan, accuracy)  # weights that are not numbers

    def measure(self, model: Model) -> tuple[float, float]:
        """NLL and accuracy of one model."""
        arrays, static = eqx.partition(model, eqx.is_array)
        arrays = jax.tree.map(lambda leaf: leaf[None, None], arrays)
        nll, accuracy = self(eqx.combine(arrays, static))
        return nll.item(), accuracy.item()

    def _in_buckets(self) -> Iterator[_ValidationPart]:
        """The sets of the only task, a part at a time, in buckets."""
        (data,) = self._tasks
        weight = data.weight
        shape = DeviceShape(None, None, 1.0 if weight is None else float(weight.mean()))
        for part in _parts(data, self._group):
            batches = [
                (one.width, in_batches(one, min(_batch_size(one), SETS_PER_SUM))[None])
                for one in bucket(part.sizes, overhead=OVERHEAD)
            ]
            yield _ValidationPart(to_device(part, shape=shape), batches)

    def _in_one_width(
        self, streams: Sequence[int]
    ) -> tuple[int, Int[jax.Array, "streams steps batch"]]:
        """The width of the largest set of all tasks, and the sets of every stream's task."""
        tasks = list(map(in_memory, self._tasks))
        most = max(map(len, tasks))
        size = min(validation_batch(self._batch_size or most), most)
        steps = -(-most // size)
        first = first_sets(*tasks)
        sets = np.full((len(streams), steps * size), -1, np.int32)
        for row, task in zip(sets, streams, strict=True):
            row[: len(tasks[task])] = first[task] + np.arange(len(tasks[task]))
        width = round_up(max(int(task.sizes.max()) for task in tasks))
        return width, jax.device_put(sets.reshape(len(sets), steps, size))


def _parts(data: Encoded | Encoding, group: Group) -> Iterator[Encoded]:
    """This process's share of the sets: all at once, or, of data on disk, a part at a time."""
    begin, end = (len(data) * part // group.size for part in (group.place, group.place + 1))
    if begin == end:
        return
    if isinstance(data, Encoded):
        yield data if group.size == 1 else _sets(data, begin, end)
    else:
        own = data if group.size == 1 else data.take(np.arange(begin, end))
        yield from (block.encoded() for block in own.blocks())


def row_log_probabilities(model: Model, encoded: Encoded) -> Float[np.ndarray, " rows"]:
    """log P(x | s) of every row, in chunks of sets that bound the memory."""
    number = encoded.offsets[:-1] // ROWS_PER_CHUNK
    cuts = np.flatnonzero(np.diff(number)) + 1
    chunks = itertools.pairwise([0, *cuts.tolist(), len(encoded)])
    return np.concatenate([RowScorer(_sets(encoded, *chunk))(model) for chunk in chunks])


def _sets(encoded: Encoded, begin: int, end: int) -> Encoded:
    first, last = encoded.offsets[begin], encoded.offsets[end]
    return Encoded(
        encoded.items[first:last],
        encoded.context[begin:end],
        encoded.offsets[begin : end + 1] - first,
        None if encoded.chosen is None else encoded.chosen[begin:end],
        None if encoded.weight is None else encoded.weight[begin:end],
        worst=None if encoded.worst is None else encoded.worst[begin:end],
    )


def in_batches(one: Bucket, size: int) -> Int[jax.Array, "steps batch"]:
    """The bucket's sets in batches of this size; -1 fills the last, and a few more."""
    steps = round_up(-(-len(one.sets) // size))
    sets = np.full(steps * size, -1, np.int32)
    sets[: len(one.sets)] = one.sets
    return jax.device_put(sets.reshape(steps, size))


def _batch_size(one: Bucket) -> int:
    return min(round_up(len(one.sets)), max(1, ROWS_PER_BATCH // one.width))


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
        log_p: log P of what was chosen in each validation set, one row per member.
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
    group, own = Group.current(), [np.zeros((len(models), 0))]
    for part in _parts(valid, group):
        assert part.chosen is not None
        score, rows = RowScorer(part), part.offsets[:-1] + part.chosen
        own.append(np.stack([score(model)[rows].astype(np.float64) for model in models]))
    every = group.joined(np.concatenate(own, 1))
    log_p = np.concatenate([one.reshape(len(models), -1) for one in every], 1)
    return select(log_p, valid.weight)

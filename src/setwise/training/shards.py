"""Which process takes which sets of a batch, where several train together.

The batches of an epoch are those that one process would have: how many processes there are changes
nothing but who computes what. Each batch is put in the order in which its sets are read and cut
into equal parts, so that process p reads about the p-th part of a shard: the others' sets are not
even in the pages that it reads.

Where an epoch's data come from: all of them on the device, or from disk, shard after shard.

An epoch over data that are larger than memory shuffles them in two steps. Short runs of
neighbouring sets are put in random order and dealt into shards of about ``ROWS_A_SHARD`` rows; the
sets of a shard are then shuffled as data in memory are. While the device trains on a shard, the
next is read and encoded. Data that fit in one shard are read once and kept: they train as data in
memory do, to the same bits.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from setwise.choices import Bucket, Choices, Encoded, Encoding, bucket, round_up, shuffled_batches
from setwise.training.device import DeviceData, Shape, to_device
from setwise.training.processes import ALONE, Group


class Batches(NamedTuple):
    """The steps of a shard: set numbers (-1: none) and the bucket of each step (-1: idle).

    ``places`` says where each set stands in the whole batch, if these are a process's share.
    """

    sets: Int[np.ndarray, "steps batch"]
    numbers: Int[np.ndarray, " steps"]
    places: Int[np.ndarray, "steps batch"] | None = None


def share(batches: Batches, group: Group) -> Batches:
    """The batches with this process's part of the sets; all processes' parts are equally wide.

    >>> whole = Batches(np.array([[7, 2, 5, 3, 4], [6, 1, -1, -1, -1]]), np.array([0, 0]))
    >>> [share(whole, Group(2, place)).sets.tolist() for place in (0, 1)]
    [[[2, 3, -1], [1, -1, -1]], [[4, 5, 7], [6, -1, -1]]]
    >>> share(whole, Group(2, 1)).places.tolist()
    [[4, 2, 0], [0, 0, 0]]
    """
    if group.size == 1:
        return batches
    order, counts = _read_order(batches.sets)
    wide = -(-batches.sets.shape[1] // group.size)
    begin, end = (counts * part // group.size for part in (group.place, group.place + 1))
    rank = begin[:, None] + np.arange(wide)
    mine = rank < end[:, None]
    places = np.take_along_axis(order, np.where(mine, rank, 0), 1)
    sets = np.where(mine, np.take_along_axis(batches.sets, places, 1), -1)
    return Batches(
        sets.astype(np.int32), batches.numbers, np.where(mine, places, 0).astype(np.int32)
    )


def largest_share(
    batches: Batches, sizes: Int[np.ndarray, " sets"], processes: int
) -> tuple[int, int]:
    """The most rows, and the most sets, that a process takes of batches of sets of these sizes.

    >>> whole = Batches(np.array([[7, 2, 5, 3, 4], [6, 1, -1, -1, -1]]), np.array([0, 0]))
    >>> largest_share(whole, np.full(8, 10), 2)
    (40, 4)
    """
    order, counts = _read_order(batches.sets)
    rank = np.arange(order.shape[1])
    real = rank < counts[:, None]
    # The process p of which floor(p c / P) <= rank < floor((p + 1) c / P), with c sets in all.
    owner = ((rank + 1) * processes - 1) // np.maximum(counts, 1)[:, None]
    sets = np.take_along_axis(batches.sets, order, 1)[real]
    rows = np.bincount(owner[real], sizes[sets], minlength=processes)
    return int(rows.max()), int(np.bincount(owner[real], minlength=processes).max())


def _read_order(
    sets: Int[np.ndarray, "steps batch"],
) -> tuple[Int[np.ndarray, "steps batch"], Int[np.ndarray, " steps"]]:
    """The places of each batch's sets in the order of their numbers, and how many there are."""
    last = np.iinfo(np.int32).max
    return np.argsort(np.where(sets < 0, last, sets), axis=1), (sets >= 0).sum(1)


ROWS_A_SHARD = 2_000_000
SETS_A_RUN = 1024
# Shards that are read ahead at the same time. One is enough for a CPU, which needs its cores to
# train; a GPU takes a shard in a fraction of the time that reading it takes.
READERS = max(1, min(4, (os.cpu_count() or 1) // 4))


def stays_on_disk(choices: Choices) -> bool:
    """Whether choices are read anew in every epoch: they are on disk, and more than one shard."""
    return choices.on_disk and int(choices.offsets[-1]) > ROWS_A_SHARD


def resident_or_streamed(data: Encoding) -> Encoded | Encoding:
    """Encoded, if the data are in memory or small; else as they are, to be read as they train."""
    return data if stays_on_disk(data.choices) else data.encoded()


class Shard(NamedTuple):
    """What one call of the compiled epoch trains on."""

    data: DeviceData
    batches: Batches


class Resident:
    """Data that stay on the device: an epoch is one shard.

    Where several processes train, each has all the data, and its share of every batch.
    """

    def __init__(self, train: Encoded, batch_size: int, group: Group = ALONE):
        self._data, self._group = to_device(train), group
        self._buckets = bucket(train.sizes)
        self.batch_size = min(batch_size, max(len(one.sets) for one in self._buckets))
        self.widths = tuple(one.width for one in self._buckets)
        self.shards, self.idle = 1, False

    def epoch(self, seed: int, epoch: int, done: int = 0) -> Iterator[Shard]:
        """The shards of an epoch but those ``done``, in an order of the seed and the epoch alone.

        So a resumed fit repeats it.
        """
        if done == 0:
            rng = np.random.default_rng([seed, epoch])
            batches = shuffled_batches(self._buckets, self.batch_size, rng, epoch)
            yield Shard(self._data, share(Batches(*batches), self._group))


@dataclass(frozen=True, eq=False)
class Plan:
    """Which sets each shard of an epoch has, and their batches, by their place in the shard."""

    members: list[np.ndarray]
    batches: list[Batches]


class Streamed:
    """Data that are read from disk again in every epoch: by each process, its share of them."""

    def __init__(self, train: Encoding, batch_size: int, group: Group = ALONE):
        self._train, self._sizes = train, train.sizes.astype(np.int32)
        self._group = group
        buckets = bucket(self._sizes)
        self.widths = tuple(one.width for one in buckets)
        self.batch_size = min(batch_size, max(len(one.sets) for one in buckets))
        mean = train.rows / len(train)
        steps = max(1, round(ROWS_A_SHARD / mean / self.batch_size))
        self._sets_a_shard = steps * self.batch_size
        self._steps = steps + len(buckets) - 1  # every bucket may end in a batch that is not full
        self.shards = -(-len(train) // self._sets_a_shard)
        self.idle = True
        self._rows = 0
        self._sets = self._sets_a_shard if group.size == 1 else 0
        weight = train.choices.weight
        self._mean_weight = 1.0 if weight is None else float(weight.mean())

    def epoch(self, seed: int, epoch: int, done: int = 0) -> Iterator[Shard]:
        """The shards of an epoch but those ``done``, in an order of the seed and the epoch alone.

        So a resumed fit repeats it.
        """
        plan = self._plan(seed, epoch)
        if self._group.size > 1:
            plan = self._shared(plan)
        else:
            largest = max(int(self._sizes[sets].sum()) for sets in plan.members)
            self._rows = max(self._rows, round_up(largest))
        with ThreadPoolExecutor(READERS) as readers:
            ahead: deque[tuple[Future[DeviceData], Batches]] = deque()
            for sets, batches in zip(plan.members[done:], plan.batches[done:], strict=True):
                ahead.append((readers.submit(self._read, sets), batches))
                if len(ahead) > READERS:
                    reading, of_shard = ahead.popleft()
                    yield Shard(reading.result(), of_shard)
            for reading, of_shard in ahead:
                yield Shard(reading.result(), of_shard)

    def _plan(self, seed: int, epoch: int) -> Plan:
        rng = np.random.default_rng([seed, epoch])
        runs = rng.permutation(-(-len(self._train) // SETS_A_RUN)).astype(np.int32)
        order = (runs[:, None] * SETS_A_RUN + np.arange(SETS_A_RUN, dtype=np.int32)).reshape(-1)
        order = order[order < len(self._train)]
        members = np.split(order, np.arange(self._sets_a_shard, len(order), self._sets_a_shard))
        return Plan(members, [self._batches(self._sizes[sets], rng, epoch) for sets in members])

    def _shared(self, plan: Plan) -> Plan:
        """This process's share of the plan; its shapes are those of the largest share of all."""
        members, batches = [], []
        for sets, whole in zip(plan.members, plan.batches, strict=True):
            most = largest_share(whole, self._sizes[sets], self._group.size)
            self._rows = max(self._rows, round_up(most[0]))
            self._sets = max(self._sets, round_up(most[1]))
            mine = share(whole, self._group)
            # Empty places read set 0, at no weight, so there must be one.
            taken = np.unique(np.maximum(mine.sets, 0) if (mine.sets < 0).all() else mine.sets)
            taken = taken[taken >= 0]
            numbers = np.searchsorted(taken, mine.sets).astype(np.int32)
            members.append(sets[taken])
            batches.append(mine._replace(sets=np.where(mine.sets >= 0, numbers, -1)))
        return Plan(members, batches)

    def _batches(
        self, sizes: Int[np.ndarray, " sets"], rng: np.random.Generator, epoch: int
    ) -> Batches:
        place = np.searchsorted(self.widths, sizes)
        buckets = [
            Bucket(width, np.flatnonzero(place == number))
            for number, width in enumerate(self.widths)
        ]
        sets, numbers = shuffled_batches(buckets, self.batch_size, rng, epoch)
        # Idle steps at the end make all shards alike.
        sets, numbers = sets[: self._steps], numbers[: self._steps]
        spare = self._steps - len(sets)
        return Batches(
            np.pad(sets, [(0, spare), (0, 0)], constant_values=-1),
            np.pad(numbers, (0, spare), constant_values=-1),
        )

    def _read(self, sets: Int[np.ndarray, " sets"]) -> DeviceData:
        # Programs are compiled for a shape: room for the largest shard serves all.
        shape = Shape(self._rows, self._sets, self._mean_weight)
        return to_device(self._train.take(sets).encoded(), shape=shape)

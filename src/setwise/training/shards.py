"""Where an epoch's data come from: all of them on the device, or from disk, shard after shard.

An epoch over data that are larger than memory shuffles them in two steps. Short runs of
neighbouring sets are put in random order and dealt into shards of about ``ROWS_PER_SHARD`` rows.
The sets of a shard are then shuffled as data in memory are. While the device trains on a shard, the
next is read and encoded. Data that fit in one shard are read once and kept: they train as data in
memory do, to the same bits.

Models of several tasks train in step: all tasks are at the same bucket at the same step. Orders are
parts of a common one (:func:`setwise.choices.batches.common_order`), so a task has the batches that
it would have alone, in the same order, with gaps where only others have one.

Where several processes train together, the batches of an epoch are those that one process would
have: how many processes there are changes nothing but who computes what. Each batch is put in the
order in which its sets are read and cut into equal parts, so that process p reads about the p-th
part of a shard: the others' sets are not even in the pages that it reads.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from setwise.choices import Bucket, Choices, Encoded, Encoding, bucket, round_up, shuffled_batches
from setwise.choices.batches import common_order, steps_of
from setwise.training.device import DeviceData, DeviceShape, first_sets, to_device
from setwise.training.population_plan import Population, Stream, in_memory
from setwise.training.processes import ALONE, Group


class ShardBatches(NamedTuple):
    """The steps of a stream in a shard: set numbers (-1: none), the bucket of each (-1: idle).

    ``places`` says where each set stands in the whole batch, if these are a process's share.
    """

    sets: Int[np.ndarray, "steps batch"]
    numbers: Int[np.ndarray, " steps"]
    places: Int[np.ndarray, "steps batch"] | None = None


def share(batches: ShardBatches, group: Group) -> ShardBatches:
    """The batches with this process's part of the sets; all processes' parts are equally wide.

    >>> whole = ShardBatches(np.array([[7, 2, 5, 3, 4], [6, 1, -1, -1, -1]]), np.array([0, 0]))
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
    return ShardBatches(
        sets.astype(np.int32), batches.numbers, np.where(mine, places, 0).astype(np.int32)
    )


def largest_share(
    batches: ShardBatches, sizes: Int[np.ndarray, " sets"], processes: int
) -> tuple[int, int]:
    """The most rows, and the most sets, that a process takes of batches of sets of these sizes.

    >>> whole = ShardBatches(np.array([[7, 2, 5, 3, 4], [6, 1, -1, -1, -1]]), np.array([0, 0]))
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


ROWS_PER_SHARD = 2_000_000
SETS_PER_RUN = 1024
# Shards that are read ahead at the same time. One is enough for a CPU, which needs its cores to
# train; a GPU takes a shard in a fraction of the time that reading it takes.
READERS = max(1, min(4, (os.cpu_count() or 1) // 4))


def stays_on_disk(choices: Choices) -> bool:
    """Whether choices are read anew in every epoch: they are on disk, and more than one shard."""
    return choices.on_disk and int(choices.offsets[-1]) > ROWS_PER_SHARD


def resident_or_streamed(data: Encoding) -> Encoded | Encoding:
    """Encoded, if the data are in memory or small; else as they are, to be read as they train."""
    return data if stays_on_disk(data.choices) else data.encoded()


class Shard(NamedTuple):
    """What one call of the compiled epoch trains on."""

    data: DeviceData
    sets: Int[np.ndarray, "streams steps batch"]
    numbers: Int[np.ndarray, " steps"]  # the bucket of each step, -1: idle
    real: Bool[np.ndarray, "streams steps"]  # whether a stream has a batch there
    places: Int[np.ndarray, "streams steps batch"] | None = None  # as in ShardBatches

    @classmethod
    def of_one(cls, data: DeviceData, batches: ShardBatches) -> "Shard":
        """The shard of a stream that trains alone."""
        sets, numbers, places = batches
        real = numbers[None] >= 0
        return cls(data, sets[None], numbers, real, None if places is None else places[None])


@dataclass(frozen=True, eq=False)
class Schedule:
    """The widths of the programs' buckets, and how many batches each task has in each."""

    widths: tuple[int, ...]
    counts: Int[np.ndarray, "tasks buckets"]
    idle: bool  # idle steps round their number up, as alone (shuffled_batches)

    @property
    def gaps(self) -> bool:
        """Whether a task lacks a batch that another has."""
        return bool((self.counts != self.counts[0]).any())

    @property
    def rows(self) -> int:
        """Rows of an epoch for each set of a batch, padding and gaps included."""
        return int(self.counts.max(0) @ np.array(self.widths))

    def epoch(
        self, epoch: int
    ) -> tuple[Int[np.ndarray, " steps"], Bool[np.ndarray, "tasks steps"]]:
        """The bucket of every step (-1: idle), and which tasks have a batch there."""
        numbers, places = common_order(epoch, self.counts.max(0).tolist())
        busy = places < self.counts[:, numbers]
        spare = round_up(len(numbers)) - len(numbers) if self.idle else 0
        return (
            np.pad(numbers, (0, spare), constant_values=-1),
            np.pad(busy, [(0, 0), (0, spare)]),
        )


def in_step(tasks: Sequence[list[Bucket]], batch_size: int) -> Schedule:
    """As many programs as the most buckets of a task; each serves the widest of its buckets.

    Buckets meet by how many are wider, as in the common order.
    """
    most = max(map(len, tasks))
    widths = np.zeros((len(tasks), most), int)
    counts = np.zeros((len(tasks), most), int)
    for place, buckets in enumerate(tasks):
        widths[place, most - len(buckets) :] = [one.width for one in buckets]
        counts[place, most - len(buckets) :] = steps_of(buckets, batch_size)
    return Schedule(tuple(widths.max(0).tolist()), counts, most > 1)


def one_width(tasks: Sequence[list[Bucket]], batch_size: int) -> Schedule:
    """One program, that of the widest bucket, for all batches."""
    counts = [[sum(steps_of(buckets, batch_size))] for buckets in tasks]
    widest = max(buckets[-1].width for buckets in tasks)
    return Schedule((widest,), np.array(counts), max(map(len, tasks)) > 1)


class ResidentTasks:
    """The training sets of some tasks, which stay on the device."""

    def __init__(self, population: Population, tasks: Sequence[int], batch_size: int):
        train = [in_memory(population.tasks[task].train) for task in tasks]
        self.batch_size = batch_size
        self.place = {task: place for place, task in enumerate(tasks)}
        self.data, self.first = to_device(*train), first_sets(*train)
        self.buckets = [population.buckets[task] for task in tasks]


class Resident:
    """Data that stay on the device: an epoch is one shard.

    Where several processes train, each has all the data, and its share of every batch.
    """

    shards = 1

    def __init__(self, tasks: ResidentTasks, schedule: Schedule, group: Group = ALONE):
        self.tasks, self.schedule, self._group = tasks, schedule, group
        self.widths, self.idle, self.gaps = schedule.widths, schedule.idle, schedule.gaps
        self.batch_size = tasks.batch_size

    def epoch(self, streams: Sequence[Stream], epoch: int, done: int = 0) -> Iterator[Shard]:
        """The shards of an epoch but those ``done``, in an order of the seeds and the epoch alone.

        So a resumed fit repeats it.
        """
        if done > 0:
            return
        numbers, busy = self.schedule.epoch(epoch)
        sets = [self._batches(one, epoch, busy) for one in streams]
        if self._group.size > 1:
            mine = share(ShardBatches(sets[0], numbers), self._group)
            yield Shard.of_one(self.tasks.data, mine)
        else:
            real = busy[[self.tasks.place[one.task] for one in streams]]
            yield Shard(self.tasks.data, np.stack(sets), numbers, real)

    def _batches(
        self, stream: Stream, epoch: int, busy: Bool[np.ndarray, "tasks steps"]
    ) -> Int[np.ndarray, "steps batch"]:
        """The sets of a stream's batches: those its members would see alone, with gaps between."""
        tasks, place = self.tasks, self.tasks.place[stream.task]
        rng = np.random.default_rng([stream.seed, epoch])
        sets, numbers = shuffled_batches(tasks.buckets[place], self.batch_size, rng, epoch)
        sets = sets[numbers >= 0]
        found = np.full((busy.shape[1], self.batch_size), -1, np.int32)
        found[busy[place]] = np.where(sets >= 0, sets + tasks.first[place], -1)
        return found


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """Which sets each shard of an epoch has, and their batches, by their place in the shard."""

    members: list[np.ndarray]
    batches: list[ShardBatches]


class Streamed:
    """Data that are read from disk again in every epoch: by each process, its share of them."""

    idle, gaps = True, False

    def __init__(self, train: Encoding, batch_size: int, group: Group = ALONE):
        self._train, self._sizes = train, train.sizes.astype(np.int32)
        self._group = group
        buckets = bucket(self._sizes)
        self.widths = tuple(one.width for one in buckets)
        self.batch_size = min(batch_size, max(len(one.sets) for one in buckets))
        mean = train.rows / len(train)
        steps = max(1, round(ROWS_PER_SHARD / mean / self.batch_size))
        self._sets_a_shard = steps * self.batch_size
        self._steps = steps + len(buckets) - 1  # every bucket may end in a batch that is not full
        self.shards = -(-len(train) // self._sets_a_shard)
        self._rows = 0
        self._sets = self._sets_a_shard if group.size == 1 else 0
        self._mean_weight = 1.0 if train.weight is None else float(train.weight.mean())

    def epoch(self, streams: Sequence[Stream], epoch: int, done: int = 0) -> Iterator[Shard]:
        """As :meth:`Resident.epoch`, of one stream."""
        plan = self._plan(streams[0].seed, epoch)
        if self._group.size > 1:
            plan = self._shared(plan)
        else:
            largest = max(int(self._sizes[sets].sum()) for sets in plan.members)
            self._rows = max(self._rows, round_up(largest))
        with ThreadPoolExecutor(READERS) as readers:
            ahead: deque[tuple[Future[DeviceData], ShardBatches]] = deque()
            for sets, batches in zip(plan.members[done:], plan.batches[done:], strict=True):
                ahead.append((readers.submit(self._read, sets), batches))
                if len(ahead) > READERS:
                    reading, of_shard = ahead.popleft()
                    yield Shard.of_one(reading.result(), of_shard)
            for reading, of_shard in ahead:
                yield Shard.of_one(reading.result(), of_shard)

    def _plan(self, seed: int, epoch: int) -> ShardPlan:
        rng = np.random.default_rng([seed, epoch])
        runs = rng.permutation(-(-len(self._train) // SETS_PER_RUN)).astype(np.int32)
        order = (runs[:, None] * SETS_PER_RUN + np.arange(SETS_PER_RUN, dtype=np.int32)).reshape(-1)
        order = order[order < len(self._train)]
        members = np.split(order, np.arange(self._sets_a_shard, len(order), self._sets_a_shard))
        batches = [self._batches(self._sizes[sets], rng, epoch) for sets in members]
        return ShardPlan(members, batches)

    def _shared(self, plan: ShardPlan) -> ShardPlan:
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
        return ShardPlan(members, batches)

    def _batches(
        self, sizes: Int[np.ndarray, " sets"], rng: np.random.Generator, epoch: int
    ) -> ShardBatches:
        place = np.searchsorted(self.widths, sizes)
        buckets = [
            Bucket(width, np.flatnonzero(place == number))
            for number, width in enumerate(self.widths)
        ]
        sets, numbers = shuffled_batches(buckets, self.batch_size, rng, epoch)
        # Idle steps at the end make all shards alike.
        sets, numbers = sets[: self._steps], numbers[: self._steps]
        spare = self._steps - len(sets)
        return ShardBatches(
            np.pad(sets, [(0, spare), (0, 0)], constant_values=-1),
            np.pad(numbers, (0, spare), constant_values=-1),
        )

    def _read(self, sets: Int[np.ndarray, " sets"]) -> DeviceData:
        # Programs are compiled for a shape: room for the largest shard serves all.
        shape = DeviceShape(self._rows, self._sets, self._mean_weight)
        return to_device(self._train.take(sets).encoded(), shape=shape)

"""When each task's batches come: all tasks of a chunk are at the same bucket at the same step.

Orders are parts of a common one (:func:`setwise.choices.batches.common_order`), so a task has the
batches that it would have alone, in the same order, with gaps where only others have one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from setwise.choices import Bucket, round_up
from setwise.choices.batches import common_order, steps_of


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

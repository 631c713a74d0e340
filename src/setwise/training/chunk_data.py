"""The tasks of a chunk on the device. A smaller chunk goes on with them, and with their shapes."""

from collections.abc import Sequence
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from setwise.choices import round_up, shuffled_batches
from setwise.training.capacity import validation_batch
from setwise.training.device import first_sets, to_device
from setwise.training.members import Layout, Population, Stream
from setwise.training.schedule import in_step, one_width


class ChunkData:
    """Training and validation sets of the tasks of a layout, and the batches of its streams."""

    def __init__(self, population: Population, layout: Layout):
        used = sorted({stream.task for stream in layout.streams})
        tasks = [population.tasks[task] for task in used]
        self._place = {task: place for place, task in enumerate(used)}
        self.train = to_device(*(task.train for task in tasks))
        self.valid = to_device(*(task.valid for task in tasks))
        self._first = first_sets(*(task.train for task in tasks))
        self._first_valid = first_sets(*(task.valid for task in tasks))
        self._valid_counts = np.array([len(task.valid) for task in tasks])
        self.valid_width = round_up(max(int(task.valid.sizes.max()) for task in tasks))
        self._buckets = [population.buckets[task] for task in used]
        self._population = population
        self._member = population.members[layout.members[0]]  # what must be the same is the first's
        self.batch_size = population.batch_size(self._member)
        self.in_step = in_step(self._buckets, self.batch_size)
        self.one_width = one_width(self._buckets, self.batch_size)

    @cached_property
    def bytes_a_row(self) -> float:
        """Intermediate values of one row of a batch, for one model."""
        population = self._population
        recipe = population.recipe(self._member)
        same = [one for one in population.members if population.recipe(one) == recipe]
        widest = max(same, key=population.cost)
        return population.bytes_of_a_step(widest) / population.cost(widest)

    def batches(
        self, stream: Stream, epoch: int, busy: np.ndarray
    ) -> Int[np.ndarray, "steps batch"]:
        """The sets of a stream's batches: those its members would see alone, with gaps between."""
        place = self._place[stream.task]
        rng = np.random.default_rng([stream.seed, epoch])
        sets, numbers = shuffled_batches(self._buckets[place], self.batch_size, rng, epoch)
        sets = sets[numbers >= 0]
        found = np.full((busy.shape[1], self.batch_size), -1, np.int32)
        found[busy[place]] = np.where(sets >= 0, sets + self._first[place], -1)
        return found

    def validation(
        self, streams: Sequence[Stream]
    ) -> tuple[Int[jax.Array, "streams steps batch"], Int[np.ndarray, "streams 1"]]:
        """The validation sets of every stream, in batches, and how many there are."""
        most = int(self._valid_counts.max())
        size = min(validation_batch(self._member.options.batch_size), most)
        steps = -(-most // size)
        places = [self._place[stream.task] for stream in streams]
        sets = np.full((len(streams), steps * size), -1, np.int32)
        for row, place in zip(sets, places, strict=True):
            count = self._valid_counts[place]
            row[:count] = self._first_valid[place] + np.arange(count)
        return jnp.asarray(sets.reshape(len(sets), steps, size)), self._valid_counts[places][
            :, None
        ]

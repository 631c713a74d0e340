"""Who trains together: the members of a population, and how they are packed into chunks."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise.choices import Bucket, Encoded, bucket
from setwise.models import Blueprint, Model, Sizes
from setwise.training.capacity import bytes_of
from setwise.training.options import Options


class Task(NamedTuple):
    """Sets to learn from, and sets to stop on: one split of the data."""

    train: Encoded
    valid: Encoded


@dataclass(frozen=True)
class Member:
    """One model of a population: how it trains, its seed, and the number of its task.

    ``blueprint`` is its recipe where that is not the population's.
    """

    options: Options = field(default_factory=Options)
    seed: int = 0
    task: int = 0
    blueprint: Blueprint | None = None

    def recipe(self, shared: Blueprint) -> Blueprint:
        """What its model is built from, where others have the shared one."""
        return shared if self.blueprint is None else self.blueprint


@dataclass(frozen=True, eq=False)
class Population:
    """A recipe, the tasks, and the members that learn them."""

    blueprint: Blueprint
    sizes: Sizes
    tasks: Sequence[Task]
    members: Sequence[Member]

    @cached_property
    def buckets(self) -> list[list[Bucket]]:
        """The buckets of every task's training sets."""
        return [bucket(task.train.sizes) for task in self.tasks]

    def cost(self, member: Member) -> int:
        """Rows of the padded batches of one step."""
        return self.batch_size(member) * self.buckets[member.task][-1].width

    def batch_size(self, member: Member) -> int:
        """Sets a step, at most all sets of the largest bucket."""
        largest = max(len(one.sets) for one in self.buckets[member.task])
        return min(member.options.batch_size, largest)

    def bytes_of_a_step(self, member: Member) -> int:
        """What the intermediate values of one step of this member take, at most."""
        features = self.features(member.task)
        shape = (self.batch_size(member), self.buckets[member.task][-1].width)
        skeleton = self.recipe(member).skeleton(features, self.sizes)

        def total(model: Model, items: jax.Array, present: jax.Array) -> jax.Array:
            return jax.vmap(model.scores)(items, present).sum()

        return bytes_of(
            eqx.filter_grad(total),
            skeleton,
            jax.ShapeDtypeStruct((*shape, features), jnp.float32),
            jax.ShapeDtypeStruct(shape, jnp.bool_),
        )

    def alike(self, member: Member) -> Hashable:
        """Members of which this is the same can train as one program."""
        train = self.tasks[member.task].train
        widths = train.items.shape[1], train.context.shape[1]
        options = member.options
        return (
            self.recipe(member), self.batch_size(member), options.objective,
            options.decoupled_weight_decay, widths,
        )  # fmt: skip

    def recipe(self, member: Member) -> Blueprint:
        """What the member's model is built from."""
        return member.recipe(self.blueprint)

    def features(self, task: int) -> int:
        """The width of a row, context included."""
        train = self.tasks[task].train
        return train.items.shape[1] + train.context.shape[1]


class Stream(NamedTuple):
    """Members that see the same batches: those of one task and one seed."""

    task: int
    seed: int
    members: tuple[int, ...]


class Layout(NamedTuple):
    """Streams that train as one program, each in so many lanes; spare lanes idle."""

    streams: tuple[Stream, ...]
    lanes: int

    @property
    def members(self) -> list[int]:
        """The numbers of all members, stream after stream."""
        return [number for stream in self.streams for number in stream.members]


def plan(
    members: Sequence[Member],
    alike: Callable[[Member], Hashable],
    limit: int,
    at_least: int = 1,
) -> list[Layout]:
    """Pack members into layouts of at most ``limit`` lanes in all.

    Args:
        members: the population.
        alike: members train together only if this says the same of them.
        limit: the most lanes of a layout.
        at_least: lanes a stream to make room for (within the limit), so that a program compiled
            for many members serves few.

    >>> members = [Member(task=task) for task in (0, 0, 0, 1, 1)]
    >>> for layout in plan(members, lambda member: None, limit=4):
    ...     print(layout.lanes, [stream.members for stream in layout.streams])
    3 [(0, 1, 2)]
    3 [(3, 4)]
    """
    groups: dict[Hashable, dict[tuple[int, int], list[int]]] = defaultdict(dict)
    for number, member in enumerate(members):
        streams = groups[alike(member)]
        streams.setdefault((member.task, member.seed), []).append(number)
    layouts = []
    for streams in groups.values():
        most = max(at_least, *(len(numbers) for numbers in streams.values()))
        rounds = -(-most // limit)
        lanes = -(-most // rounds)
        pieces = [
            Stream(task, seed, tuple(numbers[first : first + lanes]))
            for (task, seed), numbers in streams.items()
            for first in range(0, len(numbers), lanes)
        ]
        chunks = -(-len(pieces) // max(1, limit // lanes))
        together = -(-len(pieces) // chunks)  # evenly, so that all chunks are one program
        layouts += [
            Layout(tuple(pieces[first : first + together]), lanes)
            for first in range(0, len(pieces), together)
        ]
    return layouts

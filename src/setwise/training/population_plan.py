"""Who trains together: the members of a population, and how they are packed into programs.

How many models to train at once: what is fastest on a CPU, what fits on an accelerator.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import jaxprs_in_params

from setwise.choices import Bucket, Encoded, Encoding, bucket
from setwise.models import Blueprint, Model, Sizes
from setwise.training.options import Options
from setwise.training.processes import alone
from setwise.training.slopes import Slopes

# On a CPU a few models share the cost of each operation; more only overflow its caches. Measured:
# `python benchmarks/population_speed.py`, section "Lanes" of benchmarks/RESULTS.md.
LANES_ON_CPU = 8
LANES_ON_ACCELERATOR = 2048
# Trials of one task. On a CPU more at once would not be faster. An accelerator trains 50 in little
# more time than 25, but trials that are proposed together do not learn from each other, and 100
# would come in two batches.
TRIALS_ON_ACCELERATOR = 20
# Sets of a validation batch, in training batches: it keeps no gradients. An accelerator has less to
# launch with more; a CPU's caches hold one (the default SDA: half the time of four).
VALIDATION_BATCHES = 4
# Programs of different recipes that train at the same time on a CPU. Steps of small data keep one
# core busy, and so does compiling: the default SDA on 1,900 sets of 26 items takes three quarters
# of the time. Large data keep all cores busy, and would take their memory twice.
PROGRAMS_AT_ONCE = 2
BYTES_OF_SMALL_DATA = 50_000_000
SHARE_OF_MEMORY = 0.6  # the rest is for data, weights and what else runs

# A program that computes less has to be compiled first. It pays if it spares at least this many
# bytes of intermediate values (as `bytes_of` counts them): what the device computes in the seconds
# that compiling takes. Measured with SDA, Deep Sets and RankNet: 1e12 bytes per second on an H200,
# where a program is compiled in 6 s, used in two rounds, while other processes compute; 1.2e10 on
# two cores of a CPU, where the default SDA's take 4 s.
BYTES_WORTH_COMPILING_ON_CPU = 5e10
BYTES_WORTH_COMPILING = 1e12


def most_lanes() -> int:
    """The most models to train as one program on this device."""
    return LANES_ON_CPU if _on_cpu() else LANES_ON_ACCELERATOR


def validation_batch(batch_size: int) -> int:
    """Sets per validation step, for models that train on ``batch_size`` sets per step."""
    return batch_size if _on_cpu() else VALIDATION_BATCHES * batch_size


def trials_together() -> int:
    """How many trials of a study are best trained at once on this device."""
    return LANES_ON_CPU if _on_cpu() else TRIALS_ON_ACCELERATOR


def lanes_in_memory(bytes_of_one: int) -> int:
    """How many models fit, if the intermediate values of one take so many bytes."""
    return max(1, memory_budget() // max(1, bytes_of_one))


def bytes_of(function: Callable[..., Any], *arguments: Any) -> int:
    """The size of all values that a function computes: more than it needs, by a small factor.

    Arguments may be shapes (``jax.ShapeDtypeStruct``) in place of arrays.

    >>> bytes_of(lambda x: jax.numpy.exp(x) + 1, jax.numpy.zeros(1000))
    8000
    """
    jaxpr, *_ = eqx.filter_make_jaxpr(function)(*arguments)
    return _bytes(jaxpr.jaxpr)


def _bytes(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inner = jaxprs_in_params(equation.params)
        total += max(
            sum(_bytes(getattr(one, "jaxpr", one)) for one in inner),
            sum(out.aval.size * out.aval.dtype.itemsize for out in equation.outvars),
        )
    return total


def memory_budget() -> int:
    """Bytes that a program may use for its intermediate values."""
    stats = None if _on_cpu() else jax.devices()[0].memory_stats()
    if stats is not None and "bytes_limit" in stats:
        return int(SHARE_OF_MEMORY * stats["bytes_limit"])
    return int(SHARE_OF_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def worth_compiling(spared: float) -> bool:
    """Whether it is worth a new program to spare the device so many bytes."""
    return spared > (BYTES_WORTH_COMPILING_ON_CPU if _on_cpu() else BYTES_WORTH_COMPILING)


def rung(most: int, needed: int) -> int:
    """The smallest of a third of the lanes, a ninth and so on, that is enough.

    With few rungs, the programs of one population serve the next.

    >>> [rung(50, needed) for needed in (50, 18, 17, 5, 1)]
    [50, 50, 17, 6, 1]
    """
    while most > 1 and needed <= -(-most // 3):
        most = -(-most // 3)
    return most


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


class Task(NamedTuple):
    """Sets to learn from, and sets to stop on: one split of the data.

    Encoded sets stay on the device. An :class:`~setwise.choices.Encoding` is read from disk again
    in every epoch (:mod:`setwise.training.shards`).
    """

    train: Encoded | Encoding
    valid: Encoded | Encoding

    @property
    def resident(self) -> bool:
        """Whether all sets are in memory."""
        return isinstance(self.train, Encoded) and isinstance(self.valid, Encoded)


def in_memory(sets: Encoded | Encoding) -> Encoded:
    """Sets that are known to be in memory."""
    assert isinstance(sets, Encoded)
    return sets


@dataclass(frozen=True)
class GivenModel:
    """A recipe that is a model with its initial weights, in place of a blueprint."""

    model: Model

    def initial(self, features: int, sizes: Sizes, seed: jax.Array) -> Model:
        """The model, whatever the seed."""
        return self.model

    def skeleton(self, features: int, sizes: Sizes) -> Model:
        """The model."""
        return self.model


Recipe = Blueprint | GivenModel
SomeRecipe = TypeVar("SomeRecipe", Blueprint, Recipe)


@dataclass(frozen=True)
class Member:
    """One model of a population: how it trains, its seed, and the number of its task.

    ``blueprint`` is its recipe where that is not the population's. ``slopes`` are penalised where
    they go the wrong way.
    """

    options: Options = field(default_factory=Options)
    seed: int = 0
    task: int = 0
    blueprint: Blueprint | None = None
    slopes: Slopes | None = None

    def recipe(self, shared: SomeRecipe) -> SomeRecipe | Blueprint:
        """What its model is built from, where others have the shared one."""
        return shared if self.blueprint is None else self.blueprint


@dataclass(frozen=True, eq=False)
class Population:
    """A recipe, the tasks, and the members that learn them."""

    blueprint: Recipe
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
        """Sets per step, at most all sets of the largest bucket."""
        buckets = self.buckets[member.task]
        sets = sum(len(one.sets) for one in buckets)
        return min(member.options.sets_per_step(sets), max(len(one.sets) for one in buckets))

    def bytes_of_a_step(self, member: Member) -> int:
        """What the intermediate values of one step of this member take, at most."""
        features = sum(self.widths(member.task))
        shape = (self.batch_size(member), self.buckets[member.task][-1].width)
        skeleton = member.recipe(self.blueprint).skeleton(features, self.sizes)

        def total(model: Model, items: jax.Array, present: jax.Array) -> jax.Array:
            return jax.vmap(model.scores)(items, present).sum()

        return bytes_of(
            eqx.filter_grad(total),
            skeleton,
            jax.ShapeDtypeStruct((*shape, features), jnp.float32),
            jax.ShapeDtypeStruct(shape, jnp.bool_),
        )

    def work(self, member: Member) -> int:
        """About what a step of this member computes: rows by weights."""
        features = sum(self.widths(member.task))
        skeleton = member.recipe(self.blueprint).skeleton(features, self.sizes)
        return self.cost(member) * sum(leaf.size for leaf in jax.tree.leaves(skeleton))

    def alike(self, member: Member) -> Hashable:
        """Members of which this is the same can train as one program."""
        options = member.options
        return (
            member.recipe(self.blueprint), self.batch_size(member), options.objective,
            options.decoupled_weight_decay, self.widths(member.task), member.slopes,
        )  # fmt: skip

    def widths(self, task: int) -> tuple[int, int]:
        """The numbers of features of an item and of a set; models see rows of both."""
        train = self.tasks[task].train
        if isinstance(train, Encoded):
            return train.items.shape[1], train.context.shape[1]
        items, context = (sum(one.width for one in part) for part in (train.items, train.context))
        return items + train.outside, context


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
        at_least: lanes per stream to make room for (within the limit), so that a program compiled
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
        parts = -(-len(pieces) // max(1, limit // lanes))
        together = -(-len(pieces) // parts)  # evenly, so that all layouts are one program
        layouts += [
            Layout(tuple(pieces[first : first + together]), lanes)
            for first in range(0, len(pieces), together)
        ]
    return layouts


def layouts_at_once(population: Population, layouts: Sequence[Layout]) -> int:
    """How many of these layouts to train at the same time on this device.

    Layouts of one recipe share a program: the second would compile it once more, not wait for it.
    """
    first = [population.members[one.members[0]] for one in layouts]
    recipes = {id(one.recipe(population.blueprint)) for one in first}
    cores = os.cpu_count() or 1
    if not _on_cpu() or not alone() or len(recipes) < len(layouts):
        return 1
    parts = [part for task in population.tasks for part in task]
    sizes = [part.items.nbytes for part in parts if isinstance(part, Encoded)]
    small = len(sizes) == len(parts) and sum(sizes) <= BYTES_OF_SMALL_DATA
    return min(PROGRAMS_AT_ONCE, len(layouts), cores) if small else 1

"""When each task's batches come: all tasks of a chunk are at the same bucket at the same step.

Orders are parts of a common one (:func:`setwise.choices.batches.common_order`), so a task has the
batches that it would have alone, in the same order, with gaps where only others have one.

The tasks of a chunk on the device. A smaller chunk goes on with them, and with their shapes.

One chunk of a population: the members of a layout, trained side by side as one program.

The checkpoint of a chunk: a killed population goes on where it was.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from setwise._arguments import whole
from setwise._errors import InputError
from setwise._tensorfile import made_elsewhere
from setwise.choices import Bucket, round_up, shuffled_batches
from setwise.choices.batches import common_order, steps_of
from setwise.models import Model
from setwise.training import checkpoint, vmapped_epoch
from setwise.training.device import first_sets, to_device
from setwise.training.fitting import Fit
from setwise.training.loop import Hyper, Program, State
from setwise.training.options import Options
from setwise.training.population_plan import (
    Layout,
    Population,
    Stream,
    rung,
    validation_batch,
    worth_compiling,
)
from setwise.training.stopping import Standings
from setwise.training.vmapped_epoch import Batches


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


Prune = Callable[[int, Mapping[int, float]], Collection[int]]
"""From an epoch and the validation losses of the members in training, those that should stop."""

PATIENCES = 4  # training lasts about so many times as long as its patience


@dataclass(frozen=True, eq=False)
class Progress:
    """Everything that changes from epoch to epoch."""

    state: State
    best: Model
    standings: Standings
    history: dict[int, tuple[dict[str, int | float], ...]] = field(default_factory=dict)
    diverged: frozenset[int] = frozenset()

    def at(self, places: tuple[np.ndarray, np.ndarray]) -> "Progress":
        """Of the models at these places (streams, lanes) only."""
        state, best = _taken((self.state, self.best), tuple(map(jnp.asarray, places)))
        standings = self.standings.at(places, self.standings.active[places])
        return Progress(state, best, standings, self.history, self.diverged)


@eqx.filter_jit  # a program of its own, or each weight's copy would be one
def _taken(models: tuple[State, Model], places: tuple[jax.Array, ...]) -> Any:
    arrays, static = eqx.partition(models, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[places], arrays), static)


_train = eqx.filter_jit(vmapped_epoch.train, donate="all-except-first")
_validate = eqx.filter_jit(vmapped_epoch.validate)
_keep_best = eqx.filter_jit(vmapped_epoch.keep_best)


class Chunk:
    """The members of one layout and their data on the device."""

    def __init__(self, population: Population, layout: Layout, data: ChunkData | None = None):
        self.population, self.layout = population, layout
        self.numbers = _numbers(layout)
        self.real = np.arange(layout.lanes) < np.array(
            [[len(stream.members)] for stream in layout.streams]
        )
        self._data = data or ChunkData(population, layout)
        self._valid_sets, self._valid_counts = self._data.validation(layout.streams)
        self._set_up_options()
        self._schedule = self._cheapest_schedule()
        first = self._options[0][0]
        self._program = Program(
            first.objective,
            self._schedule.widths,
            first.decoupled_weight_decay,
            self._schedule.idle,
            self._schedule.gaps,
        )
        self._compiling: threading.Thread | None = None

    def start(self) -> Progress:
        """Before the first epoch."""
        population = self.population
        recipe = population.recipe(population.members[self.layout.members[0]])  # that of all
        models = [
            recipe.initial(
                population.features(stream.task), population.sizes, jnp.uint32(stream.seed)
            )
            for stream in self.layout.streams
        ]
        state = vmapped_epoch.start(models, self.layout.lanes)
        best = vmapped_epoch.copied(state.model)
        self._compile_validation(best)
        return Progress(state, best, Standings.start(self.real))

    def after(self, progress: Progress, prune: Prune | None = None) -> Progress:
        """Train one epoch, validate, and stop who should stop."""
        epoch = progress.standings.epoch + 1
        inputs = (self._data.train, self._batches(epoch), self._hyper(epoch))
        state, losses = _train(inputs, progress.state, self._program)
        if self._compiling is not None:
            self._compiling.join()
        nll, accuracy = self._validate(state.model)
        loss = np.asarray(losses, np.float64)
        watched = np.where(self._on_accuracy, -accuracy, nll)
        # Weights that are no numbers have no accuracy either.
        watched = np.where(np.isfinite(loss) & ~np.isnan(nll), watched, np.nan)
        standings = progress.standings.observe(watched, self._patience, self._epochs)
        best = _keep_best(progress.best, state.model, jnp.asarray(standings.improved))
        ended = progress.standings.active & np.isnan(watched)
        diverged = progress.diverged | set(self.numbers[ended].tolist())
        measured = {"loss": loss, "nll": nll, "accuracy": accuracy, "best": np.abs(standings.best)}
        history = self._recorded(progress, epoch, measured)
        if prune is not None and standings.active.any():
            active = standings.active
            values = zip(self.numbers[active].tolist(), watched[active].tolist(), strict=True)
            stopped = prune(epoch, dict(values))
            standings = standings.without(np.isin(self.numbers, list(stopped)))
        return Progress(state, best, standings, history, diverged)

    def _recorded(
        self, progress: Progress, epoch: int, measured: Mapping[str, np.ndarray]
    ) -> dict[int, tuple[dict[str, int | float], ...]]:
        """The history with one more record of every member that was training."""
        history = dict(progress.history)
        for place in zip(*np.nonzero(progress.standings.active), strict=True):
            number = int(self.numbers[place])
            record: dict[str, int | float] = {"epoch": epoch}
            record |= {name: float(values[place]) for name, values in measured.items()}
            history[number] = (*history.get(number, ()), record)
        return history

    def fits(self, progress: Progress, interrupted: bool = False) -> dict[int, Fit]:
        """What became of each member, with its best weights."""
        arrays, static = eqx.partition(progress.best, eqx.is_array)
        arrays = jax.device_get(arrays)
        fits = {}
        for place in zip(*np.nonzero(self.real), strict=True):
            number = int(self.numbers[place])
            model = eqx.combine(jax.tree.map(lambda leaf, at=place: leaf[at], arrays), static)
            fits[number] = Fit(
                model,
                progress.history.get(number, ()),
                int(progress.standings.best_epoch[place]),
                interrupted and bool(progress.standings.active[place]),
                number in progress.diverged,
            )
        return fits

    def compacted(self, progress: Progress) -> "tuple[Chunk, Progress] | None":
        """The same in fewer lanes, if those still training find room there.

        How long they will train nobody knows. A smaller program is compiled when lanes of members
        that stopped have cost as much as that does: at most twice what foresight would have cost.
        """
        active = progress.standings.active
        streams = rung(len(active), int(active.any(1).sum()))
        lanes = rung(active.shape[1], int(active.sum(1).max()))
        lost = self._epochs_lost(progress) * self._bytes_an_epoch(self._schedule)
        if streams * lanes == active.size or not worth_compiling(lost):
            return None
        # Those still training come first; others, and then spare lanes, fill up.
        rows = np.sort(np.argsort(~active.any(1), kind="stable")[:streams])
        best = np.argsort(-(active.astype(int) + self.real), 1, kind="stable")[:, :lanes]
        at = (rows[:, None], best[rows])
        kept = tuple(
            self.layout.streams[row]._replace(members=tuple(numbers[real].tolist()))
            for row, numbers, real in zip(rows, self.numbers[at], self.real[at], strict=True)
        )
        chunk = Chunk(self.population, Layout(kept, lanes), self._data)
        smaller = progress.at(at)
        chunk._compile_validation(smaller.best)
        return chunk, smaller

    def _epochs_lost(self, progress: Progress) -> int:
        """What lanes of members that stopped have been trained for nothing, in epochs."""
        stopped = self.numbers[self.real & ~progress.standings.active].tolist()
        epochs = progress.standings.epoch + 1
        return sum(epochs - len(progress.history[number]) for number in stopped)

    def _cheapest_schedule(self) -> Schedule:
        """Narrow programs for narrow buckets, if they are worth compiling.

        It depends on shapes alone, so that the next chunk like this is the same program.
        """
        narrow, wide = self._data.in_step, self._data.one_width
        if len(narrow.counts) == 1 or len(narrow.widths) == 1:
            return narrow  # as alone
        spared = self._bytes_an_epoch(wide) - self._bytes_an_epoch(narrow)
        epochs = min(int(self._epochs.max()), PATIENCES * int(self._patience.max()))
        each = self.numbers.size * epochs * spared / (len(narrow.widths) - 1)
        return narrow if worth_compiling(each) else wide

    def _bytes_an_epoch(self, schedule: Schedule) -> float:
        """Intermediate values of one lane."""
        return self._data.bytes_a_row * self._data.batch_size * schedule.rows

    def _compile_validation(self, model: Model) -> None:
        # Both programs compile at the same time: this one here, the other in the next epoch.
        self._compiling = threading.Thread(target=self._validate, args=(model,))
        self._compiling.start()

    def _set_up_options(self) -> None:
        """The members' options as arrays; what must be the same is the first member's."""
        options = [[self.population.members[n].options for n in row] for row in self.numbers]
        self._options = options
        self._patience = np.array([[one.patience for one in row] for row in options])
        self._epochs = np.array([[one.epochs for one in row] for row in options])
        self._on_accuracy = np.array(
            [[one.stop_on == "accuracy" for one in row] for row in options]
        )
        self._drops = any(one.dropout > 0 for row in options for one in row)

    def _batches(self, epoch: int) -> Batches:
        """Every stream's batches of this epoch."""
        streams = self.layout.streams
        numbers, busy = self._schedule.epoch(epoch)
        keys = [jax.random.fold_in(jax.random.key(stream.seed), epoch) for stream in streams]
        return Batches(
            jnp.asarray(np.stack([self._data.batches(one, epoch, busy) for one in streams])),
            jnp.stack(keys),
            jnp.asarray(numbers),
        )

    def _hyper(self, epoch: int) -> Hyper:
        def array(read: Callable[[Options], float]) -> jax.Array:
            return jnp.asarray([[read(one) for one in row] for row in self._options], jnp.float32)

        keep = array(lambda one: 1 - one.dropout) if self._drops else None
        return Hyper(array(lambda one: one.rate(epoch)), array(lambda one: one.weight_decay), keep)

    def _validate(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        sums = _validate(model, self._data.valid, self._valid_sets, self._data.valid_width)
        nll, accuracy = (np.asarray(one, np.float64).sum(-1) / self._valid_counts for one in sums)
        return nll, accuracy


def _numbers(layout: Layout) -> Int[np.ndarray, "streams lanes"]:
    """The member of every lane; spare lanes repeat the stream's first."""
    rows = [
        [*stream.members, *[stream.members[0]] * (layout.lanes - len(stream.members))]
        for stream in layout.streams
    ]
    return np.array(rows)


class Keeper:
    """Writes the progress of one chunk to a file every few seconds, and reads it back."""

    def __init__(self, chunk: Chunk, start: Progress, path: Path):
        members = chunk.population.members
        settings = [[asdict(members[n].options), members[n].seed] for n in chunk.layout.members]
        tasks = [chunk.population.tasks[stream.task] for stream in chunk.layout.streams]
        data = [part for task in tasks for part in task]
        self._mark = checkpoint.fingerprint(start.state.model, data, settings)
        self._path = path
        self._saved = time.monotonic()

    def resume(self, start: Progress) -> Progress:
        """The progress kept in the file, or ``start`` if there is none yet."""
        kept = checkpoint.read(self._path, (start.state, start.best), self._mark)
        if kept is None:
            return start
        (state, best), meta = kept
        with made_elsewhere(self._path, "state"):
            whole(-1)("epoch", meta["epoch"])
            standings = Standings(**self._standings(meta, start), epoch=meta["epoch"])
            history = {int(number): tuple(records) for number, records in meta["history"].items()}
            return Progress(state, best, standings, history, frozenset(meta["diverged"]))

    def _standings(self, meta: dict[str, Any], start: Progress) -> dict[str, np.ndarray]:
        """How each member stands: as many numbers, and of the types, as at the start."""
        found = {}
        for name in ("best", "best_epoch", "active", "improved"):
            at_first = getattr(start.standings, name)
            found[name] = np.array(meta[name])
            if (found[name].shape, found[name].dtype) != (at_first.shape, at_first.dtype):
                raise InputError(f"'{name}' is not of the members that train")
        return found

    def save(self, progress: Progress) -> None:
        """Write the file if the last time is long ago, or nothing more will come."""
        over = not progress.standings.active.any()
        if not over and time.monotonic() - self._saved < checkpoint.SECONDS_BETWEEN_CHECKPOINTS:
            return
        standings = progress.standings
        meta = {
            "best": standings.best.tolist(),
            "best_epoch": standings.best_epoch.tolist(),
            "active": standings.active.tolist(),
            "improved": standings.improved.tolist(),
            "epoch": standings.epoch,
            "history": progress.history,
            "diverged": sorted(progress.diverged),
        }
        checkpoint.write(self._path, (progress.state, progress.best), meta, self._mark)
        self._saved = time.monotonic()

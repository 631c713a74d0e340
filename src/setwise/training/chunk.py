"""One chunk of a population: the members of a layout, trained side by side as one program."""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from setwise.choices import round_up, shuffled_batches
from setwise.models import Model
from setwise.training import lanes
from setwise.training.capacity import worth_compiling
from setwise.training.device import first_sets, to_device
from setwise.training.fitting import Fit
from setwise.training.lanes import Batches, Program
from setwise.training.loop import Hyper, State
from setwise.training.members import Layout, Population, Stream, Task
from setwise.training.options import Training
from setwise.training.stopping import Standings

Prune = Callable[[int, Mapping[int, float]], Collection[int]]
"""From an epoch and the validation losses of the members in training, those that should stop."""

VALIDATION_BATCHES = 4  # sets a validation batch, in training batches: it keeps no gradients


@dataclass(frozen=True, eq=False)
class Progress:
    """Everything that changes from epoch to epoch."""

    state: State
    best: Model
    standings: Standings
    history: dict[int, tuple[dict[str, int | float], ...]] = field(default_factory=dict)
    diverged: frozenset[int] = frozenset()

    def at(self, places: tuple[np.ndarray, np.ndarray], real: np.ndarray) -> "Progress":
        """Of the models at these places (streams, lanes) only; of those, ``real`` ones train."""
        arrays, static = eqx.partition((self.state, self.best), eqx.is_array)
        state, best = eqx.combine(jax.tree.map(lambda leaf: leaf[places], arrays), static)
        return Progress(state, best, self.standings.at(places, real), self.history, self.diverged)


_train = eqx.filter_jit(lanes.train, donate="all-except-first")
_validate = eqx.filter_jit(lanes.validate)
_keep_best = eqx.filter_jit(lanes.keep_best)


class Chunk:
    """The members of one layout and their data on the device."""

    def __init__(self, population: Population, layout: Layout):
        self.population, self.layout = population, layout
        self.numbers = _numbers(layout)
        self.real = np.arange(layout.lanes) < np.array(
            [[len(stream.members)] for stream in layout.streams]
        )
        used = sorted({stream.task for stream in layout.streams})
        tasks = [population.tasks[task] for task in used]
        self._place = {task: place for place, task in enumerate(used)}
        self._train = to_device(*(task.train for task in tasks))
        self._first = first_sets(*(task.train for task in tasks))
        self._buckets = [population.buckets[task] for task in used]
        self._valid = to_device(*(task.valid for task in tasks))
        self._set_up_validation(tasks)
        self._set_up_options()
        self._compiling: threading.Thread | None = None

    def start(self) -> Progress:
        """Before the first epoch."""
        population = self.population
        models = [
            population.blueprint.initial(
                population.features(stream.task), population.sizes, jnp.uint32(stream.seed)
            )
            for stream in self.layout.streams
        ]
        state = lanes.start(models, self.layout.lanes)
        best = lanes.copied(state.model)
        # Both programs compile at the same time: this one here, the other in the first epoch.
        self._compiling = threading.Thread(target=self._validate, args=(best,))
        self._compiling.start()
        return Progress(state, best, Standings.start(self.real))

    def after(self, progress: Progress, prune: Prune | None = None) -> Progress:
        """Train one epoch, validate, and stop who should stop."""
        epoch = progress.standings.epoch + 1
        inputs = (self._train, self._batches(epoch), self._hyper(epoch))
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
        """The same with the members still training only, if sparing the others is worth it."""
        active = progress.standings.active
        chosen = [(row, np.flatnonzero(lanes)) for row, lanes in enumerate(active) if lanes.any()]
        lanes = max(len(places) for _, places in chosen)
        left = int((self._epochs - 1 - progress.standings.epoch)[active].max())
        rows = np.mean(
            [len(self.population.tasks[s.task].train.items) for s in self.layout.streams]
        )
        spared = active.size - len(chosen) * lanes
        if 2 * spared < active.size or not worth_compiling(float(rows * spared * left)):
            return None
        streams = [
            self.layout.streams[row]._replace(members=tuple(self.numbers[row, places].tolist()))
            for row, places in chosen
        ]
        at = (
            np.array([[row] for row, _ in chosen]),
            np.stack([np.resize(places, lanes) for _, places in chosen]),
        )
        chunk = Chunk(self.population, Layout(tuple(streams), lanes))
        return chunk, progress.at(at, chunk.real)

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
        first = self.population.members[self.layout.members[0]]
        self._batch_size = self.population.batch_size(first)
        widths = [tuple(one.width for one in buckets) for buckets in self._buckets]
        alone = len(self.layout.streams) == 1
        steps = {sum(-(-len(b.sets) // self._batch_size) for b in one) for one in self._buckets}
        self._program = Program(
            first.options.objective,
            widths[0] if alone else (max(map(max, widths)),),
            idle=not alone and (len(steps) > 1 or max(map(len, widths)) > 1),
        )

    def _set_up_validation(self, tasks: list[Task]) -> None:
        size = (
            VALIDATION_BATCHES * self.population.members[self.layout.members[0]].options.batch_size
        )
        counts = [len(task.valid) for task in tasks]
        size = min(size, max(counts))
        steps = -(-max(counts) // size)
        firsts = first_sets(*(task.valid for task in tasks))
        sets = np.full((len(self.layout.streams), steps * size), -1, np.int32)
        for row, stream in zip(sets, self.layout.streams, strict=True):
            place = self._place[stream.task]
            row[: counts[place]] = firsts[place] + np.arange(counts[place])
        self._valid_sets = jnp.asarray(sets.reshape(len(sets), steps, size))
        self._valid_counts = np.array([[counts[self._place[s.task]]] for s in self.layout.streams])
        self._valid_width = round_up(max(int(task.valid.sizes.max()) for task in tasks))

    def _batches(self, epoch: int) -> Batches:
        """Every stream's batches of this epoch: those that its members would see alone."""
        sets, numbers = zip(
            *(self._shuffled(stream, epoch) for stream in self.layout.streams), strict=True
        )
        steps = max(map(len, numbers))
        alone = len(self.layout.streams) == 1
        keys = [
            jax.random.fold_in(jax.random.key(stream.seed), epoch) for stream in self.layout.streams
        ]
        return Batches(
            jnp.asarray(np.stack([_filled(one, steps) for one in sets])),
            jnp.asarray(
                np.stack([_filled(one if alone else np.minimum(one, 0), steps) for one in numbers])
            ),
            jnp.stack(keys),
        )

    def _shuffled(self, stream: Stream, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        place = self._place[stream.task]
        rng = np.random.default_rng([stream.seed, epoch])
        sets, numbers = shuffled_batches(self._buckets[place], self._batch_size, rng)
        return np.where(sets >= 0, sets + self._first[place], -1).astype(np.int32), numbers

    def _hyper(self, epoch: int) -> Hyper:
        def array(read: Callable[[Training], float]) -> jax.Array:
            return jnp.asarray([[read(one) for one in row] for row in self._options], jnp.float32)

        keep = array(lambda one: 1 - one.dropout) if self._drops else None
        return Hyper(array(lambda one: one.rate(epoch)), array(lambda one: one.weight_decay), keep)

    def _validate(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        sums = _validate(model, self._valid, self._valid_sets, self._valid_width)
        nll, accuracy = (np.asarray(one, np.float64).sum(-1) / self._valid_counts for one in sums)
        return nll, accuracy


def _numbers(layout: Layout) -> Int[np.ndarray, "streams lanes"]:
    """The member of every lane; spare lanes repeat the stream's first."""
    rows = [
        [*stream.members, *[stream.members[0]] * (layout.lanes - len(stream.members))]
        for stream in layout.streams
    ]
    return np.array(rows)


def _filled(values: Int[np.ndarray, "steps ..."], steps: int) -> Int[np.ndarray, "filled ..."]:
    """With idle steps up to so many."""
    spare = [(0, steps - len(values))] + [(0, 0)] * (values.ndim - 1)
    return np.pad(values, spare, constant_values=-1)

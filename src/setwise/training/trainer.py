"""The trainer: models that train side by side as one program, epoch after epoch.

It is the same for one model and for many, and for data in memory and on disk; a source
(:mod:`setwise.training.shards`) says what an epoch consists of.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise.choices import Encoded
from setwise.models import Model
from setwise.training import checkpoint, epoch
from setwise.training.checkpoint import CheckpointFile
from setwise.training.epoch import EpochBatches, EpochProgram, Hyper, State
from setwise.training.evaluation import Validation
from setwise.training.options import Options
from setwise.training.population_plan import Layout, Population, rung, worth_compiling
from setwise.training.processes import Group
from setwise.training.shards import (
    Resident,
    ResidentTasks,
    Schedule,
    Shard,
    Streamed,
    in_step,
    one_width,
)
from setwise.training.stopping import Fit, TrainingProgress

Prune = Callable[[int, Mapping[int, float]], Collection[int]]
"""From an epoch and the validation losses of the members in training, those that should stop."""

OnProgress = Callable[[TrainingProgress], None]

OnShard = Callable[[int, int, int], None]
"""Called after every shard of an epoch with the epoch, the shards done, and how many there are."""

PATIENCES = 4  # training lasts about so many times as long as its patience


class Trainer:
    """The members of one layout and their data.

    Args:
        population: the members, how they train, and on what.
        layout: those that train here.
        larger: what trained them before, if some have finished: its data stay on the device.

    Where JAX runs on several processes, all train one member together
    (:mod:`setwise.training.processes`).
    """

    def __init__(self, population: Population, layout: Layout, larger: "Trainer | None" = None):
        self.population, self.layout, self.group = population, layout, Group.current()
        self.numbers = lane_members(layout)
        self.real = np.arange(layout.lanes) < np.array(
            [[len(stream.members)] for stream in layout.streams]
        )
        self._options = [[population.members[n].options for n in row] for row in self.numbers]
        self._patience = self._of_lanes(lambda one: one.patience)
        self._epochs = self._of_lanes(lambda one: one.epochs)
        self._on_accuracy = self._of_lanes(lambda one: one.stop_on == "accuracy")
        self._weight_decay = self._on_device(lambda one: one.weight_decay)
        dropped = self._of_lanes(lambda one: one.dropout).any()
        self._keep = self._on_device(lambda one: 1 - one.dropout) if dropped else None
        self._seeds = np.array([one.seed for one in layout.streams], np.uint32)
        first = self._options[0][0]  # what must be the same is the first member's
        used = sorted({one.task for one in layout.streams}) if larger is None else larger._used
        self._used: list[int] = used
        places = [used.index(stream.task) for stream in layout.streams]
        train = population.tasks[used[0]].train
        self._source: Resident | Streamed
        if isinstance(train, Encoded):
            self._source = self._resident(larger)
        else:
            self._source = Streamed(train, first.batch_size, self.group)
        if larger is None:
            valid = [population.tasks[task].valid for task in used]
            many = None if self.numbers.size == 1 else first.batch_size
            self._validation = Validation(valid, places, many, self.group)
        else:
            self._validation = larger._validation.of_streams(places)
        self._program = EpochProgram(
            first.objective, self._source.widths, first.decoupled_weight_decay, self._source.idle,
            self._source.gaps, self._source.batch_size if self.group.size > 1 else None,
            population.members[layout.members[0]].slopes,
        )  # fmt: skip
        self._compiling: threading.Thread | None = None

    def start(self) -> TrainingProgress:
        """Before the first epoch."""
        population = self.population
        first = population.members[self.layout.members[0]]
        recipe = first.recipe(population.blueprint)  # that of all
        seeds = jax.device_put([*self._seeds])
        models = [
            recipe.initial(sum(population.widths(stream.task)), population.sizes, seed)
            for stream, seed in zip(self.layout.streams, seeds, strict=True)
        ]
        state = epoch.start(models, self.layout.lanes)
        best = epoch.copied(state.model)
        self._compile_validation(best)
        return TrainingProgress.start(state, best, self.real)

    def after(
        self,
        progress: TrainingProgress,
        prune: Prune | None = None,
        after_shard: OnProgress | None = None,
    ) -> TrainingProgress:
        """Train one epoch (or what is left of it), validate, and stop who should stop."""
        number = progress.stopping.epoch + 1
        for shard in self._source.epoch(self.layout.streams, number, progress.shards):
            progress = self._trained(progress, shard, number)
            loss = progress.losses / progress.steps
            if not np.isfinite(loss[progress.stopping.active]).any():
                break  # a long epoch on disk need not end before it is said
            if self._source.shards > 1 and after_shard is not None:
                after_shard(progress)
        return self._validated(progress, prune)

    @property
    def shards(self) -> int:
        """How many shards an epoch has."""
        return self._source.shards

    def _trained(self, progress: TrainingProgress, shard: Shard, number: int) -> TrainingProgress:
        """The progress after a shard of an epoch."""
        data, sets, numbers, real, places = shard
        # Steps fold their number into the streams' keys of dropout, from 0; shards from the top.
        fold = [number] if progress.shards == 0 else [number, 2**32 - progress.shards]
        keys = epoch.noise_keys(self._seeds, np.array(fold, np.uint32))
        rate = self._on_device(lambda one: one.rate(number))
        hyper = Hyper(rate, self._weight_decay, self._keep)
        state: State
        if places is None:
            batches = EpochBatches(jax.device_put(sets), keys, jax.device_put(numbers))
            inputs = (data, batches, hyper)
            state, losses = epoch.run_epoch(inputs, progress.state, self._program)
        else:
            group = self.group
            batches = EpochBatches(
                group.split(sets, 2), group.same(jax.random.key_data(keys)), group.same(numbers),
                group.split(places, 2),
            )  # fmt: skip
            inputs = (group.split(data), batches, group.same(hyper))
            state, losses = group.local(
                epoch.run_epoch_together(
                    inputs, group.same(progress.state), self._program, group.mesh
                )
            )
        each = np.where(real[:, None], np.asarray(losses, np.float64), 0)
        return replace(
            progress, state=state, shards=progress.shards + 1,
            losses=progress.losses + each.sum(-1),
            steps=progress.steps + real.sum(-1, keepdims=True),
        )  # fmt: skip

    def _validated(self, progress: TrainingProgress, prune: Prune | None) -> TrainingProgress:
        """The progress at the end of an epoch: its records, and the best models so far."""
        number, active = progress.stopping.epoch + 1, progress.stopping.active
        loss = progress.losses / progress.steps
        if self._compiling is not None:
            self._compiling.join()
        nll = accuracy = np.full(loss.shape, np.nan)
        if np.isfinite(loss[active]).any():
            nll, accuracy = self._validation(progress.state.model)
        watched = np.where(self._on_accuracy, -accuracy, nll)
        watched = np.where(np.isfinite(loss), watched, np.nan)
        stopping = progress.stopping.observe(watched, self._patience, self._epochs)
        best = progress.best
        if stopping.improved.any():
            improved = jax.device_put(stopping.improved)
            best = epoch.keep_best(best, progress.state.model, improved)
        measured = {"loss": loss, "nll": nll, "accuracy": accuracy, "best": np.abs(stopping.best)}
        history = dict(progress.history)
        for place in zip(*np.nonzero(active), strict=True):
            member = int(self.numbers[place])
            record: dict[str, int | float] = {"epoch": number}
            record |= {name: float(values[place]) for name, values in measured.items()}
            history[member] = (*history.get(member, ()), record)
        if prune is not None and stopping.active.any():
            left = stopping.active
            values = zip(self.numbers[left].tolist(), watched[left].tolist(), strict=True)
            stopped = prune(number, dict(values))
            stopping = stopping.without(np.isin(self.numbers, list(stopped)))
        return replace(
            TrainingProgress.start(progress.state, best, self.real), stopping=stopping,
            history=history,
            diverged=progress.diverged | set(self.numbers[active & np.isnan(watched)].tolist()),
        )  # fmt: skip

    def fits(self, progress: TrainingProgress, interrupted: bool = False) -> dict[int, Fit]:
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
                int(progress.stopping.best_epoch[place]),
                interrupted and bool(progress.stopping.active[place]),
                number in progress.diverged,
            )
        return fits

    def compacted(self, progress: TrainingProgress) -> "tuple[Trainer, TrainingProgress] | None":
        """The same in fewer lanes, if those still training find room there.

        How long they will train nobody knows. A smaller program is compiled when lanes of members
        that stopped have cost as much as that does: at most twice what foresight would have cost.
        """
        active = progress.stopping.active
        streams = rung(len(active), int(active.any(1).sum()))
        lanes = rung(active.shape[1], int(active.sum(1).max()))
        if streams * lanes == active.size or not isinstance(self._source, Resident):
            return None
        lost = self._epochs_lost(progress) * self._bytes_per_epoch(self._source.schedule)
        if not worth_compiling(lost):
            return None
        # Those still training come first; others, and then spare lanes, fill up.
        rows = np.sort(np.argsort(~active.any(1), kind="stable")[:streams])
        best = np.argsort(-(active.astype(int) + self.real), 1, kind="stable")[:, :lanes]
        at = (rows[:, None], best[rows])
        kept = tuple(
            self.layout.streams[row]._replace(members=tuple(numbers[real].tolist()))
            for row, numbers, real in zip(rows, self.numbers[at], self.real[at], strict=True)
        )
        trainer = Trainer(self.population, Layout(kept, lanes), larger=self)
        smaller = progress.at(at)
        trainer._compile_validation(smaller.best)
        return trainer, smaller

    def checkpoint(self, path: Path, start: TrainingProgress) -> CheckpointFile:
        """The file that keeps the progress of these members."""
        members, tasks = self.population.members, self.population.tasks
        some = [members[n] for n in self.layout.members]
        settings = [
            [asdict(one.options), one.seed, *([one.slopes] if one.slopes else [])] for one in some
        ]
        data = [part for stream in self.layout.streams for part in tasks[stream.task]]
        return CheckpointFile(path, checkpoint.fingerprint(start.state.model, data, settings))

    def _resident(self, larger: "Trainer | None") -> Resident:
        """The source of sets in memory, with narrow programs for narrow buckets.

        With several tasks, narrow programs are used only if they are worth compiling. It depends on
        shapes alone, so that the next layout like this is the same program.
        """
        if larger is not None and isinstance(larger._source, Resident):
            tasks = larger._source.tasks
        else:
            size = self.population.batch_size(self.population.members[self.layout.members[0]])
            tasks = ResidentTasks(self.population, self._used, size)
        narrow = in_step(tasks.buckets, tasks.batch_size)
        if len(narrow.counts) == 1 or len(narrow.widths) == 1:
            return Resident(tasks, narrow, self.group)  # as alone
        wide = one_width(tasks.buckets, tasks.batch_size)
        spared = self._bytes_per_epoch(wide) - self._bytes_per_epoch(narrow)
        epochs = min(int(self._epochs.max()), PATIENCES * int(self._patience.max()))
        each = self.numbers.size * epochs * spared / (len(narrow.widths) - 1)
        return Resident(tasks, narrow if worth_compiling(each) else wide, self.group)

    def _compile_validation(self, model: Model) -> None:
        # Both programs compile at the same time: this one here, the other in the next epoch.
        if self._validation.resident and self.group.size == 1:
            self._compiling = threading.Thread(target=self._validation, args=(model,))
            self._compiling.start()

    def _epochs_lost(self, progress: TrainingProgress) -> int:
        """What lanes of members that stopped have been trained for nothing, in epochs."""
        stopped = self.numbers[self.real & ~progress.stopping.active].tolist()
        epochs = progress.stopping.epoch + 1
        return sum(epochs - len(progress.history[number]) for number in stopped)

    def _bytes_per_epoch(self, schedule: Schedule) -> float:
        """Intermediate values of one lane."""
        member = self.population.members[self.layout.members[0]]
        return self._bytes_per_row * self.population.batch_size(member) * schedule.rows

    @cached_property
    def _bytes_per_row(self) -> float:
        """Intermediate values of one row of a batch, for one model."""
        population, shared = self.population, self.population.blueprint
        recipe = population.members[self.layout.members[0]].recipe(shared)
        same = [one for one in population.members if one.recipe(shared) == recipe]
        widest = max(same, key=population.cost)
        return population.bytes_of_a_step(widest) / population.cost(widest)

    def _of_lanes(self, read: Callable[[Options], float]) -> Shaped[np.ndarray, "streams lanes"]:
        return np.array([[read(one) for one in row] for row in self._options])

    def _on_device(self, read: Callable[[Options], float]) -> Float[jax.Array, "streams lanes"]:
        return jax.device_put(self._of_lanes(read).astype(np.float32))


def lane_members(layout: Layout) -> Int[np.ndarray, "streams lanes"]:
    """The member of every lane; spare lanes repeat the stream's first."""
    rows = [
        [*stream.members, *[stream.members[0]] * (layout.lanes - len(stream.members))]
        for stream in layout.streams
    ]
    return np.array(rows)


def train_members(
    trainer: Trainer,
    prune: Prune | None = None,
    on_epoch: OnProgress | None = None,
    on_shard: OnShard | None = None,
    path: Path | None = None,
) -> dict[int, Fit]:
    """Train until validation stops improving; the fits of all members, by their numbers.

    With a path, the progress is kept there, and a killed call goes on from it. In a group the first
    process keeps it, and any number of processes goes on. Ctrl-C ends training early if every
    member has a model.
    """
    start = trainer.start()
    fits: dict[int, Fit] = {}
    kept: CheckpointFile | None = None

    def begin() -> TrainingProgress:
        nonlocal kept
        if path is None:
            return start
        kept = trainer.checkpoint(path, start)
        return kept.resume(start)

    def after_shard(partial: TrainingProgress) -> None:
        if kept is not None:
            kept.save_if_due(partial)
        if on_shard is not None:
            on_shard(partial.stopping.epoch + 1, partial.shards, trainer.shards)

    group = trainer.group
    progress = begin() if group.size == 1 else checkpoint.of_first(group, start, begin)
    try:
        while progress.stopping.active.any():
            smaller = trainer.compacted(progress) if path is None else None
            if smaller is not None:
                fits |= trainer.fits(progress)
                trainer, progress = smaller
            progress = trainer.after(progress, prune, after_shard)
            if on_epoch is not None:
                on_epoch(progress)
            if kept is not None:
                kept.save_if_due(progress)
    except KeyboardInterrupt:
        without = (progress.stopping.best_epoch < 0)[trainer.real]
        if without.any() or trainer.group.size > 1:  # the other processes would wait for ever
            raise
        return fits | trainer.fits(progress, interrupted=True)
    return fits | trainer.fits(progress)

"""The host's part of training: epochs, early stopping, progress, checkpoints, Ctrl-C."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from setwise._errors import InputError
from setwise.choices import Encoded, Encoding
from setwise.models import Model
from setwise.training import checkpoint, loop
from setwise.training.checkpoint import Progress
from setwise.training.evaluation import Validation
from setwise.training.options import Options
from setwise.training.processes import Group
from setwise.training.shards import Resident, Shard, Streamed

OnEpoch = Callable[[Mapping[str, int | float]], None]
"""Called after every epoch with its record: epoch, loss, nll, accuracy and best (so far)."""

OnShard = Callable[[int, int, int], None]
"""Called after every shard of an epoch with the epoch, the shards done, and how many there are."""


@dataclass(frozen=True)
class Fit:
    """What training gives: the best model, what happened, and how it ended.

    ``interrupted``: Ctrl-C ended it; ``diverged``: its loss was not a number (in populations, where
    one bad member must not end the others; alone, that is an error).
    """

    model: Model
    history: tuple[dict[str, int | float], ...]
    best_epoch: int
    interrupted: bool = False
    diverged: bool = False


def worse_than_guessing(one: Fit, valid: Encoded | Encoding) -> float | None:
    """The lowest validation NLL, if it is clearly above that of equal chances; else None.

    Equal chances have the mean of log n over sets of n items. An NLL of m sets has noise of about
    1 / sqrt(m), so that a sound fit to few sets may lie a little above: three times the noise,
    and a tenth more, is clear. A fit that was still getting better when its epochs ended may only
    need more of them: there, twice the NLL of equal chances is clear.
    """
    weight = valid.weight if isinstance(valid, Encoded) else valid.choices.weight
    share = np.ones(len(valid)) if weight is None else np.asarray(weight, np.float64)
    share = share / share.sum()
    guessing = float(share @ np.log(valid.sizes))
    noise = float(np.sqrt((share**2).sum()))  # 1 / sqrt(m) without weights
    each = [record["nll"] for record in one.history]
    reached = min(each, default=0.0)
    margin = guessing if each[-1:] == [reached] else 0.1
    return reached if reached > guessing + margin + 3 * noise else None


def fit(
    model: Model,
    train: Encoded | Encoding,
    valid: Encoded | Encoding,
    options: Options,
    seed: int = 0,
    checkpoint_folder: Path | None = None,
    on_epoch: OnEpoch | None = None,
    on_shard: OnShard | None = None,
) -> Fit:
    """Train until validation stops improving; the best weights are kept.

    Encoded data stay on the device; an :class:`Encoding` is read anew in every epoch, shard after
    shard (:mod:`setwise.training.shards`). Ctrl-C ends training early with the best model so far.
    With a checkpoint folder, a killed fit goes on where it was, at the last shard, and ends with
    the identical model.

    Where JAX runs on several processes, all call this together (:mod:`setwise.training.processes`).
    The first of them keeps the checkpoint, from which any number of processes goes on.
    """
    group = Group.current()
    start = Progress(loop.start(model), model)
    keeper: checkpoint.Keeper | None = None

    def begin() -> Progress:
        nonlocal keeper
        if checkpoint_folder is None:
            return start
        mark = checkpoint.fingerprint(model, (train, valid), [asdict(options), seed])
        keeper = checkpoint.Keeper(checkpoint_folder / checkpoint.FILE, mark)
        return keeper.resume(start)

    progress = checkpoint.of_first(group, start, begin)
    epochs = _Epochs(train, valid, options, seed, group)

    def after_shard(partial: Progress, done: int) -> None:
        if keeper is not None:
            keeper.save_if_due(partial)
        if on_shard is not None:
            on_shard(partial.stopping.epoch + 1, done, epochs.shards)

    interrupted = False
    try:
        while not _finished(progress, options):
            progress = epochs.after(progress, after_shard)
            if on_epoch is not None:
                on_epoch(progress.history[-1])
            if keeper is not None:
                keeper.save_if_due(progress, _finished(progress, options))
    except KeyboardInterrupt:
        if progress.stopping.best_epoch < 0 or group.size > 1:  # the others would wait for ever
            raise
        interrupted = True
    if progress.stopping.best_epoch < 0:
        raise InputError(
            f"training gave no model: the validation {options.stop_on} was not a number in any "
            f"epoch; use a learning rate below {options.learning_rate:g}, and check the columns "
            "of the validation sets for extreme values"
        )
    return Fit(progress.best, progress.history, progress.stopping.best_epoch, interrupted)


def _finished(progress: Progress, options: Options) -> bool:
    state = progress.stopping
    return state.epoch + 1 >= options.epochs or (
        state.best_epoch >= 0 and state.waited >= options.patience
    )


class _Epochs:
    """Everything that stays the same from epoch to epoch."""

    def __init__(
        self,
        train: Encoded | Encoding,
        valid: Encoded | Encoding,
        options: Options,
        seed: int,
        group: Group,
    ):
        self.options, self.seed, self.group = options, seed, group
        self.key = jax.random.key(seed)
        source = Streamed if isinstance(train, Encoding) else Resident
        self.source: Resident | Streamed = source(train, options.batch_size, group)  # type: ignore[arg-type]
        self.program = loop.Program(
            options.objective, self.source.widths, options.decoupled_weight_decay, self.source.idle,
            together=self.source.batch_size if group.size > 1 else None,
        )  # fmt: skip
        self.validate = Validation(valid, group)

    @property
    def shards(self) -> int:
        """How many shards an epoch has."""
        return self.source.shards

    def after(self, progress: Progress, after_shard: Callable[[Progress, int], None]) -> Progress:
        """Train one epoch (or what is left of it) and validate."""
        epoch = progress.stopping.epoch + 1
        for shard in self.source.epoch(self.seed, epoch, progress.shards):
            state, losses = self._trained(progress, shard, epoch)
            real = np.asarray(losses, np.float64)[shard.batches.numbers >= 0]
            progress = replace(
                progress, state=state, shards=progress.shards + 1,
                losses=progress.losses + float(real.sum()), steps=progress.steps + len(real),
            )  # fmt: skip
            self._refuse_divergence(progress, epoch)
            if self.shards > 1:
                after_shard(progress, progress.shards)
        return self._validated(progress, epoch)

    def _trained(
        self, progress: Progress, shard: Shard, epoch: int
    ) -> tuple[loop.State, Float[jax.Array, " steps"]]:
        """The state after a shard, and the mean loss of each of its batches."""
        sets, numbers, places = shard.batches
        hyper, noise = self._hyper(epoch), self._noise(epoch, progress.shards)
        if places is None:
            inputs = (shard.data, jnp.asarray(sets), jnp.asarray(numbers), hyper, noise)
            return loop.run_epoch(inputs, progress.state, self.program)
        group = self.group
        together = (
            group.split(shard.data), group.split(sets, 1), group.same(numbers), group.same(hyper),
            group.same(jax.random.key_data(noise)),
        )  # fmt: skip
        return group.local(
            loop.run_epoch_together(
                (together, group.split(places, 1)), group.same(progress.state), self.program,
                group.mesh,
            )
        )  # fmt: skip

    def _validated(self, progress: Progress, epoch: int) -> Progress:
        """The progress at the end of an epoch: its record, and the best model so far."""
        loss = progress.losses / progress.steps
        nll, accuracy = self.validate(progress.state.model)
        watched = nll if self.options.stop_on == "nll" else -accuracy
        stopping = progress.stopping.observe(watched)
        record: dict[str, int | float] = {
            "epoch": epoch, "loss": loss, "nll": nll, "accuracy": accuracy,
            "best": abs(stopping.best),
        }  # fmt: skip
        model = progress.state.model
        best = jax.tree.map(_copied, model) if stopping.improved else progress.best
        return Progress(progress.state, best, stopping, (*progress.history, record))

    def _refuse_divergence(self, progress: Progress, epoch: int) -> None:
        """After every shard: a long epoch on disk need not end before it is said."""
        loss = progress.losses / progress.steps
        if not np.isfinite(loss):
            raise InputError(
                f"training diverged in epoch {epoch} (its loss is {loss}); "
                f"use a learning rate below {self.options.learning_rate:g}"
            )

    def _hyper(self, epoch: int) -> loop.Hyper:
        options = self.options
        keep = jnp.float32(1 - options.dropout) if options.dropout > 0 else None
        return loop.Hyper(jnp.float32(options.rate(epoch)), jnp.float32(options.weight_decay), keep)

    def _noise(self, epoch: int, shard: int) -> jax.Array:
        """The key of a shard's dropout; steps fold their number in, from 0, shards from the top."""
        key = jax.random.fold_in(self.key, epoch)
        return key if shard == 0 else jax.random.fold_in(key, 2**32 - shard)


def _copied(leaf: object) -> object:
    # The epoch's program reuses its input buffers, so the best weights need their own.
    return jnp.array(leaf, copy=True) if isinstance(leaf, jax.Array) else leaf

"""The host's part of training: epochs, early stopping, progress, checkpoints, Ctrl-C."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from setwise._errors import InputError
from setwise.choices import Encoded, bucket, shuffled_batches
from setwise.metrics import Ranks
from setwise.models import Model
from setwise.training import checkpoint, loop
from setwise.training.checkpoint import Progress
from setwise.training.device import DeviceData, to_device
from setwise.training.options import Training
from setwise.training.scoring import Scorer

OnEpoch = Callable[[Mapping[str, int | float]], None]
"""Called after every epoch with its record: epoch, loss, nll, accuracy and best (so far)."""


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


def fit(
    model: Model,
    train: Encoded,
    valid: Encoded,
    options: Training,
    seed: int = 0,
    checkpoint_folder: Path | None = None,
    on_epoch: OnEpoch | None = None,
) -> Fit:
    """Train until validation stops improving; the best weights are kept.

    Ctrl-C ends training early with the best model so far. With a checkpoint folder, a killed fit
    goes on where it was and ends with the identical model.
    """
    mark, path = "", None
    progress = Progress(loop.start(model), model)
    if checkpoint_folder is not None:
        path = checkpoint_folder / checkpoint.FILE
        mark = checkpoint.fingerprint(model, (train, valid), [asdict(options), seed])
        progress = checkpoint.resume(path, progress, mark)
    epochs = _Epochs(train, valid, options, seed)
    saved, interrupted = time.monotonic(), False
    try:
        while not _finished(progress, options):
            progress = epochs.after(progress)
            if on_epoch is not None:
                on_epoch(progress.history[-1])
            due = time.monotonic() - saved > checkpoint.SECONDS_BETWEEN_CHECKPOINTS
            if path is not None and (due or _finished(progress, options)):
                checkpoint.save(path, progress, mark)
                saved = time.monotonic()
    except KeyboardInterrupt:
        if progress.stopping.best_epoch < 0:
            raise
        interrupted = True
    return Fit(progress.best, progress.history, progress.stopping.best_epoch, interrupted)


def _finished(progress: Progress, options: Training) -> bool:
    state = progress.stopping
    return state.epoch + 1 >= options.epochs or (
        state.best_epoch >= 0 and state.waited >= options.patience
    )


class _Epochs:
    """Data on the device and everything else that stays the same from epoch to epoch."""

    def __init__(self, train: Encoded, valid: Encoded, options: Training, seed: int):
        self.options, self.seed = options, seed
        self.key = jax.random.key(seed)
        self.data: DeviceData = to_device(train)
        self.buckets = bucket(train.sizes)
        self.widths = tuple(one.width for one in self.buckets)
        self.valid, self.score = valid, Scorer(valid)

    def after(self, progress: Progress) -> Progress:
        """Train one epoch and validate."""
        epoch = progress.stopping.epoch + 1
        # The order depends on the seed and the epoch alone, so that a resumed fit repeats it.
        rng = np.random.default_rng([self.seed, epoch])
        sets, numbers = shuffled_batches(self.buckets, self._batch_size(), rng)
        inputs = (
            self.data, jnp.asarray(sets), jnp.asarray(numbers), self._hyper(epoch),
            jax.random.fold_in(self.key, epoch),
        )  # fmt: skip
        state, losses = loop.run_epoch(inputs, progress.state, self.options.objective, self.widths)
        loss = float(np.asarray(losses, np.float64)[numbers >= 0].mean())
        if not np.isfinite(loss):
            raise InputError(
                f"training diverged in epoch {epoch} (its loss is {loss}); "
                f"use a learning rate below {self.options.learning_rate:g}"
            )
        nll, accuracy = self._validate(state.model)
        watched = nll if self.options.stop_on == "nll" else -accuracy
        stopping = progress.stopping.observe(watched)
        record: dict[str, int | float] = {
            "epoch": epoch,
            "loss": loss,
            "nll": nll,
            "accuracy": accuracy,
        }
        record["best"] = abs(stopping.best)
        best = jax.tree.map(_copied, state.model) if stopping.improved else progress.best
        return Progress(state, best, stopping, (*progress.history, record))

    def _batch_size(self) -> int:
        return min(self.options.batch_size, max(len(one.sets) for one in self.buckets))

    def _hyper(self, epoch: int) -> loop.Hyper:
        options = self.options
        keep = jnp.float32(1 - options.dropout) if options.dropout > 0 else None
        return loop.Hyper(jnp.float32(options.rate(epoch)), jnp.float32(options.weight_decay), keep)

    def _validate(self, model: Model) -> tuple[float, float]:
        """Mean NLL and accuracy on the validation sets, by their weights."""
        valid = self.valid
        assert valid.chosen is not None
        scores = self.score(model)
        weight = np.ones(len(valid)) if valid.weight is None else valid.weight
        nll = -scores[valid.offsets[:-1] + valid.chosen].astype(np.float64)
        if np.isnan(nll).any():  # weights that are no numbers have no accuracy either
            return math.nan, math.nan
        top = Ranks.of(scores, valid.offsets, valid.chosen).top(1)
        # Dividing last keeps equal accuracies equal: sums of ones are exact.
        return float(nll @ weight / weight.sum()), float(top @ weight / weight.sum())


def _copied(leaf: object) -> object:
    # The epoch's program reuses its input buffers, so the best weights need their own.
    return jnp.array(leaf, copy=True) if isinstance(leaf, jax.Array) else leaf

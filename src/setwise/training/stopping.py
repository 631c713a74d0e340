"""How far training is, and how it ended; early stopping is a pure state machine.

There is no clock and no file here: :mod:`setwise.training.checkpoint` keeps the state in one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from setwise.choices import Encoded, Encoding
from setwise.models import Model
from setwise.training.epoch import State, taken


@dataclass(frozen=True, eq=False)
class Stopping:
    """The best validation loss of each model so far, its epoch, and which models still train.

    >>> state = Stopping.start(np.array([True, True]))
    >>> for losses in ([1.0, 1.0], [0.5, 2.0], [0.6, 2.0]):
    ...     state = state.observe(np.array(losses), np.array([2, 2]), np.array([9, 9]))
    >>> state.best.tolist(), state.best_epoch.tolist(), state.active.tolist()
    ([0.5, 1.0], [1, 0], [True, False])
    """

    best: Float[np.ndarray, "*models"]
    best_epoch: Int[np.ndarray, "*models"]
    active: Bool[np.ndarray, "*models"]
    improved: Bool[np.ndarray, "*models"]
    epoch: int

    @classmethod
    def start(cls, active: Bool[np.ndarray, "*models"]) -> "Stopping":
        """Before the first epoch; models that are not active never count."""
        shape = active.shape
        nobody = np.zeros(shape, bool)
        return cls(np.full(shape, math.inf), np.full(shape, -1), active, nobody, -1)

    def observe(
        self,
        losses: Float[np.ndarray, "*models"],
        patience: Int[np.ndarray, "*models"],
        epochs: Int[np.ndarray, "*models"],
    ) -> "Stopping":
        """After one more epoch with these validation losses; NaN ends a model's training."""
        epoch = self.epoch + 1
        improved = self.active & (losses < self.best)
        best_epoch = np.where(improved, epoch, self.best_epoch)
        waited = (best_epoch >= 0) & (epoch - best_epoch >= patience)
        active = self.active & ~np.isnan(losses) & ~waited & (epoch + 1 < epochs)
        return Stopping(np.where(improved, losses, self.best), best_epoch, active, improved, epoch)

    def without(self, stopped: Bool[np.ndarray, "*models"]) -> "Stopping":
        """With the training of these models ended."""
        return replace(self, active=self.active & ~stopped)

    def at(self, places: tuple[np.ndarray, ...]) -> "Stopping":
        """The state of the models at these places."""
        each = (self.best, self.best_epoch, self.active, self.improved)
        best, best_epoch, active, improved = (values[places] for values in each)
        return Stopping(best, best_epoch, active, improved, self.epoch)


@dataclass(frozen=True, eq=False)
class TrainingProgress:
    """Everything that changes from epoch to epoch; arrays have the axes (streams, lanes).

    ``losses`` and ``steps`` are of the epoch that has begun: the sum of the losses of its steps so
    far, and how many steps that were. ``shards`` of it are done. ``history`` and ``diverged`` go by
    the members' numbers.
    """

    state: State
    best: Model
    stopping: Stopping
    losses: Float[np.ndarray, "streams lanes"]
    steps: Int[np.ndarray, "streams lanes"]
    shards: int = 0
    history: Mapping[int, tuple[dict[str, int | float], ...]] = field(default_factory=dict)
    diverged: frozenset[int] = frozenset()

    @classmethod
    def start(
        cls, state: State, best: Model, members: Bool[np.ndarray, "streams lanes"]
    ) -> "TrainingProgress":
        """Before the first epoch; lanes without a member are spare."""
        losses, steps = np.zeros(members.shape), np.zeros(members.shape, np.int64)
        return cls(state, best, Stopping.start(members), losses, steps)

    def at(self, places: tuple[np.ndarray, ...]) -> "TrainingProgress":
        """The progress of the models at these places (streams, lanes), between two epochs."""
        state, best = taken((self.state, self.best), tuple(map(jax.device_put, places)))
        return replace(
            self, state=state, best=best, stopping=self.stopping.at(places),
            losses=self.losses[places], steps=self.steps[places],
        )  # fmt: skip


@dataclass(frozen=True)
class Fit:
    """What training gives: the best model, what happened, and how it ended.

    ``interrupted``: Ctrl-C ended it. ``diverged``: its training loss or its validation NLL was not
    a number. In a population that ends the training of this member only.
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
    share = np.ones(len(valid))
    if valid.weight is not None:
        share = np.asarray(valid.weight, np.float64)
    share = share / share.sum()
    guessing = float(share @ np.log(valid.sizes))
    noise = float(np.sqrt((share**2).sum()))  # 1 / sqrt(m) without weights
    each = [record["nll"] for record in one.history]
    reached = min(each, default=0.0)
    margin = guessing if each[-1:] == [reached] else 0.1
    return reached if reached > guessing + margin + 3 * noise else None

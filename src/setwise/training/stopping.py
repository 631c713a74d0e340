"""Early stopping as a pure state machine: no clock, no files, no model."""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Stopping:
    """The best validation loss so far and how long ago it was.

    >>> state = Stopping()
    >>> for loss in (1.0, 0.8, 0.9, 0.85):
    ...     state = state.observe(loss)
    >>> state.best, state.best_epoch, state.waited, state.improved
    (0.8, 1, 2, False)
    """

    best: float = math.inf
    best_epoch: int = -1
    epoch: int = -1

    def observe(self, loss: float) -> "Stopping":
        """The state after one more epoch with this validation loss (lower is better)."""
        epoch = self.epoch + 1
        if loss < self.best:
            return Stopping(loss, epoch, epoch)
        return Stopping(self.best, self.best_epoch, epoch)

    @property
    def waited(self) -> int:
        """Epochs since the best one."""
        return self.epoch - self.best_epoch

    @property
    def improved(self) -> bool:
        """Whether the last epoch was the best."""
        return self.epoch >= 0 and self.waited == 0


@dataclass(frozen=True, eq=False)
class Standings:
    """:class:`Stopping` for many models at once, with who is still training.

    >>> state = Standings.start(np.array([True, True]))
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
    def start(cls, active: Bool[np.ndarray, "*models"]) -> "Standings":
        """Before the first epoch; models that are not active never count."""
        shape = active.shape
        nobody = np.zeros(shape, bool)
        return cls(np.full(shape, math.inf), np.full(shape, -1), active, nobody, -1)

    def observe(
        self,
        losses: Float[np.ndarray, "*models"],
        patience: Int[np.ndarray, "*models"],
        epochs: Int[np.ndarray, "*models"],
    ) -> "Standings":
        """After one more epoch with these validation losses; NaN ends a model's training."""
        epoch = self.epoch + 1
        improved = self.active & (losses < self.best)
        best_epoch = np.where(improved, epoch, self.best_epoch)
        waited = (best_epoch >= 0) & (epoch - best_epoch >= patience)
        active = self.active & ~np.isnan(losses) & ~waited & (epoch + 1 < epochs)
        return Standings(np.where(improved, losses, self.best), best_epoch, active, improved, epoch)

    def without(self, stopped: Bool[np.ndarray, "*models"]) -> "Standings":
        """With these models out of the race."""
        return replace(self, active=self.active & ~stopped)

    def at(
        self, places: tuple[np.ndarray, np.ndarray], active: Bool[np.ndarray, "*models"]
    ) -> "Standings":
        """Of the models at these places; ``active`` says which of them train on."""
        return Standings(
            self.best[places], self.best_epoch[places], active, self.improved[places], self.epoch
        )

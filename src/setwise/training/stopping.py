"""Early stopping as a pure state machine: no clock, no files, no model."""

import math
from dataclasses import dataclass


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

"""How to train, as one small frozen value."""

from dataclasses import dataclass

from setwise._errors import InputError
from setwise.training.objectives import OBJECTIVES


@dataclass(frozen=True)
class Training:
    """Options of gradient training: Adam with step decay and early stopping.

    Args:
        epochs: the most passes over the training sets.
        batch_size: sets a step.
        learning_rate: Adam's first step size.
        decay: factor on the learning rate every ``decay_every`` epochs.
        decay_every: epochs between two decays.
        weight_decay: decoupled from the gradient, as in AdamW.
        dropout: share of the networks' hidden units dropped (the paper's keep probability is
            ``1 - dropout``).
        objective: "cross_entropy", "pairwise" or "listwise"; see
            :mod:`setwise.training.objectives`.
        stop_on: the validation measure to stop on, "nll" or "accuracy".
        patience: epochs without a better validation measure before stopping.

    >>> Training(learning_rate=3e-3).batch_size
    128
    """

    epochs: int = 300
    batch_size: int = 128
    learning_rate: float = 1e-3
    decay: float = 0.95
    decay_every: int = 10
    weight_decay: float = 1e-2
    dropout: float = 0.0
    objective: str = "cross_entropy"
    stop_on: str = "nll"
    patience: int = 25

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "decay_every", "patience"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("learning_rate", "decay"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)} must be positive")
        if not self.weight_decay >= 0:
            raise InputError(f"weight_decay={self.weight_decay} must not be negative")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout={self.dropout} must be at least 0 and below 1")
        if self.objective not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            raise InputError(f"objective={self.objective!r} is not one of {known}")
        if self.stop_on not in ("nll", "accuracy"):
            raise InputError(f"stop_on={self.stop_on!r} is neither 'nll' nor 'accuracy'")

    def rate(self, epoch: int) -> float:
        """The learning rate in this epoch, counted from 0."""
        return self.learning_rate * self.decay ** (epoch // self.decay_every)

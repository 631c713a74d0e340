"""What training minimises, for one set: scores, which items are present, which was chosen.

How to train: what the user says (:class:`Training`), and all of it (:class:`Options`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Int

from setwise import _masked
from setwise._arguments import check_all, flag, number, one_of, optional, plain, whole
from setwise._errors import InputError
from setwise._types import Array, Float, Mask, Scores

Chosen = Int[Array, ""]
Loss = Float[Array, ""]


def cross_entropy(scores: Scores, present: Mask, chosen: Chosen) -> Loss:
    """- log P(chosen | s): the likelihood of choice models.

    >>> float(cross_entropy(jnp.zeros(4), jnp.ones(4, bool), jnp.array(2))) == float(jnp.log(4.0))
    True
    """
    return -_masked.log_softmax(scores, present)[chosen]


def pairwise(scores: Scores, present: Mask, chosen: Chosen) -> Loss:
    """Mean over the other items z of log(1 + exp(g(z) - g(chosen))), RankNet's loss."""
    others = present & (jnp.arange(len(scores)) != chosen)
    return _masked.mean(jax.nn.softplus(scores - scores[chosen]), others)


def listwise(scores: Scores, present: Mask, chosen: Chosen) -> Loss:
    """1 - NDCG with a smooth rank (ApproxNDCG): rank = 1 + sum over others of sigmoid(g(z) - g).

    With one relevant item the NDCG is 1 / log2(1 + rank).
    """
    others = present & (jnp.arange(len(scores)) != chosen)
    ahead = jnp.where(others, jax.nn.sigmoid(scores - scores[chosen]), 0)
    return 1 - jnp.log(2.0) / jnp.log1p(1 + ahead.sum())


OBJECTIVES: Mapping[str, Callable[[Scores, Mask, Chosen], Loss]] = {
    "cross_entropy": cross_entropy,
    "pairwise": pairwise,
    "listwise": listwise,
}


CHECKS = {
    "epochs": whole(),
    "batch_size": whole(),
    "least_steps": whole(),
    "learning_rate": number(above=0),
    "decay": number(above=0, most=1),
    "decay_every": whole(),
    "weight_decay": number(least=0),
    "decoupled_weight_decay": flag,
    "dropout": number(least=0, below=1),
    "objective": one_of(*OBJECTIVES),
    "stop_on": one_of("nll", "accuracy"),
    "patience": whole(),
}
"""What each option may be."""


@dataclass(frozen=True)
class Options:
    """Complete options of gradient training, as the trainer takes them.

    :class:`Training` says what each option is. The defaults here are those of most estimators.

    >>> Options(learning_rate=1.0, decay=0.5, decay_every=10).rate(epoch=10)
    0.5
    """

    epochs: int = 300
    batch_size: int = 128
    least_steps: int = 1
    learning_rate: float = 1e-3
    decay: float = 0.95
    decay_every: int = 10
    weight_decay: float = 1e-2
    decoupled_weight_decay: bool = True
    dropout: float = 0.0
    objective: str = "cross_entropy"
    stop_on: str = "nll"
    patience: int = 25

    def __post_init__(self) -> None:
        check_all(CHECKS, vars(self))

    def sets_per_step(self, sets: int) -> int:
        """The batch size for so many training sets.

        >>> [Options(least_steps=8).sets_per_step(sets) for sets in (100, 450, 900, 5000)]
        [8, 64, 128, 128]
        """
        size = self.batch_size
        while size > 1 and -(-sets // size) < self.least_steps:
            size //= 2
        return size

    def rate(self, epoch: int) -> float:
        """The learning rate in this epoch, counted from 0."""
        return self.learning_rate * self.decay ** (epoch // self.decay_every)


@dataclass(frozen=True, repr=False)
class Training:
    """Options of gradient training: Adam with step decay and early stopping.

    An option that is left out (None) has the estimator's default. Below are the defaults of most
    estimators. Others: ``SDA`` has a learning rate of 0.003 and, unless a batch size is given, 8
    steps at least; ``SDA.paper()`` has a learning rate of 0.001 and a dropout of 0.1;
    ``ChoiceModel("ranknet")`` has the pairwise objective and stops on accuracy.

    Args:
        epochs: the most passes over the training sets (300).
        batch_size: sets per step (128).
        least_steps: batches are halved until an epoch has this many steps (1): rates, patience and
            epochs count epochs, and an epoch of a single step teaches little.
        learning_rate: Adam's first step size (0.001).
        decay: factor on the learning rate every ``decay_every`` epochs, at most 1 (0.95).
        decay_every: epochs between two decays (10).
        weight_decay: how strongly weights are pulled towards 0 (0.01).
        decoupled_weight_decay: True takes ``learning_rate * weight_decay`` of each weight per
            step, as AdamW does (default). False adds ``weight_decay`` times the weight to the
            gradient, which is Adam with an L2 penalty, as the paper's authors train.
        dropout: share of the networks' hidden units dropped (0); the paper's keep probability is
            ``1 - dropout``.
        objective: "cross_entropy" (default), "pairwise" or "listwise"; see
            :mod:`setwise.training.options`.
        stop_on: the validation measure to stop on, "nll" (default) or "accuracy".
        patience: epochs without a better validation measure before stopping (25).

    >>> Training(epochs=20)
    Training(epochs=20)
    >>> import setwise as sw
    >>> options = sw.SDA(training=Training(epochs=20)).training_options
    >>> options.epochs, options.learning_rate, options.patience
    (20, 0.003, 25)
    """

    epochs: int | None = None
    batch_size: int | None = None
    least_steps: int | None = None
    learning_rate: float | None = None
    decay: float | None = None
    decay_every: int | None = None
    weight_decay: float | None = None
    decoupled_weight_decay: bool | None = None
    dropout: float | None = None
    objective: str | None = None
    stop_on: str | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).copy().items():
            optional(CHECKS[name])(name, value)
            object.__setattr__(self, name, plain(value))

    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def over(self, defaults: Options) -> Options:
        """Complete options: those given here, and the defaults for the rest."""
        return replace(defaults, **self.given())

    def changed(self, **options: Any) -> "Training":
        """With some options changed; None leaves an option to the estimator's default.

        >>> Training(epochs=20).changed(dropout=0.1)
        Training(epochs=20, dropout=0.1)
        """
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise InputError(
                f"there is no option '{unknown[0]}' of training; there are: {', '.join(OPTIONS)}"
            )
        return replace(self, **options)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.given().items())
        return f"Training({given})"


OPTIONS = tuple(one.name for one in fields(Training))
"""The names of all options."""

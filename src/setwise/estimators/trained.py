"""What every estimator does that is trained by gradients, with early stopping."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from setwise._errors import InputError
from setwise._trees import named_arrays, with_arrays
from setwise.artifact import Artifact
from setwise.choices import Choices, Encoded, Encoding, Schema
from setwise.estimators.base import Estimator, held_out, trainable
from setwise.models import Blueprint, Ensemble, Sizes
from setwise.progress import epoch_bar, population_bar
from setwise.training import (
    Fit,
    Member,
    Task,
    Training,
    fit,
    fit_population,
    resident_or_streamed,
)

FITTED = ("history", "best_epoch", "interrupted")


class TrainedEstimator(Estimator):
    """An aggregation trained by gradients with early stopping.

    Fitted attributes: ``history_`` (loss, validation NLL and accuracy of each epoch),
    ``best_epoch_``, ``interrupted_`` (Ctrl-C ended training; the model is the best until then).
    An ensemble has a list of histories and of best epochs, one a member.
    """

    training: Training
    ensemble: int
    seed: int
    history_: list[Any]
    best_epoch_: int | list[int]
    interrupted_: bool

    @property
    @abstractmethod
    def blueprint(self) -> Blueprint:
        """The model's entry in the zoo."""

    @abstractmethod
    def sizes(self) -> Sizes:
        """The sizes that the arguments ask for."""

    def fit(
        self,
        choices: Choices,
        validation: Choices | None = None,
        *,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
    ) -> "TrainedEstimator":
        if self.seed < 0:
            raise InputError(f"seed={self.seed} must be at least 0")
        if self.ensemble < 1:
            raise InputError(f"ensemble={self.ensemble} must be at least 1")
        choices = trainable(choices)
        if validation is None:
            choices, validation = held_out(choices, self.seed)
        schema, seen = Schema.learn(choices)
        train, valid = (
            resident_or_streamed(seen),
            resident_or_streamed(schema.over(trainable(validation))),
        )
        folder = None if checkpoint is None else Path(checkpoint)
        if self.ensemble == 1:
            fits = [self._learn_one(train, valid, schema.width, folder, progress)]
        elif isinstance(train, Encoded) and isinstance(valid, Encoded):
            fits = self._learn_many(Task(train, valid), schema.width, folder, progress)
        else:
            fits = self._learn_in_turn(train, valid, schema.width, folder, progress)
        return self.learned(schema, fits)

    def learned(self, schema: Schema, fits: Sequence[Fit]) -> "TrainedEstimator":
        """Take what training gave as this estimator's fitted state."""
        self.interrupted_ = any(one.interrupted for one in fits)
        best_epochs = [one.best_epoch for one in fits]
        if self.interrupted_:
            warnings.warn(
                f"training was interrupted; keeping the model of epoch {max(best_epochs)}, "
                "the best so far",
                stacklevel=3,
            )
        histories = [list(one.history) for one in fits]
        self.schema_ = schema
        if self.ensemble == 1:
            self.model_ = jax.tree.map(jnp.asarray, fits[0].model)
            self.history_, self.best_epoch_ = histories[0], best_epochs[0]
        else:
            self.model_ = Ensemble.of([one.model for one in fits])
            self.history_, self.best_epoch_ = histories, best_epochs
        return self

    def _learn_one(
        self,
        train: Encoded | Encoding,
        valid: Encoded | Encoding,
        width: int,
        checkpoint: Path | None,
        progress: bool | None,
        number: int = 0,
    ) -> Fit:
        seed = self.seed + number
        model = self.blueprint.initial(width, self.sizes(), jnp.uint32(seed))
        with epoch_bar(type(self).__name__, self.training, progress) as bar:
            return fit(
                model, train, valid, self.training, seed, checkpoint,
                None if bar is None else bar.on_epoch, None if bar is None else bar.on_shard,
            )  # fmt: skip

    def _learn_in_turn(
        self,
        train: Encoded | Encoding,
        valid: Encoded | Encoding,
        width: int,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> list[Fit]:
        """Members of an ensemble whose data are too large for them to train together."""
        return [
            self._learn_one(
                train, valid, width, checkpoint and checkpoint / f"member-{number}", progress,
                number,
            )
            for number in range(self.ensemble)
        ]  # fmt: skip

    def _learn_many(
        self, task: Task, width: int, checkpoint: Path | None, progress: bool | None
    ) -> list[Fit]:
        """The members differ in their seeds; the first is the model that would learn alone."""
        members = [Member(self.training, self.seed + number) for number in range(self.ensemble)]
        with population_bar(type(self).__name__, self.ensemble, progress) as on_epoch:
            fits = fit_population(
                self.blueprint, self.sizes(), [task], members,
                checkpoint_folder=checkpoint, on_epoch=on_epoch,
            )  # fmt: skip
        bad = [member.seed for member, one in zip(members, fits, strict=True) if one.diverged]
        if bad:
            raise InputError(
                f"training of the ensemble's member with seed {bad[0]} diverged (its loss is no "
                f"number); use a learning rate below {self.training.learning_rate:g}"
            )
        return fits

    def _to_artifact(self) -> Artifact:
        params = self.get_params(deep=False) | {"training": asdict(self.training)}
        fitted = {name: getattr(self, f"{name}_") for name in FITTED}
        arrays = named_arrays(self.model_)
        return Artifact(type(self).__name__, params, self.schema_, fitted, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "TrainedEstimator":
        training = Training(**artifact.params["training"])
        estimator = cls(**(artifact.params | {"training": training}))
        estimator.schema_ = artifact.schema
        skeleton = estimator.blueprint.skeleton(artifact.schema.width, estimator.sizes())
        if estimator.ensemble > 1:
            skeleton = Ensemble.skeleton(skeleton, estimator.ensemble)
        estimator.model_ = with_arrays(skeleton, artifact.arrays)
        for name in FITTED:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        return estimator

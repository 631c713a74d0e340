"""What every estimator does that is trained by gradients, with early stopping."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, replace
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
    alone,
    fit,
    fit_population,
    resident_or_streamed,
    weigh,
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

    def options_of_members(self) -> list[Training]:
        """How each model of the ensemble trains; they differ in their seeds, at least."""
        return [self.training] * self.ensemble

    def set_training(self, **options: Any) -> "TrainedEstimator":
        """Change some options of training."""
        return self.set_params(training=replace(self.training, **options))

    def members(self, task: int = 0) -> list[Member]:
        """The models of the ensemble, for a population with this task."""
        options = self.options_of_members()
        return [Member(one, self.seed + number, task) for number, one in enumerate(options)]

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
        elif isinstance(train, Encoded) and isinstance(valid, Encoded) and alone():
            fits = self._learn_many(Task(train, valid), schema.width, folder, progress)
        else:
            fits = self._learn_in_turn(train, valid, schema.width, folder, progress)
        return self.learned(schema, fits, valid)

    def learned(
        self, schema: Schema, fits: Sequence[Fit], valid: Encoded | Encoding
    ) -> "TrainedEstimator":
        """Take what training gave as this estimator's fitted state.

        Members that train alike count alike; where their options differ, the validation part says
        how much each counts.
        """
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
            models = [one.model for one in fits]
            alike = len(set(self.options_of_members())) == 1
            self.model_ = Ensemble.of(models, None if alike else weigh(models, valid))
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
        seed, options = self.seed + number, self.options_of_members()[number]
        model = self.blueprint.initial(width, self.sizes(), jnp.uint32(seed))
        with epoch_bar(type(self).__name__, options, progress) as bar:
            return fit(
                model, train, valid, options, seed, checkpoint,
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
        """Members of an ensemble whose data are too large for them to train together.

        Or one of which several processes train at a time.
        """
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
        """As one population; the first member is the model that would learn alone."""
        members = self.members()
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
        # A file has lists where arguments are tuples.
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in artifact.params.items()}
        estimator = cls(**(given | {"training": training}))
        estimator.schema_ = artifact.schema
        skeleton = estimator.blueprint.skeleton(artifact.schema.width, estimator.sizes())
        if estimator.ensemble > 1:
            weight = artifact.arrays.get("weight")
            size = estimator.ensemble if weight is None else len(weight)
            skeleton = Ensemble.skeleton(skeleton, size, weight is not None)
        estimator.model_ = with_arrays(skeleton, artifact.arrays)
        for name in FITTED:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        return estimator

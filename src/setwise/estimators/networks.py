"""Estimators of the paper's models, trained by gradients: SDW, SDE and SDA."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp

from setwise._errors import InputError
from setwise._trees import named_arrays, with_arrays
from setwise.artifact import Artifact
from setwise.choices import Choices, Schema
from setwise.estimators.base import Estimator, held_out, trainable
from setwise.models import ZOO, Blueprint, Ensemble, Sizes
from setwise.progress import epoch_bar, population_bar
from setwise.training import Fit, Member, Task, Training, fit, fit_population

# Two networks and vectors of 16 overfit sooner than SDW and SDE do: on Swissmetro (10 splits) this
# takes SDA's NLL from 0.695 to 0.690, and does nothing for the others.
SDA_TRAINING = Training(dropout=0.1)

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
        schema = Schema.fit(choices)
        task = Task(schema.encode(choices), schema.encode(trainable(validation)))
        folder = None if checkpoint is None else Path(checkpoint)
        learn = self._learn_one if self.ensemble == 1 else self._learn_many
        return self.learned(schema, learn(task, schema.width, folder, progress))

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
        self, task: Task, width: int, checkpoint: Path | None, progress: bool | None
    ) -> list[Fit]:
        model = self.blueprint.initial(width, self.sizes(), jnp.uint32(self.seed))
        with epoch_bar(type(self).__name__, self.training, progress) as on_epoch:
            return [fit(model, *task, self.training, self.seed, checkpoint, on_epoch)]

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


class ChoiceModel(TrainedEstimator):
    """Any model of the zoo by its name, trained by gradients.

    Args:
        model: the name; :func:`setwise.zoo` lists them.
        dimension: l, the number of score functions, where the model has them.
        components: k, the size of the vectors that models with the inner comparison compare.
        hidden: units in each layer of networks.
        wiring: "joint" or "shared" set networks.
        training: how to train.
        ensemble: how many models with seeds of their own to average.
        seed: of the initial weights, the order of the sets and dropout.

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.generate("mnl", sets=400).choices)
    >>> model = ChoiceModel("lam", dimension=4, training=sw.Training(epochs=5)).fit(train, valid)
    >>> model.predict(test).sum() == len(test)
    np.True_
    """

    def __init__(
        self,
        model: str,
        *,
        dimension: int = 24,
        components: int = 16,
        hidden: int = 16,
        wiring: Literal["joint", "shared"] = "joint",
        training: Training = Training(),  # noqa: B008 (frozen)
        ensemble: int = 1,
        seed: int = 0,
    ):
        self.model = model
        self.dimension = dimension
        self.components = components
        self.hidden = hidden
        self.wiring = wiring
        self.training = training
        self.ensemble = ensemble
        self.seed = seed

    @property
    def blueprint(self) -> Blueprint:
        if self.model not in ZOO:
            raise InputError(f"there is no model '{self.model}'; there are: {', '.join(ZOO)}")
        return ZOO[self.model]

    def sizes(self) -> Sizes:
        return Sizes(self.dimension, self.components, self.hidden, self.wiring)


class SDW(TrainedEstimator):
    """Set-dependent weights: g(x, s) = < w(s), F(x) >.

    Args:
        dimension: l, the number of score functions.
        hidden: units in each layer of the set network.
        wiring: "joint" (one network sees all scores) or "shared" (one for each score alone).
        training: how to train.
        ensemble: how many models with seeds of their own to average.
        seed: of the initial weights, the order of the sets and dropout.

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.generate("mnl", sets=400).choices)
    >>> model = SDW(dimension=4, training=sw.Training(epochs=5)).fit(train, valid)
    >>> bool(model.score(test) > 0.1)
    True
    """

    def __init__(
        self,
        dimension: int = 24,
        *,
        hidden: int = 16,
        wiring: Literal["joint", "shared"] = "joint",
        training: Training = Training(),  # noqa: B008 (frozen)
        ensemble: int = 1,
        seed: int = 0,
    ):
        self.dimension = dimension
        self.hidden = hidden
        self.wiring = wiring
        self.training = training
        self.ensemble = ensemble
        self.seed = seed

    @property
    def blueprint(self) -> Blueprint:
        return ZOO["sdw"]

    def sizes(self) -> Sizes:
        return Sizes(dimension=self.dimension, hidden=self.hidden, wiring=self.wiring)


class SDE(SDW):
    """Set-dependent evaluation: g(x, s) = < v, mu(F(x) - r(s)) >; arguments as for :class:`SDW`."""

    @property
    def blueprint(self) -> Blueprint:
        return ZOO["sde"]


class SDA(TrainedEstimator):
    """Set-dependent aggregation: g(x, s) = < w(s), mu(F(x) compared with r(s)) >.

    Args:
        dimension: l, the number of score functions.
        comparison: "inner" (< f_i(x), r_i(s) >, the paper's experiments) or "difference"
            (f_i(x) - r_i(s), the paper's Eq. 5).
        components: k, the size of the vectors that "inner" compares.
        hidden: units in each layer of the set networks.
        wiring: "joint" (one network sees all scores) or "shared" (one for each score alone).
        training: how to train; by default with a tenth of the networks' units dropped.
        ensemble: how many models with seeds of their own to average.
        seed: of the initial weights, the order of the sets and dropout.

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.generate("mnl", sets=400).choices)
    >>> model = SDA(dimension=4, training=sw.Training(epochs=5)).fit(train, valid)
    >>> model.predict_proba(test).shape == test.rows.shape
    True
    """

    def __init__(
        self,
        dimension: int = 24,
        *,
        comparison: Literal["inner", "difference"] = "inner",
        components: int = 16,
        hidden: int = 16,
        wiring: Literal["joint", "shared"] = "joint",
        training: Training = SDA_TRAINING,
        ensemble: int = 1,
        seed: int = 0,
    ):
        self.dimension = dimension
        self.comparison = comparison
        self.components = components
        self.hidden = hidden
        self.wiring = wiring
        self.training = training
        self.ensemble = ensemble
        self.seed = seed

    @property
    def blueprint(self) -> Blueprint:
        return ZOO["sda" if self.comparison == "inner" else "sda_difference"]

    def sizes(self) -> Sizes:
        return Sizes(self.dimension, self.components, self.hidden, self.wiring)

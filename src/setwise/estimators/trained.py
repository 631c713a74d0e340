"""What every estimator does that is trained by gradients, with early stopping.

:func:`fit_together` trains one on several parts of data, as one population.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np
from jaxtyping import Float

from setwise import _arguments
from setwise._arguments import SEEDS, Check, each, instance, seed, whole
from setwise._errors import InputError
from setwise._tensorfile import named_arrays, with_arrays
from setwise.choices import Choices, Encoded, Encoding, Schema
from setwise.estimators.base import (
    FEWEST_SETS,
    Estimator,
    comparable,
    trainable,
    warn_if_perfect,
)
from setwise.estimators.scikit_learn import unfitted, warn_of_convergence
from setwise.models import ZOO, Blueprint, Ensemble, Model, Sizes
from setwise.scoring.model_file import Artifact
from setwise.training import (
    Fit,
    Interrupted,
    Member,
    Options,
    Task,
    Training,
    check_fits,
    chosen_log_probabilities,
    fit_population,
    resident_or_streamed,
    select,
    worse_than_guessing,
)
from setwise.training.progress import training_bar
from setwise.training.slopes import Slopes

CERTAIN = 0.01  # nats per choice
NESTED = "training__"
FITTED = ("history", "best_epoch", "interrupted", "weights")
MOST_MEMBERS = 1_000
"""In an ensemble that is read from a file: building each member takes time."""


Trained = TypeVar("Trained", bound="TrainedEstimator")


class TrainedEstimator(Estimator):
    """An aggregation trained by gradients with early stopping.

    Fitted attributes: ``history_`` (loss, validation NLL and accuracy of each epoch),
    ``best_epoch_``, ``interrupted_`` (Ctrl-C ended training; the model is the best until then).
    An ensemble has a list of histories and of best epochs, one per member, and ``weights_``: how
    much each member counts. ``logit_weight_`` is how much an exact logit counts with them
    (:class:`SDA`).

    Sets that chose the worst item (``worst=`` of :func:`setwise.read`) count with minus the scores.
    """

    TAKES_WORST: ClassVar = True
    CHECKS: ClassVar[Mapping[str, Check]] = {
        "training": instance(Training, "write training=setwise.Training(epochs=20)"),
        "ensemble": whole(),
        "seed": seed,
    }

    training: Training
    ensemble: int
    seed: int
    history_: list[Any]
    best_epoch_: int | list[int]
    interrupted_: bool
    weights_: list[float]
    logit_weight_: float = 0.0

    @property
    @abstractmethod
    def blueprint(self) -> Blueprint:
        """The model's entry in the zoo."""

    @abstractmethod
    def sizes(self) -> Sizes:
        """The sizes that the arguments ask for."""

    def check_arguments(self) -> None:
        super().check_arguments()
        if int(self.seed) + int(self.ensemble) > SEEDS:
            raise InputError(
                f"seed={self.seed} must be at most {SEEDS - self.ensemble}: the {self.ensemble} "
                "members of the ensemble have this seed and those that follow it"
            )

    @property
    def holds_out(self) -> bool:
        """True: a validation part says when to stop."""
        return True

    @property
    def satisfies_iia(self) -> bool:
        """What the zoo says of the model; a mean over members of an ensemble has no IIA."""
        return self.blueprint.about.satisfies_iia and not isinstance(self.model_, Ensemble)

    @property
    def default_training(self) -> Options:
        """The options of training where ``training`` leaves them out."""
        return Options()

    @property
    def training_options(self) -> Options:
        """All options of training: those of ``training`` over the defaults."""
        return self.training.over(self.default_training)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of ``__init__``; with ``deep`` also the options, as ``training__epochs``.

        An option that ``training`` leaves to the model's default is None.
        """
        params = super().get_params(deep=False)
        if deep and isinstance(self.training, Training):
            params |= {f"{NESTED}{name}": value for name, value in vars(self.training).items()}
        return params

    def set_params(self: Trained, **params: Any) -> Trained:
        """Change arguments of ``__init__``, or options of training such as ``training__epochs``."""
        options = {name: value for name, value in params.items() if name.startswith(NESTED)}
        super().set_params(**{name: one for name, one in params.items() if name not in options})
        if options:
            self.set_training(**{name[len(NESTED) :]: value for name, value in options.items()})
        return self

    def set_training(self, **options: Any) -> "TrainedEstimator":
        """Change some options of training."""
        self.CHECKS["training"]("training", self.training)
        return self.set_params(training=self.training.changed(**options))

    def members(self, task: int = 0) -> list[Member]:
        """The models of the ensemble, for a population with this task."""
        options = self.training_options
        return [Member(options, int(self.seed) + number, task) for number in range(self.ensemble)]

    def slopes(self, schema: Schema) -> Slopes | None:
        """Slopes to penalise where they go the wrong way, in the columns of a fitted schema."""
        return None

    def members_on(self, schema: Schema, task: int = 0) -> list[Member]:
        """:meth:`members`, with the slopes that they are to have in the columns of a schema."""
        slopes = self.slopes(schema)
        return [replace(one, slopes=slopes) for one in self.members(task)]

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        if validation is None:
            choices, validation = self.parts_of_fit(choices)
        assert validation is not None
        schema, seen = Schema.learn(choices, worst=True)
        valid = schema.over(validation, worst=True)
        task = Task(resident_or_streamed(seen), resident_or_streamed(valid))
        members = self.members_on(schema)
        fits: list[Fit | None]
        with training_bar(type(self).__name__, members, progress) as bar:
            try:
                fits = list(fit_population(
                    self.blueprint, self.sizes(), [task], members, checkpoint_folder=checkpoint,
                    on_epoch=None if bar is None else bar.on_epoch,
                    on_shard=None if bar is None else bar.on_shard,
                ))  # fmt: skip
            except Interrupted as early:
                fits = [early.fits.get(number) for number in range(self.ensemble)]
        check_fits(members, fits)
        self.learned(schema, fits, task)

    def learned(self, schema: Schema, fits: Sequence[Fit | None], task: Task) -> "TrainedEstimator":
        """Take what training gave as this estimator's fitted state: None where it gave no model.

        Members that train alike count alike; where they differ, the validation part says how much
        each counts.
        """
        valid, self.logit_weight_ = task.valid, 0.0
        self.interrupted_ = any(one is None or one.interrupted for one in fits)
        best_epochs = [-1 if one is None else one.best_epoch for one in fits]
        if self.interrupted_:
            warnings.warn(
                f"training was interrupted; keeping the model of epoch {max(best_epochs)}, "
                "the best so far",
                stacklevel=3,
            )
        warn_if_perfect(_without_error(fits, len(valid)), "validation")
        histories = [[] if one is None else list(one.history) for one in fits]
        self.schema_ = schema
        models = [one.model for one in fits if one is not None]
        if self.ensemble == 1:
            self.model_ = jax.device_put(models[0])
            self.history_, self.best_epoch_, self.weights_ = histories[0], best_epochs[0], [1.0]
        else:
            weighed, weight = self.weighed(schema, models, task)
            self.model_ = Ensemble.of(weighed, weight)
            self.history_, self.best_epoch_ = histories, best_epochs
            counts = iter(np.full(len(models), 1 / len(models)) if weight is None else weight)
            self.weights_ = [0.0 if one is None else float(next(counts)) for one in fits]
        if not self.interrupted_:
            self._warn_of_failure(fits, valid)
        return self

    def weighed(
        self, schema: Schema, models: Sequence[Model], task: Task
    ) -> tuple[Sequence[Model], Float[np.ndarray, " models"] | None]:
        """The models of an ensemble, and how much each counts; None if all count alike.

        A last model that is no member is an exact logit, of weight ``logit_weight_``.
        """
        if self._alike():
            return models, None
        size = self.training_options.sets_per_step(len(task.train))
        return models, select(chosen_log_probabilities(models, task.valid, size), task.valid.weight)

    def _warn_of_failure(self, fits: Sequence[Fit | None], valid: Encoded | Encoding) -> None:
        """Say so if members that count learned nothing.

        Only the cross-entropy makes probabilities: the NLL of other objectives means little.
        """
        if self.training_options.objective != "cross_entropy":
            return
        counting = [one for one, weight in zip(fits, self.weights_, strict=True) if one and weight]
        bad = [nll for one in counting if (nll := worse_than_guessing(one, valid)) is not None]
        if not bad:
            return
        who = "the model" if self.ensemble == 1 else f"{len(bad)} of {len(counting)} members"
        warn_of_convergence(
            f"training failed: {who} predicted the validation sets worse than equal chances would "
            f"in every epoch (NLL {min(bad):.4g} at best); use a learning rate below "
            f"{self.training_options.learning_rate:g}, and check the columns for extreme values",
            stacklevel=5,
        )

    def _alike(self) -> bool:
        """Whether members differ in their seeds only."""
        return len({(one.options, one.blueprint) for one in self.members()}) == 1

    def _to_artifact(self) -> Artifact:
        params = self.get_params(deep=False) | {"training": self.training.given()}
        fitted = {name: getattr(self, f"{name}_") for name in FITTED}
        fitted["logit_weight"] = self.logit_weight_
        arrays = named_arrays(self.model_)
        return Artifact(type(self).__name__, params, self.schema_, fitted, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "TrainedEstimator":
        training = Training(**artifact.params["training"])
        # A file has lists where arguments are tuples.
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in artifact.params.items()}
        estimator = cls(**(given | {"training": training}))
        estimator.schema_ = artifact.schema
        estimator.model_ = with_arrays(estimator._skeleton(artifact), artifact.arrays)
        for name in FITTED:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        estimator.logit_weight_ = _logit_weight(artifact)
        return estimator

    def _skeleton(self, artifact: Artifact) -> Model:
        """The fitted model of a file, with shapes in place of weights."""
        width, sizes = artifact.schema.width, self.sizes()
        weights = artifact.fitted["weights"]
        each(_arguments.number(least=0, most=1))("weights", weights)
        if len(weights) != self.ensemble or len(weights) > MOST_MEMBERS:
            raise InputError(f"ensemble={self.ensemble}, and there are {len(weights)} weights")
        if self.ensemble == 1:
            return self.members()[0].recipe(self.blueprint).skeleton(width, sizes)
        kept = [
            member.recipe(self.blueprint).skeleton(width, sizes)
            for member, weight in zip(self.members(), weights, strict=True)
            if weight > 0
        ]
        if _logit_weight(artifact) > 0:
            kept.append(ZOO["mnl"].skeleton(width))
        return Ensemble.skeleton(kept, "weight" in artifact.arrays)


def _logit_weight(artifact: Artifact) -> float:
    """What an exact logit counts in an ensemble; files from before there was one say nothing."""
    weight = artifact.fitted.get("logit_weight", 0.0)
    _arguments.number(least=0, most=1)("logit_weight", weight)
    return float(weight)


def _without_error(fits: Sequence[Fit | None], sets: int) -> bool:
    """Whether a member's best epoch made no error on so many validation sets, or was certain."""
    best = [one.history[one.best_epoch] for one in fits if one is not None and one.history]
    certain = any(one["nll"] < CERTAIN for one in best)
    right = any(one["accuracy"] == 1 for one in best)
    return (sets >= FEWEST_SETS and certain) or (sets >= 5 * FEWEST_SETS and right)


def fit_together(
    estimator: TrainedEstimator | Sequence[TrainedEstimator],
    parts: Sequence[tuple[Choices, Choices]],
    seeds: Sequence[int],
) -> list[TrainedEstimator]:
    """A fitted copy of the estimator for every pair of training and validation sets.

    Each is what ``estimator.set_params(seed=seed).fit(train, validation)`` gives, up to rounding;
    all models of all pairs train as one program, which an accelerator does in little more time than
    one.

    Args:
        estimator: one that trains by gradients, such as ``setwise.SDA()``, or one for each pair,
            which may train in ways of their own; they stay as they are.
        parts: training and validation sets, in memory.
        seeds: one per pair.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=200).choices
    >>> parts = [sw.split(choices, seed=seed)[:2] for seed in (0, 1)]
    >>> small = sw.SDE(2, hidden=4, training=sw.Training(epochs=2))
    >>> [one.seed for one in fit_together(small, parts, seeds=(0, 1))]
    [0, 1]
    """
    each(_pair)("parts", parts)
    each(seed)("seeds", seeds)
    each_with = estimator if isinstance(estimator, Sequence) else [estimator] * len(parts)
    remedy = "give one that trains by gradients, such as setwise.SDA()"
    each(instance(TrainedEstimator, remedy))("estimator", each_with)
    for one in each_with:
        one.check_arguments()
    if not len(parts) == len(seeds) == len(each_with) or not parts:
        raise InputError(
            f"there are {len(parts)} pairs of sets, {len(seeds)} seeds and {len(each_with)} "
            "estimators; give the same number of each, at least one"
        )
    blueprint, sizes = each_with[0].blueprint, each_with[0].sizes()
    if any((one.blueprint, one.sizes()) != (blueprint, sizes) for one in each_with):
        raise InputError("the estimators are of different kinds or sizes; fit each kind by itself")
    fitted = [
        unfitted(one).set_params(seed=seed) for one, seed in zip(each_with, seeds, strict=True)
    ]
    learned = [Schema.learn(trainable(train), worst=True) for train, _ in parts]
    valid = [comparable(trainable(valid, "validation"), train) for train, valid in parts]
    tasks = [
        Task(seen.encoded(), schema.encode(sets, worst=True))
        for (schema, seen), sets in zip(learned, valid, strict=True)
    ]
    members = [
        member
        for task, (one, (schema, _)) in enumerate(zip(fitted, learned, strict=True))
        for member in one.members_on(schema, task)
    ]
    fits = fit_population(blueprint, sizes, tasks, members)
    check_fits(members, fits, name_tasks=True)
    made = iter(fits)
    for one, (schema, _), task in zip(fitted, learned, tasks, strict=True):
        one.learned(schema, list(islice(made, one.ensemble)), task)
    return fitted


def _pair(name: str, value: Any) -> None:
    """Training and validation sets."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InputError(
            f"{name} must be a pair of training and validation sets, such as "
            "setwise.split(choices, (0.8, 0.2))"
        )

"""Estimators of the paper's models, trained by gradients: SDW, SDE and SDA."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, cycle, islice
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from setwise._arguments import Check, each, flag, number, one_of, optional, or_word, whole
from setwise._errors import InputError
from setwise.choices import Encoded, Schema
from setwise.estimators.logit import MNL
from setwise.estimators.monotone import encoded_signs, is_monotone
from setwise.estimators.trained import TrainedEstimator
from setwise.models import ZOO, Blueprint, Model, Sizes
from setwise.training import (
    Member,
    Options,
    Task,
    Training,
    beyond_chance,
    chosen_log_probabilities,
    select,
)
from setwise.training.population_plan import in_memory
from setwise.training.slopes import Slopes

RANKNET = Options(objective="pairwise", stop_on="accuracy")
PAPER = Training(learning_rate=1e-3, dropout=0.1)
LEAST_STEPS = 8
"""Per epoch of SDA. Of 100 sets one batch would be all, and a patience of 25 epochs 25 steps."""
MOST_PRODUCTS = 2e8
"""Rows times squared columns, up to which the exact logit is solved in about a second."""


class SDAKind(NamedTuple):
    """A kind of member of SDA's ensemble: its entry of the zoo, and how it trains otherwise.

    ``weight_decays`` are those of a round: little for rich data, much for little or noisy data.
    ``patience`` and ``epochs`` are the most; the options of the estimator may be less.
    """

    blueprint: str
    weight_decays: tuple[float, ...]
    training: Mapping[str, Any] = MappingProxyType({})
    patience: int = sys.maxsize
    epochs: int = sys.maxsize


SDA_KINDS: Mapping[str, SDAKind] = {
    "pieces": SDAKind("sda", (0.3, 3.0)),
    "straight": SDAKind("sda_straight", (0.3, 1.0)),
    # They know the training sets by heart after a few epochs. After forty the rate is a seventieth
    # of what it was, and training only goes on where data are few.
    "fine": SDAKind(
        "sda_fine", (0.3, 1.0), {"dropout": 0.4, "decay": 0.9, "decay_every": 1}, 6, 40
    ),
}
"""The members of SDA's ensemble by name, in the order in which their rounds come.

"pieces" are linear in pieces of x, "straight" are linear in x, and "fine" have fine pieces and a
hidden layer in F.
"""


NETWORK_CHECKS: Mapping[str, Check] = {
    **TrainedEstimator.CHECKS,
    "dimension": whole(),
    "hidden": whole(),
    "wiring": one_of("joint", "shared"),
}
"""Of the arguments that all these estimators have."""


class ChoiceModel(TrainedEstimator):
    """Any model of the zoo by its name, trained by gradients.

    Args:
        model: the name; :func:`setwise.zoo` lists them.
        dimension: l, the number of score functions, where the model has them.
        components: k, the size of the vectors that models with the inner comparison compare.
        hidden: units in each layer of networks.
        wiring: "joint" or "shared" set networks.
        training: how to train; what it leaves out has the model's default. "ranknet" has the
            pairwise objective and stops on accuracy.
        ensemble: how many models with seeds of their own to average.
        seed: of the initial weights, the order of the sets and dropout.

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.generate("mnl", sets=400).choices)
    >>> model = ChoiceModel("lam", dimension=4, training=sw.Training(epochs=5)).fit(train, valid)
    >>> model.predict(test).sum() == len(test)
    np.True_
    """

    CHECKS: ClassVar = {**NETWORK_CHECKS, "model": one_of(*ZOO), "components": whole()}

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
        one_of(*ZOO)("model", self.model)
        return ZOO[self.model]

    @property
    def default_training(self) -> Options:
        return RANKNET if self.model == "ranknet" else Options()

    def sizes(self) -> Sizes:
        return Sizes(self.dimension, self.components, self.hidden, self.wiring)


class SDW(TrainedEstimator):
    """Set-dependent weights: g(x, s) = < w(s), F(x) >.

    Args:
        dimension: l, the number of score functions.
        hidden: units in each layer of the set network.
        wiring: "joint" (one network sees all scores) or "shared" (one for each score alone).
        training: how to train; what it leaves out has the default of :class:`setwise.Training`.
        ensemble: how many models with seeds of their own to average.
        seed: of the initial weights, the order of the sets and dropout.

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.generate("mnl", sets=400).choices)
    >>> model = SDW(dimension=4, training=sw.Training(epochs=5)).fit(train, valid)
    >>> bool(model.score(test) > 0.1)
    True
    """

    CHECKS: ClassVar = NETWORK_CHECKS

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
    """Set-dependent aggregation: g(x, s) = < w(s), mu(F(x) - r(s)) > + < b, x >.

    x is an item's features and where it stands in its set (z-score and position of each), and all
    of these in pieces: what is linear in x is piecewise linear in them. < b, x > is a logit of x,
    from which training starts. Six models are trained, each kind with two weight decays. Two are of
    the kind "pieces"; two are "straight", without pieces; two are "fine", in fine pieces with a
    hidden layer in F, which learn what items and sets that come back have of their own. The
    validation part says how much each counts: on little data the decayed ones, which are nearly
    logits, on rich data the others. If their gain over the exact logit (:class:`MNL`, penalised) is
    below three of its standard errors, as with few sets, it may be chance, and the logit counts
    too: as much as makes the gain less one standard error largest, and 10 / (n + 10) at least if
    n < 500 sets validate. ``logit_weight_`` says how much.
    ``SDA.paper()`` is the paper's model, < w(s), mu(< F(x), r(s) >) >, with nothing of this.

    Args:
        dimension: l, the number of score functions.
        comparison: "difference" (f_i(x) - r_i(s), the paper's Eq. 5) or "inner"
            (< f_i(x), r_i(s) >, the paper's experiments).
        within_set: whether items are seen among the others, beside < b, x >, and in pieces; for
            "difference" only.
        components: k, the size of the vectors that "inner" compares.
        hidden: units in each layer of the set networks.
        wiring: "joint" (one network sees all scores) or "shared" (one for each score alone).
        training: how to train; what it leaves out has the default of :class:`setwise.Training`,
            but for a learning rate of 0.003, and for the batches of few sets: 128 is halved until
            an epoch has eight steps (with ``within_set=True``).
        weight_decays: the members of the ensemble take these in turn, and a single model the first.
            With None, all have that of ``training``. If ``training`` gives no weight decay, "auto"
            is two per kind for an ensemble (0.3 and 3 for "pieces", 0.3 and 1 for the others), and
            None otherwise.
        kinds: the kinds of members of an ensemble ("pieces", "straight" and "fine"). Those in fine
            pieces cost most to score; kinds=("pieces", "straight") with ensemble=4 leaves them
            out. Only for within_set=True; a single model is of the first kind.
        monotone: by item column, 1 if the probability of an item should not fall where its value
            rises, and -1 if it should not rise: ``monotone={"price": -1}``. Training is penalised
            for steps that go the other way (:mod:`setwise.training.slopes`). **This is no
            guarantee**: :func:`setwise.audit` measures what is left. ``MNL``, ``MixedLogit``,
            ``BoostedLogit`` and ``Auto`` guarantee it.
        monotone_strength: of that penalty: nats per choice, where half a standard deviation of a
            column moves log P the wrong way by a half.
        ensemble: how many models to average. They come in rounds: a round has one kind, one seed,
            and one member per weight decay. :meth:`member_names` lists them.
        seed: of the initial weights, the order of the sets and dropout.

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.generate("mnl", sets=400).choices)
    >>> model = SDA(dimension=4, ensemble=3, training=sw.Training(epochs=5)).fit(train, valid)
    >>> model.predict_proba(test).shape == test.rows.shape
    True
    """

    CHECKS: ClassVar = {
        **NETWORK_CHECKS,
        "comparison": one_of("difference", "inner"),
        "within_set": flag,
        "components": whole(),
        "weight_decays": optional(or_word("auto", each(number(least=0)))),
        "kinds": each(one_of(*SDA_KINDS)),
        "monotone": is_monotone,
        "monotone_strength": number(above=0),
    }

    def __init__(
        self,
        dimension: int = 24,
        *,
        comparison: Literal["difference", "inner"] = "difference",
        within_set: bool = True,
        components: int = 16,
        hidden: int = 16,
        wiring: Literal["joint", "shared"] = "joint",
        training: Training = Training(),  # noqa: B008 (frozen)
        weight_decays: Sequence[float] | Literal["auto"] | None = "auto",
        kinds: Sequence[str] = tuple(SDA_KINDS),
        monotone: Mapping[str, int] | None = None,
        monotone_strength: int | float = 3.0,
        ensemble: int = 6,
        seed: int = 0,
    ):
        self.dimension = dimension
        self.comparison = comparison
        self.within_set = within_set
        self.components = components
        self.hidden = hidden
        self.wiring = wiring
        self.training = training
        self.weight_decays = weight_decays
        self.kinds = kinds
        self.monotone = monotone
        self.monotone_strength = monotone_strength
        self.ensemble = ensemble
        self.seed = seed

    @classmethod
    def paper(cls, dimension: int = 24, **changed: Any) -> "SDA":
        """The model of the paper's experiments; arguments as of ``SDA`` change it.

        What ``training`` leaves out is as for ``SDA``, but for a learning rate of 0.001 and a
        dropout of 0.1.

        >>> SDA.paper(8).blueprint.about.formula
        '<w(s), mu(<F(x), r(s)>)>'
        >>> SDA.paper(8, training=Training(epochs=20)).training
        Training(epochs=20, learning_rate=0.001, dropout=0.1)
        """
        arguments: dict[str, Any] = {
            "comparison": "inner", "within_set": False, "weight_decays": None, "ensemble": 1,
            "training": PAPER,
        }  # fmt: skip
        arguments |= changed
        if isinstance(arguments["training"], Training):  # fit says so if it is something else
            arguments["training"] = PAPER.changed(**arguments["training"].given())
        return cls(dimension, **arguments)

    @property
    def blueprint(self) -> Blueprint:
        if self.comparison == "difference":
            return ZOO["sda" if self.within_set else "sda_difference"]
        if self.within_set:
            raise InputError(
                'within_set=True compares by differences; use comparison="difference", or '
                "within_set=False"
            )
        return ZOO["sda_inner"]

    def check_arguments(self) -> None:
        super().check_arguments()
        _ = self.blueprint, self._weight_decays()  # refuse what does not go together

    @property
    def default_training(self) -> Options:
        given = self.training.batch_size is not None or not self.within_set
        return Options(learning_rate=3e-3, least_steps=1 if given else LEAST_STEPS)

    def slopes(self, schema: Schema) -> Slopes | None:
        signs = encoded_signs(self.monotone, schema)
        return Slopes(tuple(signs.items()), float(self.monotone_strength)) if signs else None

    def set_training(self, **options: Any) -> TrainedEstimator:
        """Change some options of training; a weight decay then holds for all members."""
        if options.get("weight_decay") is not None:
            self.weight_decays = None
        return super().set_training(**options)

    def weighed(
        self, schema: Schema, models: Sequence[Model], task: Task
    ) -> tuple[Sequence[Model], Float[np.ndarray, " models"] | None]:
        """With an exact logit as the last, where members may be ahead of it by chance."""
        comparable = self.training_options.objective == "cross_entropy" and not self._alike()
        if not (comparable and task.resident and _quickly_solved(in_memory(task.train))):
            return super().weighed(schema, models, task)
        train, valid = map(in_memory, task)
        size = self.training_options.sets_per_step(len(train))
        logit, log_p = MNL(monotone=self.monotone), chosen_log_probabilities(models, valid, size)
        of_logit = logit.solve(schema, train, valid)
        weights = beyond_chance(
            np.vstack([of_logit, log_p]),
            np.concatenate([[0.0], select(log_p, valid.weight)]),
            valid.weight,
        )
        self.logit_weight_ = float(weights[0])
        if not self.logit_weight_:
            return models, weights[1:]
        return [*models, logit.model_], np.roll(weights, -1)

    def members(self, task: int = 0) -> list[Member]:
        """In rounds of one kind and one seed, one member per weight decay."""
        return [self._member(kind, seed, decay, task) for kind, seed, decay in self._rounds()]

    def member_names(self) -> list[str]:
        """What each member of the ensemble is.

        >>> for name in SDA().member_names():
        ...     print(name)
        pieces, weight decay 0.3, seed 0
        pieces, weight decay 3, seed 0
        straight, weight decay 0.3, seed 1
        straight, weight decay 1, seed 1
        fine, weight decay 0.3, seed 2
        fine, weight decay 1, seed 2
        """
        named = "{}, weight decay {:g}, seed {}"
        return [named.format(kind or "sda", decay, seed) for kind, seed, decay in self._rounds()]

    def _rounds(self) -> list[tuple[str | None, int, float]]:
        """Kind, seed and weight decay of every member; models that have no kinds have None."""
        kinds = self.kinds if self.blueprint == ZOO["sda"] else (None,)
        each_member = (
            (kind, seed, decay)
            for seed, kind in zip(count(int(self.seed)), cycle(kinds), strict=False)
            for decay in self._weight_decays(kind)
        )
        return list(islice(each_member, self.ensemble))

    def _member(self, name: str | None, seed: int, decay: float, task: int) -> Member:
        options = replace(self.training_options, weight_decay=decay)
        if name is None:
            return Member(options, seed, task)
        kind = SDA_KINDS[name]
        options = replace(
            options, **kind.training, patience=min(options.patience, kind.patience),
            epochs=min(options.epochs, kind.epochs),
        )  # fmt: skip
        blueprint = ZOO[kind.blueprint]
        return Member(options, seed, task, None if blueprint == self.blueprint else blueprint)

    def sizes(self) -> Sizes:
        return Sizes(self.dimension, self.components, self.hidden, self.wiring)

    def _weight_decays(self, kind: str | None = None) -> tuple[float, ...]:
        """Those that the members of a round take in turn."""
        if self.weight_decays is not None and not isinstance(self.weight_decays, str):
            if self.training.weight_decay is not None:
                raise InputError(
                    f"weight_decays={self.weight_decays} and a training with weight_decay="
                    f"{self.training.weight_decay} contradict each other; leave one of them out"
                )
            return tuple(self.weight_decays)
        given = self.weight_decays is None or self.training.weight_decay is not None
        if given or self.ensemble == 1:
            return (self.training_options.weight_decay,)
        return SDA_KINDS[kind or "pieces"].weight_decays


def _quickly_solved(train: Encoded) -> bool:
    """Whether an exact logit of these sets takes little time."""
    return train.items.size * train.items.shape[1] <= MOST_PRODUCTS

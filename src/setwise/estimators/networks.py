"""Estimators of the paper's models, trained by gradients: SDW, SDE and SDA."""

from typing import Literal

from setwise._errors import InputError
from setwise.estimators.trained import TrainedEstimator
from setwise.models import ZOO, Blueprint, Sizes
from setwise.training import (
    Training,
)

# Two networks and vectors of 16 overfit sooner than SDW and SDE do: on Swissmetro (10 splits) this
# takes SDA's NLL from 0.695 to 0.690, and does nothing for the others.
SDA_TRAINING = Training(dropout=0.1)


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

"""The scikit-learn face of the models, and the one place where a name becomes an estimator."""

from setwise.estimators.auto import Auto, AutoMember, AutoSummary
from setwise.estimators.base import Estimator
from setwise.estimators.basic import RandomChoice, SingleFeature
from setwise.estimators.boosting import BoostedLogit, LambdaMART
from setwise.estimators.catalogue import (
    CATALOGUE,
    CLASSES,
    Entry,
    configured,
    everyone,
    load,
    named,
    zoo,
)
from setwise.estimators.cross_nested import CrossNestedLogit
from setwise.estimators.latent import LatentClass
from setwise.estimators.logit import MNL, LinearContextLogit, WithinSetMNL, reference_mnl
from setwise.estimators.mixed import MixedMNL
from setwise.estimators.mixed_logit import MixedLogit
from setwise.estimators.nested import NestedLogit
from setwise.estimators.networks import SDA, SDE, SDW, ChoiceModel
from setwise.estimators.rankers import AdaRank, SVMRank
from setwise.estimators.summary import Summary
from setwise.estimators.trained import TrainedEstimator, fit_together

__all__ = [
    "CATALOGUE",
    "CLASSES",
    "MNL",
    "SDA",
    "SDE",
    "SDW",
    "AdaRank",
    "Auto",
    "AutoMember",
    "AutoSummary",
    "BoostedLogit",
    "ChoiceModel",
    "CrossNestedLogit",
    "Entry",
    "Estimator",
    "LambdaMART",
    "LatentClass",
    "LinearContextLogit",
    "MixedLogit",
    "MixedMNL",
    "NestedLogit",
    "RandomChoice",
    "SVMRank",
    "SingleFeature",
    "Summary",
    "TrainedEstimator",
    "WithinSetMNL",
    "configured",
    "everyone",
    "fit_together",
    "load",
    "named",
    "reference_mnl",
    "zoo",
]

"""The scikit-learn face of the models, and the one place where a name becomes an estimator."""

from typing import TYPE_CHECKING

from setwise._later import later

if TYPE_CHECKING:
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

__getattr__ = later(
    __name__,
    {
        "Auto": "setwise.estimators.auto",
        "AutoMember": "setwise.estimators.auto",
        "AutoSummary": "setwise.estimators.auto",
        "Estimator": "setwise.estimators.base",
        "RandomChoice": "setwise.estimators.basic",
        "SingleFeature": "setwise.estimators.basic",
        "BoostedLogit": "setwise.estimators.boosting",
        "LambdaMART": "setwise.estimators.boosting",
        "CATALOGUE": "setwise.estimators.catalogue",
        "CLASSES": "setwise.estimators.catalogue",
        "Entry": "setwise.estimators.catalogue",
        "configured": "setwise.estimators.catalogue",
        "everyone": "setwise.estimators.catalogue",
        "load": "setwise.estimators.catalogue",
        "named": "setwise.estimators.catalogue",
        "zoo": "setwise.estimators.catalogue",
        "CrossNestedLogit": "setwise.estimators.cross_nested",
        "LatentClass": "setwise.estimators.latent",
        "MNL": "setwise.estimators.logit",
        "LinearContextLogit": "setwise.estimators.logit",
        "WithinSetMNL": "setwise.estimators.logit",
        "reference_mnl": "setwise.estimators.logit",
        "MixedMNL": "setwise.estimators.mixed",
        "MixedLogit": "setwise.estimators.mixed_logit",
        "NestedLogit": "setwise.estimators.nested",
        "SDA": "setwise.estimators.networks",
        "SDE": "setwise.estimators.networks",
        "SDW": "setwise.estimators.networks",
        "ChoiceModel": "setwise.estimators.networks",
        "AdaRank": "setwise.estimators.rankers",
        "SVMRank": "setwise.estimators.rankers",
        "Summary": "setwise.estimators.summary",
        "TrainedEstimator": "setwise.estimators.trained",
        "fit_together": "setwise.estimators.trained",
    },
)

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

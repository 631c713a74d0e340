"""setwise predicts which item people choose from a set.

>>> import setwise as sw
>>> choices = sw.datasets.load("swissmetro")
>>> train, valid, test = sw.split(choices, seed=0)
>>> model = sw.MNL().fit(train)
>>> round(model.evaluate(test).top1, 1)
0.7
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names are found on first use: JAX is slow to import, and `setwise --help` does not need it.
_HOMES = {
    "Aggregation": "setwise.models",
    "Card": "setwise.scoring",
    "Choices": "setwise.choices",
    "DataWarning": "setwise._errors",
    "InputError": "setwise._errors",
    "MNL": "setwise.estimators",
    "SDA": "setwise.estimators",
    "SDE": "setwise.estimators",
    "SDW": "setwise.estimators",
    "Schema": "setwise.choices",
    "Training": "setwise.training",
    "Range": "setwise.tuning",
    "Tuning": "setwise.tuning",
    "tune": "setwise.tuning",
    "compare": "setwise.comparison",
    "AdaRank": "setwise.estimators",
    "Auto": "setwise.estimators",
    "BoostedLogit": "setwise.estimators",
    "ChoiceModel": "setwise.estimators",
    "LambdaMART": "setwise.estimators",
    "LinearContextLogit": "setwise.estimators",
    "CrossNestedLogit": "setwise.estimators",
    "LatentClass": "setwise.estimators",
    "MixedLogit": "setwise.estimators",
    "MixedMNL": "setwise.estimators",
    "NestedLogit": "setwise.estimators",
    "RandomChoice": "setwise.estimators",
    "SVMRank": "setwise.estimators",
    "SingleFeature": "setwise.estimators",
    "WithinSetMNL": "setwise.estimators",
    "load": "setwise.estimators",
    "zoo": "setwise.estimators",
    "examine": "setwise.doctor",
    "open_choices": "setwise.choices",
    "Utility": "setwise.choices",
    "read": "setwise.choices",
    "read_wide": "setwise.choices",
    "save_choices": "setwise.choices",
    "split": "setwise.choices",
    "audit": "setwise.auditing",
    "violation_capacity": "setwise.violations",
    "ben_akiva_swait": "setwise.inference",
    "likelihood_ratio": "setwise.inference",
    "results_table": "setwise.inference",
    "score_test": "setwise.inference",
    "vuong": "setwise.inference",
    "wald": "setwise.inference",
}
_ROOMS = {
    "auditing": "setwise.auditing",
    "choices": "setwise.choices",
    "comparison": "setwise.comparison",
    "consequences": "setwise.consequences",
    "datasets": "setwise.datasets",
    "decide": "setwise.decide",
    "doctor": "setwise.doctor",
    "estimators": "setwise.estimators",
    "inference": "setwise.inference",
    "metrics": "setwise.metrics",
    "models": "setwise.models",
    "paper": "setwise.paper",
    "plots": "setwise.reports.plots",
    "reports": "setwise.reports",
    "scoring": "setwise.scoring",
    "training": "setwise.training",
    "tuning": "setwise.tuning",
    "violations": "setwise.violations",
}

if TYPE_CHECKING:
    from setwise import (
        auditing,
        choices,
        comparison,
        consequences,
        datasets,
        decide,
        doctor,
        estimators,
        inference,
        metrics,
        models,
        paper,
        reports,
        scoring,
        training,
        tuning,
        violations,
    )
    from setwise._errors import DataWarning, InputError
    from setwise.auditing import audit
    from setwise.choices import (
        Choices,
        Schema,
        Utility,
        open_choices,
        read,
        read_wide,
        save_choices,
        split,
    )
    from setwise.comparison.comparison import compare
    from setwise.doctor import examine
    from setwise.estimators import (
        MNL,
        SDA,
        SDE,
        SDW,
        AdaRank,
        Auto,
        BoostedLogit,
        ChoiceModel,
        CrossNestedLogit,
        LambdaMART,
        LatentClass,
        LinearContextLogit,
        MixedLogit,
        MixedMNL,
        NestedLogit,
        RandomChoice,
        SingleFeature,
        SVMRank,
        WithinSetMNL,
        load,
        zoo,
    )
    from setwise.inference import (
        ben_akiva_swait,
        likelihood_ratio,
        results_table,
        score_test,
        vuong,
        wald,
    )
    from setwise.models import Aggregation
    from setwise.reports import plots
    from setwise.scoring import Card
    from setwise.training import Training
    from setwise.tuning import Range, Tuning, tune
    from setwise.violations import violation_capacity


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in _ROOMS:
        raise AttributeError(f"module 'setwise' has no attribute '{name}'")
    try:
        home = importlib.import_module(_HOMES.get(name) or _ROOMS[name])
        value = getattr(home, name) if name in _HOMES else home
    except ModuleNotFoundError as error:  # an installation for scoring alone
        raise ImportError(
            f"setwise.{name} needs the package {error.name}; install what setwise needs: "
            "pip install setwise (setwise.scoring alone needs NumPy)"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_ROOMS, "__version__"])


__all__ = [
    "MNL",
    "SDA",
    "SDE",
    "SDW",
    "AdaRank",
    "Aggregation",
    "Auto",
    "BoostedLogit",
    "Card",
    "ChoiceModel",
    "Choices",
    "CrossNestedLogit",
    "DataWarning",
    "InputError",
    "LambdaMART",
    "LatentClass",
    "LinearContextLogit",
    "MixedLogit",
    "MixedMNL",
    "NestedLogit",
    "RandomChoice",
    "Range",
    "SVMRank",
    "Schema",
    "SingleFeature",
    "Training",
    "Tuning",
    "Utility",
    "WithinSetMNL",
    "audit",
    "auditing",
    "ben_akiva_swait",
    "choices",
    "compare",
    "comparison",
    "consequences",
    "datasets",
    "decide",
    "doctor",
    "estimators",
    "examine",
    "inference",
    "likelihood_ratio",
    "load",
    "metrics",
    "models",
    "open_choices",
    "paper",
    "plots",
    "read",
    "read_wide",
    "reports",
    "results_table",
    "save_choices",
    "score_test",
    "scoring",
    "split",
    "training",
    "tune",
    "tuning",
    "violation_capacity",
    "violations",
    "vuong",
    "wald",
    "zoo",
]

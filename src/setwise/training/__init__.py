"""Training: it knows data and models; neither knows it."""

from typing import TYPE_CHECKING

from setwise._later import later

if TYPE_CHECKING:
    from setwise.training.evaluation import (
        Validation,
        chosen_log_probabilities,
        row_log_probabilities,
    )
    from setwise.training.mixing import beyond_chance, mixture, select
    from setwise.training.newton import Optimum, maximise
    from setwise.training.options import Options, Training
    from setwise.training.population import (
        Elsewhere,
        Interrupted,
        OnEpoch,
        check_fits,
        fit,
        fit_population,
    )
    from setwise.training.population_plan import Member, Task, trials_together
    from setwise.training.shards import resident_or_streamed
    from setwise.training.stopping import Fit, worse_than_guessing
    from setwise.training.trainer import OnShard, Prune

__getattr__ = later(
    __name__,
    {
        "Validation": "setwise.training.evaluation",
        "row_log_probabilities": "setwise.training.evaluation",
        "chosen_log_probabilities": "setwise.training.evaluation",
        "beyond_chance": "setwise.training.mixing",
        "mixture": "setwise.training.mixing",
        "select": "setwise.training.mixing",
        "Optimum": "setwise.training.newton",
        "maximise": "setwise.training.newton",
        "Options": "setwise.training.options",
        "Training": "setwise.training.options",
        "Elsewhere": "setwise.training.population",
        "Interrupted": "setwise.training.population",
        "OnEpoch": "setwise.training.population",
        "check_fits": "setwise.training.population",
        "fit": "setwise.training.population",
        "fit_population": "setwise.training.population",
        "Member": "setwise.training.population_plan",
        "Task": "setwise.training.population_plan",
        "trials_together": "setwise.training.population_plan",
        "resident_or_streamed": "setwise.training.shards",
        "Fit": "setwise.training.stopping",
        "worse_than_guessing": "setwise.training.stopping",
        "OnShard": "setwise.training.trainer",
        "Prune": "setwise.training.trainer",
    },
)

__all__ = [
    "Elsewhere",
    "Fit",
    "Interrupted",
    "Member",
    "OnEpoch",
    "OnShard",
    "Optimum",
    "Options",
    "Prune",
    "Task",
    "Training",
    "Validation",
    "beyond_chance",
    "check_fits",
    "chosen_log_probabilities",
    "fit",
    "fit_population",
    "maximise",
    "mixture",
    "resident_or_streamed",
    "row_log_probabilities",
    "select",
    "trials_together",
    "worse_than_guessing",
]

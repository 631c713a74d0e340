"""Training: it knows data and models; neither knows it."""

from setwise import _engine
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

_engine.set_up()

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

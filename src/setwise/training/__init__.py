"""Training: it knows data and models; neither knows it."""

from setwise import _engine
from setwise.training.evaluation import Validation, row_log_probabilities, weigh
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
    "check_fits",
    "fit",
    "fit_population",
    "maximise",
    "resident_or_streamed",
    "row_log_probabilities",
    "trials_together",
    "weigh",
    "worse_than_guessing",
]

"""Training: it knows data and models; neither knows it."""

from setwise import _engine
from setwise.training.chunk import Prune
from setwise.training.evaluation import Validation, row_log_probabilities, weigh
from setwise.training.fitting import Fit, OnEpoch, OnShard, fit, worse_than_guessing
from setwise.training.newton import Optimum, maximise
from setwise.training.options import Options, Training
from setwise.training.population import Elsewhere, Interrupted, fit_population
from setwise.training.population_plan import Member, Task, trials_together
from setwise.training.processes import alone
from setwise.training.shards import resident_or_streamed

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
    "alone",
    "fit",
    "fit_population",
    "maximise",
    "resident_or_streamed",
    "row_log_probabilities",
    "trials_together",
    "weigh",
    "worse_than_guessing",
]

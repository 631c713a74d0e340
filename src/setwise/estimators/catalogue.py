"""The zoo as users see it: every model by name, what it is, and the estimator that fits it.

Model files hold the names of estimators, so that loading one is here too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from setwise._arguments import instance, one_of, text
from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._tensorfile import made_elsewhere
from setwise.estimators.auto import Auto
from setwise.estimators.base import Estimator
from setwise.estimators.basic import RandomChoice, SingleFeature
from setwise.estimators.boosting import BoostedLogit, LambdaMART
from setwise.estimators.cross_nested import CrossNestedLogit
from setwise.estimators.latent import LatentClass
from setwise.estimators.logit import MNL, LinearContextLogit, WithinSetMNL
from setwise.estimators.maximum_likelihood import Estimated
from setwise.estimators.mixed import MixedMNL
from setwise.estimators.mixed_logit import MixedLogit
from setwise.estimators.nested import NestedLogit
from setwise.estimators.networks import SDA, SDE, SDW, ChoiceModel
from setwise.estimators.rankers import AdaRank, SVMRank
from setwise.estimators.trained import TrainedEstimator
from setwise.models import ZOO, About, Sizes
from setwise.models.zoo import ABLATIONS, CLASSICAL
from setwise.scoring.model_file import Artifact
from setwise.training import Training

Make = Callable[[], Estimator]

PAPER_TRAINING = Training(decoupled_weight_decay=False, stop_on="accuracy", patience=25)


@dataclass(frozen=True)
class Entry:
    """One model of the zoo.

    ``make`` gives its estimator with default arguments, ``paper`` with the paper's sizes and
    stopping rule where they differ.
    """

    name: str
    about: About
    make: Make
    paper: Make | None = None

    def parameters(self, features: int = 8) -> int | None:
        """The number of parameters with so many features; None if it depends on the data."""
        if self.name in _COUNTS:
            return _COUNTS[self.name](features)
        estimator = self.make()
        sizes = estimator.sizes() if isinstance(estimator, TrainedEstimator) else Sizes()
        return ZOO[self.name].parameters(features, sizes)


# What fits a model of the zoo, where it is not gradient training with default arguments.
_MAKERS: Mapping[str, Make] = {
    "mnl": MNL,
    "sdw": SDW,
    "sde": SDE,
    "sda": SDA,
    "sda_inner": SDA.paper,
    "sda_difference": partial(SDA.paper, comparison="difference"),
    "lcl": LinearContextLogit,
    "mnl_within_set": WithinSetMNL,
    "mixed_mnl": MixedMNL,
    "ranknet": partial(ChoiceModel, "ranknet", hidden=32),
    "mlp": partial(ChoiceModel, "mlp", hidden=64),
    "deep_sets": partial(ChoiceModel, "deep_sets", hidden=64),
    "fate": partial(ChoiceModel, "fate", hidden=64),
    "set_transformer": partial(ChoiceModel, "set_transformer", hidden=32),
}

# The paper trains all of these by gradients, with early stopping and tuned weight decay: on few
# sets that is not the maximum of the likelihood.
_TRAINED_IN_THE_PAPER = ("mnl", "mixed_mnl", *ABLATIONS, *CLASSICAL)
_PAPER: Mapping[str, Make] = {
    name: partial(ChoiceModel, name, training=PAPER_TRAINING) for name in _TRAINED_IN_THE_PAPER
} | {
    "sdw": partial(SDW, training=PAPER_TRAINING),
    "sde": partial(SDE, training=PAPER_TRAINING),
    "sda": partial(SDA.paper, training=PAPER_TRAINING),
    "sda_inner": partial(SDA.paper, training=PAPER_TRAINING),
    "sda_difference": partial(SDA.paper, comparison="difference", training=PAPER_TRAINING),
    "ranknet": partial(ChoiceModel, "ranknet", hidden=512, training=PAPER_TRAINING),
    "deep_sets": partial(ChoiceModel, "deep_sets", hidden=256, training=PAPER_TRAINING),
}

_COUNTS: Mapping[str, Callable[[int], int | None]] = {
    "svmrank": lambda d: d,
    "adarank": lambda d: d,
    "single_feature": lambda d: 1,
    "random": lambda d: 0,
    "nested": lambda d: None,
    "mixed_mnl": lambda d: None,
    "latent_class": lambda d: None,
    "mixed_logit": lambda d: 2 * d,
    "lambdamart": lambda d: None,
    "boosted_logit": lambda d: None,
    "auto": lambda d: None,
}

_BESIDE = (
    Entry(
        "nested",
        About(
            "non-IIA", "V(x) / lambda_k + (lambda_k - 1) I_k", "McFadden 1978", False,
            "When you know groups of similar items, such as modes or brands, and groups of these.",
        ),
        partial(NestedLogit, "nest"),
    ),
    Entry(
        "latent_class",
        About(
            "non-IIA", "log sum_k pi_k(z) softmax_s(<b_k, x>)", "Kamakura and Russell 1989", False,
            "People of a few kinds, told by all their choices and by what you know of them.",
        ),
        LatentClass,
    ),
    Entry(
        "mixed_logit",
        About(
            "non-IIA", "log E_beta softmax_s(<beta, x>)", "McFadden and Train 2000; Train 2009",
            False, "When each person chooses several times and people differ in taste.",
        ),
        MixedLogit,
    ),
    Entry(
        "svmrank",
        About(
            "IIA", "<theta, x>, pairwise hinge", "Joachims 2002", True,
            "A linear ranker for top-1 accuracy; its probabilities are an afterthought.",
        ),
        SVMRank,
    ),
    Entry(
        "adarank",
        About(
            "non-IIA", "sum_t alpha_t x_t, boosted on the reciprocal rank", "Xu and Li 2007", True,
            "Boosted single features; the paper lists it as non-IIA, but its score obeys IIA.",
        ),
        AdaRank,
    ),
    Entry(
        "single_feature",
        About(
            "basic", "x_i or -x_i", "price or quality in the paper", True,
            "The floor that a model must beat: the cheapest, or the best rated.",
        ),
        SingleFeature,
    ),
    Entry(
        "random",
        About("basic", "0", "the paper's Random row", True, "What chance gives, exactly."),
        RandomChoice,
    ),
    Entry(
        "auto",
        About(
            "non-IIA", "log sum_m w_m P_m(x | s)", "setwise's default", False,
            "The best prediction without tuning: logits, boosted trees and SDA, weighed.",
        ),
        Auto,
    ),
    Entry(
        "boosted_logit",
        About(
            "non-IIA", "a sum of regression trees of x in s", "Friedman 2001; LightGBM", False,
            "Sharp effects: thresholds, exact levels, interactions; monotone where asked.",
        ),
        BoostedLogit,
    ),
    Entry(
        "lambdamart",
        About(
            "IIA", "a sum of regression trees of x", "Burges 2010; LightGBM", True,
            "The outside rival: boosted trees that rank.",
        ),
        LambdaMART,
    ),
)  # fmt: skip

CATALOGUE: Mapping[str, Entry] = {
    name: Entry(
        name, blueprint.about, _MAKERS.get(name, partial(ChoiceModel, name)), _PAPER.get(name)
    )
    for name, blueprint in ZOO.items()
} | {entry.name: entry for entry in _BESIDE}
"""All entries by name: the models of :data:`setwise.models.ZOO` and those without a network."""


def zoo() -> tuple[Entry, ...]:
    """All models of setwise, by family; :data:`CATALOGUE` has them by name.

    >>> [entry.name for entry in zoo() if entry.about.family == "basic"]
    ['single_feature', 'random']
    """
    return tuple(CATALOGUE.values())


def everyone() -> list[str]:
    """The names of all models that can be trained on any table: all but the nested logit.

    That one needs a column of nests.
    """
    return [name for name in CATALOGUE if name != "nested"]


def named(name: str, preset: Literal["default", "paper"] = "default") -> Estimator:
    """The estimator of this name, with default arguments or with the paper's.

    A name means the same in ``named``, ``compare``, ``tune``, ``setwise fit --model`` and the zoo:
    "sda" is ``SDA()``. Only ``preset="paper"`` changes it, to the model and the training of the
    paper: "sda" is then ``SDA.paper()``, whose architecture the zoo lists as "sda_inner".

    >>> named("sda")
    SDA()
    >>> named("deep_sets", preset="paper").hidden
    256
    """
    one_of("default", "paper")("preset", preset)
    text("name", name)
    if name not in CATALOGUE:
        raise InputError(f"there is no model '{name}'; there are: {', '.join(CATALOGUE)}")
    entry = CATALOGUE[name]
    return entry.paper() if preset == "paper" and entry.paper is not None else entry.make()


def configured(
    name: str,
    seed: int,
    dimension: int | None,
    training: Mapping[str, Any],
    ensemble: int | None = None,
    time_budget: float | None = None,
) -> Estimator:
    """The estimator of this name with some arguments changed; None leaves a default.

    >>> configured("sda", seed=1, dimension=8, training={"epochs": 5}).training.epochs
    5
    """
    instance(Mapping, "write {'epochs': 20}")("training", training)
    estimator = named(name)
    known = estimator.get_params(deep=False)
    changed = {key: value for key, value in training.items() if value is not None}
    given = {"dimension": dimension, "ensemble": ensemble, "time_budget": time_budget}
    arguments: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    refused = [] if isinstance(estimator, TrainedEstimator) else list(changed)
    refused += [key for key in arguments if key not in known]
    if refused:
        other = ", or choose another model, such as sda" if name == "auto" else ""
        raise InputError(f"the model '{name}' has no {', '.join(refused)}; leave it out{other}")
    if "seed" in known:
        arguments["seed"] = seed
    estimator.set_params(**arguments)
    if isinstance(estimator, TrainedEstimator):
        estimator.set_training(**changed)
    estimator.check_arguments()
    return estimator


# Model files

CLASSES: Mapping[str, type[Estimator]] = {
    cls.__name__: cls
    for cls in (
        MNL, SDW, SDE, SDA, ChoiceModel, LinearContextLogit, WithinSetMNL, NestedLogit, MixedMNL,
        LatentClass, CrossNestedLogit, MixedLogit, SVMRank, AdaRank, SingleFeature, RandomChoice,
        LambdaMART, BoostedLogit, Auto,
    )
}  # fmt: skip
"""Estimators by the name that a model file holds."""

MAY_BE_UNKNOWN = ("covariance", "trees/threshold")
"""How the names of arrays begin in which not all is finite: NaN is what was not identified."""


def load(path: str | Path) -> Estimator:
    """Read a model file that :meth:`Estimator.save` wrote, as an estimator.

    :func:`setwise.scoring.load_scorer` reads the same file as a scorer, which needs no JAX.
    """
    check_path("path", path)
    artifact = Artifact.read(path, with_graph=False)  # an estimator makes it anew
    if artifact.estimator not in CLASSES:
        raise InputError(
            f"{path} holds a model '{artifact.estimator}', which this setwise does not know; "
            "upgrade setwise"
        )
    with made_elsewhere(path, "model"):
        _check_arrays(artifact)
        estimator = CLASSES[artifact.estimator].from_artifact(artifact)
        _check_model(estimator)
    return estimator


def _check_arrays(artifact: Artifact) -> None:
    """Refuse arrays of weights that are not finite numbers."""
    for name, array in artifact.arrays.items():
        unknown = name.startswith(MAY_BE_UNKNOWN)
        if array.dtype.kind == "f" and not unknown and not np.isfinite(array).all():
            raise InputError(f"the array '{name}' has values that are not finite numbers")


def _check_model(estimator: Estimator) -> None:
    """Refuse a model whose arrays do not fit together, or do not fit its columns."""
    if isinstance(estimator, Estimated):
        count = len(estimator.parameter_names_)
        shapes = {one.shape for one in estimator.covariances_.values()}
        if shapes != {(count, count)} or estimator.identified_.shape != (count,):
            raise InputError(f"the standard errors are not those of {count} parameters")
    if isinstance(estimator, TrainedEstimator) or not estimator.has_jax_model:
        return  # the arrays of the former were compared with their blueprint
    items = jax.ShapeDtypeStruct((3, estimator.schema_.width), jnp.float32)
    present = jax.ShapeDtypeStruct((3,), jnp.bool_)
    scores = jax.eval_shape(estimator.model_.scores, items, present)
    if (scores.shape, scores.dtype) != ((3,), jnp.float32):
        raise InputError(f"the model gives {scores.dtype} of shape {scores.shape} for 3 items")

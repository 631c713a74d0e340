"""An epoch of setwise's models by minibatches. Run in setwise's environment.

``--model`` is sda, fate or mnl; fate has the layers of csrank's. Like the rivals, it validates on
next to nothing: a single set.
"""

import argparse

import numpy as np
import setwise_sda
import side

import setwise as sw

SIZES = {"sda_inner": setwise_sda.SDA, "fate": sw.models.Sizes(hidden=32), "mnl": sw.models.Sizes()}


def train(choices: side.Data, given: argparse.Namespace) -> side.Trained:
    sets = setwise_sda.read(choices)
    how = setwise_sda.options(given.times, rate=1e-2 if given.model == "mnl" else 1e-3)
    seconds, result = setwise_sda.train(
        sets, sets.take(np.array([0])), how, given.seed, given.model, SIZES[given.model]
    )
    parameters = setwise_sda.parameters(result.model)
    return side.Trained(seconds.tolist(), result.history[-1]["loss"], parameters)


if __name__ == "__main__":
    side.epochs(("setwise", "jax"), train)

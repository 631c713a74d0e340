"""An epoch of choice-learn's models by minibatches. Environment ``choice-learn``.

``--model`` is rumnet, reslogit or mnl. It wants sets of one size: smaller ones are padded, and
the padding is marked as not available. RUMnet and ResLogit need a feature of the customer: a
constant. Sizes of the networks are those of choice-learn's examples.
"""

import argparse
import os
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import side
import tensorflow as tf
from choice_learn.data import ChoiceDataset
from choice_learn.models import ResLogit, RUMnet, SimpleMNL
from data import padded

BATCH = 128


class Clock(tf.keras.callbacks.Callback):
    """Seconds of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.seconds.append(time.perf_counter() - self.began)


def train(choices: side.Data, given: argparse.Namespace) -> side.Trained:
    use_threads(given.threads)
    tf.random.set_seed(given.seed)
    clock = Clock()
    rate = 1e-2 if given.model == "mnl" else 1e-3
    how = {
        "optimizer": "Adam", "lr": rate, "epochs": given.times, "batch_size": BATCH,
        "callbacks": [clock],
    }  # fmt: skip
    model = MODELS[given.model](choices["items"].shape[1], how)
    history = model.fit(dataset(choices, given.model), verbose=0)
    parameters = sum(int(np.prod(weights.shape)) for weights in model.trainable_weights)
    return side.Trained(clock.seconds, float(history["train_loss"][-1]), parameters)


def use_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def mnl(features: int, how: dict[str, object]) -> SimpleMNL:
    return SimpleMNL(intercept=None, **how)


def reslogit(features: int, how: dict[str, object]) -> ResLogit:
    return ResLogit(n_layers=2, intercept=None, **how)


def rumnet(features: int, how: dict[str, object]) -> RUMnet:
    model = RUMnet(
        num_products_features=features, num_customer_features=1,
        width_eps_x=10, depth_eps_x=2, heterogeneity_x=5,
        width_eps_z=10, depth_eps_z=2, heterogeneity_z=5,
        width_u=10, depth_u=2, logmin=1e-10, tol=0, **how,
    )  # fmt: skip
    model.instantiate()
    return model


MODELS = {"mnl": mnl, "reslogit": reslogit, "rumnet": rumnet}


def dataset(choices: side.Data, model: str) -> ChoiceDataset:
    """ResLogit takes plain arrays and fails on tuples of them; RUMnet the other way round."""
    x, present = padded(choices, np.float32)
    constant = np.ones((len(x), 1), np.float32)
    shared = {"mnl": None, "reslogit": constant, "rumnet": (constant,)}[model]
    return ChoiceDataset(
        shared_features_by_choice=shared,
        items_features_by_choice=x if model == "reslogit" else (x,),
        available_items_by_choice=present.astype(np.float32),
        choices=choices["chosen"],
    )


if __name__ == "__main__":
    side.epochs(("choice-learn", "tensorflow"), train)

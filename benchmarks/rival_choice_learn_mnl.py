"""The multinomial logit in choice-learn: SimpleMNL by L-BFGS. Environment ``choice-learn``.

It wants sets of one size: smaller ones are padded, and the padding is marked as not available.
"""

import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import side
import tensorflow as tf
from choice_learn.data import ChoiceDataset
from choice_learn.models import SimpleMNL
from data import padded


def prepare(choices: side.Data, given: argparse.Namespace) -> ChoiceDataset:
    x, present = padded(choices, np.float32)
    names = [f"x{i}" for i in range(x.shape[2])]
    return ChoiceDataset(
        items_features_by_choice=(x,),
        items_features_by_choice_names=(names,),
        available_items_by_choice=present.astype(np.float32),
        choices=choices["chosen"],
    )


def fit(prepared: ChoiceDataset, given: argparse.Namespace) -> side.Estimate:
    model = SimpleMNL(intercept=None, optimizer="lbfgs", epochs=1000)
    model.fit(prepared, get_report=given.errors, verbose=0)
    coefficients = model.trainable_weights[0].numpy()
    return side.Estimate(coefficients, model.report["Std. Err"] if given.errors else None)


if __name__ == "__main__":
    threads = side.options().threads
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    side.fits(("choice-learn", "tensorflow"), prepare, fit)

"""Tuning SDA with setwise: seconds from the start of the process to test results.

One split tunes on the first half of the sets, validates on the next quarter and tests on the last,
as the rival does. Several splits are random, as in the paper's protocol.
"""

import argparse
import tempfile
import time
from pathlib import Path

import data
import jax
import numpy as np
from report import emit, versions
from setwise_sda import HIDDEN, K, L, read

import setwise as sw
from setwise.comparison.comparison import tune_splits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="an .npz file of data.py")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--began", type=float, default=time.time(), help="when the process did")
    given = parser.parse_args()
    choices = read(data.read(given.data))
    training = sw.Training(epochs=given.epochs, patience=25, stop_on="accuracy")
    model = sw.SDA.paper(L, components=K, hidden=HIDDEN, training=training)
    with tempfile.TemporaryDirectory() as folder:
        tuning = sw.Tuning(given.trials, "paper", storage=Path(folder) / "studies.sqlite")
        found, tests = run(model, choices, given.splits, tuning)
    trials = [trial for one in found for trial in one.trials]
    emit(
        {
            "seconds": time.time() - given.began,
            "trials": len(trials),
            "epochs": sum(trial.result["epochs"] for trial in trials),
            "validation": float(np.mean([one.value for one in found])),
            "top1": float(np.mean([test.top1 for test in tests])),
            "nll": float(np.mean([test.nll for test in tests])),
            "device": jax.devices()[0].device_kind,
            "versions": versions("setwise", "jax", "optuna"),
        }
    )


def run(
    model: sw.SDA, choices: sw.Choices, splits: int, tuning: sw.Tuning
) -> tuple[list[sw.tuning.Tuned], list[sw.metrics.Metrics]]:
    if splits > 1:
        done = tune_splits(model, choices, splits=splits, tuning=tuning)
        return [one.tuned for one in done], [one.test for one in done]
    quarters = np.array_split(np.arange(len(choices)), 4)
    train, valid, test = (
        choices.take(np.concatenate(part)) for part in (quarters[:2], quarters[2:3], quarters[3:])
    )
    tuned = sw.tune(model, train, valid, tuning=tuning)
    return [tuned], [tuned.estimator.evaluate(test)]


if __name__ == "__main__":
    main()

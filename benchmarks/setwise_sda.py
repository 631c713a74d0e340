"""SDA in setwise: seconds an epoch, through the public interface. Run in setwise's environment.

The rival does not validate, so the figure to compare is an epoch of training alone. Setwise's loop
always validates; ``train`` gives it a single set to validate on, which leaves a dispatch or two
(counted against setwise) and needs no internals. An epoch as users see it, with a validation part
of the usual size, is measured beside it.
"""

import argparse
import time

import jax
import numpy as np
from data import marks
from report import emit, timed, versions

import setwise as sw

L, K, HIDDEN = 24, 16, 16


def read(path: str) -> sw.Choices:
    data = np.load(path)
    chosen = marks(data["sizes"], data["chosen"])
    return sw.read(data["items"], set=data["sizes"], chosen=chosen)


def options(epochs: int) -> sw.Training:
    """As on the rival's side: a constant rate, AdamW's weight decay, no dropout, no stopping."""
    return sw.Training(
        epochs=epochs, patience=epochs, batch_size=128,
        learning_rate=1e-3, decay=1.0, weight_decay=1e-2, dropout=0.0,
    )  # fmt: skip


def train(
    choices: sw.Choices, validation: sw.Choices, epochs: int, seed: int
) -> tuple[np.ndarray, sw.training.Fit]:
    """Seconds of each epoch, and the fit.

    ``setwise.training.fit`` is what ``sw.SDA.fit`` calls; it reports each epoch as it ends.
    """
    schema = sw.Schema.fit(choices)
    sizes = sw.models.Sizes(dimension=L, components=K, hidden=HIDDEN, wiring="joint")
    model = sw.models.ZOO["sda"].build(schema.width, sizes, jax.random.key(seed))
    moments = [time.perf_counter()]
    result = sw.training.fit(
        model, schema.encode(choices), schema.encode(validation), options(epochs), seed,
        on_epoch=lambda record: moments.append(time.perf_counter()),
    )  # fmt: skip
    return np.diff(moments), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("valid")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    choices, valid = read(given.train), read(given.valid)
    alone, result = train(choices, valid.take(np.array([0])), given.epochs, given.seed)
    validated, _ = train(choices, valid, given.epochs, given.seed)
    estimator = sw.SDA(
        L, components=K, hidden=HIDDEN, wiring="joint", comparison="inner",
        training=options(given.epochs), seed=given.seed,
    )  # fmt: skip
    whole, _ = timed(lambda: estimator.fit(choices, valid))
    arrays = (leaf for leaf in jax.tree.leaves(result.model) if isinstance(leaf, jax.Array))
    emit(
        {
            "epoch_seconds": float(np.median(alone[1:])),
            "validated_epoch_seconds": float(np.median(validated[1:])),
            "first_epoch_seconds": float(alone[0]),
            "fit_seconds": whole,
            "loss": result.history[-1]["loss"],
            "parameters": sum(array.size for array in arrays),
            "versions": versions("setwise", "jax", "numpy"),
        }
    )


if __name__ == "__main__":
    main()

"""SDA in setwise: seconds per epoch, through the public interface. Run in setwise's environment.

The rival does not validate, so the figure to compare is an epoch of training alone. Setwise's loop
always validates; ``train`` gives it a single set to validate on, which leaves a dispatch or two
(counted against setwise) and needs no internals. An epoch as users see it, with a validation part
of the usual size, is measured beside it.
"""

import argparse
import time

import data
import jax
import numpy as np
from report import emit, timed, versions

import setwise as sw

L, K, HIDDEN = 24, 16, 16
SDA = sw.models.Sizes(dimension=L, components=K, hidden=HIDDEN, wiring="joint")


def read(arrays: dict[str, np.ndarray]) -> sw.Choices:
    chosen = data.marks(arrays["sizes"], arrays["chosen"])
    return sw.read(arrays["items"], set=arrays["sizes"], chosen=chosen)


def options(epochs: int, rate: float = 1e-3) -> sw.training.Options:
    """As on the rival's side: a constant rate, AdamW's weight decay, no dropout, no stopping."""
    return sw.training.Options(
        epochs=epochs, patience=epochs, batch_size=128,
        learning_rate=rate, decay=1.0, weight_decay=1e-2, dropout=0.0,
    )  # fmt: skip


def train(
    choices: sw.Choices,
    validation: sw.Choices,
    how: sw.training.Options,
    seed: int,
    name: str = "sda_inner",
    sizes: sw.models.Sizes = SDA,
) -> tuple[np.ndarray, sw.training.Fit]:
    """Seconds of each epoch, and the fit, of a model of the zoo.

    ``setwise.training.fit`` is what ``sw.SDA.fit`` calls; it reports each epoch as it ends.
    """
    schema = sw.Schema.fit(choices)
    model = sw.models.ZOO[name].build(schema.width, sizes, jax.random.key(seed))
    moments = [time.perf_counter()]
    result = sw.training.fit(
        model, schema.encode(choices), schema.encode(validation), how, seed,
        on_epoch=lambda record: moments.append(time.perf_counter()),
    )  # fmt: skip
    return np.diff(moments), result


def parameters(model: sw.models.Model) -> int:
    arrays = (jax.Array, np.ndarray)
    return sum(leaf.size for leaf in jax.tree.leaves(model) if isinstance(leaf, arrays))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("valid")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    choices, valid = (read(data.read(path)) for path in (given.train, given.valid))
    how = options(given.epochs)
    alone, result = train(choices, valid.take(np.array([0])), how, given.seed)
    validated, _ = train(choices, valid, how, given.seed)
    estimator = sw.SDA.paper(
        L, components=K, hidden=HIDDEN, wiring="joint", comparison="inner",
        training=sw.Training(**vars(how)), seed=given.seed,
    )  # fmt: skip
    whole, _ = timed(lambda: estimator.fit(choices, valid))
    emit(
        {
            "epoch_seconds": float(np.median(alone[1:])),
            "validated_epoch_seconds": float(np.median(validated[1:])),
            "first_epoch_seconds": float(alone[0]),
            "fit_seconds": whole,
            "loss": result.history[-1]["loss"],
            "parameters": parameters(result.model),
            "versions": versions("setwise", "jax", "numpy"),
        }
    )


if __name__ == "__main__":
    main()

"""choice-learn's RUMnet and ResLogit, tuned split by split. Environment ``choice-learn``.

    python benchmarks/rival_choice_learn_accuracy.py --model rumnet --trials 16 SPLIT.npz ...

A split is a file as data.py has it, its training, validation and test sets one after another:
``parts`` says how many of each, ``context`` holds the features of the sets. The best of so many
random settings, by validation NLL, predicts the test sets: their log-probabilities are written to
SPLIT.npy, padded, and a line of JSON says so.

choice-learn's ``fit`` spends more time between ResLogit's steps than on them; here the model's
``train_step`` is called as ``fit`` calls it, an epoch in one graph, and the weights that were best
on the validation sets are kept. Tracing RUMnet takes longer than many an epoch (every item and pair
of heterogeneities is a piece of graph), and is done anew for each model object and batch shape: so
models are kept and set back to their start, and batches are always full; sets that an epoch leaves
over are others in the next.
"""

import argparse
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from choice_learn.models import ResLogit, RUMnet
from data import padded, read

EPOCHS, PATIENCE = 100, 5
PREDICTED = 256  # sets at a time
LEAST = 1e-35  # choice-learn's exact NLL takes no probability to be smaller


class Part(NamedTuple):
    """The arguments of choice-learn's steps, in their order."""

    context: np.ndarray
    items: np.ndarray
    present: np.ndarray
    chosen: np.ndarray

    def of(self, sets: np.ndarray | slice) -> "Part":
        return Part(*(array[sets] for array in self))


def parts_of(path: Path) -> list[Part]:
    """Training, validation and test sets, padded to one size; padding is not available."""
    choices = read(path)
    items, present = padded(choices, np.float32)
    # Both models want a feature of the customer.
    context = choices["context"] if choices["context"].shape[1] else np.ones((len(items), 1))
    everything = Part(
        context.astype(np.float32), items, present.astype(np.float32), choices["chosen"]
    )
    first, second = np.cumsum(choices["parts"])[:2]
    return [everything.of(one) for one in (slice(first), slice(first, second), slice(second, None))]


def drawn(model: str, trials: int) -> list[dict[str, Any]]:
    """The settings to try, the same for every split."""
    rng = np.random.default_rng(0)
    shapes = {
        "rumnet": lambda: {
            "width": int(rng.choice((10, 20))),
            "heterogeneity": int(rng.choice((5, 10))),
        },
        "reslogit": lambda: {"layers": int(rng.integers(1, 5))},
    }
    return [
        {
            "rate": float(np.exp(rng.uniform(np.log(3e-4), np.log(1e-2)))),
            "batch": int(rng.choice((32, 128))),
            "shape": shapes[model](),
        }
        for _ in range(trials)
    ]


def rumnet(part: Part, width: int, heterogeneity: int) -> RUMnet:
    model = RUMnet(
        num_products_features=part.items.shape[2], num_customer_features=part.context.shape[1],
        width_eps_x=width, depth_eps_x=2, heterogeneity_x=heterogeneity,
        width_eps_z=width, depth_eps_z=2, heterogeneity_z=heterogeneity,
        width_u=width, depth_u=2, logmin=1e-10, tol=0, optimizer="Adam", lr=1e-3,
    )  # fmt: skip
    model.instantiate()
    return model


def reslogit(part: Part, layers: int) -> ResLogit:
    model = ResLogit(n_layers=layers, intercept=None, logmin=1e-10, optimizer="Adam")
    model.instantiate(part.items.shape[1], part.context.shape[1], part.items.shape[2])
    return model


MODELS = {"rumnet": rumnet, "reslogit": reslogit}


class Trainee:
    """A model that can be trained again and again, each time from the same start."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.start = self.weights()
        model.optimizer.build(model.trainable_weights)

        @tf.function
        def epoch(batches: Part) -> None:
            """In one graph: calls from Python would take longer than ResLogit's steps."""
            for batch in tf.range(len(batches.chosen)):
                model.train_step(*(array[batch] for array in batches))

        self.epoch = epoch

    def weights(self) -> list[np.ndarray]:
        return [weight.numpy() for weight in self.model.trainable_weights]

    def set_weights(self, values: list[np.ndarray]) -> None:
        for weight, value in zip(self.model.trainable_weights, values, strict=True):
            weight.assign(value)

    def train(self, train: Part, valid: Part, rate: float, batch: int) -> float:
        """The best validation NLL; its weights are kept."""
        self._back_to_start(rate)
        rng = np.random.default_rng(0)
        batch = min(batch, len(train.chosen))
        best, weights, since = np.inf, self.start, 0
        for _ in range(EPOCHS):
            order = rng.permutation(len(train.chosen))
            batches = order[: len(order) // batch * batch].reshape(-1, batch)
            self.epoch(Part(*map(tf.constant, train.of(batches))))
            nll = nll_of(self.log_probabilities(valid), valid)
            since += 1
            if nll < best:
                best, weights, since = nll, self.weights(), 0
            if since == PATIENCE:
                break
        self.set_weights(weights)
        return best

    def log_probabilities(self, part: Part) -> np.ndarray:
        """Of every item; choice-learn's add up to a little less than one, these to one."""
        sets = len(part.chosen)
        steps = -(-sets // PREDICTED)
        batches = (np.arange(steps * PREDICTED) % sets).reshape(steps, PREDICTED)  # some come twice
        found = [self.model.batch_predict(*part.of(batch))[1].numpy() for batch in batches]
        probabilities = np.concatenate(found)[:sets].astype(np.float64)
        total = np.maximum(probabilities.sum(1, keepdims=True), LEAST)
        return np.log(np.maximum(probabilities / total, LEAST))

    def _back_to_start(self, rate: float) -> None:
        self.set_weights(self.start)
        for state in self.model.optimizer.variables:
            state.assign(tf.zeros_like(state))
        # ResLogit ignores the rate that it is given: its optimiser has the default one.
        self.model.optimizer.learning_rate.assign(rate)


def nll_of(log_probabilities: np.ndarray, part: Part) -> float:
    return float(-log_probabilities[np.arange(len(part.chosen)), part.chosen].mean())


def tuned(model: str, parts: list[Part], trials: int, trainee: Any) -> tuple[np.ndarray, dict]:
    """The test sets' log-probabilities of the best setting, and how it was found."""
    train, valid, test = parts
    best: tuple[float, np.ndarray | None, dict] = (np.inf, None, {})
    for setting in drawn(model, trials):
        one = trainee(**setting["shape"])
        nll = one.train(train, valid, setting["rate"], setting["batch"])
        if nll < best[0]:
            best = (nll, one.log_probabilities(test), setting)
    nll, log_probabilities, setting = best
    if log_probabilities is None:
        raise ValueError(f"no trial of {model} has a finite validation NLL: allow more --trials")
    return log_probabilities, {"valid_nll": nll, "setting": setting}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("splits", nargs="+", type=Path)
    parser.add_argument("--model", choices=list(MODELS), required=True)
    parser.add_argument("--trials", type=int, required=True)
    given = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    # Optimising RUMnet's graph takes longer than it saves.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    tf.keras.utils.set_random_seed(0)
    example = parts_of(given.splits[0])[0]

    @cache
    def trainee(**shape: int) -> Trainee:
        return Trainee(MODELS[given.model](example, **shape))

    for path in given.splits:
        began = time.perf_counter()
        found, how = tuned(given.model, parts_of(path), given.trials, trainee)
        np.save(path.with_suffix(".npy"), found)
        seconds = time.perf_counter() - began
        print(json.dumps({"split": path.stem, "seconds": seconds} | how), flush=True)


if __name__ == "__main__":
    main()

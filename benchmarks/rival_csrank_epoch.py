"""An epoch of FATE in csrank by minibatches. Environment ``csrank``.

csrank imports packages that no longer install, for models that are not used here: they are
replaced by empty ones. It has no cross-entropy: one is put in, in place of its hinge loss. It
takes an array of sets of one size, and has no way to mark padding. Networks have two layers of 32
units before the mean and two after it, as setwise's have (csrank counts the second of them).
"""

import argparse
import importlib.machinery
import sys
import time
import types
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import side
import skorch
import torch
from data import is_ragged, padded

BATCH = 128
GONE = ("pymc3", "theano", "arviz")


class Empty(types.ModuleType):
    """A package in which every name is a class that does nothing."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Finder:
    """Finds packages that are gone, empty."""

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] not in GONE:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Empty:
        return Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.insert(0, Finder())
from csrank.discretechoice import FATEDiscreteChoiceFunction  # noqa: E402


class Clock(skorch.callbacks.Callback):
    """Seconds of each epoch."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_epoch_begin(self, net: skorch.NeuralNet, **_: object) -> None:
        self.began = time.perf_counter()

    def on_epoch_end(self, net: skorch.NeuralNet, **_: object) -> None:
        self.seconds.append(time.perf_counter() - self.began)


class CrossEntropy(torch.nn.Module):
    """Of scores against choices that are marked by a one."""

    def forward(self, scores: torch.Tensor, marked: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(scores, marked.argmax(1))


def train(choices: side.Data, given: argparse.Namespace) -> side.Trained:
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    model = FATEDiscreteChoiceFunction(
        n_hidden_set_layers=1, n_hidden_set_units=32, criterion=CrossEntropy,
        n_hidden_joint_layers=1, n_hidden_joint_units=32,
        optimizer=torch.optim.Adam, optimizer__lr=1e-3, max_epochs=given.times, batch_size=BATCH,
        iterator_train__shuffle=True, train_split=None, callbacks=[("clock", Clock())], verbose=0,
    )  # fmt: skip
    marked = np.eye(choices["sizes"].max(), dtype=np.float32)[choices["chosen"]]
    model.fit(sets(choices), marked)
    parameters = sum(p.numel() for p in model.module_.parameters())
    clock = dict(model.callbacks_)["clock"]
    return side.Trained(clock.seconds, model.history[-1, "train_loss"], parameters)


def sets(choices: side.Data) -> np.ndarray | Sequence[np.ndarray]:
    """One array, or, where sets differ in size and there cannot be one, a list of arrays."""
    if not is_ragged(choices):
        return padded(choices, np.float32)[0]
    ends = np.cumsum(choices["sizes"])[:-1]
    return np.split(choices["items"].astype(np.float32), ends)


if __name__ == "__main__":
    side.epochs(("csrank", "skorch", "torch"), train)

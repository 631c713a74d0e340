"""Tuning SDA as one does it in PyTorch: Optuna's own loop, one trial after another.

The same space, batches, schedule, stopping rule and parts as ``setwise_tuning.py``. Run in the
environment ``torch``.
"""

import argparse
import copy
import time

import numpy as np
import optuna
import torch
from data import padded, read
from report import emit, versions
from rival_torch_sda import SDA, train_epoch
from torch import nn

PATIENCE = 25


def with_dropout(model: SDA, share: float) -> SDA:
    """Dropout after each tanh of the set networks."""
    for network in (model.w, model.r):
        first, tanh, second, _ = network.item
        drop = nn.Dropout(share)
        network.item = nn.Sequential(first, tanh, drop, second, tanh, drop)
    return model


def accuracy(model: SDA, x: torch.Tensor, y: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        right = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return right


class Search:
    """Parts of the data, and what was best so far."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, epochs: int):
        half, quarter = len(x) // 2, len(x) // 4
        cuts = (slice(half), slice(half, half + quarter), slice(half + quarter, None))
        self.train, self.valid, self.test = ((x[cut], y[cut]) for cut in cuts)
        self.most, self.epochs = epochs, 0
        self.best, self.model = -1.0, None

    def __call__(self, trial: optuna.Trial) -> float:
        model = with_dropout(SDA(self.train[0].shape[2]), trial.suggest_float("dropout", 0.0, 0.5))
        optimiser = torch.optim.AdamW(
            model.parameters(),
            lr=trial.suggest_float("learning_rate", 1e-5, 1e-3, log=True),
            weight_decay=trial.suggest_float("weight_decay", 1e-10, 1e-3, log=True),
        )
        schedule = torch.optim.lr_scheduler.StepLR(optimiser, step_size=10, gamma=0.95)
        best, waited = -1.0, 0
        for _ in range(self.most):
            train_epoch(model, optimiser, *self.train)
            schedule.step()
            self.epochs += 1
            reached = accuracy(model, *self.valid)
            waited = 0 if reached > best else waited + 1
            best = max(best, reached)
            if reached > self.best:
                self.best, self.model = reached, copy.deepcopy(model)
            if waited >= PATIENCE:
                break
        return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="an .npz file of data.py")
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--began", type=float, default=time.time(), help="when the process did")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    choices = read(given.data)
    x, y = torch.tensor(padded(choices, np.float32)[0]), torch.tensor(choices["chosen"])
    search = Search(x, y, given.epochs)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(search, n_trials=given.trials)
    assert search.model is not None
    emit(
        {
            "top1": accuracy(search.model, *search.test),
            "seconds": time.time() - given.began,
            "trials": given.trials,
            "epochs": search.epochs,
            "validation": search.best,
            "versions": versions("torch", "optuna"),
        }
    )


if __name__ == "__main__":
    main()

"""SDA as one writes it in PyTorch: seconds per epoch. Run in the environment ``torch``.

Literal order: F(x) of every item first, then everything that reads it. Shuffled minibatches by
randperm, AdamW, no validation. Sets that differ in size are padded, with a mask.
"""

import argparse

import numpy as np
import side
import torch
from data import is_ragged, padded
from report import timed
from torch import nn

L, K, HIDDEN = 24, 16, 16
BATCH = 128


class SetNetwork(nn.Module):
    """Two tanh layers an item, the mean over the items, a linear map."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.item = nn.Sequential(
            nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh()
        )
        self.last = nn.Linear(HIDDEN, outputs)

    def forward(self, scores: torch.Tensor, present: torch.Tensor | None) -> torch.Tensor:
        felt = self.item(scores)
        if present is None:
            return self.last(felt.mean(1))
        there = present.unsqueeze(-1)
        return self.last((felt * there).sum(1) / there.sum(1))


class SDA(nn.Module):
    """g(x, s) = < w(s), mu(< F(x), r(s) >) > with the kinked tanh as mu.

    ``present`` tells items from padding, where there is padding.
    """

    def __init__(self, features: int):
        super().__init__()
        self.F = nn.Linear(features, L * K, bias=False)
        self.w = SetNetwork(L * K, L)
        self.r = SetNetwork(L * K, L * K)
        # c = 1.5 at the start, as in setwise
        self.raw_c = nn.Parameter(torch.log(torch.expm1(torch.tensor(0.5))))

    def forward(self, x: torch.Tensor, present: torch.Tensor | None = None) -> torch.Tensor:
        scores = self.F(x)
        w, r = self.w(scores, present), self.r(scores, present)
        z = (scores.unflatten(-1, (L, K)) * r.unflatten(-1, (L, K)).unsqueeze(1)).sum(-1)
        felt = torch.tanh(z)
        c = 1 + nn.functional.softplus(self.raw_c)
        g = (torch.where(z < 0, c * felt, felt) * w.unsqueeze(1)).sum(-1)
        return g if present is None else g.masked_fill(~present, -torch.inf)


def train_epoch(
    model: SDA,
    optimiser: torch.optim.Optimizer,
    x: torch.Tensor,
    y: torch.Tensor,
    present: torch.Tensor | None = None,
) -> float:
    """One pass over the sets in random order; the mean loss."""
    total = 0.0
    for batch in torch.randperm(len(x)).split(BATCH):
        optimiser.zero_grad()
        scores = model(x[batch], None if present is None else present[batch])
        loss = nn.functional.cross_entropy(scores, y[batch])
        loss.backward()
        optimiser.step()
        total += loss.item() * len(batch)
    return total / len(x)


def train(choices: side.Data, given: argparse.Namespace) -> side.Trained:
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    array, mask = padded(choices, np.float32)
    x, y = torch.tensor(array), torch.tensor(choices["chosen"])
    present = torch.tensor(mask) if is_ragged(choices) else None
    model = SDA(x.shape[2])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    runs = [timed(lambda: train_epoch(model, optimiser, x, y, present)) for _ in range(given.times)]
    parameters = sum(p.numel() for p in model.parameters())
    return side.Trained([seconds for seconds, _ in runs], runs[-1][1], parameters)


if __name__ == "__main__":
    side.epochs(("torch",), train)

"""SDA as one writes it in PyTorch: seconds an epoch. Run in the environment ``torch``.

Literal order: F(x) of every item first, then everything that reads it. Shuffled minibatches by
randperm, AdamW, no validation.
"""

import argparse

import numpy as np
import torch
from report import emit, timed
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

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return self.last(self.item(scores).mean(1))


class SDA(nn.Module):
    """g(x, s) = < w(s), mu(< F(x), r(s) >) > with the kinked tanh as mu."""

    def __init__(self, features: int):
        super().__init__()
        self.F = nn.Linear(features, L * K, bias=False)
        self.w = SetNetwork(L * K, L)
        self.r = SetNetwork(L * K, L * K)
        # c = 1.5 at the start, as in setwise
        self.raw_c = nn.Parameter(torch.log(torch.expm1(torch.tensor(0.5))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.F(x)
        w, r = self.w(scores), self.r(scores)
        z = (scores.unflatten(-1, (L, K)) * r.unflatten(-1, (L, K)).unsqueeze(1)).sum(-1)
        felt = torch.tanh(z)
        c = 1 + nn.functional.softplus(self.raw_c)
        return (torch.where(z < 0, c * felt, felt) * w.unsqueeze(1)).sum(-1)


def train_epoch(
    model: SDA, optimiser: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor
) -> float:
    """One pass over the sets in random order; the mean loss."""
    total = 0.0
    for batch in torch.randperm(len(x)).split(BATCH):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimiser.step()
        total += loss.item() * len(batch)
    return total / len(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    data = np.load(given.train)
    sets = len(data["sizes"])
    x = torch.tensor(data["items"], dtype=torch.float32).reshape(sets, -1, data["items"].shape[1])
    y = torch.tensor(data["chosen"])
    model = SDA(x.shape[2])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    epochs = [timed(lambda: train_epoch(model, optimiser, x, y)) for _ in range(given.epochs)]
    seconds = [second for second, _ in epochs]
    emit(
        {
            "epoch_seconds": float(np.median(seconds[1:])),
            "first_epoch_seconds": seconds[0],
            "loss": epochs[-1][1],
            "parameters": sum(p.numel() for p in model.parameters()),
            "version": torch.__version__,
        }
    )


if __name__ == "__main__":
    main()

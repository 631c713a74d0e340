"""An epoch of torch-choice's conditional logit by minibatches. Environment ``torch-choice``.

The loop is that of its own ``fit``, with its own data loader: ``fit`` itself says nothing between
epochs, and ends with standard errors.
"""

import argparse

import side
import torch
from report import timed
from rival_torch_choice_mnl import prepare
from torch_choice.data import ChoiceDataset
from torch_choice.data.utils import create_data_loader
from torch_choice.model import ConditionalLogitModel

BATCH = 128


def train(choices: side.Data, given: argparse.Namespace) -> side.Trained:
    torch.manual_seed(given.seed)
    dataset = prepare(choices, given)
    model = ConditionalLogitModel(
        formula="(itemsession_feat|constant)", dataset=dataset, num_items=dataset.num_items
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = create_data_loader(dataset, batch_size=BATCH, shuffle=True)
    runs = [timed(lambda: train_epoch(model, optimiser, loader)) for _ in range(given.times)]
    parameters = sum(p.numel() for p in model.parameters())
    return side.Trained([seconds for seconds, _ in runs], runs[-1][1] / len(dataset), parameters)


def train_epoch(
    model: ConditionalLogitModel,
    optimiser: torch.optim.Optimizer,
    loader: "torch.utils.data.DataLoader[ChoiceDataset]",
) -> float:
    total = 0.0
    for batch in loader:
        optimiser.zero_grad()
        loss = model.negative_log_likelihood(batch, batch.item_index)
        (loss / len(batch)).backward()
        optimiser.step()
        total += loss.item()
    return total


if __name__ == "__main__":
    side.epochs(("torch-choice", "torch"), train)

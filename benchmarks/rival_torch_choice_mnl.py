"""The multinomial logit in torch-choice: L-BFGS on all sets. Environment ``torch-choice``.

Its ``fit`` always computes standard errors. It wants sets of one size: smaller ones are padded,
and the padding is marked as not available.
"""

import argparse
import contextlib
import io

import numpy as np
import side
import torch
from data import is_ragged, padded
from torch_choice.data import ChoiceDataset
from torch_choice.model import ConditionalLogitModel

# The fastest way to the optimum found here: its loop over epochs has no rule to stop by, but one
# step of L-BFGS has. Without a line search it needs fewer evaluations, and on these data no help.
ITERATIONS = 100


def prepare(choices: side.Data, given: argparse.Namespace) -> ChoiceDataset:
    torch.set_num_threads(given.threads)
    x, present = padded(choices, np.float32)
    return ChoiceDataset(
        item_index=torch.tensor(choices["chosen"]),
        session_index=torch.arange(len(x)),
        itemsession_feat=torch.tensor(x),
        item_availability=torch.tensor(present) if is_ragged(choices) else None,
        num_items=x.shape[1],
        num_sessions=len(x),
    )


def fit(prepared: ChoiceDataset, given: argparse.Namespace) -> side.Estimate:
    model = ConditionalLogitModel(
        formula="(itemsession_feat|constant)", dataset=prepared, num_items=prepared.num_items
    )
    with contextlib.redirect_stdout(io.StringIO()):
        result = model.fit(
            prepared, model_optimizer="LBFGS", learning_rate=1.0, num_epochs=1,
            optimizer_kwargs={"max_iter": ITERATIONS}, print_summary=False, device="cpu",
        )  # fmt: skip
    table = result.coef_summary
    return side.Estimate(table["Estimation"].to_numpy(), table["Std. Err."].to_numpy())


if __name__ == "__main__":
    side.fits(("torch-choice", "torch"), prepare, fit)

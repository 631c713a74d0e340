"""The multinomial logit in torchdcm: L-BFGS in double precision. Environment ``torchdcm``.

It takes sets of any size, and always computes standard errors. Each item has a name, and a utility
of its own: here the same formula for all.
"""

import argparse
from functools import reduce
from operator import add

import pandas as pd
import side
import torch
from data import marks, numbers
from torchdcm import Beta, ChoiceDataset, MultinomialLogit, UtilitySpec


def prepare(choices: side.Data, given: argparse.Namespace) -> tuple[ChoiceDataset, UtilitySpec]:
    torch.set_num_threads(given.threads)
    names = [f"x{i}" for i in range(choices["items"].shape[1])]
    table = pd.DataFrame(choices["items"], columns=names)
    table["set"], items = numbers(choices)
    table["item"] = [f"item{number}" for number in items]
    table["chosen"] = marks(choices["sizes"], choices["chosen"])
    dataset = ChoiceDataset.from_long(
        table, obs_id="set", alt_id="item", choice="chosen", variables=names
    )
    utility = UtilitySpec()
    for number in range(choices["sizes"].max()):
        utility.utility(f"item{number}", reduce(add, (Beta(f"b_{name}") * name for name in names)))
    return dataset, utility


def fit(prepared: tuple[ChoiceDataset, UtilitySpec], given: argparse.Namespace) -> side.Estimate:
    dataset, utility = prepared
    result = MultinomialLogit(utility).fit(dataset)
    return side.Estimate(result.params.numpy(), result.bse)


if __name__ == "__main__":
    side.fits(("torchdcm", "torch"), prepare, fit)

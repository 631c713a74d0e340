"""The multinomial logit in larch, by its default optimiser (BHHH). Environment ``larch``.

It takes sets of any size: rows of a table, whose index names the set and the item. Items that a
set does not have must be filled in and marked, or it ends at wrong coefficients without a word.
"""

import argparse
import logging
from functools import reduce
from operator import add

import larch
import pandas as pd
import side
from data import marks, numbers


def prepare(choices: side.Data, given: argparse.Namespace) -> larch.Dataset:
    names = [f"x{i}" for i in range(choices["items"].shape[1])]
    table = pd.DataFrame(choices["items"], columns=names)
    table["chosen"] = marks(choices["sizes"], choices["chosen"]).astype(float)
    sets, items = numbers(choices)
    table.index = pd.MultiIndex.from_arrays([sets + 1, items + 1], names=["set", "item"])
    return larch.Dataset.construct.from_idca(table, fill_missing=0)


def fit(prepared: larch.Dataset, given: argparse.Namespace) -> side.Estimate:
    model = larch.Model(prepared)
    names = [name for name in prepared.data_vars if name.startswith("x")]
    model.utility_ca = reduce(add, (larch.P(f"b_{name}") * larch.X(name) for name in names))
    model.choice_ca_var = "chosen"
    if "_avail_" in prepared:
        model.availability_ca_var = "_avail_"
    model.maximize_loglike(quiet=True, stderr=given.errors)
    return side.Estimate(model.pvals, model.pstderr if given.errors else None)


if __name__ == "__main__":
    logging.disable()
    side.fits(("larch", "numba"), prepare, fit)

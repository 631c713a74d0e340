"""The multinomial logit in setwise, with standard errors. Run in setwise's environment.

With ``--clustered``, ten sets in a row are of one person, and standard errors are clustered.
"""

import argparse

import numpy as np
import side
from data import marks, numbers

import setwise as sw

SETS_PER_PERSON = 10


def prepare(choices: side.Data, given: argparse.Namespace) -> sw.Choices:
    chosen = marks(choices["sizes"], choices["chosen"])
    if not given.clustered:
        return sw.read(choices["items"], set=choices["sizes"], chosen=chosen)
    sets, _ = numbers(choices)
    columns = {f"x{j}": column for j, column in enumerate(np.transpose(choices["items"]))}
    table = columns | {"set": sets, "chosen": chosen, "person": sets // SETS_PER_PERSON}
    return sw.read(table, set="set", chosen="chosen", items=list(columns), group="person")


def fit(prepared: sw.Choices, given: argparse.Namespace) -> side.Estimate:
    model = sw.MNL().fit(prepared)
    return side.Estimate(model.coef_, model.standard_errors_)


def main() -> None:
    sw.MNL  # noqa: B018 (setwise imports on first use: before the clock of the first fit starts)
    side.fits(("setwise", "numpy", "scipy"), prepare, fit)


if __name__ == "__main__":
    main()

"""The multinomial logit in xlogit. Run in the environment ``xlogit``.

It wants sets of one size. Smaller ones are padded, and the padding is marked as not available;
``--raw`` hands them over unpadded, to see what happens.
"""

import argparse

import numpy as np
import side
from data import is_ragged, marks, numbers, padded
from xlogit import MultinomialLogit


def prepare(choices: side.Data, given: argparse.Namespace) -> dict[str, np.ndarray]:
    names = [f"x{i}" for i in range(choices["items"].shape[1])]
    available = None
    if is_ragged(choices) and not given.raw:
        x, present = padded(choices)
        choices = {
            "items": x.reshape(-1, x.shape[2]),
            "sizes": np.full(len(x), x.shape[1]),
            "chosen": choices["chosen"],
        }
        available = present.ravel().astype(np.int64)
    sets, items = numbers(choices)
    return {
        "X": choices["items"],
        "y": marks(choices["sizes"], choices["chosen"]),
        "varnames": names,
        "alts": items,
        "ids": sets,
        "avail": available,
    }


def fit(prepared: dict[str, np.ndarray], given: argparse.Namespace) -> side.Estimate:
    model = MultinomialLogit()
    model.fit(**prepared, skip_std_errs=not given.errors, verbose=0)
    return side.Estimate(model.coeff_, model.stderr if given.errors else None)


if __name__ == "__main__":
    side.fits(("xlogit",), prepare, fit)

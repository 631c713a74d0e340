"""The mixed logit in xlogit, with standard errors. Run in the environment ``xlogit``."""

import argparse
from typing import Any

import side
from data import marks, numbers
from xlogit import MixedLogit


def prepare(choices: side.Data, given: argparse.Namespace) -> dict[str, Any]:
    names = [f"x{i}" for i in range(choices["items"].shape[1])]
    sets, items = numbers(choices)
    return {
        "X": choices["items"],
        "y": marks(choices["sizes"], choices["chosen"]),
        "varnames": names,
        "alts": items,
        "ids": sets,
        "panels": choices["people"][sets],
        "randvars": dict.fromkeys(names, "n"),
    }


def fit(prepared: dict[str, Any], given: argparse.Namespace) -> side.Estimate:
    model = MixedLogit()
    model.fit(**prepared, n_draws=int(given.model), verbose=0)
    return side.Estimate(model.coeff_, model.stderr, float(model.loglikelihood))


if __name__ == "__main__":
    side.fits(("xlogit",), prepare, fit)

"""The mixed logit in setwise, with standard errors. Run in setwise's environment."""

import argparse

import numpy as np
import side
from data import marks

import setwise as sw


def prepare(choices: side.Data, given: argparse.Namespace) -> sw.Choices:
    rows = np.repeat(np.arange(len(choices["sizes"])), choices["sizes"])
    names = [f"x{i}" for i in range(choices["items"].shape[1])]
    table = dict(zip(names, choices["items"].T, strict=True)) | {
        "set_id": rows,
        "person": choices["people"][rows],
        "chosen": marks(choices["sizes"], choices["chosen"]),
    }
    return sw.read(table, set="set_id", chosen="chosen", items=names, group="person")


def fit(prepared: sw.Choices, given: argparse.Namespace) -> side.Estimate:
    model = sw.MixedLogit(draws=int(given.model), seed=given.seed).fit(prepared)
    errors = np.sqrt(np.diag(model.covariance_of("classical")))
    return side.Estimate(model.parameters_, errors, model.log_likelihood_)


def main() -> None:
    sw.MixedLogit  # noqa: B018 (setwise imports on first use: before the clock starts)
    side.fits(("setwise", "jax", "numpy", "scipy"), prepare, fit)


if __name__ == "__main__":
    main()

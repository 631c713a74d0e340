"""The multinomial logit in setwise, with standard errors. Run in setwise's environment."""

import argparse

import side
from data import marks

import setwise as sw


def prepare(choices: side.Data, given: argparse.Namespace) -> sw.Choices:
    chosen = marks(choices["sizes"], choices["chosen"])
    return sw.read(choices["items"], set=choices["sizes"], chosen=chosen)


def fit(prepared: sw.Choices, given: argparse.Namespace) -> side.Estimate:
    model = sw.MNL().fit(prepared)
    return side.Estimate(model.coef_, model.standard_errors_)


def main() -> None:
    sw.MNL  # noqa: B018 (setwise imports on first use: before the clock of the first fit starts)
    side.fits(("setwise", "numpy", "scipy"), prepare, fit)


if __name__ == "__main__":
    main()

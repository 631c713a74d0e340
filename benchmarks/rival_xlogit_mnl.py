"""The multinomial logit in xlogit, with and without standard errors. Environment ``xlogit``."""

import argparse
from importlib import metadata

import numpy as np
from data import marks
from report import emit, timed
from xlogit import MultinomialLogit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--fits", type=int, required=True)
    given = parser.parse_args()
    data = dict(np.load(given.data))
    sizes, x = data["sizes"], data["items"]
    y = marks(sizes, data["chosen"])
    ids = np.repeat(np.arange(len(sizes)), sizes)
    alternatives = np.tile(np.arange(sizes[0]), len(sizes))
    names = [f"x{i}" for i in range(x.shape[1])]

    def fit(skip: bool) -> MultinomialLogit:
        model = MultinomialLogit()
        model.fit(x, y, names, alternatives, ids, skip_std_errs=skip, verbose=0)
        return model

    plain = [timed(lambda: fit(skip=True)) for _ in range(given.fits + 1)]
    full = [timed(lambda: fit(skip=False)) for _ in range(given.fits + 1)]
    model = full[-1][1]
    emit(
        {
            "first_fit_seconds": plain[0][0],
            "fit_seconds": float(np.median([seconds for seconds, _ in full[1:]])),
            "plain_fit_seconds": float(np.median([seconds for seconds, _ in plain[1:]])),
            "log_likelihood": float(model.loglikelihood),
            "standard_errors": model.stderr.tolist(),
            "version": metadata.version("xlogit"),
        }
    )


if __name__ == "__main__":
    main()

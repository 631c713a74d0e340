"""The multinomial logit in setwise, with standard errors. Run in setwise's environment."""

import argparse

import numpy as np
from data import marks
from report import emit, timed, versions


def start() -> object:
    """Import what a fit needs, before the clock of the first fit starts."""
    import setwise

    return setwise.read, setwise.MNL, setwise.__version__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--fits", type=int, required=True)
    given = parser.parse_args()
    data = dict(np.load(given.data))
    chosen = marks(data["sizes"], data["chosen"])
    import_seconds, (read, mnl, _) = timed(start)
    reads = [
        timed(lambda: read(data["items"], set=data["sizes"], chosen=chosen))
        for _ in range(given.fits)
    ]
    choices = reads[-1][1]
    fits = [timed(lambda: mnl().fit(choices)) for _ in range(given.fits + 1)]
    model = fits[-1][1]
    emit(
        {
            "import_seconds": import_seconds,
            "first_read_seconds": reads[0][0],
            "read_seconds": float(np.median([seconds for seconds, _ in reads])),
            "first_fit_seconds": fits[0][0],
            "fit_seconds": float(np.median([seconds for seconds, _ in fits[1:]])),
            "log_likelihood": model.log_likelihood_,
            "standard_errors": model.standard_errors_.tolist(),
            "versions": versions("setwise", "numpy", "scipy"),
        }
    )


if __name__ == "__main__":
    main()

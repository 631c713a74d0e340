"""What the sides share: arguments in, figures out. NumPy and the standard library only.

A side is a script that fits one package's model in a process of its own. It says how its package
takes the data and fits; this says how often, how long it took and how much memory there was.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from data import log_likelihood, read
from report import emit, timed, versions

Data = dict[str, np.ndarray]


class Estimate(NamedTuple):
    """What a fit to the optimum found."""

    coefficients: np.ndarray
    standard_errors: np.ndarray | None = None
    log_likelihood: float | None = None  # the side's own, where the logit's is not what it has


class Trained(NamedTuple):
    """What training by minibatches took and gave."""

    epoch_seconds: list[float]
    loss: float
    parameters: int


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="an .npz file of data.py")
    parser.add_argument("--model", help="which one, where the side has several")
    parser.add_argument("--times", type=int, required=True, help="warm fits, or epochs")
    parser.add_argument("--seconds", type=float, default=20.0, help="warm fits stop after these")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--errors", action="store_true", help="standard errors, where optional")
    parser.add_argument("--clustered", action="store_true", help="standard errors by person")
    parser.add_argument("--raw", action="store_true", help="hand over sets as they are, unpadded")
    parser.add_argument("--began", type=float, default=time.time(), help="when the process did")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def memory() -> float:
    """The most memory this process has had so far, in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def fits(
    packages: tuple[str, ...],
    prepare: Callable[[Data, argparse.Namespace], Any],
    fit: Callable[[Any, argparse.Namespace], Estimate],
) -> None:
    """Fit again and again, from the start each time, and hand back the figures."""
    given = options()
    start_seconds, imported = time.time() - given.began, memory()
    choices = read(given.data)
    first_preparation, prepared = timed(lambda: prepare(choices, given))
    first, estimate = timed(lambda: fit(prepared, given))
    warm = list(_until_enough(lambda: fit(prepared, given), given))
    again, _ = timed(lambda: prepare(choices, given))
    errors, value = estimate.standard_errors, estimate.log_likelihood
    if value is None:
        value = log_likelihood(choices, estimate.coefficients)
    emit(
        {
            "start_seconds": start_seconds,
            "first_prepare_seconds": first_preparation,
            "prepare_seconds": again,
            "first_fit_seconds": first,
            "fit_seconds": float(np.median(warm)),
            "log_likelihood": value,
            "standard_errors": None if errors is None else np.asarray(errors).tolist(),
            **_about_memory(imported),
            "versions": versions(*packages),
        }
    )


def _until_enough(action: Callable[[], Any], given: argparse.Namespace) -> Iterator[float]:
    """Seconds of each repetition; slow sides repeat less often, but twice at least."""
    spent, done = 0.0, 0
    while done < given.times and (done < 2 or spent < given.seconds):
        seconds, _ = timed(action)
        spent, done = spent + seconds, done + 1
        yield seconds


def epochs(packages: tuple[str, ...], train: Callable[[Data, argparse.Namespace], Trained]) -> None:
    """Train once for some epochs, and hand back the figures; the first epoch stands apart."""
    given = options()
    start_seconds, imported = time.time() - given.began, memory()
    trained = train(read(given.data), given)
    first, *steady = trained.epoch_seconds
    emit(
        {
            "start_seconds": start_seconds,
            "first_epoch_seconds": first,
            "epoch_seconds": float(np.median(steady)),
            "loss": trained.loss,
            "parameters": trained.parameters,
            **_about_memory(imported),
            "versions": versions(*packages),
        }
    )


def _about_memory(imported: float) -> dict[str, float]:
    peak = memory()
    return {"memory": peak, "memory_growth": peak - imported}

"""A population of SDAs in setwise: milliseconds per epoch of one of them."""

import argparse
import time

import data
import numpy as np
from report import emit, versions
from setwise_sda import SDA, read

import setwise as sw
from setwise.training import Member, Task, fit_population, population_plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="an .npz file of data.py")
    parser.add_argument("--kind", choices=("trials", "ensemble"), required=True)
    parser.add_argument("--lanes", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    given = parser.parse_args()
    population_plan.LANES_ON_CPU = given.lanes  # what this is about
    choices = read(data.read(given.data))
    encoded = sw.Schema.fit(choices).encode(choices)
    # One set to validate on: what counts is training.
    task = Task(encoded, sw.Schema.fit(choices).encode(choices.take(np.array([0]))))
    how = sw.training.Options(epochs=given.epochs, patience=given.epochs, dropout=0.1)
    apart = given.kind == "ensemble"
    members = [Member(how, seed=number if apart else 0) for number in range(given.lanes)]
    moments = [time.perf_counter()]
    fit_population(
        sw.models.ZOO["sda_inner"], SDA, [task], members,
        on_epoch=lambda record: moments.append(time.perf_counter()),
    )  # fmt: skip
    steady = np.diff(moments)[1:]
    emit(
        {
            "milliseconds": 1e3 * float(np.median(steady)) / given.lanes,
            "versions": versions("setwise", "jax"),
        }
    )


if __name__ == "__main__":
    main()

"""What coupled weight decay changes in the paper's protocol, measured beside the decoupled one.

``python docs/weight_decay.py modecanada`` tunes each method with the paper's protocol on the same
splits twice, by Adam with weight decay in the gradient (as the preset has it) and as in AdamW, and
keeps both in ``results/weight_decay.json``, method by method: the same command goes on after a
kill. Before, it trains SDA on the first split with fixed weight decays. Then ``python
docs/paper_page.py`` writes the tables into ``paper.md``.

``--like amadeus`` reads a raw file of the paper's data. ``--splits``, ``--trials`` and ``--sets``
make it shorter than the protocol; the table says so.
"""

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import setwise as sw
from setwise._files import whole_file
from setwise.choices.schema import common_levels
from setwise.comparison.comparison import tune_parts
from setwise.estimators import TrainedEstimator
from setwise.models import ZOO, Sizes
from setwise.paper.reproduction import PRESETS, Protocol
from setwise.paper.reproduction.protocol import SIZES, Method
from setwise.paper.reproduction.work import machine
from setwise.training import Member, Task, fit_population

RESULT = Path(__file__).parent / "results" / "weight_decay.json"
WAYS = {"coupled": False, "decoupled": True}
"""Values of ``decoupled_weight_decay``."""
METHODS = "sda,sde,sdw,mnl"
RATE, DECAYS = 1e-3, (1e-10, 1e-5, 1e-4, 1e-3)
"""The paper's greatest learning rate, and weight decays of its range."""


def choices_of(data: str, like: str | None) -> sw.Choices:
    """A shipped table by its name, or a raw file of the paper's data."""
    found = sw.datasets.load(data) if like is None else sw.paper.load_raw(like, data, "paper")
    return found.limit(min_items=2)


def parts_of(choices: sw.Choices, protocol: Protocol) -> list[tuple[sw.Choices, ...]]:
    """Training, validation and test sets of every split, as a reproduction has them."""
    seeds = range(protocol.seed, protocol.seed + protocol.splits)
    return [
        sw.split(common_levels(choices.sample(protocol.sets, seed)), SIZES, seed) for seed in seeds
    ]


def measured(
    method: str, parts: list[tuple[sw.Choices, ...]], protocol: Protocol
) -> dict[str, dict[str, list[float]]]:
    """A method's test measures and best weight decays on every split, by way."""
    found = {}
    for way, decoupled in WAYS.items():
        training = replace(protocol.training, decoupled_weight_decay=decoupled)
        estimator = replace(protocol, training=training).estimator(Method(method))
        assert isinstance(estimator, TrainedEstimator), f"{method} has no weight decay"
        done = tune_parts(estimator, parts, protocol.seed, protocol.tuning)
        found[way] = {
            "top1": [one.test.top1 for one in done],
            "nll": [one.test.nll for one in done],
            "weight_decay": [one.tuned.values["weight_decay"] for one in done],
        }
    return found


def sweep(part: tuple[sw.Choices, ...], protocol: Protocol) -> dict[str, list[dict[str, float]]]:
    """SDA with each weight decay, by way: its best validation accuracy, and its NLL there."""
    schema = sw.Schema.fit(part[0])
    task = Task(schema.encode(part[0]), schema.encode(part[1]))
    found = {}
    for way, decoupled in WAYS.items():
        options = replace(protocol.training, learning_rate=RATE, decoupled_weight_decay=decoupled)
        members = [Member(replace(options, weight_decay=decay)) for decay in DECAYS]
        fits = fit_population(ZOO["sda_inner"], Sizes(), [task], members)
        best = [fit.history[fit.best_epoch] for fit in fits]
        found[way] = [
            {"weight_decay": decay, "nll": one["nll"], "accuracy": one["accuracy"]}
            for decay, one in zip(DECAYS, best, strict=True)
        ]
    return found


def run(name: str, choices: sw.Choices, methods: list[str], protocol: Protocol) -> None:
    """Measure what is not yet in the file, and write it after every method."""
    runs = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
    about: dict[str, Any] = {
        "sets": min(len(choices), protocol.sets), "splits": protocol.splits,
        "trials": protocol.trials, "machine": machine(),
    }  # fmt: skip
    kept: Mapping[str, Any] = runs.get(name, {})
    if {key: kept.get(key) for key in about} != about:
        kept = {}  # another protocol or machine: all is measured again
    one = {**about, "methods": dict(kept.get("methods", {}))}
    parts = parts_of(choices, protocol)
    one["sweep"] = kept["sweep"] if "sweep" in kept else sweep(parts[0], protocol)
    for method in methods:
        if method in one["methods"]:
            continue
        begin = time.perf_counter()
        one["methods"][method] = measured(method, parts, protocol)
        print(f"{name}: {method} took {time.perf_counter() - begin:.0f} s", flush=True)
        write(runs | {name: one})
    write(runs | {name: one})


def write(runs: Mapping[str, Any]) -> None:
    """Write all runs, whole or not at all."""
    with whole_file(RESULT) as part:
        part.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a shipped table's name, or a raw file")
    parser.add_argument("--like", choices=("amadeus", "expedia", "outbrain"), help="of raw files")
    parser.add_argument("--methods", default=METHODS, help="by commas")
    paper = PRESETS["paper"]
    for option in ("splits", "trials", "sets"):
        parser.add_argument(f"--{option}", type=int, default=getattr(paper, option))
    given = parser.parse_args()
    wanted = replace(paper, splits=given.splits, trials=given.trials, sets=given.sets)
    title = given.data if given.like is None else given.like.capitalize()
    run(title, choices_of(given.data, given.like), given.methods.split(","), wanted)

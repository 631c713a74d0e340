"""The default SDA against strong rivals, on data files, split by split; resumable.

    python benchmarks/accuracy.py OUT.jsonl DATA.setwise-data ... [--splits 10] [--trials 16]

Every model sees the same splits (50:25:25). ``sda`` has its default arguments. Rivals that train
by gradients are tuned on the validation part of each split; what is solved has nothing to tune. One
line a model and split is written as soon as a model has all its splits; what is there is not done
again. ``--read`` prints the tables of a file.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import setwise as sw
from setwise.estimators import TrainedEstimator, fit_together, named
from setwise.experiments import tune_splits
from setwise.experiments.comparison import Cell, Comparison
from setwise.experiments.report import HEADS, cells

DEFAULT = "sda"
SOLVED = ("mnl", "mnl_within_set", "lcl")
TUNED = ("sda_inner", "sda_difference", "sdw", "sde", "deep_sets", "fate", "set_transformer", "mlp")


def measured(name: str, choices: sw.Choices, splits: int, trials: int) -> Iterator[dict[str, Any]]:
    """The metrics of a model on the test part of every split."""
    estimator = named(name)
    if isinstance(estimator, TrainedEstimator) and name != DEFAULT:
        tuning = sw.Tuning(trials, "training", storage=None)
        for one in tune_splits(estimator, choices, splits=splits, tuning=tuning):
            yield {"split": one.split, "metrics": dict(one.test), "seconds": one.seconds}
        return
    parts = [sw.split(choices, (0.5, 0.25, 0.25), seed) for seed in range(splits)]
    if isinstance(estimator, TrainedEstimator):
        fitted: list[Any] = list(fit_together(estimator, [p[:2] for p in parts], range(splits)))
    else:
        fitted = [named(name).fit(train) for train, _, _ in parts]
    for split, (one, part) in enumerate(zip(fitted, parts, strict=True)):
        yield {"split": split, "metrics": dict(one.evaluate(part[2])), "seconds": 0.0}


def stored(path: Path) -> list[dict[str, Any]]:
    """What the file holds."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def show(rows: list[dict[str, Any]]) -> None:
    """The table of each data set, by NLL."""
    for data in dict.fromkeys(row["data"] for row in rows):
        here = [
            Cell(row["model"], row["split"], row["metrics"], row["seconds"])
            for row in rows
            if row["data"] == data
        ]
        print(f"\n{data}\n{' | '.join(HEADS)}")
        for row in Comparison(tuple(here), data, (0.5, 0.25, 0.25)).leaderboard():
            print(" | ".join(cells(row)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--models", default=",".join((DEFAULT, *SOLVED, *TUNED)))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    for path in () if given.read else given.data:
        choices = sw.open_choices(path).in_memory()
        for name in given.models.split(","):
            done = {(row["data"], row["model"]) for row in stored(given.out)}
            if (path.stem, name) in done:
                continue
            rows = [
                {"data": path.stem, "model": name} | one
                for one in measured(name, choices, given.splits, given.trials)
            ]
            with given.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            mean = sum(row["metrics"]["nll"] for row in rows) / len(rows)
            print(f"{path.stem}  {name}  NLL {mean:.4f}", flush=True)
    show(stored(given.out))


if __name__ == "__main__":
    main()

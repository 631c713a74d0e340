"""choice-learn's RUMnet and ResLogit on the splits of accuracy.py's ``rivals``; resumable.

    python benchmarks/accuracy_choice_learn.py OUT.jsonl DATA.setwise-data ... [--models rumnet]

The models see what setwise's see: columns standardised on the training part. They are tuned on the
validation part in an environment of their own (rival_choice_learn_accuracy.py); the test part is
measured here, as every other rival's is. One line a model and split is written as soon as it is
there, and what is there is not done again. ``accuracy.py OUT.jsonl --read`` prints the tables.

ResLogit has a weight for each pair of places in the set, so it knows the order in which a file
lists items, which no other model here does; and where people were shown that order it tells much of
the choice (Expedia). So that all see the same, items are put in a random order within their set.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import metrics_of, rivals, stored
from data import write
from environments import python_of
from report import FOLDER, say

import setwise as sw
from setwise.choices import Encoded, Schema
from setwise.metrics import Outcomes

MODELS = ("rumnet", "reslogit")
RIVAL = "choice-learn"


def encoded(choices: sw.Choices, seed: int, given: argparse.Namespace) -> tuple[Encoded, ...]:
    """Training, validation and test sets of a split, as setwise's own models see them."""
    ((train, valid, tests),) = rivals(choices, seed, given)
    schema, rng = Schema.fit(train), np.random.default_rng(seed)
    return tuple(shuffled(schema.encode(part), rng) for part in (train, valid, tests["test"]))


def shuffled(part: Encoded, rng: np.random.Generator) -> Encoded:
    """With the items of each set in a random order."""
    rows = len(part.items)
    order = np.lexsort((rng.random(rows), np.repeat(np.arange(len(part)), part.sizes)))
    place = np.empty(rows, int)
    place[order] = np.arange(rows)
    starts = part.offsets[:-1]
    chosen = place[starts + part.chosen] - starts
    return replace(part, items=part.items[order], chosen=chosen)


def arrays(parts: tuple[Encoded, ...]) -> dict[str, np.ndarray]:
    """The three parts one after another, in the form of data.py."""
    names = ("items", "sizes", "chosen", "context")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return joined | {"parts": np.array([len(part) for part in parts])}


def tuned(
    python: Path, model: str, splits: list[Path], trials: int
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """What the rival says of each split, and its log-probabilities of the padded test sets."""
    script = FOLDER / "rival_choice_learn_accuracy.py"
    command = [python, script, *splits, "--model", model, "--trials", trials]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as side:
        assert side.stdout is not None
        for path, line in zip(splits, side.stdout, strict=False):
            yield json.loads(line), np.load(path.with_suffix(".npy"))
    if side.returncode != 0:
        raise SystemExit(
            f"{model} stopped with status {side.returncode}, for the reason above; what is done "
            "is kept, and the same command goes on from there"
        )


def judged(log_probabilities: np.ndarray, test: Encoded) -> dict[str, float]:
    """The metrics of the test sets."""
    present = np.arange(log_probabilities.shape[1]) < test.sizes[:, None]
    assert test.chosen is not None
    return metrics_of(Outcomes.of(log_probabilities[present], test.offsets, test.chosen))


def measure(path: Path, model: str, python: Path, given: argparse.Namespace) -> None:
    """Write a line for each split of a data set that has none yet."""
    key = {"data": path.stem, "task": "rivals", "model": model}
    done = {row["split"] for row in stored(given.out) if key.items() <= row.items()}
    left = [s for s in range(given.first, given.first + given.splits) if s not in done]
    choices = sw.open_choices(path).in_memory().limit(min_items=2)
    with tempfile.TemporaryDirectory() as folder:
        parts = {split: encoded(choices, split, given) for split in left}
        files = [write(Path(folder), str(split), arrays(parts[split])) for split in left]
        found = tuned(python, model, files, given.trials) if left else ()
        for split, (how, log_probabilities) in zip(left, found, strict=False):
            metrics = judged(log_probabilities, parts[split][-1])
            row = key | {"split": split, "part": "test", "metrics": metrics}
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            nll, top1 = metrics["nll"], metrics["top1"]
            say(f"{path.stem}  {model}  {split}  NLL {nll:.4f}  top-1 {top1:.4f}  {how}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first split")
    parser.add_argument("--trials", type=int, default=16)
    given = parser.parse_args()
    python = python_of(RIVAL)
    if python is None:
        raise SystemExit(f"{RIVAL} is needed: make its environment with environments.py {RIVAL}")
    for path in given.data:
        for model in given.models.split(","):
            measure(path, model, python, given)


if __name__ == "__main__":
    main()

"""``SDA`` beside logits with few training sets; resumable.

    python benchmarks/few_sets.py OUT.jsonl DATA ... [--sets 100,200,450,1000] [--splits 10]

``DATA`` are data files, or the names of generators: "mnl" (five items, four features) and
"context" (five items, four features, and three context columns of which one moves a weight).
Splits are 50:25:25 with seeds from 100: tables of the page "Accuracy" have others. Half as many
sets validate as train; at most 3,000 test. One line per data set, size and model has the test NLL
of every split, and of ``SDA`` also the weight of the logit beside its members.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import setwise as sw
from setwise.estimators import fit_together

FIRST_SPLIT, MOST_TEST = 100, 3000
SPLIT = (0.5, 0.25, 0.25)
Parts = tuple[sw.Choices, sw.Choices, sw.Choices]


def mnl(sets: int, seed: int) -> sw.Choices:
    """Choices of an MNL."""
    return sw.datasets.generate("mnl", sets=sets, items=5, features=4, seed=seed).choices


def context(sets: int, seed: int) -> sw.Choices:
    """Choices of people who are described by three columns; the first moves the first weight."""
    rng = np.random.default_rng(seed)
    x, c = rng.normal(size=(sets, 5, 4)), rng.normal(size=(sets, 3))
    v = x @ np.array([1.0, -0.6, 0.4, 0.2]) + 0.3 * c[:, :1] * x[:, :, 0]
    chosen = (v + rng.gumbel(size=v.shape)).argmax(1)
    columns = {"set": np.repeat(np.arange(sets), 5)}
    columns["chosen"] = (np.arange(5) == chosen[:, None]).astype(int).ravel()
    columns |= {f"x{j}": x[:, :, j].ravel() for j in range(4)}
    columns |= {f"c{j}": np.repeat(c[:, j], 5) for j in range(3)}
    return sw.read(
        pl.DataFrame(columns), set="set", chosen="chosen", items=[f"x{j}" for j in range(4)],
        context=[f"c{j}" for j in range(3)],
    )  # fmt: skip


GENERATED = {"mnl": mnl, "context": context}


def parts(data: str, sets: int, seed: int) -> Parts:
    """Sets to train on, half as many to validate on, and others to test on."""
    if data in GENERATED:
        ends = np.cumsum([0, sets, sets // 2, MOST_TEST])
        drawn = GENERATED[data](int(ends[-1]), seed)
        train, valid, test = (drawn.take(np.arange(*pair)) for pair in itertools.pairwise(ends))
        return train, valid, test
    choices = sw.open_choices(Path(data)).in_memory().limit(min_items=2)
    train, valid, test = sw.split(choices, SPLIT, seed)
    train, valid = (
        train.sample(min(sets, len(train)), seed),
        valid.sample(min(sets // 2, len(valid)), seed),
    )
    return train, valid, test.take(np.arange(min(MOST_TEST, len(test))))


def measured(data: str, sets: int, splits: int) -> Iterator[dict[str, Any]]:
    """A row per model."""
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + splits)
    every = [parts(data, sets, seed) for seed in seeds]
    logits = {
        "mnl": [sw.MNL().fit(train) for train, _, _ in every],
        "mnl_within_set": [
            sw.WithinSetMNL(l2="validation").fit(train, valid) for train, valid, _ in every
        ],
    }
    fitted: Any = fit_together(sw.SDA(), [(train, valid) for train, valid, _ in every], seeds)
    for name, models in (logits | {"sda": fitted}).items():
        nll = [model.evaluate(test).nll for model, (_, _, test) in zip(models, every, strict=True)]
        row = {"data": Path(data).stem, "sets": sets, "model": name, "nll": nll}
        if name == "sda":
            row["logit_weight"] = [model.logit_weight_ for model in models]
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--sets", default="100,200,450,1000")
    parser.add_argument("--splits", type=int, default=10)
    given = parser.parse_args()
    for data in given.data:
        for sets in map(int, given.sets.split(",")):
            lines = given.out.read_text("utf-8").splitlines() if given.out.exists() else []
            done = {(row["data"], row["sets"]) for row in map(json.loads, lines)}
            if (Path(data).stem, sets) in done:
                continue
            rows = list(measured(data, sets, given.splits))
            with given.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            base = np.array(rows[0]["nll"])
            print(f"{Path(data).stem}, {sets} sets: mnl {base.mean():.4f}", end="")
            for row in rows[1:]:
                difference = np.array(row["nll"]) - base
                print(
                    f"; {row['model']} {difference.mean():+.4f} (at worst {difference.max():+.4f})",
                    end="",
                )
            print(flush=True)


if __name__ == "__main__":
    main()

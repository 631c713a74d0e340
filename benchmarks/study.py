"""What each part of the default SDA is worth: one switch at a time, split by split; resumable.

    python benchmarks/study.py OUT.jsonl DATA.setwise-data ... [--splits 10] [--seeds 3]

Every row of the study is one member of the default's ensemble, without pieces and with the weight
decay 0.01, with one thing changed (``STUDIED``), trained on the same splits (50:25:25, seeds from
100: the comparison with rivals has others) with the same seeds. NLL and top-1 on the test parts, of
the single models and of the mean of the seeds' probabilities. ``docs/accuracy_page.py`` makes the
table, with paired tests.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from study_model import Switches

import setwise as sw
from setwise import _masked
from setwise.choices import Encoded, Schema
from setwise.metrics import Ranks
from setwise.models import ZOO, Blueprint, Sizes
from setwise.training import Member, Options, Task, fit_population
from setwise.training.options import OBJECTIVES, cross_entropy

FIRST_SPLIT = 100
BASE = Options(learning_rate=3e-3)


def smoothed(scores: Any, present: Any, chosen: Any) -> Any:
    """Cross-entropy against 0.95 of the choice and 0.05 of all items alike."""
    alike = -_masked.mean(_masked.log_softmax(scores, present), present)
    return 0.95 * cross_entropy(scores, present, chosen) + 0.05 * alike


def with_ranking(scores: Any, present: Any, chosen: Any) -> Any:
    """Cross-entropy plus the smooth NDCG loss."""
    return cross_entropy(scores, present, chosen) + OBJECTIVES["listwise"](scores, present, chosen)


STUDIED: Mapping[str, dict[str, Any]] = {
    "default (one model)": {},
    "in pieces": {"seen": "in pieces"},
    "in pieces, weight decay 1": {"seen": "in pieces", "weight_decay": 1.0},
    "in fine pieces, F with a hidden layer": {
        "zoo": "sda_fine",
        "weight_decay": 1.0,
        "dropout": 0.4,
        "decay": 0.9,
        "decay_every": 1,
        "patience": 6,
    },
    "items alone (no within-set features)": {"seen": "alone"},
    "no logit beside": {"logit": False},
    "no quiet start": {"quiet": False},
    "none of the three": {"seen": "alone", "logit": False, "quiet": False},
    "F with a hidden layer": {"F": "hidden"},
    "two interaction layers": {"layers": 2},
    "l = 48": {"dimension": 48},
    "shared wiring": {"shared": True},
    "pooling: mean and max": {"pooling": "mean and max"},
    "pooling: attention": {"pooling": "attention"},
    "a kink for each score": {"mu": "kinks"},
    "no kink (tanh)": {"mu": "tanh"},
    "w a vector (SDE)": {"w": "vector"},
    "r zero, no mu (SDW)": {"r": "zero", "mu": "identity"},
    "w and r constant": {"w": "vector", "r": "vector"},
    "weight decay 0.3": {"weight_decay": 0.3},
    "weight decay 1": {"weight_decay": 1.0},
    "dropout 0.2": {"dropout": 0.2},
    "learning rate 0.001": {"learning_rate": 0.001},
    "no decay of the rate": {"decay": 1.0},
    "stop on accuracy": {"stop_on": "accuracy"},
    "label smoothing 0.05": {"objective": "smoothed"},
    "ranking loss: listwise": {"objective": "listwise"},
    "ranking loss: pairwise": {"objective": "pairwise"},
    "cross-entropy and listwise": {"objective": "with_ranking"},
}


def register() -> None:
    """Losses that the study alone has."""
    assert isinstance(OBJECTIVES, dict)
    OBJECTIVES.update(smoothed=smoothed, with_ranking=with_ranking)


@cache
def tasks(path: Path, splits: int) -> list[tuple[Task, Encoded]]:
    """Training and validation parts, and the test part, of every split."""
    choices = sw.open_choices(path).in_memory().limit(min_items=2)
    found = []
    for seed in range(FIRST_SPLIT, FIRST_SPLIT + splits):
        train, valid, test = sw.split(choices, (0.5, 0.25, 0.25), seed)
        schema = Schema.fit(train)
        found.append((Task(schema.encode(train), schema.encode(valid)), schema.encode(test)))
    return found


def padded(encoded: Encoded) -> tuple[np.ndarray, np.ndarray]:
    """Items and which are present, of every set."""
    present = np.arange(encoded.sizes.max()) < encoded.sizes[:, None]
    items = np.zeros((*present.shape, encoded.items.shape[1]), np.float32)
    items[present] = encoded.items
    return items, present


@eqx.filter_jit
def log_probabilities(models: Any, items: Any, present: Any) -> Any:
    """log P of every model for every set."""

    def one(model: Any) -> Any:
        def of_set(given: Any) -> Any:
            return _masked.log_softmax(model.scores(*given), given[1])

        return jax.lax.map(of_set, (items, present), batch_size=256)

    return eqx.filter_vmap(one)(models)


def judged(log_p: np.ndarray, test: Encoded) -> tuple[float, float]:
    """NLL and top-1 (ties by expectation)."""
    chosen = log_p[np.arange(len(log_p)), test.chosen]
    flat = log_p[np.arange(log_p.shape[1]) < test.sizes[:, None]]
    top1 = Ranks.of(flat, test.offsets, np.asarray(test.chosen)).top(1)
    return float(-chosen.mean()), float(100 * top1.mean())


def study(path: Path, names: Sequence[str], splits: int, seeds: int) -> Iterator[dict[str, Any]]:
    """NLL and top-1 of each split, for changes of training that share one architecture."""
    data = tasks(path, splits)
    members = [
        Member(replace(BASE, **of_training(STUDIED[name])), 1000 * split + seed, split)
        for name in names
        for split in range(splits)
        for seed in range(seeds)
    ]
    begin = time.perf_counter()
    fits = iter(fit_population(switches(names[0]), Sizes(), [task for task, _ in data], members))
    seconds = (time.perf_counter() - begin) / len(names)
    for name in names:
        row: dict[str, Any] = {"data": path.stem, "change": name, "seconds": round(seconds, 1)}
        single, mean, epochs = [], [], []
        for _, test in data:
            here = list(islice(fits, seeds))
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(fit.model for fit in here))
            log_p = np.asarray(log_probabilities(stacked, *padded(test)))
            single.append(np.mean([judged(one, test) for one in log_p], 0).tolist())
            mean.append(judged(np.logaddexp.reduce(log_p, 0) - np.log(seeds), test))
            epochs += [fit.best_epoch for fit in here]
        yield row | {"single": single, "mean": mean, "epochs": float(np.mean(epochs))}


def of_training(change: Mapping[str, Any]) -> dict[str, Any]:
    """What a change does to the training."""
    return {name: value for name, value in change.items() if hasattr(BASE, name)}


def switches(name: str) -> Blueprint:
    """The architecture of a change."""
    if "zoo" in STUDIED[name]:
        return ZOO[STUDIED[name]["zoo"]]
    return Switches(**{k: v for k, v in STUDIED[name].items() if not hasattr(BASE, k)})


def together(names: Sequence[str]) -> list[list[str]]:
    """Changes that share an architecture, which train as one population."""
    groups: dict[Blueprint, list[str]] = {}
    for name in names:
        groups.setdefault(switches(name), []).append(name)
    return list(groups.values())


def stored(path: Path) -> list[dict[str, Any]]:
    """What the file holds."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", help="changes, separated by ;")
    parser.add_argument("--part", default="0/1", help="k/n: every n-th architecture, from the k-th")
    given = parser.parse_args()
    register()
    names = given.only.split(";") if given.only else list(STUDIED)
    part, parts = map(int, given.part.split("/"))
    for path in given.data:
        done = {row["change"] for row in stored(given.out) if row["data"] == path.stem}
        for group in together([name for name in names if name not in done])[part::parts]:
            for row in study(path, group, given.splits, given.seeds):
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                single, mean = np.mean(row["single"], 0), np.mean(row["mean"], 0)
                print(
                    f"{path.stem:17} {row['change']:36} NLL {single[0]:.4f} / {mean[0]:.4f}  "
                    f"top-1 {single[1]:.2f} / {mean[1]:.2f}  epochs {row['epochs']:.0f}  "
                    f"{row['seconds']:.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()

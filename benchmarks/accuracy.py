"""``Auto`` and ``SDA`` as they come against strong rivals, on data files; resumable.

    python benchmarks/accuracy.py OUT.jsonl DATA.setwise-data ... [--task rivals] [--models a,b]

Tasks:
    rivals        50:25:25, ten splits.
    people        the same, but no person is on both sides of a split.
    transfer      trains on sets of at most ``--up-to`` items and is tested on each larger size.
    curve         trains on 200, 500, 1,000, ... sets, with half as many to validate on.

Every model sees the same splits. ``auto``, ``sda`` and ``boosted_logit`` have their default
arguments. Rivals that train by gradients are tuned on the validation part of each split (16
trials); so are LightGBM's ranker and ``boosted_logit tuned``, over their own arguments; what is
solved has nothing to tune. ``mixture`` is ``sda`` and the best of four settings of boosted trees,
with one weight, both chosen on validation. ``latent_class`` takes its membership from the context
columns, where there are any. A name that ends in ``+`` gives the rival each feature's z-score and
position within the set as columns; one that ends in ``*5`` is a mean of five tuned models.

One line a model, split and test part, and one for a part's sets of all splits together, is written
as soon as a model has all its splits; what is there is not done again. ``--read`` prints the tables
of a file.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import setwise as sw
from setwise.choices import Feature
from setwise.choices.choices import Column
from setwise.comparison.comparison import Cell, Comparison, tune_parts
from setwise.estimators import ChoiceModel, TrainedEstimator, fit_together, named
from setwise.metrics import CALIBRATION_BINS, Outcomes, Ranks
from setwise.reports.comparison import HEADS, cells

DEFAULTS = ("auto", "boosted_logit")
DEFAULT = "sda"
TUNED, MIXTURE = "boosted_logit tuned", "mixture"
SOLVED = ("mnl", "mnl_within_set", "lcl")
PAPER = ("sda_inner", "sda_difference", "sdw", "sde")
NETWORKS = ("mlp", "deep_sets", "fate", "set_transformer")
LIGHTGBM = "lambdamart"
RIVALS = (
    *DEFAULTS, DEFAULT, *SOLVED, *PAPER, *NETWORKS, "mlp+", "deep_sets+", "mlp+*5", "deep_sets*5",
    "sda_difference*5", LIGHTGBM, f"{LIGHTGBM}+", TUNED,
)  # fmt: skip
MIXED_TREES = [
    sw.BoostedLogit(leaves=leaves, columns=columns) for leaves in (8, 31) for columns in (0.5, 1.0)
]
SPLIT = (0.5, 0.25, 0.25)
CURVE = (100, 200, 500, 1000, 2000, 5000, 10_000)

Part = tuple[sw.Choices, sw.Choices, dict[str, sw.Choices]]
"""Training sets, validation sets, and test sets by name."""


def rivals(choices: sw.Choices, seed: int, given: argparse.Namespace) -> list[Part]:
    """One part a split."""
    train, valid, test = sw.split(choices, SPLIT, seed)
    return [(train, valid, {"test": test})]


def people(choices: sw.Choices, seed: int, given: argparse.Namespace) -> list[Part]:
    """One part a split, with people as a whole in one of its parts."""
    train, valid, test = sw.split(choices, SPLIT, seed, by="group")
    return [(train, valid, {"test": test})]


def transfer(choices: sw.Choices, seed: int, given: argparse.Namespace) -> list[Part]:
    """Small sets to learn from; larger ones, by size or in one part, to be tested on."""
    train, valid, test = sw.split(choices, SPLIT, seed)
    least = given.up_to + 1
    larger = [int(size) for size in np.unique(choices.sizes) if size >= least]
    tests = {f"at most {given.up_to}": test.limit(given.up_to), "larger": test.limit(None, least)}
    if len(larger) < 5:
        tests |= {f"{size}": test.limit(size, size) for size in larger}
    small = (train.limit(given.up_to), valid.limit(given.up_to), tests)
    everything = {f"{name}, trained on all": part for name, part in tests.items()}
    return [small, (train, valid, everything)]


def curve(choices: sw.Choices, seed: int, given: argparse.Namespace) -> list[Part]:
    """More and more sets to learn from, the same to be tested on."""
    train, valid, test = sw.split(choices, SPLIT, seed)
    parts = []
    for sets in CURVE:
        if sets <= len(train):
            pair = train.sample(sets, seed), valid.sample(sets // 2, seed)
            parts.append((*pair, {f"{sets}": test}))
    return parts


TASKS = {"rivals": rivals, "people": people, "transfer": transfer, "curve": curve}


def with_within_set(choices: sw.Choices) -> sw.Choices:
    """With each item column's z-score and position within the set as further columns."""
    starts, sizes = choices.offsets[:-1], choices.sizes
    columns, features = dict(choices.columns), list(choices.roles.items)
    for feature in choices.roles.items:
        x = choices.columns[feature.column].values.astype(float)
        x = np.where(np.isnan(x), 0.0, x)
        x = {"none": x, "log": np.log(np.maximum(x, 1e-9))}[feature.transform]
        low, high = np.minimum.reduceat(x, starts), np.maximum.reduceat(x, starts)
        width = np.repeat(np.where(high > low, high - low, np.inf), sizes)
        position = (x - np.repeat(low, sizes)) / width
        centred = position - np.repeat(np.add.reduceat(position, starts) / sizes, sizes)
        spread = np.sqrt(np.add.reduceat(centred**2, starts) / sizes)
        z = centred / np.repeat(np.where(spread > 0, spread, np.inf), sizes)
        for kind, values in {"z": z, "position": position}.items():
            columns[f"{feature.column} {kind}"] = Column(values)
            features.append(Feature(f"{feature.column} {kind}"))
    return replace(choices, columns=columns, roles=replace(choices.roles, items=tuple(features)))


class Mixture:
    """Two fitted models, of which the first has this weight."""

    def __init__(self, first: Any, second: Any, weight: float):
        self.first, self.second, self.weight = first, second, weight

    @classmethod
    def chosen(cls, train: sw.Choices, valid: sw.Choices, first: Any) -> "Mixture":
        """``first`` and the best of the trees, with the weight that validation prefers."""
        trees = [clone(one).fit(train, valid) for one in MIXED_TREES]
        second = min(trees, key=lambda one: one.evaluate(valid).nll)
        weights = np.linspace(0, 1, 21)
        losses = [cls(first, second, weight).outcomes(valid).nll.mean() for weight in weights]
        return cls(first, second, float(weights[int(np.argmin(losses))]))

    def predict_proba(self, choices: sw.Choices) -> np.ndarray:
        """One probability per row."""
        first, second = (
            np.asarray(one.predict_proba(choices)) for one in (self.first, self.second)
        )
        return self.weight * first + (1 - self.weight) * second

    def outcomes(self, choices: sw.Choices) -> Outcomes:
        """What the metrics need, per set."""
        assert choices.chosen is not None
        return Outcomes.of(np.log(self.predict_proba(choices)), choices.offsets, choices.chosen)


def estimator_of(name: str, choices: sw.Choices) -> Any:
    """The estimator; networks are 64 wide, and classes know the context of a person."""
    if name in NETWORKS:
        return ChoiceModel(name, hidden=64)
    if name == "latent_class" and choices.roles.context:
        return sw.LatentClass(membership=[one.column for one in choices.roles.context])
    return named(name)


def fitted(name: str, parts: Sequence[Part], seed: int, given: argparse.Namespace) -> list[Any]:
    """The model of each part."""
    name, _, times = name.partition("*")
    name = name.rstrip("+")
    pairs = [(train, valid) for train, valid, _ in parts]
    seeds = range(seed, seed + len(parts))
    if name == MIXTURE:
        networks = fit_together(named(DEFAULT), pairs, seeds)
        return [Mixture.chosen(*pair, one) for pair, one in zip(pairs, networks, strict=True)]
    estimator = estimator_of(name.removesuffix(" tuned"), pairs[0][0])
    trained, tuned_trees = isinstance(estimator, TrainedEstimator), name in (TUNED, LIGHTGBM)
    if trained and (name == DEFAULT or not given.trials):
        return list(fit_together(estimator, pairs, seeds))
    if not (trained or (tuned_trees and given.trials)):
        return [clone(estimator).fit(train, valid) for train, valid in pairs]
    tuning = sw.Tuning(given.trials, storage=None)
    triples = [(train, valid, next(iter(tests.values()))) for train, valid, tests in parts]
    tuned = [one.tuned.estimator for one in tune_parts(estimator, triples, seed, tuning)]
    if not times:
        return tuned
    several = [clone(one).set_params(ensemble=int(times)) for one in tuned]
    return list(fit_together(several, pairs, seeds))


def chance(outcomes: Outcomes, draws: int = 20) -> float:
    """The calibration error to expect on so many sets, were the probabilities the true ones."""
    rng = np.random.default_rng(0)
    once = np.ones(len(outcomes.nll), int)

    def drawn() -> Outcomes:
        missed = rng.random(len(once)) >= outcomes.confidence
        return replace(outcomes, ranks=Ranks(missed.astype(int), once))

    return float(np.mean([drawn().measured()["calibration_error"] for _ in range(draws)]))


def of_all(model: Any, test: sw.Choices, draws: int = 20) -> dict[str, float]:
    """The calibration error over all items of all sets, and what chance alone would give."""
    log_p = np.log(np.asarray(model.predict_proba(test), float))
    starts, sizes = test.offsets[:-1], test.sizes
    bins = np.array_split(np.argsort(log_p, kind="stable"), CALIBRATION_BINS)

    def error(chosen: np.ndarray) -> float:
        gap = chosen - np.exp(log_p)
        return float(sum(abs(gap[one].sum()) for one in bins) / len(gap))

    def drawn() -> np.ndarray:
        noisy = log_p + rng.gumbel(size=len(log_p))
        return noisy == np.repeat(np.maximum.reduceat(noisy, starts), sizes)

    rng = np.random.default_rng(0)
    people = np.zeros(len(log_p))
    people[starts + test.chosen] = 1
    by_chance = float(np.mean([error(drawn()) for _ in range(draws)]))
    return {"calibration_of_all": error(people), "calibration_of_all_by_chance": by_chance}


def metrics_of(outcomes: Outcomes) -> dict[str, float]:
    """What is kept of a test part."""
    return dict(outcomes.measured()) | {"calibration_by_chance": chance(outcomes)}


def measured(name: str, choices: sw.Choices, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The metrics of a model on the test parts of every split."""
    choices = with_within_set(choices) if name.split("*")[0].endswith("+") else choices
    by_split = [
        TASKS[given.task](choices, seed, given)
        for seed in range(given.first, given.first + given.splits)
    ]
    rows = []
    together: dict[str, list[Outcomes]] = {}
    for each in zip(*by_split, strict=True):  # one kind of part, over the splits
        begun = time.perf_counter()
        models = fitted(name, each, given.first, given)
        seconds = (time.perf_counter() - begun) / len(each)
        for split, (model, part) in enumerate(zip(models, each, strict=True)):
            for label, test in part[2].items():
                outcomes = model.outcomes(test)
                together.setdefault(label, []).append(outcomes)
                row = {"split": given.first + split, "part": label, "seconds": seconds}
                metrics = metrics_of(outcomes) | of_all(model, test)
                rows.append(row | {"metrics": metrics})
    for label, several in together.items() if given.splits > 1 else ():
        row = {"split": given.first, "part": f"{label}, all splits"}
        rows.append(row | {"metrics": metrics_of(Outcomes.joined(several))})
    return rows


def stored(path: Path) -> list[dict[str, Any]]:
    """What the file holds."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """The table of each data set and part, by NLL."""
    for data, task, part in dict.fromkeys((r["data"], r["task"], r["part"]) for r in rows):
        here = [
            Cell(row["model"], row["split"], row["metrics"], 0.0)
            for row in rows
            if (row["data"], row["task"], row["part"]) == (data, task, part)
        ]
        print(f"\n{data}: {task}, {part}\n{' | '.join(HEADS)}")
        for row in Comparison(tuple(here), data, SPLIT).leaderboard():
            print(" | ".join(cells(row)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--task", choices=list(TASKS), default="rivals")
    parser.add_argument("--models", default=",".join(RIVALS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first split")
    parser.add_argument("--trials", type=int, default=16, help="0: no tuning")
    parser.add_argument("--up-to", type=int, default=16, help="items of a training set (transfer)")
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    for path in () if given.read else given.data:
        choices = sw.open_choices(path).in_memory().limit(min_items=2)
        for name in given.models.split(","):
            key = {"data": path.stem, "task": given.task, "model": name}
            if any(key.items() <= row.items() for row in stored(given.out)):
                continue
            rows = [key | one for one in measured(name, choices, given)]
            with given.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            mean = np.mean([row["metrics"]["nll"] for row in rows])
            print(f"{path.stem}  {given.task}  {name}  NLL {mean:.4f}", flush=True)
    if given.read:
        show(stored(given.out))


if __name__ == "__main__":
    main()

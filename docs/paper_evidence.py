"""The evidence of the page "The paper, and where we differ".

``python docs/paper_evidence.py FOLDER`` measures the samples of real data in a folder and writes
``results/paper_evidence.json``. All else follows from the paper's own numbers and is computed when
``docs/paper_page.py`` writes the page.
"""

import argparse
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from setwise._errors import InputError
from setwise.paper.published_results import MAX_ITEMS, Published

RESULT = Path(__file__).parent / "results" / "paper_evidence.json"

SAMPLES = {
    "Amadeus": ("amadeus_itinerary.parquet", "set_id", "chosen"),
    "Expedia": ("expedia_full.parquet", "srch_id", "click_bool"),
    "Outbrain": ("outbrain_sample.parquet", "set_id", "chosen"),
}
"""File, set and chosen of each sample."""
LARGEST = {"Amadeus": 50, "Expedia": 38}
"""max(n) in the paper's table of data sets."""
PRINTED = (816, 784)
"""The paper's count of SDA's parameters: constant, and for each feature."""
DIMENSION, HIDDEN = 24, 16
TRAINING_SETS, BATCH, DECAY, DECAY_EVERY, FASTEST = 5_000, 128, 0.95, 10, 1e-3

Bounds = tuple[float, float]


# Ranks


class Triple(NamedTuple):
    """What the paper says of one method in one setting; top1 and top5 as shares."""

    dataset: str
    max_items: int
    method: str
    top1: float
    top5: float
    mrr: float  # the column of that name


def triples(values: Sequence[Published]) -> list[Triple]:
    """The three measures of each method in each setting, side by side."""
    found: dict[tuple, dict[str, float]] = {}
    for one in values:
        place = one.table, one.dataset, one.max_items, one.method
        found.setdefault(place, {})[one.metric] = one.value
    return [
        Triple(*place[1:], of["top1"] / 100, of["top5"] / 100, of["mean_rank"])
        for place, of in found.items()
    ]


def mean_rank_bounds(one: Triple) -> Bounds:
    """Ranks are 1, then 2 to 5, then 6 to N."""
    second, rest = one.top5 - one.top1, 1 - one.top5
    return one.top1 + 2 * second + 6 * rest, one.top1 + 5 * second + one.max_items * rest


def reciprocal_bounds(one: Triple) -> Bounds:
    """Likewise of 1 / rank."""
    second, rest = one.top5 - one.top1, 1 - one.top5
    return one.top1 + second / 5 + rest / one.max_items, one.top1 + second / 2 + rest / 6


def within(value: float, bounds: Bounds) -> bool:
    """Whether it lies between them."""
    return bounds[0] <= value <= bounds[1]


# The Random row


def random_top5_bounds(one: Triple) -> Bounds:
    """Of the mean of min(1, 5 / n), where the mean of 1 / n is top1 and n is 1 to N.

    It is concave in 1 / n: a chord bounds it from below, Jensen's inequality from above.
    """
    single = _weight_of_single_items(one)
    return (1 - single) * 5 / one.max_items + single, min(1.0, 5 * one.top1)


def random_mean_rank_bounds(one: Triple) -> Bounds:
    """Of the mean of (n + 1) / 2, which is convex in 1 / n."""
    single = _weight_of_single_items(one)
    return (1 / one.top1 + 1) / 2, (1 - single) * (one.max_items + 1) / 2 + single


def _weight_of_single_items(one: Triple) -> float:
    """The share of sets of 1 item, if all others had N items."""
    return (one.top1 - 1 / one.max_items) / (1 - 1 / one.max_items)


def sorted_ranks(items: int) -> np.ndarray:
    """The rank of each place (column), if one place (row) is predicted by 1 and all others by 0.

    The places, padding included, are sorted by NumPy's introsort and read from the end. It keeps
    the order of equals in arrays of up to 16 and mixes them, always alike, in longer ones.
    """
    ranks = np.empty((items, items), int)
    for picked, prediction in enumerate(np.eye(items)):
        # Long doubles, because processors sort other numbers by instructions of their own.
        order = np.argsort(prediction.astype(np.longdouble), kind="quicksort")[::-1]
        ranks[picked, order] = np.arange(1, items + 1)
    return ranks


# Sizes in real data


def sizes_and_places(folder: Path, dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Of the sets with exactly one choice: how many items, and the place of the chosen one."""
    import polars as pl

    name, set_column, chosen = SAMPLES[dataset]
    if not (folder / name).exists():
        raise InputError(f"{folder / name} is not there; name the folder that has {name}")
    table = pl.read_parquet(folder / name, columns=[set_column, chosen])
    sets = table.group_by(set_column, maintain_order=True).agg(
        pl.len().alias("size"),
        (pl.col(chosen) == 1).sum().alias("choices"),
        (pl.col(chosen) == 1).arg_max().alias("place"),
    )
    sets = sets.filter(pl.col("choices") == 1)
    return sets["size"].to_numpy().astype(int), sets["place"].to_numpy().astype(int)


def estimate(values: Sequence[float] | np.ndarray) -> list[float]:
    """Mean and standard error."""
    values = np.asarray(values, float)
    return [float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))]


def measure_setting(sizes: np.ndarray, places: np.ndarray, items: int) -> dict[str, Any]:
    """What a random prediction gets on sets of up to so many items, by each way to count."""
    kept = sizes <= items
    n, place = sizes[kept], places[kept]
    ranks = sorted_ranks(items)
    filed = [ranks[:size, at] for size, at in zip(n, place, strict=True)]
    shuffled = [ranks[:size, :size] for size in n]
    return {
        "sets": len(n),
        "single": int((n == 1).sum()),
        "filtered_top1": estimate(1 / n),
        "several_top1": estimate(1 / n[n > 1]),
        "truncated_top1": estimate(1 / np.minimum(sizes, items)),
        "true_top5": estimate(np.minimum(1, 5 / n)),
        "true_mean_rank": estimate((n + 1) / 2),
        "filed_top5": estimate([(one <= 5).mean() for one in filed]),
        "filed_mean_rank": estimate([one.mean() for one in filed]),
        "shuffled_top5": estimate([(one <= 5).mean() for one in shuffled]),
        "shuffled_mean_rank": estimate([one.mean() for one in shuffled]),
    }


def measure(folder: Path) -> dict[str, dict[str, Any]]:
    """All settings of the paper, on the samples in a folder."""
    found = {}
    for dataset, most in MAX_ITEMS.items():
        sizes, places = sizes_and_places(folder, dataset)
        found[dataset] = {str(items): measure_setting(sizes, places, items) for items in most}
    return found


def most_truncated_top1(uncut: float, items: int, largest: int) -> float:
    """A bound on the mean of 1 / min(n, N), where that of 1 / n is ``uncut``.

    Cutting a set to N items raises 1 / n by at most 1 / N - 1 / largest.
    """
    return uncut + 1 / items - 1 / largest


# Violation capacity


Predict = Callable[[frozenset[str]], str]


def kappa(predict: Predict, items: frozenset[str], stays: str) -> float:
    """The share of items other than ``stays`` without which ``stays`` is not predicted."""
    others = items - {stays}
    return sum(predict(items - {x}) != stays for x in others) / len(others)


def by_score(score: Mapping[str, float]) -> Predict:
    """The prediction of a model that obeys IIA: the item whose own score is the greatest."""
    return lambda items: max(items, key=lambda x: score[x])


# Parameters


def set_network(reads: str, k: int, outputs: int, biases: bool) -> tuple[int, int]:
    """The weights of a set network with two hidden layers: constant, and for each feature.

    It reads the items' features, all the scores F(x), or one score at a time, with one output.
    """
    inputs = {"features": 0, "scores": DIMENSION * k, "one score": k}[reads]
    outputs = outputs // DIMENSION if reads == "one score" else outputs
    constant = HIDDEN * (inputs + HIDDEN + outputs)
    if biases:
        constant += 2 * HIDDEN + outputs
    return constant, HIDDEN if reads == "features" else 0


def architectures() -> Iterator[tuple[int, int]]:
    """The parameters of every SDA with two hidden layers in w and r: constant, for each feature.

    F has 24 scores in R^k; w and r read either of three things; r has a number or a vector for each
    score; with biases or without, with the learned c of mu counted or not.
    """
    reads = ("features", "scores", "one score")
    for k in range(1, PRINTED[1] // DIMENSION + 1):
        lengths = {DIMENSION, DIMENSION * k}
        for of_w, of_r, length, biases, c in itertools.product(
            reads, reads, sorted(lengths), (False, True), (0, 1)
        ):
            w = set_network(of_w, k, DIMENSION, biases)
            r = set_network(of_r, k, length, biases)
            yield w[0] + r[0] + c, w[1] + r[1] + DIMENSION * k


def chain(*widths: int) -> tuple[int, int]:
    """The weights of layers d, then these, without biases: constant, and for each feature."""
    return sum(a * b for a, b in itertools.pairwise(widths)), widths[0]


# Decay


def left_in_minibatches(epochs: int) -> float:
    """The share of the learning rate that is left, with a decay every 10 minibatches."""
    return DECAY ** (epochs * math.ceil(TRAINING_SETS / BATCH) // DECAY_EVERY)


def left_in_epochs(epochs: int) -> float:
    """The share that is left, with a decay every 10 epochs."""
    return DECAY ** (epochs // DECAY_EVERY)


def main() -> None:
    """Measure the samples and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the samples are")
    text = json.dumps(measure(parser.parse_args().folder), indent=1)
    RESULT.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()

"""Write the evidence into the page "The paper, and where we differ".

``python docs/paper_page.py`` fills the marked parts of ``paper.md`` from the paper's own results
and from ``results/paper_evidence.json``.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import paper_evidence as evidence

from setwise.paper.published_results import MAX_ITEMS, main_table, published

PAGE = Path(__file__).parent / "paper.md"
WEIGHT_DECAY = Path(__file__).parent / "results" / "weight_decay.json"
KAPPA_SCORES = {"a": 3.0, "b": 2.0, "c": 1.0}
EPOCHS = (1, 5, 25, 100)
WAYS = {"filtered": "filtered", "truncated": "truncated", "several": "filtered, n ≥ 2"}
CUTS = ("filtered", "truncated")
WAYS_OF_DECAY = ("coupled", "decoupled")
ORDERS = {"true": "true", "filed": "sorted", "shuffled": "sorted, shuffled"}

Stored = Mapping[str, Mapping[str, Mapping[str, Any]]]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def share(value: float) -> str:
    """In per cent."""
    return f"{100 * value:.2f}"


def measured(values: Sequence[float], scale: float = 1.0) -> str:
    """Mean ± standard error."""
    return f"{scale * values[0]:.2f} ± {scale * values[1]:.2f}"


def random_rows() -> dict[tuple[str, int], evidence.Triple]:
    """The Random row, by setting."""
    rows = evidence.triples(published("full", method="Random"))
    return {(one.dataset, one.max_items): one for one in rows}


def ranks() -> str:
    """How many values fit a mean rank, and how many a mean reciprocal rank."""
    rows = []
    for name, values in (("Table 1", main_table()), ("all tables", published())):
        found = evidence.triples(values)
        column = [one.mrr for one in found]
        rows.append(
            [
                name,
                len(found),
                f"{min(column):.2f} to {max(column):.2f}",
                sum(evidence.within(one.mrr, evidence.mean_rank_bounds(one)) for one in found),
                sum(evidence.within(one.mrr, evidence.reciprocal_bounds(one)) for one in found),
                sum(
                    evidence.within(one.mrr / 100, evidence.reciprocal_bounds(one)) for one in found
                ),
            ]
        )
    first = evidence.triples(main_table())[0]
    (low, high), (least, most) = evidence.mean_rank_bounds(first), evidence.reciprocal_bounds(first)
    head = ["values of", "values", "from, to", "fit a mean rank", "fit a reciprocal rank",
            "fit one in per cent"]  # fmt: skip
    return (
        f"{first.method} on {first.dataset}, for example, has top-1 {share(first.top1)} and top-5 "
        f"{share(first.top5)} with at most {first.max_items} items. A mean rank must then lie "
        f"between {low:.2f} and {high:.2f}, a mean reciprocal rank between {least:.3f} and "
        f"{most:.3f}. The paper prints {first.mrr:.2f}.\n\n{table(head, rows)}"
    )


def random_bounds() -> str:
    """What a random ranking can have, and what the row has."""
    rows = []
    for (dataset, items), one in random_rows().items():
        top5, rank = evidence.random_top5_bounds(one), evidence.random_mean_rank_bounds(one)
        rows.append(
            [
                dataset,
                items,
                share(one.top1),
                _marked(share(one.top5), evidence.within(one.top5, top5)),
                f"{share(top5[0])} to {share(top5[1])}",
                _marked(f"{one.mrr:.2f}", evidence.within(one.mrr, rank)),
                f"{rank[0]:.2f} to {rank[1]:.2f}",
            ]
        )
    head = ["data", "N", "top-1 %", "top-5 %", "possible", "mean rank", "possible"]
    least = {items: 5 / items for items in sorted({most[0] for most in MAX_ITEMS.values()})}
    said = " and ".join(f"{share(value)} % for N = {items}" for items, value in least.items())
    return f"{table(head, rows)}\n\nWhatever the sizes, top-5 is at least 5/N: {said}."


def _marked(value: str, possible: bool) -> str:
    return value if possible else f"**{value}**"


def sorting(stored: Stored) -> str:
    """The Random row beside a true random ranking and a sorted mark, on the samples."""
    rows, gaps = [], {dataset: np.zeros(len(ORDERS)) for dataset in MAX_ITEMS}
    for (dataset, items), one in random_rows().items():
        found = stored[dataset][str(items)]
        top5, rank = ([found[f"{way}_{name}"] for way in ORDERS] for name in ("top5", "mean_rank"))
        gaps[dataset] += np.abs([100 * (mean - one.top5) for mean, _ in top5])
        shown = [measured(values, 100) for values in top5]
        rows.append(
            [dataset, items, share(one.top5), *shown, f"{one.mrr:.2f}", *map(measured, rank)]
        )
    head = ["data", "N", "top-5 %", *ORDERS.values(), "mean rank", *ORDERS.values()]
    mean = {dataset: sums / len(MAX_ITEMS[dataset]) for dataset, sums in gaps.items()}
    distances = [[dataset, *(f"{value:.1f}" for value in of)] for dataset, of in mean.items()]
    return (
        f"{table(head, rows)}\n\nThe mean distance from the paper's top-5, in points:\n\n"
        f"{table(['data', *ORDERS.values()], distances)}"
    )


def quality() -> str:
    """The row of Outbrain that looks like Random's."""
    gap = {
        one.method: 100 * (one.top5 - one.top1)
        for one in evidence.triples(published("full", "Outbrain"))
    }
    alike = {name: gap.pop(name) for name in ("Random", "Price/Quality")}
    return (
        f"Outbrain's Price/Quality row has the same mark: top-5 exceeds top-1 by "
        f"{alike['Price/Quality']:.2f} points, Random's by {alike['Random']:.2f}, every other "
        f"method's by {min(gap.values()):.1f} or more. Do not compare with it either."
    )


def truncating(stored: Stored) -> str:
    """Random's top-1 beside what filtering and truncating give."""
    row, rows, away = random_rows(), [], []
    for dataset, largest in evidence.LARGEST.items():
        uncut = row[dataset, MAX_ITEMS[dataset][-1]].top1
        for items in MAX_ITEMS[dataset]:
            printed, found, limit = row[dataset, items].top1, stored[dataset][str(items)], ""
            if items < largest:
                limit = share(evidence.most_truncated_top1(uncut, items, largest))
                away.append([abs(printed - found[f"{way}_top1"][0]) for way in CUTS])
            ways = [measured(found[f"{way}_top1"], 100) for way in WAYS]
            rows.append([dataset, items, share(printed), limit, f"{found['sets']:,}", *ways])
    head = ["data", "N", "top-1 %", "truncated: at most", "sample: sets with n ≤ N", *WAYS.values()]
    nearer = sum(filtered < truncated for filtered, truncated in away)
    single = ", ".join(
        f"{name} {stored[name][str(most[-1])]['single']}" for name, most in MAX_ITEMS.items()
    )
    farthest, nearest = max(one[0] for one in away), min(one[1] for one in away)
    return (
        f"{table(head, rows)}\n\nIn {nearer} of the {len(away)} settings in which something is "
        f"cut, the paper is nearer to filtering. It is at most {share(farthest)} points away from "
        f"filtering, and at least {share(nearest)} from truncating. "
        f"Sets of one item in the samples: {single}."
    )


def violation() -> str:
    """Both readings of kappa for a logit on one set of three items."""
    items = frozenset(KAPPA_SCORES)
    predict = evidence.by_score(KAPPA_SCORES)
    rows = [
        [y, predict(items), f"{evidence.kappa(predict, items, stays=y):g}",
         f"{evidence.kappa(predict, items, stays=predict(items)):g}"]
        for y in sorted(items)
    ]  # fmt: skip
    return table(["chosen y", "predicted ŷ", "h(s∖x) ≠ y", "h(s∖x) ≠ ŷ"], rows)


def parameters() -> str:
    """The printed counts beside those of architectures."""
    constant, slope = evidence.PRINTED
    found = list(evidence.architectures())
    same_slope = [one[0] for one in found if one[1] == slope]
    own_sda, own_net, own_deep = (_own(name) for name in ("sda_inner", "ranknet", "deep_sets"))
    layers = evidence.HIDDEN * (evidence.HIDDEN + evidence.DIMENSION)
    deep, net = evidence.chain(256, 256, 256, 256, 1), evidence.chain(1024, 512, 2)
    return (
        f"- Deep Sets: {deep[0]:,} + {deep[1]}d is exactly d→256→256→256→256→1 without biases. "
        f"Ours has {own_deep[0]:,} + {own_deep[1]}d.\n"
        f"- RankNet: {net[0]:,} + {net[1]}d is exactly d→1024→512→2 without biases. Ours has one "
        f"output, and biases in its hidden layers: {own_net[0]:,} + {own_net[1]}d, "
        f"{own_net[0] - net[0]:,} more.\n"
        f"- SDA: the second hidden layer and the outputs of one network for 24 weights take "
        f"16·16 + 16·24 = {layers} constants; two such networks take {2 * layers:,}, more than "
        f"{constant}. A network that is shared by all scores and reads them one by one is smaller; "
        f"but then only F depends on d, its slope is a multiple of 24, and {slope} is none. "
        f"Of {len(found):,} architectures that we counted, {found.count(evidence.PRINTED)} have "
        f"{constant} + {slope}d. {len(same_slope)} have the slope; the least constant "
        f"among them is {min(same_slope):,}.\n"
        f"- Our `sda_inner`, with vectors of 16 numbers: {own_sda[0]:,} + {own_sda[1]}d."
    )


def _own(name: str) -> tuple[int, int]:
    """The parameters of a model of the zoo in the paper's sizes: constant, for each feature."""
    from setwise.estimators import TrainedEstimator, named
    from setwise.models import ZOO

    estimator = named(name, "paper")
    assert isinstance(estimator, TrainedEstimator)
    one, two = (ZOO[name].parameters(d, estimator.sizes()) for d in (1, 2))
    return 2 * one - two, two - one


def weight_decay(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Coupled beside decoupled weight decay: fixed ones on one split, and tuned on all."""
    head = ["data", "weight decay", *(f"{way}: accuracy %, NLL" for way in WAYS_OF_DECAY)]
    rows = [
        [name, f"{decay:g}", *(_fixed(run, way, place) for way in WAYS_OF_DECAY)]
        for name, run in runs.items()
        for place, decay in enumerate(one["weight_decay"] for one in run["sweep"]["coupled"])
    ]
    said = [
        "SDA on one split at the paper's greatest learning rate, 0.001; the best validation "
        f"accuracy, and the validation NLL there:\n\n{table(head, rows)}"
    ]
    for name, run in runs.items():
        protocol = (
            f"{run['sets']:,} sets, {run['splits']} splits, {run['trials']} trials per method and "
            f"split, on {run['machine']}"
        )
        said.append(
            f"Tuned on {name} ({protocol}), on the test part. `sda` is the paper's; changes are "
            "paired, ± standard errors over splits; the last column is the median weight decay of "
            f"the best trials:\n\n{_tuned(run['methods'])}"
        )
    return "\n\n".join(said)


def _fixed(run: Mapping[str, Any], way: str, place: int) -> str:
    one = run["sweep"][way][place]
    return f"{100 * one['accuracy']:.2f}, {one['nll']:.4f}"


def _tuned(methods: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> str:
    rows = []
    for method, ways in methods.items():
        cells = [method]
        for measure, scale, digits in (("top1", 100, 2), ("nll", 1, 4)):
            both = [np.array(ways[way][measure]) * scale for way in WAYS_OF_DECAY]
            change = both[0] - both[1]
            error = change.std(ddof=1) / len(change) ** 0.5
            cells += [f"{one.mean():.{digits}f}" for one in both]
            cells.append(f"{change.mean():+.{digits}f} ± {error:.{digits}f}")
        decays = [f"{np.median(ways[way]['weight_decay']):.0e}" for way in WAYS_OF_DECAY]
        rows.append([*cells, ", ".join(decays)])
    measures = [
        f"{name} {word}" for name in ("top-1 %", "NLL") for word in (*WAYS_OF_DECAY, "change")
    ]
    return table(["method", *measures, "best decay, both ways"], rows)


def decay() -> str:
    """What is left of the learning rate, by each way to count."""
    steps = -(-evidence.TRAINING_SETS // evidence.BATCH)
    whole = evidence.DECAY_EVERY / (1 - evidence.DECAY)
    rows = [
        [epochs, f"{evidence.left_in_minibatches(epochs):.2g}",
         f"{evidence.left_in_epochs(epochs):.2g}"]
        for epochs in EPOCHS
    ]  # fmt: skip
    return (
        f"An epoch of {evidence.TRAINING_SETS:,} sets has {steps} minibatches. The share of the "
        f"learning rate that is left, if the 10 are\n\n"
        f"{table(['after epochs', 'minibatches', 'epochs'], rows)}\n\n"
        f"Counted in minibatches, all steps together, however many, are worth "
        f"{whole:.0f} steps at the first rate: {whole / steps:.0f} epochs. Adam moves a weight by "
        f"about the learning rate per step: at the preprint's greatest rate, {evidence.FASTEST:g}, "
        f"a weight could move by some {whole * evidence.FASTEST:g} in all."
    )


def blocks(stored: Stored) -> dict[str, str]:
    """The marked parts of the page."""
    return {
        "ranks": ranks(),
        "random": random_bounds(),
        "sorting": sorting(stored),
        "quality": quality(),
        "truncating": truncating(stored),
        "violation": violation(),
        "parameters": parameters(),
        "weight_decay": weight_decay(json.loads(WEIGHT_DECAY.read_text("utf-8"))),
        "decay": decay(),
    }


def filled(page: str, parts: Mapping[str, str]) -> str:
    """The page with each part between its marks."""
    for name, text in parts.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        page, times = marks.subn(lambda found, text=text: found[1] + text + "\n" + found[2], page)
        assert times == 1, f"{PAGE.name} has no part {name}"
    return page


if __name__ == "__main__":
    results = json.loads(evidence.RESULT.read_text("utf-8"))
    PAGE.write_text(filled(PAGE.read_text("utf-8"), blocks(results)), "utf-8")

"""How well can a model predict the decoy data if it scores every item alone?

``python docs/decoy_ceiling.py`` takes three minutes and writes ``results/decoy_ceiling.json``.

Such a model is P(x | s) = softmax of f(x), for some function f of the item. The generator's true
probabilities are known, so the least expected NLL over all f is a convex problem. An item of the
generator is a place t on the line and a quality q, so f is a function of two numbers: here one that
is bilinear between the nodes of a grid. Its loss on the sets that it was fitted to is too good, its
loss on fresh sets can be attained; the best f lies between the two, and finer grids do not help.

That f is 4 q minus a penalty for decoys and one for places beyond 4.2, which only extreme options
have. This had to be so: far from the ends of the line, moving a set along it changes nothing, and
where a convex problem has a symmetry, a solution has it too.

Accuracy is not convex. We climb from that f with a softmax that hardens step by step, which finds
the best accuracy that we know of; :func:`most_top1` is a bound that holds for every f.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64
from scipy.optimize import minimize
from scipy.sparse import csr_array

import setwise as sw
from setwise.datasets.generated import Generated
from setwise.datasets.generators import context_scores

RESULT = Path(__file__).parent / "results" / "decoy_ceiling.json"
SETS = 400_000
SEEDS = (101, 102)
"""Of the two draws; neither is 0, which the tables of the docs use."""
CELLS = (1, 2, 4)
TEMPERATURES = (0.3, 0.2, 0.1, 0.05)
RIDGE = 1e-7
"""Keeps the nodes still that no item is near; too small to be seen elsewhere."""
TABLES = {"zoo_decoy": 20_000, "zoo_decoy_large": 120_000}
SPLITS = 10

Score = Callable[[np.ndarray], np.ndarray]
"""f: from items (sets, 3, 2) to scores (sets, 3)."""


class Sets(NamedTuple):
    """Items and their true probabilities."""

    x: Float64[np.ndarray, "sets 3 2"]
    p: Float64[np.ndarray, "sets 3"]


def known(drawn: Generated) -> Sets:
    """The generated sets, without what was chosen."""
    x = np.stack([drawn.columns[name] for name in drawn.items], 1)
    return Sets(x.reshape(-1, 3, 2), drawn.probabilities.reshape(-1, 3))


def place_and_quality(x: Float[np.ndarray, "*n 2"]) -> tuple[np.ndarray, np.ndarray]:
    """The generator's own coordinates: x = (5 + t + q, 5 - t + q)."""
    return (x[..., 0] - x[..., 1]) / 2, (x[..., 0] + x[..., 1]) / 2 - 5


class Grid:
    """Functions of place and quality that are bilinear between nodes.

    Places reach from -7.08 to 7.08. No quality lies between those of decoys and those of others,
    -0.15 to -0.1, so that f can differ as it likes on the two sides.
    """

    def __init__(self, cells: int):
        self.t = np.linspace(-7.2, 7.2, 48 * cells + 1)
        below, above = np.linspace(-0.55, -0.15, cells + 1), np.linspace(-0.1, 0.1, cells + 1)
        self.q = np.concatenate([below, above])

    def start(self) -> Float64[np.ndarray, " nodes"]:
        """The taste without context, 4 q, at every node."""
        return np.tile(4 * self.q, len(self.t))

    def features(self, x: Float[np.ndarray, "sets 3 2"]) -> csr_array:
        """The weights of the four nodes around each item."""
        t, q = place_and_quality(x.reshape(-1, 2))
        (i, right), (j, up) = _between(self.t, t), _between(self.q, q)
        corner = i * len(self.q) + j
        nodes = np.stack([corner, corner + 1, corner + len(self.q), corner + len(self.q) + 1], 1)
        left, down = 1 - right, 1 - up
        weights = np.stack([left * down, left * up, right * down, right * up], 1)
        ends = np.arange(0, nodes.size + 1, 4)
        shape = (len(nodes), len(self.t) * len(self.q))
        return csr_array((weights.reshape(-1), nodes.reshape(-1), ends), shape=shape)


def _between(nodes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The node to the left of each value, and how far it is on the way to the next."""
    left = np.clip(np.searchsorted(nodes, values) - 1, 0, len(nodes) - 2)
    return left, (values - nodes[left]) / (nodes[left + 1] - nodes[left])


def attributes(x: Float[np.ndarray, "sets 3 2"]) -> csr_array:
    """The features of a linear f, which is what MNL has; centred, so that the search is quick."""
    return csr_array(x.reshape(-1, 2) - 5)


def log_softmax(f: Float[np.ndarray, "sets 3"]) -> Float64[np.ndarray, "sets 3"]:
    """log P(x | s)."""
    f = f - f.max(1, keepdims=True)
    return f - np.log(np.exp(f).sum(1, keepdims=True))


def nll(f: Float[np.ndarray, "sets 3"], p: Float[np.ndarray, "sets 3"]) -> float:
    """The expected loss of the scores f where p is true (or the loss, where p marks the chosen)."""
    return float(-(p * log_softmax(f)).sum(1).mean())


def top1(f: Float[np.ndarray, "sets 3"], p: Float[np.ndarray, "sets 3"]) -> float:
    """The expected accuracy, likewise."""
    return float(np.take_along_axis(p, f.argmax(1)[:, None], 1).mean())


def least_nll(features: csr_array, p: np.ndarray, start: np.ndarray) -> Float64[np.ndarray, " n"]:
    """The coefficients of the f with the least expected NLL."""
    transposed = features.T.tocsr()

    def loss(b: np.ndarray) -> tuple[float, np.ndarray]:
        log_p, away = log_softmax((features @ b).reshape(p.shape)), b - start
        slope = transposed @ ((np.exp(log_p) - p).reshape(-1) / len(p))
        value = -(p * log_p).sum() / len(p) + RIDGE * away @ away
        return value, slope + 2 * RIDGE * away

    options = {"maxiter": 3000, "maxfun": 4000, "ftol": 1e-12, "gtol": 1e-8, "maxcor": 30}
    return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x


def greatest_top1(
    features: csr_array, p: np.ndarray, start: np.ndarray
) -> Float64[np.ndarray, " n"]:
    """Coefficients with high expected accuracy: E sum p softmax(f / T), with T falling.

    In trials it ended at the same accuracy from random starts and from waves in t.
    """
    transposed, b = features.T.tocsr(), start
    for temperature in TEMPERATURES:

        def loss(b: np.ndarray, temperature: float = temperature) -> tuple[float, np.ndarray]:
            soft = np.exp(log_softmax((features @ b).reshape(p.shape) / temperature))
            right = (p * soft).sum(1, keepdims=True)
            slope = transposed @ ((soft * (p - right)).reshape(-1) / (len(p) * temperature))
            return -float(right.mean()), -slope

        b = minimize(loss, b, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    return b


def most_top1(drawn: Generated) -> float:
    """An accuracy that no f exceeds, whatever its form.

    Reflect the third option at the centre of A and B: a set with the same A and B, just as likely,
    that favours the other of them. If f(A) > f(B), B is predicted in neither set; so f is right at
    most as often as one who takes A or the third, whichever is better in each set. If f(A) < f(B),
    the same holds for B. The greater of the two is the bound for the pair of sets.
    """
    order = np.argsort(drawn.columns["option"].reshape(-1, 3), 1)  # A, B, third
    x, p = known(drawn)
    x = np.take_along_axis(x, order[:, :, None], 1)
    here = np.take_along_axis(p, order, 1)
    strengths: dict[str, Any] = dict(drawn.parameters)
    there = np.exp(log_softmax(context_scores(_mirrored(x, drawn), **strengths)))
    best = (np.maximum(one[:, :2], one[:, 2:]) for one in (here, there))
    return float((sum(best) / 2).max(1).mean())


def _mirrored(x: Float[np.ndarray, "sets 3 2"], drawn: Generated) -> np.ndarray:
    """The sets that favour the other option, and differ in the third alone."""
    t, q = place_and_quality(x)
    is_a = drawn.columns["favours"][::3] == "A"
    higher = np.where(is_a, q[:, 1] - q[:, 0], q[:, 0] - q[:, 1])  # other above favoured
    decoys = drawn.columns["condition"][::3] == "attraction"  # whose quality follows the favoured's
    place, quality = t[:, 0] + t[:, 1] - t[:, 2], q[:, 2] + decoys * higher
    third = np.stack([5 + place + quality, 5 - place + quality], 1)
    return np.concatenate([x[:, :2], third[:, None]], 1)


def free(fitted: Sets, cells: int) -> tuple[Score, Score]:
    """Of all f on a grid the one with the least NLL, and the one with the best accuracy found."""
    grid = Grid(cells)
    features = grid.features(fitted.x)
    likely = least_nll(features, fitted.p, grid.start())
    right = greatest_top1(features, fitted.p, likely)
    return (
        lambda x: (grid.features(x) @ likely).reshape(len(x), 3),
        lambda x: (grid.features(x) @ right).reshape(len(x), 3),
    )


def linear(fitted: Sets) -> Score:
    """The linear f with the least NLL: MNL's own ceiling."""
    b = least_nll(attributes(fitted.x), fitted.p, np.array([2.0, 2.0]))
    return lambda x: (attributes(x) @ b).reshape(len(x), 3)


def bracket(
    measure: Callable[[np.ndarray, np.ndarray], float], scores: tuple[Score, ...], draws: list[Sets]
) -> dict[str, float]:
    """A measure on the sets that each f was fitted to, and on the others.

    ``scores[i]`` was fitted to ``draws[i]``. Both figures are means over the same two draws, so
    that the luck of a draw cancels in their difference.
    """
    table = [[measure(f(sets.x), sets.p) for sets in draws] for f in scores]
    return {
        "fitted": (table[0][0] + table[1][1]) / 2,
        "fresh": (table[0][1] + table[1][0]) / 2,
    }


def ceilings(draws: list[Sets], cells: int) -> tuple[dict[str, Any], Score]:
    """The brackets on one grid, and the f of the first draw with the least NLL."""
    likely, right = zip(*(free(sets, cells) for sets in draws), strict=True)
    figures = {
        "nodes": len(Grid(cells).start()),
        "nll": bracket(nll, likely, draws),
        "top1_of_least_nll": bracket(top1, likely, draws),
        "top1": bracket(top1, right, draws),
    }
    return figures, likely[0]


def on_test_parts(scores: dict[str, Score], sets: int) -> dict[str, dict[str, list[float]]]:
    """What the truth and each f get on the very test parts of a table of the docs."""
    drawn = sw.datasets.generate("decoy", sets=sets)
    x, p = known(drawn)
    chosen = drawn.columns["chosen"].reshape(-1, 3)
    given = {"truth": np.log(p)} | {name: f(x) for name, f in scores.items()}
    parts = [part.rows[::3] // 3 for part in _test_parts(drawn)]
    return {
        name: {
            "nll": [nll(f[part], chosen[part]) for part in parts],
            "top1": [top1(f[part], chosen[part]) for part in parts],
        }
        for name, f in given.items()
    }


def _test_parts(drawn: Generated) -> Iterator[sw.Choices]:
    for seed in range(SPLITS):
        yield sw.split(drawn.choices, seed=seed)[2]


def measure() -> dict[str, Any]:
    """All figures."""
    drawn = [sw.datasets.generate("decoy", sets=SETS, seed=seed) for seed in SEEDS]
    draws = [known(one) for one in drawn]
    lines = tuple(linear(sets) for sets in draws)
    found = [ceilings(draws, cells) for cells in CELLS]
    _, likely = min(found, key=lambda one: one[0]["nll"]["fresh"])
    scores = {"likely": likely, "linear": lines[0]}
    return {
        "sets": SETS,
        "grids": [figures for figures, _ in found],
        "linear": {"nll": bracket(nll, lines, draws), "top1": bracket(top1, lines, draws)},
        "most_top1": most_top1(drawn[0]),
        "test_parts": {name: on_test_parts(scores, sets) for name, sets in TABLES.items()},
    }


if __name__ == "__main__":
    RESULT.write_text(json.dumps(measure(), indent=1) + "\n", "utf-8")

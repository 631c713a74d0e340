"""Gradient-boosted trees on the choice likelihood, grown by LightGBM.

    log L = sum over sets of weight * log P(chosen | s),    P(x | s) = softmax of g over s

g is a sum of regression trees of what :class:`setwise._tree_view.TreeView` shows of an item. Each
round adds a tree that follows the gradient of log L, which is y - p in each row, scaled by its
curvature, p (1 - p).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from setwise import _segments
from setwise._errors import InputError
from setwise._tree_view import TreeView
from setwise._trees import Trees
from setwise.choices import Encoded

FEW_ROWS = 20_000  # threads would wait for one another longer than they work
LEAST_CURVATURE = 1e-6  # of a row: p (1 - p) is 0 where a choice is certain

OnRound = Callable[[int, float], None]
"""Called after each round with its number, from 1, and the best validation NLL so far."""


@dataclass(frozen=True)
class Boosting:
    """How trees are grown.

    Args:
        rounds: the most trees.
        learning_rate: how much of each tree counts.
        leaves: of each tree, at most.
        min_rows: rows in each leaf, at least.
        l2: the penalty on the squares of leaf values; in units of the curvature p (1 - p) of rows.
        columns: share of the columns that each tree sees, drawn at random.
        random_splits: whether thresholds are drawn at random and only the best of them is taken
            (extremely randomised trees).
        patience: stop after this many rounds without a better validation NLL.
        threads: of LightGBM; 0 is one per core, and one for few rows.
        seed: of the random draws.
    """

    rounds: int = 2000
    learning_rate: int | float = 0.05
    leaves: int = 31
    min_rows: int = 20
    l2: int | float = 10.0
    columns: int | float = 0.5
    random_splits: bool = False
    patience: int = 40
    threads: int = 0
    seed: int = 0


class Boosted(NamedTuple):
    """What boosting gave: the trees up to the best round, and the validation NLL of every round."""

    trees: Trees
    best_round: int
    history: list[float]
    gains: Float[np.ndarray, " columns"]
    """How much splits of each column improved the likelihood, in sum."""
    log_p: Float[np.ndarray, " sets"]
    """log P of what was chosen in each validation set."""


def lightgbm() -> Any:
    """The library, loaded where it is first needed; its absence is one sentence."""
    try:
        import lightgbm as found
    except ImportError:
        raise InputError("trees need LightGBM: pip install lightgbm") from None
    except OSError as error:  # the package is there, but a library that it needs is not
        raise InputError(
            f"LightGBM is installed but cannot be loaded ({error}); it needs OpenMP: install "
            "libgomp1 (Debian, Ubuntu), libgomp (Fedora, Alpine) or libomp (Homebrew)"
        ) from None
    return found


def tree_rows(encoded: Encoded) -> Float[np.ndarray, "rows width"]:
    """Items with the context of their set, as the columns that a model sees."""
    context = _segments.spread(encoded.context, encoded.offsets)
    return np.hstack([encoded.items, context]).astype(np.float32, copy=False)


def boost(
    train: Encoded,
    valid: Encoded,
    view: TreeView,
    options: Boosting,
    monotone: Mapping[int, int] | None = None,
    deadline: float = np.inf,
    on_round: OnRound | None = None,
) -> Boosted:
    """Grow trees on the training sets until the validation NLL stops improving.

    Args:
        train: the sets to learn from.
        valid: the sets whose NLL says how many trees count.
        view: what trees see of an item.
        options: how they are grown.
        monotone: by encoded column, 1 if the probability of an item must not fall where its value
            rises, and -1 if it must not rise.
        deadline: when to stop at the latest, as :func:`time.monotonic` counts.
        on_round: called after each round.
    """
    library = lightgbm()
    width = train.items.shape[1] + train.context.shape[1]
    constraints, blind = _constrained(view, width, monotone or {})
    data = library.Dataset(
        _columns(train, view, blind),
        np.zeros(len(train.items)),
        categorical_feature=view.categorical(width),
    )
    columns = _columns(valid, view, blind)
    held_out = library.Dataset(columns, np.zeros(len(columns)), reference=data)
    history: list[float] = []
    booster = library.train(
        _settings(options, constraints, len(train.items)) | {"objective": _objective(train)},
        data,
        options.rounds,
        valid_sets=[held_out],
        feval=_nll(valid, history),
        callbacks=[_until(library, history, options.patience, deadline, on_round)],
    )
    best = int(np.argmin(history)) + 1
    trees = Trees.parsed(booster.model_to_string(num_iteration=best))
    gains = booster.feature_importance("gain", iteration=best)
    log_p = _segments.log_softmax(trees.predict(columns), valid.offsets)[_chosen_rows(valid)]
    return Boosted(trees, best, history, gains, log_p)


def _columns(
    encoded: Encoded, view: TreeView, blind: Int[np.ndarray, " some"]
) -> Float[np.ndarray, "rows columns"]:
    columns = view.of_rows(tree_rows(encoded), encoded.offsets)
    columns[:, blind] = 0
    return columns


def _constrained(
    view: TreeView, width: int, monotone: Mapping[int, int]
) -> tuple[list[int] | None, Int[np.ndarray, " some"]]:
    """The constraint of each column that trees see, and the columns that they must not see.

    If the value of one item rises, its position and rank rise or stay, and those of the others
    fall or stay: constraints on them hold for the probability. z-scores, means and ranges of the
    set move for all items at once, in both directions: a constrained feature goes without them.
    """
    if not monotone:
        return None, np.zeros(0, np.int64)
    constraints, blind = [0] * view.width(width), []
    for column, sign in monotone.items():
        for place, orderly in view.columns_of(column, width).items():
            if orderly:
                constraints[place] = sign
            else:
                blind.append(place)
    return constraints, np.array(blind, np.int64)


def _settings(options: Boosting, constraints: list[int] | None, rows: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "learning_rate": options.learning_rate,
        "num_leaves": options.leaves,
        "min_data_in_leaf": options.min_rows,
        "lambda_l2": options.l2,
        "feature_fraction": options.columns,
        "extra_trees": options.random_splits,
        "num_threads": options.threads or int(rows < FEW_ROWS),
        "seed": options.seed,
        "deterministic": True,
        "force_row_wise": True,  # else a timing decides, and with it the rounding
        "metric": "None",
        "verbosity": -1,
    }
    if constraints is not None:
        found |= {"monotone_constraints": constraints, "monotone_constraints_method": "basic"}
    return found


def _weights(encoded: Encoded) -> Float[np.ndarray, " sets"]:
    """Of each set: 1 on average."""
    if encoded.weight is None:
        return np.ones(len(encoded))
    return encoded.weight / encoded.weight.mean()


def _chosen_rows(encoded: Encoded) -> Int[np.ndarray, " sets"]:
    assert encoded.chosen is not None
    return encoded.offsets[:-1] + encoded.chosen


def _objective(
    train: Encoded,
) -> Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray]]:
    """Gradient and curvature of -log L, as LightGBM asks for them."""
    chosen = np.zeros(len(train.items))
    chosen[_chosen_rows(train)] = 1
    weight = None if train.weight is None else _segments.spread(_weights(train), train.offsets)

    def derivatives(scores: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        p = np.exp(_segments.log_softmax(scores, train.offsets))
        gradient, curvature = p - chosen, np.maximum(p * (1 - p), LEAST_CURVATURE)
        return (gradient, curvature) if weight is None else (gradient * weight, curvature * weight)

    return derivatives


def _nll(
    valid: Encoded, history: list[float]
) -> Callable[[np.ndarray, Any], tuple[str, float, bool]]:
    """The validation NLL per choice, kept in ``history``, as LightGBM asks for measures."""
    rows, share = _chosen_rows(valid), _weights(valid) / len(valid)

    def measure(scores: np.ndarray, data: Any) -> tuple[str, float, bool]:
        history.append(-float(_segments.log_softmax(scores, valid.offsets)[rows] @ share))
        return "nll", history[-1], False

    return measure


def _until(
    library: Any,
    history: list[float],
    patience: int,
    deadline: float,
    on_round: OnRound | None,
) -> Callable[[Any], None]:
    """After a round: stop if nothing has improved for long, or if time is up."""

    def stop(env: Any) -> None:
        best = int(np.argmin(history))
        if on_round is not None:
            on_round(len(history), history[best])
        if len(history) - 1 - best >= patience or time.monotonic() >= deadline:
            raise library.callback.EarlyStopException(best, [])

    return stop

"""Several models on the same splits, and one leaderboard."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from setwise._errors import InputError
from setwise.choices import Choices, split
from setwise.estimators import Estimator, TrainedEstimator, named
from setwise.estimators.base import trainable
from setwise.experiments import statistics
from setwise.experiments.tuned import check_splits, tune_parts
from setwise.metrics import HIGHER_IS_BETTER
from setwise.tuning import Tuning


@dataclass(frozen=True)
class Cell:
    """One model on one split."""

    model: str
    split: int
    metrics: dict[str, float]
    seconds: float


@dataclass(frozen=True)
class Row:
    """One line of the leaderboard: means over splits and the difference from the best model."""

    model: str
    mean: dict[str, float]
    standard_error: dict[str, float]
    difference: float
    difference_standard_error: float
    p: float | None  # corrected for several comparisons; None for the best model, NaN for one split
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """Results of all models on all splits.

    ``print`` shows the leaderboard; :meth:`to_json` gives everything as plain values.
    """

    cells: tuple[Cell, ...]
    data: str
    sizes: tuple[float, ...]
    metric: str = "nll"

    @property
    def models(self) -> list[str]:
        """The models' names, in the order in which they were given."""
        return list(dict.fromkeys(cell.model for cell in self.cells))

    def values(self, metric: str) -> Float[np.ndarray, "models splits"]:
        """One measure of every model on every split."""
        found = {(cell.model, cell.split): cell.metrics[metric] for cell in self.cells}
        splits = sorted({cell.split for cell in self.cells})
        return np.array([[found[model, one] for one in splits] for model in self.models])

    def leaderboard(self) -> list[Row]:
        """The models from best to worst, with paired differences against the best."""
        table = self.values(self.metric)
        sign = -1 if HIGHER_IS_BETTER[self.metric] else 1
        order = np.argsort(sign * table.mean(1), kind="stable")
        differences = table - table[order[0]]
        share = self.sizes[-1] / self.sizes[0]
        raw = [statistics.paired_p(differences[i], share) for i in order[1:]]
        p_values = [None, *statistics.holm(raw)]
        return [self._row(int(i), differences[i], p) for i, p in zip(order, p_values, strict=True)]

    def friedman(self) -> float | None:
        """p-value of Friedman's test that all models do equally well."""
        return statistics.friedman_p(self.values(self.metric))

    def _row(self, i: int, difference: Float[np.ndarray, " splits"], p: float | None) -> Row:
        model = self.models[i]
        measures = {name: self.values(name)[i] for name in self.cells[0].metrics}
        return Row(
            model=model,
            mean={name: float(one.mean()) for name, one in measures.items()},
            standard_error={name: statistics.standard_error(one) for name, one in measures.items()},
            difference=float(difference.mean()),
            difference_standard_error=statistics.standard_error(difference),
            p=p,
            seconds=float(np.mean([c.seconds for c in self.cells if c.model == model])),
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "data": self.data,
            "metric": self.metric,
            "split_sizes": list(self.sizes),
            "friedman_p": self.friedman(),
            "leaderboard": [asdict(row) for row in self.leaderboard()],
            "cells": [asdict(cell) for cell in self.cells],
        }

    def __str__(self) -> str:
        lines = [f"{'model':<16} {'top-1 %':>14} {'mean rank':>15} {'NLL':>17}"]
        for row in self.leaderboard():
            mean, error = row.mean, row.standard_error
            lines.append(
                f"{row.model:<16} {100 * mean['top1']:>7.2f} ± {100 * error['top1']:>4.2f} "
                f"{mean['mean_rank']:>8.3f} ± {error['mean_rank']:.3f} "
                f"{mean['nll']:>9.4f} ± {error['nll']:.4f}"
            )
        return "\n".join(lines)


def compare(
    models: Mapping[str, Estimator] | Iterable[str],
    choices: Choices,
    *,
    splits: int = 5,
    seed: int = 0,
    sizes: tuple[float, float, float] = (0.5, 0.25, 0.25),
    by: Literal["set", "group", "time"] = "set",
    metric: str = "nll",
    tuning: Tuning | None = None,
    on_cell: Callable[[Cell], None] | None = None,
) -> Comparison:
    """Train every model on the same random splits and compare them on the test parts.

    Args:
        models: estimators by the name to show, or names of the zoo.
        choices: the data.
        splits: how many random splits.
        seed: split i uses seed + i, and so do models that have a seed.
        sizes: shares of training, validation and test sets.
        by: what to split by, as in :func:`setwise.split`.
        metric: what the leaderboard is sorted by.
        tuning: tune the models that train by gradients first, in every split on its own; by
            default they keep their arguments.
        on_cell: called after each model on each split.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=300).choices
    >>> result = compare(["mnl"], choices, splits=2)
    >>> result.values("top1").shape
    (1, 2)
    """
    if not isinstance(models, Mapping):
        models = {name: named(name) for name in models}
    if not models:
        raise InputError("there is no model to compare; name at least one")
    check_splits(splits, by)
    if metric not in HIGHER_IS_BETTER:
        raise InputError(f"metric '{metric}' is not one of {', '.join(HIGHER_IS_BETTER)}")
    trainable(choices)
    cells = []
    # Each split is a copy of the data: made when its turn comes, and not before.
    parts = [partial(split, choices, sizes, seed + number, by) for number in range(splits)]
    for cell in _cells(models, parts, seed, tuning):
        cells.append(cell)
        if on_cell is not None:
            on_cell(cell)
    return Comparison(tuple(cells), repr(choices), sizes, metric)


def _cells(
    models: Mapping[str, Estimator],
    parts: Sequence[Callable[[], tuple[Choices, ...]]],
    seed: int,
    tuning: Tuning | None,
) -> Iterator[Cell]:
    """Every model on every split; those to tune come last, with all splits at once."""
    tuned = {}
    if tuning is not None:
        tuned = {n: model for n, model in models.items() if isinstance(model, TrainedEstimator)}
    untuned = {name: model for name, model in models.items() if name not in tuned}
    for number, part in enumerate(parts if untuned else ()):
        made = part()
        for name, estimator in untuned.items():
            yield _cell(name, estimator, number, seed, made)
    every = [part() for part in parts] if tuned else []
    for name, estimator in tuned.items():
        assert tuning is not None
        for one in tune_parts(estimator, every, seed, tuning):
            yield Cell(name, one.split, dict(one.test), one.seconds)


def _cell(
    name: str, estimator: Estimator, number: int, seed: int, parts: tuple[Choices, ...]
) -> Cell:
    train, valid, test = parts
    fresh = clone(estimator)
    if "seed" in fresh.get_params():
        fresh.set_params(seed=seed + number)
    begin = time.perf_counter()
    fresh.fit(train, valid, progress=False)
    seconds = time.perf_counter() - begin
    if getattr(fresh, "interrupted_", False):
        raise KeyboardInterrupt  # half a table would be read as a whole one
    return Cell(name, number, dict(fresh.evaluate(test)), seconds)

"""Several models on the same random splits: one leaderboard, or one tuned model per split."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from setwise._arguments import (
    callback,
    each,
    instance,
    number,
    one_of,
    optional,
    shown,
    text,
    whole,
)
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise._executor import Executor, Send, SerialExecutor, Shared
from setwise._page import notebook_html
from setwise.choices import Choices, split
from setwise.comparison import statistics
from setwise.estimators import Estimator, named
from setwise.estimators.base import trainable
from setwise.estimators.scikit_learn import unfitted
from setwise.metrics import HIGHER_IS_BETTER, Metrics
from setwise.tuning import OnTrials, Tuned, Tuning, check_space, tunable, tune_tasks

HEADS = ("model", "top-1 %", "top-5 %", "mean rank", "MRR", "NLL", "difference", "p", "seconds")


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
    p: float | None
    """Corrected for several comparisons; None for the best model, NaN for a single split."""
    seconds: float

    def measured(self, name: str, digits: int, unit: int = 1) -> str:
        """A mean with its standard error; without it if there is only one split."""
        text = f"{self.mean[name] * unit:.{digits}f}"
        error = self.standard_error[name] * unit
        return text if error != error else f"{text} ± {error:.{digits}f}"


@dataclass(frozen=True)
class Comparison:
    """Results of all models on all splits.

    ``print`` and notebooks show the leaderboard; :meth:`to_frame` gives it as a Polars frame,
    :meth:`to_json` everything as plain values.
    """

    cells: tuple[Cell, ...]
    data: str
    sizes: tuple[float, ...]
    metric: str = "nll"
    split_by: str = "set"

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
        """p-value of Friedman's test that all models do equally well; None below three models."""
        found = statistics.friedman(self.values(self.metric))
        return None if found is None else found[1]

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
        """Everything as plain values; None where one split has no standard error."""
        return {
            "data": self.data,
            "metric": self.metric,
            "split_by": self.split_by,
            "split_sizes": list(self.sizes),
            "friedman_p": self.friedman(),
            "leaderboard": [_without_nan(asdict(row)) for row in self.leaderboard()],
            "cells": [asdict(cell) for cell in self.cells],
        }

    def to_frame(self) -> Any:
        """A Polars frame of the leaderboard, best model first.

        Columns: model; each measure's mean over splits and its standard error, such as nll and
        nll_standard_error; difference from the best model, its standard error and p; seconds.
        """
        import polars as pl

        rows = self.leaderboard()
        columns: dict[str, list[Any]] = {"model": [row.model for row in rows]}
        for name in rows[0].mean:
            columns[name] = [row.mean[name] for row in rows]
            columns[f"{name}_standard_error"] = [row.standard_error[name] for row in rows]
        for name in ("difference", "difference_standard_error", "p", "seconds"):
            columns[name] = [getattr(row, name) for row in rows]
        types = {name: pl.String if name == "model" else pl.Float64 for name in columns}
        return pl.DataFrame(columns, schema=types).fill_nan(None)

    def _repr_html_(self) -> str:
        splits = len({cell.split for cell in self.cells})
        note = f"Means over {splits} splits; differences in {self.metric} from the first model."
        rows = [cells(row) for row in self.leaderboard()]
        return notebook_html(HEADS, rows, title=self.data, note=note)

    def __str__(self) -> str:
        lines = [f"{'model':<16} {'top-1 %':>14} {'mean rank':>15} {'NLL':>17}"]
        for row in self.leaderboard():
            lines.append(
                f"{row.model:<16} {row.measured('top1', 2, 100):>14} "
                f"{row.measured('mean_rank', 3):>15} {row.measured('nll', 4):>17}"
            )
        return "\n".join(lines)


def cells(row: Row) -> list[str]:
    """A row of the leaderboard as text, under HEADS: for pages, notebooks and the terminal."""
    shown = [row.measured("top1", 2, 100), row.measured("top5", 2, 100)]
    shown += [row.measured("mean_rank", 3), row.measured("mrr", 4), row.measured("nll", 4)]
    if row.p is None:
        compared = ["best", ""]
    else:
        sure = row.p == row.p  # a single split has neither a standard error nor a p-value
        error = f" ± {row.difference_standard_error:.4f}" if sure else ""
        compared = [f"{row.difference:+.4f}{error}", f"{row.p:.2g}" if sure else ""]
    return [row.model, *shown, *compared, f"{row.seconds:.1f}"]


an_executor = instance(
    Executor, "give one such as setwise.cluster.RayExecutor, or leave it out to train here"
)


def compare(
    models: Mapping[str, Estimator] | Iterable[str],
    choices: Choices,
    *,
    splits: int = 5,
    seed: int = 0,
    sizes: tuple[float, float, float] = (0.5, 0.25, 0.25),
    split_by: Literal["set", "group", "time"] = "set",
    metric: str = "nll",
    tuning: Tuning | None = None,
    on_cell: Callable[[Cell], None] | None = None,
    executor: Executor | None = None,
) -> Comparison:
    """Train every model on the same random splits and compare them on the test parts.

    Args:
        models: estimators by the name to show, or names of the zoo.
        choices: the data.
        splits: number of random splits.
        seed: split i uses seed + i, and so do models that have a seed.
        sizes: shares of training, validation and test sets.
        split_by: what stays together in a split, as ``by`` of :func:`setwise.split`.
        metric: what the leaderboard is sorted by.
        tuning: tune models first, in each split separately: networks, and others that have a
            default space or all arguments of the one that is given. The rest, and by default all
            models, keep their arguments.
        on_cell: called after each model on each split.
        executor: where to train; by default in this process.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=300).choices
    >>> result = compare(["mnl"], choices, splits=2)
    >>> result.values("top1").shape
    (1, 2)
    """
    models = _estimators(models)
    check_splits(splits, split_by, seed, sizes)
    one_of(*HIGHER_IS_BETTER)("metric", metric)
    optional(instance(Tuning, "write tuning=setwise.Tuning(trials=20)"))("tuning", tuning)
    optional(callback)("on_cell", on_cell)
    optional(an_executor)("executor", executor)
    trainable(choices)
    cells = {}
    parts = _Splits(choices if executor is None else choices.in_memory(), sizes, seed, split_by)
    for place, cell in _cells(models, parts, splits, tuning, executor):
        cells[place] = cell
        if on_cell is not None:
            on_cell(cell)
    ordered = tuple(cells[place] for place in sorted(cells))
    return Comparison(ordered, repr(choices), sizes, metric, split_by)


@dataclass(frozen=True, eq=False)
class TunedSplit:
    """The outcome of one split: what tuning found, and how it does on the test part."""

    split: int
    tuned: Tuned
    test: Metrics
    seconds: float


def tune_splits(
    model: str | Estimator,
    choices: Choices,
    *,
    splits: int = 10,
    seed: int = 0,
    sizes: tuple[float, float, float] = (0.5, 0.25, 0.25),
    split_by: Literal["set", "group", "time"] = "set",
    tuning: Tuning = Tuning(),  # noqa: B008 (frozen)
    on_trials: OnTrials | None = None,
    executor: Executor | None = None,
) -> list[TunedSplit]:
    """Tune a model on random splits, and measure the best setting of each on its test part.

    Every split has a study of its own, which never sees the test part. Networks train the trials
    of all splits together, as one population; other estimators are fitted once per trial.

    Args:
        model: an estimator with arguments to vary, or its name in the zoo.
        choices: the data.
        splits: number of random splits.
        seed: split i uses seed + i, and so does its model.
        sizes: shares of training, validation and test sets.
        split_by: what stays together in a split, as ``by`` of :func:`setwise.split`.
        tuning: the number of trials per split, the search space and where to keep the study.
        on_trials: called whenever trials finish.
        executor: where to train the trials; by default in this process.
            One job is a chunk of the population, on CPUs eight trials of a split; or one fit of
            an estimator that is not a network.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=200).choices
    >>> small = sw.SDW(dimension=2, hidden=4, training=sw.Training(epochs=2))
    >>> done = tune_splits(small, choices, splits=2, tuning=sw.Tuning(trials=2, storage=None))
    >>> [len(one.tuned.trials) for one in done]
    [2, 2]
    """
    check_splits(splits, split_by, seed, sizes)
    optional(an_executor)("executor", executor)
    trainable(choices)
    parts = [split(choices, sizes, seed + number, split_by) for number in range(splits)]
    return tune_parts(tunable(model), parts, seed, tuning, on_trials, executor=executor)


def check_splits(splits: int, split_by: str, seed: int, sizes: Sequence[float]) -> None:
    """Refuse arguments that describe no splits."""
    each(number(above=0), least=3)("sizes", sizes)
    if len(sizes) != 3:
        raise InputError(
            f"sizes={sizes} must be three numbers: the shares of training, validation and test sets"
        )
    whole()("splits", splits)
    one_of("set", "group", "time")("split_by", split_by)
    check_seed("seed", seed)
    if split_by == "time" and splits > 1:
        raise InputError("there is only one split by time; use splits=1")


def tune_parts(
    model: Estimator,
    parts: Sequence[tuple[Choices, ...]],
    seed: int,
    tuning: Tuning,
    on_trials: OnTrials | None = None,
    checkpoint: Path | None = None,
    executor: Executor | None = None,
) -> list[TunedSplit]:
    """:func:`tune_splits` for given parts: training, validation and test sets of each split.

    ``checkpoint`` is a file that keeps whole rounds of trials, in place of a storage.
    """
    begin = time.perf_counter()
    seeds = [seed + number for number in range(len(parts))]
    pairs = [(part[0], part[1]) for part in parts]
    found = tune_tasks(model, pairs, seeds, tuning, on_trials, checkpoint, executor)
    seconds = (time.perf_counter() - begin) / len(parts)
    return [
        TunedSplit(number, tuned, tuned.estimator.evaluate(part[2]), seconds)
        for number, (tuned, part) in enumerate(zip(found, parts, strict=True))
    ]


def _estimators(models: Mapping[str, Estimator] | Iterable[str]) -> Mapping[str, Estimator]:
    """The estimators by the name to show; an empty list and wrong arguments are refused."""
    if isinstance(models, (str, Estimator)) or not isinstance(models, Iterable):
        raise InputError(
            f"models={shown(models)} is not a list; give names, such as ['mnl', 'sda'], or "
            "estimators by name, such as {'mnl': setwise.MNL()}"
        )
    if not isinstance(models, Mapping):
        models = list(models)
        if any(isinstance(one, Estimator) for one in models):
            raise InputError(
                "models= has estimators without names to show; give them by name, such as "
                "{'mnl': setwise.MNL(), 'small': setwise.SDA(8)}"
            )
        twice = [name for name, uses in Counter(map(str, models)).items() if uses > 1]
        if twice:
            raise InputError(f"models= names {twice[0]!r} twice; name each model once")
        models = {name: named(name) for name in models}
    if not models:
        raise InputError("there is no model to compare; name at least one")
    for name, one in models.items():
        text("models", name)
        instance(Estimator, "give an estimator, such as setwise.MNL()")(f"models[{name!r}]", one)
        one.check_arguments()
    return models


class _Splits:
    """The random splits of some choices. Each is a copy of the data: only the last is kept."""

    def __init__(self, choices: Choices, sizes: tuple[float, float, float], seed: int, by: Any):
        self.choices, self.sizes, self.seed, self.by = choices, sizes, seed, by
        self._last: tuple[int, tuple[Choices, ...]] | None = None

    def __getitem__(self, number: int) -> tuple[Choices, ...]:
        if self._last is None or self._last[0] != number:
            made = split(self.choices, self.sizes, self.seed + number, self.by)
            self._last = (number, made)
        return self._last[1]


class _Piece(NamedTuple):
    """One model to train on one split."""

    name: str
    estimator: Estimator
    number: int
    splits: Shared


def _cells(
    models: Mapping[str, Estimator],
    splits: _Splits,
    count: int,
    tuning: Tuning | None,
    executor: Executor | None,
) -> Iterator[tuple[int, Cell]]:
    """Every model on every split, with its place; those to tune come last, all splits at once."""
    tuned = {}
    if tuning is not None:
        tuned = {name: model for name, model in models.items() if tuning.tunes(model)}
        if not tuned and isinstance(tuning.space, Mapping):
            check_space(tuning.space, next(iter(models.values())))  # refuses it
    untuned = {name: model for name, model in models.items() if name not in tuned}
    where = executor or SerialExecutor()
    shared = where.put(splits)
    pieces = [
        _Piece(name, estimator, number, shared)
        for number in range(count)
        for name, estimator in untuned.items()
    ]
    yield from where.map_unordered(_cell, len(pieces), pieces.__getitem__)
    place = len(pieces)
    every = [splits[number] for number in range(count)] if tuned else []
    for name, estimator in tuned.items():
        assert tuning is not None
        for one in tune_parts(estimator, every, splits.seed, tuning, executor=executor):
            yield place, Cell(name, one.split, dict(one.test), one.seconds)
            place += 1


def _cell(piece: _Piece, send: Send) -> Cell:
    splits = piece.splits.get()
    train, valid, test = splits[piece.number]
    fresh = unfitted(piece.estimator)
    if "seed" in fresh.get_params():
        fresh.set_params(seed=splits.seed + piece.number)
    begin = time.perf_counter()
    fresh.fit(train, valid, progress=False)
    seconds = time.perf_counter() - begin
    if getattr(fresh, "interrupted_", False):
        raise KeyboardInterrupt  # half a table would be read as a whole one
    return Cell(piece.name, piece.number, dict(fresh.evaluate(test)), seconds)


def _without_nan(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    return None if isinstance(value, float) and value != value else value

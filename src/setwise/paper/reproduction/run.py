"""Reproduce the paper's evaluation: plan the work, do it, and gather the results.

The plan has one unit of work per method and setting, with an estimate of its seconds. Results that
need several methods, the violation capacity by region, are computed at the end.
"""

import hashlib
import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from setwise._errors import InputError
from setwise._executor import Executor, ProcessExecutor, SerialExecutor
from setwise._files import make_folder, unfinished, whole_file
from setwise.choices import Choices, Schema, open_choices, save_choices
from setwise.choices.schema import common_levels
from setwise.choices.stored import SUFFIX
from setwise.estimators import TrainedEstimator
from setwise.paper.reproduction.protocol import (
    CELLS,
    PARTS,
    REGIONS,
    RESULTS,
    SIZES,
    Method,
    Part,
    Protocol,
    Region,
    ReproducedCell,
    Results,
    Setting,
    slug,
)
from setwise.paper.reproduction.work import (
    OnUnit,
    Unit,
    default_workers,
    machine,
    run_units,
    share_accelerator,
)
from setwise.violations.capacity import correctness_regions


def regions(cells: Mapping[str, Sequence[ReproducedCell]]) -> list[Region]:
    """All regions of every split, from the cells of each model; none if a model is missing."""
    if any(name not in cells for name in REGIONS):
        return []
    by_split = [{cell.outcome.split: cell for cell in cells[name]} for name in REGIONS]
    return [
        region
        for split in sorted(by_split[0])
        if all(split in one for one in by_split)
        for region in _of_split([one[split] for one in by_split])
    ]


def _of_split(cells: Sequence[ReproducedCell]) -> Iterator[Region]:
    right = {name: np.array(cell.right, bool) for name, cell in zip(REGIONS, cells, strict=True)}
    violations = np.array([cell.violations for cell in cells], float)
    outcome = cells[0].outcome
    for names, here in correctness_regions(right):
        yield Region(
            outcome.data,
            outcome.max_items,
            outcome.split,
            names,
            int(here.sum()),
            dict(zip(REGIONS, _means(violations, here), strict=True)),
        )


def _means(
    violations: Float[np.ndarray, "models sets"], here: Bool[np.ndarray, " sets"]
) -> list[float | None]:
    return [float(one[here].mean()) if here.any() else None for one in violations]


LEAST_SETS = 20

# For an estimate of a unit's seconds: rows per second that a population trains on, seconds per
# step, and seconds to start and compile. Measured on Expedia and Swissmetro with two cores, one per
# worker, and with one H200, which all workers share.
TRAINED_ROWS = {
    "cpu": {"sda": 6e5, "ranknet": 1.5e4, "deep_sets": 4.5e4},
    "accelerator": {"sda": 3e8, "ranknet": 1.5e7, "deep_sets": 2.5e7},
}
SECONDS_PER_STEP = {"cpu": 0.0, "accelerator": 5e-4}
SECONDS_TO_START = {"cpu": 8.0, "accelerator": 25.0}
EPOCHS_TO_STOP = 60  # of a trial, on average
EPOCHS_OF_THE_LAST = 4  # the longest trial of a batch takes this many times the average
# Rows per second of methods that are not trained by gradients, for one split.
SOLVED_ROWS = {"svmrank": 1e5}
OTHER_SOLVED_ROWS = 1e6


@dataclass(frozen=True)
class ReproductionData:
    """A data set to reproduce on, and its maximum set sizes; the smallest is that of Table 1."""

    choices: Choices
    max_items: tuple[int, ...]


@dataclass(frozen=True)
class ReproductionPlan:
    """The settings, the units of work on them, and the estimated seconds that each unit adds."""

    settings: tuple[Setting, ...]
    units: tuple[Unit, ...]
    seconds: Mapping[Unit, float]

    def of(self, setting: Setting) -> list[Unit]:
        """The units of one setting."""
        where = (setting.data, setting.max_items)
        return [unit for unit in self.units if (unit.data, unit.max_items) == where]


def plan(
    sources: Mapping[str, ReproductionData], part: Part, protocol: Protocol, scratch: Path
) -> ReproductionPlan:
    """Lay out a part of the paper on these data; samples of the sets are written to ``scratch``.

    Sets of one item are left out, since their choice is known. Rare levels of categories are
    grouped in each sample before it is split, as in the paper.
    """
    if not sources:
        raise InputError("there are no data to reproduce on; name at least one table")
    names = [slug(name) for name in sources]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two data sets are called {name}; give them different names")
    settings, units, seconds = [], [], {}
    for data, source in sources.items():
        for max_items in sorted(set(source.max_items)):
            methods = protocol.methods(part, max_items == min(source.max_items))
            if not methods:
                continue
            setting, samples, mark = _setting(data, source.choices, max_items, protocol, scratch)
            settings.append(setting)
            for method in methods:
                unit = Unit(data, max_items, method, samples, mark)
                units.append(unit)
                seconds[unit] = _seconds(method, setting, protocol)
    return ReproductionPlan(tuple(settings), tuple(units), seconds)


def _setting(
    data: str, choices: Choices, max_items: int, protocol: Protocol, scratch: Path
) -> tuple[Setting, tuple[Path, ...], str]:
    """The sets of up to ``max_items`` items: their description, sample files, and fingerprint."""
    limited = choices.limit(max_items, min_items=2)
    if len(limited) < LEAST_SETS:
        raise InputError(
            f"{data} has only {len(limited)} sets of 2 to {max_items} items; a split needs at "
            f"least {LEAST_SETS}, so allow larger sets"
        )
    splits = protocol.splits if len(limited) > protocol.sets else 1
    paths = [scratch / f"{slug(data)}-{max_items}-{number}{SUFFIX}" for number in range(splits)]
    for number, path in enumerate(paths):
        sample = limited.sample(protocol.sets, protocol.seed + number)
        save_choices(common_levels(sample), path)
    with paths[0].open("rb") as file:
        mark = hashlib.file_digest(file, "sha256").hexdigest()
    features = Schema.fit(open_choices(paths[0])).width
    sets = min(protocol.sets, len(limited))
    mean = round(float(limited.sizes.mean()), 6)
    return Setting(data, max_items, len(limited), sets, mean, features), tuple(paths), mark


def _seconds(method: Method, setting: Setting, protocol: Protocol) -> float:
    """Estimated seconds that a unit adds to the total, with the default number of workers."""
    sets = SIZES[0] * setting.sets
    if not isinstance(protocol.estimator(method), TrainedEstimator):
        rows = protocol.splits * sets * setting.mean_items
        return rows / SOLVED_ROWS.get(method.model, OTHER_SOLVED_ROWS) / default_workers()
    device = "cpu" if jax.default_backend() == "cpu" else "accelerator"
    training, speeds = protocol.training, TRAINED_ROWS[device]
    epochs = min(EPOCHS_TO_STOP, training.epochs)
    trained = sets * setting.mean_items * epochs * protocol.trials * protocol.splits
    last = min(EPOCHS_OF_THE_LAST * epochs, training.epochs)
    steps = protocol.tuning.batches * last * sets / training.batch_size
    computed = trained / speeds.get(method.model, speeds["sda"]) + steps * SECONDS_PER_STEP[device]
    together = default_workers() if device == "cpu" else 1  # an accelerator does one after another
    return SECONDS_TO_START[device] / default_workers() + computed / together


def longest_first(units: Sequence[Unit], seconds: Mapping[Unit, float]) -> list[Unit]:
    """The units by falling estimated time, so that workers finish at about the same time."""
    return sorted(units, key=lambda unit: -seconds[unit])


CLOCK = "cells/seconds.txt"
PACKAGES = ("setwise", "jax", "equinox", "optax", "optuna", "numpy", "scikit-learn")

OnPlan = Callable[[ReproductionPlan, list[Unit], int], None]
"""Called before anything starts with the plan, the units to do, and the number of workers."""


def reproduce(
    sources: Mapping[str, ReproductionData],
    out: str | Path,
    part: Part = "all",
    protocol: Protocol = Protocol(),  # noqa: B008 (frozen)
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    command: str = "",
    on_plan: OnPlan | None = None,
    on_unit: OnUnit | None = None,
) -> Results:
    """Run a part of the paper's evaluation; results that the folder has already are not run again.

    Args:
        sources: by the name to show, the choices and the maximum set sizes.
        out: the folder for every finished cell and, in the end, ``results.json``.
        part: "table1", "ablation", "full", "figures" or "all".
        protocol: splits, trials and training.
        workers: how many processes work here; by default one per core, or four on an accelerator.
        executor: where to work in place of processes here, such as on a cluster.
        command: the command line, for the report.
        on_plan: called before anything starts.
        on_unit: called whenever a part of a unit is done.

    >>> import setwise as sw
    >>> few = sw.datasets.generate("mnl", sets=12).choices
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     reproduce({"few": ReproductionData(few, (10,))}, folder, "table1")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: few has only 12 sets of 2 to 10 items; a split needs at least 20, \
so allow larger sets
    """
    if part not in PARTS:
        raise InputError(f"there is no part '{part}'; there are: {', '.join(PARTS)}")
    if workers is not None and workers < 1:
        raise InputError(f"workers={workers} must be at least 1")
    if workers is not None and executor is not None:
        raise InputError(
            f"workers={workers} are processes on this machine; a cluster has its own workers: "
            "leave it out"
        )
    folder = Path(out)
    make_folder(folder)
    make_folder(folder / CELLS)
    unfinished(folder / CELLS)  # removes what a killed run left
    share_accelerator()
    clock = _Clock(folder)
    with tempfile.TemporaryDirectory(prefix="setwise-") as scratch:
        laid_out = plan(sources, part, protocol, Path(scratch))
        left = [
            unit
            for unit in longest_first(laid_out.units, laid_out.seconds)
            if len(unit.file(folder, protocol).read()) < protocol.splits
        ]
        able = executor.workers() if executor is not None else workers or default_workers()
        many = min(able, max(1, len(left)))
        if on_plan is not None:
            on_plan(laid_out, left, many)

        def after(unit: Unit, share: float, notes: Sequence[str] | None) -> None:
            if notes is not None:
                clock.save()
            if on_unit is not None:
                on_unit(unit, share, notes)

        with nullcontext(executor) if executor is not None else _executor_here(many) as used:
            run_units(left, protocol, folder, used, after)
    results = _gathered(laid_out, part, protocol, folder, _run(folder, command, clock, bool(left)))
    results.save(folder / RESULTS)
    return results


@contextmanager
def _executor_here(workers: int) -> Iterator[Executor]:
    """This process, or several worker processes."""
    if workers == 1:
        yield SerialExecutor()
        return
    with ProcessExecutor(workers) as executor:
        yield executor


def _gathered(
    laid_out: ReproductionPlan, part: Part, protocol: Protocol, folder: Path, run: Mapping[str, Any]
) -> Results:
    """All cells of the plan, in its order, and what follows from several of them."""
    cells: dict[Unit, list[ReproducedCell]] = {
        unit: unit.file(folder, protocol).read() for unit in laid_out.units
    }
    found = []
    for setting in laid_out.settings if part in ("figures", "all") else ():
        found += regions(
            {
                str(unit.method): cells[unit]
                for unit in laid_out.of(setting)
                if unit.method.dimension is None
            }
        )
    described = {"part": part, **protocol.described()}
    outcomes = tuple(cell.outcome for unit in laid_out.units for cell in cells[unit])
    return Results(described, run, laid_out.settings, outcomes, tuple(found))


class _Clock:
    """The total seconds of all runs in a folder, including those that were killed."""

    def __init__(self, folder: Path):
        self._path = folder / CLOCK
        try:
            self._before = float(self._path.read_text("utf-8")) if self._path.exists() else 0.0
        except ValueError:
            raise InputError(
                f"{self._path} is not the number of seconds that a reproduction took; delete it"
            ) from None
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(self._before + time.monotonic() - self._begin, 1)

    def save(self) -> None:
        with whole_file(self._path) as part:
            part.write_text(f"{self.seconds}\n", "utf-8")


def _run(folder: Path, command: str, clock: _Clock, worked: bool) -> dict[str, Any]:
    """Command, machine, versions and seconds; a run that had nothing to do changes nothing."""
    path = folder / RESULTS
    if path.exists() and not worked:
        return dict(Results.open(path).run)
    return {
        "command": command,
        "seconds": clock.seconds,
        "machine": machine(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "finished": datetime.now(UTC).strftime("%Y-%m-%d"),
    }

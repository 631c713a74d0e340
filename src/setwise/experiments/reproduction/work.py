"""The work of one unit: a method on a setting, tuned and tested on every split."""

import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jax

from setwise._files import make_folder
from setwise.choices import Choices, open_choices, split
from setwise.estimators import Estimator, TrainedEstimator
from setwise.experiments.reproduction.cells import Cell, CellFile
from setwise.experiments.reproduction.protocol import REGIONS, SIZES, Protocol
from setwise.experiments.reproduction.results import Method, Outcome
from setwise.experiments.tuned import tune_parts
from setwise.metrics import Metrics
from setwise.violations import violation_capacity
from setwise.violations.correctness import predicted_right

OnShare = Callable[[float], None]
"""Called with the share of a unit that is done, from 0 to 1."""


@dataclass(frozen=True)
class Unit:
    """One method on one setting. ``samples`` are data files, one a split, or one for all."""

    data: str
    max_items: int
    method: Method
    samples: tuple[Path, ...]
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.method} on {self.data}, up to {self.max_items} items"

    def file(self, folder: Path, protocol: Protocol) -> CellFile:
        """Where its cells are."""
        described = {
            name: value for name, value in protocol.described().items() if name != "dimensions"
        }
        return CellFile(
            folder, self.data, self.max_items, self.method, [described, self.fingerprint]
        )


def work(
    unit: Unit, protocol: Protocol, folder: Path, on_share: OnShare | None = None
) -> list[str]:
    """Do what is left of a unit and store each cell as it ends; warnings come back as text."""
    file = unit.file(folder, protocol)
    cells = file.read()
    if len(cells) == protocol.splits:
        return []
    make_folder(file.path.parent)
    tell = on_share or (lambda share: None)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UserWarning)
        estimator = protocol.estimator(unit.method)
        if isinstance(estimator, TrainedEstimator):
            cells = list(_tuned(unit, protocol, estimator, file.search, tell))
            file.write(cells)
            file.search.unlink(missing_ok=True)
        else:
            for number in range(len(cells), protocol.splits):
                cells.append(_solved(unit, protocol, number))
                file.write(cells)
                tell(len(cells) / protocol.splits)
    return list(dict.fromkeys(str(one.message) for one in raised))


def _parts(unit: Unit, protocol: Protocol, number: int) -> tuple[Choices, ...]:
    """Training, validation and test sets of one split."""
    sample = unit.samples[min(number, len(unit.samples) - 1)]
    return split(open_choices(sample).in_memory(), SIZES, protocol.seed + number)


def _tuned(
    unit: Unit, protocol: Protocol, estimator: TrainedEstimator, search: Path, on_share: OnShare
) -> Iterator[Cell]:
    """Tune on all splits at once; the best of each is tested."""
    parts = [_parts(unit, protocol, number) for number in range(protocol.splits)]

    def on_trials(done: int, total: int) -> None:
        on_share(done / total)

    found = tune_parts(estimator, parts, protocol.seed, protocol.tuning, on_trials, search)
    for one, part in zip(found, parts, strict=True):
        yield _cell(
            unit, one.split, one.tuned.estimator, part[2], one.test, one.seconds,
            dict(one.tuned.values),
        )  # fmt: skip


def _solved(unit: Unit, protocol: Protocol, number: int) -> Cell:
    """Fit a method that is not trained by gradients, and test it."""
    begin = time.perf_counter()
    train, valid, test = _parts(unit, protocol, number)
    estimator = protocol.estimator(unit.method)
    if "seed" in estimator.get_params():
        estimator.set_params(seed=protocol.seed + number)
    estimator.fit(train, valid, progress=False)
    tested = estimator.evaluate(test)
    return _cell(unit, number, estimator, test, tested, time.perf_counter() - begin, {})


def _cell(
    unit: Unit,
    number: int,
    estimator: Estimator,
    test: Choices,
    tested: Metrics,
    seconds: float,
    tuned: dict[str, float],
) -> Cell:
    kappa, right, violations = None, None, None
    if unit.method.model in REGIONS:
        found = violation_capacity(estimator, test)
        kappa, right = found.kappa, predicted_right(estimator, test).tolist()
        violations = found.of_sets.tolist()  # a number each: sets of one item are left out
    outcome = Outcome(
        unit.data, unit.max_items, unit.method, number, dict(tested), kappa, tuned,
        round(seconds, 3), machine(),
    )  # fmt: skip
    return Cell(outcome, right, violations)


@cache
def machine() -> str:
    """What computes here, in words.

    >>> " cores" in machine()
    True
    """
    device = jax.devices()[0]
    accelerator = "" if device.platform == "cpu" else f"one {device.device_kind}, "
    return f"{accelerator}{os.cpu_count()} cores of {platform.machine()}, {platform.system()}"

"""The work of one unit: a method on a setting, tuned and tested on every split; and many units.

Units are independent jobs of an executor (:mod:`setwise._executor`).
"""

import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax

from setwise._executor import Executor, Send, Shared
from setwise._files import make_folder, whole_file
from setwise.choices import Choices, open_choices, split
from setwise.comparison.comparison import tune_parts
from setwise.estimators import Estimator, TrainedEstimator
from setwise.metrics import Metrics
from setwise.paper.reproduction.protocol import (
    REGIONS,
    SIZES,
    CellFile,
    Method,
    MethodResult,
    Protocol,
    ReproducedCell,
)
from setwise.violations import violation_capacity
from setwise.violations.capacity import predicted_right

OnShare = Callable[[float], None]
"""Called with the share of a unit that is done, from 0 to 1."""


@dataclass(frozen=True)
class Unit:
    """One method on one setting. ``samples`` are data files: one per split, or one for all."""

    data: str
    max_items: int
    method: Method
    samples: tuple[Path, ...]
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.method} on {self.data}, up to {self.max_items} items"

    def file(self, folder: Path, protocol: Protocol) -> CellFile:
        """The file of its cells."""
        described = {
            name: value for name, value in protocol.described().items() if name != "dimensions"
        }
        return CellFile(
            folder, self.data, self.max_items, self.method, [described, self.fingerprint]
        )


def work(
    unit: Unit, protocol: Protocol, folder: Path, on_share: OnShare | None = None
) -> list[str]:
    """Do the rest of a unit and store each cell when it is finished; return warnings as text."""
    file = unit.file(folder, protocol)
    cells = file.read()
    if len(cells) == protocol.splits:
        return []
    make_folder(file.path.parent)
    report = on_share or (lambda share: None)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UserWarning)
        estimator = protocol.estimator(unit.method)
        if isinstance(estimator, TrainedEstimator):
            cells = list(_tuned(unit, protocol, estimator, file.search, report))
            file.write(cells)
            file.search.unlink(missing_ok=True)
        else:
            for number in range(len(cells), protocol.splits):
                cells.append(_solved(unit, protocol, number))
                file.write(cells)
                report(len(cells) / protocol.splits)
    return list(dict.fromkeys(str(one.message) for one in raised))


def _parts(unit: Unit, protocol: Protocol, number: int) -> tuple[Choices, ...]:
    """Training, validation and test sets of one split."""
    sample = unit.samples[min(number, len(unit.samples) - 1)]
    return split(open_choices(sample).in_memory(), SIZES, protocol.seed + number)


def _tuned(
    unit: Unit, protocol: Protocol, estimator: TrainedEstimator, search: Path, on_share: OnShare
) -> Iterator[ReproducedCell]:
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


def _solved(unit: Unit, protocol: Protocol, number: int) -> ReproducedCell:
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
) -> ReproducedCell:
    kappa, right, violations = None, None, None
    if unit.method.model in REGIONS:
        found = violation_capacity(estimator, test)
        kappa, right = found.kappa, predicted_right(estimator, test).tolist()
        violations = found.of_sets.tolist()  # a number each: sets of one item are left out
    outcome = MethodResult(
        unit.data, unit.max_items, unit.method, number, dict(tested), kappa, tuned,
        round(seconds, 3), machine(),
    )  # fmt: skip
    return ReproducedCell(outcome, right, violations)


@cache
def machine() -> str:
    """The hardware of this machine, in words.

    >>> " cores" in machine()
    True
    """
    device = jax.devices()[0]
    accelerator = "" if device.platform == "cpu" else f"one {device.device_kind}, "
    return f"{accelerator}{os.cpu_count()} cores of {platform.machine()}, {platform.system()}"


PROCESSES_ON_ACCELERATOR = 4  # while one compiles or asks for trials, others train
SHARE_OF_ACCELERATOR = 0.22  # of its memory for each, however many there are: layouts depend on it
SECONDS_BETWEEN_MESSAGES = 1.0

OnUnit = Callable[[Unit, float, Sequence[str] | None], None]
"""Called with a unit, the share of it that is done, and at its end (else None) its warnings."""


def default_workers() -> int:
    """How many worker processes suit this machine."""
    cpu = jax.default_backend() == "cpu"
    return (os.cpu_count() or 1) if cpu else PROCESSES_ON_ACCELERATOR


def share_accelerator() -> None:
    """Let several processes use one accelerator; call it before JAX looks for devices."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", str(SHARE_OF_ACCELERATOR))


class _Contents(NamedTuple):
    """What the files of a unit contain: its cells and its search; None if there is no file."""

    cells: bytes | None = None
    search: bytes | None = None


class _UnitJob(NamedTuple):
    """A unit for a worker, with the contents of its files so far.

    ``samples`` are the contents of its data files, or None if the worker sees the files.
    """

    unit: Unit
    protocol: Protocol
    samples: tuple[Shared, ...] | None
    contents: _Contents


def run_units(
    units: Sequence[Unit], protocol: Protocol, folder: Path, executor: Executor, on_unit: OnUnit
) -> None:
    """Do all units with an executor; each cell is stored in the folder as soon as it is known.

    Workers need not see the folder: each works in a folder of its own and sends the contents of
    its files whenever they change. If a worker is lost, only what is missing is done again.
    """
    shared: dict[Path, Shared] = {}
    if not executor.shares_disk:
        paths = dict.fromkeys(path for unit in units for path in unit.samples)
        shared = {path: executor.put(path.read_bytes()) for path in paths}
    files = [unit.file(folder, protocol) for unit in units]

    def job(number: int) -> _UnitJob:
        unit = units[number]
        samples = tuple(shared[path] for path in unit.samples) if shared else None
        return _UnitJob(unit, protocol, samples, _read(files[number]))

    def on_message(number: int, message: tuple[float, _Contents]) -> None:
        share, changed = message
        _store(files[number], changed)
        on_unit(units[number], share, None)

    for number, (cells, notes) in executor.map_unordered(_run_unit, len(units), job, on_message):
        _store(files[number], _Contents(cells))
        files[number].search.unlink(missing_ok=True)
        on_unit(units[number], 1.0, notes)


def _run_unit(job: _UnitJob, send: Send) -> tuple[bytes, list[str]]:
    """On a worker: the content of a unit's file of cells, and its warnings."""
    share_accelerator()
    with tempfile.TemporaryDirectory(prefix="setwise-") as scratch:
        folder, unit = Path(scratch), job.unit
        if job.samples is not None:
            unit = replace(unit, samples=tuple(folder / path.name for path in unit.samples))
            for path, shared in zip(unit.samples, job.samples, strict=True):
                path.write_bytes(shared.get())
        file = unit.file(folder, job.protocol)
        _store(file, job.contents)
        notes = work(unit, job.protocol, folder, _Messages(file, send))
        return file.path.read_bytes(), notes


class _Messages:
    """Sends the share that is done at most once per second, and changed files at once."""

    def __init__(self, file: CellFile, send: Callable[[tuple[float, _Contents]], None]):
        self._paths, self._send = (file.path, file.search), send
        self._seen = [_version(path) for path in self._paths]
        self._last = time.monotonic()

    def __call__(self, share: float) -> None:
        now = [_version(path) for path in self._paths]
        changed = [
            path.read_bytes() if version not in (None, seen) else None
            for path, version, seen in zip(self._paths, now, self._seen, strict=True)
        ]
        if any(changed) or time.monotonic() - self._last > SECONDS_BETWEEN_MESSAGES:
            self._send((share, _Contents(*changed)))
            self._seen, self._last = now, time.monotonic()


def _version(path: Path) -> tuple[int, int] | None:
    """It changes with the file, which is always replaced as a whole."""
    if not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def _read(file: CellFile) -> _Contents:
    paths = (file.path, file.search)
    return _Contents(*(path.read_bytes() if path.exists() else None for path in paths))


def _store(file: CellFile, contents: _Contents) -> None:
    """Write the files that there are, each whole or not at all."""
    make_folder(file.path.parent)
    for path, content in zip((file.path, file.search), contents, strict=True):
        if content is not None:
            with whole_file(path) as part:
                part.write_bytes(content)

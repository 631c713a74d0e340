"""The work of one unit: a method on a setting, tuned and tested on every split.

Units in parallel: processes that take one after another, and die with who began them.
"""

import os
import platform
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import jax

from setwise._errors import InputError
from setwise._files import make_folder
from setwise.choices import Choices, open_choices, split
from setwise.comparison.comparison import tune_parts
from setwise.estimators import Estimator, TrainedEstimator
from setwise.metrics import Metrics
from setwise.paper.reproduction.protocol import (
    REGIONS,
    SIZES,
    CellFile,
    Method,
    Outcome,
    Protocol,
    SplitResult,
)
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
) -> Iterator[SplitResult]:
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


def _solved(unit: Unit, protocol: Protocol, number: int) -> SplitResult:
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
) -> SplitResult:
    kappa, right, violations = None, None, None
    if unit.method.model in REGIONS:
        found = violation_capacity(estimator, test)
        kappa, right = found.kappa, predicted_right(estimator, test).tolist()
        violations = found.of_sets.tolist()  # a number each: sets of one item are left out
    outcome = Outcome(
        unit.data, unit.max_items, unit.method, number, dict(tested), kappa, tuned,
        round(seconds, 3), machine(),
    )  # fmt: skip
    return SplitResult(outcome, right, violations)


@cache
def machine() -> str:
    """What computes here, in words.

    >>> " cores" in machine()
    True
    """
    device = jax.devices()[0]
    accelerator = "" if device.platform == "cpu" else f"one {device.device_kind}, "
    return f"{accelerator}{os.cpu_count()} cores of {platform.machine()}, {platform.system()}"


ON_ACCELERATOR = 4  # processes: while one compiles or asks for trials, others train
SHARE_OF_ACCELERATOR = 0.22  # of its memory for each, however many there are: layouts depend on it
SECONDS_BETWEEN_LOOKS = 1.0

OnUnit = Callable[[Unit, float, Sequence[str] | None], None]
"""Called with a unit, the share of it that is done, and at its end (else None) its warnings."""


def workers_here() -> int:
    """How many processes suit this machine."""
    import jax

    return (os.cpu_count() or 1) if jax.default_backend() == "cpu" else ON_ACCELERATOR


def share_accelerator() -> None:
    """Let several processes use one accelerator; it must be called before JAX looks for it."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", str(SHARE_OF_ACCELERATOR))


def run_units(
    units: Sequence[Unit], protocol: Protocol, folder: Path, workers: int, on_unit: OnUnit
) -> None:
    """Do all units, so many at a time; each stores what it finds in the folder."""
    if workers == 1 or len(units) == 1:
        for unit in units:
            notes = work(unit, protocol, folder, partial(_share_of_unit, on_unit, unit))
            on_unit(unit, 1.0, notes)
        return
    context = get_context("spawn")
    todo, events = context.SimpleQueue(), context.Queue()
    for number in [*range(len(units)), *[None] * workers]:
        todo.put(number)
    arguments = (os.getpid(), todo, events, list(units), protocol, folder)
    processes = [context.Process(target=_worker, args=arguments) for _ in range(workers)]
    try:
        for process in processes:
            process.start()
        _follow(units, processes, events, on_unit)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _follow(
    units: Sequence[Unit], processes: Sequence[SpawnProcess], events: Any, on_unit: OnUnit
) -> None:
    """Pass on what workers tell until all units are done; an error of one ends all."""
    left = len(units)
    while left:
        try:
            number, share, notes, error = events.get(timeout=SECONDS_BETWEEN_LOOKS)
        except queue.Empty:
            if any(process.exitcode not in (None, 0) for process in processes):
                raise InputError(
                    "a worker died, perhaps for lack of memory; run it again with fewer workers: "
                    "what is finished is kept"
                ) from None
            continue
        if error is not None:
            raise error
        left -= notes is not None
        on_unit(units[number], share, notes)


def _worker(
    parent: int, todo: Any, events: Any, units: Sequence[Unit], protocol: Protocol, folder: Path
) -> None:
    """Take units until there is none."""
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    while (number := todo.get()) is not None:
        try:
            notes = work(units[number], protocol, folder, partial(_tell, events, number))
        except Exception as error:
            events.put((number, 0.0, None, error))
            return
        events.put((number, 1.0, notes, None))


def _share_of_unit(on_unit: OnUnit, unit: Unit, share: float) -> None:
    on_unit(unit, share, None)


def _tell(events: Any, number: int, share: float) -> None:
    events.put((number, share, None, None))


def _die_with(parent: int) -> None:
    """End this process when the one that began it has ended, however that happened."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)

"""Units in parallel: processes that take one after another, and die with who began them."""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from setwise._errors import InputError
from setwise.experiments.reproduction.protocol import Protocol
from setwise.experiments.reproduction.work import Unit, work

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

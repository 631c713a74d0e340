"""Reproduce: plan, work, and gather what was found."""

import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from setwise._crew import Crew
from setwise._errors import InputError
from setwise._files import make_folder, unfinished, whole_file
from setwise.experiments.reproduction.cells import CELLS, Cell
from setwise.experiments.reproduction.elsewhere import run_units_elsewhere
from setwise.experiments.reproduction.plan import Plan, Source, longest_first, plan
from setwise.experiments.reproduction.protocol import PARTS, Part, Protocol
from setwise.experiments.reproduction.regions import regions
from setwise.experiments.reproduction.results import RESULTS, Results
from setwise.experiments.reproduction.work import Unit, machine
from setwise.experiments.reproduction.workers import (
    OnUnit,
    run_units,
    share_accelerator,
    workers_here,
)

CLOCK = "cells/seconds.txt"
PACKAGES = ("setwise", "jax", "equinox", "optax", "optuna", "numpy", "scikit-learn")

OnPlan = Callable[[Plan, list[Unit], int], None]
"""Called before anything starts with the plan, the units that are left, and how many workers."""


def reproduce(
    sources: Mapping[str, Source],
    out: str | Path,
    part: Part = "all",
    protocol: Protocol = Protocol(),  # noqa: B008 (frozen)
    *,
    workers: int | None = None,
    crew: Crew | None = None,
    command: str = "",
    on_plan: OnPlan | None = None,
    on_unit: OnUnit | None = None,
) -> Results:
    """Run a part of the paper's evaluation; what is in the folder already is not run again.

    Args:
        sources: by the name to show, the choices and the greatest sizes of sets.
        out: the folder that keeps every finished cell, and in the end ``results.json``.
        part: "table1", "ablation", "full", "figures" or "all".
        protocol: splits, trials and training.
        workers: processes; by default one a core, or four on an accelerator.
        crew: who works in place of processes here, such as a cluster's workers.
        command: what was typed, for the report.
        on_plan: called before anything starts.
        on_unit: called whenever some of a unit is done.

    >>> import setwise as sw
    >>> few = sw.datasets.generate("mnl", sets=12).choices
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     reproduce({"few": Source(few, (10,))}, folder, "table1")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: few has only 12 sets of 2 to 10 items; a split needs at least 20, \
so allow larger sets
    """
    if part not in PARTS:
        raise InputError(f"there is no part '{part}'; there are: {', '.join(PARTS)}")
    if workers is not None and workers < 1:
        raise InputError(f"workers={workers}; at least one is needed")
    if workers is not None and crew is not None:
        raise InputError(f"workers={workers} are processes here; a cluster has its own: drop them")
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
        able = workers or (workers_here() if crew is None else crew.workers())
        many = min(able, max(1, len(left)))
        if on_plan is not None:
            on_plan(laid_out, left, many)

        def after(unit: Unit, share: float, notes: Sequence[str] | None) -> None:
            if notes is not None:
                clock.save()
            if on_unit is not None:
                on_unit(unit, share, notes)

        if crew is None:
            run_units(left, protocol, folder, many, after)
        else:
            run_units_elsewhere(left, protocol, folder, crew, after)
    results = _gathered(laid_out, part, protocol, folder, _run(folder, command, clock, bool(left)))
    results.save(folder / RESULTS)
    return results


def _gathered(
    laid_out: Plan, part: Part, protocol: Protocol, folder: Path, run: Mapping[str, Any]
) -> Results:
    """All cells of the plan, in its order, and what follows from several of them."""
    cells: dict[Unit, list[Cell]] = {
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
    """The seconds that the runs in a folder took in all, those that were killed included."""

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
        with whole_file(self._path) as beside:
            beside.write_text(f"{self.seconds}\n", "utf-8")


def _run(folder: Path, command: str, clock: _Clock, worked: bool) -> dict[str, Any]:
    """Who did it, when and how long; a run that had nothing left to do changes nothing."""
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

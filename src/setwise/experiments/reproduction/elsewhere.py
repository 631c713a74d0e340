"""Units elsewhere: their workers share no disk with the folder, so what they store comes back.

A worker does a unit in a folder of its own, begun with what is stored here already. Whenever its
files change, their content is told and stored here: of a lost worker's unit, what is missing is
done again and nothing else.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from setwise._crew import Crew, Parcel, Tell
from setwise._files import make_folder, whole_file
from setwise.experiments.reproduction.cells import CellFile
from setwise.experiments.reproduction.protocol import Protocol
from setwise.experiments.reproduction.work import Unit, work
from setwise.experiments.reproduction.workers import OnUnit, share_accelerator

SECONDS_BETWEEN_SIGNS = 1.0


class Stored(NamedTuple):
    """The files of a unit, by content: its cells and its search, or None."""

    cells: bytes | None
    search: bytes | None


@dataclass(frozen=True)
class Sent:
    """A unit on its way: its samples by content, and what is stored of it."""

    unit: Unit
    protocol: Protocol
    samples: tuple[Parcel, ...]
    stored: Stored


def run_units_elsewhere(
    units: Sequence[Unit], protocol: Protocol, folder: Path, crew: Crew, on_unit: OnUnit
) -> None:
    """Do all units with a crew; each cell is stored in the folder as soon as it is known."""
    paths = dict.fromkeys(path for unit in units for path in unit.samples)
    parcels = {path: crew.put(path.read_bytes()) for path in paths}
    files = [unit.file(folder, protocol) for unit in units]

    def sent(number: int) -> Sent:
        unit = units[number]
        samples = tuple(parcels[path] for path in unit.samples)
        return Sent(unit, protocol, samples, _stored(files[number]))

    def on_told(number: int, told: tuple[float, Mapping[str, bytes]]) -> None:
        share, changed = told
        _store(files[number], Stored(changed.get("cells"), changed.get("search")))
        on_unit(units[number], share, None)

    for number, (cells, notes) in crew.each(_work, len(units), sent, on_told):
        _store(files[number], Stored(cells, None))
        files[number].search.unlink(missing_ok=True)
        on_unit(units[number], 1.0, notes)


def _work(sent: Sent, tell: Tell) -> tuple[bytes, list[str]]:
    """On a worker: the content of a unit's file of cells, and its warnings."""
    share_accelerator()
    with tempfile.TemporaryDirectory(prefix="setwise-") as scratch:
        folder = Path(scratch)
        paths = tuple(folder / path.name for path in sent.unit.samples)
        for path, parcel in zip(paths, sent.samples, strict=True):
            path.write_bytes(parcel.open())
        unit = replace(sent.unit, samples=paths)
        file = unit.file(folder, sent.protocol)
        _store(file, sent.stored)
        notes = work(unit, sent.protocol, folder, _Signs(file, tell))
        return file.path.read_bytes(), notes


class _Signs:
    """Tells the share that is done at most once a second, and changed files at once."""

    def __init__(self, file: CellFile, tell: Tell):
        self._paths = {"cells": file.path, "search": file.search}
        self._tell: Callable[[tuple[float, dict[str, bytes]]], None] = tell
        self._seen = {name: _version(path) for name, path in self._paths.items()}
        self._last = time.monotonic()

    def __call__(self, share: float) -> None:
        now = {name: _version(path) for name, path in self._paths.items()}
        changed = [name for name in now if now[name] is not None and now[name] != self._seen[name]]
        if changed or time.monotonic() - self._last > SECONDS_BETWEEN_SIGNS:
            self._tell((share, {name: self._paths[name].read_bytes() for name in changed}))
            self._seen, self._last = now, time.monotonic()


def _version(path: Path) -> tuple[int, int] | None:
    """It changes with the file, which is always replaced as a whole."""
    if not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def _stored(file: CellFile) -> Stored:
    return Stored(
        *(path.read_bytes() if path.exists() else None for path in (file.path, file.search))
    )


def _store(file: CellFile, stored: Stored) -> None:
    """Write what is there, each file whole or not at all."""
    make_folder(file.path.parent)
    for path, content in ((file.path, stored.cells), (file.search, stored.search)):
        if content is not None:
            with whole_file(path) as beside:
                beside.write_bytes(content)

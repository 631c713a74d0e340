"""The checkpoint of a chunk: a killed population goes on where it was."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from setwise._arguments import whole
from setwise._errors import InputError
from setwise._tensorfile import made_elsewhere
from setwise.training import checkpoint
from setwise.training.chunk import Chunk, Progress
from setwise.training.stopping import Standings


class Keeper:
    """Writes the progress of one chunk to a file every few seconds, and reads it back."""

    def __init__(self, chunk: Chunk, start: Progress, path: Path):
        members = chunk.population.members
        settings = [[asdict(members[n].options), members[n].seed] for n in chunk.layout.members]
        tasks = [chunk.population.tasks[stream.task] for stream in chunk.layout.streams]
        data = [part for task in tasks for part in task]
        self._mark = checkpoint.fingerprint(start.state.model, data, settings)
        self._path = path
        self._saved = time.monotonic()

    def resume(self, start: Progress) -> Progress:
        """The progress kept in the file, or ``start`` if there is none yet."""
        kept = checkpoint.read(self._path, (start.state, start.best), self._mark)
        if kept is None:
            return start
        (state, best), meta = kept
        with made_elsewhere(self._path, "state"):
            whole(-1)("epoch", meta["epoch"])
            standings = Standings(**self._standings(meta, start), epoch=meta["epoch"])
            history = {int(number): tuple(records) for number, records in meta["history"].items()}
            return Progress(state, best, standings, history, frozenset(meta["diverged"]))

    def _standings(self, meta: dict[str, Any], start: Progress) -> dict[str, np.ndarray]:
        """How each member stands: as many numbers, and of the types, as at the start."""
        found = {}
        for name in ("best", "best_epoch", "active", "improved"):
            at_first = getattr(start.standings, name)
            found[name] = np.array(meta[name])
            if (found[name].shape, found[name].dtype) != (at_first.shape, at_first.dtype):
                raise InputError(f"'{name}' is not of the members that train")
        return found

    def save(self, progress: Progress) -> None:
        """Write the file if the last time is long ago, or nothing more will come."""
        over = not progress.standings.active.any()
        if not over and time.monotonic() - self._saved < checkpoint.SECONDS_BETWEEN_CHECKPOINTS:
            return
        standings = progress.standings
        meta = {
            "best": standings.best.tolist(),
            "best_epoch": standings.best_epoch.tolist(),
            "active": standings.active.tolist(),
            "improved": standings.improved.tolist(),
            "epoch": standings.epoch,
            "history": progress.history,
            "diverged": sorted(progress.diverged),
        }
        checkpoint.write(self._path, (progress.state, progress.best), meta, self._mark)
        self._saved = time.monotonic()

"""Checkpoints: the whole state of a fit, so that a killed one resumes to the identical result."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from setwise import _tensorfile
from setwise._errors import InputError
from setwise._trees import named_arrays, with_arrays
from setwise.choices import Encoded
from setwise.models import Model
from setwise.training.loop import State
from setwise.training.stopping import Stopping

FILE = "fit.checkpoint"
SECONDS_BETWEEN_CHECKPOINTS = 2.0


@dataclass(frozen=True)
class Progress:
    """Everything that changes from epoch to epoch."""

    state: State
    best: Model
    stopping: Stopping = field(default_factory=Stopping)
    history: tuple[dict[str, int | float], ...] = ()


def fingerprint(model: Model | None, data: Iterable[Encoded], settings: object) -> str:
    """What a fit's result depends on, in one line: a checkpoint of another fit is refused."""
    digest = hashlib.sha256(json.dumps(settings).encode())
    for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)):
        digest.update(np.asarray(leaf).tobytes())
    for part in data:
        for array in (part.items, part.context, part.offsets, part.chosen, part.weight):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save(path: Path, progress: Progress, mark: str) -> None:
    """Write the checkpoint of one fit, replacing the one before in a single step."""
    meta = {"stopping": asdict(progress.stopping), "history": list(progress.history)}
    write(path, (progress.state, progress.best), meta, mark)


def resume(path: Path, start: Progress, mark: str) -> Progress:
    """The progress kept in this file, or ``start`` if there is none yet."""
    kept = read(path, (start.state, start.best), mark)
    if kept is None:
        return start
    (state, best), meta = kept
    return Progress(state, best, Stopping(**meta["stopping"]), tuple(meta["history"]))


def write(path: Path, tree: Any, meta: Mapping[str, Any], mark: str) -> None:
    """Write arrays and plain values, with the mark of the fit they belong to."""
    _tensorfile.write(path, "checkpoint", named_arrays(tree), {"fit": mark, **meta})


def read(path: Path, tree: Any, mark: str) -> tuple[Any, dict[str, Any]] | None:
    """The arrays, in a tree like this one, and the plain values; None if there are none yet."""
    folder = path.parent
    if folder.exists() and not folder.is_dir():
        raise InputError(f"checkpoint {folder} is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return None
    arrays, meta = _tensorfile.read(path, "checkpoint")
    if meta["fit"] != mark:
        raise InputError(
            f"{path} belongs to another fit (other data, options, seed or setwise version); "
            "give another checkpoint folder, or delete this one to start anew"
        )
    return with_arrays(tree, arrays), meta

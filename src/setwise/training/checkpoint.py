"""Checkpoints: the whole state of a fit, so that a killed one resumes to the identical result."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from setwise import _tensorfile
from setwise._errors import InputError
from setwise._trees import named_arrays, with_arrays
from setwise.choices import Encoded
from setwise.models import Model
from setwise.training.loop import State
from setwise.training.options import Training
from setwise.training.stopping import Stopping

FILE = "fit.checkpoint"


@dataclass(frozen=True)
class Progress:
    """Everything that changes from epoch to epoch."""

    state: State
    best: Model
    stopping: Stopping = field(default_factory=Stopping)
    history: tuple[dict[str, int | float], ...] = ()


def fingerprint(model: Model, train: Encoded, valid: Encoded, options: Training, seed: int) -> str:
    """What a fit's result depends on, in one line: a checkpoint of another fit is refused."""
    digest = hashlib.sha256(json.dumps([asdict(options), seed]).encode())
    for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)):
        digest.update(np.asarray(leaf).tobytes())
    for data in (train, valid):
        for array in (data.items, data.context, data.offsets, data.chosen, data.weight):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save(folder: Path, progress: Progress, mark: str) -> None:
    """Write the checkpoint, replacing the one before in a single step."""
    arrays = named_arrays((progress.state, progress.best))
    meta = {
        "fit": mark,
        "stopping": asdict(progress.stopping),
        "history": list(progress.history),
    }
    _tensorfile.write(folder / FILE, "checkpoint", arrays, meta)


def resume(folder: Path, start: Progress, mark: str) -> Progress:
    """The progress kept in this folder, or ``start`` if there is none yet."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"checkpoint {folder} is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    if not path.exists():
        return start
    arrays, meta = _tensorfile.read(path, "checkpoint")
    if meta["fit"] != mark:
        raise InputError(
            f"{path} belongs to another fit (other data, options, seed or setwise version); "
            "give another checkpoint folder, or delete this one to start anew"
        )
    state, best = with_arrays((start.state, start.best), arrays)
    return Progress(state, best, Stopping(**meta["stopping"]), tuple(meta["history"]))

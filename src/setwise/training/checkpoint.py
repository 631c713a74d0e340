"""The state of a fit in a file: a killed fit resumes to the identical result."""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from setwise import _tensorfile
from setwise._arguments import check_all, each, instance, whole
from setwise._errors import InputError
from setwise._files import WriteError, make_folder, unfinished
from setwise._tensorfile import made_elsewhere, named_arrays, with_arrays
from setwise.choices import Encoded, Encoding
from setwise.models import Model
from setwise.training.processes import Group
from setwise.training.stopping import Stopping, TrainingProgress

SECONDS_BETWEEN_CHECKPOINTS = 2.0


def fingerprint(model: Model | None, data: Iterable[Encoded | Encoding], settings: object) -> str:
    """What a fit's result depends on, in one line: a checkpoint of another fit is refused."""
    digest = hashlib.sha256(json.dumps(settings).encode())
    for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)):
        digest.update(np.asarray(leaf).tobytes())
    for one in data:
        for part in _encoded(one):
            for array in (part.items, part.context, part.offsets, part.chosen, part.weight):
                digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
            digest.update(b"" if part.worst is None else part.worst.tobytes())
    return digest.hexdigest()


def _encoded(data: Encoded | Encoding) -> Iterator[Encoded]:
    """Encoded data, in parts where they are on disk."""
    if isinstance(data, Encoded):
        yield data
    else:
        yield from (block.encoded() for block in data.blocks())


class CheckpointFile:
    """Keeps the progress of a fit in a file, and reads it back."""

    def __init__(self, path: Path, mark: str):
        self._path, self._mark = path, mark
        self._saved = time.monotonic()

    def resume(self, start: TrainingProgress) -> TrainingProgress:
        """The progress that the file has, or ``start`` if there is none yet."""
        path, tree = self._path, (start.state, start.best)
        make_folder(path.parent)
        unfinished(path.parent)  # removes what a killed fit left
        if not path.exists():
            return start
        arrays, values = _tensorfile.read(path, "checkpoint")
        with made_elsewhere(path, "state"):
            if values["fit"] != self._mark:
                raise InputError(
                    f"{path} belongs to another fit (other data, options, seed or setwise "
                    "version); give another checkpoint folder, or delete this one to start anew"
                )
            return _progress(with_arrays(tree, arrays), values, start)

    def save_if_due(self, progress: TrainingProgress) -> None:
        """Save if some seconds have passed since the last time, or if training is over."""
        waited = time.monotonic() - self._saved
        if waited > SECONDS_BETWEEN_CHECKPOINTS or not progress.stopping.active.any():
            save(self._path, progress, self._mark)
            self._saved = time.monotonic()


def save(path: Path, progress: TrainingProgress, mark: str) -> None:
    """Write the checkpoint of one fit, replacing the one before in a single step.

    If the disk is full, the fit goes on: what it has learned is worth more than a checkpoint.
    """
    arrays = named_arrays((progress.state, progress.best))
    try:
        _tensorfile.write(path, "checkpoint", arrays, {"fit": mark, **_values(progress)})
    except WriteError as error:
        warnings.warn(
            f"{error}. The fit goes on, but if it is killed now it begins again at the last "
            "checkpoint that was written",
            stacklevel=4,
        )


def of_first(
    group: Group, start: TrainingProgress, make: Callable[[], TrainingProgress]
) -> TrainingProgress:
    """The progress that the group's first process makes, on all; ``start`` says what it is like."""

    def packed() -> bytes:
        made = make()
        head = json.dumps(_values(made)).encode() + b"\n"
        arrays = named_arrays((made.state, made.best))
        return head + b"".join(np.ascontiguousarray(one).tobytes() for one in arrays.values())

    head, _, rest = group.from_first(packed).partition(b"\n")
    tree, arrays = (start.state, start.best), {}
    for name, array in named_arrays(tree).items():
        content, rest = rest[: array.nbytes], rest[array.nbytes :]
        arrays[name] = np.frombuffer(content, array.dtype).reshape(array.shape)
    return _progress(with_arrays(tree, arrays), json.loads(head), start)


def _values(progress: TrainingProgress) -> dict[str, Any]:
    """What of a progress is not in the tree of weights, as plain values."""
    return {
        "history": {str(number): list(one) for number, one in progress.history.items()},
        "diverged": sorted(progress.diverged),
        "epoch": progress.stopping.epoch,
        "shards": progress.shards,
        **{name: array.tolist() for name, array in _small_arrays(progress).items()},
    }


def _progress(tree: Any, values: Mapping[str, Any], start: TrainingProgress) -> TrainingProgress:
    """From a tree of weights and plain values; ``start`` says what the arrays are like."""
    check_all(_CHECKS, values)
    found = {}
    for name, like in _small_arrays(start).items():
        found[name] = np.array(values[name])
        if (found[name].shape, found[name].dtype) != (like.shape, like.dtype):
            raise InputError(f"'{name}' does not fit the members that train")
    state, best = tree
    return TrainingProgress(
        state,
        best,
        Stopping(**{name: found[name] for name in STOPPING}, epoch=values["epoch"]),
        found["losses"],
        found["steps"],
        values["shards"],
        {int(number): tuple(records) for number, records in values["history"].items()},
        frozenset(values["diverged"]),
    )


STOPPING = ("best", "best_epoch", "active", "improved")
_CHECKS = {
    "history": instance(dict, "delete the file"),
    "diverged": each(whole(0), 0),
    "epoch": whole(-1),
    "shards": whole(0),
}


def _small_arrays(progress: TrainingProgress) -> dict[str, np.ndarray]:
    stopping = {name: getattr(progress.stopping, name) for name in STOPPING}
    return stopping | {"losses": progress.losses, "steps": progress.steps}

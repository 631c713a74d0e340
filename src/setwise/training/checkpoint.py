"""Checkpoints: the whole state of a fit, so that a killed one resumes to the identical result."""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from setwise import _tensorfile
from setwise._arguments import check_all, each, instance, number, whole
from setwise._errors import InputError
from setwise._files import WriteError, make_folder, unfinished
from setwise._tensorfile import made_elsewhere, named_arrays, with_arrays
from setwise.choices import Encoded, Encoding
from setwise.models import Model
from setwise.training.loop import State
from setwise.training.processes import Group
from setwise.training.stopping import Stopping

FILE = "fit.checkpoint"
SECONDS_BETWEEN_CHECKPOINTS = 2.0
BEGUN = ("shards", "losses", "steps")


@dataclass(frozen=True)
class Progress:
    """Everything that changes from epoch to epoch."""

    state: State
    best: Model
    stopping: Stopping = field(default_factory=Stopping)
    history: tuple[dict[str, int | float], ...] = ()
    shards: int = 0  # of the epoch that has begun: how many are done, ...
    losses: float = 0.0  # ... the sum of the losses of their steps, ...
    steps: int = 0  # ... and how many steps they were


def fingerprint(model: Model | None, data: Iterable[Encoded | Encoding], settings: object) -> str:
    """What a fit's result depends on, in one line: a checkpoint of another fit is refused."""
    digest = hashlib.sha256(json.dumps(settings).encode())
    for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)):
        digest.update(np.asarray(leaf).tobytes())
    for one in data:
        for part in _encoded(one):
            for array in (part.items, part.context, part.offsets, part.chosen, part.weight):
                digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _encoded(data: Encoded | Encoding) -> Iterator[Encoded]:
    """Encoded data, in parts where they are on disk."""
    if isinstance(data, Encoded):
        yield data
    else:
        yield from (block.encoded() for block in data.blocks())


class Keeper:
    """Keeps the progress of one fit in a file."""

    def __init__(self, path: Path, mark: str):
        self._path, self._mark = path, mark
        self._saved = time.monotonic()

    def resume(self, start: Progress) -> Progress:
        """The progress that the file has, or ``start`` if there is none yet."""
        return resume(self._path, start, self._mark)

    def save_if_due(self, progress: Progress, at_once: bool = False) -> None:
        """Save if some seconds have passed, or ``at_once``."""
        if at_once or time.monotonic() - self._saved > SECONDS_BETWEEN_CHECKPOINTS:
            save(self._path, progress, self._mark)
            self._saved = time.monotonic()


def save(path: Path, progress: Progress, mark: str) -> None:
    """Write the checkpoint of one fit, replacing the one before in a single step."""
    write(path, (progress.state, progress.best), _values(progress), mark)


def resume(path: Path, start: Progress, mark: str) -> Progress:
    """The progress kept in this file, or ``start`` if there is none yet."""
    kept = read(path, (start.state, start.best), mark)
    if kept is None:
        return start
    with made_elsewhere(path, "state"):
        check_all(_CHECKS, kept[1])
        check_all(_STOPPING, kept[1]["stopping"])
        return _progress(*kept)


_STOPPING = {"epoch": whole(-1), "best_epoch": whole(-1)}
_CHECKS = {
    "history": each(instance(dict, "delete the file"), 0),
    "stopping": instance(dict, "delete the file"),
    "shards": whole(0),
    "steps": whole(0),
    "losses": number(),
}


def of_first(group: Group, start: Progress, make: Callable[[], Progress]) -> Progress:
    """The progress that the group's first process makes, on all; ``start`` says what it is like."""
    if group.size == 1:
        return make()

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
    return _progress(with_arrays(tree, arrays), json.loads(head))


def _values(progress: Progress) -> dict[str, Any]:
    """What of a progress is no array."""
    begun = {name: getattr(progress, name) for name in BEGUN}
    return {"stopping": asdict(progress.stopping), "history": list(progress.history), **begun}


def _progress(tree: Any, values: Mapping[str, Any]) -> Progress:
    begun = {name: values[name] for name in BEGUN}
    stopping = Stopping(**values["stopping"])
    state, best = tree
    return Progress(state, best, stopping, tuple(values["history"]), **begun)


def write(path: Path, tree: Any, meta: Mapping[str, Any], mark: str) -> None:
    """Write arrays and plain values, with the mark of the fit they belong to.

    If the disk is full, the fit goes on: what it has learned is worth more than a checkpoint.
    """
    try:
        _tensorfile.write(path, "checkpoint", named_arrays(tree), {"fit": mark, **meta})
    except WriteError as error:
        warnings.warn(
            f"{error}. The fit goes on, but if it is killed now it begins again at the last "
            "checkpoint that was written",
            stacklevel=4,
        )


def read(path: Path, tree: Any, mark: str) -> tuple[Any, dict[str, Any]] | None:
    """The arrays, in a tree like this one, and the plain values; None if there are none yet."""
    make_folder(path.parent)
    unfinished(path.parent)  # removes what a killed fit left
    if not path.exists():
        return None
    arrays, meta = _tensorfile.read(path, "checkpoint")
    with made_elsewhere(path, "state"):
        if meta["fit"] != mark:
            raise InputError(
                f"{path} belongs to another fit (other data, options, seed or setwise version); "
                "give another checkpoint folder, or delete this one to start anew"
            )
        return with_arrays(tree, arrays), meta

"""A search kept in a file, round by round: all trials of a round, or none.

A database keeps trials one by one, for workers that share them. Here a killed search goes on from
its last whole round, with the best models so far, to the very end that it would have had: what
becomes of a trial may depend, by rounding, on those that train beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from setwise import _tensorfile
from setwise._errors import InputError
from setwise._trees import named_arrays, with_arrays
from setwise.models import Model
from setwise.training import Fit
from setwise.tuning.study import Study

KIND = "search"


class Kept(NamedTuple):
    """The best trial of one task so far: its number, its value and its fit."""

    trial: int
    value: float
    fit: Fit


def write(path: Path, studies: Sequence[Study], kept: Mapping[int, Kept]) -> None:
    """Write the finished trials of every study, and the best fits by task."""
    arrays = {
        f"{task} {name}": array
        for task, one in kept.items()
        for name, array in named_arrays(jax.tree.map(_on_device, one.fit.model)).items()
    }
    meta = {
        "studies": {study.name: study.told() for study in studies},
        "kept": {
            str(task): {
                "trial": one.trial, "value": one.value, "history": list(one.fit.history),
                "best_epoch": one.fit.best_epoch, "diverged": one.fit.diverged,
            }
            for task, one in kept.items()
        },
    }  # fmt: skip
    _tensorfile.write(path, KIND, arrays, meta)


def resume(
    path: Path, studies: Sequence[Study], skeleton: Callable[[int, int], Model]
) -> dict[int, Kept]:
    """Give the studies the trials that the file has, if there is one; its best fits by task.

    ``skeleton`` says what the model of a task's trial looks like, without weights.
    """
    if not path.exists():
        return {}
    arrays, meta = _tensorfile.read(path, KIND)
    if set(meta["studies"]) != {study.name for study in studies}:
        raise InputError(
            f"{path} belongs to another search (other data, options, seed or setwise version); "
            "delete it to start anew"
        )
    for study in studies:
        study.tell(meta["studies"][study.name])
    return {
        int(task): _kept(int(task), one, arrays, skeleton) for task, one in meta["kept"].items()
    }


def _kept(
    task: int,
    one: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    skeleton: Callable[[int, int], Model],
) -> Kept:
    own = {
        name.partition(" ")[2]: array
        for name, array in arrays.items()
        if name.partition(" ")[0] == str(task)
    }
    model = with_arrays(skeleton(task, one["trial"]), own)
    fit = Fit(model, tuple(one["history"]), one["best_epoch"], diverged=one["diverged"])
    return Kept(one["trial"], one["value"], fit)


def _on_device(leaf: object) -> object:
    # A scalar of a stack of models is a NumPy scalar, not an array.
    return jnp.asarray(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf

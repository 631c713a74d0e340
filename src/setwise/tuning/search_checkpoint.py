"""The checkpoint of a search: a file with all trials of a batch, or none.

A database stores trials one by one, for workers that share them. Here a killed search continues
from its last whole batch, with the best models so far, and ends as if it had not been killed: the
rounding of a trial may depend on those that train with it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from setwise import _tensorfile
from setwise._errors import InputError
from setwise._tensorfile import named_arrays, with_arrays
from setwise.models import Model
from setwise.training import Fit
from setwise.tuning.study import Study

KIND = "search"


class BestTrial(NamedTuple):
    """The best trial of one task so far: its number, its value and the fits of its members."""

    trial: int
    value: float
    fits: tuple[Fit, ...]


def write(path: Path, studies: Sequence[Study], best: Mapping[int, BestTrial]) -> None:
    """Write the finished trials of every study, and the best fits by task."""
    arrays = {
        f"{task} {number} {name}": array
        for task, one in best.items()
        for number, fit in enumerate(one.fits)
        for name, array in named_arrays(jax.tree.map(_on_device, fit.model)).items()
    }
    meta = {
        "studies": {study.name: study.export_trials() for study in studies},
        "kept": {
            str(task): {
                "trial": one.trial, "value": one.value,
                "fits": [
                    {"history": list(fit.history), "best_epoch": fit.best_epoch}
                    for fit in one.fits
                ],
            }
            for task, one in best.items()
        },
    }  # fmt: skip
    _tensorfile.write(path, KIND, arrays, meta)


def resume(
    path: Path, studies: Sequence[Study], skeletons: Callable[[int, int], Sequence[Model]]
) -> dict[int, BestTrial]:
    """Give the studies the trials that the file has, if there is one; return the best by task.

    ``skeletons`` gives the models of a task's trial, without weights.
    """
    if not path.exists():
        return {}
    arrays, meta = _tensorfile.read(path, KIND)
    with _tensorfile.made_elsewhere(path, "trials"):
        if set(meta["studies"]) != {study.name for study in studies}:
            raise InputError(
                f"{path} belongs to another search (other data, options, seed or setwise version); "
                "delete it to start anew"
            )
        for study in studies:
            study.import_trials(meta["studies"][study.name])
        return {
            int(task): _best_trial(int(task), one, arrays, skeletons)
            for task, one in meta["kept"].items()
        }


def _best_trial(
    task: int,
    one: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    skeletons: Callable[[int, int], Sequence[Model]],
) -> BestTrial:
    fits = []
    pairs = zip(skeletons(task, one["trial"]), one["fits"], strict=True)
    for number, (skeleton, fit) in enumerate(pairs):
        begin = f"{task} {number} "
        own = {
            name.removeprefix(begin): array
            for name, array in arrays.items()
            if name.startswith(begin)
        }
        fits.append(Fit(with_arrays(skeleton, own), tuple(fit["history"]), fit["best_epoch"]))
    return BestTrial(one["trial"], one["value"], tuple(fits))


def _on_device(leaf: object) -> object:
    # A scalar of a stack of models is a NumPy scalar, not an array.
    return jnp.asarray(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf

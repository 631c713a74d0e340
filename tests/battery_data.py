"""The sound data and models that the cases of the battery spoil."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import setwise as sw

SETS, SIZE = 60, 3
ROLES = {"set": "trip", "chosen": "taken", "items": ["cost", "time", "brand"]}


@functools.cache
def columns(sets: int = SETS) -> dict[str, np.ndarray]:
    """Choices by a logit of cost and time: three items per set."""
    random = np.random.default_rng(7)
    rows = sets * SIZE
    cost = random.integers(10, 100, rows) / 4
    time = random.integers(10, 100, rows) / 2
    utility = (-0.15 * cost - 0.05 * time + random.gumbel(size=rows)).reshape(sets, SIZE)
    taken = np.zeros((sets, SIZE), int)
    taken[np.arange(sets), utility.argmax(1)] = 1
    return {
        "trip": np.repeat(np.arange(sets) + 1, SIZE),
        "cost": cost,
        "time": time,
        "brand": random.choice(["red", "green", "blue"], rows),
        "age": np.repeat(random.integers(20, 70, sets), SIZE),
        "person": np.repeat(np.arange(sets) // 4, SIZE),
        "day": np.repeat(np.arange(sets) // 2 + 1, SIZE),
        "w": np.ones(rows),
        "taken": taken.reshape(-1),
    }


def table(**changed: Any) -> dict[str, Any]:
    """The sound table with some columns changed or added."""
    return {**columns(), **changed}


def pandas(**changed: Any) -> pd.DataFrame:
    """The same as a pandas frame."""
    return pd.DataFrame(table(**changed))


def polars(**changed: Any) -> pl.DataFrame:
    """The same as a Polars frame."""
    return pl.DataFrame(table(**changed))


def spoiled(name: str, value: Any, row: int = 4, kind: Any = object) -> dict[str, Any]:
    """The sound table with one bad value."""
    values = columns()[name].astype(kind)
    values[row] = value
    return table(**{name: values})


def read(source: Any = None, **options: Any) -> sw.Choices:
    """Choices of the sound table, or of another with the same roles."""
    return sw.read(table() if source is None else source, **(ROLES | options))


def fit(estimator: Any, choices: Any = None, **options: Any) -> Any:
    """Fit to the sound choices."""
    return estimator.fit(read() if choices is None else choices, **options)


def quick(name: str = "SDW", **arguments: Any) -> Any:
    """A small network that trains for two epochs."""
    given = {"training": sw.Training(epochs=2), "dimension": 2, "hidden": 4, "ensemble": 1}
    return getattr(sw, name)(**(given | arguments))


@functools.cache
def logit() -> Any:
    """A fitted MNL."""
    return sw.MNL().fit(read())


@functools.cache
def network() -> Any:
    """A fitted network."""
    return quick().fit(read())


def model_file(name: str = "m.setwise") -> Path:
    """The fitted MNL as a file in the current folder."""
    logit().save(name)
    return Path(name)


def csv(name: str = "t.csv", **changed: Any) -> Path:
    """The sound table as CSV in the current folder."""
    polars(**changed).write_csv(name)
    return Path(name)


def text(content: str | bytes, name: str = "t.csv") -> Path:
    """A file with this content in the current folder."""
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(name)


def good_csv() -> str:
    """The sound table as CSV text."""
    return polars().write_csv()


FLAGS = ("--set", "trip", "--chosen", "taken", "--items", "cost,time,brand")


def same_fit(model: Any) -> bool:
    """Whether an MNL found what the sound table holds."""
    return bool(np.isclose(model.log_likelihood_, logit().log_likelihood_, rtol=1e-6))


def sound_probabilities(data: Any, model: Any = None) -> bool:
    """Whether the probabilities of each set of three add up to one."""
    p = (model or logit()).predict_proba(data).reshape(-1, SIZE)
    return bool(np.isfinite(p).all() and np.allclose(p.sum(1), 1, atol=1e-5))


def shown(value: Any) -> str:
    """A short name for a value; where an object lies in memory is not one."""
    line = repr(value)
    return line if " at 0x" not in line and len(line) < 40 else type(value).__name__

"""Model files that somebody changed on purpose, with a checksum that is right again.

Run as a process of its own, ``sweep`` sees what users see: without checks of types, which tests
have everywhere else and which would refuse what the code must refuse by itself.
"""

import copy
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import scored
import setwise as sw
from setwise import _tensorfile

Arrays = dict[str, np.ndarray]
Change = Callable[[Arrays, dict[str, Any]], Any]

MOST_BYTES = 10**9
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 10**9, 10**30, 2.5, -0.5, 1e300, float("nan"), float("inf"), "", "x",
    "nan", [], {}, [[]], [1, 2], {"a": 1}, ["x", 3], [None],
)  # fmt: skip


def kinds() -> dict[str, Callable[[sw.Choices], Any]]:
    """An estimator of each kind of file."""
    return {
        "mnl": lambda choices: sw.MNL().fit(choices),
        "lcl": lambda choices: sw.LinearContextLogit().fit(choices),
        "nested": lambda choices: sw.NestedLogit("brand").fit(choices),
        "mixed": lambda choices: sw.MixedMNL(2, starts=1).fit(choices),
        "single": lambda choices: sw.SingleFeature("stars").fit(choices),
        "random": lambda choices: sw.RandomChoice().fit(choices),
        "trees": lambda choices: sw.LambdaMART(rounds=6, leaves=4, threads=1).fit(choices, choices),
        "sda": lambda choices: scored.as_fitted("sda", sw.Schema.fit(choices)),
        "ensemble": lambda choices: scored.as_fitted("sdw", sw.Schema.fit(choices), 2),
    }


def made(kind: str, path: Path) -> None:
    """Write a small model file of this kind, with columns of every type."""
    choices = scored.read(scored.rows([3, 4, 5] * 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the fit, which is not what is tried here
        kinds()[kind](choices).save(path, sample=choices)


def changed(path: Path, out: Path, change: Change) -> None:
    """Write a changed copy, with the checksum that belongs to it."""
    arrays, meta = _tensorfile.read(path, "model")
    given = change(arrays, meta)
    arrays, meta = (arrays, meta) if given is None else given
    _tensorfile.write(out, "model", arrays, meta)


def tried(path: Path) -> str | None:
    """None if the file is refused in one sentence or predicts; else what went wrong."""
    table = scored.rows([2, 3, 5], seed=9)
    for load in (sw.scoring.load_scorer, sw.load):
        name = load.__module__
        try:
            model = load(path)
        except sw.InputError as error:
            if str(path) not in str(error) or "\n" in str(error):
                return f"{name} does not say of which file it speaks: {error}"
            continue
        except Exception as error:
            return f"{name} raised {type(error).__name__}: {error}"
        try:
            found = model.predict_proba(table)
        except sw.InputError:
            continue
        except Exception as error:
            return f"predicting with {name} raised {type(error).__name__}: {error}"
        if found.shape != (10,) or not np.isfinite(found).all():
            return f"{name} predicts {found}"
    return None


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in JSON."""
    inner = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inner:
        yield (*at, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*at, key))


def of_json(rng: np.random.Generator, found: list[tuple[Any, ...]]) -> tuple[str, Change]:
    """A random change of the JSON: a key less, one more, or another value."""
    # What is rare, as names of parts, is as likely as what is frequent, as operations.
    depth = rng.choice(sorted({len(one) for one in found}))
    path = found[rng.choice([i for i, one in enumerate(found) if len(one) == depth])]
    how = rng.choice(["drop", "replace", "replace", "add", "repeat"])
    value = VALUES[rng.integers(len(VALUES))]

    def change(arrays: Arrays, meta: dict[str, Any]) -> None:
        node: Any = meta
        for key in path[:-1]:
            node = node[key]
        if how == "drop":
            del node[path[-1]]
        elif how == "replace":
            node[path[-1]] = copy.deepcopy(value)
        elif isinstance(node, dict):
            node[f"{path[-1]}_"] = copy.deepcopy(value if how == "add" else node[path[-1]])
        else:
            node.insert(path[-1], copy.deepcopy(value if how == "add" else node[path[-1]]))

    return f"{how} {'/'.join(map(str, path))} {value!r}", change


def of_array(rng: np.random.Generator, names: list[str]) -> tuple[str, Change]:
    """A random change of an array: its name, type, shape or numbers."""
    name = names[rng.integers(len(names))]
    how = rng.choice([
        "drop", "rename", "double", "shorter", "longer", "flat", "deeper", "empty", "type", "bits",
        "nan", "inf", "huge", "negative", "zero", "one",
    ])  # fmt: skip

    def change(arrays: Arrays, meta: dict[str, Any]) -> None:
        array = arrays.pop(name)
        arrays[f"{name}_" if how == "rename" else name] = made[how](array)
        if how == "drop":
            del arrays[name]

    def put(value: float) -> Callable[[np.ndarray], np.ndarray]:
        def one(array: np.ndarray) -> np.ndarray:
            array = array.copy()
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                flat = array.reshape(-1)
                some = rng.integers(len(flat), size=2) if len(flat) else []
                flat[some] = np.array(value).astype(array.dtype)
            return array

        return one

    def bits(array: np.ndarray) -> np.ndarray:
        data = bytearray(array.tobytes())
        for _ in range(3 if data else 0):
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        if array.dtype == bool:
            data = bytearray(one & 1 for one in data)
        return np.frombuffer(bytes(data), array.dtype).reshape(array.shape)

    types = ["float64", "float32", "int64", "uint8", "bool", "int32"]
    made: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "drop": lambda x: x, "rename": lambda x: x, "double": lambda x: x * 2,
        "shorter": lambda x: x[:-1] if x.ndim else x.reshape(1),
        "longer": lambda x: np.concatenate([x, x]) if x.ndim else np.stack([x, x]),
        "flat": lambda x: x.reshape(-1), "deeper": lambda x: x[None],
        "empty": lambda x: x.reshape(-1)[:0],
        "type": lambda x: x.astype(types[rng.integers(len(types))]), "bits": bits,
        "nan": put(np.nan), "inf": put(np.inf), "huge": put(1e38), "negative": put(-1),
        "zero": put(0), "one": put(2**30),
    }  # fmt: skip
    return f"{how} {name}", change


def sweep(path: Path, seed: int, count: int) -> None:
    """Change the file in so many ways, one at a time; the process ends with what went wrong."""
    arrays, meta = _tensorfile.read(path, "model")
    assert tried(path) is None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found, names = list(places(meta)), sorted(arrays)
    rng, out, wrong = np.random.default_rng(seed), path.with_name("changed.setwise"), []
    for number in range(count):
        of = of_json(rng, found) if number % 2 else of_array(rng, names)
        what, change = of
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed(path, out, change)
            problem = tried(out)
        if problem is not None:
            wrong.append(f"{what}: {problem}")
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > MOST_BYTES:
        wrong.append(f"{grown:,} bytes")
    sys.exit("\n".join(wrong) or None)

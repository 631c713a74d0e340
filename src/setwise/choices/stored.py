"""Choices in files: written column by column, opened in milliseconds at any size.

The file holds what :class:`Choices` holds, array by array, in the format of
:mod:`setwise._arrayfile`.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from setwise import _arrayfile
from setwise._arguments import checked, instance
from setwise._arguments import path as check_path
from setwise._arrayfile import ArrayFile, Writer
from setwise.choices.choices import Choices, Dropped
from setwise.choices.columns import Column
from setwise.choices.features import Roles
from setwise.choices.mapped import Levels, StoredColumns

KIND = "choices"
SUFFIX = ".setwise-data"
PER_SET = ("chosen", "weight", "group", "time")


@checked(choices=instance(Choices, "make them with setwise.read(...)"), path=check_path)
def save_choices(
    choices: Choices, path: str | Path, columns: Iterable[tuple[str, Column]] | None = None
) -> None:
    """Write choices to a file that appears whole or not at all.

    Args:
        choices: what to write; choices that are on disk are copied in parts.
        path: where to; the name ends in ``.setwise-data`` by custom.
        columns: item columns, made one after the other so that only one is in memory; by default
            those of the choices.

    >>> import tempfile, setwise as sw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_choices(sw.datasets.load("modecanada"), f"{folder}/trips.setwise-data")
    ...     len(open_choices(f"{folder}/trips.setwise-data"))
    4324
    """
    with _arrayfile.writing(path) as out:
        meta: dict[str, Any] = {
            "roles": choices.roles.to_json(), "outside": choices.outside, "rare": choices.rare,
            "dropped": asdict(choices.dropped),
        }  # fmt: skip
        out.add("offsets", [np.asarray(choices.offsets, np.int64)])
        for name in ("set_ids", *PER_SET):
            values = getattr(choices, name)
            if values is not None:
                out.add(name, [values])
        meta["context"] = [
            _write(out, f"context/{place}", name, iter([column]))
            for place, (name, column) in enumerate(choices.context.items())
        ]
        made = _read_in_blocks(choices) if columns is None else ((n, iter([c])) for n, c in columns)
        meta["items"] = [
            _write(out, f"items/{place}", name, parts) for place, (name, parts) in enumerate(made)
        ]
        if columns is None and not _in_order(choices):
            out.add("rows", (block.rows for block in choices.blocks()))
        out.finish(KIND, meta)


@checked(path=check_path)
def open_choices(path: str | Path) -> Choices:
    """Open a file of choices; columns are read when they are needed.

    What :meth:`Choices.take`, :func:`setwise.split` and the rest give are views of the file too.
    """
    file = _arrayfile.read(path, KIND)
    arrays, meta = file.arrays, file.meta
    offsets = arrays["offsets"]
    columns = StoredColumns(file, _columns(file, "items"), firsts=offsets[:-1], offsets=offsets)
    per_set: dict[str, Any] = {name: arrays.get(name) for name in PER_SET}
    return Choices(
        Roles.from_json(meta["roles"]), columns, _columns(file, "context"), offsets, None,
        arrays["set_ids"], **per_set, outside=meta["outside"], rare=meta["rare"],
        dropped=Dropped(**meta["dropped"]),
    )  # fmt: skip


@checked(path=check_path)
def verify(path: str | Path) -> None:
    """Read the whole file and compare its checksums; an altered file is an error."""
    _arrayfile.verify(path, KIND)


def _columns(file: ArrayFile, role: str) -> dict[str, Column]:
    found = {}
    for place, one in enumerate(file.meta[role]):
        levels = None
        if one["levels"] is not None:
            levels = Levels(file.arrays[f"{role}/{place}/levels"], one["levels"])
        found[one["name"]] = Column(file.arrays[f"{role}/{place}"], levels)
    return found


def _read_in_blocks(choices: Choices) -> Iterator[tuple[str, Iterator[Column]]]:
    for name in choices.columns:
        yield name, (block.columns[name] for block in choices.blocks())


def _write(out: Writer, key: str, name: str, parts: Iterator[Column]) -> dict[str, Any]:
    """Write a column, given in parts with the same levels; returns its line in the header."""
    first = next(parts)
    out.add(key, (part.values for part in itertools.chain([first], parts)))
    if first.levels is None:
        return {"name": name, "levels": None}
    text = json.dumps(list(first.levels)).encode()
    out.add(f"{key}/levels", [np.frombuffer(text, np.uint8)])
    return {"name": name, "levels": len(first.levels)}


def _in_order(choices: Choices) -> bool:
    """Whether the rows have the order of the table, so that their numbers need no place."""
    first = 0
    for block in choices.blocks():
        rows = block.rows
        if not np.array_equal(rows, np.arange(first, first + len(rows))):
            return False
        first += len(rows)
    return True

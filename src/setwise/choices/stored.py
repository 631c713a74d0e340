"""Choices in files: written column by column, opened without reading the item columns.

The file holds what :class:`Choices` holds, array by array, in the format of
:mod:`setwise._arrayfile`.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from setwise import _arrayfile
from setwise._arguments import check_all, checked, each, flag, instance, number, optional, whole
from setwise._arguments import path as check_path
from setwise._arrayfile import ArrayFile, CheckedArray, Writer
from setwise._errors import InputError
from setwise._files import check_writable
from setwise._tensorfile import made_elsewhere
from setwise.choices.choices import Choices, Column, Dropped, Levels, StoredColumn, StoredColumns
from setwise.choices.features import Roles

KIND = "choices"
SUFFIX = ".setwise-data"
PER_SET = ("chosen", "weight", "group", "time", "ranking", "worst")
_listed = each(instance(dict, "describe a column"), least=0)


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
    check_writable(path, kind=SUFFIX)
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
            out.add("rows", (block.cells for block in choices.blocks()))
        out.finish(KIND, meta)


@checked(path=check_path)
def open_choices(path: str | Path) -> Choices:
    """Open a file of choices; columns are read when they are needed.

    Arrays with one value per set (offsets, ids, choices, context) are read and checked at once.
    Item columns are checked block by block, when they are read. An altered file is an error.
    What :meth:`Choices.take`, :func:`setwise.split` and the rest give are views of the file too.
    """
    file = _arrayfile.read(path, KIND)
    with made_elsewhere(path, "header"):
        choices = _described(file)
        choices = replace(choices, **_per_set(file, choices))
    with made_elsewhere(path, "arrays"):
        _check(choices)
    file.release()
    return choices


@checked(path=check_path)
def verify(path: str | Path) -> None:
    """Read the whole file and compare its checksums; an altered file is an error."""
    _arrayfile.verify(path, KIND)


def _described(file: ArrayFile) -> Choices:
    """The choices, without the arrays that have one value per set."""
    meta = file.meta
    check_all(
        {"outside": flag, "rare": number(least=0, below=1), "items": _listed, "context": _listed},
        meta,
    )
    dropped = Dropped(**meta["dropped"])
    check_all(dict.fromkeys(vars(dropped), whole(0)), vars(dropped))
    roles, items = Roles.from_json(meta["roles"]), dict(_columns(file, "items"))
    offsets = _of_type(file, "offsets", "i").whole()
    if not len(offsets):
        raise InputError("'offsets' is empty")
    for one in [*(column.values for column in items.values()), *_there(file, "rows", "i")]:
        if len(one) != offsets[-1]:
            raise InputError(f"'{one.name}' has {len(one)} values of {offsets[-1]} rows")
    named = {roles.alternative} - {None}
    if {feature.column for feature in roles.items} | named != items.keys():
        raise InputError(f"the item columns {', '.join(items)} are not those of the roles")
    columns = StoredColumns(file, items, firsts=offsets[:-1], offsets=offsets)
    return Choices(
        roles, columns, {}, offsets, None, _of_type(file, "set_ids", "").whole(),
        outside=meta["outside"], rare=meta["rare"], dropped=dropped,
    )  # fmt: skip


def _per_set(file: ArrayFile, choices: Choices) -> dict[str, Any]:
    """The arrays with one value per set, read whole."""
    context = {
        name: one.column(one.values.whole(), file) for name, one in _columns(file, "context")
    }
    kinds = {"chosen": "i", "weight": "f", "group": "", "time": "", "ranking": "i", "worst": "b"}
    found: dict[str, Any] = {
        name: one.whole() for name in PER_SET for one in _there(file, name, kinds[name])
    }
    lengths = {name: len(values) for name, values in found.items()}
    lengths |= {name: len(column.values) for name, column in context.items()}
    for name, length in (lengths | {"set_ids": len(choices.set_ids)}).items():
        if length != len(choices):
            raise InputError(f"'{name}' has {length} values of {len(choices)} sets")
    if {feature.column for feature in choices.roles.context} != context.keys():
        raise InputError(f"the context columns {', '.join(context)} are not those of the roles")
    return found | {"context": context}


def _check(choices: Choices) -> None:
    """Rows lie in sets, one set after the other, and what was chosen is in its set."""
    sizes = choices.sizes
    if choices.offsets[0] != 0 or (sizes < 1).any():
        raise InputError("'offsets' does not begin with 0 and rise from set to set")
    chosen, weight = choices.chosen, choices.weight
    if chosen is not None:
        wrong = (chosen < 0) | (chosen >= sizes + choices.outside)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"'chosen' has {chosen[at]} for set number {at}, which has {sizes[at]} items"
            )
    if weight is not None and not ((weight > 0) & np.isfinite(weight)).all():
        raise InputError("'weight' has values that are not positive numbers")


def _there(file: ArrayFile, name: str, kinds: str) -> list[CheckedArray]:
    """The array, if the file has it."""
    return [_of_type(file, name, kinds)] if name in file.arrays else []


def _of_type(file: ArrayFile, name: str, kinds: str) -> CheckedArray:
    """The array, if its type is of one of these kinds."""
    array = file.arrays[name]
    if kinds and array.dtype.kind not in kinds:
        raise InputError(f"'{name}' is of type {array.dtype}")
    return array


def _columns(file: ArrayFile, role: str) -> Iterator[tuple[str, StoredColumn]]:
    for place, one in enumerate(file.meta[role]):
        check_all({"name": instance(str, "name a column"), "levels": optional(whole(0))}, one)
        key, levels = f"{role}/{place}", None
        values = _of_type(file, key, "fiuM" if one["levels"] is None else "i")
        if one["levels"] is not None:
            text = _of_type(file, f"{key}/levels", "u").whole()
            levels = Levels(text, one["levels"], f"{file.path}, array '{key}/levels'")
        yield one["name"], StoredColumn(values, levels)


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
        rows = block.cells
        if not np.array_equal(rows, np.arange(first, first + len(rows))):
            return False
        first += len(rows)
    return True

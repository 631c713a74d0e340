"""Many large arrays and JSON in one file, written array by array and opened without reading them.

The file is a safetensors file, as model files are: any reader of safetensors opens it. Model files
are read whole and checked whole; these may be larger than memory, so opening checks the header
(which has its own checksum and holds one of every array) and the length, and maps the rest;
:func:`verify` reads everything.
"""

import hashlib
import json
import mmap
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from setwise._errors import InputError
from setwise._files import whole_file

FORMAT_VERSION = 1
# Room for the header, which is only known at the end: thousands of arrays. It also sets the place
# of the first array.
HEADER_BYTES = 1 << 20
ALIGNED = 64
BYTES_AT_A_TIME = 1 << 24

NAMES = {
    "<f8": "F64", "<f4": "F32", "<i8": "I64", "<i4": "I32", "<i2": "I16", "|i1": "I8",
    "|u1": "U8", "<u2": "U16", "<u4": "U32", "<u8": "U64", "|b1": "BOOL",
}  # fmt: skip
# Text of fixed width and moments are no safetensors types: they are kept as bytes.
OTHER_TYPES = re.compile(r"^(<U[1-9]\d*|\|S[1-9]\d*|<M8\[[A-Za-z]+\])$")


class Writer:
    """Appends arrays to a file that is being made."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._place = 0
        self._entries: dict[str, dict[str, Any]] = {}
        self._checksums: dict[str, str] = {}
        self._types: dict[str, str] = {}
        file.seek(HEADER_BYTES)

    def add(self, name: str, parts: Iterable[np.ndarray]) -> None:
        """Write an array, given as its consecutive parts of one type."""
        self._align()
        begin, length, digest, dtype = self._place, 0, hashlib.sha256(), None
        for part in parts:
            part = np.ascontiguousarray(part, part.dtype.newbyteorder("<"))
            dtype = part.dtype if dtype is None else dtype
            assert part.dtype == dtype, f"parts of {name} are {part.dtype} and {dtype}"
            data = memoryview(part.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
            digest.update(data)
            self._place += self._file.write(data)
            length += len(part)
        text = np.dtype(np.float32 if dtype is None else dtype).str
        plain = NAMES.get(text)
        if plain is None and not OTHER_TYPES.match(text):
            raise InputError(
                f"'{name}' has the type {text}, which data files do not hold; convert it to "
                "numbers, text or dates"
            )
        shape = [length] if plain else [self._place - begin]
        self._entries[name] = {
            "dtype": plain or "U8", "shape": shape, "data_offsets": [begin, self._place],
        }  # fmt: skip
        self._checksums[name], self._types[name] = digest.hexdigest(), text

    def finish(self, kind: str, meta: Mapping[str, Any]) -> None:
        """Write the header."""
        described = {"meta": meta, "types": self._types, "sha256": self._checksums}
        text = json.dumps(described, sort_keys=True)
        about = {
            "setwise": kind, "version": str(FORMAT_VERSION), "meta": text,
            "sha256": _checksum(kind, text, self._entries),
        }  # fmt: skip
        header = json.dumps({"__metadata__": about, **self._entries}).encode()
        room = HEADER_BYTES - 8
        if len(header) > room:
            raise InputError(
                f"{len(self._entries)} arrays do not fit in one file; leave columns out of items"
            )
        self._file.seek(0)
        self._file.write(room.to_bytes(8, "little") + header.ljust(room))

    def _align(self) -> None:
        """Arrays begin at round places; the gap is an array too, since the format has no gaps."""
        gap = -self._place % ALIGNED
        if gap:
            self._entries[f"padding/{len(self._entries)}"] = {
                "dtype": "U8", "shape": [gap], "data_offsets": [self._place, self._place + gap],
            }  # fmt: skip
            self._place += self._file.write(bytes(gap))


@contextmanager
def writing(path: str | Path) -> Iterator[Writer]:
    """A writer of a file that appears whole or not at all; call ``finish`` at the end."""
    with whole_file(path) as beside, open(beside, "wb") as file:
        yield Writer(file)


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """An open file: its JSON and its arrays, mapped and read-only."""

    meta: dict[str, Any]
    arrays: Mapping[str, np.ndarray]
    _map: mmap.mmap

    def release(self) -> None:
        """Let go of the pages read so far: they stay in the system's cache, not in this process."""
        if hasattr(self._map, "madvise"):  # not on Windows
            self._map.madvise(mmap.MADV_DONTNEED)


def read(path: str | Path, kind: str) -> ArrayFile:
    """Open a file of this kind: its header is checked, its arrays are not read."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no {kind} file {path}; check the path")
    with open(path, "rb") as file:
        header, about, begin = _header(path, file, kind)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    entries = {name: one for name, one in header.items() if name != "__metadata__"}
    if about.get("sha256") != _checksum(kind, about["meta"], entries):
        raise InputError(f"{path} was altered after it was written (its header); restore a copy")
    end = begin + max((one["data_offsets"][1] for one in entries.values()), default=0)
    if len(mapped) != end:
        raise InputError(
            f"{path} has {len(mapped):,} bytes, and its header says {end:,}: it is truncated or "
            "was appended to; build it again or restore a copy"
        )
    described = json.loads(about["meta"])
    arrays = {
        name: _mapped(mapped, text, begin, entries[name]["data_offsets"])
        for name, text in described["types"].items()
    }
    return ArrayFile(described["meta"], arrays, mapped)


def verify(path: str | Path, kind: str) -> None:
    """Read every array and compare its checksum, or say which one was altered."""
    file = read(path, kind)
    with open(path, "rb") as opened:
        _, about, _ = _header(Path(path), opened, kind)
    for name, expected in json.loads(about["meta"])["sha256"].items():
        digest, data = hashlib.sha256(), memoryview(file.arrays[name].view(np.uint8))  # type: ignore[arg-type]
        for begin in range(0, len(data), BYTES_AT_A_TIME):
            digest.update(data[begin : begin + BYTES_AT_A_TIME])
            file.release()
        if digest.hexdigest() != expected:
            raise InputError(
                f"{path} was altered after it was written (the checksum of its array '{name}' "
                "differs); build it again or restore a copy"
            )


def _header(path: Path, file: BinaryIO, kind: str) -> tuple[dict[str, Any], dict[str, str], int]:
    """The header, what it says about itself, and where the arrays begin."""
    foreign = InputError(
        f"{path} is not a setwise {kind} file, or it is truncated; name one, or build it again"
    )
    length = int.from_bytes(file.read(8), "little")
    if length != HEADER_BYTES - 8:
        raise foreign
    try:
        header = json.loads(file.read(length))
    except ValueError:
        raise foreign from None
    about = header.get("__metadata__", {}) if isinstance(header, dict) else {}
    if about.get("setwise") != kind:
        raise foreign
    if about.get("version") != str(FORMAT_VERSION):
        raise InputError(
            f"{path} has format version {about.get('version')}, and this setwise reads "
            f"{FORMAT_VERSION}; upgrade setwise or build the file again"
        )
    return header, about, 8 + length


def _mapped(mapped: mmap.mmap, text: str, begin: int, place: list[int]) -> np.ndarray:
    dtype = np.dtype(text)  # of the checked header: one of NAMES or OTHER_TYPES
    count = (place[1] - place[0]) // dtype.itemsize
    return np.frombuffer(mapped, dtype, count, begin + place[0])


def _checksum(kind: str, text: str, entries: Mapping[str, Any]) -> str:
    places = json.dumps(entries, sort_keys=True)
    return hashlib.sha256(f"{kind}\n{text}\n{places}".encode()).hexdigest()

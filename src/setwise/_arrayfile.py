"""Many large arrays and JSON in one file, written array by array and opened without reading them.

The file is a safetensors file, as model files are: any reader of safetensors opens it. Model files
are read whole and checked whole. These may be larger than memory, so opening checks the header
(which has a checksum of its own) and the length, and maps the rest. Every array is checked block
by block, each block when something of it is read for the first time: an altered byte is an error
before it is used, and checking costs as much as reading. :func:`verify` reads everything.
"""

import hashlib
import json
import mmap
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from setwise import _tensorfile
from setwise._errors import InputError
from setwise._files import whole_file
from setwise._shapes import Bool, Int, Shaped
from setwise._tensorfile import NAMES, Place

FORMAT_VERSION = 2
# Room for the header, which is only known at the end: thousands of arrays. It also sets the place
# of the first array.
HEADER_BYTES = 1 << 20
ALIGNED = 64
BYTES_AT_A_TIME = 1 << 24
BLOCK_BYTES = 1 << 14
"""Each block of an array has a checksum. Smaller blocks make small samples of a large file cheaper;
larger blocks make for fewer checksums, which are all read on opening (0.02% of the file)."""
CHECKSUMS = "checksums"
"""The array of the CRC-32 of every block of every other array, in the order of the header."""

# Safetensors has no types for text and dates: they are kept as bytes.
OTHER_TYPES = re.compile(r"^(<U[1-9]\d{0,6}|\|S[1-9]\d{0,6}|<M8\[(Y|M|W|D|h|m|s|ms|us|ns)\])$")


class Writer:
    """Appends arrays to a file that is being made."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._place = 0
        self._entries: dict[str, dict[str, Any]] = {}
        self._checksums: dict[str, str] = {}
        self._types: dict[str, str] = {}
        self._blocks = _Blocks()
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
            self._blocks.update(data)
            self._place += self._file.write(data)
            length += len(part)
        self._blocks.end_of_array()
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
        """Write the checksums of all blocks and the header."""
        self.add(CHECKSUMS, [np.array(self._blocks.found, np.uint32)])
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


class _Blocks:
    """The CRC-32 of the blocks of arrays, whose bytes come in parts of any length."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self._sum, self._length = 0, 0

    def update(self, data: memoryview) -> None:
        """More bytes of the array."""
        while len(data):
            part = data[: BLOCK_BYTES - self._length]
            self._sum, self._length = zlib.crc32(part, self._sum), self._length + len(part)
            data = data[len(part) :]
            if self._length == BLOCK_BYTES:
                self.end_of_array()

    def end_of_array(self) -> None:
        """The block ends here, whether it is full or not."""
        if self._length:
            self.found.append(self._sum)
        self._sum, self._length = 0, 0


@contextmanager
def writing(path: str | Path) -> Iterator[Writer]:
    """A writer of a file that appears whole or not at all; call ``finish`` at the end."""
    with whole_file(path) as part, open(part, "wb") as file:
        yield Writer(file)


@dataclass(frozen=True, eq=False)
class CheckedArray:
    """An array of a file. What is read of it is compared with its checksums first."""

    name: str
    _values: Shaped[np.ndarray, " n"]
    _expected: Shaped[np.ndarray, " blocks"]
    _checked: Bool[np.ndarray, " blocks"]
    _file: "ArrayFile"

    def __len__(self) -> int:
        return len(self._values)

    @property
    def dtype(self) -> np.dtype:
        """The type of the values."""
        return self._values.dtype

    def whole(self) -> Shaped[np.ndarray, " n"]:
        """All values: mapped, not copied."""
        self._check(range(len(self._expected)))
        return self._values

    def between(self, first: int, end: int) -> Shaped[np.ndarray, " m"]:
        """A copy of the values from one place to another."""
        size = self._values.itemsize
        self._check(range(first * size // BLOCK_BYTES, -(-end * size // BLOCK_BYTES)))
        return self._values[first:end].copy()

    def at(self, places: Int[np.ndarray, " m"]) -> Shaped[np.ndarray, " m"]:
        """The values at these places."""
        if not self._checked.all():
            size = self._values.itemsize
            touched = np.zeros(len(self._expected), bool)
            touched[places * size // BLOCK_BYTES] = True
            touched[(places * size + size - 1) // BLOCK_BYTES] = True  # a value may lie in two
            self._check(np.flatnonzero(touched).tolist())
        return self._values[places]

    def _check(self, blocks: Iterable[int]) -> None:
        """Compare the checksums of these blocks, but of those that were compared before."""
        data = memoryview(self._values.view(np.uint8))  # type: ignore[arg-type]
        read = 0
        for number in blocks:
            if self._checked[number]:
                continue
            block = data[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]
            if zlib.crc32(block) != self._expected[number]:
                raise self._file.altered(self.name)
            self._checked[number] = True
            read += len(block)
            if read > BYTES_AT_A_TIME:
                self._file.release()
                read = 0


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """An open file: its JSON and its arrays, mapped and read-only."""

    path: Path
    meta: dict[str, Any]
    arrays: dict[str, CheckedArray]
    _map: mmap.mmap
    _sha256: dict[str, str]

    def release(self) -> None:
        """Let go of the pages read so far: they stay in the system's cache, not in this process."""
        if hasattr(self._map, "madvise"):  # not on Windows
            self._map.madvise(mmap.MADV_DONTNEED)

    def altered(self, name: str) -> InputError:
        """The error for an array that is not as it was written."""
        return InputError(
            f"{self.path} was altered after it was written (the checksum of its array '{name}' "
            "differs); build it again or restore a copy"
        )


def read(path: str | Path, kind: str) -> ArrayFile:
    """Open a file of this kind: its header is checked, its arrays are not read."""
    path = Path(path)
    with _tensorfile.opened(path, kind) as file:
        header = _header(path, file, kind)
        about = _tensorfile.about_file(path, kind, header, FORMAT_VERSION)
        entries = {name: one for name, one in header.items() if name != "__metadata__"}
        if about["sha256"] != _checksum(kind, about["meta"], entries):
            raise InputError(
                f"{path} was altered after it was written (its header); restore a copy"
            )
        with _tensorfile.made_elsewhere(path, "header"):
            places = _tensorfile.places(entries)
            described = json.loads(about["meta"])
            types, sha256, meta = (described[name] for name in ("types", "sha256", "meta"))
            if types.keys() != sha256.keys() or not types.keys() <= places.keys():
                raise ValueError("its arrays are not those that it describes")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    end = HEADER_BYTES + max((one.end for one in places.values()), default=0)
    if len(mapped) != end:
        raise InputError(
            f"{path} has {len(mapped):,} bytes, and its header says {end:,}: it is truncated or "
            "was appended to; build it again or restore a copy"
        )
    opened = ArrayFile(path, meta, {}, mapped, sha256)
    with _tensorfile.made_elsewhere(path, "header"):
        arrays = {name: _mapped(mapped, types[name], places[name]) for name in types}
        opened.arrays.update(_with_checksums(opened, arrays, places))
    return opened


def verify(path: str | Path, kind: str) -> None:
    """Read every array and compare its checksum, or say which one was altered."""
    file = read(path, kind)
    for name, one in file.arrays.items():
        digest, data = hashlib.sha256(), memoryview(one.whole().view(np.uint8))  # type: ignore[arg-type]
        for begin in range(0, len(data), BYTES_AT_A_TIME):
            digest.update(data[begin : begin + BYTES_AT_A_TIME])
            file.release()
        if digest.hexdigest() != file._sha256[name]:
            raise file.altered(name)


def _header(path: Path, file: BinaryIO, kind: str) -> dict[str, Any]:
    length = int.from_bytes(file.read(8), "little")
    if length != HEADER_BYTES - 8:
        raise InputError(
            f"{path} is not a setwise {kind} file, or it is truncated; name one, or build it again"
        )
    text = file.read(length).rstrip(b" ")  # JSON's own way to skip a mebibyte of blanks is slow
    return _tensorfile.parsed_header(path, kind, text)


def _mapped(mapped: mmap.mmap, text: str, place: Place) -> np.ndarray:
    if text not in NAMES and not OTHER_TYPES.match(text):
        raise ValueError(f"there is no type {text}")
    dtype = np.dtype(text)
    count, rest = divmod(place.end - place.begin, dtype.itemsize)
    if rest:
        raise ValueError(f"{place.end - place.begin} bytes are not a whole number of {text}")
    return np.frombuffer(mapped, dtype, count, HEADER_BYTES + place.begin)


def _with_checksums(
    file: ArrayFile, arrays: Mapping[str, np.ndarray], places: Mapping[str, Place]
) -> Iterator[tuple[str, CheckedArray]]:
    """The arrays by their names, each with the checksums of its blocks."""
    sums = arrays[CHECKSUMS]
    if sums.dtype != np.uint32:
        raise ValueError("checksums are not of the type U32")
    if hashlib.sha256(sums.tobytes()).hexdigest() != file._sha256[CHECKSUMS]:
        raise file.altered(CHECKSUMS)
    end = 0
    # As they lie in the file, which is the order in which they were written.
    for name in sorted(arrays.keys() - {CHECKSUMS}, key=lambda name: places[name].begin):
        values = arrays[name]
        begin, end = end, end - (-values.nbytes // BLOCK_BYTES)
        yield name, CheckedArray(name, values, sums[begin:end], np.zeros(end - begin, bool), file)
    if end != len(sums):
        raise ValueError(f"there are {len(sums)} checksums of {end} blocks")


def _checksum(kind: str, text: str, entries: Mapping[str, Any]) -> str:
    places = json.dumps(entries, sort_keys=True)
    return hashlib.sha256(f"{kind}\n{text}\n{places}".encode()).hexdigest()

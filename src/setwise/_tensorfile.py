"""Arrays and JSON in one safetensors file, with a format version and a checksum.

Model files and checkpoints share this. Reading needs NumPy alone and runs no code; a truncated,
altered or foreign file gives one clear sentence. The checksum finds accidents. It does not find a
file that was made with intent, so nothing here trusts what the header says before it is checked.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from setwise._errors import InputError
from setwise._files import whole_file

Arrays = Mapping[str, np.ndarray]
FORMAT_VERSION = 1
LONGEST_HEADER = 100_000_000  # the limit of other readers of safetensors

# In the order in which the arrays of a file lie: wide types first, so that each is aligned.
NAMES = {
    "<u8": "U64", "<i8": "I64", "<f8": "F64", "<f4": "F32", "<u4": "U32", "<i4": "I32",
    "<u2": "U16", "<i2": "I16", "|i1": "I8", "|u1": "U8", "|b1": "BOOL",
}  # fmt: skip
TYPES = {name: np.dtype(text) for text, name in NAMES.items()}


class Place(NamedTuple):
    """An array of a file: its type, its shape, and where its bytes lie after the header."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def write(path: str | Path, kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Write the file whole or not at all; the same content gives the same bytes."""
    text = json.dumps(meta, sort_keys=True)
    plain = {name: _little(array) for name, array in arrays.items()}
    widths = list(NAMES)
    order = sorted(plain, key=lambda name: (widths.index(plain[name].dtype.str), name))
    header: dict[str, Any] = {
        "__metadata__": {
            "setwise": kind,
            "version": str(FORMAT_VERSION),
            "meta": text,
            "sha256": _checksum(kind, plain, text),
        }
    }
    end = 0
    for name in order:
        begin, end = end, end + plain[name].nbytes
        header[name] = {
            "dtype": NAMES[plain[name].dtype.str], "shape": plain[name].shape,
            "data_offsets": [begin, end],
        }  # fmt: skip
    first = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    first += b" " * (-len(first) % 8)
    with whole_file(path, 8 + len(first) + end) as part, open(part, "wb") as file:
        file.write(len(first).to_bytes(8, "little") + first)
        for name in order:
            file.write(plain[name].tobytes())


def read(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the JSON of a file of this kind."""
    path = Path(path)
    with opened(path, kind) as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(size - 8, LONGEST_HEADER):
            raise _foreign(path, kind, "it has no header")
        header = parsed_header(path, kind, file.read(length))
        about = about_file(path, kind, header, FORMAT_VERSION)
        try:
            found = places(header)
        except ValueError as error:
            raise _foreign(path, kind, str(error)) from None
        end = max((one.end for one in found.values()), default=0)
        if end != size - 8 - length:
            raise _foreign(path, kind, f"{size:,} bytes instead of {8 + length + end:,}")
        arrays = {}
        for name, one in sorted(found.items(), key=lambda item: item[1].begin):
            arrays[name] = np.empty(one.shape, one.dtype)
            file.readinto(memoryview(arrays[name].reshape(-1).view(np.uint8)))  # type: ignore
    text = about["meta"]
    if about["sha256"] != _checksum(kind, arrays, text):
        raise InputError(
            f"{path} was altered after it was written (its checksum differs); restore a copy"
        )
    with made_elsewhere(path, "JSON"):
        meta = json.loads(text)
        if not isinstance(meta, dict):
            raise TypeError("is not an object")
    return arrays, meta


@contextmanager
def opened(path: Path, kind: str) -> Iterator[BinaryIO]:
    """The file, open for reading, or a sentence that says why it cannot be."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a {kind} file; name a {kind} file")
    if not path.exists():
        raise InputError(f"there is no {kind} file {path}; check the path")
    if not path.is_file():  # reading a pipe would wait for ever
        raise InputError(f"{path} is a device or a pipe, not a {kind} file; name a {kind} file")
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; check its permissions"
        ) from None


@contextmanager
def made_elsewhere(path: str | Path, part: str) -> Iterator[None]:
    """What a part of a file does to the code that takes it, as one sentence that names both.

    The checksum of the part is right, so another program or a person wrote it like that.
    """
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path} cannot be used (its {part}): {error}") from None
    except _SURPRISES as error:
        lines = str(error).splitlines() or [type(error).__name__]
        reason = f"it lacks {error}" if isinstance(error, KeyError) else lines[0][:200]
        raise InputError(
            f"{path} cannot be used (its {part}: {reason}); it was changed or made by another "
            "program: write it again with setwise, or restore a copy"
        ) from None


_SURPRISES = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
    MemoryError, AssertionError,
)  # fmt: skip


def parsed_header(path: Path, kind: str, data: bytes) -> dict[str, Any]:
    """The header's JSON, or an error that says that the file is of another kind."""
    try:
        header = json.loads(data)
    except (ValueError, RecursionError):
        raise _foreign(path, kind, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise _foreign(path, kind, "its header is not an object")
    return header


def about_file(path: Path, kind: str, header: Mapping[str, Any], version: int) -> dict[str, str]:
    """What the header says about the file itself; a file of another kind or version is refused."""
    about = header.get("__metadata__", {})
    found = about.get("setwise", "something else") if isinstance(about, dict) else "something else"
    if found != kind:
        raise InputError(
            f"{path} is a safetensors file, but of {found}, not a setwise {kind}; "
            f"name a {kind} file"
        )
    if about.get("version") != str(version):
        raise _other_version(path, about.get("version"), version)
    if not all(isinstance(about.get(name), str) for name in ("meta", "sha256")):
        raise _foreign(path, kind, "its header lacks meta or sha256")
    return about


def _other_version(path: Path, found: Any, version: int) -> InputError:
    newer = isinstance(found, str) and re.fullmatch(r"\d{1,9}", found) and int(found) > version
    remedy = "upgrade setwise" if newer else "write the file again with this setwise"
    return InputError(
        f"{path} has format version {str(found)[:20]}, and this setwise reads {version}; {remedy}"
    )


def places(header: Mapping[str, Any]) -> dict[str, Place]:
    """Where the arrays lie: one after the other, without gaps, each as long as its shape says.

    >>> places({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})["a"].shape
    (2,)
    """
    found = {name: _place(name, one) for name, one in header.items() if name != "__metadata__"}
    reached = 0
    for name, one in sorted(found.items(), key=lambda item: (item[1].begin, item[1].end)):
        if one.begin != reached:
            raise ValueError(f"its array '{name}' does not begin where the one before ends")
        reached = one.end
    return found


def _place(name: str, entry: Any) -> Place:
    wrong = ValueError(f"its header does not describe the array '{name}'")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise wrong
    shape, between = entry["shape"], entry["data_offsets"]
    for numbers in (shape, between):
        if not isinstance(numbers, list) or not all(type(one) is int for one in numbers):
            raise wrong
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in TYPES or len(between) != 2:
        raise wrong
    dtype, (begin, end) = TYPES[entry["dtype"]], between
    if len(shape) > 16 or min([begin, *shape]) < 0:
        raise wrong
    if end - begin != dtype.itemsize * math.prod(shape):
        raise ValueError(f"its array '{name}' is not as long as its shape says")
    return Place(dtype, tuple(shape), begin, end)


def _foreign(path: Path, kind: str, reason: str) -> InputError:
    return InputError(
        f"{path} is not a setwise {kind} file, or it is truncated ({reason}); "
        "write it again or restore a copy"
    )


def _little(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, order="C")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    assert array.dtype.str in NAMES, f"files do not hold arrays of {array.dtype}"
    return array


def _checksum(kind: str, arrays: Arrays, text: str) -> str:
    digest = hashlib.sha256(f"{kind}\n{text}\n".encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# Trees of arrays, such as models and the states of optimisers


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree under the names of their places, such as ``F.theta``."""
    return {name: np.asarray(leaf) for name, leaf in _arrays(tree)}


def with_arrays(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree with its arrays (or shapes in their place) replaced by those of these names."""
    import jax

    wanted = {name: (leaf.shape, leaf.dtype) for name, leaf in _arrays(tree)}
    found = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    if wanted != found:
        raise InputError("the file's arrays do not fit the model that it describes")

    def replaced(path: Any, leaf: Any) -> Any:
        return jax.numpy.asarray(arrays[_place_in_tree(path)]) if _is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(replaced, tree)


def _arrays(tree: Any) -> list[tuple[str, Any]]:
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(_place_in_tree(path), leaf) for path, leaf in leaves if _is_array(leaf)]


def _is_array(leaf: Any) -> bool:
    import jax

    return isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct))


def _place_in_tree(path: Any) -> str:
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".")

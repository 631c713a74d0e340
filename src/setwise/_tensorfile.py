"""Arrays and JSON in one safetensors file, with a format version and a checksum.

Model files and checkpoints share this. Reading runs no code; a truncated, altered or foreign file
gives one clear sentence.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from setwise._errors import InputError
from setwise._files import whole_file

Arrays = Mapping[str, np.ndarray]
FORMAT_VERSION = 1


def write(path: str | Path, kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Write the file whole or not at all; the same content gives the same bytes."""
    text = json.dumps(meta, sort_keys=True)
    plain = {name: np.asarray(array, order="C") for name, array in sorted(arrays.items())}
    header = {
        "setwise": kind,
        "version": str(FORMAT_VERSION),
        "meta": text,
        "sha256": _checksum(kind, plain, text),
    }
    data = safetensors.numpy.save(plain, metadata=header)
    with whole_file(path, len(data)) as beside:
        beside.write_bytes(_with_sorted_header(data))


def read(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the JSON of a file of this kind."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no {kind} file {path}; check the path")
    try:
        with safetensors.safe_open(path, framework="numpy") as opened:
            header = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(
            f"{path} is not a setwise {kind} file, or it is truncated ({error}); "
            "write it again or restore a copy"
        ) from None
    if header.get("setwise") != kind:
        found = header.get("setwise", "something else")
        raise InputError(
            f"{path} is a safetensors file, but of {found}, not a setwise {kind}; "
            f"name a {kind} file"
        )
    if header.get("version") != str(FORMAT_VERSION):
        raise InputError(
            f"{path} has format version {header.get('version')}, and this setwise reads "
            f"{FORMAT_VERSION}; upgrade setwise or write the file again"
        )
    text = header.get("meta", "")
    if header.get("sha256") != _checksum(kind, arrays, text):
        raise InputError(
            f"{path} was altered after it was written (its checksum differs); restore a copy"
        )
    return arrays, json.loads(text)


def _checksum(kind: str, arrays: Arrays, text: str) -> str:
    digest = hashlib.sha256(f"{kind}\n{text}\n".encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _with_sorted_header(data: bytes) -> bytes:
    """The same safetensors bytes with the header's keys in order: the writer keeps them in a
    hash map, whose order differs from run to run."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]

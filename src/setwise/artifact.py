"""One-file models: safetensors for the weights, JSON for everything else, no pickle.

The file holds the estimator's name and arguments, the schema fitted on training data, what was
learned, and a checksum. Loading it runs no code of the file's.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setwise import _tensorfile
from setwise._files import check_writable
from setwise.choices import Schema


@dataclass(frozen=True, eq=False)
class Artifact:
    """What a model file holds."""

    estimator: str
    params: dict[str, Any]
    schema: Schema
    fitted: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def write(self, path: str | Path) -> None:
        """Write the file whole or not at all."""
        check_writable(path)
        schema = self.schema.to_json()
        arrays = self.arrays | _names_as_arrays(schema)
        meta = {
            "estimator": self.estimator,
            "params": self.params,
            "schema": schema,
            "fitted": self.fitted,
        }
        _tensorfile.write(path, "model", arrays, meta)

    @classmethod
    def read(cls, path: str | Path) -> "Artifact":
        """Read a model file; a truncated, altered or foreign one is refused."""
        arrays, meta = _tensorfile.read(path, "model")
        _take_names_back(meta["schema"], arrays)
        return cls(
            meta["estimator"],
            meta["params"],
            Schema.from_json(meta["schema"]),
            meta["fitted"],
            arrays,
        )


def _names_as_arrays(schema: dict[str, Any]) -> dict[str, np.ndarray]:
    """Take the names whose popularity was learned out of the JSON: they may be millions."""
    arrays = {}
    for key, encoder in _with_popularity(schema):
        names = json.dumps(encoder.pop("levels")).encode()
        arrays[f"{key}/levels"] = np.frombuffer(names, np.uint8)
        arrays[f"{key}/values"] = np.array(encoder.pop("values"), np.float64)
    return arrays


def _take_names_back(schema: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    for key, encoder in _with_popularity(schema):
        encoder["levels"] = json.loads(arrays.pop(f"{key}/levels").tobytes())
        encoder["values"] = arrays.pop(f"{key}/values").tolist()


def _with_popularity(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, encoder in enumerate(schema["items"]):
        if encoder["kind"] == "popularity":
            yield f"schema/{place}", encoder

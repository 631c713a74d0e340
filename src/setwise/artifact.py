"""One-file models: safetensors for the weights, JSON for everything else, no pickle.

The file holds the estimator's name and arguments, the schema fitted on training data, what was
learned, and a checksum. Loading it runs no code of the file's.
"""

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
        meta = {
            "estimator": self.estimator,
            "params": self.params,
            "schema": self.schema.to_json(),
            "fitted": self.fitted,
        }
        _tensorfile.write(path, "model", self.arrays, meta)

    @classmethod
    def read(cls, path: str | Path) -> "Artifact":
        """Read a model file; a truncated, altered or foreign one is refused."""
        arrays, meta = _tensorfile.read(path, "model")
        return cls(
            meta["estimator"],
            meta["params"],
            Schema.from_json(meta["schema"]),
            meta["fitted"],
            arrays,
        )

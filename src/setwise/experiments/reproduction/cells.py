"""Finished cells in files: one a method and setting, written after each split that ends."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from setwise._errors import InputError
from setwise._files import make_folder, whole_file
from setwise.experiments.reproduction.results import Method, Outcome

CELLS = "cells"


@dataclass(frozen=True)
class Cell:
    """One method on one split, with what the regions need of each test set.

    ``right`` says whether the prediction is the choice, ``violations`` the share of removals that
    change it; both are None but for the models that make the regions.
    """

    outcome: Outcome
    right: Sequence[bool] | None = None
    violations: Sequence[float] | None = None


class CellFile:
    """The cells of one method on one setting; ``mark`` says what they depend on."""

    def __init__(self, folder: Path, data: str, max_items: int, method: Method, mark: Any):
        self.path = folder / CELLS / f"{slug(data)}-{max_items}-{method}.json"
        self._mark = hashlib.sha256(json.dumps(mark, sort_keys=True).encode()).hexdigest()

    @property
    def search(self) -> Path:
        """Where the search of this method is kept while it lasts."""
        return self.path.with_suffix(".search")

    def read(self) -> list[Cell]:
        """The cells so far, by split."""
        if not self.path.exists():
            return []
        try:
            read = json.loads(self.path.read_text("utf-8"))
        except ValueError as error:
            raise InputError(f"{self.path} is no file of cells ({error}); delete it") from error
        if read.get("mark") != self._mark:
            raise InputError(
                f"{self.path} belongs to another reproduction (other data, preset, seed or "
                "options); give another folder, or delete this one"
            )
        return [_cell(one) for one in read["cells"]]

    def write(self, cells: Sequence[Cell]) -> None:
        """Write the cells, whole or not at all."""
        make_folder(self.path.parent)
        value = {"mark": self._mark, "cells": [asdict(cell) for cell in cells]}
        with whole_file(self.path) as beside:
            beside.write_text(json.dumps(value) + "\n", "utf-8")


def _cell(one: Mapping[str, Any]) -> Cell:
    outcome = one["outcome"]
    method = Method(**outcome["method"])
    return Cell(Outcome(**(outcome | {"method": method})), one["right"], one["violations"])


def slug(name: str) -> str:
    """A name as a file's: words in small letters, joined by hyphens.

    >>> slug("Expedia bookings (generated)")
    'expedia-bookings-generated'
    """
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "-".join(words) or "data"

"""Choices to start with: shipped tables, and generators whose truth is known."""

from setwise.datasets.generated import Generated
from setwise.datasets.registry import (
    DATASETS,
    Dataset,
    catalogue,
    find,
    generate,
    load,
    names,
    roles,
    table,
)

__all__ = [
    "DATASETS",
    "Dataset",
    "Generated",
    "catalogue",
    "find",
    "generate",
    "load",
    "names",
    "roles",
    "table",
]

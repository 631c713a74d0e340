"""Choices to start with: shipped tables, and generators whose truth is known."""

from setwise.datasets.generated import Generated
from setwise.datasets.raw import RAW, Truth, build, imitate, load_raw
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
    "RAW",
    "Dataset",
    "Generated",
    "Truth",
    "build",
    "catalogue",
    "find",
    "generate",
    "imitate",
    "load",
    "load_raw",
    "names",
    "roles",
    "table",
]

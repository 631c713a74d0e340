"""Data that lie beside the clone and are never committed: tests that need them say so and skip."""

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "shared" / "data"


def missing(*names: str) -> str:
    """Why a test of these files is skipped: what it would need, and where.

    >>> missing("trials.parquet")
    'needs trials.parquet in the folder shared/data beside the clone'
    """
    return f"needs {' and '.join(names)} in the folder shared/data beside the clone"


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip the test unless these files are there."""
    there = all((DATA / name).exists() for name in names)
    return pytest.mark.skipif(not there, reason=missing(*names))


def sample(name: str) -> Path:
    """The address of a file; the test that asks is skipped where there is none."""
    if not (DATA / name).exists():
        pytest.skip(missing(name))
    return DATA / name

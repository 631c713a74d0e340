"""Shapes are types: every annotated function of setwise is checked while tests and doctests run."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# Programs compiled for tests are kept beside pytest's own cache, not in the user's.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "programs")
)

install_import_hook("setwise", "beartype.beartype")


@pytest.fixture(scope="module")
def quick_to_compile() -> Iterator[None]:
    """For tests whose programs run for milliseconds: compiling them well would take seconds."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


TESTS = itertools.count(1)


@pytest.fixture(autouse=True)
def room_for_programs() -> Iterator[None]:
    """Forget compiled programs before a process has more of them than the system can map.

    A program takes a dozen memory mappings, and Linux allows 65,530; one more ends the process.
    """
    yield
    maps = Path("/proc/self/maps")
    if next(TESTS) % 20 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > 40_000:
        import jax

        jax.clear_caches()

"""Shapes are types: every annotated function of setwise is checked while tests and doctests run."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jaxtyping import config, install_import_hook

# Programs compiled for tests are kept beside pytest's own cache, not in the user's.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "programs")
)
# JAX's own limit is a second; most programs of tests compile in less, and many are compiled again
# in another process or after their function was made anew.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

install_import_hook("setwise", "beartype.beartype")


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Programs compiled within are compiled in half the time, and run more slowly.

    Without XLA's optimizations, and with its older emitter of fused loops, which takes a third
    less. JAX has no setting for the latter; ``XLA_FLAGS`` would hold for all tests.
    """
    import jax
    from jax._src import compiler

    as_it_is = compiler.get_compile_options

    def options(*args: Any, env_options_overrides: dict | None = None, **named: Any) -> Any:
        chosen = {"xla_cpu_use_fusion_emitters": False} | (env_options_overrides or {})
        return as_it_is(*args, env_options_overrides=chosen, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", options)
        jax.config.update("jax_disable_most_optimizations", True)
        try:
            yield
        finally:
            jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session")
def compiling_quickly() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """:func:`quickly`, for a part of a test."""
    return quickly


@pytest.fixture(scope="module")
def quick_to_compile() -> Iterator[None]:
    """For tests whose programs run for milliseconds: compiling them well would take seconds."""
    with quickly():
        yield


@pytest.fixture
def unchecked_types() -> Iterator[None]:
    """For tests of bad arguments: types are not checked, as for users."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)


ALONE = ("test_blocks_run_and_print_what_the_page_says", "test_every_bad_input_is_refused")
"""Tests that share no fixture with the rest of their file: each may run on any worker."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ``--dist loadgroup`` the tests of a file share a worker, and so their fixtures."""
    for item in items:
        whole = item.nodeid if item.name.startswith(ALONE) else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(whole))


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

"""Shapes are types: every annotated function of setwise is checked while tests and doctests run."""

import gc
import importlib
import itertools
import os
import sys
from collections.abc import Iterator
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

# Each worker has a core: more threads of LightGBM and BLAS would wait for each other, and spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Programs of tests run for milliseconds, and compiling them well takes seconds. Without XLA's
# optimizations, with its older emitter of loops and in one piece each, they compile in a sixth of
# the time. Set here and not by a fixture, it holds for the processes that tests start as well, so
# that these find the same numbers.
QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
if QUICK_TO_COMPILE not in os.environ.get("XLA_FLAGS", ""):  # workers have it already
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}".strip()
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

install_import_hook("setwise", "beartype.beartype")

LIBRARIES = (
    "beartype", "equinox", "jax", "narwhals", "optax", "optuna", "optuna.storages",
    "pandas", "polars", "rich", "scipy.optimize", "scipy.stats", "sklearn.model_selection",
    "sklearn.utils.estimator_checks", "typer", "uvicorn",
)  # fmt: skip


def pytest_collectstart() -> None:
    """Import what setwise imports before setwise.

    A library that is first imported by a module under the hook is compiled from its source, since
    the hook looks for its own kind of bytecode: two seconds for each worker.
    """
    for library in LIBRARIES:
        if library not in sys.modules:
            importlib.import_module(library)


@pytest.fixture
def compiled_well() -> Iterator[None]:
    """For tests that train for long: XLA's optimizations take seconds and save more."""
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def unchecked_types() -> Iterator[None]:
    """For tests of bad arguments: types are not checked, as for users."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)


ALONE = ("test_blocks_run_and_print_what_the_page_says",)
"""Tests that share no fixture with the rest of their file: each may run on any worker."""

LONG = (
    "test_estimators.py", "test_tuning.py", "test_reproduction.py", "test_auto.py", "test_laws.py",
    "test_nested_levels.py", "test_benchmarks.py", "test_battery.py", "test_cli.py",
    "test_training.py", "[cli]", "[tutorial-first-sda]", "test_page.py", "test_crafted_files.py",
    "test_nested_and_mixed.py", "[tuning]", "[training]", "[consequences]", "[tutorial-decoy]",
)  # fmt: skip
"""What takes longest goes first, so that no worker is left alone with it at the end."""


def group_of(nodeid: str) -> str:
    """The tests with the same answer share a worker, and so their fixtures and programs."""
    file, _, test = nodeid.partition("::")
    return nodeid if test.startswith(ALONE) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups without marks: those of xdist 3.8 have no effect with pytest 9.2, and nobody is told.

    Groups are handed out in the order of their tests, and not by how many they are.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first."""

    def place(item: pytest.Item) -> int:
        group = group_of(item.nodeid)
        return next((i for i, name in enumerate(LONG) if group.endswith(name)), len(LONG))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: do not look through them for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


TESTS = itertools.count(1)
PROGRAMS = 2 * 2**30
"""Bytes by which compiled programs may let a worker grow before it forgets them."""


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="session")
def floor() -> list[int]:
    """The memory of this worker when it had forgotten its programs last."""
    return [_resident()] if Path("/proc/self/statm").exists() else []


@pytest.fixture(autouse=True)
def room_for_programs(floor: list[int]) -> Iterator[None]:
    """Forget compiled programs before they take gigabytes, or more mappings than there may be.

    Few are of use in a later file. A program takes two megabytes and a dozen memory mappings; Linux
    allows 65,530 of them, and one more ends the process.
    """
    yield
    if not floor or next(TESTS) % 20:
        return
    mappings = Path("/proc/self/maps").read_bytes().count(b"\n")
    if mappings > 40_000 or _resident() > floor[0] + PROGRAMS:
        import jax

        jax.clear_caches()
        gc.collect()
        floor[0] = _resident()

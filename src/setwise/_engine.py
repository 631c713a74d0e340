"""JAX, set up once: programs are kept on disk, and flags say how they are compiled.

What the user configured is respected: an address of the cache (``JAX_COMPILATION_CACHE_DIR``; an
empty one turns it off, as JAX has it), and flags of the compiler (``XLA_FLAGS``).
"""

import os
from collections.abc import Mapping, MutableMapping
from importlib.metadata import entry_points
from pathlib import Path

import jax

# XLA chooses kernels by timing them, so that two runs on a GPU may differ in their last bits. Not
# tuned, its Triton matrix products are slow (three fifths of an epoch of Deep Sets); cuBLAS's are
# not.
SAME_KERNELS = {"--xla_gpu_autotune_level": "0", "--xla_gpu_enable_triton_gemm": "false"}
# The training programs of the default SDA compile in 11 s instead of 15, and run as fast: most of
# their time goes into matrix products, which are not compiled. Those of level 0 run far slower.
COMPILE_SOON = {"--xla_backend_optimization_level": "1"}


def add_flags(
    wanted: Mapping[str, str], environment: MutableMapping[str, str] = os.environ
) -> None:
    """Add these to ``XLA_FLAGS``, which XLA reads when JAX first computes something.

    Flags that are there already stay as they are, and so does the name of a file of flags.

    >>> environment = {"XLA_FLAGS": "--xla_gpu_autotune_level=4"}
    >>> add_flags(SAME_KERNELS, environment)
    >>> environment["XLA_FLAGS"]
    '--xla_gpu_autotune_level=4 --xla_gpu_enable_triton_gemm=false'
    """
    flags = environment.get("XLA_FLAGS", "").split()
    if flags and not flags[0].startswith("-"):
        return
    known = {flag.partition("=")[0] for flag in flags}
    added = [f"{name}={value}" for name, value in wanted.items() if name not in known]
    environment["XLA_FLAGS"] = " ".join([*flags, *added])


def set_up() -> None:
    """The flags of a GPU where JAX has a plugin for an accelerator, of a CPU elsewhere.

    XLA ends a process whose flags it does not know: those of a GPU would be a risk for nothing.
    """
    add_flags(SAME_KERNELS if entry_points(group="jax_plugins") else COMPILE_SOON)
    keep_compiled_programs()


def keep_compiled_programs() -> None:
    """Turn JAX's on-disk compilation cache on, unless the user has decided about it."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or jax.config.values["jax_compilation_cache_dir"]:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(home / "setwise" / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)

"""JAX, set up once: compiled programs are kept on disk, so that the next run starts at once.

An address that the user configured (``JAX_COMPILATION_CACHE_DIR``) is respected; an empty one
turns the cache off, as JAX has it.
"""

import os
from pathlib import Path

import jax


def keep_compiled_programs() -> None:
    """Turn JAX's on-disk compilation cache on, unless the user has decided about it."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or jax.config.values["jax_compilation_cache_dir"]:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(home / "setwise" / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)

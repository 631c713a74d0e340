"""Shapes are types: every annotated function of setwise is checked while tests and doctests run."""

import os
from pathlib import Path

from jaxtyping import install_import_hook

# Programs compiled for tests are kept beside pytest's own cache, not in the user's.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "programs")
)

install_import_hook("setwise", "beartype.beartype")

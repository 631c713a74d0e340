"""Names of a package that are found on first use: importing the package does not import them all.

JAX takes half a second, and so does scikit-learn: who fits a logit should wait for neither.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def later(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: each name comes from its home, when it is asked for.

    >>> later("setwise", {"InputError": "setwise._errors"})("InputError").__name__
    'InputError'
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # from now on it is found without this function
        return value

    return __getattr__

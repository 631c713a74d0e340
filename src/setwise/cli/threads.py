"""How many threads linear algebra takes in a process of the command line."""

import os

_LIBRARIES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_of_algebra() -> None:
    """One thread per thread that scores: more of them would compete for the cores.

    It counts only before NumPy is imported. What the environment says already stays.
    """
    for name in _LIBRARIES:
        os.environ.setdefault(name, "1")

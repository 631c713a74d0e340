"""How many models to train at once: what is fastest on a CPU, what fits on an accelerator."""

import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import jaxprs_in_params

# On a CPU a few models share the cost of each operation; more only overflow its caches. Measured:
# `python benchmarks/population_speed.py`, section "Lanes" of benchmarks/RESULTS.md.
LANES_ON_CPU = 8
LANES_ON_ACCELERATOR = 2048
# Trials of one task. On a CPU more at once would not be faster, and fewer learn from each other
# sooner; an accelerator trains 50 in little more time than 25.
TRIALS_ON_ACCELERATOR = 50
SHARE_OF_MEMORY = 0.6  # the rest is for data, weights and what else runs

# Training fewer lanes needs a new program. It pays if the lanes that idle would otherwise read at
# least this many rows: about what the device reads in the time that compiling takes.
ROWS_WORTH_COMPILING_ON_CPU = 2e7
ROWS_WORTH_COMPILING = 5e9


def most_lanes() -> int:
    """The most models to train as one program on this device."""
    return LANES_ON_CPU if _on_cpu() else LANES_ON_ACCELERATOR


def trials_together() -> int:
    """How many trials of a study are best trained at once on this device."""
    return LANES_ON_CPU if _on_cpu() else TRIALS_ON_ACCELERATOR


def lanes_in_memory(bytes_of_one: int) -> int:
    """How many models fit, if the intermediate values of one take so many bytes."""
    return max(1, memory_budget() // max(1, bytes_of_one))


def bytes_of(function: Callable[..., Any], *arguments: Any) -> int:
    """The size of all values that a function computes: more than it needs, by a small factor.

    Arguments may be shapes (``jax.ShapeDtypeStruct``) in place of arrays.

    >>> bytes_of(lambda x: jax.numpy.exp(x) + 1, jax.numpy.zeros(1000))
    8000
    """
    jaxpr, *_ = eqx.filter_make_jaxpr(function)(*arguments)
    return _bytes(jaxpr.jaxpr)


def _bytes(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inner = jaxprs_in_params(equation.params)
        total += max(
            sum(_bytes(getattr(one, "jaxpr", one)) for one in inner),
            sum(out.aval.size * out.aval.dtype.itemsize for out in equation.outvars),
        )
    return total


def memory_budget() -> int:
    """Bytes that a program may use for its intermediate values."""
    stats = None if _on_cpu() else jax.devices()[0].memory_stats()
    if stats is not None and "bytes_limit" in stats:
        return int(SHARE_OF_MEMORY * stats["bytes_limit"])
    return int(SHARE_OF_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def worth_compiling(idle_rows: float) -> bool:
    """Whether it is worth a new program to spare the device so many rows."""
    return idle_rows > (ROWS_WORTH_COMPILING_ON_CPU if _on_cpu() else ROWS_WORTH_COMPILING)


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"

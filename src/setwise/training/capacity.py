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
# Trials of one task. On a CPU more at once would not be faster. An accelerator trains 50 in little
# more time than 25, but trials that are proposed together do not learn from each other, and 100
# would come in two batches.
TRIALS_ON_ACCELERATOR = 20
# Sets of a validation batch, in training batches: it keeps no gradients. An accelerator has less to
# launch with more; a CPU's caches hold one (the default SDA: half the time of four).
VALIDATION_BATCHES = 4
SHARE_OF_MEMORY = 0.6  # the rest is for data, weights and what else runs

# A program that computes less has to be compiled first. It pays if it spares at least this many
# bytes of intermediate values (as `bytes_of` counts them): what the device computes in the seconds
# that compiling takes. Measured with SDA, Deep Sets and RankNet: 1e12 bytes a second on an H200,
# where a program is compiled in 6 s, used in two rounds, while other processes compute; 1.2e10 on
# two cores of a CPU, where the default SDA's take 4 s.
BYTES_WORTH_COMPILING_ON_CPU = 5e10
BYTES_WORTH_COMPILING = 1e12


def most_lanes() -> int:
    """The most models to train as one program on this device."""
    return LANES_ON_CPU if _on_cpu() else LANES_ON_ACCELERATOR


def validation_batch(batch_size: int) -> int:
    """How many sets to validate on at once, of models that train on so many a step."""
    return batch_size if _on_cpu() else VALIDATION_BATCHES * batch_size


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


def worth_compiling(spared: float) -> bool:
    """Whether it is worth a new program to spare the device so many bytes."""
    return spared > (BYTES_WORTH_COMPILING_ON_CPU if _on_cpu() else BYTES_WORTH_COMPILING)


def rung(most: int, needed: int) -> int:
    """The smallest of a third of the lanes, a ninth and so on, that is enough.

    With few rungs, the programs of one population serve the next.

    >>> [rung(50, needed) for needed in (50, 18, 17, 5, 1)]
    [50, 50, 17, 6, 1]
    """
    while most > 1 and needed <= -(-most // 3):
        most = -(-most // 3)
    return most


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"

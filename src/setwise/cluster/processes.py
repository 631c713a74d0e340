"""Joining JAX's own multi-process runtime, after which fits are fits of all processes together.

:mod:`setwise.training.group` says what that means. Every process runs the same program: Ray starts
them (:mod:`setwise.cluster.training`), or SLURM does, or Open MPI.
"""

from setwise._errors import InputError

SECONDS_TO_MEET = 300
"""For which processes that came first wait for the last."""
SECONDS_OF_SILENCE = 30
"""After which a process that is not heard of counts as dead, which ends the others."""

SECONDS_TO_PART = 24 * 3600
"""For which processes that are done wait for the first, which still writes and measures."""


def join(address: str | None = None, processes: int | None = None, place: int | None = None) -> int:
    """Become one of the processes that train together, before JAX computes anything.

    Args:
        address: where the first process is to listen, "host:port"; by default JAX asks what
            started the processes (SLURM or Open MPI) for all three.
        processes: how many there are.
        place: which of them this is, from 0.

    Returns the place.
    """
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            address, processes, place,
            cluster_detection_method=None if address is None else "deactivate",
            initialization_timeout=SECONDS_TO_MEET, heartbeat_timeout_seconds=SECONDS_OF_SILENCE,
            shutdown_timeout_seconds=SECONDS_TO_PART,
        )  # fmt: skip
    except ValueError as error:
        raise InputError(
            f"the processes to train with cannot be found ({error}); start them all at once with "
            "'srun setwise fit ...' in a SLURM job, or with mpirun"
        ) from None
    return jax.process_index()

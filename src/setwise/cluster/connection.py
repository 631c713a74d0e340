"""Finding a Ray cluster, or starting one on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from setwise._errors import InputError
from setwise.cluster.cells import RayCrew

RUNNING = "auto"
LOCAL = "local"


def ray_module() -> ModuleType:
    """Ray, if it is installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    # Ray hides accelerators from what asked for none, and warns that this will change.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "a cluster needs Ray, which is not installed; run: pip install 'setwise[cluster]'"
        ) from error
    return ray


@contextmanager
def on_ray(address: str = RUNNING) -> Iterator[ModuleType]:
    """Ray, connected to a cluster; a connection that was there already is used, and stays.

    Args:
        address: "auto" for the cluster that runs (on this machine, or where ``RAY_ADDRESS``
            says), "local" to start one here for as long as this lasts, or ``host:port``.
    """
    ray = ray_module()
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        options |= {"include_dashboard": False, "num_cpus": os.cpu_count()}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(
            f"there is no Ray cluster at '{address}' ({said}); start one with 'ray start --head' "
            "and 'ray start --address=HOST:PORT' on the other machines, or use --cluster=local "
            "for one on this machine"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def crew_on(address: str = RUNNING) -> Iterator[RayCrew]:
    """The workers of a cluster (see :func:`on_ray`)."""
    with on_ray(address) as ray:
        yield RayCrew(ray)

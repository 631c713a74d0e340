"""Finding a Ray cluster, or starting one on this machine."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from setwise._errors import InputError
from setwise.cluster.cells import RayCrew

RUNNING = "auto"
LOCAL = "local"
SECONDS_OF_SILENCE = 45.0
"""After which a cluster counts as lost: after 60, Ray ends this process itself, without a word."""
SECONDS_BETWEEN_LOOKS = 3.0

OnLost = Callable[[str], None]
"""Called with the cluster's address when it is lost, from another thread."""


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
def on_ray(address: str = RUNNING, on_lost: OnLost | None = None) -> Iterator[ModuleType]:
    """Ray, connected to a cluster; a connection that was there already is used, and stays.

    Args:
        address: "auto" for the cluster that runs (on this machine, or where ``RAY_ADDRESS``
            says), "local" to start one here for as long as this lasts, or ``host:port``.
        on_lost: called when the cluster's head has been silent for so long that Ray will end this
            process, which nobody can prevent.
    """
    ray = ray_module()
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        options |= {"include_dashboard": False, "num_cpus": os.cpu_count()}
    named = os.environ.get("RAY_ADDRESS", "") if address == RUNNING else address
    if ":" in named and not _answers(named):  # Ray would try for minutes
        raise _absent(named, "nothing answers there")
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = str(error).strip().splitlines()[0].rstrip(".")
        raise _absent(address, said) from error
    try:
        with watched(ray.get_runtime_context().gcs_address, on_lost):
            yield ray
    except ray.exceptions.RayError as error:
        said = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(
            f"the Ray cluster was lost ({said}); start it again and run the same command: what is "
            "finished is kept"
        ) from error
    finally:
        ray.shutdown()


@contextmanager
def crew_on(address: str = RUNNING, on_lost: OnLost | None = None) -> Iterator[RayCrew]:
    """The workers of a cluster (see :func:`on_ray`)."""
    with on_ray(address, on_lost) as ray:
        yield RayCrew(ray)


@contextmanager
def watched(address: str, on_lost: OnLost | None) -> Iterator[None]:
    """While this lasts, look whether a cluster's head answers; tell once if it is lost."""
    if on_lost is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        heard = time.monotonic()
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            if _answers(address):
                heard = time.monotonic()
            elif time.monotonic() - heard > SECONDS_OF_SILENCE:
                on_lost(address)
                return

    threading.Thread(target=watch, daemon=True, name="setwise-watch").start()
    try:
        yield
    finally:
        over.set()


def _absent(address: str, said: str) -> InputError:
    return InputError(
        f"there is no Ray cluster at '{address}' ({said}); start one with 'ray start --head' and "
        "'ray start --address=HOST:PORT' on the other machines, or use --cluster=local for one on "
        "this machine"
    )


def _answers(address: str) -> bool:
    """Whether a port is open at ``host:port``, or ``ray://host:port``."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), SECONDS_BETWEEN_LOOKS):
            return True
    except (OSError, ValueError, OverflowError):
        return False

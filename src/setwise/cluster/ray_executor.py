"""Run jobs on a Ray cluster: find or start one, send jobs, and repeat those of lost workers.

Each job is a Ray task that streams its messages and, last, its result. Ray keeps its worker
processes from task to task, so each of them imports JAX and compiles its programs once. Ray's own
retries are off: a lost job is sent again from here, since its messages may let it begin further on.
"""

import os
import queue
import re
import socket
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from setwise import __version__
from setwise._errors import InputError
from setwise._executor import (
    ERROR,
    MESSAGE,
    RESULT,
    WARNING,
    JobFunction,
    OnMessage,
    ignore_message,
    run_job,
)

MAX_LOSSES = 5  # of one job in a row, before it is given up
JOBS_PER_CPU = 2  # one runs, the next is at hand
JOBS_PER_GPU = 4  # while one compiles or is on the host, others compute
CACHED_VALUES = 4  # shared values that a worker process keeps
SECONDS_BETWEEN_LOOKS = 1.0

Event = tuple[str, Any]
"""What a worker sends: its kind, as in :mod:`setwise._executor`, and its value."""


@dataclass(frozen=True)
class SharedInRay:
    """A value in Ray's object store; it travels to a machine once, when a job there needs it."""

    ref: Any

    def get(self) -> Any:
        """The value, fetched once by each worker process."""
        return _fetched(self.ref)


@lru_cache(maxsize=CACHED_VALUES)
def _fetched(ref: Any) -> Any:
    import ray

    return ray.get(ref)


class RayExecutor:
    """Runs jobs on the cluster that ``ray`` is connected to.

    A job has one CPU and, where the cluster has GPUs, a quarter of one.
    """

    shares_disk = False

    def __init__(self, ray: ModuleType):
        self._ray = ray

    def put(self, value: Any) -> SharedInRay:
        """Put a value into the object store."""
        return SharedInRay(self._ray.put(value))

    def workers(self) -> int:
        """How many jobs the cluster runs at the same time now."""
        found = self._ray.cluster_resources()
        gpus = int(JOBS_PER_GPU * found.get("GPU", 0))
        return max(1, min(gpus or int(found.get("CPU", 1)), int(found.get("CPU", 1))))

    def map_unordered(
        self,
        function: JobFunction,
        count: int,
        job: Callable[[int], Any],
        on_message: OnMessage = ignore_message,
    ) -> Iterator[tuple[int, Any]]:
        """Yield results as they come; the jobs of lost workers run again on others."""
        waiting, losses = list(reversed(range(count))), Counter[int]()
        streams: dict[Any, int] = {}
        start, workers = self._starter(function), _RefreshedNumber(self.workers)
        try:
            while waiting or streams:
                while waiting and len(streams) < JOBS_PER_CPU * workers():
                    number = waiting.pop()
                    streams[start(job(number))] = number
                ready, _ = self._ray.wait(
                    list(streams), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS
                )
                for stream in ready:
                    number = streams[stream]
                    kind, value = self._next_event(stream)
                    if kind == ERROR:
                        del streams[stream]
                        losses[number] += 1
                        _give_up(losses[number], value)
                        waiting.append(number)
                        continue
                    losses[number] = 0
                    if kind == MESSAGE:
                        on_message(number, value)
                    elif kind == WARNING:
                        warnings.warn(value, stacklevel=2)
                    else:
                        del streams[stream]
                        yield number, value
        finally:
            for stream in streams:
                self._ray.cancel(stream, force=True)

    def _starter(self, function: JobFunction) -> Callable[[Any], Any]:
        """A function that starts a job and gives its stream of events."""
        options: dict[str, Any] = {
            "num_cpus": 1,
            "max_retries": 0,
            "num_returns": "streaming",
            "scheduling_strategy": "SPREAD",
        }
        if self._ray.cluster_resources().get("GPU", 0):
            options["num_gpus"] = 1 / JOBS_PER_GPU
        # Ray must see a generator function, and type checking in tests hides that _events is one.
        task = self._ray.remote(**options)(lambda *given: (yield from _events(*given)))

        def start(job: Any) -> Any:
            return task.remote(__version__, function, job)

        return start

    def _next_event(self, stream: Any) -> Event:
        """The next event of a stream: an error if its worker was lost. A job's own is raised."""
        errors = self._ray.exceptions
        try:
            event: Event = self._ray.get(next(stream))
            return event
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            missing = re.search(r"No module named '[\w.]+'", str(cause))
            if isinstance(cause, errors.RaySystemError) and missing:
                raise InputError(
                    f"a machine of the cluster cannot start a job ({missing[0]}); install the same "
                    "setwise, with its dependencies, on all machines"
                ) from error
            raise cause from None
        except (errors.RayError, StopIteration) as error:
            return ERROR, error


class _RefreshedNumber:
    """A number that is looked up again after a while: machines may come and go."""

    def __init__(self, look_up: Callable[[], int]):
        self._look_up, self._seen, self._at = look_up, 0, -SECONDS_BETWEEN_LOOKS

    def __call__(self) -> int:
        if time.monotonic() - self._at >= SECONDS_BETWEEN_LOOKS:
            self._seen, self._at = self._look_up(), time.monotonic()
        return self._seen


def _give_up(losses: int, reason: Exception) -> None:
    if losses > MAX_LOSSES:
        said = (str(reason).strip().splitlines() or [type(reason).__name__])[0]
        raise InputError(
            f"the worker of one job was lost {losses} times in a row ({said.rstrip('.')}); if Ray "
            "itself ended, start the cluster again; if memory ran out, use machines with more of "
            "it or fewer CPUs (ray start --num-cpus): stored results are kept"
        ) from reason


def _events(version: str, function: JobFunction, job: Any) -> Iterator[Event]:
    """In a worker: the messages and warnings of a job, and last its result."""
    if version != __version__:
        raise InputError(
            f"machine {socket.gethostname()} has setwise {__version__}, but the command runs with "
            f"{version}; install the same version on all machines"
        )
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def emit(kind: str, value: Any) -> None:
        events.put((kind, value))

    # Ray takes what a generator yields, and the job calls emit: so the job runs in a thread.
    threading.Thread(target=run_job, args=(function, job, emit), daemon=True).start()
    while (event := events.get())[0] != ERROR:
        yield event
        if event[0] == RESULT:
            return
    raise event[1]


RUNNING = "auto"
LOCAL = "local"
SECONDS_OF_SILENCE = 45.0
"""After which a cluster counts as lost; after 60 s, Ray ends this process without a message."""
SECONDS_BETWEEN_PINGS = 3.0

OnLost = Callable[[str], None]
"""Called with the cluster's address when it is lost, from another thread."""


def ray_module() -> ModuleType:
    """Ray, if it is installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    # Ray hides accelerators from tasks that asked for none, and warns that this will change.
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
    """Ray, connected to a cluster; an existing connection is used, and stays open.

    Args:
        address: "auto" for the running cluster (on this machine or at ``RAY_ADDRESS``), "local" to
            start one on this machine until the block ends, or ``host:port``.
        on_lost: called when the cluster's head has been silent for so long that Ray will soon end
            this process, which cannot be prevented.
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
            f"the Ray cluster was lost ({said}); start it again and run the same command: stored "
            "results are kept"
        ) from error
    finally:
        ray.shutdown()


@contextmanager
def executor_on(address: str = RUNNING, on_lost: OnLost | None = None) -> Iterator[RayExecutor]:
    """An executor on a cluster (see :func:`on_ray`)."""
    with on_ray(address, on_lost) as ray:
        yield RayExecutor(ray)


@contextmanager
def watched(address: str, on_lost: OnLost | None) -> Iterator[None]:
    """Within the block, check that a cluster's head answers; call ``on_lost`` once if not."""
    if on_lost is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        heard = time.monotonic()
        while not over.wait(SECONDS_BETWEEN_PINGS):
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
        with socket.create_connection((host.strip("[]"), int(port)), SECONDS_BETWEEN_PINGS):
            return True
    except (OSError, ValueError, OverflowError):
        return False

"""Jobs on a Ray cluster: each is a task that streams what it tells and, last, what it found.

Ray keeps its worker processes from task to task, so that JAX is imported and its programs are
compiled once a process. Ray's own retries are off: a lost job is sent again from here, since what
it told before may let it begin further on.

Finding a Ray cluster, or starting one on this machine.
"""

import os
import queue
import re
import socket
import threading
import time
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from setwise import __version__
from setwise._errors import InputError
from setwise._executor import OnTold, Work

LOSSES = 5  # of one job in a row, before it is given up
IN_FLIGHT = 2  # jobs a processor: one runs, the next is at hand
JOBS_ON_A_GPU = 4  # while one compiles or is on the host, others compute
PARCELS = 4  # to keep open in a worker
SECONDS_BETWEEN_LOOKS = 1.0

TOLD, WARNED, FOUND = "told", "warned", "found"


@dataclass(frozen=True)
class InStore:
    """A parcel in Ray's object store: sent to a machine once, when a job there opens it."""

    ref: Any

    def open(self) -> Any:
        """The value, fetched once by each worker."""
        return _opened(self.ref)


class RayCrew:
    """The workers of the cluster that ``ray`` is connected to.

    A job has one processor, and where the cluster has GPUs a quarter of one.
    """

    def __init__(self, ray: ModuleType):
        self._ray = ray

    def put(self, value: Any) -> InStore:
        """Put a value into the object store."""
        return InStore(self._ray.put(value))

    def workers(self) -> int:
        """How many jobs the cluster does at a time now."""
        found = self._ray.cluster_resources()
        gpus = int(JOBS_ON_A_GPU * found.get("GPU", 0))
        return max(1, min(gpus or int(found.get("CPU", 1)), int(found.get("CPU", 1))))

    def each(
        self, work: Work, jobs: int, job: Callable[[int], Any], on_told: OnTold
    ) -> Iterator[tuple[int, Any]]:
        """Results as they come; the jobs of lost workers are done again by others."""
        waiting, losses = list(reversed(range(jobs))), Counter[int]()
        streams: dict[Any, int] = {}
        send, most = self._sender(work), _SeenAtTimes(self.workers)
        try:
            while waiting or streams:
                while waiting and len(streams) < IN_FLIGHT * most():
                    number = waiting.pop()
                    streams[send(job(number))] = number
                ready, _ = self._ray.wait(
                    list(streams), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS
                )
                for stream in ready:
                    number = streams[stream]
                    kind, value = self._next(stream)
                    if kind is None:
                        del streams[stream]
                        losses[number] += 1
                        _give_up(losses[number], value)
                        waiting.append(number)
                        continue
                    losses[number] = 0
                    if kind == TOLD:
                        on_told(number, value)
                    elif kind == WARNED:
                        warnings.warn(value, stacklevel=2)
                    else:
                        del streams[stream]
                        yield number, value
        finally:
            for stream in streams:
                self._ray.cancel(stream, force=True)

    def _sender(self, work: Work) -> Callable[[Any], Any]:
        options: dict[str, Any] = {
            "num_cpus": 1,
            "max_retries": 0,
            "num_returns": "streaming",
            "scheduling_strategy": "SPREAD",
        }
        if self._ray.cluster_resources().get("GPU", 0):
            options["num_gpus"] = 1 / JOBS_ON_A_GPU
        # Ray wants to see a generator: what checks types while tests run hides that _streamed is.
        task = self._ray.remote(**options)(lambda *sent: (yield from _streamed(*sent)))

        def send(job: Any) -> Any:
            return task.remote(__version__, work, job)

        return send

    def _next(self, stream: Any) -> tuple[str | None, Any]:
        """The next of a stream; None and the reason if its worker was lost."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(next(stream))
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            missing = re.search(r"No module named '[\w.]+'", str(cause))
            if isinstance(cause, errors.RaySystemError) and missing:
                raise InputError(
                    f"a machine of the cluster cannot begin ({missing[0]}); install the same "
                    "setwise, with what it needs, on all machines"
                ) from error
            raise cause from None
        except (errors.RayError, StopIteration) as error:
            return None, error


class _SeenAtTimes:
    """A number that is looked up anew only after a while: machines may come and go."""

    def __init__(self, look: Callable[[], int]):
        self._look, self._seen, self._at = look, 0, -SECONDS_BETWEEN_LOOKS

    def __call__(self) -> int:
        if time.monotonic() - self._at >= SECONDS_BETWEEN_LOOKS:
            self._seen, self._at = self._look(), time.monotonic()
        return self._seen


def _give_up(losses: int, reason: Exception) -> None:
    if losses > LOSSES:
        said = (str(reason).strip().splitlines() or [type(reason).__name__])[0]
        raise InputError(
            f"the worker of one job was lost {losses} times in a row ({said.rstrip('.')}); if Ray "
            "itself ended, start the cluster again; if it is for lack of memory, give the machines "
            "more of it or fewer processors (ray start --num-cpus): what is finished is kept"
        ) from reason


def _streamed(version: str, work: Work, job: Any) -> Iterator[tuple[str, Any]]:
    """On a worker: what the work on a job tells, its warnings, and at last what it found."""
    if version != __version__:
        import socket

        raise InputError(
            f"machine {socket.gethostname()} has setwise {__version__}, and here it is {version}; "
            "install the same on all machines"
        )
    said: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    # Ray takes what a generator yields, and work calls: it runs in a thread beside.
    thread = threading.Thread(target=_speaking, args=(said, work, job), daemon=True)
    thread.start()
    while (one := said.get())[0] != "failed":
        yield one
        if one[0] == FOUND:
            return
    raise one[1]


def _speaking(said: "queue.SimpleQueue[tuple[str, Any]]", work: Work, job: Any) -> None:
    try:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", UserWarning)
            found = work(job, lambda value: said.put((TOLD, value)))
        for text in dict.fromkeys(str(one.message) for one in raised):
            said.put((WARNED, text))
        said.put((FOUND, found))
    except BaseException as error:
        said.put(("failed", error))


_open: "OrderedDict[str, Any]" = OrderedDict()


def _opened(ref: Any) -> Any:
    """A parcel's value; the last few stay open in this process."""
    import ray

    name = ref.hex()
    if name not in _open:
        _open[name] = ray.get(ref)
        while len(_open) > PARCELS:
            _open.popitem(last=False)
    _open.move_to_end(name)
    return _open[name]


RUNNING = "auto"
LOCAL = "local"
SECONDS_OF_SILENCE = 45.0
"""After which a cluster counts as lost: after 60, Ray ends this process itself, without a word."""
SECONDS_BETWEEN_PINGS = 3.0

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

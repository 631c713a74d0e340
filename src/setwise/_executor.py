"""Run independent jobs in this process, in local worker processes, or on a cluster.

A job is a value. ``function(job, send)`` does it: it returns the result, and meanwhile may send
messages to the process that asked for it. A value that many jobs need, such as a table or a model,
is shared once with :meth:`Executor.put`. :class:`SerialExecutor` and :class:`ProcessExecutor` are
here; :class:`setwise.cluster.RayExecutor` is the third.
"""

import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeVar, runtime_checkable

from setwise._errors import InputError

MESSAGE, WARNING, RESULT, ERROR = "message", "warning", "result", "error"
"""What a worker sends."""

Send = Callable[[Any], None]
"""Sends a message from a job to the process that asked for it."""

JobFunction = Callable[[Any, Send], Any]
"""From a job to its result. Other processes find it by its name, so it belongs to a module."""

OnMessage = Callable[[int, Any], None]
"""Called with the number of a job and a message that it sent."""


Task = TypeVar("Task")
Done = TypeVar("Done")


def in_threads(
    work: Callable[[Task], Done], tasks: Iterable[Task], threads: int, ahead: int = 1
) -> Iterator[Done]:
    """The results of the tasks, in their order, for work during which other threads can run.

    NumPy and Polars let others work while they compute. At most ``threads + ahead`` results are
    in memory, that with which the caller is busy not counted.

    >>> list(in_threads(lambda n: n * n, range(5), threads=2))
    [0, 1, 4, 9, 16]
    """
    waiting: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads, "setwise") as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) == threads + ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def ignore_message(number: int, message: Any) -> None:
    """The default of ``on_message``."""


@runtime_checkable
class Shared(Protocol):
    """A value that many jobs need."""

    def get(self) -> Any:
        """The value; in one process always the same object, or an equal one."""

    def __hash__(self) -> int: ...


@runtime_checkable
class Executor(Protocol):
    """Runs jobs."""

    @property
    def shares_disk(self) -> bool:
        """Whether jobs see the files of this process."""

    def put(self, value: Any) -> Shared:
        """Share a value with jobs."""

    def workers(self) -> int:
        """How many jobs run at the same time."""

    def map_unordered(
        self,
        function: JobFunction,
        count: int,
        job: Callable[[int], Any],
        on_message: OnMessage = ignore_message,
    ) -> Iterator[tuple[int, Any]]:
        """Run jobs, and yield the number and the result of each as soon as it ends.

        Args:
            function: what to do with a job.
            count: how many jobs there are.
            job: makes the job of a number shortly before it starts. If the worker is lost and the
                job starts again, it is made again: messages may have changed where it begins.
            on_message: called with what jobs send.
        """


def run_job(function: JobFunction, job: Any, emit: Callable[[str, Any], None]) -> None:
    """In a worker: emit the messages and warnings of a job, then its result or its error."""
    try:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", UserWarning)
            result = function(job, partial(emit, MESSAGE))
        for text in dict.fromkeys(str(one.message) for one in raised):
            emit(WARNING, text)
        emit(RESULT, result)
    except BaseException as error:
        emit(ERROR, error)


@dataclass(frozen=True)
class SharedObject:
    """A value that stays in this process."""

    value: Any

    def get(self) -> Any:
        return self.value


class SerialExecutor:
    """Runs jobs in this process, one after another.

    >>> def double(job, send):
    ...     return 2 * job
    >>> list(SerialExecutor().map_unordered(double, 3, lambda number: 10 * number))
    [(0, 0), (1, 20), (2, 40)]
    """

    shares_disk = True

    def put(self, value: Any) -> SharedObject:
        """Share the value itself."""
        return SharedObject(value)

    def workers(self) -> int:
        """One."""
        return 1

    def map_unordered(
        self,
        function: JobFunction,
        count: int,
        job: Callable[[int], Any],
        on_message: OnMessage = ignore_message,
    ) -> Iterator[tuple[int, Any]]:
        """Run the jobs in order."""
        for number in range(count):
            yield number, function(job(number), partial(on_message, number))


@dataclass(frozen=True)
class SharedByNumber:
    """A value that each worker process of an executor receives once."""

    number: int

    def get(self) -> Any:
        return _received[self.number]


_received: dict[int, Any] = {}
"""In a worker process: the shared values that came with jobs so far."""


class _Worker:
    """A worker process, as the process that started it sees it."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.connection, there = context.Pipe()
        self.process = context.Process(target=_run_jobs, args=(there,), daemon=True)
        self.process.start()
        there.close()  # so that the connection ends when the worker does
        self._values = 0

    def start(self, number: int, function: JobFunction, job: Any, shared: Sequence[Any]) -> None:
        """Send a job, and the shared values that the worker does not have yet."""
        missing = dict(islice(enumerate(shared), self._values, None))
        try:
            self.connection.send((missing, number, function, job))
        except ConnectionError:
            raise _died() from None
        self._values = len(shared)


class ProcessExecutor:
    """Runs jobs in worker processes on this machine.

    The workers start with the first jobs and end when the executor is closed. They also end when
    this process ends, even if it is killed. The first job that fails, and the death of a worker,
    end all jobs with an error.

    >>> with ProcessExecutor(2) as executor:
    ...     executor.workers()
    2
    """

    shares_disk = True

    def __init__(self, workers: int):
        self._count = workers
        self._workers: list[_Worker] = []
        self._shared: list[Any] = []

    def __enter__(self) -> "ProcessExecutor":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
        self._workers = []

    def put(self, value: Any) -> SharedByNumber:
        """Share a value; each worker receives it with its next job."""
        self._shared.append(value)
        return SharedByNumber(len(self._shared) - 1)

    def workers(self) -> int:
        """The number of processes."""
        return self._count

    def map_unordered(
        self,
        function: JobFunction,
        count: int,
        job: Callable[[int], Any],
        on_message: OnMessage = ignore_message,
    ) -> Iterator[tuple[int, Any]]:
        """Run jobs on the workers; each gets another when it has finished one."""
        while len(self._workers) < min(self._count, count):
            self._workers.append(_Worker())
        waiting, busy = iter(range(count)), dict[Connection, _Worker]()

        def start_next(worker: _Worker) -> None:
            for number in islice(waiting, 1):
                busy[worker.connection] = worker
                worker.start(number, function, job(number), self._shared)

        try:
            for worker in self._workers:
                start_next(worker)
            while busy:
                for connection in wait(list(busy)):
                    assert isinstance(connection, Connection)
                    number, kind, value = _next_event(connection)
                    if kind == ERROR:
                        raise value
                    if kind == MESSAGE:
                        on_message(number, value)
                    elif kind == WARNING:
                        warnings.warn(value, stacklevel=2)
                    else:
                        start_next(busy.pop(connection))
                        yield number, value
        finally:
            if busy:
                self.close()


def _next_event(connection: Connection) -> tuple[int, str, Any]:
    try:
        event: tuple[int, str, Any] = connection.recv()
        return event
    except (EOFError, ConnectionError):
        raise _died() from None


def _died() -> InputError:
    return InputError(
        "a worker process died, perhaps for lack of memory; run the same again with fewer workers: "
        "stored results are kept"
    )


def _run_jobs(connection: Connection) -> None:
    """In a worker process: run jobs until the process is ended."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent ends its workers
    while True:
        values, number, function, job = connection.recv()
        _received.update(values)
        run_job(function, job, partial(_send_event, connection, number))


def _send_event(connection: Connection, number: int, kind: str, value: Any) -> None:
    connection.send((number, kind, value))


def _die_with_parent() -> None:
    """End this process when its parent has ended, however that happened."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

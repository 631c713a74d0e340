"""Several processes of a service: one that dies, or does not answer any more, is replaced.

They accept connections from one socket. Where no process can answer, their parent says so.
"""

import logging
import multiprocessing
import selectors
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from setwise.server.metrics import ServiceMetrics, counters
from setwise.server.requests import RequestError
from setwise.server.settings import Settings

LOG = logging.getLogger("setwise.server")

STARTING, ENDED = -1.0, 0.0
"""What stands in place of the time of the last beat."""
FRESH = 2.0
"""Seconds without a beat after which a process is not expected to accept connections."""
SILENCE = 10.0
"""Seconds without a beat after which a process is stopped or hangs; it beats every 0.1 s."""
START = 60.0
"""Seconds that a process may take to start."""
PAUSES = (0.5, 30.0)
"""Seconds before a process that could not start is started again: the first, and the most."""
BETWEEN_LOOKS = 0.2
READING = 0.2
"""Seconds for which the parent reads a request that it refuses."""
UNAVAILABLE = RequestError(
    503, "no process of the service is ready; try again shortly", closes=True
)


@dataclass(frozen=True, eq=False)
class Worker:
    """What a process of a service gets from its parent."""

    settings: Settings
    listening: socket.socket
    place: int
    counts: Any
    beats: Any
    """The time of each process's last beat, in shared memory."""
    pause: float
    """Seconds before it is started again if it cannot start."""

    def metrics(self) -> ServiceMetrics:
        """Its counts, in the memory that all processes share."""
        names = self.settings.names
        counts = np.frombuffer(self.counts, np.int64).reshape(-1, counters(names))
        return ServiceMetrics(names, counts, self.place)

    def beat(self) -> None:
        """Tell the parent that this process is at work."""
        self.beats[self.place] = time.monotonic()


@dataclass
class WorkerState:
    """A process as its parent sees it."""

    process: Any = None
    began: float = 0.0
    pause: float = 0.0
    """Seconds to wait before the next start, where the last one failed."""
    again: float = 0.0
    """When to start the next one."""


class Processes:
    """The processes of a service, and their parent's loop."""

    def __init__(
        self,
        settings: Settings,
        listening: socket.socket,
        workers: int,
        work: Callable[[Worker], None],
    ):
        # Not forked: a copy of a process with threads may hang.
        self._context = multiprocessing.get_context("spawn")
        self._counts = self._context.RawArray("q", workers * counters(settings.names))
        self._beats = self._context.RawArray("d", workers)
        self._settings, self._listening, self._work = settings, listening, work
        self._places = [WorkerState() for _ in range(workers)]
        self._ending = False

    def run(self) -> None:
        """Keep the processes running until asked to end; then wait for them."""
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, self._end)
        for place in range(len(self._places)):
            self._start(place)
        self._listening.setblocking(False)
        looked = time.monotonic()
        while not self._ending:
            if time.monotonic() - looked > SILENCE / 2:  # this process itself was stopped
                self._forgive()
            looked = time.monotonic()
            for place in range(len(self._places)):
                self._look_after(place)
            self._wait()
        running = [one.process for one in self._places if one.process is not None]
        for process in running:
            process.terminate()
        self._listening.close()
        end = time.monotonic() + self._settings.drain + 3 * self._settings.limits.timeout
        for process in running:
            process.join(max(0.0, end - time.monotonic()))
            process.kill()  # one that was stopped does not hear that it should end

    def _end(self, sig: int, frame: FrameType | None) -> None:
        self._ending = True

    def _start(self, place: int) -> None:
        one = self._places[place]
        self._beats[place] = STARTING
        pause = min(2 * one.pause, PAUSES[1]) if one.pause else PAUSES[0]
        given = Worker(self._settings, self._listening, place, self._counts, self._beats, pause)
        one.process = self._context.Process(target=self._work, args=(given,))
        one.pause, one.began = pause, time.monotonic()
        one.process.start()

    def _look_after(self, place: int) -> None:
        """Start a process anew that has died or is silent."""
        one, now = self._places[place], time.monotonic()
        if one.process is None:
            if now >= one.again:
                self._start(place)
            return
        beat = self._beats[place]
        if not one.process.is_alive():
            self._beats[place] = ENDED
            if beat > 0:
                LOG.error("process %s died; starting another one", one.process.pid)
                one.pause = 0.0
                self._start(place)
            else:  # it has said why it could not start
                one.process, one.again = None, now + one.pause
        elif now - (beat if beat > 0 else one.began) > (SILENCE if beat > 0 else START):
            LOG.error("process %s does not answer; starting another one", one.process.pid)
            one.process.kill()
            one.process.join()
            one.pause = 0.0
            self._start(place)
        elif beat > 0:
            one.pause = 0.0

    def _forgive(self) -> None:
        now = time.monotonic()
        for place, one in enumerate(self._places):
            if self._beats[place] > 0:
                self._beats[place] = now
            one.began = now

    def _wait(self) -> None:
        """Wait a moment; where no process is ready, tell those who ask."""
        end = time.monotonic() + BETWEEN_LOOKS
        while (left := end - time.monotonic()) > 0:
            if any(beat > time.monotonic() - FRESH for beat in self._beats):
                time.sleep(left)
                return
            with selectors.DefaultSelector() as selector:
                selector.register(self._listening, selectors.EVENT_READ)
                if selector.select(left):
                    self._refuse()

    def _refuse(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return  # a process was quicker
        with connection:
            connection.settimeout(READING)
            try:
                connection.recv(65536)
                connection.sendall(UNAVAILABLE.raw())
                connection.shutdown(socket.SHUT_WR)
                connection.recv(65536)
            except OSError:
                pass

"""The process, or the processes, of a service: how they start, drain and end.

A connection whose request does not come to its end in time is closed.
"""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from setwise._errors import InputError
from setwise.server.app import application
from setwise.server.metrics import COUNTERS, ServiceMetrics
from setwise.server.service import Service, Settings

MOST_HEAD = 64 * 1024
"""The most bytes of a request before its body."""


class TimedProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not end in time, or whose head is too long.

    A body that is late gets an answer (:mod:`setwise.server.app`); this is for the rest: no
    request at all, half a head, a body that nobody reads.
    """

    patience: float = 11.0
    """Seconds from a request's first byte to its last."""
    _late: asyncio.TimerHandle | None = None
    _head = -1
    """Bytes of a head that is not complete; -1 between heads."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head >= 0:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self.transport.close()

    def on_message_begin(self) -> None:
        self._await_end()
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_waiting()
        super().on_message_complete()

    def _await_end(self) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(self.patience, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()


def timed_protocol(seconds: float) -> type[TimedProtocol]:
    """The protocol with this limit in seconds."""
    return type("TimedProtocol", (TimedProtocol,), {"patience": seconds})


LOG = logging.getLogger("setwise.server")

IDLE_SECONDS = 75  # a connection's, longer than proxies keep theirs, so that they close first
DRAIN_SECONDS = 1.0
"""How long a process that is asked to end still answers, so that load balancers notice."""
GRACE_SECONDS = 20
"""How long requests may take to end."""


def run(settings: Settings, host: str, port: int, workers: int = 1) -> None:
    """Serve until the process is asked to end."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if workers < 1:
        raise InputError(f"--workers must be at least 1, not {workers}")
    service = Service(settings)
    listening = _listening(host, port)
    port = int(listening.getsockname()[1])
    shown = f"[{host}]" if ":" in host else host
    LOG.info("serving %s on http://%s:%d", settings.model.name, shown, port)
    if workers == 1:
        _serve(service, listening)
        return
    service.close()  # it has shown that the model can be served
    listening.close()
    each = [_listening(host, port, shared=True) for _ in range(workers)]
    Processes(settings, each).run()


def _listening(host: str, port: int, shared: bool = False) -> socket.socket:
    """A socket that listens; the system distributes connections over those that share a port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=shared)
    except (OSError, OverflowError, ValueError) as error:
        raise InputError(
            f"cannot listen on {host} port {port}: {error}; choose another --host or --port"
        ) from None


def _serve(service: Service, listening: socket.socket, parent: int | None = None) -> None:
    config = uvicorn.Config(
        application(service),
        loop="auto", http=timed_protocol(service.settings.limits.timeout + 1), ws="none",
        lifespan="on", log_config=None, log_level="warning", access_log=False,
        server_header=False, proxy_headers=False, timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )  # fmt: skip
    # What is there now stays: the collector need not go through it again and again.
    gc.collect()
    gc.freeze()
    Draining(config, service, parent).run([listening])


class Draining(uvicorn.Server):
    """A server that reports that it is ending, and still answers for a while."""

    def __init__(self, config: uvicorn.Config, service: Service, parent: int | None):
        super().__init__(config)
        self.service, self._end_at, self._parent = service, 0.0, parent

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM drains; Ctrl-C, or a second signal, ends what is not being answered."""
        if sig == signal.SIGTERM and not self.service.draining:
            self._drain("asked to end")
        else:
            self.should_exit = True

    def _drain(self, why: str) -> None:
        self.service.draining = True
        self._end_at = time.monotonic() + DRAIN_SECONDS
        LOG.info("%s: answering what has come", why)

    async def on_tick(self, counter: int) -> bool:
        if self._parent not in (None, os.getppid()) and not self.service.draining:
            self._drain("the process that started this one is gone")
        if self.service.draining:
            late = time.monotonic() - self._end_at
            if late > GRACE_SECONDS or (late > 0 and self.service.working == 0):
                self.should_exit = True
        return await super().on_tick(counter)


class Processes:
    """Several processes, each with its own socket; a process that dies is replaced."""

    def __init__(self, settings: Settings, listening: Sequence[socket.socket]):
        # Not forked: a copy of a process with threads may hang.
        self._context = multiprocessing.get_context("spawn")
        self._counts = self._context.RawArray("q", len(listening) * COUNTERS)
        self._settings, self._listening = settings, listening
        self._ending = False

    def run(self) -> None:
        """Keep the processes running until asked to end; then wait for them."""
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, self._end)
        running = [self._started(place) for place in range(len(self._listening))]
        while not self._ending:
            time.sleep(0.2)
            for place, process in enumerate(running):
                if not process.is_alive() and not self._ending:
                    LOG.error("process %s died; starting another one", process.pid)
                    running[place] = self._started(place)
        for process in running:
            process.terminate()
        for process in running:
            process.join()

    def _end(self, sig: int, frame: FrameType | None) -> None:
        self._ending = True

    def _started(self, place: int) -> Any:
        process = self._context.Process(
            target=_work, args=(self._settings, self._listening[place], self._counts, place)
        )
        process.start()
        return process


def _work(settings: Settings, listening: socket.socket, counts: Any, place: int) -> None:
    """What each of several processes does."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s [{place}] %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent tells the others
    shared = np.frombuffer(counts, np.int64).reshape(-1, COUNTERS)
    _serve(Service(settings, ServiceMetrics(shared, place)), listening, os.getppid())

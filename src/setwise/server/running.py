"""One process of a service: how it starts, drains and ends."""

import asyncio
import gc
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn

from setwise._errors import InputError
from setwise.server.app import ACCESS, application
from setwise.server.connections import TimedProtocol, timed_protocol
from setwise.server.processes import Processes, Worker
from setwise.server.service import Service
from setwise.server.settings import Settings, is_loopback

LOG = logging.getLogger("setwise.server")

IDLE_SECONDS = 75  # a connection's, longer than proxies keep theirs, so that they close first

UNSENT = 128 * 1024
"""Bytes of an answer that the system keeps: with more, it would not be seen who reads nothing."""


def run(
    settings: Settings, host: str, port: int, workers: int = 1, *, no_token: bool = False
) -> None:
    """Serve until the process is asked to end."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if workers < 1:
        raise InputError(f"--workers must be at least 1, not {workers}")
    _check_access(settings, host, no_token)
    service = Service(settings)
    listening = _listening(host, port)
    port = int(listening.getsockname()[1])
    shown = f"[{host}]" if ":" in host else host
    LOG.info("serving %s on http://%s:%d", ", ".join(settings.names), shown, port)
    if workers == 1:
        serve(service, listening, lambda: True)
        return
    service.close()  # it has shown that the models can be served
    Processes(settings, listening, workers, work).run()


def _check_access(settings: Settings, host: str, no_token: bool) -> None:
    if no_token and settings.token is not None:
        raise InputError("there is a token and --no-token; leave one of them out")
    if settings.token is None and not no_token and not is_loopback(host):
        raise InputError(
            f"with --host {host} other machines can ask, and there is no token; give --token-file "
            "or SETWISE_TOKEN, or say --no-token"
        )


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=2048)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNSENT)  # of its connections too
        return found
    except (OSError, OverflowError, ValueError) as error:
        raise InputError(
            f"cannot listen on {host} port {port}: {error}; choose another --host or --port"
        ) from None


def work(worker: Worker) -> None:
    """What each of several processes does."""
    form = f"%(asctime)s [{worker.place}] %(message)s"
    logging.basicConfig(level=logging.INFO, format=form)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent tells the others
    parent = os.getppid()
    try:
        service = Service(worker.settings, worker.metrics())
    except InputError as error:
        LOG.error("cannot serve: %s; trying again in %g s", error, worker.pause)
        sys.exit(1)

    def beat() -> bool:
        worker.beat()
        return os.getppid() == parent

    serve(service, worker.listening, beat)


def serve(service: Service, listening: socket.socket, beat: Callable[[], bool]) -> None:
    """Answer what comes until asked to end; ``beat`` is called often, and says whether to go on."""
    if service.settings.access_log:
        _to_standard_output()
    grace = math.ceil(2 * service.settings.limits.timeout)
    config = uvicorn.Config(
        application(service),
        loop="auto", http=timed_protocol(service), ws="none", lifespan="on", log_config=None,
        log_level="warning", access_log=False, server_header=False, proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS, timeout_graceful_shutdown=grace,
    )  # fmt: skip
    # What is there now stays: the collector need not go through it again and again.
    gc.collect()
    gc.freeze()
    Draining(config, service, beat).run([listening])


def _to_standard_output() -> None:
    """The access log as one line of JSON per request, apart from the messages."""
    shown = logging.StreamHandler(sys.stdout)
    shown.setFormatter(logging.Formatter("%(message)s"))
    ACCESS.addHandler(shown)
    ACCESS.propagate = False


class Draining(uvicorn.Server):
    """A server that reports that it is ending, and still answers for a while."""

    def __init__(self, config: uvicorn.Config, service: Service, beat: Callable[[], bool]):
        super().__init__(config)
        self.service, self._beat, self._end_at = service, beat, 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM drains; Ctrl-C, or a second signal, ends what is not being answered."""
        if sig == signal.SIGTERM and not self.service.draining:
            self._drain("asked to end")
        else:
            self.should_exit = True

    def _drain(self, why: str) -> None:
        self.service.draining = True
        self._end_at = time.monotonic() + self.service.settings.drain
        LOG.info("%s: answering what has come", why)

    async def on_tick(self, counter: int) -> bool:
        if not self._beat() and not self.service.draining:
            self._drain("the process that started this one is gone")
        if self.service.draining and time.monotonic() > self._end_at:
            self.should_exit = True  # what is being answered is waited for after that
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the socket, but answer those whose connection the system has accepted already."""
        waiting = []
        for listening in sockets or []:
            listening.setblocking(False)
            with suppress(OSError):  # until there are no more
                while True:
                    waiting.append(listening.accept()[0])
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        for connection in waiting:
            await loop.connect_accepted_socket(self._protocol, connection)
        await super().shutdown(sockets)

    def _protocol(self) -> TimedProtocol:
        kind: Any = self.config.http_protocol_class
        return kind(self.config, self.server_state, self.lifespan.state)

"""A running service: the model it answers with, and how it answers without keeping others waiting.

Small requests are answered at once. Large ones go to a few threads, so that small ones need not
wait for them. A new model file at the same path takes the model's place between two requests.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setwise._errors import InputError
from setwise.server.answers import Deadline
from setwise.server.forms import Asked
from setwise.server.metrics import Metrics
from setwise.server.served import ServedModel, load
from setwise.server.settings import Settings

LOG = logging.getLogger("setwise.server")

SMALL_BODY = 32 * 1024
SMALL_ROWS = 300
"""What is answered at once: some two milliseconds' work at most."""
THREADS = 4
SECONDS_BETWEEN_LOOKS = 0.5

Work = Callable[[ServedModel, Asked, Deadline], bytes]
Signature = tuple[tuple[int, int, int] | None, ...]


class Service:
    """The state of one process of a service."""

    def __init__(self, settings: Settings, metrics: Metrics | None = None):
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.draining = False
        self.working = 0
        """Requests for answers that are being read or answered."""
        self._seen = self._signature()
        self.served = load(settings)
        self._note_load()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="setwise-answer")

    async def answer(
        self, body: bytes, rows: Callable[[Asked], int], work: Work, deadline: Deadline
    ) -> bytes:
        """Do the work that a body asks for; ``rows`` says how many rows there are to score."""
        served = self.served  # the whole request sees this model, whatever comes in its place

        def whole() -> tuple[Asked, bytes]:
            deadline.check()
            asked = served.read(body)
            return asked, work(served, asked, deadline)

        if len(body) <= SMALL_BODY:
            asked = served.read(body)
            if rows(asked) <= SMALL_ROWS:
                done = work(served, asked, deadline)
                self.metrics.add("sets", len(asked.sets))
                return done
        asked, done = await asyncio.get_running_loop().run_in_executor(self._threads, whole)
        self.metrics.add("sets", len(asked.sets))
        return done

    async def watch(self) -> None:
        """Take every new model file over, until cancelled; one that is broken changes nothing."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            signature = self._signature()
            if signature != self._seen:
                self._seen = signature
                await self._take_over()

    async def _take_over(self) -> None:
        name = self.settings.model.name
        try:
            # A thread of its own: those that answer may be busy.
            served = await asyncio.to_thread(load, self.settings)
        except InputError as error:
            self.metrics.add("failed_loads")
            LOG.error("the new %s is not taken over, the old model stays: %s", name, error)
        except Exception:
            self.metrics.add("failed_loads")
            LOG.exception("the new %s is not taken over, the old model stays", name)
        else:
            self.served = served
            self._note_load()
            LOG.info("took the new %s over (sha256 %s)", name, served.checksum[:12])

    def _note_load(self) -> None:
        self.metrics.add("loads")
        self.metrics.set("loaded_at", int(time.time()))

    def _signature(self) -> Signature:
        paths = (self.settings.model, self.settings.beside)
        return tuple(None if path is None else _of_file(path) for path in paths)

    def close(self) -> None:
        """Let the threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

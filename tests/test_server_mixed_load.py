"""A minute of everything at once, on loopback: answers, refusals, slow clients, reloads, kills."""

import json
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import setwise as sw
from serving import Process, got_metrics, request

SECONDS = 60
GOOD = {"items": [{"x0": 1.0, "x1": 0.5}, {"x0": -1.0, "x1": 2.0}]}
LARGE = {"items": [{"x0": n / 100, "x1": -n / 50} for n in range(100)], "reference": True}
MALFORMED = (b"{", b'{"items": [{"x0": "a"}]}', b"[]", b'{"items": [{"x0": 1e400}]}', b"\0")


class Load:
    """Threads that ask for a while, and what they got."""

    def __init__(self, service: Process):
        self.service = service
        self.end = time.monotonic() + SECONDS
        self.statuses: Counter[int] = Counter()
        self.lost: list[str] = []
        self.without_retry: list[bytes] = []
        self.memory: list[float] = []

    def repeat(self, job: Callable[[], None], pause: float) -> threading.Thread:
        def run() -> None:
            while time.monotonic() < self.end:
                job()
                time.sleep(pause)

        return threading.Thread(target=run)

    def ask(self, path: str, body: object) -> None:
        """One request; if the process that answers is killed meanwhile, the same once more."""
        whole = request(path, body)
        for _ in range(2):
            try:
                got = self.service.send(whole)
            except OSError as error:
                got, why = b"", repr(error)
            else:
                why = "the connection ended"
            if got:
                self.statuses[int(got[9:12])] += 1
                if got[9:12] == b"503" and b"retry-after: 1" not in got:
                    self.without_retry.append(got[:300])
                return
        self.lost.append(f"{path}: {why}")

    def ask_slowly(self) -> None:
        """Ask for much, and read nothing."""
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.settimeout(5)
            try:
                slow.connect(("127.0.0.1", self.service.port))
                slow.sendall(request("/v1/explain", LARGE))
                time.sleep(4)
            except OSError:
                pass

    def kill(self) -> None:
        time.sleep(5)
        workers = self.service.workers()
        if workers:
            os.kill(random.choice(workers), signal.SIGKILL)

    def measure(self) -> None:
        if len(self.service.workers()) == 2:
            with suppress(FileNotFoundError, ProcessLookupError):  # killed at this moment
                self.memory.append(self.service.megabytes())


@pytest.mark.slow
def test_a_minute_of_everything_loses_no_request(tmp_path):
    choices = sw.datasets.generate("mnl", sets=80, items=3, features=2, seed=0).choices
    model = sw.LinearContextLogit().fit(choices)
    path: Path = tmp_path / "trips.setwise"
    reference = sw.estimators.reference_mnl(model, choices)
    model.save(path, reference=reference)
    with ExitStack() as held:
        options = ("--workers", "2", "--timeout", "5", "--max-body", "1000000")
        service = held.enter_context(Process(path, *options))
        load = Load(service)
        threads = [
            load.repeat(lambda: load.ask("/v1/predict", GOOD), 0.02),
            load.repeat(lambda: load.ask("/v1/predict", {"sets": [GOOD] * 100}), 0.1),
            load.repeat(lambda: load.ask("/v1/explain", LARGE), 0.5),
            load.repeat(lambda: load.ask("/v1/predict", random.choice(MALFORMED)), 0.05),
            load.repeat(load.ask_slowly, 0.1),
            load.repeat(load.ask_slowly, 0.1),
            load.repeat(lambda: model.save(path, reference=reference), 3),
            load.repeat(load.kill, 0.0),
            load.repeat(load.measure, 0.5),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        metrics = got_metrics(service)
        code, said = service.stop()
    shown = json.dumps({"statuses": load.statuses, "lost": load.lost, "memory": load.memory[-5:]})
    assert load.lost == [], shown
    assert load.without_retry == []
    assert {status for status in load.statuses if status >= 500} <= {503}, shown
    assert load.statuses[200] > 500, shown
    assert load.statuses[503] < 0.05 * load.statuses.total(), shown
    assert {400, 422} <= set(load.statuses)
    assert metrics["setwise_model_loads_total"] > 12  # 2, and those of new files and processes
    third = len(load.memory) // 3
    assert max(load.memory[-third:]) < 1.2 * max(load.memory[:third]), load.memory
    assert "Traceback" not in said
    assert code == 0

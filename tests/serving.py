"""What the tests of the service share: models to serve, and clients that ask."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import setwise as sw
from setwise.server import Limits, Service, Settings, application


@dataclass
class Got:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]


class Direct:
    """A client that calls the application itself, without a network."""

    def __init__(self, model: Path, **settings: Any):
        limits = Limits(**settings.pop("limits", {}))
        models = (model, *settings.pop("others", ()))
        self.service = Service(Settings(models, limits=limits, **settings))
        self.app = application(self.service)
        self.runner = asyncio.Runner()

    def get(self, path: str, **headers: str) -> Got:
        return self.ask("GET", path, [b""], headers)

    def post(self, path: str, body: Any, **headers: str) -> Got:
        """A body as JSON, or as the bytes that it is."""
        plain = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, [plain], {"content-type": "application/json"} | headers)

    def predict(self, body: Any) -> Got:
        return self.post("/v1/predict", body)

    def ask(self, method: str, path: str, chunks: list[bytes], headers: dict[str, str]) -> Got:
        given = {"host": "localhost"} | headers
        plain = [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()]
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": b"", "headers": plain, "http_version": "1.1", "scheme": "http",
            "root_path": "", "server": ("test", 80), "client": ("test", 1),
            "asgi": {"version": "3.0"},
        }  # fmt: skip
        return self.runner.run(asked(self.app, scope, chunks))

    def close(self) -> None:
        self.runner.close()
        self.service.close()


async def asked(app: Any, scope: Any, chunks: list[bytes]) -> Got:
    left = list(chunks)
    got = Got(0, {}, b"")

    async def receive() -> dict[str, Any]:
        if not left:  # a client that never sends the rest
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            got.status = message["status"]
            got.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            got.body += message.get("body", b"")

    await app(scope, receive, send)
    return got


def trips(sets: int = 120, seed: int = 0) -> dict[str, list[Any]]:
    """A table with every kind of column, and sets of 2 to 5 items."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, sets)
    rows = int(sizes.sum())
    ids = np.repeat(np.arange(sets), sizes)
    cost = rng.lognormal(3, 0.5, rows)
    review = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(7, 1, rows))
    table = {
        "trip": ids, "cost": cost, "stars": rng.integers(1, 6, rows), "review": review,
        "brand": rng.choice(["Ibis", "Ritz", "Hôtel «A»"], rows),
        "host": rng.choice(["a", "b", "c", "d"], rows), "code": rng.choice([3, 12, 40], rows),
        "built": np.datetime64("2001-01-01") + rng.integers(0, 3000, rows),
        "purpose": rng.choice(["work", "fun"], sets)[ids], "nights": rng.integers(1, 9, sets)[ids],
    }  # fmt: skip
    best = rng.gumbel(size=rows) - cost / 10
    chosen = np.zeros(rows, int)
    for number in range(sets):
        rows_of_set = np.flatnonzero(ids == number)
        if rng.random() > 0.15:  # else nothing was taken
            chosen[rows_of_set[np.argmax(best[rows_of_set])]] = 1
    return {name: values.tolist() for name, values in table.items()} | {"taken": chosen.tolist()}


ITEMS = [
    "log(cost)", "stars", "impute(review)", "other(brand)", "popularity(host)", "category(code)",
    "built",
]  # fmt: skip


def read_trips(table: dict[str, Any], **more: Any) -> sw.Choices:
    """The table as choices with context and an outside option."""
    typed = table | {"built": np.array(table["built"], "datetime64[D]")}
    given: dict[str, Any] = {
        "set": "trip", "chosen": "taken", "items": ITEMS, "context": ["purpose", "nights"],
        "on_none": "outside",
    }  # fmt: skip
    return sw.read(typed, **(given | more))


def a_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Process:
    """``setwise serve`` in a process of its own."""

    def __init__(self, model: Path, *options: str, environment: dict[str, str] | None = None):
        self.port = a_port()
        command = [sys.executable, "-m", "setwise", "serve", str(model), "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment,
        )  # fmt: skip
        self.said: str | None = None
        self._await_start()

    def _await_start(self) -> None:
        for _ in range(600):
            try:
                if self.send(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").startswith(
                    b"HTTP/1.1 200"
                ):
                    return
            except OSError:
                pass
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.05)
        raise AssertionError("the service did not start")

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def send(self, *parts: bytes, pause: float = 0.0) -> bytes:
        """One answer, as bytes, to a request sent in parts."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
            return answer(connection)

    def post(self, path: str, body: Any, *headers: str) -> tuple[int, Any]:
        raw = self.send(request(path, body, *headers))
        head, _, rest = raw.partition(b"\r\n\r\n")
        return int(head[9:12]), json.loads(rest)

    def megabytes(self) -> float:
        """Memory now, in the process or in all workers."""
        pids = self.workers() or [self.process.pid]
        return sum(_resident(pid) for pid in pids)

    def workers(self) -> list[int]:
        """The processes that answer, where there are several."""
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(one) for one in found if "spawn_main" in _command(one)]

    def stop(self) -> tuple[int, str]:
        """The exit code and what was logged."""
        if self.said is None:
            if self.process.poll() is None:  # Ctrl-C is quicker than SIGTERM, which drains
                self.process.send_signal(signal.SIGINT)
            self.said, _ = self.process.communicate(timeout=30)
        return self.process.returncode, self.said


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended
        return ""


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def got_metrics(service: Process) -> dict[str, float]:
    """What /metrics says, by name and labels, as soon as a worker can answer."""
    end, text = time.monotonic() + 20, ""
    while not text.startswith("HTTP/1.1 200") and time.monotonic() < end:
        text = service.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").decode()
    lines = text.partition("\r\n\r\n")[2].splitlines()
    plain = [line for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in plain)}


def request(path: str, body: Any, *headers: str) -> bytes:
    plain = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json",
        f"content-length: {len(plain)}", *headers, "", "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + plain


def answer(connection: socket.socket) -> bytes:
    """One whole answer from a connection, or what came before its end."""
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(65536)
        if not more:
            return got
        got += more
    head, _, body = got.partition(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        more = connection.recv(65536)
        if not more:
            break
        body += more
    return head + b"\r\n\r\n" + body

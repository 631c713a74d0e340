"""``setwise serve`` under load: requests of one set and of a thousand, on the same machine.

The default SDA (an ensemble of 6, or of ``--ensemble``) on sets of 10 items × 8 features, one
process of the service, and this one, which asks over connections that stay open, each with one
request at a time. It needs the extra ``serve``.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import report

ITEMS, FEATURES = 10, 8
TICK = os.sysconf("SC_CLK_TCK")


class Limit(NamedTuple):
    """A figure, what it must reach or must not exceed, and how it is shown."""

    words: str
    load: str
    figure: str
    bound: float
    least: bool
    style: str


LIMITS = (
    Limit("Requests of one set per second", "one", "a_second", 3_000, True, "{:,.0f}"),
    Limit("… 99 % of them within", "one", "p99", 15, False, "{:.1f} ms"),
    Limit("… failed", "one", "errors", 0, False, "{:.0f}"),
    Limit("… growth of memory", "one", "growth", 5, False, "{:.1f} %"),
    Limit("Sets per second, 1,000 each", "thousand", "sets_a_second", 40_000, True, "{:,.0f}"),
    Limit("… failed", "thousand", "errors", 0, False, "{:.0f}"),
)  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["fit"]:
        fit(Path(sys.argv[2]), int(sys.argv[3]))
        return
    given = options()
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "sda.setwise"
        side = (sys.executable, "service_load.py", "fit", model, given.ensemble)
        fitted = report.required(report.run_side(*side))
        result |= {"versions": fitted["versions"], "model": fitted["model"]}
        with Service(model) as service:
            result["one"] = measure(service, 1, given.connections, given.seconds)
            result["thousand"] = measure(service, 1_000, 2, given.seconds / 3)
    missed = [one.words for one in LIMITS if not met(one, result)]
    complaint = f"missed: {'; '.join(missed)}" if missed and not given.quick else None
    report.publish("service_load", result, as_text(result), given, complaint)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of single sets; a third of many")
    parser.add_argument("--connections", type=int, default=16, help="that ask for single sets")
    parser.add_argument("--ensemble", type=int, default=6, help="4: none in fine pieces")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument("--quick", action="store_true", help="a smoke test: figures mean nothing")
    parser.add_argument("--write", action="store_true", help="keep the figures in RESULTS.md")
    given = parser.parse_args()
    if given.write and given.quick:
        parser.error("--write needs a full run: figures of --quick mean nothing")
    if given.quick:
        given.seconds = 1.0
    return given


def fit(path: Path, ensemble: int) -> None:
    """A model to serve: all members count, or the speed would be that of those that were chosen."""
    import numpy as np

    import setwise as sw
    from setwise.estimators import networks

    networks.select = lambda log_p, *rest: np.full(len(log_p), 1 / len(log_p))
    networks.beyond_chance = lambda log_p, weights, *rest: weights
    data = sw.datasets.generate("sda", sets=400, items=ITEMS, features=FEATURES, seed=0)
    model = sw.SDA(ensemble=ensemble).set_training(epochs=2).fit(data.choices)
    model.save(path)
    fine = sum(weight > 0 and one.blueprint == sw.models.ZOO["sda_fine"]
               for weight, one in zip(model.weights_, model.members(), strict=True))  # fmt: skip
    counting = sum(weight > 0 for weight in model.weights_)
    report.emit({
        "versions": report.versions("setwise", "numpy", "uvicorn", "msgspec"),
        "model": f"`SDA(ensemble={ensemble})`, of which {counting} members count, {fine} of them "
        "in fine pieces",
    })  # fmt: skip


class Service:
    """``setwise serve`` in a process of its own."""

    def __init__(self, model: Path):
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        command = [sys.executable, "-m", "setwise", "serve", str(model), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self) -> "Service":
        for _ in range(400):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.05)
        sys.exit("the service did not start")

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def seconds(self) -> float:
        """CPU time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def megabytes(self) -> float:
        """Memory now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def body(sets: int) -> bytes:
    generator = random.Random(0)
    many = [
        {"items": [
            {f"x{column}": generator.gauss(0, 1) for column in range(FEATURES)}
            for _ in range(ITEMS)
        ]}
        for _ in range(sets)
    ]  # fmt: skip
    return json.dumps(many[0] if sets == 1 else {"sets": many}).encode()


class Asking(asyncio.Protocol):
    """A connection that sends the same request again and again, when the last is answered."""

    def __init__(self, request: bytes, times: list[float], errors: list[bytes]):
        self.request, self.times, self.errors = request, times, errors
        self.until = float("inf")
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._ask()

    def _ask(self) -> None:
        self.came, self.length = [], None
        self.began = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.came.append(data)
        if self.length is None:
            head, found, _ = b"".join(self.came).partition(b"\r\n\r\n")
            if not found:
                return
            begin = head.lower().index(b"content-length: ") + 16
            self.length = int(head[begin:].split(b"\r\n", 1)[0]) + len(head) + 4
        if sum(map(len, self.came)) < self.length:
            return
        if self.came[0][9:12] != b"200":
            self.errors.append(self.came[0][:200])
        now = time.perf_counter()
        self.times.append(now - self.began)
        if now < self.until:
            self._ask()
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self.until:
            self.errors.append(b"the connection was lost")
        if not self.over.done():
            self.over.set_result(None)


def measure(service: Service, sets: int, connections: int, seconds: float) -> dict[str, Any]:
    """Ask for so many seconds, after a tenth of that to warm up."""
    import uvloop

    return uvloop.run(_measure(service, sets, connections, seconds))


async def _measure(service: Service, sets: int, connections: int, seconds: float) -> dict[str, Any]:
    content = body(sets)
    head = (
        "POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    times: list[float] = []
    errors: list[bytes] = []
    loop = asyncio.get_running_loop()
    make: Callable[[], Asking] = lambda: Asking(head.encode() + content, times, errors)  # noqa: E731
    asking = [(await loop.create_connection(make, "127.0.0.1", service.port))[1]
              for _ in range(connections)]  # fmt: skip
    await asyncio.sleep(seconds / 10)
    times.clear()
    before = time.perf_counter(), time.process_time(), service.seconds(), service.megabytes()
    for one in asking:
        one.until = before[0] + seconds
    await asyncio.gather(*(one.over for one in asking))
    wall = time.perf_counter() - before[0]
    times.sort()
    count, memory = len(times), service.megabytes()
    return {
        "connections": connections, "seconds": wall, "requests": count, "errors": len(errors),
        "a_second": count / wall, "sets_a_second": sets * count / wall,
        "p50": 1e3 * times[count // 2], "p99": 1e3 * times[int(0.99 * count)],
        "worst": 1e3 * times[-1], "megabytes": memory,
        "growth": 100 * max(0.0, memory / before[3] - 1),
        "service_ms": 1e3 * (service.seconds() - before[2]) / count,
        "client_ms": 1e3 * (time.process_time() - before[1]) / count,
        "kilobytes": len(content) / 1e3,
    }  # fmt: skip


def met(limit: Limit, result: dict[str, Any]) -> bool:
    value = result[limit.load][limit.figure]
    return value >= limit.bound if limit.least else value <= limit.bound


def as_text(result: dict[str, Any]) -> str:
    loads = [result["one"], result["thousand"]]

    def row(words: str, style: str, name: str) -> list[str]:
        return [words, *(style.format(one[name]) for one in loads)]

    rows = [
        ["", "one set a request", "1,000 sets a request"],
        row("connections", "{}", "connections"),
        row("seconds", "{:.0f}", "seconds"),
        row("body, kB", "{:,.1f}", "kilobytes"),
        row("requests per second", "{:,.0f}", "a_second"),
        row("sets per second", "{:,.0f}", "sets_a_second"),
        row("median, ms", "{:.1f}", "p50"),
        row("99 %, ms", "{:.1f}", "p99"),
        row("longest, ms", "{:.1f}", "worst"),
        row("errors", "{}", "errors"),
        row("CPU of the service a request, ms", "{:.3f}", "service_ms"),
        row("CPU of the client a request, ms", "{:.3f}", "client_ms"),
        row("memory of the service, MB", "{:.0f}", "megabytes"),
    ]
    lines = []
    for limit in LIMITS:
        value = limit.style.format(result[limit.load][limit.figure])
        bound = f"at {'least' if limit.least else 'most'} {limit.style.format(limit.bound)}"
        lines.append(f"- {limit.words}: {value}, wanted {bound}: "
                     f"{'met' if met(limit, result) else 'missed'}.")  # fmt: skip
    parts = [
        "## The service under load",
        f"One process of `setwise serve` with {result['model']}, 10 items × 8 features, and the "
        "client that asks, on the same machine. Growth of memory is that after the warm-up.",
        report.table(rows),
        "\n".join(lines),
        report.provenance(result),
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()

"""What attackers and bad days do to a service: against loopback, for a bounded time and number."""

import os
import re
import select
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import setwise as sw
from serving import Process, answer, got_metrics, request
from setwise._errors import InputError
from setwise.server import Settings, run

BODY = {"items": [{"x0": 1.0, "x1": 0.5}, {"x0": -1.0, "x1": 2.0}]}
LARGE = {"items": [{"x0": n / 100, "x1": -n / 50} for n in range(200)], "reference": True}
READY = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    choices = sw.datasets.generate("mnl", sets=80, items=3, features=2, seed=0).choices
    found = sw.LinearContextLogit().fit(choices)
    path = tmp_path_factory.mktemp("served") / "trips.setwise"
    found.save(path, reference=sw.estimators.reference_mnl(found, choices))
    return path


def small_window(service: Process, size: int = 4096) -> socket.socket:
    """A connection that takes little before it is read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", service.port))
    return connection


def until(what: object, seconds: float) -> bool:
    """Whether something comes true in this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.1)
    return False


def status_of(got: bytes) -> int:
    return int(got[9:12] or 0)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it, or refused the request."""
    try:
        while select.select([connection], [], [], 0)[0]:
            got = connection.recv(1 << 20)
            if not got or got.startswith(b"HTTP/1.1 503"):
                return True
    except OSError:
        return True
    return False


def test_clients_that_read_no_answer_are_cut_and_hold_little_memory(model):
    limits = ("--timeout", "3", "--max-body", "1000000")  # answers may hold 4 MB
    with Process(model, *limits) as service:
        service.send(request("/v1/explain", LARGE))
        before = service.megabytes()
        first, second = (most_while_slow(service, 40) for _ in range(2))
        assert got_metrics(service)['setwise_connections_cut_total{why="unread"}'] >= 30
        assert first < before + 100  # 40 answers are 200 MB; four are made at a time
        assert second < first + 20


def most_while_slow(service: Process, clients: int) -> float:
    """The most memory until all these clients, who read nothing, are cut or refused."""
    most = 0.0
    with ExitStack() as held:
        slow = [held.enter_context(small_window(service)) for _ in range(clients)]
        for connection in slow:
            connection.sendall(request("/v1/explain", LARGE))
        end = time.monotonic() + 8
        while time.monotonic() < end:
            assert service.post("/v1/predict", BODY)[0] == 200
            most = max(most, service.megabytes())
            time.sleep(0.1)
        assert until(lambda: all(map(is_closed, slow)), 20)
    return most


def test_a_client_that_reads_slowly_but_reads_gets_its_answer(model):
    with Process(model, "--timeout", "2") as service, small_window(service, 65536) as slow:
        slow.sendall(request("/v1/explain", LARGE))
        got, began = b"", time.monotonic()
        while b"\r\n\r\n" not in got or len(got) < length_of(got):
            more = slow.recv(20_000)
            assert more, f"cut after {time.monotonic() - began} s and {len(got)} bytes"
            got += more
            time.sleep(0.02)
        assert time.monotonic() - began > 3  # longer than --timeout
        assert status_of(got) == 200


def length_of(got: bytes) -> int:
    head, _, _ = got.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head)
    assert found is not None
    return len(head) + 4 + int(found[1])


def test_bodies_that_trickle_in_do_not_make_others_wait(model):
    with Process(model) as service, ExitStack() as held:
        whole = request("/v1/predict", BODY)
        slow = [held.enter_context(service.connect()) for _ in range(70)]
        began = time.monotonic()
        for connection in slow:
            connection.sendall(whole[:-40])
        statuses: Counter[int] = Counter()
        answers: list[bytes] = []
        while slow and time.monotonic() - began < 9:
            statuses[service.post("/v1/predict", BODY)[0]] += 1
            for connection in list(slow):
                if select.select([connection], [], [], 0)[0]:
                    answers.append(answer(connection))
                    slow.remove(connection)
                else:
                    connection.sendall(b" ")  # never fast enough, and never silent
            time.sleep(0.3)
        assert set(statuses) == {200}
        assert slow == []  # the least rate cut them before the time of --timeout was over
        assert {status_of(got) for got in answers} == {408}


def test_bodies_that_arrive_hold_little_memory(model):
    with Process(model, "--max-body", "4000000", "--timeout", "5") as service, ExitStack() as held:
        before = service.megabytes()
        head = request("/v1/predict", b" " * 4_000_000)[:200]
        for _ in range(40):  # 160 MB
            connection = held.enter_context(service.connect())
            connection.settimeout(1)
            with ExitStack() as cut:
                cut.callback(lambda: None)
                try:
                    connection.sendall(head + b" " * 3_900_000)
                except OSError:
                    continue
        assert service.post("/v1/predict", BODY)[0] == 200
        assert service.megabytes() < before + 60
        assert got_metrics(service)['setwise_connections_cut_total{why="arriving"}'] >= 20


def test_connections_are_counted_and_capped(model):
    with Process(model, "--max-connections", "20") as service, ExitStack() as held:
        idle = [held.enter_context(service.connect()) for _ in range(30)]
        for connection in idle[-5:]:
            connection.sendall(READY)
            assert status_of(answer(connection)) == 200
        # Those that were idle longest had to go; a newcomer is answered.
        assert until(lambda: sum(map(is_closed, idle)) >= 10, 5)
        assert service.post("/v1/predict", BODY)[0] == 200
        metrics = got_metrics(service)
        assert metrics["setwise_connections"] <= 20
        assert metrics['setwise_connections_cut_total{why="crowded"}'] >= 10


def test_where_all_connections_are_busy_a_newcomer_is_refused(model):
    with Process(model, "--max-connections", "5") as service, ExitStack() as held:
        for _ in range(5):
            connection = held.enter_context(service.connect())
            connection.sendall(request("/v1/predict", BODY)[:-5])
        time.sleep(0.2)
        got = service.send(request("/v1/predict", BODY))
        assert status_of(got) == 503
        assert b"retry-after: 1" in got


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", ""])
def test_foreign_hosts_are_refused(model, host):
    with Process(model) as service:
        for path in ("/v1/model", "/", "/metrics", "/page/main.js", "/v2"):
            got = service.send(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
            assert status_of(got) == 421, path
            assert b"--allowed-host" in got
        for known in ("localhost", f"LOCALHOST:{service.port}", "127.0.0.1", "[::1]:80"):
            got = service.send(f"GET /v1/model HTTP/1.1\r\nhost: {known}\r\n\r\n".encode())
            assert status_of(got) == 200, known


def test_hosts_that_are_named_are_served(model):
    with Process(model, "--allowed-host", "models.example") as service:
        for host, status in (("Models.example:443", 200), ("localhost", 200), ("x.example", 421)):
            got = service.send(f"GET /v1/model HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
            assert status_of(got) == status, host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_address_that_others_reach_needs_a_token_or_a_word(model, host):
    with pytest.raises(InputError, match="--no-token"):
        run(Settings((model,)), host, 0)


def test_a_token_and_none_contradict_each_other(model):
    with pytest.raises(InputError, match="--no-token"):
        run(Settings((model,), token="s3cret"), "127.0.0.1", 0, no_token=True)


# Workers


@contextmanager
def two_workers(model: Path) -> Iterator[Process]:
    with Process(model, "--workers", "2") as service:
        assert until(lambda: got_metrics(service)["setwise_model_loads_total"] == 2, 20)
        yield service


def test_a_stopped_worker_is_replaced_and_others_answer_meanwhile(model):
    with two_workers(model) as service:
        first = service.workers()
        os.kill(first[0], signal.SIGSTOP)
        end = time.monotonic() + 30
        while first[0] in service.workers() and time.monotonic() < end:
            began = time.monotonic()
            assert status_of(service.send(READY)) == 200
            assert time.monotonic() - began < 2
            time.sleep(0.05)
        assert first[0] not in service.workers()
        assert until(lambda: got_metrics(service)["setwise_model_loads_total"] == 3, 20)
        assert len(service.workers()) == 2
        _, said = service.stop()
    assert "does not answer; starting another one" in said


def test_without_a_model_file_workers_wait_and_say_so_once(model, tmp_path):
    path = tmp_path / "gone.setwise"
    path.write_bytes(model.read_bytes())
    with two_workers(path) as service:
        path.unlink()
        for worker in service.workers():
            os.kill(worker, signal.SIGKILL)
        answered = 0
        end = time.monotonic() + 6
        while time.monotonic() < end:
            began = time.monotonic()
            answered += status_of(service.send(READY)) == 503
            assert time.monotonic() - began < 2
            time.sleep(0.1)
        assert answered > 10
        path.write_bytes(model.read_bytes())
        assert until(lambda: status_of(service.send(READY)) == 200, 20)
        assert service.post("/v1/predict", BODY)[0] == 200
        _, said = service.stop()
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if "there is no model file" in line]
    assert 2 <= len(lines) <= 8
    assert all("trying again in" in line for line in lines)


def test_saturating_clients_lose_nothing_when_the_service_ends(model):
    whole = request("/v1/predict", BODY)
    counts: Counter[str] = Counter()

    def ask() -> None:
        while True:
            try:
                connection = service.connect()
            except ConnectionRefusedError:
                return  # it has ended: nothing was asked
            with connection:
                again = True
                while again:
                    try:
                        connection.sendall(whole)
                        got = answer(connection)
                    except OSError as error:
                        got = b""
                        counts[repr(error)] += 1
                    counts["answered" if status_of(got) == 200 else "lost"] += 1
                    again = bool(got) and b"connection: close" not in got

    with Process(model, "--drain", "0.5") as service:
        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        began = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        code = service.process.wait(20)
        for thread in threads:
            thread.join()
        assert 0.5 < time.monotonic() - began < 5
    assert code == 0
    assert counts["lost"] == 0, counts
    assert counts["answered"] > 100


def test_the_time_to_drain_can_be_set(model):
    with Process(model, "--drain", "2") as service:
        service.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        time.sleep(1.2)
        assert status_of(service.send(READY)) == 503
        service.process.wait(10)
        assert 1.9 < time.monotonic() - began < 6

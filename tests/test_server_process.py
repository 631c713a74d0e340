"""The service as a process: start, drain and end, slow clients, and models replaced under load."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from serving import Process, answer, request
from setwise._errors import InputError
from setwise.choices.reading import records
from setwise.cli import serve
from setwise.server import Settings, run

BODY = {"items": [{"x0": 1.0, "x1": 0.5}, {"x0": -1.0, "x1": 2.0}]}


def fitted(seed: int) -> sw.MNL:
    return sw.MNL().fit(
        sw.datasets.generate("mnl", sets=80, items=3, features=2, seed=seed).choices
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("served") / "trips.setwise"
    fitted(0).save(path)
    return path


@pytest.fixture(scope="module")
def service(model):
    with Process(model, "--timeout", "1", "--max-body", "100000") as found:
        yield found


def test_a_request_over_the_network_is_answered(service, model):
    status, got = service.post("/v1/predict", BODY)
    assert status == 200
    table = {"set_id": [0, 0], "x0": [1.0, -1.0], "x1": [0.5, 2.0]}
    expected = sw.load(model).predict_proba(table)
    np.testing.assert_allclose(got["sets"][0]["probabilities"], expected, atol=1e-5)


def test_the_process_never_imports_the_engine(model):
    script = (
        "import sys; from pathlib import Path; import setwise.server as s\n"
        "s.application(s.Service(s.Settings((Path(sys.argv[1]),))))\n"
        "print([name for name in ('jax', 'polars', 'sklearn', 'optax') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(model)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_connection_is_kept_for_further_requests(service):
    with service.connect() as connection:
        for _ in range(3):
            connection.sendall(request("/v1/predict", BODY))
            assert answer(connection).startswith(b"HTTP/1.1 200")


def test_a_chunked_body_is_taken_up_to_the_limit(service):
    head = (
        b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    body = json.dumps(BODY).encode()
    whole = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    assert service.send(head, whole).startswith(b"HTTP/1.1 200")
    chunk = b"%x\r\n%b\r\n" % (60_000, b" " * 60_000)
    assert service.send(head, chunk, chunk, b"0\r\n\r\n").startswith(b"HTTP/1.1 413")
    assert service.post("/v1/predict", BODY)[0] == 200


def test_a_slow_body_is_given_up_and_others_are_not_kept_waiting(service):
    slow = service.connect()
    slow.sendall(request("/v1/predict", BODY)[:-10])
    began = time.monotonic()
    assert service.post("/v1/predict", BODY)[0] == 200
    assert time.monotonic() - began < 0.9
    got = answer(slow)
    assert got.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in got
    slow.close()


def test_requests_that_never_end_are_cut(service):
    starts = (
        b"", b"POST /v1/predict HT", b"GET / HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n",
    )  # fmt: skip
    connections = [service.connect() for _ in starts]
    began = time.monotonic()
    for connection, start in zip(connections, starts, strict=True):
        connection.sendall(start)
    for connection in connections:
        while connection.recv(65536):
            pass
        connection.close()
    assert 1.5 < time.monotonic() - began < 5


def test_a_head_without_end_is_cut(service):
    with service.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
        with pytest.raises(OSError):  # noqa: PT012
            for _ in range(10_000):
                connection.sendall(b"x-more: " + b"y" * 1000 + b"\r\n")
    assert service.post("/v1/predict", BODY)[0] == 200


@pytest.mark.parametrize(
    "path",
    [b"/page/../app.py", b"/page/%2e%2e/app.py", b"/page/..%2fapp.py", b"/page/%2fetc/passwd",
     b"/page/....//app.py", b"//etc/passwd", b"/page/%00"],
)  # fmt: skip
def test_no_path_leads_out_of_the_page(service, path):
    got = service.send(b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert got[9:12] in (b"400", b"404"), got
    assert b"import" not in got


def test_what_is_not_http_is_refused(service):
    for garbage in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"HELLO\r\n\r\n", b"\0" * 64):
        assert service.send(garbage).startswith((b"HTTP/1.1 400", b""))
    assert service.post("/v1/predict", BODY)[0] == 200


def test_sigterm_lets_requests_end(model):
    whole = request("/v1/predict", BODY)
    with Process(model) as service, service.connect() as waiting, service.connect() as other:
        waiting.sendall(whole[:-5])
        time.sleep(0.2)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        other.sendall(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        got = answer(other)
        assert got.startswith(b"HTTP/1.1 503")
        assert b"connection: close" in got
        time.sleep(1.0)  # it waits for the request longer than it waits at least
        assert service.process.poll() is None
        waiting.sendall(whole[-5:])
        assert answer(waiting).startswith(b"HTTP/1.1 200")
        service.process.wait(10)
        code, said = service.stop()
    assert code == 0, said
    assert "Traceback" not in said


def test_a_new_model_is_taken_over_without_losing_a_request(tmp_path):
    path = tmp_path / "trips.setwise"
    models = [fitted(seed) for seed in range(6)]
    models[0].save(path)
    choices = sw.datasets.generate("mnl", sets=20, items=3, features=2, seed=9).choices
    known = [model.predict_proba(choices) for model in models]
    whole = request("/v1/predict", {"sets": records(choices)})
    seen: list[int] = []
    wrong: list[object] = []
    over = threading.Event()

    def hammer() -> None:
        with service.connect() as connection:
            while not over.is_set():
                connection.sendall(whole)
                head, _, body = answer(connection).partition(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200"):
                    wrong.append(head)
                    return
                got = np.concatenate([one["probabilities"] for one in json.loads(body)["sets"]])
                near = [n for n, one in enumerate(known) if np.abs(got - one).max() < 1e-5]
                wrong.extend([got] * (len(near) != 1))
                seen.extend(near)

    def replace_all() -> None:
        for number, model in enumerate(models[1:], 1):
            if number == 3:
                path.write_bytes(path.read_bytes()[:-100])  # broken: the old one stays
                time.sleep(1.0)
                assert seen[-1] == 2
            model.save(path)
            deadline = time.monotonic() + 10
            while seen[-1:] != [number] and time.monotonic() < deadline:
                time.sleep(0.05)
            assert seen[-1] == number

    with Process(path) as service:
        threads = [threading.Thread(target=hammer) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            replace_all()
        finally:
            over.set()
            for thread in threads:
                thread.join()
        metrics = service.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").decode()
        code, said = service.stop()
    assert wrong == []
    assert set(seen) == set(range(6))
    assert "setwise_model_loads_total 6" in metrics
    assert "setwise_model_load_failures_total 1" in metrics
    assert "is not used, the old model stays" in said
    assert code == 0


@pytest.mark.slow
def test_several_processes_share_the_work_and_their_counts(model):
    with Process(model, "--workers", "2") as service:
        _check_workers(service)
        code, said = service.stop()
    assert code == 0, said
    assert "died; starting another one" in said


def _check_workers(service: Process) -> None:
    for _ in range(40):  # each on a connection of its own
        assert service.post("/v1/predict", BODY)[0] == 200
    pid = service.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in children}
    workers = [child for child, command in commands.items() if "spawn_main" in command]
    assert len(workers) == 2
    text = service.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").decode()
    assert 'setwise_requests_total{route="/v1/predict",model="trips",status="200"} 40' in text
    assert "setwise_model_loads_total 2" in text
    os.kill(workers[0], signal.SIGKILL)  # another one takes its place
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        text = service.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").decode()
        if "setwise_model_loads_total 3" in text:
            break
        time.sleep(0.2)
    assert "setwise_model_loads_total 3" in text


# The command


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (("none.setwise", None), "there is no model file"),
        (("broken.setwise", None), "truncated"),
        (("trips.setwise", "broken.setwise"), "truncated"),
        (("trips.setwise", None), "cannot listen on 127.0.0.1"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(model, files, words):
    model.with_name("broken.setwise").write_bytes(model.read_bytes()[:-10])
    served, reference = (None if file is None else model.with_name(file) for file in files)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match=words):
        run(Settings((served,), reference), "127.0.0.1", taken.getsockname()[1])


def test_the_command_says_it_in_one_sentence(tmp_path):
    command = [sys.executable, "-m", "setwise", "serve", str(tmp_path / "none.setwise")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no model file")
    assert "Traceback" not in done.stderr


def test_without_the_extra_the_command_says_what_to_install(model, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("setwise.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(
        InputError, match=r"'msgspec'; install it with: pip install 'setwise\[serve"
    ):
        serve.serve([model])


def test_the_token_comes_from_a_file_or_the_environment(model, tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    with Process(model, "--token-file", str(file)) as service:
        assert service.post("/v1/predict", BODY)[0] == 401
        assert service.post("/v1/predict", BODY, "authorization: Bearer s3cret")[0] == 200
    assert serve._token(None) is None
    monkeypatch.setenv("SETWISE_TOKEN", "other")
    assert serve._token(None) == "other"
    assert serve._token(file) == "s3cret"
    with pytest.raises(InputError, match="cannot read the token file"):
        serve._token(tmp_path / "none")
    monkeypatch.setenv("SETWISE_TOKEN", "")  # a slip, not a wish to be open
    with pytest.raises(InputError, match="the token must be plain ASCII"):
        Settings((model,), token=serve._token(None))

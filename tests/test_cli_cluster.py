"""``--cluster`` on the command line, without a cluster: what is printed where, and a lost head."""

import json
import socket
import subprocess
import sys

import pytest

from setwise._errors import InputError
from setwise.cluster.ray_executor import MAX_LOSSES, _give_up

PRINTING = """
import os, sys
from setwise.cli import show
from setwise.cli.cluster import apart_from_results
with apart_from_results():
    print("Ray's Python")
    os.write(1, b"Ray's C++\\n")
    os.system("echo a process")
show.as_json({"top1": 0.5})
"""

WATCHING = """
import sys, time
from setwise.cli.cluster import end_when_lost
from setwise.cluster import ray_executor
ray_executor.SECONDS_OF_SILENCE, ray_executor.SECONDS_BETWEEN_PINGS = 0.3, 0.1
with ray_executor.watched(sys.argv[1], end_when_lost):
    print("watching", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_standard_output_has_the_json_only():
    ended = subprocess.run([sys.executable, "-c", PRINTING], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"top1": 0.5}
    for words in ("Ray's Python", "Ray's C++", "a process"):
        assert words in ended.stderr


def test_a_closed_standard_output_is_no_error():
    script = f"exec {sys.executable} -c 'from setwise.cli.cluster import apart_from_results\n"
    script += "with apart_from_results(): pass' >&-"
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 0


def watching(address, seconds):
    command = [sys.executable, "-c", WATCHING, address, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_cluster_whose_head_is_killed_ends_with_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        program = watching(address, 60)
        assert program.stdout.readline() == "watching\n"
    _, said = program.communicate(timeout=60)
    assert program.returncode == 2
    assert said.startswith(f"error: the Ray cluster at {address} was lost")
    assert len(said.splitlines()) == 1


def test_a_head_that_answers_is_let_alone():
    with socket.create_server(("127.0.0.1", 0), backlog=64) as head:
        program = watching(f"127.0.0.1:{head.getsockname()[1]}", 1.5)
        _, said = program.communicate(timeout=60)
    assert (program.returncode, said) == (0, "")


def test_a_job_that_is_lost_again_and_again_says_what_may_be():
    _give_up(MAX_LOSSES, RuntimeError("the raylet died"))
    with pytest.raises(InputError, match=r"\(the raylet died\); if Ray itself ended"):
        _give_up(MAX_LOSSES + 1, RuntimeError("the raylet died."))


@pytest.mark.slow
def test_a_real_clusters_json_can_be_read(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'setwise[cluster]'")
    words = ["compare", "modecanada", "--models", "random", "--splits", "2", "--max-sets", "100"]
    command = [sys.executable, "-m", "setwise", *words, "--cluster=local", "--json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(json.loads(ended.stdout)["cells"]) == 2

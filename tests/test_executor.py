"""Executors on this machine: every job has one result, whoever runs it."""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import setwise as sw
from clusters import complaining, greeting, last, meeting, opened, sleeping, warning
from setwise._errors import InputError
from setwise._executor import Executor, ProcessExecutor, SerialExecutor
from setwise.comparison import compare
from setwise.comparison.comparison import tune_splits


@pytest.fixture(scope="module")
def processes():
    with ProcessExecutor(2) as executor:
        yield executor


@pytest.fixture(params=["serial", "processes"])
def executor(request, processes):
    return processes if request.param == "processes" else SerialExecutor()


def test_each_job_has_one_result_and_sends_messages(executor):
    assert isinstance(executor, Executor)
    sent = {}
    found = dict(executor.map_unordered(greeting, 6, lambda n: 10 * n, sent.__setitem__))
    assert {n: text for n, (text, _) in found.items()} == {n: f"hello {10 * n}" for n in range(6)}
    assert sent == {n: f"about to greet {10 * n}" for n in range(6)}


def test_jobs_share_values(executor):
    for values in (np.arange(4.0), np.arange(4.0) + 1):
        shared = executor.put(values)
        found = executor.map_unordered(opened, 4, lambda n, shared=shared: (shared, n))
        assert sorted(found) == list(enumerate(values))


def test_errors_come_back_as_they_are(executor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match=r"^column 'price' is missing$"):
            list(executor.map_unordered(complaining, 1, str))


def test_processes_run_jobs_at_the_same_time(processes, tmp_path):
    jobs = processes.map_unordered(meeting, 2, lambda number: (tmp_path, number, 2))
    assert len({process for _, process in jobs} - {os.getpid()}) == 2


def test_warnings_come_back_once_per_job(processes):
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        assert list(processes.map_unordered(warning, 1, int)) == [(0, 0)]
    assert [str(one.message) for one in raised] == ["this is odd"]


def test_a_result_that_cannot_travel_is_an_error(processes):
    with pytest.raises(Exception, match="lambda"):
        list(processes.map_unordered(unpicklable, 1, int))


def unpicklable(job, send):
    return lambda: job


def test_a_worker_that_dies_is_an_error_and_others_come(processes, tmp_path):
    with pytest.raises(InputError, match="a worker process died"):
        list(processes.map_unordered(last, 1, lambda _: (tmp_path / "seen", 99)))
    assert len(list(processes.map_unordered(greeting, 3, int))) == 3


def test_a_worker_killed_while_it_waits_is_an_error():
    with ProcessExecutor(1) as executor:
        ((_, (_, process)),) = executor.map_unordered(greeting, 1, int)
        os.kill(process, 9)
        executor._workers[0].process.join()
        with pytest.raises(InputError, match="a worker process died"):
            list(executor.map_unordered(greeting, 1, int))
        assert len(list(executor.map_unordered(greeting, 1, int))) == 1


def test_jobs_end_with_who_asked_for_them(processes):
    begin = time.monotonic()
    jobs = processes.map_unordered(sleeping, 2, int, lambda number, message: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        next(jobs)
    assert time.monotonic() - begin < 30  # they would sleep for a minute


PARENT = """
import os
from clusters import sleeping
from setwise._executor import ProcessExecutor
if __name__ == "__main__":
    executor = ProcessExecutor(1)
    def on_message(number, message):
        print(executor._workers[0].process.pid, flush=True)
        os.kill(os.getpid(), 9)
    list(executor.map_unordered(sleeping, 1, int, on_message))
"""


def test_workers_die_with_a_killed_parent(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, tmp_path / "parent.py"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    worker, end = int(ended.stdout), time.monotonic() + 20
    while alive(worker):
        assert time.monotonic() < end, "the worker lives on"
        time.sleep(0.1)


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_comparison_is_the_same_in_processes(processes):
    choices = sw.datasets.generate("mnl", sets=60, items=3).choices
    found = [
        compare(["mnl", "svmrank"], choices, splits=2, executor=executor).values("nll")
        for executor in (None, processes)
    ]
    np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("pruning", [False, True])
def test_tuning_is_the_same_in_processes(processes, pruning):
    choices = sw.datasets.generate("mnl", sets=60, items=3).choices
    small = sw.SDW(dimension=2, hidden=4, training=sw.Training(epochs=2))
    tuning = sw.Tuning(trials=4, batch=2, storage=None, pruning=pruning)
    here, there = (
        [
            (one.tuned.trials, dict(one.test))
            for one in tune_splits(small, choices, splits=2, tuning=tuning, executor=executor)
        ]
        for executor in (None, processes)
    )
    assert here == there

"""kill -9 in the middle of tuning, then the same call: every trial finished, each once."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from contextlib import closing

import pytest
from optuna.trial import TrialState

from setwise.tuning.storage import Storage

TRIALS = 100
WORKER = """
import json, sys
import setwise as sw
choices = sw.datasets.generate("mnl", sets=60, items=3, features=2).choices
train, valid, _ = sw.split(choices)
model = sw.ChoiceModel("lam", dimension=2, training=sw.Training(epochs=3, batch_size=16))
tuning = sw.Tuning(trials=100, batch=10, space="paper", storage=sys.argv[1] or None)
found = sw.tune(model, train, valid, tuning=tuning)
print(json.dumps([found.values, found.value, [trial.values for trial in found.trials]]))
"""


def worker(storage):
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", WORKER, str(storage)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finished(base):
    return [
        trial
        for study in base.get_all_studies()
        for trial in base.get_all_trials(study._study_id)
        if trial.state.is_finished() and trial.state != TrialState.FAIL
    ]


def wait_for(number, base, process, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.fail("the worker ended before it could be killed")
        if len(finished(base)) >= number:
            return
        time.sleep(0.02)
    pytest.fail(f"there were no {number} finished trials after {seconds} s")


def kill(process):
    with process:
        process.send_signal(signal.SIGKILL)


def check_each_once(base):
    trials = finished(base)
    assert len(trials) == TRIALS
    settings = Counter(tuple(sorted(trial.params.items())) for trial in trials)
    assert max(settings.values()) == 1


@pytest.mark.slow
def test_on_sqlite(tmp_path):
    path = tmp_path / "studies.sqlite"
    with closing(Storage(path)) as storage:
        for number in (10, 20):  # early: the rest must not end while we look
            process = worker(path)
            wait_for(number, storage.base, process)
            kill(process)
            assert number <= len(finished(storage.base)) < TRIALS
        resumed, _ = worker(path).communicate(timeout=240)
        check_each_once(storage.base)
    never_killed, _ = worker("").communicate(timeout=240)
    assert resumed == never_killed


@pytest.fixture
def postgresql(tmp_path_factory):
    pgserver = pytest.importorskip("pgserver", reason="needs PostgreSQL (the wheel 'pgserver')")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about where its files are
            server = pgserver.get_server(tmp_path_factory.mktemp("pg"))
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"PostgreSQL does not start here: {error}")
    yield server.get_uri()
    server.cleanup()


@pytest.mark.slow
def test_on_postgresql_with_two_workers(postgresql):
    with closing(Storage(postgresql)) as storage:
        first, second = worker(postgresql), worker(postgresql)
        wait_for(20, storage.base, first)
        kill(first)
        third = worker(postgresql)
        outputs = [process.communicate(timeout=240)[0] for process in (second, third)]
        check_each_once(storage.base)
    assert outputs[0]
    assert outputs[0] == outputs[1]

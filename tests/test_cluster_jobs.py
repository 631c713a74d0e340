"""The same work on a real Ray cluster of two nodes: equal results, whoever dies."""

import json
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import setwise as sw
from clusters import (
    Counting,
    complaining,
    greeting,
    kill,
    last,
    meeting,
    opened,
    other_node,
    sleeping,
    two_nodes,
    warning,
)  # fmt: skip
from setwise._errors import InputError
from setwise._executor import SerialExecutor
from setwise.cli import app
from setwise.comparison.comparison import compare, tune_splits
from setwise.paper.reproduction import PRESETS, ReproductionData, protocol, reproduce
from setwise.scoring import load_scorer
from setwise.scoring.predict_folder import predict_folder

pytest.importorskip("ray", reason="Ray is not installed: pip install 'setwise[cluster]'")

pytestmark = [
    pytest.mark.slow,  # Ray and its workers take a minute to start and import
    pytest.mark.filterwarnings("default"),  # Ray's own are not ours to mend
]

QUICK = PRESETS["quick"]
TINY = replace(QUICK, splits=2, sets=40, trials=2, training=replace(QUICK.training, epochs=2))
SMALL = sw.SDW(dimension=2, hidden=4, training=sw.Training(epochs=2))
METHODS = {"Ours": ("sdw",), "IIA": ("mnl", "svmrank"), "basic": ("adarank", "random")}


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as started:
        yield started


@pytest.fixture
def executor(cluster):
    import ray

    from setwise.cluster import RayExecutor

    return Counting(RayExecutor(ray))


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.generate("mnl", sets=60, items=3).choices


def test_each_job_has_one_result_and_tells_meanwhile(executor):
    told = {}
    found = dict(executor.map_unordered(greeting, 6, lambda number: 10 * number, told.__setitem__))
    assert {number: text for number, (text, _) in found.items()} == {
        number: f"hello {10 * number}" for number in range(6)
    }
    assert told == {number: f"about to greet {10 * number}" for number in range(6)}


def test_jobs_are_done_at_the_same_time(executor, tmp_path):
    assert executor.workers() == 2
    found = dict(executor.map_unordered(meeting, 2, lambda number: (tmp_path, number, 2)))
    assert len(set(found.values())) == 2  # processes


def test_the_serial_executor_does_the_same(executor):
    numbers = np.arange(4.0)
    for one in (executor, SerialExecutor()):
        shared = one.put(numbers)
        jobs = [(shared, number) for number in range(4)]
        found = one.map_unordered(opened, 4, jobs.__getitem__)
        assert sorted(found) == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)]


def test_errors_come_back_as_they_are(executor):
    with pytest.raises(InputError, match=r"^column 'price' is missing$"):
        list(executor.map_unordered(complaining, 1, str))


def test_warnings_come_back_once_a_job(executor):
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        assert list(executor.map_unordered(warning, 1, int)) == [(0, 0)]
    assert [str(one.message) for one in raised] == ["this is odd"]


def test_a_job_whose_process_dies_is_done_again(executor, tmp_path):
    assert list(executor.map_unordered(last, 1, lambda _: (tmp_path / "seen", 2))) == [(0, "done")]
    assert executor.sent == [0, 0, 0]


def test_a_job_that_always_kills_its_worker_is_given_up(executor, tmp_path):
    with pytest.raises(InputError, match="lost 6 times in a row"):
        list(executor.map_unordered(last, 1, lambda _: (tmp_path / "seen", 99)))


def test_an_interrupt_cancels_what_runs(cluster, executor):
    import ray

    def interrupt(number, told):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(executor.map_unordered(sleeping, 4, int, interrupt))
    end = time.monotonic() + 20
    while ray.available_resources().get("CPU", 0) < 2:
        assert time.monotonic() < end, "jobs still run"
        time.sleep(0.1)


# The three jobs


def numbers(results):
    """What tables are made of: all but where and when it was computed."""
    return [replace(one, seconds=0.0, machine="") for one in results.outcomes]


def compared(choices, executor=None, tuning=None, on_cell=None):
    models = {"mnl": sw.MNL(), "svmrank": sw.SVMRank(), "sdw": SMALL}
    found = compare(models, choices, splits=3, tuning=tuning, executor=executor, on_cell=on_cell)
    return [replace(cell, seconds=0.0) for cell in found.cells]


def tuned(choices, executor=None, on_trials=None, pruning=False):
    options = sw.Tuning(trials=12, batch=8, storage=None, pruning=pruning)
    found = tune_splits(
        SMALL, choices, splits=2, tuning=options, on_trials=on_trials, executor=executor
    )
    return [(one.tuned.trials, dict(one.test)) for one in found]


@pytest.fixture
def lake(choices, tmp_path):
    """A folder of tables, and a model."""
    for day in range(6):
        table = sw.datasets.generate("mnl", sets=30, items=3, seed=day).table
        path = tmp_path / "lake" / f"day={day}" / "trips.parquet"
        path.parent.mkdir(parents=True)
        table.write_parquet(path)
    sw.MNL().fit(choices).save(tmp_path / "trips.setwise")
    return tmp_path


def predicted(lake, out, executor=None, on_file=None):
    done = predict_folder(
        load_scorer,
        lake / "trips.setwise",
        lake / "lake",
        lake / out,
        executor=executor,
        on_file=on_file,
    )
    paths = sorted((lake / out).rglob("*.parquet"))
    return done, {path.relative_to(lake / out): path.read_bytes() for path in paths}


def leftovers(folder):
    """Files in the making that nobody finished."""
    return [path for path in folder.rglob("*") if ".part" in path.name or "unfin" in path.name]


@pytest.fixture(scope="module")
def alone(choices):
    """A comparison on this machine."""
    return compared(choices)


def test_a_comparison_is_the_same(choices, executor, alone):
    seen = []
    assert compared(choices, executor, on_cell=seen.append) == alone
    assert sorted(executor.sent) == list(range(9))
    assert len({(cell.model, cell.split) for cell in seen}) == len(seen) == 9


def test_a_comparison_that_tunes_is_the_same(choices, executor):
    tuning = sw.Tuning(trials=2, batch=2, storage=None)
    assert compared(choices, executor, tuning) == compared(choices, None, tuning)


@pytest.mark.parametrize("pruning", [False, True])
def test_tuning_is_the_same(choices, executor, pruning):
    assert tuned(choices, executor, pruning=pruning) == tuned(choices, pruning=pruning)


def test_a_reproduction_is_the_same_and_survives_its_driver(
    choices, executor, tmp_path, monkeypatch
):
    monkeypatch.setattr(protocol, "TABLE", METHODS)
    done, left = [], []

    def on_unit(unit, share, notes):
        if notes is not None:
            done.append(unit)
            if len(done) == 2:
                raise ConnectionError("the driver dies")

    sources = {"trips": ReproductionData(choices, (3,))}
    alone = reproduce(sources, tmp_path / "alone", "table1", TINY, workers=1)
    with pytest.raises(ConnectionError):
        reproduce(sources, tmp_path / "there", "table1", TINY, executor=executor, on_unit=on_unit)
    again = reproduce(
        sources, tmp_path / "there", "table1", TINY, executor=executor,
        on_plan=lambda plan, units, workers: left.extend(units),
    )  # fmt: skip
    assert numbers(again) == numbers(alone)
    assert not set(left) & set(done)
    assert len(left) + len(done) == 5
    assert not list(tmp_path.rglob("*.search"))


def test_predictions_are_the_same_and_nothing_is_done_twice(lake, executor):
    there, expected = predicted(lake, "alone")
    done, found = predicted(lake, "cluster", executor)
    assert found == expected
    assert (done.files, done.kept) == (6, 0)
    assert (
        done.rows
        == there.rows
        == sum(len(pl.read_parquet(path)) for path in lake.rglob("lake/*/*"))
    )
    assert leftovers(lake / "cluster") == []
    assert predicted(lake, "cluster", executor)[0] == (0, 0, 6)


def test_without_the_flag_nothing_of_ray_is_imported(lake):
    script = (
        "import sys; from setwise.cli import app\n"
        f"app(['predict', '{lake}/trips.setwise', '{lake}/lake', '--out', '{lake}/out'],"
        " standalone_mode=False)\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'ray'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
    assert len(list((lake / "out").rglob("*.parquet"))) == 6


def test_the_commands_take_a_cluster(cluster, lake):
    run = CliRunner().invoke(
        app,
        ["predict", "--cluster", f"{lake}/trips.setwise", f"{lake}/lake", "--out", f"{lake}/out"],
    )
    assert run.exit_code == 0, run.output
    words = ["compare", "modecanada", "--models", "mnl", "--splits", "2", "--max-sets", "100"]
    alone, there = (
        json.loads(CliRunner().invoke(app, [*words, "--json", *more]).stdout)
        for more in ([], ["--cluster"])
    )
    for row in alone["cells"] + there["cells"] + alone["leaderboard"] + there["leaderboard"]:
        row["seconds"] = 0.0
    assert alone == there


# A node dies in the middle


@pytest.fixture
def doomed(cluster):
    """Ends the other node when it is called; a new one comes after the test."""
    killed = []

    def end(*arguments):
        if not killed:
            killed.append(kill(cluster, other_node(cluster)))

    yield end
    if killed:
        cluster.add_node(num_cpus=1, object_store_memory=100_000_000)


def test_predictions_survive_a_lost_node(lake, executor, doomed):
    expected = predicted(lake, "alone")[1]
    done, found = predicted(lake, "cluster", executor, on_file=doomed)
    assert found == expected
    assert (done.files, done.kept) == (6, 0)
    assert leftovers(lake / "cluster") == []


def test_a_comparison_survives_a_lost_node(choices, executor, doomed, alone):
    seen = []

    def on_cell(cell):
        seen.append((cell.model, cell.split))
        doomed()

    assert compared(choices, executor, on_cell=on_cell) == alone
    assert len(set(seen)) == len(seen) == 9

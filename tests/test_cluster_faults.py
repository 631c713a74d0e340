"""A node is killed in the middle of every kind of work, again and again."""

from dataclasses import replace

import pytest

import setwise as sw
from clusters import SMALL as NODE
from clusters import Counting, kill, other_node, two_nodes
from setwise.comparison.comparison import compare, tune_splits
from setwise.paper.reproduction import PRESETS, ReproductionData, protocol, reproduce
from setwise.scoring import load_scorer
from setwise.scoring.predict_folder import predict_folder

pytest.importorskip("ray", reason="Ray is not installed: pip install 'setwise[cluster]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]

TIMES = 20
QUICK = PRESETS["quick"]
TINY = replace(QUICK, splits=2, sets=40, trials=4, training=replace(QUICK.training, epochs=2))
METHODS = {"Ours": ("sdw",), "IIA": ("mnl", "svmrank"), "basic": ("adarank", "random")}
FEW = sw.SDW(dimension=2, hidden=4, training=sw.Training(epochs=3))


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as started:
        yield started


@pytest.fixture(scope="module")
def lost():
    """For each test, whether its killed node had a job, which was done again."""
    return {}


@pytest.fixture
def executor(cluster, lost, request):
    import ray

    from setwise.cluster import RayExecutor

    counting = Counting(RayExecutor(ray), pause=0.5)
    yield counting
    lost.setdefault(request.node.originalname, []).append(counting.again > 0)


@pytest.fixture
def doomed(cluster):
    """Kills the other node at the so-manieth call; another comes after the test."""
    calls, killed = [], []

    def after(count):
        def end(*arguments):
            calls.append(arguments)
            if len(calls) == count:
                killed.append(kill(cluster, other_node(cluster)))

        return end

    yield after
    assert killed, "nothing was killed: there were too few calls"
    cluster.add_node(**NODE)
    cluster.wait_for_nodes()


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.generate("mnl", sets=60, items=3).choices


def compared(choices, **more):
    models = {"mnl": sw.MNL(), "svmrank": sw.SVMRank(), "sdw": FEW}
    found = compare(models, choices, splits=4, **more)
    return [replace(cell, seconds=0.0) for cell in found.cells]


def tuned(choices, **more):
    options = sw.Tuning(trials=16, batch=8, storage=None)  # three jobs a round
    found = tune_splits(FEW, choices, splits=3, tuning=options, **more)
    return [(one.tuned.trials, dict(one.test)) for one in found]


def reproduced(choices, folder, **more):
    sources = {"trips": ReproductionData(choices, (3,))}
    found = reproduce(sources, folder, "table1", TINY, **more)
    return [replace(one, seconds=0.0, machine="") for one in found.outcomes]


@pytest.fixture(scope="module")
def alone(choices, tmp_path_factory):
    """Everything on one machine."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "TABLE", METHODS)
        table = reproduced(choices, folder, workers=1)
    return {"compared": compared(choices), "tuned": tuned(choices), "reproduced": table}


@pytest.mark.parametrize("time", range(TIMES))
def test_a_comparison(choices, executor, doomed, alone, time):
    seen, end = [], doomed(1 + time % 6)

    def on_cell(cell):
        seen.append((cell.model, cell.split))
        end()

    assert compared(choices, executor=executor, on_cell=on_cell) == alone["compared"]
    assert len(set(seen)) == len(seen) == 12


@pytest.mark.parametrize("time", range(TIMES))
def test_tuning(choices, executor, doomed, alone, time):
    assert tuned(choices, executor=executor, on_trials=doomed(1 + time % 12)) == alone["tuned"]


@pytest.mark.parametrize("time", range(TIMES))
def test_a_reproduction(choices, executor, doomed, alone, time, tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "TABLE", METHODS)
    done, end = [], doomed(1 + time % 5)

    def on_unit(unit, share, notes):
        if notes is not None:
            done.append(unit)
        end()

    assert reproduced(choices, tmp_path, executor=executor, on_unit=on_unit) == alone["reproduced"]
    assert len(set(done)) == len(done) == 5
    assert sorted(set(executor.sent)) == list(range(5))


@pytest.mark.parametrize("time", range(TIMES))
def test_predictions(choices, executor, doomed, time, tmp_path):
    (tmp_path / "lake").mkdir()
    for day in range(8):
        table = sw.datasets.generate("mnl", sets=50, items=3, seed=day).table
        table.write_parquet(tmp_path / "lake" / f"{day}.parquet")
    sw.MNL().fit(choices).save(tmp_path / "trips.setwise")

    def predicted(out, **more):
        model = tmp_path / "trips.setwise"
        done = predict_folder(load_scorer, model, tmp_path / "lake", tmp_path / out, **more)
        files = (tmp_path / out).glob("*.parquet")
        return done, {path.name: path.read_bytes() for path in files}

    there, expected = predicted("alone")
    done, found = predicted("there", executor=executor, on_file=doomed(1 + time % 6))
    assert found == expected
    assert done == there
    hidden = [path.name for path in (tmp_path / "there").glob(".*")]
    assert hidden == [".setwise"]


def test_nodes_were_killed_at_work(lost):
    if not lost:
        pytest.skip("no node was killed")
    for test, busy in lost.items():
        # A kill at the end of a round of tuning, or when a node has just come, finds no job.
        assert sum(busy) >= len(busy) / 4, f"{test}: {sum(busy)} of {len(busy)} kills lost a job"

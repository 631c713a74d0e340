"""Several processes train as one does: the same batches, the same noise, the same model."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
import together
from setwise.training import checkpoint, shards
from setwise.training.processes import Group
from setwise.training.shards import ShardBatches, largest_share, share

# Processes that each import and compile: a minute and a half in all.
pytestmark = pytest.mark.slow

# Two float32 sums of the same gradients in another order: a few units in the last place a step.
ROUNDING = 1e-5


class Killed(Exception):
    """What a kill looks like from inside."""


@pytest.fixture(autouse=True)
def shards_as_they_were(monkeypatch):
    for name in together.SMALL_SHARDS:
        monkeypatch.setattr(shards, name, getattr(shards, name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two processes have left their models of all cases; a fit of one was begun by one."""
    folder = tmp_path_factory.mktemp("together")
    with pytest.MonkeyPatch.context() as patch:
        for name in together.SMALL_SHARDS:
            patch.setattr(shards, name, getattr(shards, name))
        patch.setattr(checkpoint, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)
        save, done = checkpoint.save, []

        def save_and_die(*arguments) -> None:
            save(*arguments)
            done.append(arguments)
            if len(done) == 4:  # in the middle of the second epoch
                raise Killed

        patch.setattr(checkpoint, "save", save_and_die)
        with pytest.raises(Killed):
            together.fitted("resumed", folder)
    together.start([together.__file__, str(folder), *together.CASES], 2)
    return folder


def weights(estimator) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(estimator.model_)]


def records(estimator) -> list[dict]:
    return list(np.ravel(estimator.history_))


@pytest.mark.parametrize("name", ["on_disk", "in_memory", "tiny", "resumed"])
def test_two_processes_fit_as_one(folder, tmp_path, name):
    alone = together.fitted(name, tmp_path)
    both = sw.load(folder / f"{name}.0.setwise")
    assert len(records(both)) == together.EPOCHS * together.CASES[name].ensemble
    for mine, yours in zip(records(alone), records(both), strict=True):
        assert yours == pytest.approx(mine, rel=ROUNDING)
    assert both.best_epoch_ == alone.best_epoch_
    for mine, yours in zip(weights(alone), weights(both), strict=True):
        np.testing.assert_allclose(yours, mine, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", ["on_disk", "in_memory", "tiny", "resumed"])
def test_all_processes_have_the_same_model_to_the_bit(folder, name):
    first, second = (sw.load(folder / f"{name}.{place}.setwise") for place in (0, 1))
    assert first.history_ == second.history_
    for mine, yours in zip(weights(first), weights(second), strict=True):
        np.testing.assert_array_equal(mine, yours)


def test_bad_input_of_the_first_process_is_an_error_of_all(folder):
    told = [(folder / f"refused.{place}.error").read_text() for place in (0, 1)]
    assert told[0] == told[1]
    assert "belongs to another fit" in told[0]


def test_the_command_line_joins_the_processes_that_slurm_started(tmp_path):
    out = tmp_path / "model.setwise"
    fit = ["fit", "modecanada", "--model", "sdw", "--dimension", "2", "--max-sets", "200"]
    told = together.start(
        ["-m", "setwise", *fit, "--epochs", "2", "--out", str(out), "--cluster=slurm"], 2
    )
    assert [f"wrote {out}" in " ".join(text.split()) for text in told] == [True, False]
    assert len(sw.load(out).history_) == 2


def test_without_slurm_its_processes_are_not_found(tmp_path):
    alone = [sys.executable, "-m", "setwise", "fit", "modecanada", "--out", "x", "--cluster=slurm"]
    done = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the processes to train with cannot be found" in done.stderr


def test_numbers_of_workers_need_a_cluster(tmp_path):
    from setwise.cli.cluster import Machines

    for cluster in (None, "slurm"):
        with pytest.raises(sw.InputError, match="give --cluster too"):
            Machines(cluster, 2, None)


@st.composite
def batches(draw) -> ShardBatches:
    """Every set once, in batches of which any may be full, in part or empty."""
    wide = draw(st.integers(1, 12))
    counts = draw(st.lists(st.integers(0, wide), min_size=1, max_size=8))
    order = iter(draw(st.permutations(range(sum(counts)))))
    sets = [[next(order) for _ in range(count)] + [-1] * (wide - count) for count in counts]
    numbers = [0 if count else -1 for count in counts]
    return ShardBatches(np.array(sets, np.int32), np.array(numbers, np.int32))


@given(whole=batches(), processes=st.integers(2, 7), seed=st.integers(0, 9))
@settings(deadline=None, max_examples=60)
def test_shares_are_a_batch_each_set_once(whole, processes, seed):
    shares = [share(whole, Group(processes, place)) for place in range(processes)]
    assert len({one.sets.shape for one in shares}) == 1
    for step, sets in enumerate(whole.sets):
        taken = [one.sets[step][one.sets[step] >= 0] for one in shares]
        assert sorted(np.concatenate(taken).tolist()) == sorted(sets[sets >= 0].tolist())
        assert max(map(len, taken)) - min(map(len, taken)) <= 1
        for one in shares:
            mine = one.sets[step] >= 0
            np.testing.assert_array_equal(sets[one.places[step][mine]], one.sets[step][mine])
    sizes = np.random.default_rng(seed).integers(1, 9, max(1, int((whole.sets >= 0).sum())))
    real = [one.sets[one.sets >= 0] for one in shares]
    most = (max(int(sizes[sets].sum()) for sets in real), max(map(len, real)))
    assert largest_share(whole, sizes, processes) == most


def test_a_process_reads_about_its_part_of_a_shard():
    order = np.random.default_rng(0).permutation(64_000).astype(np.int32).reshape(125, 512)
    whole = ShardBatches(order, np.zeros(125, np.int32))
    for place in range(8):
        sets = share(whole, Group(8, place)).sets
        spread = np.subtract(*np.percentile(sets[sets >= 0], [99, 1])) / 64_000
        assert 1 / 8 < spread < 1.5 / 8


def test_one_process_is_a_group_that_sends_nothing():
    group = Group()
    whole = ShardBatches(np.array([[3, 1]], np.int32), np.array([0], np.int32))
    assert share(whole, group) is whole
    assert group.from_first(lambda: b"x") == b"x"
    assert group.total(np.array([1.5, 2.0])).tolist() == [1.5, 2.0]

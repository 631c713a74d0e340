"""Training from disk, shard after shard, is training: the same steps give the same model."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import setwise as sw
from setwise.choices import Encoding, Schema
from setwise.choices import choices as choices_module
from setwise.models import ZOO, Sizes
from setwise.training import Options, checkpoint, fit, shards, trainer
from setwise.training.device import to_device
from setwise.training.shards import Shard, ShardBatches, Streamed

TRAINING = sw.Training(epochs=2, batch_size=16, dropout=0.1)
OPTIONS = TRAINING.over(Options())
SIZES = Sizes(dimension=3, components=2, hidden=4)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """A dozen shards of a few hundred sets."""
    monkeypatch.setattr(shards, "ROWS_PER_SHARD", 300)
    monkeypatch.setattr(shards, "SETS_PER_RUN", 8)
    monkeypatch.setattr(shards, "READERS", 3)
    monkeypatch.setattr(choices_module, "ROWS_PER_BLOCK", 250)


def drawn(items=3, sets: int = 600, weights: bool = False) -> sw.Choices:
    made = sw.datasets.generate("sda", sets=sets, items=items, features=3, seed=1)
    weight = np.random.default_rng(0).uniform(0.2, 3, sets)[made.columns["set_id"]]
    extra = {"weight": "w"} if weights else {}
    return sw.read(
        made.columns | {"w": weight}, set="set_id", chosen="chosen", items=made.items, **extra
    )


def stored(choices: sw.Choices, folder: Path) -> sw.Choices:
    sw.save_choices(choices, folder / "x.setwise-data")
    return sw.open_choices(folder / "x.setwise-data")


def parts(choices: sw.Choices) -> tuple[Encoding, Encoding]:
    train, valid = sw.split(choices, (0.8, 0.2))
    schema, seen = Schema.learn(train)
    return seen, schema.over(valid)


def model_of(train: Encoding):
    width = sum(one.width for one in train.items)
    return ZOO["sda_inner"].initial(width, SIZES, jnp.uint32(0))


def weights(model) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array))]


class SameOrderInMemory(Streamed):
    """All data on the device, as in memory, in the order in which shards would come."""

    def epoch(self, streams, epoch, done=0):
        data, plan = to_device(self._train.encoded()), self._plan(streams[0].seed, epoch)
        for members, batches in zip(plan.members, plan.batches, strict=True):
            real = batches.sets >= 0
            numbers = np.where(real, members[batches.sets], -1).astype(np.int32)
            yield Shard.of_one(data, ShardBatches(numbers, batches.numbers))


@pytest.mark.parametrize(("items", "weighted"), [(3, True), ((2, 9), False)])
def test_the_same_order_gives_the_same_model_to_the_bit(tmp_path, monkeypatch, items, weighted):
    train, valid = parts(stored(drawn(items, 600, weighted), tmp_path))
    assert train.choices.on_disk
    streamed = fit(model_of(train), train, valid, OPTIONS)
    monkeypatch.setattr(trainer, "Streamed", SameOrderInMemory)
    held = fit(model_of(train), train, valid.encoded(), OPTIONS)
    for mine, yours in zip(weights(streamed.model), weights(held.model), strict=True):
        np.testing.assert_array_equal(mine, yours)
    for mine, yours in zip(streamed.history, held.history, strict=True):
        assert mine["loss"] == yours["loss"]
        assert mine["nll"] == pytest.approx(yours["nll"], rel=1e-6)


@pytest.mark.parametrize("items", [3, (2, 24)])
def test_every_set_is_seen_once_an_epoch_in_another_order(tmp_path, items):
    train, _ = parts(stored(drawn(items), tmp_path))
    source = Streamed(train, 16)
    assert source.shards > 3
    plans = [source._plan(0, epoch) for epoch in (0, 1)]
    orders = []
    for plan in plans:
        seen = [members[batch.sets[batch.sets >= 0]]
                for members, batch in zip(plan.members, plan.batches, strict=True)]  # fmt: skip
        orders.append(np.concatenate(seen))
        assert sorted(orders[-1].tolist()) == list(range(len(train)))
        assert {len(batch.sets) for batch in plan.batches} == {len(plan.batches[0].sets)}
        for members, batch in zip(plan.members, plan.batches, strict=True):
            for sets, number in zip(batch.sets, batch.numbers, strict=True):
                widths = train.sizes[members[sets[sets >= 0]]]
                assert (widths <= source.widths[number]).all()
                assert number >= 0 or len(widths) == 0
    assert not np.array_equal(*orders)
    neighbours = np.abs(np.diff(orders[0])) == 1
    assert neighbours.mean() < 0.2


def test_data_of_one_shard_train_as_data_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "ROWS_PER_SHARD", 10_000)
    choices = drawn()
    kwargs = {"dimension": 3, "components": 2, "hidden": 4, "training": TRAINING}
    one = sw.SDA.paper(**kwargs).fit(choices)
    other = sw.SDA.paper(**kwargs).fit(stored(choices, tmp_path))
    for mine, yours in zip(weights(one.model_), weights(other.model_), strict=True):
        np.testing.assert_array_equal(mine, yours)


class Killed(Exception):
    """What a kill looks like from inside."""


@pytest.mark.parametrize("moment", [(0, 2), (1, 1)])
def test_a_fit_killed_within_an_epoch_goes_on_at_the_next_shard(tmp_path, monkeypatch, moment):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    train, valid = parts(stored(drawn(), tmp_path))
    whole = fit(model_of(train), train, valid, OPTIONS)

    def kill(epoch: int, done: int, of: int) -> None:
        if (epoch, done) == moment:
            raise Killed

    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        fit(model_of(train), train, valid, OPTIONS, 0, folder, None, kill)
    trained = []
    resumed = fit(
        model_of(train), train, valid, OPTIONS, 0, folder, None,
        lambda epoch, done, of: trained.append((epoch, done)),
    )  # fmt: skip
    assert trained[0] == (moment[0], moment[1] + 1)
    assert resumed.history == whole.history
    for mine, yours in zip(weights(resumed.model), weights(whole.model), strict=True):
        np.testing.assert_array_equal(mine, yours)


def test_a_checkpoint_of_other_data_on_disk_is_refused(tmp_path):
    train, valid = parts(stored(drawn(), tmp_path))
    fit(model_of(train), train, valid, OPTIONS, 0, tmp_path / "checkpoint")
    other = train.take(np.arange(len(train) - 1))
    with pytest.raises(sw.InputError, match="belongs to another fit"):
        fit(model_of(train), other, valid, OPTIONS, 0, tmp_path / "checkpoint")


def test_estimators_take_data_on_disk_for_everything(tmp_path):
    choices = drawn(sets=900)
    disk = stored(choices, tmp_path)
    train, valid, test = sw.split(disk)
    kwargs = {"dimension": 3, "components": 2, "hidden": 4, "training": TRAINING}
    model = sw.SDA.paper(**kwargs).fit(train, valid)
    assert len(model.history_) == 2
    in_memory = test.in_memory()
    assert dict(model.evaluate(test)) == pytest.approx(dict(model.evaluate(in_memory)), rel=1e-6)
    np.testing.assert_allclose(model.predict_proba(test), model.predict_proba(in_memory), rtol=1e-5)
    np.testing.assert_array_equal(model.predict(test), model.predict(in_memory))
    assert len(model.rank(test)) == test.offsets[-1]
    assert (
        sw.MNL().fit(train).evaluate(test).nll == sw.MNL().fit(train.in_memory()).evaluate(test).nll
    )


def test_an_ensemble_on_disk_trains_member_by_member(tmp_path):
    disk = stored(drawn(), tmp_path)
    kwargs = {"dimension": 3, "components": 2, "hidden": 4, "training": TRAINING}
    both = sw.SDA.paper(ensemble=2, **kwargs).fit(disk, checkpoint=tmp_path / "kept")
    alone = sw.SDA.paper(seed=1, **kwargs)
    train, valid = sw.split(disk, (0.8, 0.2), seed=0)
    alone.fit(train, valid)
    second = jax.tree.map(lambda leaf: leaf[1], eqx.filter(both.model_, eqx.is_array))
    for mine, yours in zip(jax.tree.leaves(second), weights(alone.model_), strict=True):
        np.testing.assert_array_equal(mine, yours)
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"0.checkpoint", "1.checkpoint"}


def test_comparison_and_tuning_take_data_on_disk(tmp_path):
    disk = stored(drawn(sets=200), tmp_path)
    result = sw.compare(["mnl", "random"], disk, splits=2)
    in_memory = sw.compare(["mnl", "random"], disk.in_memory(), splits=2)
    np.testing.assert_array_equal(result.values("nll"), in_memory.values("nll"))
    small = sw.SDA.paper(dimension=2, components=2, hidden=2, training=sw.Training(epochs=1))
    tuned = sw.tune(small, disk, tuning=sw.Tuning(trials=2, storage=None))
    assert len(tuned.trials) == 2


def test_divergence_is_said_at_the_shard_where_it_happens(tmp_path):
    train, valid = parts(stored(drawn(), tmp_path))
    done = []
    with pytest.raises(sw.InputError, match="training diverged in epoch 0"):
        fit(
            model_of(train), train, valid, Options(epochs=2, batch_size=16, learning_rate=1e38),
            on_shard=lambda epoch, shard, of: done.append(shard),
        )  # fmt: skip
    assert len(done) < Streamed(train, 16).shards - 1

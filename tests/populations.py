"""What the tests of populations share: small data, members, and what "the same result" means."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import setwise as sw
from setwise.choices import Schema
from setwise.models import ZOO, Sizes
from setwise.training import Fit, Member, Options, Task, fit, fit_population

SIZES = Sizes(dimension=3, components=2, hidden=4)
QUICK = Options(epochs=5, batch_size=16, learning_rate=1e-2, patience=5)
DROPPING = replace(QUICK, dropout=0.3)
VARIED = [
    QUICK,
    DROPPING,
    replace(QUICK, weight_decay=0.5, decay=0.5, decay_every=2),
    replace(QUICK, epochs=3, learning_rate=3e-3),
    # A learning rate that spoils the model soon: these stop early, each by its own measure.
    replace(QUICK, epochs=9, learning_rate=0.3, patience=2),
    replace(QUICK, epochs=9, learning_rate=0.3, patience=1, stop_on="accuracy"),
]
MEMBERS = [Member(options) for options in VARIED]
"""One stream of six lanes: most tests use this program, since compiling is what takes time."""


@functools.cache
def task(kind: str = "fixed", split: int = 0, share: float = 1.0) -> Task:
    """A small split of some kind of data, or a share of its sets."""
    choices = _choices(kind)
    choices = choices.take(np.arange(int(share * len(choices))))
    train, valid = sw.split(choices, (0.7, 0.3), seed=split)
    schema = Schema.fit(train)
    return Task(schema.encode(train), schema.encode(valid))


def _choices(kind: str) -> sw.Choices:
    if kind == "fixed":
        return sw.datasets.generate("mnl", sets=90, items=4, features=3).choices
    if kind == "wider":
        return sw.datasets.generate("mnl", sets=60, items=5, features=4, seed=1).choices
    made = sw.datasets.generate("mnl", sets=90, items=(2, 20), features=3)
    rng = np.random.default_rng(0)
    sets = made.columns["set_id"]
    extra = {
        "weight": rng.uniform(0.2, 3, 90)[sets],
        "income": rng.normal(size=90)[sets],
        "taken": made.columns["chosen"] * (rng.random(90) < 0.8)[sets],  # the others take nothing
    }
    return sw.read(
        made.columns | extra, set="set_id", chosen="taken", items=made.items, context=["income"],
        weight="weight", on_none="outside",
    )  # fmt: skip


def population(members=MEMBERS, tasks=None, name="sdw", **extra) -> list[Fit]:
    return fit_population(ZOO[name], SIZES, tasks or [task()], members, **extra)


def alone(member: Member, tasks=None, name="sdw") -> Fit:
    train, valid = (tasks or [task()])[member.task]
    features = train.items.shape[1] + train.context.shape[1]
    model = ZOO[name].initial(features, SIZES, jnp.uint32(member.seed))
    return fit(model, train, valid, member.options, member.seed)


def weights(one: Fit) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(one.model)]


def same_bits(first: Fit, second: Fit) -> bool:
    pairs = zip(weights(first), weights(second), strict=True)
    return first.history == second.history and all(np.array_equal(a, b) for a, b in pairs)


def assert_alike(found: Fit, wanted: Fit) -> None:
    """The same up to rounding: the path through the epochs, and the weights at the best one."""
    assert (found.best_epoch, len(found.history)) == (wanted.best_epoch, len(wanted.history))
    assert (found.interrupted, found.diverged) == (False, False)
    for ours, theirs in zip(found.history, wanted.history, strict=True):
        assert ours == pytest.approx(theirs, abs=2e-5)
    for ours, theirs in zip(weights(found), weights(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def assert_all_alike(found: list[Fit], wanted: list[Fit]) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert_alike(ours, theirs)


def assert_as_alone(members, tasks=None, name="sdw", **extra) -> list[Fit]:
    fits = population(members, tasks, name, **extra)
    assert_all_alike(fits, [alone(member, tasks, name) for member in members])
    return fits

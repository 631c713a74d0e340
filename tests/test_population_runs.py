"""Populations from outside: progress, pruning, memory, kills and Ctrl-C."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import setwise as sw
from populations import (
    DROPPING,
    MEMBERS,
    SIZES,
    VARIED,
    assert_all_alike,
    population,
    same_bits,
    task,
)
from setwise.models import ZOO
from setwise.training import Member, Task
from setwise.training.population_plan import (
    Layout,
    Population,
    Stream,
    bytes_of,
    lanes_in_memory,
    layouts_at_once,
)

PAIR = [Member(DROPPING), Member(replace(DROPPING, weight_decay=0.1))]


@pytest.fixture(scope="module")
def whole():
    return population()


class Stop(Exception):
    """A kill, as far as the loop can tell."""


def stop_after(calls, error):
    seen = []

    def on_epoch(record):
        seen.append(record)
        if len(seen) == calls:
            raise error

    return on_epoch


# Recipes


def test_a_member_may_have_a_recipe_of_its_own():
    """It gets what a population of that recipe gives it; the others what they would get."""
    own = [replace(one, blueprint=ZOO["sde"]) for one in PAIR]
    mixed = population([own[0], PAIR[0], own[1], PAIR[1]])
    for number, wanted in zip((0, 2), population(PAIR, name="sde"), strict=True):
        assert same_bits(mixed[number], wanted)
    for number, wanted in zip((1, 3), population(PAIR), strict=True):
        assert same_bits(mixed[number], wanted)


# Recipes that train at the same time

OWN = [Member(DROPPING, blueprint=ZOO["sde"]), Member(DROPPING)]
LONG = [replace(one, options=replace(DROPPING, epochs=9_999, patience=9_999)) for one in OWN]


@pytest.fixture
def at_once(monkeypatch):
    """Whatever the machine."""
    monkeypatch.setattr("setwise.training.population.layouts_at_once", lambda *_: 2)


def test_recipes_that_train_at_the_same_time_give_the_same_bits(monkeypatch):
    fits = {}
    for number in (1, 2):
        monkeypatch.setattr("setwise.training.population.layouts_at_once", lambda *_, n=number: n)
        fits[number] = population(OWN)
    for one, other in zip(fits[1], fits[2], strict=True):
        assert same_bits(one, other)


def test_only_small_data_and_different_recipes_train_at_the_same_time(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)

    def at_once(members):
        some = Population(ZOO["sdw"], SIZES, [task()], members)
        return layouts_at_once(some, [Layout((Stream(0, 0, (n,)),), 1) for n in (0, 1)])

    assert at_once(OWN) == 2
    assert at_once(PAIR) == 1
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert at_once(OWN) == 1
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr("setwise.training.population_plan.BYTES_OF_SMALL_DATA", 0)
    assert at_once(OWN) == 1


def test_ctrl_c_in_one_of_two_ends_both(at_once):
    fits = population(LONG, on_epoch=stop_after(20, KeyboardInterrupt()))
    assert all(one.interrupted and 0 < len(one.history) < 9_999 for one in fits)


def test_ctrl_c_while_waiting_for_two_ends_both(at_once, monkeypatch):
    from concurrent.futures import wait

    errors = iter([KeyboardInterrupt()])

    def pressed(*arguments, **options):
        for error in errors:
            raise error
        return wait(*arguments, **options)

    monkeypatch.setattr("setwise.training.population.wait", pressed)
    try:
        fits = population(LONG)
    except KeyboardInterrupt:  # neither had begun
        return
    assert all(one.interrupted for one in fits)


def test_an_error_in_one_of_two_ends_both(at_once):
    with pytest.raises(Stop):
        population(LONG, on_epoch=stop_after(5, Stop()))


def test_reports_of_two_count_the_members_of_both(at_once):
    seen = []
    fits = population(OWN, on_epoch=lambda record: seen.append(dict(record)))
    assert len(seen) == sum(len(one.history) for one in fits)
    assert {one["members"] for one in seen} == {2}
    assert max(one["finished"] for one in seen) == 2


# Progress and pruning


def test_every_epoch_is_reported(whole):
    seen = []
    population(on_epoch=seen.append)
    lengths = [len(one.history) for one in whole]
    assert [one["epoch"] for one in seen] == list(range(max(lengths)))
    for record in seen:
        finished = sum(length <= record["epoch"] + 1 for length in lengths)
        assert (record["training"], record["finished"]) == (6 - finished, finished)
        assert record["members"] == 6


def test_chunks_are_reported_as_one_population(monkeypatch):
    monkeypatch.setattr("setwise.training.population.most_lanes", lambda: 1)
    seen = []
    population(PAIR, on_epoch=seen.append)
    assert [one["epoch"] for one in seen] == [*range(5), *range(5)]
    assert [one["finished"] for one in seen] == 4 * [0] + 5 * [1] + [2]
    assert {one["members"] for one in seen} == {2}


def test_pruning_sees_the_losses_and_stops_whom_it_names(whole):
    seen = {}

    def prune(epoch, losses):
        seen[epoch] = dict(losses)
        return {1: [0, 2], 2: [0, 99]}.get(epoch, ())  # one twice, and one who is not there

    fits = population(prune=prune)
    assert [len(one.history) for one in fits][:4] == [2, 5, 2, 3]
    assert [one.history for one in fits] == [
        one.history[: len(cut.history)] for one, cut in zip(whole, fits, strict=True)
    ]
    assert not any(one.interrupted or one.diverged for one in fits)
    assert all(same_bits(fits[number], whole[number]) for number in (1, 3, 4, 5))
    for epoch, losses in seen.items():
        for number, loss in losses.items():
            record = whole[number].history[epoch]
            accuracy = VARIED[number].stop_on == "accuracy"
            assert loss == (-record["accuracy"] if accuracy else record["nll"])
    # Only those who are still training are asked about: here the fourth ended with its epochs.
    assert 3 in seen[1]
    assert 3 not in seen[2]
    assert {0, 2}.isdisjoint(seen[2])


# Memory


def test_bytes_of_counts_every_value_once():
    x, w = jnp.zeros((10, 3)), jax.ShapeDtypeStruct((3, 5), jnp.float32)
    product = 4 * 10 * 5
    assert bytes_of(lambda x, w: x @ w, x, w) == product
    assert bytes_of(lambda x, w: (x @ w > 0).sum(), x, w) == product + 50 + 50 * 4 + 4
    # Inside another program, its values count and not its results again.
    assert bytes_of(lambda x, w: jax.jit(lambda x, w: jnp.exp(x @ w))(x, w), x, w) == 2 * product
    # A loop keeps what it stacks, if that is more than one turn computes.
    assert bytes_of(lambda x: jax.lax.map(lambda row: row * 2, x), x) == 4 * 10 * 3


def test_a_step_needs_memory_for_each_of_its_sets():
    def needed(batch_size):
        member = Member(replace(DROPPING, batch_size=batch_size))
        return Population(ZOO["sdw"], SIZES, [task()], [member]).bytes_of_a_step(member)

    eight, sixteen, twenty_four = map(needed, (8, 16, 24))
    assert twenty_four - sixteen == sixteen - eight
    assert sixteen - eight > 4 * 8 * 4 * (SIZES.dimension + 2 * SIZES.hidden)  # F and two layers
    assert needed(10_000) == needed(63)  # no more than there are


def test_lanes_that_fit(monkeypatch):
    monkeypatch.setattr("setwise.training.population_plan.memory_budget", lambda: 1000)
    assert [lanes_in_memory(size) for size in (0, 10, 300, 999, 5000)] == [1000, 100, 3, 1, 1]


def test_little_memory_means_one_model_after_the_other(monkeypatch):
    wanted = population([*PAIR, *MEMBERS[2:]])[:2]
    monkeypatch.setattr("setwise.training.population_plan.memory_budget", lambda: 1)
    seen = []
    assert_all_alike(population(PAIR, on_epoch=seen.append), wanted)
    assert max(record["training"] for record in seen) == 1


def test_the_widest_task_says_what_fits(monkeypatch):
    """Members of small tasks share a program with those of large ones, and pad to their width."""
    sizes = []
    monkeypatch.setattr(
        "setwise.training.population.lanes_in_memory", lambda size: sizes.append(size) or 1
    )
    tasks = [_cut(task("everything"), width) for width in (20, 3)]
    members = [Member(DROPPING, 0, number) for number in (0, 1)]
    several = Population(ZOO["sdw"], SIZES, tasks, members)
    assert several.alike(members[0]) == several.alike(members[1])
    monkeypatch.setattr("setwise.training.population.Trainer", _refuse)
    with pytest.raises(Stop):
        population(members, tasks)
    assert sizes == [several.bytes_of_a_step(members[0])]


def _cut(whole: Task, width: int) -> Task:
    """A task with 30 sets of this many items."""

    def part(encoded):
        return replace(
            encoded,
            items=encoded.items[: 30 * width],
            context=encoded.context[:30],
            offsets=width * np.arange(31),
            chosen=encoded.chosen[:30] * 0,
            weight=None,
        )

    return Task(part(whole.train), part(whole.train))


def _refuse(*_):
    raise Stop


# Kills and Ctrl-C


def test_a_population_that_died_resumes_to_the_same_bits(tmp_path, monkeypatch):
    """It dies in its first chunk, then twice in its second; what was finished is not repeated."""
    monkeypatch.setattr("setwise.training.checkpoint.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr("setwise.training.population.most_lanes", lambda: 3)
    members = [*MEMBERS[:5], Member(replace(DROPPING, weight_decay=0.1))]
    whole = population(members)
    for calls in (2, 7, 2):
        with pytest.raises(Stop):
            population(members, checkpoint_folder=tmp_path, on_epoch=stop_after(calls, Stop()))
    seen = []
    resumed = population(members, checkpoint_folder=tmp_path, on_epoch=seen.append)
    assert all(map(same_bits, resumed, whole))
    assert [one.best_epoch for one in resumed] == [one.best_epoch for one in whole]
    assert seen[0]["finished"] >= 3
    assert seen[0]["epoch"] > 0
    finished = population(members, checkpoint_folder=tmp_path, on_epoch=stop_after(1, Stop()))
    assert all(map(same_bits, finished, whole))


def test_a_checkpoint_remembers_who_diverged(tmp_path):
    members = [Member(DROPPING), Member(replace(DROPPING, learning_rate=1e30))]
    for _ in range(2):
        fits = population(members, at_least=6, checkpoint_folder=tmp_path)
        assert [one.diverged for one in fits] == [False, True]


def test_a_checkpoint_of_another_population_is_refused(tmp_path):
    population(checkpoint_folder=tmp_path)
    others = [
        {"members": [*MEMBERS[:5], Member(replace(VARIED[5], patience=7))]},
        {"members": [replace(one, seed=1) for one in MEMBERS]},
        {"members": MEMBERS[:5]},
        {"tasks": [task(split=1)]},
    ]
    for other in others:
        with pytest.raises(sw.InputError, match=r"0\.checkpoint belongs to another fit.*delete"):
            population(**other, checkpoint_folder=tmp_path)


@pytest.mark.parametrize("number", [6, 2])
def test_ctrl_c_keeps_the_best_models_so_far(whole, number):
    """With two members the other four lanes are spare: they have no model, and need none."""
    fits = population(MEMBERS[:number], at_least=6, on_epoch=stop_after(3, KeyboardInterrupt()))
    assert [one.interrupted for one in fits] == [len(one.history) > 3 for one in whole][:number]
    for one, wanted in zip(fits, whole, strict=False):
        assert one.history == wanted.history[:3]
    for one, options in zip(fits, VARIED, strict=False):
        losses = [r["nll"] if options.stop_on == "nll" else -r["accuracy"] for r in one.history]
        assert one.best_epoch == losses.index(min(losses))


@pytest.mark.parametrize("calls", [1, 6])
def test_ctrl_c_before_every_member_has_a_model_is_an_interrupt(monkeypatch, calls):
    """In the first of two chunks nobody of the second has one; in the second, all have."""
    monkeypatch.setattr("setwise.training.population.most_lanes", lambda: 1)
    on_epoch = stop_after(calls, KeyboardInterrupt())
    if calls == 1:
        with pytest.raises(KeyboardInterrupt):
            population(PAIR, on_epoch=on_epoch)
    else:
        fits = population(PAIR, on_epoch=on_epoch)
        assert [(len(one.history), one.interrupted) for one in fits] == [(5, False), (1, True)]


def test_ctrl_c_with_a_member_that_never_had_a_model_is_an_interrupt():
    members = [Member(DROPPING), Member(replace(DROPPING, learning_rate=1e30))]
    with pytest.raises(KeyboardInterrupt):
        population(members, at_least=6, on_epoch=stop_after(2, KeyboardInterrupt()))

"""Populations: every member gets what it would get alone, whoever trains beside it."""

from dataclasses import replace

import numpy as np
import pytest

from populations import (
    DROPPING,
    MEMBERS,
    QUICK,
    VARIED,
    alone,
    assert_all_alike,
    assert_as_alone,
    population,
    same_bits,
    task,
    weights,
)
from setwise import InputError
from setwise.choices import bucket
from setwise.training import Member, Options
from setwise.training.epoch import EpochProgram
from setwise.training.trainer import Trainer


def test_every_member_of_one_stream_gets_what_it_would_get_alone():
    fits = assert_as_alone(MEMBERS)
    assert [len(one.history) for one in fits[:4]] == [5, 5, 5, 3]
    for one, options in zip(fits[4:], VARIED[4:], strict=True):
        assert len(one.history) == one.best_epoch + 1 + options.patience < options.epochs


def test_tasks_and_seeds_may_differ_and_so_may_the_numbers_of_features_and_sets():
    """Those with other features train in another program, and keep their place in the result."""
    tasks = [task(), task("wider"), task(share=0.6)]
    members = [Member(DROPPING, seed, number) for seed, number in ((0, 0), (1, 1), (5, 0), (0, 2))]
    assert_as_alone([*members, Member(replace(DROPPING, weight_decay=0.5), 5, 0)], tasks)


def test_so_it_is_with_either_form_of_weight_decay():
    coupled = replace(QUICK, weight_decay=0.3, decoupled_weight_decay=False)
    members = [Member(coupled), Member(replace(coupled, decoupled_weight_decay=True))]
    assert_as_alone(members)
    first, second = (weights(one) for one in population(members))
    assert any(not np.allclose(a, b, rtol=1e-3) for a, b in zip(first, second, strict=True))


def test_so_it_is_with_sets_of_all_sizes_weights_context_and_an_outside_option():
    """Such data has several buckets, each with its program; two seeds have them in common."""
    tasks = [task("everything")]
    assert len(bucket(tasks[0].train.sizes)) > 1
    assert tasks[0].train.weight is not None
    other = replace(DROPPING, epochs=3, weight_decay=0.3)
    assert_as_alone([Member(DROPPING), Member(DROPPING, 1), Member(other)], tasks)


@pytest.mark.parametrize(("narrow", "widths"), [(True, (3, 8, 16, 22)), (False, (22,))])
def test_so_it_is_with_tasks_whose_buckets_differ(monkeypatch, narrow, widths):
    """In widths and in number: one waits while the other has a batch, in either schedule."""
    programs, plain = set(), Trainer.start

    def start(trainer):
        programs.add(trainer._program)
        return plain(trainer)

    monkeypatch.setattr("setwise.training.trainer.worth_compiling", lambda spared: narrow)
    monkeypatch.setattr("setwise.training.trainer.Trainer.start", start)
    monkeypatch.setattr("setwise.training.trainer.Trainer.compacted", lambda *_: None)
    tasks = [task("everything"), task("everything", 2, 0.5)]
    options = replace(DROPPING, batch_size=8, epochs=3)
    other = replace(options, weight_decay=0.3)
    wanted = [Member(options), Member(other), Member(options, 1, 1)]
    fits = population(wanted, tasks)
    assert programs == {EpochProgram("cross_entropy", widths, idle=True, gaps=True)}
    assert_all_alike(fits, [alone(member, tasks) for member in wanted])


def test_the_same_call_gives_the_same_bits_and_twins_are_one():
    first, again = population(), population()
    assert all(map(same_bits, first, again))
    twins = population([MEMBERS[1], *MEMBERS[1:]])
    assert same_bits(twins[0], twins[1])
    assert not same_bits(first[0], first[1])


def test_spare_lanes_change_nothing():
    assert_all_alike(population(MEMBERS[:2], at_least=len(MEMBERS)), population()[:2])


def test_a_limit_of_lanes_changes_nothing(monkeypatch):
    """The six in chunks of three lanes; each chunk has a member with dropout, as the whole has."""
    members = [*MEMBERS[:5], Member(replace(DROPPING, weight_decay=0.1))]
    whole = population(members)
    monkeypatch.setattr("setwise.training.population.most_lanes", lambda: 3)
    seen = []
    assert_all_alike(population(members, on_epoch=seen.append), whole)
    assert [one["epoch"] for one in seen].count(0) == 2


def followed(monkeypatch) -> list[tuple[int, ...]]:
    """Compact whenever a smaller program has room for all; the lanes of every epoch."""
    shapes, plain = [], Trainer.after

    def after(trainer, progress, *arguments):
        shapes.append(progress.stopping.active.shape)
        return plain(trainer, progress, *arguments)

    monkeypatch.setattr("setwise.training.trainer.worth_compiling", lambda lost: True)
    monkeypatch.setattr("setwise.training.trainer.Trainer.after", after)
    return shapes


@pytest.mark.parametrize(
    ("epochs", "shapes"),
    [
        # One stream: six lanes, two when four have ended, then one.
        ([(2, 6, 2, 1, 1, 5)], [(1, 6), (1, 6), (1, 2), (1, 2), (1, 2), (1, 1)]),
        # Two streams of two lanes: one lane of the second is left after the first epoch.
        ([(1, 1), (1, 3)], [(2, 2), (1, 1), (1, 1)]),
        # Of four streams two are left, one of them with a member that has ended; then one.
        ([(1, 1), (3, 1), (1, 1), (2, 2)], [(4, 2), (2, 2), (1, 1)]),
    ],
)
def test_going_on_without_the_finished_changes_nothing(monkeypatch, epochs, shapes):
    members = [
        Member(replace(DROPPING, epochs=number), seed)
        for seed, numbers in enumerate(epochs)
        for number in numbers
    ]
    whole = population(members)
    lanes, seen = followed(monkeypatch), []
    assert_all_alike(population(members, on_epoch=seen.append), whole)
    assert lanes == shapes
    assert [len(one.history) for one in whole] == [n for row in epochs for n in row]
    assert [one["finished"] for one in seen] == [
        sum(n <= epoch + 1 for row in epochs for n in row) for epoch in range(len(seen))
    ]


def test_a_smaller_program_comes_when_lanes_lost_what_it_costs(monkeypatch):
    lanes = followed(monkeypatch)
    monkeypatch.setattr("setwise.training.trainer.worth_compiling", lambda lost: lost > 4)
    monkeypatch.setattr("setwise.training.trainer.Trainer._bytes_per_epoch", lambda *_: 1.0)
    population([Member(replace(QUICK, epochs=number)) for number in (1, 2, 6)])
    # After four epochs the first lane has been idle for three, the second for two.
    assert lanes == 4 * [(1, 3)] + 2 * [(1, 1)]


def test_a_diverging_member_ends_alone():
    bad = [replace(QUICK, learning_rate=1e30), replace(QUICK, learning_rate=1e30, epochs=1)]
    fits = population([*MEMBERS[:2], *map(Member, bad)], at_least=len(MEMBERS))
    assert [one.diverged for one in fits] == [False, False, True, True]
    assert [len(one.history) for one in fits] == [5, 5, 1, 1]
    assert [one.best_epoch for one in fits[2:]] == [-1, -1]
    assert_all_alike(fits[:2], population()[:2])


def test_weights_that_are_no_numbers_are_never_the_best():
    """One step an epoch: the loss is fine, the weights after it are not; nor is their accuracy."""
    options = Options(epochs=1, learning_rate=1e38, stop_on="accuracy")
    (one,) = population([Member(options)])
    assert (one.diverged, one.best_epoch) == (True, -1)
    assert np.isfinite(np.concatenate([leaf.ravel() for leaf in weights(one)])).all()
    with pytest.raises(InputError, match="training gave no model"):
        alone(Member(options))

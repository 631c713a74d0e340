"""Who trains together, and who has stopped: plans and stopping, without any training."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from populations import MEMBERS, SIZES, task
from setwise.models import ZOO
from setwise.training import Member, Options
from setwise.training.population_plan import Layout, Population, Stream, Task, plan
from setwise.training.stopping import Stopping
from setwise.training.trainer import lane_members

OPTIONS = [Options(batch_size=size) for size in (16, 128)]
members = st.lists(
    st.builds(Member, st.sampled_from(OPTIONS), st.integers(0, 2), st.integers(0, 3)),
    min_size=1,
    max_size=60,
)


def size(member: Member) -> int:
    return member.options.batch_size


@settings(deadline=None)
@given(members, st.integers(1, 40), st.integers(1, 12))
def test_a_plan_has_every_member_once_with_its_like_and_within_the_limit(members, limit, at_least):
    layouts = plan(members, size, limit, at_least)
    everyone = Counter(number for layout in layouts for number in layout.members)
    assert everyone == Counter(range(len(members)))
    for layout in layouts:
        assert 1 <= len(layout.streams) * layout.lanes <= limit
        assert len({size(members[number]) for number in layout.members}) == 1
        for stream in layout.streams:
            assert 1 <= len(stream.members) <= layout.lanes
            seen = {(members[n].task, members[n].seed) for n in stream.members}
            assert seen == {(stream.task, stream.seed)}


@settings(deadline=None)
@given(members, st.integers(1, 40))
def test_a_plan_makes_room_for_more_members_within_the_limit(members, limit):
    """Then the next call, with at most so many a stream, has the same program."""
    for layout in plan(members, size, limit, at_least=100):
        assert layout.lanes == math.ceil(100 / math.ceil(100 / limit)) <= limit


def test_lanes_are_shared_out_evenly():
    """Nine members in chunks of at most eight: five and four, not eight and one."""
    layouts = plan([Member()] * 9, size, limit=8)
    assert [(one.lanes, len(one.members)) for one in layouts] == [(5, 5), (5, 4)]


def test_streams_are_shared_out_evenly():
    """Ten in chunks of at most seven: five and five, which are one program."""
    layouts = plan([Member(task=task) for task in range(10)], size, limit=7)
    assert [len(one.streams) for one in layouts] == [5, 5]


def test_those_alike_agree_in_recipe_batch_size_objective_and_features():
    tasks = [task(), task("wider"), task(split=1)]
    population = Population(ZOO["sdw"], SIZES, tasks, MEMBERS)
    plain = Member(Options(batch_size=16))
    same = [Member(Options(batch_size=16, dropout=0.3, learning_rate=1.0), seed=3, task=2), plain]
    other = [
        Member(Options(batch_size=17)),
        Member(Options(batch_size=16, objective="pairwise")),
        Member(Options(batch_size=16, decoupled_weight_decay=False)),
        Member(Options(batch_size=16), task=1),
        Member(Options(batch_size=16), blueprint=ZOO["sde"]),
    ]
    assert population.alike(Member(Options(batch_size=16), blueprint=ZOO["sdw"])) == (
        population.alike(plain)
    )
    assert all(population.alike(one) == population.alike(plain) for one in same)
    assert all(population.alike(one) != population.alike(plain) for one in other)
    # A batch has no more sets than there are: 63 here.
    large = [Member(Options(batch_size=size)) for size in (63, 100)]
    assert population.alike(large[0]) == population.alike(large[1])


def test_those_alike_have_as_many_features_of_items_and_as_many_of_sets():
    """Found with Amadeus: rows of the same length, of which more or fewer were the set's."""
    plain = task()

    def moved(part):
        items, context = part.items, np.zeros((len(part), 1))
        return replace(part, items=items[:, 1:], context=context)

    other = Task(moved(plain.train), moved(plain.valid))
    population = Population(ZOO["sdw"], SIZES, [plain, other], MEMBERS)
    assert sum(population.widths(0)) == sum(population.widths(1))
    assert population.alike(Member(task=0)) != population.alike(Member(task=1))


def test_spare_lanes_repeat_a_member():
    layout = Layout((Stream(0, 0, (4, 2, 3)), Stream(1, 0, (1,))), lanes=4)
    assert lane_members(layout).tolist() == [[4, 2, 3, 4], [1, 1, 1, 1]]


# Stopping

NAN = math.nan


def observed(rows, patience, epochs, active=None):
    state = Stopping.start(np.ones(len(rows[0]), bool) if active is None else np.array(active))
    seen = []
    for row in rows:
        state = state.observe(np.array(row), np.array(patience), np.array(epochs))
        seen.append(state)
    return seen


def test_stopping_by_hand():
    """Who improves, who waits too long, whose epochs are over, who is no number, who idles."""
    rows = [[3.0, 3.0, 3.0, 3.0, 9.0], [2.0, 3.0, 2.0, NAN, 9.0], [2.0, 4.0, 1.0, 1.0, 0.0]]
    seen = observed(rows, [3, 2, 3, 3, 3], [9, 9, 2, 9, 9], [True, True, True, True, False])
    assert [state.improved.tolist() for state in seen] == [
        [True, True, True, True, False],
        [True, False, True, False, False],
        [False, False, False, False, False],  # those who stopped do not improve any more
    ]
    assert [state.active.tolist() for state in seen] == [
        [True, True, True, True, False],
        [True, True, False, False, False],
        [True, False, False, False, False],
    ]
    assert seen[-1].best.tolist() == [2.0, 3.0, 2.0, 3.0, math.inf]
    assert seen[-1].best_epoch.tolist() == [1, 0, 1, 0, -1]
    assert seen[-1].epoch == 2


def test_a_model_that_was_never_better_than_infinity_may_go_on():
    """As alone: patience counts from the first best."""
    (*_, last) = observed([[math.inf]] * 3, [1], [9])
    assert (last.best_epoch.tolist(), last.active.tolist()) == ([-1], [True])


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=12), st.integers(1, 4))
def test_each_model_stops_by_its_own_losses(losses, patience):
    """Two lanes with the same losses, one of which began stopped."""
    state, best, best_epoch = Stopping.start(np.array([True, False])), math.inf, -1
    for epoch, loss in enumerate(losses):
        state = state.observe(np.array([loss, loss]), np.array([patience] * 2), np.array([99] * 2))
        improved = loss < best
        best, best_epoch = (loss, epoch) if improved else (best, best_epoch)
        assert (state.best[0], state.best_epoch[0]) == (best, best_epoch)
        assert state.improved.tolist() == [improved, False]
        assert state.active[0] == (epoch - best_epoch < patience)
        if not state.active[0]:
            break


def test_stopping_without_some_and_at_some_places():
    (state,) = observed([[1.0, 2.0, 3.0, 4.0]], [5] * 4, [9] * 4)
    fewer = state.without(np.array([False, True, False, False]))
    assert fewer.active.tolist() == [True, False, True, True]
    assert fewer.best.tolist() == state.best.tolist()
    table = Stopping(
        *(
            one.reshape(2, 2)
            for one in (fewer.best, fewer.best_epoch, fewer.active, fewer.improved)
        ),
        epoch=7,
    )
    row = table.at((np.array([[0]]), np.array([[1, 0]])))
    assert row.best.tolist() == [[2.0, 1.0]]
    assert row.best_epoch.tolist() == [[0, 0]]
    assert row.active.tolist() == [[False, True]]
    assert row.epoch == 7


def test_ties_and_nan_never_replace_the_best():
    seen = observed([[NAN, 1.0], [0.5, 1.0]], [9, 9], [9, 9])
    assert seen[0].active.tolist() == [False, True]
    assert seen[1].best.tolist() == [math.inf, 1.0]
    assert seen[1].best_epoch.tolist() == [-1, 0]

"""Schedules: tasks with other buckets train in step, and each keeps its own order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.choices import bucket, round_up, shuffled_batches
from setwise.training.shards import in_step, one_width

BATCH = 4
tasks_of_sizes = st.lists(
    st.lists(st.integers(1, 40), min_size=1, max_size=60).map(np.array), min_size=1, max_size=4
)


@settings(deadline=None)
@given(tasks_of_sizes, st.integers(0, 300), st.sampled_from([in_step, one_width]))
def test_every_task_finds_its_own_batches_in_order_in_programs_wide_enough(tasks, epoch, kind):
    buckets = [bucket(sizes) for sizes in tasks]
    schedule = kind(buckets, BATCH)
    numbers, busy = schedule.epoch(epoch)
    assert busy.shape == (len(tasks), len(numbers))
    assert not busy[:, numbers < 0].any()
    assert busy[:, numbers >= 0].any(0).all()  # no step is for nobody
    assert schedule.gaps == bool((~busy[:, numbers >= 0]).any())
    for own, has in zip(buckets, busy, strict=True):
        rng = np.random.default_rng(0)
        _, alone = shuffled_batches(own, BATCH, rng, epoch)
        needed = np.array([one.width for one in own])[alone[alone >= 0]]
        found = np.array(schedule.widths)[numbers[has]]
        assert len(needed) == len(found)
        assert (needed <= found).all()


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60).map(np.array), st.integers(0, 300))
def test_one_task_has_the_program_of_a_fit_alone(sizes, epoch):
    buckets = bucket(sizes)
    schedule = in_step([buckets], BATCH)
    numbers, busy = schedule.epoch(epoch)
    _, alone = shuffled_batches(buckets, BATCH, np.random.default_rng(0), epoch)
    assert numbers.tolist() == alone.tolist()
    assert busy.tolist() == [(alone >= 0).tolist()]
    assert schedule.widths == tuple(one.width for one in buckets)
    assert not schedule.gaps


def test_rows_by_hand():
    """Narrow: two and three batches of 4, one of 20. Wide: as many as the first has, of 20."""
    buckets = [bucket(np.repeat(sizes, 4)) for sizes in ([3, 3, 3, 20], [4, 4, 20])]
    assert [[one.width for one in own] for own in buckets] == [[3, 20], [4, 20]]
    narrow, wide = in_step(buckets, BATCH), one_width(buckets, BATCH)
    assert (narrow.widths, narrow.counts.tolist()) == ((4, 20), [[3, 1], [2, 1]])
    assert (narrow.rows, wide.rows) == (3 * 4 + 20, 4 * 20)


@pytest.mark.parametrize(("sizes", "steps"), [([3], 17), ([3, 30], round_up(34))])
def test_steps_are_rounded_up_if_a_fit_alone_rounds_them(sizes, steps):
    buckets = [bucket(np.repeat(sizes, 17 * BATCH))] * 2
    for kind in (in_step, one_width):
        assert len(kind(buckets, BATCH).epoch(0)[0]) == steps

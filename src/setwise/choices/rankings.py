"""Rankings and best–worst choices as sequences of choices from sets that shrink.

Who ranks items chooses the best of all, then the best of the rest, and so on. With V the utility,
the exploded logit (Beggs, Cardell and Hausman 1981) of a ranking x_1, x_2, ..., x_k of the set s is

    P = prod over stages j of exp V(x_j) / sum over z in s without x_1 ... x_(j-1) of exp V(z).

Items without a rank are below all ranked ones. If all n items have a rank, the last stage has one
item and says nothing: k ranked items make min(k, n - 1) stages.

Who says which item is the best and which the worst chooses the best of all, and then the worst of
the rest, with probability proportional to exp(-V):

    P = exp V(b) / sum over z in s of exp V(z) * exp -V(w) / sum over z in s without b of exp -V(z).

Each stage is a choice set of its own, so that every model, split and measure works as it does for
choices. ``Choices.ranking`` says which stages belong together, ``Choices.worst`` which of them
chose the worst item.
"""

from dataclasses import replace

import numpy as np

from setwise import _segments
from setwise._errors import InputError
from setwise._shapes import Bool, Float
from setwise.choices.choices import Choices, Column, rows_of
from setwise.choices.tables import Table
from setwise.choices.validation import Irregular, marks, refuse

NOT_RANKED = "leave the rank of items that were not ranked empty"

Turns = Float[np.ndarray, " rows"]
"""The stage at which each row is chosen, from 1; NaN for rows that never are."""


def rank_column(table: Table, name: str) -> Turns:
    """The column of ranks, refusing anything but 1, 2, 3, ... and missing values."""
    column = table.column(name, "rank")
    if column.kind != "number":
        raise InputError(
            f"rank column '{name}' holds {'text' if column.kind == 'category' else 'dates'}, such "
            f"as '{column.text()[0]}' at row 0; it must hold 1 for the best item, 2 for the next, "
            f"and so on: {NOT_RANKED}",
            row=0,
            column=name,
        )
    ranks = column.values.astype(np.float64)
    wrong = ~np.isnan(ranks) & ~((ranks >= 1) & np.isfinite(ranks) & (ranks == np.floor(ranks)))
    if wrong.any():
        value = ranks[np.argmax(wrong)]
        refuse(name, wrong, f"{value:g}, not a rank,", f"ranks are 1, 2, 3, …; {NOT_RANKED}")
    return ranks


def ranked(choices: Choices, ranks: Turns, irregular: Irregular) -> Choices:
    """The stages of ranked sets; ties, gaps and sets without any rank are refused.

    >>> import setwise as sw
    >>> table = {"who": [1, 1, 1, 2, 2, 2], "x": [3.0, 1.0, 2.0, 5.0, 4.0, 6.0],
    ...          "place": [3, 1, 2, None, 1, None]}
    >>> choices = sw.read(table, set="who", rank="place")
    >>> choices.set_ids.tolist(), choices.sizes.tolist(), choices.chosen.tolist()
    (['1/1', '1/2', '2/1'], [3, 2, 3], [1, 1, 1])
    """
    name = choices.roles.rank
    owner = _segments.owners(choices.offsets)
    known = ~np.isnan(ranks)
    counts = np.bincount(owner[known], minlength=len(choices))
    order = np.lexsort((ranks, owner))  # missing ranks last
    again = (np.diff(owner[order]) == 0) & (np.diff(ranks[order]) == 0)
    tied = np.zeros(len(choices), bool)
    tied[owner[order][1:][again]] = True
    if tied.any() and irregular.on_multiple == "error":
        first, second = sorted(order[np.argmax(again) : np.argmax(again) + 2].tolist())
        rows, which = choices.cells[[first, second]], choices.set_ids[owner[first]]
        raise InputError(
            f"{_set(choices, owner[first])} has rank {ranks[first]:g} at row {rows[0]} and again "
            f"at row {rows[1]}; each rank stands once in a set: break ties, {NOT_RANKED}, or use "
            'on_multiple="drop" to skip such sets',
            row=int(rows[0]),
            column=name,
            set=which,
            also_rows=[int(rows[1])],
        )
    if (counts == 0).any() and irregular.on_none == "error":
        at = int(np.argmax(counts == 0))
        raise InputError(
            f"{_set(choices, at)} has no ranked item; rank at least the best one of each set, or "
            'use on_none="drop" to skip such sets',
            column=name,
            set=choices.set_ids[at],
        )
    highest = np.zeros(len(choices))
    np.maximum.at(highest, owner[known], ranks[known])
    gap = (highest != counts) & ~tied
    if gap.any():
        at = int(np.argmax(gap))
        own = np.sort(ranks[(owner == at) & known]).astype(int)
        lacking = np.setdiff1d(np.arange(1, own[-1]), own)[0]
        raise InputError(
            f"{_set(choices, at)} has the ranks {', '.join(map(str, own[:8]))}"
            f"{', …' * (len(own) > 8)}, but not {lacking}; ranks must be 1, 2, 3, … without gaps: "
            f"number the ranked items of each set anew, and {NOT_RANKED}",
            column=name,
            set=choices.set_ids[at],
        )
    return in_stages(*_kept(choices, ranks, counts == 0, tied))


def best_and_worst(choices: Choices, table: Table, irregular: Irregular) -> Choices:
    """The two stages of sets that say which item is the best and which the worst.

    >>> import setwise as sw
    >>> table = {"who": [1, 1, 1, 2, 2], "x": [3.0, 1.0, 2.0, 5.0, 4.0],
    ...          "best": [0, 1, 0, 1, 0], "worst": [1, 0, 0, 0, 1]}
    >>> choices = sw.read(table, set="who", chosen="best", worst="worst")
    >>> choices.set_ids.tolist(), choices.chosen.tolist(), choices.worst.tolist()
    (['1/1', '1/2', '2/1'], [1, 0, 0], [False, True, False])
    """
    roles = choices.roles
    assert roles.chosen is not None
    assert roles.worst is not None
    best, worst = (marks(table, name)[choices.cells] for name in (roles.chosen, roles.worst))
    bests, worsts = (_segments.sums(one, choices.offsets) for one in (best, worst))
    for kind, found in (("best", bests), ("worst", worsts)):
        for wrong, option in ((found == 0, "on_none"), (found > 1, "on_multiple")):
            if wrong.any() and getattr(irregular, option) == "error":
                at = int(np.argmax(wrong))
                raise InputError(
                    f"{_set(choices, at)} has {found[at] or 'no'} items marked as the {kind}; each "
                    f'set needs exactly one (use {option}="drop" to skip such sets)',
                    set=choices.set_ids[at],
                )
    both = best & worst
    if both.any():
        row = int(choices.cells[np.argmax(both)])
        raise InputError(
            f"row {row} is marked as the best and as the worst of its set; they must be different "
            "items: correct one of them",
            row=row,
            column=roles.worst,
        )
    turn = np.where(best, 1.0, np.where(worst, 2.0, np.nan))
    none, several = (bests == 0) | (worsts == 0), (bests > 1) | (worsts > 1)
    stages = in_stages(*_kept(choices, turn, none, several))
    assert stages.ranking is not None
    second = np.concatenate([[False], np.diff(stages.ranking) == 0])
    return replace(stages, worst=second)


def in_stages(choices: Choices, turn: Turns) -> Choices:
    """Each set as a sequence of sets: at every stage, the row whose turn it is is chosen.

    Rows whose turn is over are no longer there.
    """
    known = _segments.sums(~np.isnan(turn), choices.offsets)
    stages = np.maximum(np.minimum(known, choices.sizes - 1), 1)
    ranking = np.repeat(np.arange(len(choices)), stages)
    stage = 1 + _segments.positions(_segments.offsets_of(stages))
    whole = choices.take(ranking)
    turn = turn[rows_of(choices.offsets[ranking], whole.sizes)]
    now = _segments.spread(stage, whole.offsets)
    left = ~(turn < now)
    offsets = _segments.offsets_of(whole.sizes - stage + 1)
    return replace(
        whole,
        columns={name: Column(one.values[left], one.levels) for name, one in whole.columns.items()},
        table_rows=whole.cells[left],
        offsets=offsets,
        set_ids=np.array([f"{one}/{at}" for one, at in zip(whole.set_ids, stage, strict=True)]),
        chosen=np.flatnonzero((turn == now)[left]) - offsets[:-1],
        ranking=ranking,
    )


def _kept(
    choices: Choices, turn: Turns, none: Bool[np.ndarray, " sets"], tied: Bool[np.ndarray, " sets"]
) -> tuple[Choices, Float[np.ndarray, " kept"]]:
    """Without the sets that are to be dropped, which are counted."""
    gone = none | tied
    if gone.all():
        raise InputError("no set is left: every set has no or several items of a rank")
    dropped = replace(
        choices.dropped, without_choice=int(none.sum()), several_choices=int((tied & ~none).sum())
    )
    choices = replace(choices, dropped=dropped)
    if not gone.any():
        return choices, turn
    return choices.take(np.flatnonzero(~gone)), turn[~_segments.spread(gone, choices.offsets)]


def _set(choices: Choices, at: int | np.integer) -> str:
    return f"set '{choices.roles.set}'={choices.set_ids[at]}"

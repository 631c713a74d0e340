"""Search for the best set under any model: what is not linear is scored, thousands of sets at once.

Sets of all contexts take their steps together, so that each call of the model scores many. Few
sets are tried exhaustively. Else a set grows by the item that helps most (greedy), and random sets
are annealed. These sets are improved by additions, removals and exchanges until none helps.
"""

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from setwise._shapes import Bool, Float, Int
from setwise.decide.limits import Moves, SetLimits
from setwise.decide.set_values import SetValues

FEW = 4096
"""So many sets of a context, all those of twelve items, are tried exhaustively."""
PROMISING, ALL = 32, 600
"""Exchanges per set that are scored at first, and once no better one is known."""
PAIRS_AT_A_TIME = 4_000_000
STEPS = 60  # of annealing
WARM, COLD = 0.05, 0.0005  # temperatures, relative to what the best set earns
BETTER = 1e-7  # relative; less may be rounding in single precision

EXHAUSTIVE, SEARCH = "exhaustive", "search"


@dataclass(eq=False)
class FoundSets:
    """Sets of some contexts, and what they earn."""

    contexts: Int[np.ndarray, " sets"]
    shown: Bool[np.ndarray, "sets n"]
    value: Float[np.ndarray, " sets"]

    def take(self, some: Int[np.ndarray, " k"]) -> "FoundSets":
        """Copies of some of the sets."""
        return FoundSets(self.contexts[some], self.shown[some], self.value[some])

    def joined(self, other: "FoundSets") -> "FoundSets":
        """These sets and others."""
        both = ("contexts", "shown", "value")
        return FoundSets(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in both))

    def put(self, some: Int[np.ndarray, " k"], other: "FoundSets") -> None:
        """These sets in the place of some."""
        self.shown[some], self.value[some] = other.shown, other.value


def count_sets(limits: SetLimits) -> Int[np.ndarray, " contexts"]:
    """How many sets have an allowed number of items and what must be shown; at most FEW + 1."""
    free = (limits.present & ~limits.must).sum(1)
    fixed = limits.must.sum(1)
    counts = np.empty(len(free), np.int64)
    for place, (n, kept, least, most) in enumerate(
        zip(free.tolist(), fixed.tolist(), limits.least.tolist(), limits.most.tolist(), strict=True)
    ):
        total = 0
        for size in range(max(0, least - kept), min(n, most - kept) + 1):
            total += comb(n, size)
            if total > FEW:
                break
        counts[place] = min(total, FEW + 1)
    return counts


def exhaust(sets: SetValues, limits: SetLimits, contexts: Int[np.ndarray, " some"]) -> FoundSets:
    """The best of all allowed sets of these contexts; minus infinity where none is allowed."""
    n = limits.present.shape[1]
    state = FoundSets(contexts, np.zeros((len(contexts), n), bool), np.full(len(contexts), -np.inf))
    known: dict[tuple[int, int, int], Bool[np.ndarray, "sets free"]] = {}
    for place, context in enumerate(contexts.tolist()):
        must = limits.must[context]
        free = np.flatnonzero(limits.present[context] & ~must)
        kept = int(must.sum())
        least = max(0, int(limits.least[context]) - kept)
        most = min(len(free), int(limits.most[context]) - kept)
        key = (len(free), least, most)
        if key not in known:
            known[key] = _subsets(*key)
        shown = np.tile(must, (len(known[key]), 1))
        shown[:, free] = known[key]
        same = np.full(len(shown), context)
        shown = shown[limits.allow(same, shown)]
        if len(shown):
            value = sets.expected(np.full(len(shown), context), shown)
            best = int(np.argmax(value))
            state.shown[place], state.value[place] = shown[best], value[best]
    return state


def _subsets(n: int, least: int, most: int) -> Bool[np.ndarray, "sets n"]:
    """Flags of all subsets of n places with so many members."""
    chosen = [list(one) for size in range(least, most + 1) for one in combinations(range(n), size)]
    flags = np.zeros((len(chosen), n), bool)
    for row, members in zip(flags, chosen, strict=True):
        row[members] = True
    return flags


def search(
    sets: SetValues,
    limits: SetLimits,
    contexts: Int[np.ndarray, " some"],
    starts: Bool[np.ndarray, "some n"],
    restarts: int,
    rng: np.random.Generator,
) -> tuple[FoundSets, Float[np.ndarray, " some"]]:
    """Good sets of these contexts, and the share of the improved sets that ended as good.

    Args:
        sets: what sets earn.
        limits: which sets are allowed.
        contexts: the contexts to search in.
        starts: a set of each to begin with, to which items are added: what must be shown.
        restarts: how many random sets per context are annealed; the better half is improved.
        rng: the source of randomness.
    """
    count = len(contexts)
    state = greedy(sets, limits, FoundSets(contexts, starts, sets.expected(contexts, starts)))
    if restarts:
        chains = state.take(np.tile(np.arange(count), restarts))
        scatter(sets, limits, chains, rng)
        anneal(sets, limits, chains, rng)
        order = np.argsort(-chains.value.reshape(restarts, count), 0, kind="stable")
        better = order[: max(1, restarts // 2)] * count + np.arange(count)
        state = state.joined(chains.take(better.ravel()))
    improve(sets, limits, state, thorough=False)
    each = state.value.reshape(-1, count)
    best = state.take(np.argmax(each, 0) * count + np.arange(count))
    improve(sets, limits, best, thorough=True)
    return best, (each >= best.value - BETTER * np.abs(best.value)).mean(0)


def greedy(sets: SetValues, limits: SetLimits, state: FoundSets) -> FoundSets:
    """Add the item that helps most, until none helps and there are as many as there must be."""
    active = np.arange(len(state.contexts))
    while len(active):
        now = state.take(active)
        moves = limits.moves(now.contexts, now.shown)
        owner, item = np.nonzero(moves.add)
        tried = _with(now.shown[owner], item, True)
        table = np.full(moves.add.shape, -np.inf)
        table[owner, item] = sets.expected(now.contexts[owner], tried)
        place = np.argmax(table, 1)
        gain = table[np.arange(len(active)), place]
        too_few = now.shown.sum(1) < limits.least[now.contexts]
        goes_on = np.isfinite(gain) & (too_few | (gain > _above(now.value)))
        now = now.take(np.flatnonzero(goes_on))
        now.shown[np.arange(len(now.shown)), place[goes_on]] = True
        now.value = gain[goes_on]
        active = active[goes_on]
        state.put(active, now)
    return state


def improve(sets: SetValues, limits: SetLimits, state: FoundSets, thorough: bool) -> None:
    """Add, drop and exchange items, the best step each time, until none helps.

    If ``thorough``, all exchanges are tried where the promising ones do not help.
    """
    active = np.flatnonzero(np.isfinite(state.value))
    while len(active):
        better = _step(sets, limits, state, active, PROMISING)
        rest, active = active[~better], active[better]
        if thorough:
            found = _step(sets, limits, state, rest, ALL)
            active = np.sort(np.concatenate([active, rest[found]]))


def _step(
    sets: SetValues, limits: SetLimits, state: FoundSets, active: Int[np.ndarray, " k"], most: int
) -> Bool[np.ndarray, " k"]:
    """One step of each of these sets; which of them found one that helps."""
    better = np.zeros(len(active), bool)
    size = max(1, PAIRS_AT_A_TIME // state.shown.shape[1] ** 2)
    for begin in range(0, len(active), size):
        some = active[begin : begin + size]
        now = state.take(some)
        next_ones = _best_neighbour(sets, limits, now, most)
        helps = next_ones.value > _above(now.value)
        state.put(some[helps], next_ones.take(np.flatnonzero(helps)))
        better[begin : begin + size] = helps
    return better


def _best_neighbour(sets: SetValues, limits: SetLimits, now: FoundSets, most: int) -> FoundSets:
    """The best set one step away; of exchanges, those are scored that promise most.

    An exchange promises what its addition and its removal give, each by itself.
    """
    moves = limits.moves(now.contexts, now.shown)
    added = _each(sets, now, moves.hidden, True)
    dropped = _each(sets, now, moves.droppable, False)
    best = now.take(np.arange(len(now.value)))
    best.value[:] = -np.inf
    _take_best(best, now, *_single(added, moves.add), True)
    _take_best(best, now, *_single(dropped, moves.drop), False)
    owner, out, back = _exchanges(moves, added, dropped, most)
    if len(owner):
        tried = _with(_with(now.shown[owner], out, False), back, True)
        value = sets.expected(now.contexts[owner], tried)
        order = np.lexsort((value, owner))
        last = order[np.append(np.diff(owner[order]) > 0, True)]
        wins = last[value[last] > best.value[owner[last]]]
        best.shown[owner[wins]], best.value[owner[wins]] = tried[wins], value[wins]
    return best


def _exchanges(
    moves: Moves, added: Float[np.ndarray, "k n"], dropped: Float[np.ndarray, "k n"], most: int
) -> tuple[Int[np.ndarray, " p"], Int[np.ndarray, " p"], Int[np.ndarray, " p"]]:
    """Sets, the place to empty and the place to fill, of the exchanges that promise most."""
    k, n = added.shape
    owner, out = np.nonzero(moves.droppable)
    promise = np.full((k, n, n), -np.inf)
    with np.errstate(invalid="ignore"):
        # A set that cannot lose an item without being empty promises what the additions do.
        alone = np.where(np.isfinite(dropped), dropped, 0.0)
        each = alone[owner, out][:, None] + added[owner]
    promise[owner, out] = np.where(moves.swap(owner, out), each, -np.inf)
    flat = promise.reshape(k, n * n)
    if n * n > most:
        places = np.argpartition(-flat, most - 1, axis=1)[:, :most]
    else:
        places = np.broadcast_to(np.arange(n * n), flat.shape)
    known = np.isfinite(np.take_along_axis(flat, places, 1))
    owner, which = np.nonzero(known)
    pairs = places[owner, which]
    return owner, pairs // n, pairs % n


def _each(
    sets: SetValues, now: FoundSets, places: Bool[np.ndarray, "k n"], on: bool
) -> Float[np.ndarray, "k n"]:
    """What each set earns with one of these places filled, or emptied."""
    table = np.full(places.shape, -np.inf)
    owner, item = np.nonzero(places)
    tried = _with(now.shown[owner], item, on)
    table[owner, item] = sets.expected(now.contexts[owner], tried)
    return table


def _single(
    table: Float[np.ndarray, "k n"], allowed: Bool[np.ndarray, "k n"]
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    table = np.where(allowed, table, -np.inf)
    place = np.argmax(table, 1)
    return place, table[np.arange(len(table)), place]


def _take_best(
    best: FoundSets,
    now: FoundSets,
    place: Int[np.ndarray, " k"],
    value: Float[np.ndarray, " k"],
    on: bool,
) -> None:
    wins = np.flatnonzero(value > best.value)
    best.shown[wins] = _with(now.shown[wins], place[wins], on)
    best.value[wins] = value[wins]


def _with(
    shown: Bool[np.ndarray, "k n"], place: Int[np.ndarray, " k"], on: bool
) -> Bool[np.ndarray, "k n"]:
    changed = shown.copy()
    changed[np.arange(len(changed)), place] = on
    return changed


def _above(value: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """What is more than this, rounding considered."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(value), value + BETTER * np.abs(value), value)


def scatter(
    sets: SetValues, limits: SetLimits, chains: FoundSets, rng: np.random.Generator
) -> None:
    """Put random allowed sets in the place of these; where none is found, they stay."""
    contexts = chains.contexts
    shown = limits.must[contexts].copy()
    least = np.maximum(limits.least[contexts], shown.sum(1))
    wanted = rng.integers(least, np.maximum(limits.most[contexts], least), endpoint=True)
    for _ in range(int(wanted.max(initial=0))):
        add = limits.moves(contexts, shown).add & (shown.sum(1) < wanted)[:, None]
        place = np.argmax(np.where(add, rng.random(add.shape), -1.0), 1)
        grows = np.flatnonzero(add.any(1))
        shown[grows, place[grows]] = True
    allowed = np.flatnonzero(limits.allow(contexts, shown))
    chains.shown[allowed] = shown[allowed]
    chains.value[allowed] = sets.expected(contexts[allowed], shown[allowed])


def anneal(sets: SetValues, limits: SetLimits, chains: FoundSets, rng: np.random.Generator) -> None:
    """Random steps, of which those that lose are taken ever more rarely; keeps the best sets."""
    now = chains.take(np.arange(len(chains.value)))
    scale = np.maximum(np.abs(chains.value), 1e-12)
    for temperature in np.geomspace(WARM, COLD, STEPS):
        some, tried = _random_steps(limits, now, rng)
        if not len(some):
            return
        value = sets.expected(now.contexts[some], tried)
        loss = np.where(np.isfinite(value), (now.value[some] - value) / scale[some], np.inf)
        taken = rng.random(len(some)) < np.exp(-np.maximum(loss, 0.0) / temperature)
        kept = some[taken]
        now.shown[kept], now.value[kept] = tried[taken], value[taken]
        better = np.flatnonzero(now.value > chains.value)
        chains.put(better, now.take(better))


def _random_steps(
    limits: SetLimits, now: FoundSets, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " k"], Bool[np.ndarray, "k n"]]:
    """A random allowed step of each set: half of them exchanges, where there are such."""
    moves = limits.moves(now.contexts, now.shown)
    every = np.arange(len(now.value))
    noise = rng.random((2, *now.shown.shape))
    out = np.argmax(np.where(moves.droppable, noise[0], -1.0), 1)
    swaps = moves.swap(every, out)
    kind = rng.random(len(every))  # below 1/2 an exchange, then additions, then removals
    use_swap = swaps.any(1) & ((kind < 0.5) | ~(moves.add.any(1) | moves.drop.any(1)))
    use_add = ~use_swap & moves.add.any(1) & ((kind < 0.75) | ~moves.drop.any(1))
    use_drop = ~use_swap & ~use_add & moves.drop.any(1)
    tried = now.shown.copy()
    incoming = np.where(use_swap[:, None], swaps, moves.add)
    back = np.argmax(np.where(incoming, noise[1], -1.0), 1)
    leaving = np.argmax(np.where(moves.drop, noise[0], -1.0), 1)
    tried[every[use_swap], out[use_swap]] = False
    tried[every[use_drop], leaving[use_drop]] = False
    fills = use_swap | use_add
    tried[every[fills], back[fills]] = True
    some = np.flatnonzero(fills | use_drop)
    return some, tried[some]

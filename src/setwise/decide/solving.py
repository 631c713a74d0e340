"""The best set of each context: by proof where the model has a formula, else by trying many."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Bool, Float, Int
from setwise.decide.candidates import Candidates, best_possible
from setwise.decide.exact import (
    REVENUE_ORDER,
    Found,
    any_set,
    best_logit,
    best_mixture,
    by_revenue_order,
)
from setwise.decide.limits import SetLimits, nothing_fits
from setwise.decide.logit_sets import LogitSets
from setwise.decide.nested_sets import NestedSets, best_nested
from setwise.decide.search import EXHAUSTIVE, FEW, SEARCH, count_sets, exhaust, search
from setwise.decide.set_values import SetValues

PROVED = 1e-6  # relative; probabilities have single precision
CONTEXTS_AT_A_TIME = 256
MANY, FEWER = 24, 8
"""Restarts by default, for up to a hundred contexts and for more."""
CONTEXTS_FOR_MANY = 100

METHODS = ("auto", "exact", "exhaustive", "search")

OnContexts = Callable[[int, int], None]
"""Called with the number of contexts done and the number in all."""


@dataclass(eq=False)
class Solution:
    """A set for each context."""

    shown: Bool[np.ndarray, "contexts n"]
    value: Float[np.ndarray, " contexts"]
    bound: Float[np.ndarray, " contexts"]
    """What no allowed set exceeds."""
    method: list[str]
    agreement: Float[np.ndarray, " contexts"]
    """Of a search, the share of improved sets that ended as good; NaN where none was needed."""

    def put(self, context: int, found: Found) -> None:
        """The best set of a context."""
        self.shown[context], self.value[context] = found.shown, found.value
        self.bound[context], self.method[context] = found.bound, found.method

    def proved(self) -> Bool[np.ndarray, " contexts"]:
        """Where no set is better."""
        with np.errstate(invalid="ignore"):
            return self.bound - self.value <= PROVED * np.maximum(1e-12, np.abs(self.value))


def solve(
    sets: SetValues,
    limits: SetLimits,
    method: str,
    restarts: int | None,
    seed: int,
    on_contexts: OnContexts | None = None,
) -> Solution:
    """The best set of each context by this method; "auto" takes the first that proves it."""
    candidates, count = sets.candidates, len(sets.candidates)
    bound = best_possible(candidates.values, candidates.choices, sets.outside)
    found = Solution(
        np.zeros(limits.present.shape, bool), np.full(count, -np.inf), bound, [""] * count,
        np.full(count, np.nan),
    )  # fmt: skip
    left = np.arange(count)
    if method in ("auto", "exact"):
        left = _with_proof(sets, limits, found, on_contexts)
    if method in ("auto", "exhaustive"):
        few = count_sets(limits)[left] <= FEW
        _exhausted(sets, limits, found, left[few])
        left = left[~few]
    if len(left) and method in ("exact", "exhaustive"):
        raise _cannot(candidates, int(left[0]), method)
    if restarts is None:
        restarts = MANY if len(left) <= CONTEXTS_FOR_MANY else FEWER
    rng = np.random.default_rng(seed)
    for begin in range(0, len(left), CONTEXTS_AT_A_TIME):
        _searched(sets, limits, found, left[begin : begin + CONTEXTS_AT_A_TIME], restarts, rng)
        if on_contexts is not None:
            on_contexts(min(count, count - len(left) + begin + CONTEXTS_AT_A_TIME), count)
    return found


def _with_proof(
    sets: SetValues, limits: SetLimits, found: Solution, on_contexts: OnContexts | None
) -> Int[np.ndarray, " left"]:
    """Solve what has a proof; the contexts that are left."""
    count = len(sets.candidates)
    done = np.zeros(count, bool)
    if isinstance(sets, LogitSets) and sets.classes == 1:
        shown, value, done = by_revenue_order(sets, limits)
        found.shown[done], found.value[done] = shown[done], value[done]
        found.bound[done] = value[done]
        for one_done in np.flatnonzero(done).tolist():
            found.method[one_done] = REVENUE_ORDER
    elif not sets.outside:
        done = _one_item(sets, limits, found)
    if not isinstance(sets, LogitSets | NestedSets):
        return np.flatnonzero(~done)
    few = count_sets(limits) <= FEW
    for place, context in enumerate(np.flatnonzero(~done).tolist()):
        one = None
        if isinstance(sets, NestedSets):
            one = best_nested(sets, limits, context)
        elif sets.classes == 1:
            one = best_logit(sets, limits, context)
            if one is None:
                raise nothing_fits(sets.candidates, context, NO_SET)
        elif not few[context]:  # of few sets, trying all is faster
            one = best_mixture(sets, limits, context)
        if one is not None:
            found.put(context, one)
            done[context] = True
        if on_contexts is not None and place % 10 == 9:
            on_contexts(int(done.sum()), count)
    # What a programme has not proved in its time, the search may improve.
    return np.flatnonzero(~done | ~found.proved())


NO_SET = "no set has an allowed number of items that fit together"


def _one_item(sets: SetValues, limits: SetLimits, found: Solution) -> Bool[np.ndarray, " contexts"]:
    """Where everybody buys something, nothing beats the most valuable item shown alone."""
    candidates = sets.candidates
    values = np.where(limits.present, candidates.padded(candidates.values), -np.inf)
    every, best = np.arange(len(values)), np.argmax(values, 1)
    shown = np.zeros(values.shape, bool)
    shown[every, best] = True
    done = limits.allow(every, shown)
    found.shown[done], found.value[done] = shown[done], values[every, best][done]
    for context in np.flatnonzero(done).tolist():
        found.method[context] = REVENUE_ORDER
    return done


def _exhausted(
    sets: SetValues, limits: SetLimits, found: Solution, contexts: Int[np.ndarray, " few"]
) -> None:
    for context in contexts.tolist():
        one = exhaust(sets, limits, np.array([context]))
        if not np.isfinite(one.value[0]):
            raise nothing_fits(sets.candidates, context, NO_SET)
        value = float(one.value[0])
        found.put(context, Found(one.shown[0], value, value, EXHAUSTIVE))


def _searched(
    sets: SetValues,
    limits: SetLimits,
    found: Solution,
    contexts: Int[np.ndarray, " some"],
    restarts: int,
    rng: np.random.Generator,
) -> None:
    """Search in these contexts; a set that a programme has found stays where it is better."""
    state, agree = search(sets, limits, contexts, limits.must[contexts], restarts, rng)
    for place in np.flatnonzero(~limits.allow(contexts, state.shown)).tolist():
        # Adding item after item ended too early: begin at a set that a programme finds.
        context = int(contexts[place])
        start = any_set(limits, context)
        if start is None:
            raise nothing_fits(sets.candidates, context, NO_SET)
        alone = np.array([context])
        other, agree[[place]] = search(sets, limits, alone, start[None], restarts, rng)
        state.put(np.array([place]), other)
    for place in np.flatnonzero(state.value > found.value[contexts]).tolist():
        context = int(contexts[place])
        bound = max(float(found.bound[context]), float(state.value[place]))
        found.put(context, Found(state.shown[place], float(state.value[place]), bound, SEARCH))
        found.agreement[context] = agree[place]


def _cannot(candidates: Candidates, context: int, method: str) -> InputError:
    name, which = candidates.choices.roles.set, candidates.choices.set_ids[context]
    if method == "exhaustive":
        why = f"it has more than {FEW:,} sets to try"
    else:
        why = "no proof is known for this model under these limits"
    return InputError(
        f"method='{method}' cannot solve '{name}'={which}: {why}; use method='auto'", set=which
    )

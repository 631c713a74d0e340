"""Sets under a nested logit of one level: what they earn, and the best of them.

    R(s) = sum over nests m of W_m R_m / (sum over m of W_m + w_0),
    W_m = (sum over x of m in s of exp(V_x / lambda_m)) ^ lambda_m,  R_m = the nest's mean value

by its own shares. As for the logit, R(s) >= z if and only if F(z), the largest sum of
W_m (R_m - z), less w_0 z, is not negative. Given z, nests do not meet in F: each shows one of its
parts. Without limits and with lambda_m <= 1 these are its most valuable items (Davis, Gallego and
Topaloglu 2014). Else all parts of small nests are tried, and a mixed-integer programme chooses one
of each nest under the limits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._shapes import Bool, Float, Int
from setwise.decide.candidates import Candidates
from setwise.decide.exact import INTEGER, REVENUE_ORDER, SOLVED, STEPS, Found, rows_of
from setwise.decide.limits import SetLimits
from setwise.decide.logit_sets import utility_at_zero
from setwise.decide.set_values import Contexts, Sets, SetValues, parts

LARGEST_NEST = 10
"""Of which all parts are tried: 1,024 of ten items."""


@dataclass(eq=False)
class NestedSets(SetValues):
    """Sets under a nested logit whose nests hold items alone."""

    candidates: Candidates
    utilities: Float[np.ndarray, "contexts n"]
    """V, less the largest of the context."""
    nest: Int[np.ndarray, "contexts n"]
    """The nest of each place; an item in none is a nest of its own, with lambda 1."""
    lambdas: Float[np.ndarray, "contexts n"]
    """The lambda of each item's nest."""
    nothing: Float[np.ndarray, " contexts"]
    """exp V of the outside option, on the same scale; 0 where there is none."""
    scored: int = 0

    def __post_init__(self) -> None:
        self.outside = bool((self.nothing > 0).any())
        self.values = self.candidates.padded(self.candidates.values)

    def probabilities(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, "sets n"]:
        found = np.zeros(shown.shape)
        for part in parts(contexts, shown):
            found[part] = self._shares(contexts[part], shown[part])
        return found

    def expected(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, " sets"]:
        self.scored += len(contexts)
        earned = np.full(len(contexts), -np.inf)
        for part in parts(contexts, shown):
            some, flags = contexts[part], shown[part]
            p = self._shares(some, flags)
            possible = flags.any(1) | (self.nothing[some] > 0)
            earned[part] = np.where(possible, (p * self.values[some]).sum(1), -np.inf)
        return earned

    def _shares(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, "sets n"]:
        """P(x | s) = W_m / (sum of W + w_0) times the share of x in its nest m."""
        lambdas, nest = self.lambdas[contexts], self.nest[contexts]
        V = np.where(shown, self.utilities[contexts] / lambdas, -np.inf)
        same = nest[:, :, None] == nest[:, None, :]
        together = np.where(same, V[:, None, :], -np.inf)
        top = together.max(2)
        top = np.where(np.isfinite(top), top, 0.0)
        inclusive = np.exp(together - top[:, :, None]).sum(2)  # of the nest of each place
        with np.errstate(divide="ignore", invalid="ignore"):
            within = np.where(shown, np.exp(V - top) / inclusive, 0.0)
            attraction = np.where(shown, np.exp(lambdas * (np.log(inclusive) + top)), 0.0)
        total = (attraction * within).sum(1) + self.nothing[contexts]
        total[total == 0] = 1.0
        return attraction * within / total[:, None]


def nested_sets(model: Any, candidates: Candidates, outside: float | None) -> NestedSets | None:
    """The formula of a nested logit with one level of nests; None for any other model."""
    if not hasattr(model, "satisfies_iia"):
        return None
    from setwise.estimators import NestedLogit

    if not isinstance(model, NestedLogit) or max(model.tree_.depths) > 0:
        return None
    equation: Any = model.model_
    theta = np.asarray(equation.theta, np.float64)[: candidates.encoded.items.shape[1]]
    V = candidates.encoded.items @ theta
    member = model.nest_members(candidates.encoded)
    nests = len(model.lambdas_)
    alone = nests + np.arange(len(V))
    nest = np.where(member.any(1), member.argmax(1), alone)
    lambdas = np.where(member.any(1), model.lambdas_[np.minimum(nest, nests - 1)], 1.0)
    rows, present = candidates.rows, candidates.present
    padded = np.where(present, V[rows], -np.inf)
    top, level = padded.max(1), None
    if outside is not None:
        level = float(outside) + float(utility_at_zero(model.schema_, theta[:, None])[0])
    elif candidates.outside is not None:
        level = float(candidates.outside @ theta)
    nothing = np.zeros(len(top))
    if level is not None:
        top = np.maximum(top, level)
        nothing = np.exp(level - top)
    places = np.where(present, nest[rows], -1 - np.arange(present.shape[1]))
    return NestedSets(
        candidates, np.where(present, padded - top[:, None], -np.inf), places,
        np.where(present, lambdas[rows], 1.0), nothing,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of the nests of a context, one of which each nest shows."""

    shown: Bool[np.ndarray, "parts n"]
    of: Int[np.ndarray, " parts"]
    """The nest, numbered from 0."""
    attraction: Float[np.ndarray, " parts"]
    value: Float[np.ndarray, " parts"]


def best_nested(sets: NestedSets, limits: SetLimits, context: int) -> Found | None:
    """The best set of a context under a nested logit; None where no exact way is known.

    That is where limits hold and a nest has more than ten candidates, or where no set is allowed.
    """
    free = bool(limits.free[context])
    known = _parts(sets, limits, context, free)
    if known is None:
        return None
    nothing = float(sets.nothing[context])
    ordered = free and bool((sets.lambdas[context][limits.present[context]] <= 1).all())
    z, before = 0.0 if nothing > 0 else float(known.value.min()), None
    for _ in range(STEPS):
        gain = known.attraction * (known.value - z)
        chosen = _decoupled(known, gain) if free else None
        if chosen is None or not known.shown[chosen].any():
            chosen, ordered = _chosen(known, gain, limits, context), False
        if chosen is None:
            return None
        shown = known.shown[chosen].any(0)
        found = float(sets.expected(np.array([context]), shown[None])[0])
        if before is not None and found <= z + SOLVED * max(1.0, abs(z)):
            return Found(before, z, z, REVENUE_ORDER if ordered else INTEGER)
        z, before = found, shown
    raise AssertionError("Dinkelbach's method did not end")


def _parts(sets: NestedSets, limits: SetLimits, context: int, free: bool) -> _Parts | None:
    """The parts of each nest among which the best set is; None if they are too many."""
    present = limits.present[context]
    nest, n = sets.nest[context], len(present)
    flags: list[Bool[np.ndarray, "parts n"]] = []
    for one in np.unique(nest[present]):
        places = np.flatnonzero(present & (nest == one))
        if free and sets.lambdas[context, places[0]] <= 1:
            order = places[np.argsort(-sets.values[context, places], kind="stable")]
            some = np.zeros((len(order) + 1, n), bool)
            some[:, order] = np.arange(len(order)) < np.arange(len(order) + 1)[:, None]
        elif len(places) <= LARGEST_NEST:
            some = np.zeros((2 ** len(places), n), bool)
            some[:, places] = np.arange(len(some))[:, None] >> np.arange(len(places)) & 1
            some = some[(some | ~limits.must[context])[:, places].all(1)]
        else:
            return None
        flags.append(some)
    shown = np.concatenate(flags)
    of = np.repeat(np.arange(len(flags)), [len(one) for one in flags])
    lambdas = sets.lambdas[context]
    V = np.where(shown, sets.utilities[context] / lambdas, -np.inf)
    top = np.where(shown.any(1), V.max(1), 0.0)
    each = np.exp(V - top[:, None])
    total = each.sum(1)
    scale = np.where(shown, lambdas, 0.0).max(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        attraction = np.where(shown.any(1), np.exp(scale * (np.log(total) + top)), 0.0)
    value = (each * sets.values[context]).sum(1) / np.maximum(total, 1e-300)
    return _Parts(shown, of, attraction, value)


def _decoupled(known: _Parts, gain: Float[np.ndarray, " parts"]) -> Int[np.ndarray, " nests"]:
    """The best part of each nest by itself."""
    starts = np.flatnonzero(np.diff(known.of, prepend=-1))
    ends = np.append(starts[1:], len(gain))
    return np.array([b + int(np.argmax(gain[b:e])) for b, e in zip(starts, ends, strict=True)])


def _chosen(
    known: _Parts, gain: Float[np.ndarray, " parts"], limits: SetLimits, context: int
) -> Int[np.ndarray, " nests"] | None:
    """One part of each nest with the largest sum of gains, under the limits."""
    from scipy.optimize import LinearConstraint, milp

    A, low, high = rows_of(limits, context)
    one_each = (known.of == np.arange(known.of.max() + 1)[:, None]).astype(float)
    ones = np.ones(len(one_each))
    # HiGHS ends within an absolute gap of 1e-6, which must be little beside the gains.
    unit = max(float(np.maximum(gain, 0.0).max()), 1e-300) / 1e3
    found: Any = milp(
        -gain / unit,
        constraints=[
            LinearConstraint(A @ known.shown.T, low, high),
            LinearConstraint(one_each, ones, ones),
        ],
        integrality=np.ones(len(gain)),
        bounds=(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    return None if found.x is None else np.flatnonzero(found.x > 0.5)

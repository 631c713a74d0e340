"""Exact optima under a logit and a mixture of logits, with a proof.

**A logit.** R(s) is a ratio of sums over s. R(s) >= z if and only if

    F(z) = max over s of sum over x in s of w_x (value(x) - z) - w_0 z >= 0,

so that the best R is the root of F (Dinkelbach 1967): take the best s for z, then z = R(s), until
s stays. Each step is a linear programme in flags. Without limits its solution is all x with
value(x) > z, hence the best set holds the most valuable items (Talluri and van Ryzin 2004). With
limits on the number of items and disjoint exclusive groups, the programme has corners at 0 and 1
alone, so that no integers are needed; with others it is a mixed-integer one.

**A mixture.** With t_k = 1 / (sum of w_k + w_k0) and z_kx = flag_x t_k, R is linear, and the
products are linear under bounds of t_k (Bront, Méndez-Díaz and Vulcano 2009).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._shapes import Bool, Float
from setwise.decide.limits import SetLimits
from setwise.decide.logit_sets import LogitSets

STEPS = 100  # Dinkelbach's method takes three to six
SOLVED = 1e-9  # relative
SECONDS = 20.0  # of a mixed-integer programme, after which it says how far it came
WIDEST = 1e7  # ratio of the bounds of t: with wider ones the solver's rounding decides
PRECISION = 1e-6  # relative

REVENUE_ORDER = "exact by revenue order"
LINEAR = "exact by linear programme"
INTEGER = "mixed-integer programme"


@dataclass(frozen=True, eq=False)
class Found:
    """The best set of one context: flags, what it earns, what none exceeds, and how."""

    shown: Bool[np.ndarray, " n"]
    value: float
    bound: float
    method: str


def by_revenue_order(
    sets: LogitSets, limits: SetLimits
) -> tuple[
    Bool[np.ndarray, "contexts n"], Float[np.ndarray, " contexts"], Bool[np.ndarray, " contexts"]
]:  # fmt: skip
    """The best set without limits of each context, what it earns, and whether limits allow it.

    Where limits allow it, it is the best under them too. A set must hold an item, so where nothing
    earns anything, the order of values proves nothing.
    """
    present, values = limits.present, np.where(limits.present, sets.values, -np.inf)
    order = np.argsort(-values, 1, kind="stable")
    weights = np.take_along_axis(sets.weights[:, :, 0], order, 1)
    worth = np.where(weights > 0, np.take_along_axis(sets.values, order, 1), 0) * weights
    below = np.cumsum(weights, 1) + sets.nothing
    with np.errstate(invalid="ignore", divide="ignore"):
        earned = np.where(below > 0, np.cumsum(worth, 1) / below, -np.inf)
    earned = np.where(np.take_along_axis(present, order, 1), earned, -np.inf)
    best = np.argmax(earned, 1)
    shown = np.zeros(present.shape, bool)
    first = np.arange(present.shape[1]) <= best[:, None]
    np.put_along_axis(shown, order, first, 1)
    every = np.arange(len(present))
    value = earned[every, best]
    proved = (value >= 0) | (sets.nothing[:, 0] == 0)
    return shown, value, proved & limits.allow(every, shown)


def best_logit(sets: LogitSets, limits: SetLimits, context: int) -> Found | None:
    """The best set of a context under a logit; None if no set meets the limits."""
    present = limits.present[context]
    w, value = sets.weights[context, :, 0], sets.values[context]
    nothing = float(sets.nothing[context, 0])
    linear = limits.disjoint and not len(limits.room)
    z, before = 0.0 if nothing > 0 else -np.inf, None
    for _ in range(STEPS):
        gain = w * (value - z) if np.isfinite(z) else w * value
        shown = _best_sum(np.where(present, gain, 0.0), limits, context, linear)
        if shown is None:
            return None
        below = float(w @ shown) + nothing
        found = float((w * value) @ shown) / below if below > 0 else float(value[shown].max())
        if before is not None and found <= z + SOLVED * max(1.0, abs(z)):
            return Found(before, z, z, LINEAR if linear else INTEGER)
        z, before = found, shown
    raise AssertionError("Dinkelbach's method did not end")


def _best_sum(
    gain: Float[np.ndarray, " n"], limits: SetLimits, context: int, linear: bool
) -> Bool[np.ndarray, " n"] | None:
    """The set with the largest sum of gains; None if no set meets the limits."""
    from scipy.optimize import Bounds, linprog, milp

    A, low, high = rows_of(limits, context)
    present, must = limits.present[context], limits.must[context]
    if limits.least[context] <= must.sum():
        # Nothing is shown for the number's sake. So no loss is, and a large one hides no gain.
        present = present & (must | (gain >= 0))
        gain = np.where(present, gain, 0.0)
    unit = max(float(np.abs(gain).max(initial=0.0)), 1e-300)
    if linear:
        found: Any = linprog(
            -gain / unit, np.vstack([A, -A]), np.concatenate([high, -low]),
            bounds=np.column_stack([must, present]).astype(float), method="highs-ds",
        )  # fmt: skip
    else:
        # HiGHS ends within an absolute gap of 1e-6, which must be little beside the gains.
        found = milp(
            -gain / (unit / 1e3), constraints=_constraints(A, low, high),
            integrality=np.ones(len(gain)),
            bounds=Bounds(must.astype(float), present.astype(float)),
            options={"mip_rel_gap": 0.0},
        )  # fmt: skip
    if found.x is None:
        return None
    whole = np.round(found.x)
    assert np.abs(whole - found.x).max() < 1e-5, "a corner of the programme is not at 0 and 1"
    return whole > 0


def rows_of(
    limits: SetLimits, context: int
) -> tuple[Float[np.ndarray, "r n"], Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """The limits of a context as low <= A flags <= high; those of must are bounds of flags."""
    n = limits.present.shape[1]
    A, low, high = [np.ones(n)], [float(limits.least[context])], [float(limits.most[context])]
    for of, places in limits.groups:
        if of == context:
            A.append(np.isin(np.arange(n), places).astype(float))
            low.append(0.0)
            high.append(1.0)
    for weight, room in zip(limits.weight[context].T, limits.room, strict=True):
        unit = max(float(room), 1e-300)
        A.append(weight / unit)
        low.append(0.0)
        high.append(float(room) / unit)
    return np.array(A), np.array(low), np.array(high)


def _constraints(
    A: Float[np.ndarray, "r n"], low: Float[np.ndarray, " r"], high: Float[np.ndarray, " r"]
) -> Any:
    from scipy.optimize import LinearConstraint

    return LinearConstraint(A, low, high)


def any_set(limits: SetLimits, context: int) -> Bool[np.ndarray, " n"] | None:
    """Some set that meets the limits; None if there is none."""
    return _best_sum(np.zeros(limits.present.shape[1]), limits, context, linear=False)


def best_mixture(
    sets: LogitSets, limits: SetLimits, context: int, seconds: float = SECONDS
) -> Found | None:
    """The best set of a context under a mixture of logits; None if no solution was found.

    The programme may end before its proof; then the bound is above the value.
    """
    from scipy.optimize import Bounds, milp

    n, classes = limits.present.shape[1], sets.classes
    present, must = limits.present[context], limits.must[context]
    low_t, high_t, w, nothing = _bounds_of_t(sets, limits, context)
    if max(high_t) > WIDEST:
        return None
    # Variables: n flags, then per class t_k and its n products z_k.
    size = n + classes * (n + 1)
    cost, A, low, high = np.zeros(size), [], [], []

    def add(entries: dict[int, float] | Float[np.ndarray, " v"], least: float, top: float) -> None:
        row = np.zeros(size)
        if isinstance(entries, dict):
            row[list(entries)] = list(entries.values())
        else:
            row[: len(entries)] = entries
        A.append(row)
        low.append(least)
        high.append(top)

    for row, least, top in zip(*rows_of(limits, context), strict=True):
        add(row, least, top)
    for k in range(classes):
        t = n + k * (n + 1)
        z = t + 1 + np.arange(n)
        cost[z] = -sets.shares[context, k] * w[k] * sets.values[context]
        whole = np.zeros(size)
        whole[t], whole[z] = nothing[k], w[k]
        add(whole, 1.0, 1.0)
        for place in np.flatnonzero(present):
            flag, product = int(place), int(z[place])
            add({product: 1.0, flag: -high_t[k]}, -np.inf, 0.0)
            add({product: 1.0, flag: -low_t[k]}, 0.0, np.inf)
            add({product: 1.0, t: -1.0, flag: -low_t[k]}, -np.inf, -low_t[k])
            add({product: 1.0, t: -1.0, flag: -high_t[k]}, -high_t[k], np.inf)
    lower, upper = np.zeros(size), np.zeros(size)
    lower[:n], upper[:n] = must, present
    for k in range(classes):
        t = n + k * (n + 1)
        lower[t], upper[t] = low_t[k], high_t[k]
        upper[t + 1 : t + 1 + n] = np.where(present, high_t[k], 0.0)
    found: Any = milp(
        cost, constraints=_constraints(np.array(A), np.array(low), np.array(high)),
        integrality=(np.arange(size) < n).astype(int), bounds=Bounds(lower, upper),
        options={"mip_rel_gap": 0.0, "time_limit": seconds, "presolve": False},
    )  # fmt: skip
    if found.x is None:
        return None
    shown = np.round(found.x[:n]) > 0
    value = float(sets.expected(np.array([context]), shown[None])[0])
    if abs(-float(found.fun) - value) > PRECISION * max(abs(value), 1e-12):
        return None  # its rounding decided, and it proves nothing
    bound = max(value, -float(found.mip_dual_bound))
    return Found(shown, value, bound, INTEGER)


def _bounds_of_t(
    sets: LogitSets, limits: SetLimits, context: int
) -> tuple[list[float], list[float], Float[np.ndarray, "k n"], Float[np.ndarray, " k"]]:
    """Bounds of 1 / (sum of weights), and the weights, in units in which the largest sum is 1."""
    present, must = limits.present[context], limits.must[context]
    least, most = int(limits.least[context]), int(limits.most[context])
    low, high, scaled, nothing = [], [], [], []
    for k in range(sets.classes):
        w, none = sets.weights[context, :, k], float(sets.nothing[context, k])
        fixed, rest = float(w[must].sum()), np.sort(w[present & ~must])
        kept = int(must.sum())
        largest = none + fixed + float(rest[::-1][: max(0, most - kept)].sum())
        smallest = none + fixed + float(rest[: max(0, least - kept)].sum())
        scaled.append(np.where(present, w, 0.0) / largest)
        nothing.append(none / largest)
        low.append(1.0)
        high.append(largest / smallest)
    return low, high, np.array(scaled), np.array(nothing)

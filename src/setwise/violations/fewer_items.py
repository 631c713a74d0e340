"""Tests of IIA by taking items away: under IIA the MNL of what is left has the same weights.

Estimate b and its covariance V from all items, and again (b', V') from sets with fewer: without
some alternatives, and only where another was chosen; or, where items have no names, without a
random half of those that were not chosen. Both leave the logit valid under IIA (McFadden 1978).

Not all of b may be identified from what is left (the constant of an alternative that is gone).
With the columns of Q a basis of the space that differences of the items left span, Q'b is what
can be compared, and x Q are the columns that estimate it.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import solve_triangular

from setwise import _segments
from setwise._errors import InputError
from setwise.choices import Encoded
from setwise.training import maximise
from setwise.training.newton import Optimum
from setwise.violations.likelihood_ratio import SETS_PER_PARAMETER, fit_warnings
from setwise.violations.verdict import IIATest, verdict

SAME = 1e-6  # a variance that is larger by this share is no larger
TOLERANCE = 1e-9
SETS_FOR_HAUSMAN = 200  # a parameter
NO_POWER = (
    "no power: the items left determine the same weights in any case, as where every set offers "
    "the same alternatives and they have constants only"
)

Vector = Float[np.ndarray, " q"]
Matrix = Float[np.ndarray, "q q"]


@dataclass(frozen=True, eq=False)
class EstimateComparison:
    """Estimates from all items and from fewer, where ``data`` are the sets with fewer items.

    In directions in which V is the identity, ``ratio`` holds the variances of b' (at least 1, if
    IIA is true and the sample large) and ``shift`` is b' - b.
    """

    data: Encoded
    all_items: Optimum
    fewer: Optimum
    at_all: Vector
    ratio: Vector
    shift: Vector

    @classmethod
    def of(
        cls, data: Encoded, gone: Bool[np.ndarray, " rows"], variance_at: str = "all_items"
    ) -> "EstimateComparison":
        """Fit both.

        ``variance_at`` says where V' is taken: "all_items", at b as V is, or "each", at b'. Under
        IIA both are right in large samples.
        """
        data = _in_units(data)
        all_items = maximise(data)
        known = all_items.identified
        left = _left(replace(data, items=data.items[:, known]), gone)
        Q = _spanned(left)
        left = replace(left, items=left.items @ Q)
        fewer = maximise(left)
        at_all = Q.T @ all_items.coefficients[known]
        V = Q.T @ all_items.covariance[np.ix_(known, known)] @ Q
        L = _root(V)
        at = at_all if variance_at == "all_items" else fewer.coefficients
        inverse = np.linalg.pinv(information(left, at), hermitian=True)
        half = solve_triangular(L, inverse, lower=True)
        ratio, U = np.linalg.eigh(solve_triangular(L, half.T, lower=True))
        shift = U.T @ solve_triangular(L, fewer.coefficients - at_all, lower=True)
        return cls(left, all_items, fewer, at_all, ratio, shift)

    @property
    def differ(self) -> Bool[np.ndarray, " q"]:
        """The directions about which fewer items say something else than all do."""
        return np.abs(self.ratio - 1) > SAME

    def warnings(self) -> list[str]:
        """Where the tests have no power or their assumptions fail."""
        found = fit_warnings({"MNL of all items": self.all_items, "MNL of fewer": self.fewer})
        parameters = len(self.at_all)
        if not self.differ.any():
            found.append(NO_POWER)
        if len(self.data) < SETS_PER_PARAMETER * parameters:
            found.append(
                f"{len(self.data):,} sets are left for {parameters} parameters, fewer than "
                f"{SETS_PER_PARAMETER} each: p is rough and the power low"
            )
        return found

    def details(self) -> dict[str, int | float]:
        """The numbers behind the statistic."""
        return {
            "sets": self.all_items.sets,
            "sets_left": len(self.data),
            "parameters": len(self.at_all),
            "log_likelihood_left": self.fewer.log_likelihood,
            "log_likelihood_left_at_all": log_likelihood(self.data, self.at_all),
            "smallest_ratio": float(self.ratio.min(initial=np.inf)),
        }


def hausman_mcfadden(compared: EstimateComparison) -> IIATest:
    """Hausman and McFadden (1984): (b' - b)' (V' - V)^- (b' - b), chi-squared with its rank.

    The published form has V at b and V' at b' (``variance_at="each"``). V' - V need not be positive
    definite in a sample, and the statistic may then be negative. With V' at b
    (``variance_at="all_items"``) the difference has less noise, and is positive more often.
    """
    found, differ = compared.warnings(), compared.differ
    if SETS_PER_PARAMETER <= len(compared.data) / max(len(compared.at_all), 1) < SETS_FOR_HAUSMAN:
        found.append(
            f"fewer than {SETS_FOR_HAUSMAN} sets per parameter are left, with which this test "
            'rejects somewhat too often; "small_hsiao" does not'
        )
    excess = compared.ratio[differ] - 1
    statistic = float(np.sum(compared.shift[differ] ** 2 / excess))
    if (excess < 0).any():
        found.append(
            f"V' - V is not positive definite ({int((excess < 0).sum())} of {len(excess)} "
            "directions are negative), as it would be in a large sample under IIA: p is not to be "
            'trusted; use method="small_hsiao" or "mcfadden_tye_train", or variance_at="all_items"'
        )
    return verdict("hausman_mcfadden", statistic, int(differ.sum()), found, compared.details())


def mcfadden_tye_train(compared: EstimateComparison) -> IIATest:
    """McFadden, Tye and Train (1977): 2 (log L'(b') - log L'(b)) of the sets with fewer items.

    b comes from the same choices, so that chi-squared would reject too rarely (Small and Hsiao
    1985). Under IIA the statistic is a sum of chi-squares with weights 1 - 1/ratio. Its p is that
    of a scaled chi-squared with equal mean and variance (Satterthwaite): statistic and degrees
    are reported on that scale; ``details["ratio_statistic"]`` is the plain one.
    """
    found, details = compared.warnings(), compared.details()
    gain = details["log_likelihood_left"] - details["log_likelihood_left_at_all"]
    plain = max(2 * gain, 0.0)  # below 0 by rounding alone
    details["ratio_statistic"] = plain
    weights = 1 - 1 / compared.ratio[compared.differ]
    if (weights < 0).any():
        found.append(
            "the weights of fewer items are in part estimated better than those of all, which IIA "
            "forbids in large samples: p is rough"
        )
        weights = weights[weights > 0]
    if not len(weights):
        return verdict("mcfadden_tye_train", 0.0, 0, found, details)
    scale = float((weights**2).sum() / weights.sum())
    degrees = float(weights.sum() / scale)
    return verdict("mcfadden_tye_train", plain / scale, degrees, found, details)


def small_hsiao(data: Encoded, gone: Bool[np.ndarray, " rows"], seed: int) -> IIATest:
    """Small and Hsiao (1985): the ratio test on half of the sets, with b mixed from both halves.

        statistic = 2 (log L'_2(b'_2) - log L'_2(b)),  b = b_1 / sqrt 2 + (1 - 1 / sqrt 2) b_2

    where 1 and 2 are random halves. The mixture makes Var(b'_2 - b) equal to V'_2, so that the
    statistic is chi-squared with as many degrees of freedom as parameters. Half of the data is
    spent on this: its power is lower, and it changes with the seed.
    """
    if len(data) < 2:
        raise InputError("one set has no halves; give more sets")
    order = np.random.default_rng(seed).permutation(len(data))
    data = _in_units(data)
    known = maximise(data).identified
    data = replace(data, items=np.ascontiguousarray(data.items[:, known]))
    halves = [np.sort(part) for part in np.array_split(order, 2)]
    first, second = (data.take(part) for part in halves)
    one, two = maximise(first), maximise(second)
    left = _left(second, gone[np.isin(_segments.owners(data.offsets), halves[1])])
    Q = _spanned(left)
    left = replace(left, items=left.items @ Q)
    fewer = maximise(left)
    share = np.sqrt(0.5)
    mixed = Q.T @ (share * one.coefficients + (1 - share) * two.coefficients)
    found = fit_warnings({"MNL of half": one, "MNL of the other half": two, "MNL of fewer": fewer})
    if not (one.identified.all() and two.identified.all()):
        found.append("half of the sets do not identify all weights: p is not to be trusted")
    if np.allclose(fewer.coefficients, Q.T @ two.coefficients, atol=1e-6):
        found.append(NO_POWER)
    if len(left) < SETS_PER_PARAMETER * len(mixed):
        found.append(
            f"{len(left):,} sets are left for {len(mixed)} parameters, fewer than "
            f"{SETS_PER_PARAMETER} each: p is rough and the power low"
        )
    at_mixed = log_likelihood(left, mixed)
    details: dict[str, int | float] = {
        "sets": len(data), "sets_left": len(left), "parameters": len(mixed),
        "log_likelihood_left": fewer.log_likelihood, "log_likelihood_left_at_all": at_mixed,
    }  # fmt: skip
    statistic = max(2 * (fewer.log_likelihood - at_mixed), 0.0)
    return verdict("small_hsiao", statistic, len(mixed), found, details)


def random_items(data: Encoded, outside: bool, seed: int) -> Bool[np.ndarray, " rows"]:
    """About half of each set's rows, neither chosen nor outside options.

    floor(n / 2) of n rows go, the outside option counted; none go if n is 2.
    """
    assert data.chosen is not None
    draw = np.random.default_rng(seed).random(len(data.items))
    draw[data.offsets[:-1] + data.chosen] = 2
    if outside:
        draw[data.offsets[1:] - 1] = 2
    order = np.lexsort((draw, _segments.owners(data.offsets)))
    place = np.empty(len(order), np.int64)
    place[order] = _segments.positions(data.offsets)
    half = np.where(data.sizes > 2, data.sizes // 2, 0)
    gone = (place < _segments.spread(half, data.offsets)) & (draw < 2)
    if not gone.any():
        raise InputError(
            "no set has three items or more, and nothing is left to compare where one goes; use "
            'method="lcl"'
        )
    return gone


def log_likelihood(data: Encoded, b: Float[np.ndarray, " d"]) -> float:
    """The MNL's log L at any weights.

    >>> two = Encoded(np.array([[0.0], [1], [0], [0]]), np.empty((2, 0)), np.array([0, 2, 4]),
    ...               np.array([1, 0]), None)
    >>> round(float(np.exp(log_likelihood(two, np.log([3.0])))), 4)  # 3/4 times 1/2
    0.375
    """
    assert data.chosen is not None
    logs = _segments.log_softmax(data.items @ b, data.offsets)
    weight = np.ones(len(data)) if data.weight is None else data.weight
    return float(weight @ logs[data.offsets[:-1] + data.chosen])


def information(data: Encoded, b: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d d"]:
    """Minus the Hessian of the MNL's log L: sum over sets of the items' covariance under P."""
    p = _segments.softmax(data.items @ b, data.offsets)
    means = _segments.sums(p[:, None] * data.items, data.offsets)
    centred = data.items - _segments.spread(means, data.offsets)
    weight = 1.0 if data.weight is None else _segments.spread(data.weight, data.offsets)
    return centred.T @ (centred * (p * weight)[:, None])


def _in_units(data: Encoded) -> Encoded:
    """Columns centred within sets and in units of what they differ there: no unit decides then."""
    x = _segments.centred(data.items, data.offsets)
    size = np.sqrt((x**2).mean(0))
    return replace(data, items=x / np.where(size > 0, size, 1.0))


def _left(data: Encoded, gone: Bool[np.ndarray, " rows"]) -> Encoded:
    """The sets without these rows, where another was chosen and two items or more are left."""
    assert data.chosen is not None
    chosen_rows = data.offsets[:-1] + data.chosen
    sizes = _segments.sums(~gone, data.offsets)
    keep = ~gone[chosen_rows] & (sizes > 1)
    if not keep.any():
        raise InputError(
            "no choice is left once these items are gone; name alternatives without which sets "
            "still have two items, one of them chosen"
        )
    earlier = _segments.positions(data.offsets) < _segments.spread(data.chosen, data.offsets)
    chosen = data.chosen - _segments.sums(gone & earlier, data.offsets)
    rows = ~gone & _segments.spread(keep, data.offsets)
    return Encoded(
        data.items[rows], data.context[keep], _segments.offsets_of(sizes[keep]),
        chosen[keep], None if data.weight is None else data.weight[keep],
    )  # fmt: skip


def _root(V: Matrix) -> Matrix:
    try:
        return np.linalg.cholesky(V)
    except np.linalg.LinAlgError:
        raise InputError(
            "the weights of all items have no covariance: some grow without bound; drop columns "
            'that tell the chosen items without error, or use method="lcl"'
        ) from None


def _spanned(data: Encoded) -> Float[np.ndarray, "d q"]:
    """An orthonormal basis of the space that differences within sets span."""
    within = _segments.centred(data.items, data.offsets)
    sizes, directions = np.linalg.eigh(within.T @ within)
    return directions[:, sizes > TOLERANCE * max(float(sizes.max(initial=0.0)), TOLERANCE)]

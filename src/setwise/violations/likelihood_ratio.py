"""Tests of IIA by likelihood ratio: does a model in which other items matter fit better?

    statistic = 2 (log L of the larger model - log L of the MNL)

Both are concave and solved exactly. Under IIA the statistic is chi-squared; its degrees of freedom
are the parameters that the larger model has more *and that the data identify*.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from setwise import _segments
from setwise._errors import InputError
from setwise.choices import Encoded
from setwise.choices.alternatives import Alternatives, shown
from setwise.training import maximise
from setwise.training.newton import Optimum
from setwise.violations.verdict import IIATest, detectable_gain, verdict

SETS_PER_PARAMETER = 20
"""With fewer, the chi-squared distribution is not reached yet: see docs/iia.md for the rates."""
USUAL_GAIN = 0.05
"""Nats per choice that context is worth in real data: 0.03 to 0.06 in travel, hotels, flights."""
PAIRS_AT_ONCE = 200_000
MOST_ALTERNATIVES = 20  # 380 pairs
ROUNDING = 1e-12  # a set's mean this near to zero, in standardised units, is zero


def mnl_columns(data: Encoded) -> Encoded:
    """The MNL that a test takes as true: features, and their products with the set's context.

    A context feature, such as income, may change what a feature is worth without any breach of
    IIA; left out of the MNL, it would be taken for one.
    """
    context = _segments.spread(data.context, data.offsets)
    return replace(data, items=np.hstack([data.items, _products(data.items, context)]))


def linear_context(data: Encoded) -> IIATest:
    """The linear context logit against MNL: w(s) = theta + A mean(x), d² parameters more.

    It sees whether the weight of a feature depends on the *means* of the others' features; a
    departure from IIA that leaves the means alone it cannot see.
    """
    means = _segments.means(data.items, data.offsets)
    means[np.abs(means) < ROUNDING] = 0  # or a mean that is never other than 0 would be noise
    products = _products(data.items, _segments.spread(means, data.offsets))
    return _tested("lcl", mnl_columns(data), products)


def comparisons(data: Encoded) -> IIATest:
    """Comparing each item with each other one, against MNL: 2 d + d (d - 1) / 2 parameters more.

    With delta = x - z and averages over the other items z of s, the columns are

        mean |delta_j|, mean sign(delta_j) and, for j < k, mean sign(delta_j) sign(delta_k)

    how far an item stands from the others, its rank, and how often one of a pair is ahead in both
    features. With them a decoy, a compromise and a near copy can be told, which leave the set's
    mean almost as it is.
    """
    return _tested("comparisons", mnl_columns(data), compared_pairs(data))


def compared_pairs(data: Encoded) -> Float[np.ndarray, "rows e"]:
    """The columns of :func:`comparisons`, in the order given there.

    >>> three = Encoded(np.array([[0.0], [1], [3]]), np.empty((1, 0)), np.array([0, 3]), None, None)
    >>> compared_pairs(three).tolist()
    [[2.0, -1.0], [1.5, 0.0], [2.5, 1.0]]
    """
    d = data.items.shape[1]
    columns = np.empty((len(data.items), 2 * d + d * (d - 1) // 2))
    for n in np.unique(data.sizes):
        rows = data.offsets[:-1][data.sizes == n][:, None] + np.arange(n)
        for some in np.array_split(rows, -(-len(rows) * n * n // PAIRS_AT_ONCE)):
            x = data.items[some]
            delta = [x[:, :, None, j] - x[:, None, :, j] for j in range(d)]
            sign = [np.sign(one) for one in delta]
            sums = [np.abs(one).sum(2) for one in delta] + [one.sum(2) for one in sign]
            sums += [(sign[j] * sign[k]).sum(2) for j in range(d) for k in range(j + 1, d)]
            columns[some] = np.stack(sums, -1) / max(n - 1, 1)
    return columns


def pairwise_pulls(data: Encoded, alternatives: Alternatives) -> IIATest:
    """The universal CDM against MNL with a constant for each of K alternatives.

        g(i, s) = < theta, x_i > + alpha_i + sum over other j in s of U_ij

    (Seshadri, Peysakhovich and Ugander 2019). With all subsets of K alternatives in the data,
    K (K - 2) parameters more are identified.
    """
    K = len(alternatives.names)
    if K > MOST_ALTERNATIVES:
        raise InputError(
            f"there are {K} alternatives ({shown(alternatives.names)}), {K * (K - 1):,} pairs; "
            f'method="cdm" is for at most {MOST_ALTERNATIVES}: group them, or use method="lcl"'
        )
    own = np.eye(K)[alternatives.codes]
    others = _segments.spread(_segments.sums(own, data.offsets), data.offsets) - own
    pulls = (own[:, :, None] * others[:, None, :]).reshape(len(own), -1)
    null = mnl_columns(data)
    null = replace(null, items=np.hstack([null.items, own]))
    return _tested("cdm", null, pulls[:, pulls.any(0)])


def _tested(method: str, null: Encoded, extra: Float[np.ndarray, "rows e"]) -> IIATest:
    wide = replace(null, items=np.hstack([null.items, extra]))
    small, large = maximise(null), maximise(wide)
    degrees = int(large.identified.sum() - small.identified.sum())
    gain = large.log_likelihood - small.log_likelihood
    # Two exact maxima may differ by rounding alone; a smaller one in the larger model is that.
    statistic = max(2 * gain, 0.0) if degrees else 0.0
    details: dict[str, int | float] = {
        "log_likelihood": small.log_likelihood, "log_likelihood_with_context": large.log_likelihood,
        "sets": len(null), "parameters": int(small.identified.sum()),
    }  # fmt: skip
    warnings = _warnings(method, small, large)
    if degrees:
        details["gain_a_choice"] = gain / len(null)
        details["detectable_gain"] = detectable_gain(len(null), degrees)
        if details["detectable_gain"] > USUAL_GAIN:
            warnings.append(
                f"low power: with {len(null):,} sets and {degrees} degrees of freedom, 4 tests of "
                f"5 find only a gain of {details['detectable_gain']:.2g} nats per choice or more, "
                f"and in real data context is worth about {USUAL_GAIN:g}"
            )
    return verdict(method, statistic, degrees, warnings, details)


def _warnings(method: str, small: Optimum, large: Optimum) -> list[str]:
    found = []
    parameters = int(large.identified.sum())
    if not large.identified.sum() > small.identified.sum():
        same = {
            "comparisons": "comparing items says no more than the features do",
            "lcl": "the set means never differ in a way that the features do not tell",
            "cdm": "no alternative is met in different company: all sets offer the same ones",
        }[method]
        found.append(f"no power: {same}")
    elif large.sets < SETS_PER_PARAMETER * parameters:
        found.append(
            f"{large.sets:,} sets for {parameters} parameters are fewer than {SETS_PER_PARAMETER} "
            "each: the statistic is then larger than chi-squared, and p too small; use fewer "
            "features or more sets"
        )
    return found + fit_warnings({"MNL": small, "larger model": large})


def fit_warnings(fits: dict[str, Optimum]) -> list[str]:
    """Where a likelihood has no maximum, or the search for it did not end."""
    found = []
    for name, fit in fits.items():
        if fit.separation:
            found.append(
                f"in the {name} {int(fit.separation.columns.sum())} coefficients grow without "
                f"bound: in {fit.separation.sets:,} sets some columns tell the chosen items "
                "without error, and p means little; look for a column that leaks the choice, or "
                "an alternative that is almost never chosen"
            )
        elif not fit.converged:
            found.append(f"the {name} did not converge, and p means little")
    return found


def _products(
    x: Float[np.ndarray, "rows d"], z: Float[np.ndarray, "rows m"]
) -> Float[np.ndarray, "rows dm"]:
    """Every column of x times every column of z, the latter in units of about one."""
    scale = np.sqrt((z**2).mean(0))
    scale[scale == 0] = 1
    return (x[:, :, None] * (z / scale)[:, None, :]).reshape(len(x), -1)

"""How much each member of an ensemble counts: chosen on sets that members did not learn from."""

import numpy as np
from jaxtyping import Float, Int

from setwise.metrics.measures import error_of_mean

PICKS = 32
CHANCE, CERTAINTY = 1.0, 3.0
"""Standard errors of a gain: those taken off what may be chance, and those that make it sure."""
SHARES = np.linspace(0, 1, 21)
FEW_SETS, FOR_THE_FIRST = 500, 10
"""Fewer sets than this leave the first member a share, as if so many more had spoken for it."""


def select(
    log_p: Float[np.ndarray, "members sets"], weight: Float[np.ndarray, " sets"] | None = None
) -> Float[np.ndarray, " members"]:
    """The weight of each member, by greedy selection with replacement (Caruana et al. 2004).

        add, 32 times, the member m that makes the mean of the probabilities picked so far best:
        argmax_m sum over s of log (sum over picks p of P_p(s) + P_m(s))

    The weight of a member is its share of the picks. Each step looks one member ahead, so that a
    small validation part is hardly fitted, and members that only add noise get nothing.

    Args:
        log_p: log P of what was chosen in each validation set, one row per member.
        weight: of the sets.

    >>> log_p = np.log([[0.9, 0.1], [0.1, 0.9], [0.1, 0.1]])
    >>> select(log_p).tolist()
    [0.5, 0.5, 0.0]
    """
    members, sets = log_p.shape
    share = np.ones(sets) if weight is None else weight
    picked, counts = np.full(sets, -np.inf), np.zeros(members)
    for _ in range(PICKS):
        tried = np.logaddexp(picked, log_p)
        best = int(np.argmax(tried @ share))
        picked, counts[best] = tried[best], counts[best] + 1
    return counts / PICKS


def mixture(
    log_p: Float[np.ndarray, "members sets"], weights: Float[np.ndarray, " members"]
) -> Float[np.ndarray, " sets"]:
    """log of the weighted mean of probabilities; members without a weight do not matter."""
    used = weights > 0
    return np.logaddexp.reduce(log_p[used] + np.log(weights[used])[:, None], 0)


def beyond_chance(
    log_p: Float[np.ndarray, "members sets"],
    weights: Float[np.ndarray, " members"],
    weight: Float[np.ndarray, " sets"] | None = None,
    people: Int[np.ndarray, " sets"] | None = None,
) -> Float[np.ndarray, " members"]:
    """The weights, drawn towards the first member where their gain over it may be chance.

    With k the share that the weights keep, and 1 - k that of the first member, the gain is

        G(k) = mean over sets of log [(1 - k) P_first + k P_mixture] - log P_first

    If G(1) is at least three of its standard errors (clustered, where ``people`` numbers the person
    of each set), k = 1. Otherwise k maximises G(k) less one standard error of G(k), in steps of a
    twentieth. Half of a mixture that may be no better has a gain that is surer than half of its
    whole gain, since the logarithm is concave.

    With n < 500 sets k is at most n / (n + 10). The same few sets stopped and weighed the members,
    so that gains are too good, and no set may show how bad the worst predictions are.

    >>> few = np.log([[0.5, 0.5, 0.5, 0.5], [0.9, 0.8, 0.4, 0.5]])
    >>> given = np.array([0.0, 1.0])
    >>> beyond_chance(few, given).round(2).tolist()
    [0.71, 0.29]
    >>> beyond_chance(np.tile(few, 9), given).round(2).tolist()  # a gain of 3.7 standard errors
    [0.22, 0.78]
    >>> beyond_chance(np.tile(few, 125), given).tolist()
    [0.0, 1.0]
    """
    share = np.ones(log_p.shape[1]) if weight is None else weight
    share = share / share.sum()
    alone = np.eye(len(weights))[0]

    def gain(kept: float) -> tuple[float, float]:
        gained = mixture(log_p, kept * weights + (1 - kept) * alone) - log_p[0]
        if not np.isfinite(gained).all():  # a choice that all with a weight hold impossible
            return -np.inf, 0.0
        return float(gained @ share), error_of_mean(gained, share, people)

    sets, (whole, error), kept = len(share), gain(1.0), 1.0
    if not whole >= CERTAINTY * error:
        sure = [found - CHANCE * error for found, error in map(gain, SHARES)]
        kept = float(SHARES[int(np.argmax(sure))])
    if sets < FEW_SETS:
        kept = min(kept, sets / (sets + FOR_THE_FIRST))
    if kept == 1:
        return weights
    return kept * weights + (1 - kept) * alone

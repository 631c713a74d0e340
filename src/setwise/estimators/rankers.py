"""Linear rankers of the paper's baselines: SVMRank and AdaRank.

Both learn an order, not probabilities; :class:`LinearScorer` gives their scores a scale.
"""

import warnings
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from setwise import _segments
from setwise._arguments import number, optional, seed, whole
from setwise.choices import Encoded, Schema
from setwise.estimators.basic import SIGNS, LinearScorer, chosen_of, one_feature_measures, shares
from setwise.estimators.scikit_learn import warn_of_convergence
from setwise.metrics import Ranks

# Of C, in units of one over the number of pairs, so that the penalty means the same in any data;
# beyond the last, accuracy stands still and the solver takes long.
GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
ITERATIONS = 20_000
LARGEST_GAIN = 1 - 1e-12  # a perfect ranker's alpha would be infinite


class SVMRank(LinearScorer):
    """Pairwise hinge (Joachims 2002): min_b |b|^2 / 2 + C sum_s weight_s sum_x h_s(x),

    with h_s(x) = max(0, 1 - b . (chosen - x)) for each other item x of the set s; features are
    standardised, and weights are scaled to a mean of 1.

    Args:
        C: the weight of the pairs against the penalty; None takes the best of 0.1, 1, ... 1000
            over the number of pairs, by top-1 accuracy on the validation part (the smallest of
            equals).
        max_pairs: of more pairs than this a random sample is used, which bounds time and memory.
        seed: of the solver, the sample, and the held-out part where C is to be found and no
            validation part is given.

    Fitted attributes: ``C_`` and those of :class:`LinearScorer`.

    >>> import setwise as sw
    >>> model = SVMRank().fit(sw.datasets.load("modecanada"))
    >>> dict(zip(model.feature_names_, np.sign(model.coef_).tolist()))["cost"]
    -1.0
    """

    CHECKS: ClassVar = {"C": optional(number(above=0)), "max_pairs": whole(), "seed": seed}
    FITTED = ("temperature", "C")

    C_: float

    def __init__(self, C: float | None = None, *, max_pairs: int = 200_000, seed: int = 0):
        self.C = C
        self.max_pairs = max_pairs
        self.seed = seed

    @property
    def holds_out(self) -> bool:
        return self.C is None

    def _learn(self, schema: Schema, train: Encoded, valid: Encoded) -> Float[np.ndarray, " d"]:
        differences, weight = pairs(train, self.max_pairs, self.seed)
        best, best_accuracy, converged = np.zeros(differences.shape[1]), -1.0, True
        for c in [one / len(weight) for one in GRID] if self.C is None else [self.C]:
            coef, done = _solve(differences, weight, c, self.seed)
            ranks = Ranks.of(valid.items @ coef, valid.offsets, chosen_of(valid))
            accuracy = float(ranks.top(1) @ shares(valid))
            if accuracy > best_accuracy:
                best, best_accuracy, converged, self.C_ = coef, accuracy, done, c
        if not converged:
            warn_of_convergence(
                f"SVMRank with C={self.C_} did not converge in {ITERATIONS} iterations; its "
                "coefficients are not exact, a smaller C converges sooner",
                stacklevel=3,
            )
        return best


class AdaRank(LinearScorer):
    """Boosting of one-feature rankers on the reciprocal rank (Xu and Li 2007).

    A weak ranker orders by one standardised feature, up or down. With E(h, s) the reciprocal rank
    that h gives the chosen item of s (ties by expectation) and P a distribution over sets, first
    their weights, each round takes the weak ranker with the largest sum_s P(s) E(h, s),

        alpha = 1/2 ln( sum_s P(s) (1 + E(h, s)) / sum_s P(s) (1 - E(h, s)) ),

    adds alpha h to the score, and makes P(s) proportional to weight_s exp(-E(score, s)). The
    final score sum_t alpha_t (+-x_t) is linear, so it does satisfy IIA, although the paper lists
    AdaRank among the methods that need not. Where the first feature is still the best under the
    second P, ranks and P no longer change, and it stays the only one: so the published algorithm.

    Args:
        rounds: the most rounds.
        patience: stop after this many rounds without a better mean reciprocal rank on the
            training part; the rounds after the best one are dropped.

    Fitted attributes, one value per round: ``alphas_``, ``chosen_features_``, ``directions_``,
    ``history_`` (the mean reciprocal rank); ``best_round_`` (how many rounds count); and those of
    :class:`LinearScorer`.

    >>> import setwise as sw
    >>> model = AdaRank().fit(sw.datasets.load("modecanada"))
    >>> model.chosen_features_[0], model.directions_[0]
    ('is_car', 'descending')
    """

    CHECKS: ClassVar = {"rounds": whole(), "patience": whole()}
    FITTED = (
        "temperature", "alphas", "chosen_features", "directions", "history", "best_round",
    )  # fmt: skip

    def __init__(self, rounds: int = 100, *, patience: int = 10):
        self.rounds = rounds
        self.patience = patience

    def _learn(self, schema: Schema, train: Encoded, valid: Encoded) -> Float[np.ndarray, " d"]:
        weak, weight = one_feature_measures(train, Ranks.reciprocal), shares(train)
        self.alphas_, self.chosen_features_, self.directions_ = [], [], []
        self.history_: list[float] = []
        p, score, coef = weight, np.zeros(len(train.items)), np.zeros(train.items.shape[1])
        best = coef
        while len(self.history_) < self.rounds:
            gains = weak @ p
            direction, feature = np.unravel_index(np.argmax(gains), gains.shape)
            gain = min(float(gains[direction, feature]), LARGEST_GAIN)
            alpha = float(np.log((1 + gain) / (1 - gain)) / 2)
            name, sign = list(SIGNS.items())[direction]
            coef = coef + sign * alpha * (np.arange(len(coef)) == feature)
            score += sign * alpha * train.items[:, feature]
            reached = Ranks.of(score, train.offsets, chosen_of(train)).reciprocal()
            self.alphas_.append(alpha)
            self.chosen_features_.append(schema.item_names[feature])
            self.directions_.append(name)
            self.history_.append(float(weight @ reached))
            if self.history_[-1] > max(self.history_[:-1], default=0.0):
                best, self.best_round_ = coef, len(self.history_)
            if len(self.history_) - self.best_round_ >= self.patience:
                break
            p = weight * np.exp(-reached)
            p = p / p.sum()
        return best


def pairs(
    encoded: Encoded, most: int, seed: int
) -> tuple[Float[np.ndarray, "pairs d"], Float[np.ndarray, " pairs"]]:
    """chosen - other for each other item of each set, and the sets' weights (1 on average).

    >>> one = Encoded(np.array([[1.0], [5.0], [2.0]]), np.empty((1, 0)), np.array([0, 3]),
    ...               np.array([1]), None)
    >>> pairs(one, most=10, seed=0)[0].tolist()
    [[4.0], [3.0]]
    """
    weight = shares(encoded) * len(encoded)
    sets = _segments.owners(encoded.offsets)
    winners: Int[np.ndarray, " sets"] = encoded.offsets[:-1] + chosen_of(encoded)
    others = np.delete(np.arange(len(sets)), winners)
    if len(others) > most:
        others = np.sort(np.random.default_rng(seed).choice(others, most, replace=False))
    return encoded.items[winners[sets[others]]] - encoded.items[others], weight[sets[others]]


def _solve(
    differences: Float[np.ndarray, "pairs d"],
    weight: Float[np.ndarray, " pairs"],
    c: float,
    seed: int,
) -> tuple[Float[np.ndarray, " d"], bool]:
    """The coefficients, and whether the solver got to its tolerance.

    LinearSVC wants two classes: every second difference is mirrored, which changes no hinge.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    if len(differences) == 1:
        differences, weight = np.repeat(differences, 2, 0), np.repeat(weight, 2) / 2
    sign = np.where(np.arange(len(differences)) % 2 == 0, 1.0, -1.0)
    solver = LinearSVC(
        loss="hinge", C=c, fit_intercept=False, max_iter=ITERATIONS, random_state=seed
    )
    with warnings.catch_warnings():  # the caller says so if the C that it takes did not converge
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver.fit(differences * sign[:, None], sign, sample_weight=weight)
    return solver.coef_[0], bool(solver.n_iter_ < ITERATIONS)

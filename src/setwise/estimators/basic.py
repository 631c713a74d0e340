"""Linear scores that rank: their common part, and the basic rules (one feature; chance).

A ranker's score has an order but no scale: twice a hinge or boosting score ranks the same. All of
them are calibrated by one positive number, the temperature T, so that P(x | s) is the softmax of
g(x) / T: ranks stay as they are, and the NLL means something.
"""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from setwise import _segments
from setwise._arguments import one_of, optional, text
from setwise._errors import InputError
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema
from setwise.estimators.base import FEWEST_SETS, Estimator, warn_if_perfect
from setwise.metrics import Ranks
from setwise.models import ZOO, Aggregation
from setwise.scoring.model_file import Artifact

Direction = Literal["ascending", "descending"]
SIGNS = {"descending": 1.0, "ascending": -1.0}

# Bounds of the inverse temperature, in units of one over the scores' spread within sets.
BOUNDS = (1e-3, 1e3)
SETS_PER_COLUMN = 5  # with fewer, weights without error are found in any data


class LinearScorer(Estimator):
    """g(x) = x . b on standardised columns, with P(x | s) = softmax(g(x) / T): as MNL's, so IIA.

    T is fitted by maximum likelihood on the validation part, or on the training part where there
    is none. Context features are equal for all items of a set, cancel, and are not used.

    Fitted attributes: ``coef_`` (b, of standardised columns, before division by T),
    ``feature_names_``, ``temperature_``.
    """

    FITTED: tuple[str, ...] = ("temperature",)

    coef_: Float[np.ndarray, " d"]
    temperature_: float

    @property
    def satisfies_iia(self) -> bool:
        """True: an item's score is its own."""
        return True

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        if validation is None:
            choices, validation = self.parts_of_fit(choices)
        schema, seen = Schema.learn(choices)
        train = seen.encoded(np.float64)
        valid = train if validation is None else schema.encode(validation, np.float64)
        coef = self._learn(schema, train, valid)
        self.temperature_ = temperature(valid.items @ coef, valid)
        self.schema_, self.coef_ = schema, coef
        self.model_ = self._model()
        right = Ranks.of(train.items @ coef, train.offsets, chosen_of(train)).top(1)
        enough = len(train) >= max(FEWEST_SETS, SETS_PER_COLUMN * len(coef))
        warn_if_perfect(enough and bool((right == 1).all()))

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient belongs to."""
        return self.schema_.item_names

    @abstractmethod
    def _learn(self, schema: Schema, train: Encoded, valid: Encoded) -> Float[np.ndarray, " d"]:
        """The coefficients."""

    def _model(self) -> Aggregation:
        theta = np.zeros((self.schema_.width, 1, 1), np.float32)
        theta[: len(self.coef_), 0, 0] = self.coef_ / self.temperature_
        skeleton = ZOO["mnl"].skeleton(self.schema_.width)
        return with_arrays(skeleton, {"F.theta": theta})

    def _to_artifact(self) -> Artifact:
        fitted = {name: getattr(self, f"{name}_") for name in self.FITTED}
        name, params = type(self).__name__, self.get_params(deep=False)
        return Artifact(name, params, self.schema_, fitted, {"coef": self.coef_})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "LinearScorer":
        estimator = cls(**artifact.params)
        estimator.schema_, estimator.coef_ = artifact.schema, artifact.arrays["coef"]
        for name in cls.FITTED:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        estimator.model_ = estimator._model()
        return estimator


class SingleFeature(LinearScorer):
    """One feature decides, as in "the cheapest" or "the best rated": g(x) = +-x_i.

    Args:
        feature: a column of the table (of its numeric columns, where it becomes several, the
            best) or the name of one numeric column such as ``brand=Ibis``; None tries them all.
        direction: "ascending" puts the smallest value first (the cheapest), "descending" the
            largest; None learns which.

    What is left open is chosen by top-1 accuracy on the training part (ties by expectation,
    sets' weights counted; the first of equals). Fitted attributes: ``feature_``, ``direction_``
    and those of :class:`LinearScorer`.

    >>> import setwise as sw
    >>> model = SingleFeature().fit(sw.datasets.load("modecanada"))
    >>> model.feature_, model.direction_
    ('is_car', 'descending')
    """

    CHECKS: ClassVar = {"feature": optional(text), "direction": optional(one_of(*SIGNS))}

    def __init__(self, feature: str | None = None, direction: Direction | None = None):
        self.feature = feature
        self.direction = direction

    @property
    def feature_(self) -> str:
        """The numeric column that decides."""
        return self.feature_names_[int(np.argmax(np.abs(self.coef_)))]

    @property
    def direction_(self) -> Direction:
        """Which of its values come first: the smallest ("ascending") or the largest."""
        return "descending" if self.coef_.sum() > 0 else "ascending"

    def _learn(self, schema: Schema, train: Encoded, valid: Encoded) -> Float[np.ndarray, " d"]:
        accuracy = one_feature_measures(train, lambda ranks: ranks.top(1)) @ shares(train)
        allowed = np.zeros(accuracy.shape, bool)
        rows = [i for i, name in enumerate(SIGNS) if self.direction in (None, name)]
        allowed[np.ix_(rows, _columns(schema, self.feature))] = True
        sign, feature = np.unravel_index(np.argmax(np.where(allowed, accuracy, -1)), accuracy.shape)
        coef = np.zeros(train.items.shape[1])
        coef[feature] = list(SIGNS.values())[sign]
        return coef


class RandomChoice(LinearScorer):
    """Every item of a set is as probable as the others: g(x) = 0.

    Measures take ties by expectation, so they are those of a random order: top-1 is 1/n and the
    mean rank (n + 1)/2 in sets of n items. ``predict`` marks the first item of each set.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=64, items=4).choices
    >>> metrics = RandomChoice().fit(choices).evaluate(choices)
    >>> metrics.top1, metrics.mean_rank
    (0.25, 2.5)
    """

    def _learn(self, schema: Schema, train: Encoded, valid: Encoded) -> Float[np.ndarray, " d"]:
        return np.zeros(train.items.shape[1])


def temperature(scores: Float[np.ndarray, " rows"], encoded: Encoded) -> float:
    """The T > 0 that maximises the likelihood of softmax(g / T) within sets.

    With b = 1/T and gaps d = g - g(chosen), the NLL is sum_s weight_s log sum_x exp(b d(x)): it
    is convex in b and its slope, the mean of d under the softmax, crosses 0 at the optimum.
    A ranker without error has its optimum at infinity; there one choice in m + 2 of m is taken
    as made at random (Laplace's rule), so that it is not certain of everything. One that is worse
    than chance has it below 0 and stops at the lower of ``BOUNDS``, over the gaps' root mean
    square: nearly equal probabilities in the same order. Scores that are equal within every set
    give 1.

    >>> one = Encoded(np.empty((4, 0)), np.empty((2, 0)), np.array([0, 2, 4]),
    ...               np.array([0, 1]), np.array([3.0, 1.0]))
    >>> b = 1 / temperature(np.array([1.0, 0.0, 1.0, 0.0]), one)
    >>> round(float(np.exp(b)), 6)  # the odds of 3 right to 1 wrong
    3.0
    """
    offsets = encoded.offsets
    gaps = scores - _segments.spread(scores[offsets[:-1] + chosen_of(encoded)], offsets)
    spread = float(np.sqrt(np.mean(gaps**2)))
    if spread == 0:
        return 1.0
    gaps, weight = gaps / spread, shares(encoded)
    at_random = float(weight @ _segments.means(gaps, offsets))
    hedge = at_random / (len(encoded) + 2) if gaps.max() <= 0 else 0.0

    def slope(log_b: float) -> float:
        p = _segments.softmax(np.exp(log_b) * gaps, offsets)
        return float(weight @ _segments.sums(p * gaps, offsets)) - hedge

    low, high = np.log(BOUNDS)
    if slope(low) >= 0:
        return spread / BOUNDS[0]
    if slope(high) <= 0:
        return spread / BOUNDS[1]
    from scipy.optimize import brentq  # slow to import

    return spread / float(np.exp(brentq(slope, low, high)))


def one_feature_measures(
    encoded: Encoded, measure: Callable[[Ranks], Float[np.ndarray, " sets"]]
) -> Float[np.ndarray, "two d sets"]:
    """What each feature alone achieves on each set, in the directions of ``SIGNS``."""
    offsets, chosen, columns = encoded.offsets, chosen_of(encoded), encoded.items.T
    each = [[measure(Ranks.of(s * x, offsets, chosen)) for x in columns] for s in SIGNS.values()]
    return np.array(each)


def shares(encoded: Encoded) -> Float[np.ndarray, " sets"]:
    """The sets' weights, adding up to 1; equal where none are given."""
    weight = np.ones(len(encoded)) if encoded.weight is None else encoded.weight
    return weight / weight.sum()


def chosen_of(encoded: Encoded) -> np.ndarray:
    """The chosen positions of training data, which has them."""
    assert encoded.chosen is not None
    return encoded.chosen


def _columns(schema: Schema, feature: str | None) -> list[int]:
    """The places of a feature's numeric columns among the items'."""
    names = schema.item_names
    if feature is None:
        return list(range(len(names)))
    if feature in names:
        return [names.index(feature)]
    owners = [str(encoder.feature.column) for encoder in schema.model_items for _ in encoder.names]
    places = [i for i, owner in enumerate(owners) if owner == feature]
    if not places:
        raise InputError(
            f"there is no item feature '{feature}' to rank by; there are: {', '.join(names)}"
        )
    return places

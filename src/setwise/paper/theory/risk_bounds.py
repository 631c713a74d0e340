"""Bounds on the error of a fitted model, after the paper's Theorems 2 and 3.

They hold with probability 1 - delta over the draw of the m training sets. At the sizes of real data
they are far above 1 and so say nothing about the error itself. What they give is a *relative*
measure of complexity: the same data and a smaller number mean a tamer model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from setwise._arguments import checked, number
from setwise._errors import InputError
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.models import Aggregation
from setwise.models.evaluations import Identity, KinkedTanh, difference
from setwise.models.item_functions import Linear
from setwise.models.set_functions import Constant, JointNetwork, SetFunction, SharedNetwork, Vector
from setwise.models.within_set import alone

NORMS: Mapping[str, int | float] = {"1": 1, "2": 2, "inf": math.inf}


@dataclass(frozen=True)
class Bounds:
    """The parts of a bound on the expected error (the share of wrong predictions) of a model.

    >>> found = Bounds(theorem=2, sets=5000, features=8, delta=0.05, error=0.4,
    ...                largest_feature=3.0, theta_1=0.5, theta_inf=2.0,
    ...                lipschitz={"1": 9.0, "2": 4.0, "inf": 7.0})
    >>> found
    Bounds(error <= 0.40 + 9.59 + 0.02 = 10.02: vacuous)
    """

    theorem: int
    sets: int
    features: int
    delta: float
    error: float
    """On the sample: the share of its sets whose choice is not the predicted item."""
    largest_feature: float
    """X: the largest feature, in absolute value."""
    theta_1: float
    """The largest sum of absolute weights that one score function gives to features."""
    theta_inf: float
    """The largest sum of absolute weights that one feature has in the score functions."""
    lipschitz: Mapping[str, float]
    """The constant of the set network (w in Theorem 2, r in Theorem 3), in each norm."""
    v_1: float | None = None
    """Theorem 3: the sum of the absolute values of v."""
    mu_slope: float | None = None
    """Theorem 3: the steepest slope of mu, max(1, c)."""

    @property
    def norm(self) -> str:
        """The norm in which the network's Lipschitz constant is the least."""
        return min(self.lipschitz, key=lambda norm: self.lipschitz[norm])

    @property
    def complexity(self) -> float:
        """The term for the class of models, the theorem's first."""
        root = math.sqrt(2 * math.log(2 * self.features) / self.sets)
        least, scale = self.lipschitz[self.norm], max(1.0, self.theta_1)
        if self.theorem == 2:
            scale *= max(1.0, self.theta_inf)
            return 4 * scale * self.largest_feature**2 * least * root
        assert self.v_1 is not None
        assert self.mu_slope is not None
        return 4 * scale * self.v_1 * self.largest_feature * self.mu_slope * (1 + least) * root

    @property
    def confidence(self) -> float:
        """sqrt(log(1/delta) / m); the paper's O(·), with 1 for its constant."""
        return math.sqrt(math.log(1 / self.delta) / self.sets)

    @property
    def bound(self) -> float:
        """The sum of all terms."""
        return self.error + self.complexity + self.confidence

    @property
    def vacuous(self) -> bool:
        """Whether it is 1 or more, which no error exceeds anyhow."""
        return self.bound >= 1

    def describe(self) -> str:
        """The bound with its parts, a line each."""
        network = "w" if self.theorem == 2 else "r"
        constants = ", ".join(f"{value:.4g} (norm {n})" for n, value in self.lipschitz.items())
        lines = [
            f"Theorem {self.theorem}: with probability {1 - self.delta:g}, the expected error is "
            f"at most {self.bound:.4g}",
            f"  error on the sample     {self.error:.4f}",
            f"  complexity              {self.complexity:.4g}",
            f"  confidence              {self.confidence:.4f}",
            f"  sets m, features d      {self.sets:,}, {self.features}",
            f"  largest feature X       {self.largest_feature:.4g}",
            f"  norms of Theta          {self.theta_1:.4g} (1), {self.theta_inf:.4g} (inf)",
            f"  Lipschitz constant of {network} {constants}; the least counts",
        ]
        if self.theorem == 3:
            lines.append(f"  |v|_1, slope of mu      {self.v_1:.4g}, {self.mu_slope:.4g}")
        if self.vacuous:
            lines.append(
                "An error is never above 1, so this bound is vacuous. Use the complexity to "
                "compare models of the same data, not as a promise."
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Bounds(error <= {self.error:.2f} + {self.complexity:.2f} + {self.confidence:.2f} = "
            f"{self.bound:.2f}{': vacuous' if self.vacuous else ''})"
        )


@checked(estimator=fitted, delta=number(above=0, below=1))
def bounds(estimator: Estimator, choices: Any, delta: float = 0.05) -> Bounds:
    """Theorem 2 for a fitted SDW, Theorem 3 for a fitted SDE.

        T2: error <= sample error + 4 t1 t2 X^2 lambda_w R + sqrt(log(1/delta) / m)
        T3: error <= sample error + 4 t1 |v|_1 X lambda_mu (1 + lambda_r) R + sqrt(log(1/delta) / m)

    with R = sqrt(2 log(2d) / m), for m sets and d features.

    X is the largest feature in absolute value (standardised, as the model sees it), lambda_w and
    lambda_r the Lipschitz constants of the set networks (:func:`lipschitz_constants`, the least of
    three norms), lambda_mu = max(1, c). The theorems are for Theta of norm at most 1; what exceeds
    it is a factor, t1 = max(1, |Theta|_1) and t2 = max(1, |Theta|_inf): the proofs use |Theta|_1
    for the score functions' complexity and, in Theorem 2, |Theta|_inf for their weighted sum.

    The theorems are about a class of models fixed in advance. With the norms of the model that was
    learned, the bound is an after-the-fact measure even where it is below 1.

    Args:
        estimator: a fitted SDW or SDE (or ChoiceModel "mnl_set"), one model, not an ensemble.
        choices: the sets that it was trained on, with what was chosen.
        delta: the probability with which the bound may fail.

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.generate("mnl", sets=400).choices)
    >>> model = sw.SDW(dimension=4, training=sw.Training(epochs=5)).fit(train, valid)
    >>> found = bounds(model, train)
    >>> found.theorem, found.sets, found.vacuous
    (2, 200, True)
    """
    sample = estimator.as_choices(choices, with_choice=True)
    model = getattr(estimator, "model_", None)
    theorem = _theorem(model)
    if theorem is None or not isinstance(model, Aggregation) or not isinstance(model.F, Linear):
        raise InputError(
            f"the theorems do not cover {type(estimator).__name__}: Theorem 2 is for <w(s), F(x)> "
            "with a set network w (SDW), Theorem 3 for <v, mu(F(x) - r(s))> with a set network r "
            "(SDE), one model each, not an ensemble; fit one of these"
        )
    theta = np.asarray(model.F.theta, np.float64)[:, :, 0]
    largest = [
        max(float(np.abs(values).max(initial=0)) for values in (part.items, part.context))
        for part in estimator.encoded_parts(sample)
    ]
    common: dict[str, Any] = {
        "theorem": theorem,
        "sets": len(sample),
        "features": theta.shape[0],
        "delta": delta,
        "error": 1 - float(estimator.evaluate(sample).top1),
        "largest_feature": max(largest),
        "theta_1": _induced(theta, 1),
        "theta_inf": _induced(theta, math.inf),
    }
    if theorem == 2:
        return Bounds(**common, lipschitz=lipschitz_constants(model.w))
    assert isinstance(model.w, Vector)
    assert isinstance(model.mu, KinkedTanh)
    return Bounds(
        **common,
        lipschitz=lipschitz_constants(model.r),
        v_1=float(np.abs(np.asarray(model.w.value, np.float64)).sum()),
        mu_slope=max(1.0, float(model.mu.c)),
    )


def lipschitz_constants(function: SetFunction) -> dict[str, float]:
    """Upper bounds on how fast a set network moves, in the norms 1, 2 and inf.

    With F(s) and F(s') the scores of two sets of n items, |w(s) - w(s')| is at most

        lambda · (1/n) sum over items z of |F(z) - F(z')|,   lambda = |W_1| |W_2| |W_3|,

    the product of the layers' induced norms (largest column sum, largest singular value, largest
    row sum of the matrices as they act on column vectors): tanh and the mean have slope at most 1.
    It is a guarantee, not the best constant.

    >>> import jax
    >>> from setwise.models import ZOO, Sizes
    >>> model = ZOO["sdw"].build(2, Sizes(dimension=3), jax.random.key(0))
    >>> sorted(lipschitz_constants(model.w))
    ['1', '2', 'inf']
    """
    if isinstance(function, Constant | Vector):
        return dict.fromkeys(NORMS, 0.0)
    if not isinstance(function, JointNetwork | SharedNetwork):
        raise InputError(
            f"no Lipschitz constant is known for {type(function).__name__}; give a set network"
        )
    network = function.network
    layers = [
        np.asarray(layer.weight, np.float64).T
        for layer in (network.first, network.second, network.last)
    ]
    return {
        name: math.prod(_induced(layer, order) for layer in layers) for name, order in NORMS.items()
    }


def _induced(matrix: Float[np.ndarray, "o i"], order: int | float) -> float:
    return float(np.linalg.norm(matrix, order))


def _theorem(model: object) -> int | None:
    """Which theorem is about a model of this form, if one is."""
    networks = (JointNetwork, SharedNetwork)
    if not isinstance(model, Aggregation) or model.compare is not difference:
        return None
    if model.b is not None or model.view is not alone:
        return None
    plain = isinstance(model.r, Constant) and model.r.value == 0 and isinstance(model.mu, Identity)
    if plain and isinstance(model.w, networks):
        return 2
    if isinstance(model.w, Vector) and isinstance(model.mu, KinkedTanh):
        return 3 if isinstance(model.r, networks) else None
    return None

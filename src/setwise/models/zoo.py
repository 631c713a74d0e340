"""The named models: one line each, a composition of parts of the one equation.

A new model is one entry here and one line of docs; the laws in ``tests/test_laws.py`` run over
every entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
from jaxtyping import UInt32

from setwise._errors import InputError
from setwise._types import Array, Key
from setwise.models import comparisons
from setwise.models.aggregation import Aggregation
from setwise.models.comparisons import Comparison
from setwise.models.evaluations import Evaluation, Identity, KinkedTanh
from setwise.models.initial import glorot
from setwise.models.item_functions import Linear
from setwise.models.set_functions import (
    Constant,
    JointNetwork,
    PooledNetwork,
    SetFunction,
    SharedNetwork,
    Vector,
)


@dataclass(frozen=True)
class Sizes:
    """How large a model is: l score functions of k components, networks of ``hidden`` units."""

    dimension: int = 24
    components: int = 16
    hidden: int = 16
    wiring: Literal["joint", "shared"] = "joint"

    def __post_init__(self) -> None:
        for name in ("dimension", "components", "hidden"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1")


SetPart = Callable[[tuple[int, ...], Sizes, int, Key], SetFunction]
"""Builds w or r from its value's shape, the sizes, k (components of each score) and a key."""


def one(shape: tuple[int, ...], sizes: Sizes, k: int, key: Key) -> SetFunction:
    """The constant 1."""
    return Constant(1.0, shape)


def zero(shape: tuple[int, ...], sizes: Sizes, k: int, key: Key) -> SetFunction:
    """The constant 0."""
    return Constant(0.0, shape)


def vector(shape: tuple[int, ...], sizes: Sizes, k: int, key: Key) -> SetFunction:
    """A learned vector, the same for every set."""
    return Vector(glorot(key, shape, shape[0], 1))


def set_network(shape: tuple[int, ...], sizes: Sizes, k: int, key: Key) -> SetFunction:
    """A learned permutation-invariant network in the wiring asked for."""
    l = shape[0]  # noqa: E741
    outputs = 1
    for size in shape:
        outputs *= size
    if sizes.wiring == "joint":
        return JointNetwork(PooledNetwork(l * k, sizes.hidden, outputs, key), shape)
    return SharedNetwork(PooledNetwork(k, sizes.hidden, outputs // l, key), shape)


@dataclass(frozen=True)
class Recipe:
    """A named composition of w, r, mu and the comparison; F is linear."""

    w: SetPart
    r: SetPart
    mu: Callable[[], Evaluation]
    compare: Comparison
    formula: str
    satisfies_iia: bool
    dimension: int | None = None  # fixes l where the model has no choice

    def build(self, features: int, sizes: Sizes, key: Key) -> Aggregation:
        """The model with initial weights for items of this many features.

        >>> model = ZOO["sda"].build(8, Sizes(), jax.random.key(0))
        >>> model.scores(jax.numpy.ones((5, 8)), jax.numpy.ones(5, bool)).shape
        (5,)
        """
        l = self.dimension or sizes.dimension  # noqa: E741
        vectors = self.compare is comparisons.inner
        k = sizes.components if vectors else 1
        for_F, for_w, for_r = jax.random.split(key, 3)
        return Aggregation(
            F=Linear(features, l, k, for_F),
            w=self.w((l,), sizes, k, for_w),
            r=self.r((l, k) if vectors else (l,), sizes, k, for_r),
            mu=self.mu(),
            compare=self.compare,
        )

    @eqx.filter_jit
    def initial(self, features: int, sizes: Sizes, seed: UInt32[Array, ""]) -> Aggregation:
        """:meth:`build` from a seed, as one compiled program instead of dozens of small ones."""
        return self.build(features, sizes, jax.random.key(seed))

    def skeleton(self, features: int, sizes: Sizes) -> Aggregation:
        """The model with shapes in place of weights, for those who have the weights already."""
        return eqx.filter_eval_shape(lambda: self.build(features, sizes, jax.random.key(0)))


ZOO: Mapping[str, Recipe] = {
    "mnl": Recipe(
        w=one, r=zero, mu=Identity, compare=comparisons.difference, dimension=1,
        formula="f(x)", satisfies_iia=True,
    ),
    "sdw": Recipe(
        w=set_network, r=zero, mu=Identity, compare=comparisons.difference,
        formula="<w(s), F(x)>", satisfies_iia=False,
    ),
    "sde": Recipe(
        w=vector, r=set_network, mu=KinkedTanh, compare=comparisons.difference,
        formula="<v, mu(F(x) - r(s))>", satisfies_iia=False,
    ),
    "sda": Recipe(
        w=set_network, r=set_network, mu=KinkedTanh, compare=comparisons.inner,
        formula="<w(s), mu(<F(x), r(s)>)>", satisfies_iia=False,
    ),
    "sda_difference": Recipe(
        w=set_network, r=set_network, mu=KinkedTanh, compare=comparisons.difference,
        formula="<w(s), mu(F(x) - r(s))>", satisfies_iia=False,
    ),
}  # fmt: skip

"""What the zoo knows about a model: a description, and how to build it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
from jaxtyping import UInt32

from setwise._arguments import one_of, whole
from setwise._types import Array, Key
from setwise.models.model import Model

Family = Literal["set-dependent", "IIA", "non-IIA", "basic"]


@dataclass(frozen=True)
class Sizes:
    """How large a model is: l score functions of k components, networks of ``hidden`` units."""

    dimension: int = 24
    components: int = 16
    hidden: int = 16
    wiring: Literal["joint", "shared"] = "joint"

    def __post_init__(self) -> None:
        for name in ("dimension", "components", "hidden"):
            whole()(name, getattr(self, name))
            object.__setattr__(
                self, name, int(getattr(self, name))
            )  # NumPy integers cannot be static fields
        one_of("joint", "shared")("wiring", self.wiring)


@dataclass(frozen=True)
class About:
    """What a user wants to know about a model before using it."""

    family: Family
    formula: str
    reference: str
    satisfies_iia: bool
    advice: str


@dataclass(frozen=True)
class Blueprint(ABC):
    """A named model of the zoo, before it has weights."""

    about: About

    @abstractmethod
    def build(self, features: int, sizes: Sizes, key: Key) -> Model:
        """The model with initial weights for items of this many features."""

    @eqx.filter_jit
    def initial(self, features: int, sizes: Sizes, seed: UInt32[Array, ""]) -> Model:
        """:meth:`build` from a seed, as one compiled program instead of dozens of small ones."""
        return self.build(features, sizes, jax.random.key(seed))

    def skeleton(self, features: int, sizes: Sizes) -> Model:
        """The model with shapes in place of weights, for callers that have the weights already."""
        return eqx.filter_eval_shape(lambda: self.build(features, sizes, jax.random.key(0)))

    def parameters(self, features: int, sizes: Sizes) -> int:
        """How many numbers it learns.

        >>> from setwise.models import ZOO
        >>> ZOO["mnl"].parameters(8, Sizes())
        8
        """
        return sum(leaf.size for leaf in jax.tree.leaves(self.skeleton(features, sizes)))

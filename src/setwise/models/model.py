"""What every model is: a function from one choice set to one score per item.

A blueprint describes a model and builds it. Initial weights, and positive parameters and powers
whose gradients stay finite, are here too.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import UInt32

from setwise import _masked
from setwise._arguments import one_of, whole
from setwise._types import Array, Float, Items, Key, Mask, Scores


def glorot(key: Key, shape: tuple[int, ...], fan_in: int, fan_out: int) -> Float[Array, "..."]:
    """Uniform weights of variance 2 / (fan_in + fan_out): signals and gradients keep scale."""
    bound = jnp.sqrt(6 / (fan_in + fan_out))
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


FLOOR = 1e-6

COMPILED_TO_RUN_ONCE = {"xla_backend_optimization_level": 0}
"""Options of XLA for programs that take longer to compile than to run."""


def inverse_softplus(value: float) -> Float[Array, ""]:
    """The raw parameter whose softplus is this positive value.

    >>> import jax
    >>> round(float(jax.nn.softplus(inverse_softplus(0.3))), 6)
    0.3
    """
    return jnp.log(jnp.expm1(jnp.asarray(value, jnp.float32)))


def safe_power(z: Float[Array, "..."], rho: Float[Array, ""]) -> Float[Array, "..."]:
    """z^rho for z >= 0; below ``FLOOR`` it is 0, with slope 0."""
    large = z > FLOOR
    return jnp.where(large, jnp.where(large, z, 1.0) ** rho, 0.0)


class Dropout(eqx.Module):
    """Noise for one pass through the networks: each unit is kept with probability ``keep``.

    ``keep`` is an array, not a constant, so that models with different rates share one program.
    """

    key: Key
    keep: float | Float[Array, ""]

    def split(self) -> "tuple[Dropout, Dropout]":
        """Two independent sources of noise."""
        first, second = jax.random.split(self.key)
        return Dropout(first, self.keep), Dropout(second, self.keep)

    def three(self) -> "tuple[Dropout, Dropout, Dropout]":
        """Three independent sources of noise, the first two as :meth:`split` gives them."""
        first, second, third = (Dropout(key, self.keep) for key in jax.random.split(self.key, 3))
        return first, second, third

    def __call__(self, hidden: Float[Array, "..."]) -> Float[Array, "..."]:
        """Zero the dropped units and scale up the others, so that the mean does not change."""
        # Sixteen random bits per unit cost half of a random float, which is most of dropout's cost.
        bits = jax.random.bits(self.key, hidden.shape, jnp.uint16)
        kept = bits < jnp.asarray(self.keep * 65536, jnp.float32)
        return jnp.where(kept, hidden / self.keep, 0)


class Model(eqx.Module):
    """A choice model: g(x, s) for the items x of one set s.

    Models are written for one set; ``jax.vmap`` makes batches. ``present`` marks the real items
    of a padded set. Scores of absent items have no meaning and must not influence the others.
    """

    @abstractmethod
    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        """g(x, s) for every item of the set; ``dropout`` is given only while training."""

    @property
    def differentiable(self) -> bool:
        """Whether scores have derivatives: those of trees are flat and jump."""
        return True

    def probabilities(self, items: Items, present: Mask) -> Scores:
        """P(x | s), the softmax of the scores over the set."""
        return _masked.softmax(self.scores(items, present), present)


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

    @eqx.filter_jit(compiler_options=COMPILED_TO_RUN_ONCE)  # type: ignore[call-overload]
    def initial(self, features: int, sizes: Sizes, seed: UInt32[Array, ""]) -> Model:
        """:meth:`build` from a seed, as one compiled program instead of dozens of small ones."""
        return self.build(features, sizes, jax.random.key(seed))

    @lru_cache(maxsize=256)  # noqa: B019 (blueprints are few, and live for ever)
    def skeleton(self, features: int, sizes: Sizes = Sizes()) -> Model:  # noqa: B008 (frozen)
        """The model with shapes in place of weights, for callers that have the weights already."""
        return eqx.filter_eval_shape(lambda: self.build(features, sizes, jax.random.key(0)))

    def parameters(self, features: int, sizes: Sizes) -> int:
        """How many numbers it learns.

        >>> from setwise.models import ZOO
        >>> ZOO["mnl"].parameters(8, Sizes())
        8
        """
        return sum(leaf.size for leaf in jax.tree.leaves(self.skeleton(features, sizes)))

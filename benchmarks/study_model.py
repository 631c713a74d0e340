"""SDA with every switch of the accuracy study; what earned its place is in the package.

    g(x, s) = < w(s), mu(F(x) - r(s)) > + < b, x >

The defaults are one member of ``setwise.SDA()``; each field changes one thing of it.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from setwise import _masked
from setwise.models.model import About, Blueprint, Dropout, Model, Sizes, glorot
from setwise.models.set_functions import Layer
from setwise.models.within_set import SplitColumns, alone, among_others, splines

STUDY = About("set-dependent", "", "setwise", False, "")
VIEWS = {"in pieces": splines, "among others": among_others, "alone": alone}
KINK = jnp.log(jnp.expm1(0.5))  # loss aversion begins at 1.5


@dataclass(frozen=True)
class Switches(Blueprint):
    """What the study varies."""

    about: About = STUDY
    seen: str = "among others"  # in pieces | among others | alone
    logit: bool = True
    quiet: bool = True
    F: str = "linear"  # linear | hidden (a linear map beside a hidden layer)
    dimension: int = 24
    mu: str = "kinked"  # kinked | kinks (one for each score) | tanh | identity
    w: str = "network"  # network | vector
    r: str = "network"  # network | vector | zero
    hidden: int = 16
    pooling: str = "mean"  # mean | mean and max | attention
    shared: bool = False
    layers: int = 1

    def build(self, features: int, sizes: Sizes, key: Any) -> "Switched":
        return Switched(self, features, key)


def given(dropout: Dropout | None, parts: int) -> list[Dropout | None]:
    """Noise for so many parts."""
    if dropout is None:
        return [None] * parts
    return [Dropout(key, dropout.keep) for key in jax.random.split(dropout.key, parts)]


class Pooled(eqx.Module):
    """Two tanh layers an item, pooled over the set, a linear map."""

    first: Layer
    second: Layer
    last: Layer
    query: jax.Array
    switches: Switches = eqx.field(static=True)

    def __init__(self, switches: Switches, inputs: int, outputs: int, key: Any):
        keys, h = jax.random.split(key, 3), switches.hidden
        self.first, self.second = Layer(inputs, h, keys[0]), Layer(h, h, keys[1])
        pooled = h * (2 if switches.pooling == "mean and max" else 1)
        last = Layer(pooled, outputs, keys[2])
        quiet = 0.1 if switches.quiet else 1.0
        self.last = eqx.tree_at(lambda layer: layer.weight, last, quiet * last.weight)
        self.query, self.switches = jnp.zeros(h), switches

    def __call__(self, f: Any, present: Any, dropout: Dropout | None) -> Any:
        early, late = given(dropout, 2)
        h = jnp.tanh(self.first(f))
        h = jnp.tanh(self.second(h if early is None else early(h)))
        h = h if late is None else late(h)
        pooled = _masked.mean(h, present)
        if self.switches.pooling == "mean and max":
            pooled = jnp.concatenate([pooled, _masked.maximum(h, present)])
        elif self.switches.pooling == "attention":
            share = jnp.where(present, _masked.softmax(h @ self.query, present), 0)
            pooled = share @ jnp.where(present[:, None], h, 0)
        return self.last(pooled)


class Block(eqx.Module):
    """w_i(s) mu(f_i(x) - r_i(s)) for each of the l scores."""

    linear: jax.Array
    hidden: Layer | None
    upper: jax.Array | None
    w: Pooled | None
    w_0: jax.Array
    r: Pooled | None
    r_0: jax.Array
    kink: jax.Array
    switches: Switches = eqx.field(static=True)

    def __init__(self, switches: Switches, inputs: int, key: Any):
        keys, l = jax.random.split(key, 6), switches.dimension  # noqa: E741
        self.linear = glorot(keys[0], (inputs, l), inputs, l)
        deep = switches.F == "hidden"
        self.hidden = Layer(inputs, 32, keys[1]) if deep else None
        self.upper = glorot(keys[2], (32, l), 32, l) if deep else None
        width = 1 if switches.shared else l
        self.w = Pooled(switches, width, width, keys[3]) if switches.w == "network" else None
        self.r = Pooled(switches, width, width, keys[4]) if switches.r == "network" else None
        start = switches.w == "vector" or switches.quiet
        self.w_0 = glorot(keys[5], (l,), l, 1) * (1.0 if start else 0.0)
        self.r_0 = jnp.zeros(l)
        self.kink = jnp.full((l,) if switches.mu == "kinks" else (), KINK)
        self.switches = switches

    def _of_set(self, network: Pooled | None, f: Any, present: Any, noise: Dropout | None) -> Any:
        if network is None:
            return jnp.zeros(f.shape[1])
        if not self.switches.shared:
            return network(f, present, noise)
        return jax.vmap(lambda one: network(one[:, None], present, noise)[0], 1)(f)

    def __call__(self, x: Any, present: Any, dropout: Dropout | None) -> Any:
        for_w, for_r = given(dropout, 2)
        f = x @ self.linear
        if self.hidden is not None:
            f = f + jnp.tanh(self.hidden(x)) @ self.upper
        w = self.w_0 + self._of_set(self.w, f, present, for_w)
        r = self.r_0 + self._of_set(self.r, f, present, for_r)
        if self.switches.r == "zero":
            r = 0.0
        return w * self._mu(f - r)

    def _mu(self, z: Any) -> Any:
        if self.switches.mu == "identity":
            return z
        if self.switches.mu == "tanh":
            return jnp.tanh(z)
        return jnp.where(z < 0, 1 + jax.nn.softplus(self.kink), 1.0) * jnp.tanh(z)


class Switched(Model):
    """Blocks, each of which sees the features and what the one before it gave; a logit."""

    blocks: tuple[Block, ...]
    b: jax.Array | None
    switches: Switches = eqx.field(static=True)

    def __init__(self, switches: Switches, features: int, key: Any):
        x = VIEWS[switches.seen](jnp.zeros((1, features)), jnp.ones(1, bool)).shape[1]
        widths = [x] + [x + switches.dimension] * (switches.layers - 1)
        keys = jax.random.split(key, switches.layers)
        self.blocks = tuple(
            Block(switches, width, one) for width, one in zip(widths, keys, strict=True)
        )
        self.b = jnp.zeros(x) if switches.logit else None
        self.switches = switches

    def scores(self, items: Any, present: Any, dropout: Dropout | None = None) -> Any:
        x = seen = VIEWS[self.switches.seen](items, present)
        for block, noise in zip(self.blocks, given(dropout, len(self.blocks)), strict=True):
            terms = block(seen, present, noise)
            seen = SplitColumns(x, terms)
        g = terms.sum(1)
        return g if self.b is None else g + x @ self.b

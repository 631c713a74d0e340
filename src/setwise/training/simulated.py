"""The simulated likelihood of random coefficients over panels, with exact derivatives.

Person n chooses in the sets t = 1, 2, ... with the same coefficients throughout. With draws r of
them,

    log L = sum over n of weight_n log (1/R) sum_r prod_t P(chosen_nt | beta_nr),
    beta_nr = f(C b_nr),  b_nr = (1, z_nr),

where z are standard draws, row k of C holds the location and the scales of coefficient k, and f is
the exponential (or minus it) for log-normal coefficients and nothing for others. Against the
chosen item, P = 1 / (1 + sum over the other items x of exp <x - x_chosen, beta>).

In willingness-to-pay space (Train and Weeks 2005), f(C b) = theta holds the coefficient theta_q of
the price q and, for each other column k, the willingness to pay theta_k: beta_q = theta_q, and
beta_k = -theta_q theta_k, so that V = theta_q (price - sum over k of theta_k x_k).

With w_r the posterior weight of a draw, g_r the gradient of log prod_t P in beta and J_r the slope
of beta in the parameters, the score of a person is sum_r w_r J_r' g_r, and the Hessian

    sum_r w_r [J_r' (Q_r + g_r g_r') J_r + sum_k g_rk d2 beta_rk] - score score'

with Q_r the Hessian of the logits. All are written out here, not differentiated by a machine: the
value and all scores take one pass over exp, and the Hessian a few matrix products more.

Programs go through people in blocks that fit the cache of a processor, or fill a GPU. Draws are
kept in single precision: 4 bytes x people x random coefficients x draws. All else is double, and
8 bytes x sets x (largest set - 1) x columns for the data; a block is small beside it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from setwise._types import Array
from setwise.choices import Encoded, bucket
from setwise.training.covariances import Resampling
from setwise.training.likelihood import OVERHEAD, Derivatives

LARGEST = 700.0  # the exponential of more is not finite
NUMBERS_PER_BLOCK = {"cpu": 2**17}  # of the rows and draws of a block of people
NUMBERS_ON_GPU = 2**26


class TasteLayout(NamedTuple):
    """Where each parameter stands in C, and which coefficients are log-normal (1 or -1, else 0).

    ``price`` is the place of the price in willingness-to-pay space; None in preference space.
    """

    feature: Int[np.ndarray, " p"]
    basis: Int[np.ndarray, " p"]
    sign: Int[np.ndarray, " d"]
    price: int | None = None


def tastes(
    layout: TasteLayout, parameters: Float[np.ndarray, " p"], z: Float[np.ndarray, "k draws"]
) -> Float[np.ndarray, "d draws"]:
    """The coefficients at some draws.

    >>> layout = TasteLayout(np.array([0, 0]), np.array([0, 1]), np.array([-1]))
    >>> tastes(layout, np.array([0.0, 1.0]), np.array([[0.0, np.log(2)]])).round(6).tolist()
    [[-1.0, -2.0]]
    """
    C = np.zeros((len(layout.sign), len(z) + 1))
    C[layout.feature, layout.basis] = parameters
    basis = np.concatenate([np.ones((1, z.shape[1])), z])
    return _coefficients(np, _theta(np, C, layout.sign, basis), layout.price)


def _theta(xp: Any, C: Any, sign: Any, basis: Any) -> Any:
    """f(C b), with NumPy or JAX."""
    eta, log = C @ basis, (sign != 0)[:, None]
    return xp.where(log, sign[:, None] * xp.exp(xp.where(log, eta, 0)), eta)


def _coefficients(xp: Any, theta: Any, price: int | None) -> Any:
    """beta: theta itself, or what it is in willingness-to-pay space."""
    if price is None:
        return theta
    return xp.where(_is(xp, price, theta), theta, -theta[price] * theta)


def _is(xp: Any, place: int, of: Any) -> Any:
    """A column that marks one row of a table."""
    return (xp.arange(len(of)) == place)[:, None]


class PersonBlocks(NamedTuple):
    """Blocks of people: the other items less the chosen one, which are none, and the draws."""

    items: Float[Array, "blocks n t j d"]
    absent: Bool[Array, "blocks n t j"]
    z: Float[Array, "blocks n k draws"]


class Simulated:
    """log L of these choices, its gradient and its Hessian; the last point asked is remembered.

    Args:
        data: the choices, in double precision.
        people: the person of each set, numbered from 0.
        layout: what the parameters are.
        z: standard draws of each person.
    """

    def __init__(
        self,
        data: Encoded,
        people: Int[np.ndarray, " sets"],
        layout: TasteLayout,
        z: Float32[np.ndarray, "people k draws"],
    ):
        self.layout, self.count = layout, len(z)
        weight = np.ones(len(data)) if data.weight is None else data.weight
        first = np.unique(people, return_index=True)[1]
        self.weight = weight[first]
        self.total = float(weight.sum())
        self.parts: list[tuple[Int[np.ndarray, " n"], PersonBlocks]] = []
        with jax.enable_x64(True):
            for one in bucket(np.bincount(people, minlength=self.count), overhead=OVERHEAD):
                self.parts.append((one.sets, _panel(data, people, one.sets, z[one.sets])))
        self.last: tuple[bytes, Derivatives] | None = None

    def __call__(self, parameters: Float[np.ndarray, " p"]) -> Derivatives:
        key = parameters.tobytes()
        if self.last is None or self.last[0] != key:
            self.last = (key, self._at(parameters))
        return self.last[1]

    def _at(self, parameters: Float[np.ndarray, " p"]) -> Derivatives:
        value, gradient = 0.0, np.zeros(len(parameters))
        hessian = np.zeros((len(parameters),) * 2)
        for who, (logs, scores, bends) in self._each(parameters, curvature=True):
            value += float(self.weight[who] @ logs)
            gradient += self.weight[who] @ scores
            hessian += bends
        return value, gradient, hessian

    def people(
        self, parameters: Float[np.ndarray, " p"]
    ) -> tuple[Float[np.ndarray, " people"], Float[np.ndarray, "people p"]]:
        """log P of each person's choices, and its gradient; both without weights."""
        logs, scores = np.zeros(self.count), np.zeros((self.count, len(parameters)))
        for who, found in self._each(parameters, curvature=False):
            logs[who], scores[who] = found[0], found[1]
        return logs, scores

    def _each(self, parameters: Float[np.ndarray, " p"], curvature: bool) -> Any:
        with jax.enable_x64(True):
            for who, panel in self.parts:
                count = panel.items.shape[0] * panel.items.shape[1]
                weight = np.zeros(count)
                weight[: len(who)] = self.weight[who]
                found = _derivatives(
                    jax.device_put(parameters), *self._places, panel,
                    jax.device_put(weight.reshape(panel.items.shape[:2])), curvature,
                    self.layout.price,
                )  # fmt: skip
                logs, scores, hessian = map(np.asarray, found)
                yield who, (logs[: len(who)], scores[: len(who)], hessian)

    @property
    def _places(self) -> list[Array]:
        """The arrays of the layout, for a program."""
        return [jax.device_put(one) for one in self.layout[:3]]

    def posterior(self, parameters: Float[np.ndarray, " p"]) -> Float32[np.ndarray, "people draws"]:
        """The probability of each of a person's draws, given the choices; 4 bytes for each."""
        found = np.zeros((self.count, self.parts[0][1].z.shape[-1]), np.float32)
        with jax.enable_x64(True):
            for who, panel in self.parts:
                one = _posterior(
                    jax.device_put(parameters), *self._places, panel, self.layout.price
                )
                found[who] = np.asarray(one)[: len(who)]
        return found

    def resampling(
        self,
        parameters: Float[np.ndarray, " p"],
        free: Bool[np.ndarray, " p"],
        people: Int[np.ndarray, " sets"],
        rows: int,
        report: Callable[[Float[np.ndarray, "r p"]], Float[np.ndarray, "r q"]],
    ) -> Resampling:
        """What the bootstrap fits in the free parameters, from a maximum in them on."""
        first = np.unique(people, return_index=True)[1]

        def placed(points: Float[np.ndarray, "r f"]) -> Float[np.ndarray, "r p"]:
            whole = np.tile(parameters, (len(points), 1))
            whole[:, free] = points
            return whole

        def climb(points: Float[np.ndarray, "r f"], weights: Float[np.ndarray, "r sets"]) -> Any:
            each = [self.people(one) for one in placed(points)]
            own = weights[:, first]
            values = [one @ logs for one, (logs, _) in zip(own, each, strict=True)]
            slopes = [one @ scores[:, free] for one, (_, scores) in zip(own, each, strict=True)]
            return np.array(values), np.array(slopes)

        hessian = self(parameters)[2][np.ix_(free, free)]
        return Resampling(
            climb, parameters[free], np.linalg.pinv(-hessian, hermitian=True),
            self.weight[people], rows, lambda points: report(placed(points)),
        )  # fmt: skip


def _panel(
    data: Encoded,
    people: Int[np.ndarray, " sets"],
    who: Int[np.ndarray, " n"],
    z: Float32[np.ndarray, "n k draws"],
) -> PersonBlocks:
    """The choices of some people, filled up to one number of sets and of items, in blocks."""
    assert data.chosen is not None
    place = np.full(int(people.max()) + 1, -1)
    place[who] = np.arange(len(who))
    sets = np.flatnonzero(place[people] >= 0)
    sets = sets[np.argsort(place[people[sets]], kind="stable")]
    owner, sizes = place[people[sets]], data.sizes[sets]
    counts = np.bincount(owner, minlength=len(who))
    turn = np.arange(len(sets)) - np.repeat(np.cumsum(counts) - counts, counts)
    times, others = int(counts.max()), int(sizes.max()) - 1
    per_block = NUMBERS_PER_BLOCK.get(jax.default_backend(), NUMBERS_ON_GPU)
    size = min(len(who), max(1, per_block // (times * max(others, 1) * z.shape[2])))
    blocks = -(-len(who) // size)
    items = np.zeros((blocks * size, times, others, data.items.shape[1]))
    absent = np.ones(items.shape[:3], bool)
    starts, chosen = data.offsets[:-1][sets], data.chosen[sets]
    for other in range(others):
        there = other + 1 < sizes
        at = owner[there], turn[there], other
        row = starts + other + (other >= chosen)  # the chosen item is passed over
        items[at] = data.items[row[there]] - data.items[(starts + chosen)[there]]
        absent[at] = False
    draws = np.zeros((blocks * size, *z.shape[1:]), np.float32)
    draws[: len(who)] = z
    return PersonBlocks(*(jax.device_put(one.reshape(blocks, size, *one.shape[1:]))
                   for one in (items, absent, draws)))  # fmt: skip


class _Person(NamedTuple):
    """What one person's draws give: theta = f(C b), P of the other items p, and weights w."""

    basis: Float[Array, "a draws"]
    theta: Float[Array, "d draws"]
    log: Float[Array, ""]
    w: Float[Array, " draws"]
    p: Float[Array, "t j draws"]


def _person(
    C: Float[Array, "d a"],
    sign: Int[Array, " d"],
    items: Float[Array, "t j d"],
    absent: Bool[Array, "t j"],
    z: Float[Array, "k draws"],
    price: int | None,
) -> _Person:
    t, j, d = items.shape
    basis = jnp.concatenate([jnp.ones((1, z.shape[1])), z.astype(C.dtype)])
    theta = _theta(jnp, C, sign, basis)
    v = (items.reshape(t * j, d) @ _coefficients(jnp, theta, price)).reshape(t, j, -1)
    e = jnp.where(absent[:, :, None], 0, jnp.exp(jnp.minimum(v, LARGEST)))
    sums = 1 + e.sum(1)
    logs = -jnp.log(sums).sum(0)
    top = logs.max()
    w = jnp.exp(logs - top)
    total = w.sum()
    return _Person(basis, theta, top + jnp.log(total / len(w)), w / total, e / sums[:, None])


def _matrix(
    v: Float[Array, " p"],
    feature: Int[Array, " p"],
    basis: Int[Array, " p"],
    panel: PersonBlocks,
) -> Float[Array, "d a"]:
    """C: each parameter in its place."""
    shape = panel.items.shape[-1], panel.z.shape[-2] + 1
    return jnp.zeros(shape, v.dtype).at[feature, basis].set(v)


def _spread_within(
    items: Float[Array, "t j d"], p: Float[Array, "t j draws"]
) -> Float[Array, "d d draws"]:
    """The covariance of the items, weighted by their P, summed over the sets of a person."""
    t, j, d = items.shape
    squares = (items[..., :, None] * items[..., None, :]).reshape(t * j, d * d)

    def without(found: Array, one: tuple[Array, Array]) -> tuple[Array, None]:
        mean = one[0].T @ one[1]
        return found - mean[:, None] * mean, None

    raw = (squares.T @ p.reshape(t * j, -1)).reshape(d, d, -1)
    return jax.lax.scan(without, raw, (items, p))[0]


class _Slopes(NamedTuple):
    """How theta and beta move with eta = C b.

    d theta_k / d eta_k = slope_k, d beta_k / d eta_k = own_k, and d beta_k / d eta_q = by_price_k
    for the price q.
    """

    slope: Float[Array, "d draws"]
    own: Float[Array, "d draws"]
    by_price: Float[Array, "d draws"] | None
    price: int | None

    @classmethod
    def of(cls, theta: Array, sign: Array, price: int | None) -> "_Slopes":
        """The slopes of theta are 1, or theta itself where it is an exponential."""
        slope = jnp.where(sign[:, None] == 0, 1, theta)
        if price is None:
            return cls(slope, slope, None, None)
        here = _is(jnp, price, theta)
        own = jnp.where(here, slope, -theta[price] * slope)
        return cls(slope, own, slope[price] * jnp.where(here, 1, -theta), price)

    def pulled(self, values: Array) -> Array:
        """Derivatives in eta, of those in beta along the first axis."""
        own, by_price = self.own, self.by_price
        if values.ndim == 3:
            own = own[:, None]
            by_price = None if by_price is None else by_price[:, None]
        found = values * own
        if by_price is None:
            return found
        return found.at[self.price].set((values * by_price).sum(0))

    def crossed(self, g: Array) -> Array:
        """<g, d2 beta / d eta_k d eta_q> for all k but the price q itself."""
        assert self.price is not None
        return jnp.where(_is(jnp, self.price, g), 0, -g * self.slope * self.slope[self.price])


def _bent(
    feature: Int[Array, " p"],
    sign: Int[Array, " d"],
    basis: Float[Array, "p draws"],
    w: Float[Array, " draws"],
    slopes: _Slopes,
    g: Float[Array, "d draws"],
) -> Float[Array, "p p"]:
    """The mean over draws of <g, second derivatives of beta>; basis is that of each parameter."""
    bend = jnp.where(sign[:, None] == 0, 0, slopes.pulled(g)) * w
    own = jnp.where(feature[:, None] == feature, (bend[feature] * basis) @ basis.T, 0)
    if slopes.price is None:
        return own
    cross = (slopes.crossed(g) * w)[feature] * basis
    mixed = jnp.where(feature == slopes.price, cross @ basis.T, 0)
    return own + mixed + mixed.T


@partial(jax.jit, static_argnums=(6, 7))
def _derivatives(
    v: Float[Array, " p"],
    feature: Int[Array, " p"],
    place: Int[Array, " p"],
    sign: Int[Array, " d"],
    panel: PersonBlocks,
    weight: Float[Array, "blocks n"],
    curvature: bool,
    price: int | None,
) -> tuple[Float[Array, " people"], Float[Array, "people p"], Float[Array, "p p"]]:
    """log P and score of each person, and the weighted sum of the Hessians (0 unless asked)."""
    C = _matrix(v, feature, place, panel)

    def of_person(items: Array, absent: Array, z: Array) -> tuple[Array, Array, Array]:
        one = _person(C, sign, items, absent, z, price)
        x = items.reshape(-1, items.shape[-1])
        g = -(x.T @ one.p.reshape(len(x), -1))
        slopes = _Slopes.of(one.theta, sign, price)
        basis = one.basis[place]
        phi = slopes.pulled(g)[feature] * basis
        score = phi @ one.w
        if not curvature:
            return one.log, score, jnp.zeros((len(v),) * 2)
        pairs = (one.basis[:, None] * one.basis).reshape(-1, z.shape[1])
        size = (len(sign), len(sign), len(one.basis), len(one.basis))
        apart = slopes.pulled(slopes.pulled(_spread_within(items, one.p)).swapaxes(0, 1))
        inner = ((apart * one.w).reshape(-1, z.shape[1]) @ pairs.T).reshape(size)
        within = inner[feature[:, None], feature, place[:, None], place]
        spread = (phi * one.w) @ phi.T - jnp.outer(score, score)
        return one.log, score, spread + _bent(feature, sign, basis, one.w, slopes, g) - within

    def of_block(block: tuple[PersonBlocks, Array]) -> tuple[Array, Array, Array]:
        logs, scores, hessians = jax.vmap(of_person)(*block[0])
        return logs, scores, jnp.tensordot(block[1], hessians, 1)

    logs, scores, hessians = jax.lax.map(of_block, (panel, weight))
    return logs.ravel(), scores.reshape(-1, len(v)), hessians.sum(0)


@partial(jax.jit, static_argnums=5)
def _posterior(
    v: Float[Array, " p"],
    feature: Int[Array, " p"],
    place: Int[Array, " p"],
    sign: Int[Array, " d"],
    panel: PersonBlocks,
    price: int | None,
) -> Float[Array, "people draws"]:
    """The posterior weight of each person's draws."""
    C = _matrix(v, feature, place, panel)

    def of_person(block: PersonBlocks) -> Array:
        return _person(C, sign, *block, price).w.astype(jnp.float32)

    found = jax.lax.map(jax.vmap(of_person), panel)
    return found.reshape(-1, found.shape[-1])

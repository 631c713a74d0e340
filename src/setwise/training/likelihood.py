"""Maximum likelihood for small models whose log L is smooth but not concave.

    log L(v) = sum over sets of weight * log P(chosen | s; v)

as a function of the model's parameters v, all in one vector. JAX gives the exact gradient and
Hessian, in double precision; a trust region (scipy's "trust-exact") climbs, and full Newton steps
polish. Standard errors come from the inverse of minus the Hessian.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Float, Int

from setwise import _masked
from setwise._types import Array, Items, Mask
from setwise.choices import Bucket, Encoded, bucket, round_up
from setwise.models import Model
from setwise.training.covariances import Resampling
from setwise.training.device import DeviceData, DeviceShape, gather, map_sets, to_device

ROWS_PER_BATCH = 16_384
OVERHEAD = 0.5  # padding is cheaper than compiling another program
GRADIENT = 1e-6  # of log L per choice: where the trust region hands over to Newton
DECREMENT = 1e-12  # of log L per choice, before the last Newton step
POLISHING = 20

Derivatives = tuple[float, Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]


@dataclass(frozen=True, eq=False)
class Maximum:
    """The estimate: parameters that were not free keep their start and have covariance NaN.

    ``information`` is minus the Hessian of log L; NaN likewise.
    """

    parameters: Float[np.ndarray, " p"]
    covariance: Float[np.ndarray, "p p"]
    information: Float[np.ndarray, "p p"]
    log_likelihood: float
    iterations: int
    converged: bool


def maximise_likelihood(
    model: Model,
    start: Float[np.ndarray, " p"],
    data: Encoded,
    free: Bool[np.ndarray, " p"] | None = None,
    unit: Float[np.ndarray, " p"] | None = None,
) -> Maximum:
    """Climb from ``start`` to a maximum of log L in the free parameters.

    ``model`` gives the form and the order of the parameters (that of its fields); its own values
    do not matter. ``data`` are best encoded in double precision. ``unit`` is what counts as one of
    each parameter while climbing (1 without it): steps of that size should matter.
    """
    return climb(Likelihood(model, data), start, free, unit)


@runtime_checkable
class LogLikelihood(Protocol):
    """log L of some choices as a function of parameters, whatever computes it."""

    @property
    def total(self) -> float:
        """The sum of the weights: what log L is divided by while climbing."""

    def __call__(self, parameters: Float[np.ndarray, " p"]) -> Derivatives:
        """log L, its gradient and its Hessian."""


@runtime_checkable
class WeightedLogLikelihood(LogLikelihood, Protocol):
    """log L whose sets can be weighted anew, as a bootstrap does."""

    def together(
        self, points: Float[np.ndarray, "r p"], weights: Float[np.ndarray, "r sets"]
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "r p"]]:
        """log L and its gradient at several points, each with its own weights of the sets."""


def climb(
    likelihood: LogLikelihood,
    start: Float[np.ndarray, " p"],
    free: Bool[np.ndarray, " p"] | None = None,
    unit: Float[np.ndarray, " p"] | None = None,
) -> Maximum:
    """Climb from ``start`` to a maximum of log L; see :func:`maximise_likelihood`."""
    free = np.ones(len(start), bool) if free is None else free
    whole = np.ones(len(start)) if unit is None else unit
    total, unit = likelihood.total, whole[free]
    both = np.outer(unit, unit)

    def of(part: Float[np.ndarray, " f"]) -> Derivatives:
        value, gradient, hessian = likelihood(_placed(start, free, part * unit))
        hessian = hessian[np.ix_(free, free)] * both
        return -value / total, -gradient[free] * unit / total, -hessian / total

    part, iterations, converged = _climb(of, start[free] / unit)
    parameters = _placed(start, free, part * unit)
    return maximum_at(likelihood, parameters, free, whole, iterations, converged)


def maximum_at(
    likelihood: LogLikelihood,
    parameters: Float[np.ndarray, " p"],
    free: Bool[np.ndarray, " p"],
    unit: Float[np.ndarray, " p"],
    iterations: int,
    converged: bool,
) -> Maximum:
    """What is to be known of the maximum at these parameters."""
    value, _, hessian = likelihood(parameters)
    places, both = np.ix_(free, free), np.outer(unit[free], unit[free])
    covariance, information = (np.full((len(parameters),) * 2, np.nan) for _ in range(2))
    information[places] = -hessian[places]
    scaled = information[places] * both / likelihood.total
    covariance[places] = np.linalg.pinv(scaled, hermitian=True) * both / likelihood.total
    return Maximum(parameters, covariance, information, value, iterations, converged)


class Likelihood:
    """log L of these choices, its gradient and its Hessian; the last point asked is remembered."""

    def __init__(self, model: Model, data: Encoded):
        assert data.chosen is not None
        self.model = model
        with jax.enable_x64(True):
            self.data = _to_device(data)
            self.buckets = [
                (one.width, _batches(one)) for one in bucket(data.sizes, overhead=OVERHEAD)
            ]
        self.total = float(len(data) if data.weight is None else data.weight.sum())
        self.last: tuple[bytes, Derivatives] | None = None

    def __call__(self, parameters: Float[np.ndarray, " p"]) -> Derivatives:
        key = parameters.tobytes()
        if self.last is None or self.last[0] != key:
            self.last = (key, self._at(parameters))
        return self.last[1]

    def _at(self, parameters: Float[np.ndarray, " p"]) -> Derivatives:
        with jax.enable_x64(True):
            parts = [
                _derivatives(self.model, jax.device_put(parameters), self.data, sets, width)
                for width, sets in self.buckets
            ]
            value, gradient, hessian = (
                sum(map(np.asarray, one)) for one in zip(*parts, strict=True)
            )
        return float(value), np.asarray(gradient), np.asarray(hessian)

    def scores(self, parameters: Float[np.ndarray, " p"]) -> Float[np.ndarray, "sets p"]:
        """The gradient of each set's weight * log P(chosen)."""
        found = np.zeros((int(self.data.chosen.shape[0]), len(parameters)))
        with jax.enable_x64(True):
            for width, sets in self.buckets:
                each = _scores(self.model, jax.device_put(parameters), self.data, sets, width)
                numbers = np.asarray(sets).ravel()
                real = numbers >= 0
                found[numbers[real]] = np.asarray(each).reshape(len(numbers), -1)[real]
        return found

    def together(
        self, points: Float[np.ndarray, "r p"], weights: Float[np.ndarray, "r sets"]
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "r p"]]:
        """log L and its gradient at several points, each with its own weights of the sets."""
        with jax.enable_x64(True):
            both = jax.device_put(points), jax.device_put(weights)
            parts = [
                _together(self.model, *both, self.data, sets, width) for width, sets in self.buckets
            ]
            values, gradients = (sum(map(np.asarray, one)) for one in zip(*parts, strict=True))
        return np.asarray(values), np.asarray(gradients)


@dataclass(frozen=True, eq=False)
class Penalised:
    """log L less 1/2 sum_j strength_j (v_j - centre_j)^2: it has a maximum where log L has none."""

    likelihood: LogLikelihood
    centre: Float[np.ndarray, " p"]
    strength: Float[np.ndarray, " p"]

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return self.likelihood.total

    def __call__(self, parameters: Float[np.ndarray, " p"]) -> Derivatives:
        value, gradient, hessian = self.likelihood(parameters)
        apart = parameters - self.centre
        pull = self.strength * apart
        return value - float(apart @ pull) / 2, gradient - pull, hessian - np.diag(self.strength)


def resampled(
    likelihood: WeightedLogLikelihood,
    parameters: Float[np.ndarray, " p"],
    free: Bool[np.ndarray, " p"],
    data: Encoded,
    report: Callable[[Float[np.ndarray, "r p"]], Float[np.ndarray, "r q"]],
) -> Resampling:
    """What the bootstrap fits in the free parameters, from a maximum in them on."""

    def placed(points: Float[np.ndarray, "r f"]) -> Float[np.ndarray, "r p"]:
        whole = np.tile(parameters, (len(points), 1))
        whole[:, free] = points
        return whole

    def climb(points: Float[np.ndarray, "r f"], weights: Float[np.ndarray, "r sets"]) -> Any:
        values, gradients = likelihood.together(placed(points), weights)
        return values, gradients[:, free]

    hessian = likelihood(parameters)[2][np.ix_(free, free)]
    weight = np.ones(len(data)) if data.weight is None else data.weight
    return Resampling(
        climb, parameters[free], np.linalg.pinv(-hessian, hermitian=True), weight,
        len(data.items), lambda points: report(placed(points)),
    )  # fmt: skip


def by_set(
    function: Callable[[Items, Mask], Float[Array, "n m"]], data: Encoded
) -> Float[np.ndarray, "rows m"]:
    """A function of one set's items, applied to all sets, in double precision.

    >>> from setwise.choices import Encoded
    >>> data = Encoded(np.arange(5.0)[:, None], np.zeros((2, 0)), np.array([0, 2, 5]), None, None)
    >>> by_set(lambda x, present: x - _masked.mean(x, present), data)[:, 0].tolist()
    [-0.5, 0.5, -1.0, 0.0, 1.0]
    """
    flat: np.ndarray | None = None
    with jax.enable_x64(True):
        device = _to_device(data)._replace(context=jax.device_put(np.zeros((len(data), 0))))
        for one in bucket(data.sizes, overhead=OVERHEAD):
            table = np.asarray(_applied(function, device, _batches(one), one.width))
            table = table.reshape(-1, *table.shape[2:])[: len(one.sets)]
            present = np.arange(one.width) < data.sizes[one.sets][:, None]
            rows = data.offsets[:-1][one.sets][:, None] + np.arange(one.width)
            flat = np.empty((len(data.items), table.shape[-1])) if flat is None else flat
            flat[rows[present]] = table[present]
    assert flat is not None
    return flat


def _climb(
    of: Callable[[Float[np.ndarray, " f"]], Derivatives], start: Float[np.ndarray, " f"]
) -> tuple[Float[np.ndarray, " f"], int, bool]:
    """The minimum of a function with these derivatives, the steps, and whether it is one."""
    if len(start) == 0:
        return start, 0, True
    from scipy.optimize import minimize  # slow to import

    climbed = minimize(
        lambda v: of(v)[0], start, jac=lambda v: of(v)[1], hess=lambda v: of(v)[2],
        method="trust-exact", options={"gtol": GRADIENT, "maxiter": 500},
    )  # fmt: skip
    part, steps, rested = _polish(of, climbed.x)
    curvatures = np.linalg.eigvalsh(of(part)[2])
    return part, climbed.nit + steps, rested and bool(curvatures[0] > -1e-9 * curvatures[-1])


def _polish(
    of: Callable[[Float[np.ndarray, " f"]], Derivatives], part: Float[np.ndarray, " f"]
) -> tuple[Float[np.ndarray, " f"], int, bool]:
    """Newton steps, each taken only if log L does not fall; whether they came to rest."""
    for step in range(POLISHING):
        value, gradient, hessian = of(part)
        direction = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        decrement = float(-gradient @ direction)
        if not 0 <= decrement < GRADIENT:  # no maximum is near
            return part, step, False
        trial = part + direction
        if of(trial)[0] > value:
            return part, step, decrement < DECREMENT
        part = trial
        if decrement < DECREMENT:
            return part, step + 1, True
    return part, POLISHING, False


def _placed(
    start: Float[np.ndarray, " p"], free: Bool[np.ndarray, " p"], part: Float[np.ndarray, " f"]
) -> Float[np.ndarray, " p"]:
    whole = start.astype(np.float64)
    whole[free] = part
    return whole


@eqx.filter_jit
def _derivatives(
    model: Model,
    parameters: Float[Array, " p"],
    data: DeviceData,
    sets: Int[Array, "steps batch"],
    width: int,
) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, "p p"]]:
    """log L of these sets and its derivatives, batch after batch: memory stays bounded."""
    each = _choice_logs(model, data, width)

    def value(batch: Int[Array, " batch"], v: Float[Array, " p"]) -> Float[Array, ""]:
        return (each(batch, v) * _weights(data.weight, batch)).sum()

    def all_three(batch: Int[Array, " batch"]) -> tuple[Array, Array, Array]:
        def gradient(v: Float[Array, " p"]) -> tuple[Array, tuple[Array, Array]]:
            both = jax.value_and_grad(partial(value, batch))(v)
            return both[1], both

        hessian, both = jax.jacfwd(gradient, has_aux=True)(parameters)
        return *both, hessian

    return jax.tree.map(lambda one: one.sum(0), jax.lax.map(all_three, sets))


@eqx.filter_jit
def _scores(
    model: Model,
    parameters: Float[Array, " p"],
    data: DeviceData,
    sets: Int[Array, "steps batch"],
    width: int,
) -> Float[Array, "steps batch p"]:
    each = _choice_logs(model, data, width)

    def of_batch(batch: Int[Array, " batch"]) -> Float[Array, "batch p"]:
        one = jax.vmap(lambda number: jax.grad(lambda v: each(number[None], v)[0])(parameters))
        return one(batch) * _weights(data.weight, batch)[:, None]

    return jax.lax.map(of_batch, sets)


@eqx.filter_jit
def _together(
    model: Model,
    points: Float[Array, "r p"],
    weights: Float[Array, "r sets"],
    data: DeviceData,
    sets: Int[Array, "steps batch"],
    width: int,
) -> tuple[Float[Array, " r"], Float[Array, "r p"]]:
    each = _choice_logs(model, data, width)

    def of_batch(batch: Int[Array, " batch"]) -> tuple[Array, Array]:
        def value(v: Float[Array, " p"], weight: Float[Array, " sets"]) -> Float[Array, ""]:
            return (each(batch, v) * _weights(weight, batch)).sum()

        return jax.vmap(jax.value_and_grad(value))(points, weights)

    return jax.tree.map(lambda one: one.sum(0), jax.lax.map(of_batch, sets))


def _choice_logs(
    model: Model, data: DeviceData, width: int
) -> Callable[[Int[Array, " batch"], Float[Array, " p"]], Float[Array, " batch"]]:
    """log P(chosen) of the sets of a batch as a function of the model's parameters."""
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), arrays)
    unravel = ravel_pytree(wide)[1]

    def each(batch: Int[Array, " batch"], v: Float[Array, " p"]) -> Float[Array, " batch"]:
        numbers = jnp.maximum(batch, 0)
        items, present = gather(data, numbers, width)
        scores = jax.vmap(eqx.combine(unravel(v), rest).scores)(items, present)
        logs = jax.vmap(_masked.log_softmax)(scores, present)
        return jnp.take_along_axis(logs, data.chosen[numbers][:, None], 1)[:, 0]

    return each


def _weights(weight: Float[Array, " sets"], batch: Int[Array, " batch"]) -> Float[Array, " batch"]:
    """The weights of a batch's sets; 0 for what only fills it."""
    return jnp.where(batch >= 0, weight[jnp.maximum(batch, 0)], 0)


@eqx.filter_jit
def _applied(
    function: Callable[[Items, Mask], Float[Array, "n m"]],
    data: DeviceData,
    sets: Int[Array, "steps batch"],
    width: int,
) -> Float[Array, "steps batch n m"]:
    return map_sets(function, data, sets, width)


def _to_device(data: Encoded) -> DeviceData:
    """The choices in double precision; call it, and what follows, where that is on."""
    shape = DeviceShape(len(data.items), len(data), mean_weight=1.0)
    return to_device(data, shape=shape, dtype=np.float64)


def _batches(one: Bucket) -> Int[Array, "steps batch"]:
    """The bucket's sets as full batches; -1 fills the last."""
    size = min(round_up(len(one.sets)), max(1, ROWS_PER_BATCH // one.width))
    sets = np.full(-(-len(one.sets) // size) * size, -1)
    sets[: len(one.sets)] = one.sets
    return jax.device_put(sets.reshape(-1, size))

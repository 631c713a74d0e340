"""Derivatives of log-probabilities with respect to a column of the table, for every pair of items.

Models see standardised numbers. A column x becomes z = (t(x) - mean) / scale with t the identity,
log, log1p or sqrt, so that d/dx = t'(x)/scale d/dz, and d/d log x = x t'(x)/scale d/dz. The
derivative in z is JAX's, by automatic differentiation in forward mode: all b of a set at once, in
double precision, since where P is near 1 little is left of d log P in single precision.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from setwise import _masked
from setwise._errors import InputError
from setwise._types import Array, Items, Mask
from setwise.choices import Choices, Encoded, Schema
from setwise.choices.alternatives import Pairs
from setwise.estimators import Estimator
from setwise.models import Model
from setwise.training.device import DeviceData, gather, to_device
from setwise.violations.without_each import Chunk, chunks, in_lanes, is_jax

Values = Float[np.ndarray, " rows"]

LOG_SLOPES: Mapping[str, Callable[[Values], Values]] = {
    "none": lambda x: x,
    "log": np.ones_like,
    "log1p": lambda x: x / (1 + x),
    "sqrt": lambda x: np.sqrt(x) / 2,
}
"""x t'(x) of each transform: what one per cent more does to t(x), per hundredth."""


class Sensitivity(NamedTuple):
    """Of every pair, d log P(a) in the direction given for b; and the probabilities."""

    pairs: Pairs
    probability: Float[np.ndarray, " rows"]  # the outside option is each set's last


def check_differentiable(estimator: Estimator) -> None:
    """Refuse models whose probabilities have no slope."""
    if not is_jax(estimator):
        raise InputError(
            f"the probabilities of {type(estimator).__name__} are flat between the cuts of its "
            "trees and jump at them, so that they have no derivatives; ask for a finite change "
            "with counterfactual(model, data, Reprice(column, 1.01)), or for diversion_ratios "
            "without a column, which takes items away"
        )


def place_of(schema: Schema, column: str) -> tuple[int, str]:
    """Where a number column of the items stands among what models see, and its transform."""
    place = 0
    for encoder in schema.items:
        if encoder.feature.column == column:
            if encoder.kind != "number":
                raise InputError(
                    f"column '{column}' is a {encoder.kind}, which cannot change by a little: "
                    "derivatives need a number; ask for a finite change with counterfactual"
                )
            return place, encoder.feature.transform
        place += len(encoder.names)
    numbers = [e.feature.column for e in schema.items if e.kind == "number"]
    if column in [encoder.feature.column for encoder in schema.context]:
        raise InputError(
            f"column '{column}' is context, equal for all items of a set: no item has its own, so "
            f"there are no own and cross effects; item columns are: {', '.join(numbers)}"
        )
    raise InputError(
        f"the model has no item column '{column}'; its number columns are: {', '.join(numbers)}"
    )


def sensitivity(estimator: Estimator, choices: Choices, column: str, relative: bool) -> Sensitivity:
    """d log P(a) / d log x_b if ``relative``, else d log P(a) / d z_b, z being standardised.

    NaN in the columns of items b whose x is missing (and was imputed): they have none to change.
    """
    check_differentiable(estimator)
    schema = estimator.schema_
    place, transform = place_of(schema, column)
    fitted = estimator.model_
    parts = []
    for block in choices.blocks():
        encoded = schema.encode(block, np.float64)
        x = block.columns[column].values.astype(np.float64)
        step = LOG_SLOPES[transform](x) / schema.scale[place] if relative else np.ones(len(x))
        step = np.where(np.isnan(x), np.nan, step)
        if schema.outside:
            step = np.insert(step, block.offsets[1:], 0.0)
        with jax.enable_x64(True):
            model = jax.tree.map(_doubled, fitted)
            parts.append(_of_part(model, encoded, place, step, schema.outside))
    values, probability = (np.concatenate(each) for each in zip(*parts, strict=True))
    rows = choices.sizes + int(schema.outside)
    return Sensitivity(Pairs(values, rows, choices.sizes), probability)


def _of_part(
    model: Model,
    encoded: Encoded,
    place: int,
    step: Float[np.ndarray, " rows"],
    outside: bool,
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " rows"]]:
    data = _to_device(encoded)
    sizes, starts = encoded.sizes, encoded.offsets[:-1]
    columns = sizes - int(outside)
    begins = np.concatenate([[0], np.cumsum(sizes * columns)])
    values, probability = np.empty(begins[-1]), np.empty(len(encoded.items))
    for chunk in chunks(encoded):
        slope, p = _in_chunk(model, data, chunk, place)
        here, size = np.arange(chunk.width), sizes[chunk.sets][:, None]
        present = here < size
        rows = (starts[chunk.sets][:, None] + here)[present]
        probability[rows] = p[present]
        real = present[:, None, :] & (here < size - int(outside))[:, :, None]
        flat = (
            begins[:-1][chunk.sets][:, None, None]
            + here * columns[chunk.sets][:, None, None]
            + here[:, None]
        )
        by = np.zeros(present.shape)
        by[present] = step[rows]
        values[flat[real]] = (slope * by[:, :, None])[real]
    return values, probability


def _doubled(leaf: Any) -> Any:
    return leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf


def _to_device(encoded: Encoded) -> DeviceData:
    """As training's, but in double precision."""
    single = to_device(encoded)
    items, context = (
        jnp.asarray(np.pad(values, [(0, len(like) - len(values)), (0, 0)]))
        for values, like in ((encoded.items, single.items), (encoded.context, single.context))
    )
    return single._replace(items=items, context=context)


def _in_chunk(
    model: Model, data: DeviceData, chunk: Chunk, place: int
) -> tuple[Float[np.ndarray, "m b a"], Float[np.ndarray, "m a"]]:
    found = _program(model, data, chunk.batches, chunk.width, jnp.asarray(place))
    slope, logs = (np.asarray(one) for one in found)
    slope = slope.reshape(-1, chunk.width, chunk.width)[: len(chunk.sets)]
    logs = logs.reshape(-1, chunk.width)[: len(chunk.sets)]
    return slope, np.exp(logs)


@eqx.filter_jit
def _program(
    model: Model,
    data: DeviceData,
    batches: Int[Array, "steps batch"],
    width: int,
    column: Int[Array, ""],
) -> tuple[Float[Array, "steps batch b a"], Float[Array, "steps batch a"]]:
    """d log P(a) / d z_b of every set, and log P(a)."""

    def one_set(items: Items, present: Mask) -> tuple[Float[Array, "b a"], Float[Array, " a"]]:
        def logs(items: Items) -> Float[Array, " a"]:
            return _masked.log_softmax(model.scores(items, present), present)

        def one_lane(b: Array) -> Float[Array, " a"]:
            tangent = jnp.zeros_like(items).at[b, column].set(1)
            return jax.jvp(logs, (items,), (tangent,))[1]

        return in_lanes(one_lane, 0, width), logs(items)

    def one_batch(
        batch: Int[Array, " batch"],
    ) -> tuple[Float[Array, "batch b a"], Float[Array, "batch a"]]:
        return jax.vmap(one_set)(*gather(data, jnp.maximum(batch, 0), width))

    return jax.lax.map(one_batch, batches)

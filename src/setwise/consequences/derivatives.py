"""Derivatives of log-probabilities with respect to a column of the table, for every pair of items.

Models see standardised numbers. A column x becomes z = (t(x) - mean) / scale with t the identity,
log, log1p or sqrt, so that d/dx = t'(x)/scale d/dz, and d/d log x = x t'(x)/scale d/dz. The
derivative in z is JAX's, by automatic differentiation in forward mode: all b of a set at once, in
double precision, since where P is near 1 little is left of d log P in single precision.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from setwise import _masked
from setwise._errors import InputError
from setwise._types import Array, Items, Mask
from setwise.choices import Choices, Encoded, Schema
from setwise.estimators import Estimator
from setwise.estimators.removals import over_places, set_batches
from setwise.metrics.pairs import Pairs, Responses
from setwise.models import Model
from setwise.training.device import DeviceData, gather, to_device

Values = Float[np.ndarray, " rows"]

LOG_SLOPES: Mapping[str, Callable[[Values], Values]] = {
    "none": lambda x: x,
    "log": np.ones_like,
    "log1p": lambda x: x / (1 + x),
    "sqrt": lambda x: np.sqrt(x) / 2,
}
"""x t'(x) of each transform: what one per cent more does to t(x), per hundredth."""


def check_differentiable(estimator: Estimator) -> None:
    """Refuse models whose probabilities have no slope."""
    if not estimator.has_jax_model:
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


def sensitivity(estimator: Estimator, choices: Choices, column: str, relative: bool) -> Responses:
    """d log P(a) / d log x_b if ``relative``, else d log P(a) / d z_b, z being standardised.

    NaN in the columns of items b whose x is missing (and was imputed): they have none to change.
    """
    check_differentiable(estimator)
    schema = estimator.schema_
    place, transform = place_of(schema, column)
    rows = choices.sizes + int(schema.outside)
    pairs, probability = Pairs.empty(rows, choices.sizes), np.empty(int(rows.sum()))
    sets_before = rows_before = 0
    for block in choices.blocks():
        encoded = schema.encode(block, np.float64)
        x = block.columns[column].values.astype(np.float64)
        step = LOG_SLOPES[transform](x) / schema.scale[place] if relative else np.ones(len(x))
        step = np.where(np.isnan(x), np.nan, step)
        if schema.outside:
            step = np.insert(step, block.offsets[1:], 0.0)
        with jax.enable_x64(True):
            model = jax.tree.map(_doubled, estimator.model_)
            for sets, slope, p in _slopes(model, encoded, place):
                here = np.arange(p.shape[1])
                present = here < encoded.sizes[sets][:, None]
                of_sets = np.where(present, encoded.offsets[sets][:, None] + here, 0)
                probability[rows_before + of_sets[present]] = p[present]
                pairs.fill(sets_before + sets, slope * step[of_sets][:, :, None])
        sets_before, rows_before = sets_before + len(encoded), rows_before + len(encoded.items)
    return Responses(pairs, probability)


def _slopes(
    model: Model, encoded: Encoded, place: int
) -> Iterator[tuple[Int[np.ndarray, " m"], Float[np.ndarray, "m b a"], Float[np.ndarray, "m a"]]]:
    """Some sets at a time: d log P(a) / d z_b, and P(a)."""
    data = _to_device(encoded)
    for some in set_batches(encoded):
        found = _program(model, data, some.batches, some.width, jnp.asarray(place))
        slope, logs = (
            np.asarray(one).reshape(-1, *one.shape[2:])[: len(some.sets)] for one in found
        )
        yield some.sets, slope, np.exp(logs)


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

        def slope(b: Array) -> Float[Array, " a"]:
            tangent = jnp.zeros_like(items).at[b, column].set(1)
            return jax.jvp(logs, (items,), (tangent,))[1]

        return over_places(slope, 0, width), logs(items)

    def one_batch(
        batch: Int[Array, " batch"],
    ) -> tuple[Float[Array, "batch b a"], Float[Array, "batch a"]]:
        return jax.vmap(one_set)(*gather(data, jnp.maximum(batch, 0), width))

    return jax.lax.map(one_batch, batches)

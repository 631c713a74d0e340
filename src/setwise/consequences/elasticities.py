"""Elasticities: by how many per cent a probability changes when a column changes by one per cent.

They come from derivatives of log-probabilities with respect to a column, for every pair of items.
Models see standardised numbers. A column x becomes z = (t(x) - mean) / scale with t the identity,
log, log1p or sqrt, so that d/dx = t'(x)/scale d/dz, and d/d log x = x t'(x)/scale d/dz. The
derivative in z is JAX's, by automatic differentiation in forward mode: all b of a set at once, in
double precision, since single precision loses d log P where P is near 1. Where a utility makes
several terms of a column, the derivatives with respect to all of them are added up.

Models with trees have no derivatives. There elasticities are those of an arc: x is divided and
multiplied by the root of 1.1, and the change of log P is divided by that of log x.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from setwise import _masked
from setwise._arguments import checked, columns, number, one_of, optional, text
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise._segments import offsets_of, positions
from setwise._types import Array, Items, Mask
from setwise.choices import Choices, Encoded, Schema
from setwise.choices.alternatives import Alternatives
from setwise.choices.choices import Column
from setwise.choices.terms import row_columns
from setwise.consequences.derived_columns import BOTH, warn_of_derived
from setwise.consequences.own_changes import one_by_one
from setwise.consequences.shares import delta_errors, of_sets
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.estimators.removals import over_places, set_batches
from setwise.metrics.pairs import LevelMatrix, Pairs, Responses
from setwise.metrics.set_means import Interval, bootstrap
from setwise.models import Model
from setwise.training.covariances import KINDS
from setwise.training.device import DeviceData, map_sets, to_device

Values = Float[np.ndarray, " rows"]

LOG_SLOPES: Mapping[str, Callable[[Values], Values]] = {
    "none": lambda x: x,
    "log": np.ones_like,
    "log1p": lambda x: x / (1 + x),
    "sqrt": lambda x: np.sqrt(x) / 2,
}
"""x t'(x) of each transform: what one per cent more does to t(x), per hundredth."""


STEP = 0.1
"""The relative change over which models with steps are asked."""


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


def _steps(
    schema: Schema, choices: Choices, column: str, relative: bool
) -> list[tuple[int, Values]]:
    """What a column changes of the numbers that models see: the place of each, and by how much.

    d z / d log x of every row if ``relative``. Else 1 for a feature, which is d z / d z, and
    d z / d x for the terms of a utility.
    """
    place, transform = place_of(schema, column)
    x = choices.columns[column].values.astype(np.float64)
    if schema.terms is not None:
        features = [one.feature for one in schema.items + schema.context]
        slopes = schema.terms.slopes(row_columns(features, choices), column) / schema.scale
        by = x if relative else np.ones(len(x))
        return [(one, slopes[:, one] * by) for one in schema.terms.depend_on(column)]
    step = LOG_SLOPES[transform](x) / schema.scale[place] if relative else np.ones(len(x))
    return [(place, np.where(np.isnan(x), np.nan, step))]


def sensitivity(estimator: Estimator, choices: Choices, column: str, relative: bool) -> Responses:
    """d log P(a) / d log x_b if ``relative``, else that in the units of :func:`_steps`.

    NaN in the columns of items b whose x is missing (and was imputed): they have none to change.
    """
    schema, single = estimator.schema_, estimator.model_  # made in single precision, if not yet
    rows = choices.sizes + int(schema.outside)
    pairs, probability = Pairs.empty(rows, choices.sizes), np.empty(int(rows.sum()))
    sets_before = rows_before = 0
    for block in choices.blocks():
        encoded = schema.encode(block, np.float64)
        places, steps = zip(*_steps(schema, block, column, relative), strict=True)
        if schema.outside:
            steps = tuple(np.insert(one, block.offsets[1:], 0.0) for one in steps)
        with jax.enable_x64(True):
            model = jax.tree.map(_doubled, single)
            for sets, slopes, p in _slopes(model, encoded, places):
                here = np.arange(p.shape[1])
                present = here < encoded.sizes[sets][:, None]
                of_sets = np.where(present, encoded.offsets[sets][:, None] + here, 0)
                probability[rows_before + of_sets[present]] = p[present]
                moved = sum(
                    slope * step[of_sets][:, :, None]
                    for slope, step in zip(slopes, steps, strict=True)
                )
                pairs.fill(sets_before + sets, moved)
        sets_before, rows_before = sets_before + len(encoded), rows_before + len(encoded.items)
    return Responses(pairs, probability)


def arcs(
    estimator: Estimator, choices: Choices, column: str, step: float, relative: bool
) -> Responses:
    """How P(a) changes as x_b is scaled by 1 + step: for models with steps.

    If ``relative``, (log P(a) after - log P(a) before) / log(1 + step), else P(a) after - P(a)
    before. Before, x_b is divided by the root of 1 + step, and after, multiplied by it. NaN in the
    columns of items b whose x is missing.
    """
    schema = estimator.schema_
    place_of(schema, column)  # refuses what is not a number of the items
    rows = choices.sizes + int(schema.outside)
    pairs, probability = Pairs.empty(rows, choices.sizes), np.empty(int(rows.sum()))
    sets_before = rows_before = 0
    for block in choices.blocks():
        encoded = schema.encode(block)
        logs = estimator.row_log_probabilities(encoded)
        probability[rows_before : rows_before + len(logs)] = np.exp(logs)
        x = block.columns[column].values.astype(np.float64)
        ends = [
            schema.encode(replace(block, columns={**block.columns, column: Column(x * factor)}))
            for factor in ((1 + step) ** -0.5, (1 + step) ** 0.5)
        ]
        own = np.flatnonzero(schema.real_rows(encoded))
        for one in one_by_one(estimator, encoded, own, [end.items[own] for end in ends]):
            low, high = one.logs
            change = (high - low) / np.log1p(step) if relative else np.exp(high) - np.exp(low)
            change[np.repeat(np.isnan(x[one.some]), one.sizes)] = np.nan
            causes = np.repeat(own[one.some] - encoded.offsets[one.sets], one.sizes)
            of_rows = np.repeat(sets_before + one.sets, one.sizes)
            pairs.put(of_rows, positions(offsets_of(one.sizes)), causes, change)
        sets_before, rows_before = sets_before + len(encoded), rows_before + len(logs)
    return Responses(pairs, probability)


def _slopes(
    model: Model, encoded: Encoded, places: Sequence[int]
) -> Iterator[
    tuple[Int[np.ndarray, " m"], list[Float[np.ndarray, "m b a"]], Float[np.ndarray, "m a"]]
]:
    """Some sets at a time: d log P(a) / d z_b for z at each of these places, and P(a)."""
    data = to_device(encoded, dtype=np.float64)
    for some in set_batches(encoded):
        slopes = []
        for place in places:
            found = _program(model, data, some.batches, some.width, jnp.asarray(place))
            slope, logs = (
                np.asarray(one).reshape(-1, *one.shape[2:])[: len(some.sets)] for one in found
            )
            slopes.append(slope)
        yield some.sets, slopes, np.exp(logs)


def _doubled(leaf: Any) -> Any:
    return leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf


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

    return map_sets(one_set, data, batches, width)


AVERAGED = (
    "own: mean over all items of all sets, cross: over all pairs of different items, each weighted "
    "by the\nprobability of the item that responds"
)

ARC = (
    "arc elasticities: the model has steps and no derivatives, so the column changes by {step:.0%}"
)


@dataclass(frozen=True, eq=False)
class Elasticities:
    """A matrix per set, row a and column b: e_ab = d log P(a) / d log x_b."""

    column: str
    pairs: Pairs
    probability: Float[np.ndarray, " rows"]
    """P_s(a) of every row, set after set; the outside option, where there is one, comes last."""
    weight: Float[np.ndarray, " sets"] | None
    between: LevelMatrix | None
    """By alternatives, where ``by`` names them: elasticities of their expected shares."""
    step: float | None = None
    """The relative change of x over which they are arc elasticities; None for derivatives."""
    group: Shaped[np.ndarray, " sets"] | None = None
    """Who chose from each set, where the data say so: intervals then resample people."""
    estimation_errors: tuple[float, float] | None = None
    """Of ``own`` and ``cross``: how well the model is estimated, where a covariance was asked."""

    def of_set(self, number: int) -> Float[np.ndarray, "a b"]:
        """The matrix of one set."""
        return self.pairs.of_set(number)

    @property
    def note(self) -> str:
        """How they were computed, where it is not by derivatives."""
        arc = "" if self.step is None else ARC.format(step=self.step)
        if self.estimation_errors is None:
            return arc
        own, cross = self.estimation_errors
        errors = f"standard errors of the estimates: own {own:.4f}, cross {cross:.4f}"
        return f"{errors}\n{arc}".strip()

    @property
    def own(self) -> float:
        """Mean of e_aa over all items a of all sets, each weighted by its P(a).

        So it is the elasticity of expected demand: improbable items hardly count, and dear
        alternatives count with cheap ones. Elasticities of alternatives are those of ``between``.
        """
        return self._mean(self.pairs.same())

    @property
    def cross(self) -> float:
        """Mean of e_ab over all pairs of different items of all sets, each weighted by P(a)."""
        return self._mean(~self.pairs.same())

    def interval(self, own: bool = True, seed: int = 0) -> Interval:
        """95% by the bootstrap over people, or sets, of the own or the cross mean."""
        sums = self._sums(self.pairs.same() == own)
        low, high = bootstrap(*sums, seed=seed, group=self.group)
        return float(low), float(high)

    def to_frame(self) -> Any:
        """A Polars frame, one row per pair: alternatives with ``by``, else items of a set.

        Columns for alternatives: alternative, because_of, elasticity, low, high (95 %). For items:
        set_number, item, because_of, elasticity, all counted from 0 in the order of the sets.
        """
        if self.between is None:
            return self.pairs.to_frame("item", "elasticity")
        return self.between.to_frame().rename({"value": "elasticity"})

    def _repr_html_(self) -> str:
        rows = []
        for name, mean, own in (("own", self.own, True), ("cross", self.cross, False)):
            low, high = self.interval(own)
            rows.append([name, f"{mean:.4f}", f"[{low:.4f}, {high:.4f}]"])
        title = f"Elasticities with respect to '{self.column}', {len(self.pairs):,} sets"
        table = notebook_html(["", "mean", "95% interval"], rows, title=title, note=self.note)
        return table if self.between is None else table + self.between.html()

    def __str__(self) -> str:
        lines = [f"elasticities with respect to '{self.column}', {len(self.pairs):,} sets"]
        for name, own in (("own", True), ("cross", False)):
            low, high = self.interval(own)
            mean = self.own if own else self.cross
            lines.append(f"{name:<6} {mean:>8.4f}  [{low:.4f}, {high:.4f}]")
        lines += [AVERAGED, self.note] if self.note else [AVERAGED]
        return "\n".join(lines if self.between is None else [*lines, str(self.between)])

    def _mean(self, which: Bool[np.ndarray, " pairs"]) -> float:
        above, below = (one.sum() for one in self._sums(which))
        return float(above / below) if below > 0 else float("nan")

    def _sums(
        self, which: Bool[np.ndarray, " pairs"]
    ) -> tuple[Float[np.ndarray, " sets"], Float[np.ndarray, " sets"]]:
        """The sums of P(a) e_ab and of P(a) over these pairs, per set."""
        sets, _, _ = self.pairs.places()
        known = which & ~np.isnan(self.pairs.values)
        p = np.where(known, self.pairs.of_rows(self.probability), 0)
        if self.weight is not None:
            p = p * self.weight[sets]
        values = p * np.where(known, self.pairs.values, 0)
        count = len(self.pairs)
        return np.bincount(sets, values, count), np.bincount(sets, p, count)


@checked(
    estimator=fitted,
    column=text,
    by=optional(columns),
    step=number(above=0),
    covariance=optional(one_of(*KINDS)),
)
def elasticities(
    estimator: Estimator,
    data: Any,
    column: str,
    by: str | Sequence[str] | None = None,
    *,
    step: float = STEP,
    covariance: str | None = None,
) -> Elasticities:
    """Own and cross elasticities of all items of every set, by automatic differentiation.

        e_ab = d log P_s(a) / d log x_b

    with x the column in the **table's** units, whatever transform and standardisation the model
    puts between. For the MNL, e_ab = beta x_b (1{a = b} - P_s(b)). Models with maxima, minima or
    kinks have a one-sided derivative there. ``own`` is the mean over all items of all sets, and
    ``cross`` over all pairs of different items, each weighted by P(a) and by the set's weight, as
    the literature has it: they are elasticities of expected demand. An alternative's own elasticity
    is on the diagonal of ``between``. With ``by``,

        between(k, l) = d log(sum_s P_s(k)) / d log x_l
                      = sum_s sum over a in k, b in l of P_s(a) e_ab / sum_s P_s(k):

    by how many per cent the expected share of k changes when x of every l rises by one per cent.

    Models with trees have steps and no derivatives. Theirs are arc elasticities, with x_b divided
    and multiplied by the root of 1 + ``step``:

        e_ab = (log P_s(a) after - log P_s(a) before) / log(1 + step).

    Args:
        estimator: a fitted model.
        data: a :class:`~setwise.Choices`, whose weights count, or any table with the columns of
            the training table.
        column: a number among the item features, by its name in the table. Where it is missing
            (and imputed), elasticities are NaN and do not count.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.
        step: the relative change of the column for models with trees, 0.1 by default (10 %).
        covariance: "classical", "robust", "cluster" or "bootstrap", of the estimates of a model
            with standard errors: adds ``estimation_errors`` of the own and the cross mean, by the
            delta method. It takes twice as many passes as there are parameters. Intervals say how
            much other people, or sets, would move the means; these errors say how well the model
            is estimated.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada").sample(200)
    >>> found = elasticities(sw.MNL().fit(choices), choices, "cost")
    >>> found.own < 0 < found.cross
    True
    """
    choices = estimator.as_choices(data)
    arc = None if estimator.differentiable else step
    if arc is None:
        found = sensitivity(estimator, choices, column, relative=True)
    else:
        found = arcs(estimator, choices, column, arc, relative=True)
    warn_of_derived(estimator, choices, [column], BOTH)
    between = None
    if by is not None:
        known = Alternatives.of(data, choices, by, estimator.schema_.outside)
        levels, pairs = len(known.names), found.pairs
        moved = Pairs(pairs.values * pairs.of_rows(found.probability), pairs.rows, pairs.columns)
        shares = of_sets(found.probability, offsets_of(pairs.rows), known)[:, :, None]
        weight = np.ones(len(choices)) if choices.weight is None else choices.weight
        each = weight[:, None, None]
        above = moved.between(known.codes, levels, apart=False)
        between = LevelMatrix.ratio(known.names, above * each, shares * each)
    whole = Elasticities(
        column, found.pairs, found.probability, choices.weight, between, arc, choices.group
    )
    if covariance is None:
        return whole

    def means(one: Estimator) -> Float[np.ndarray, " two"]:
        other = sensitivity(one, choices, column, relative=True)
        moved = replace(whole, pairs=other.pairs, probability=other.probability)
        return np.array([moved.own, moved.cross])

    own, cross = delta_errors(estimator, means, covariance).tolist()
    return replace(whole, estimation_errors=(own, cross))

"""Prices that earn most.

    R(p) = sum over the items x of s of P_p(x | s) (p_x - cost_x)

The price column is changed in the table and encoded again, so that it may enter a model through
logarithms, formulas and any other transform. The surface need not be concave: a grid is searched
item after item, and where the model has derivatives, gradients end what the grid began.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise import _segments
from setwise._arguments import checked, each, number, one_of, optional, seed, text
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise._shapes import Bool, Float, Int, Shaped
from setwise.choices import Choices
from setwise.choices.choices import Column
from setwise.decide.assortment import row_model
from setwise.decide.candidates import Candidates, numbers_of
from setwise.decide.result_tables import LINES, cell, table_text
from setwise.decide.set_values import without_engine
from setwise.scoring.scorer import RowModel

NEAR = 0.2
"""Prices stay within so much of the present ones where no bounds are given."""
GRID = 15
ROUNDS = 20  # over all items; each ends when no price moves
ZOOMS = 3  # of the grid, each to a quarter of its width
BETTER = 1e-6  # relative
SLOPE = 1e-3  # of the width of the bounds: the step of a difference quotient
GRID_SEARCH, GRADIENTS = "grid search", "gradients, from the best of a grid"
METHODS = ("auto", "search", "gradients")


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices for the items of one set or of many, set after set."""

    set_column: str
    set_ids: Shaped[np.ndarray, " sets"]
    offsets: Int[np.ndarray, " sets_and_one"]
    rows: Int[np.ndarray, " rows"]
    """The place of each item in the table."""
    before: Float[np.ndarray, " rows"]
    """The prices of the table."""
    after: Float[np.ndarray, " rows"]
    """The prices that earn most, as far as was found."""
    probability: Float[np.ndarray, " rows"]
    """P(x | s) at the new prices."""
    earned_before: Float[np.ndarray, " sets"]
    earned_after: Float[np.ndarray, " sets"]
    at_bound: Bool[np.ndarray, " rows"]
    """Prices that would go on beyond their bounds: the model may know nothing of what is there."""
    method: str
    evaluations: int
    """Sets scored."""
    seconds: float

    def to_frame(self) -> Any:
        """A Polars frame, one row per item."""
        import polars as pl

        columns = {
            self.set_column: self.set_ids[_segments.owners(self.offsets)], "row": self.rows,
            "before": self.before, "after": self.after, "probability": self.probability,
            "at_bound": self.at_bound,
        }  # fmt: skip
        return pl.DataFrame(columns)

    def _repr_html_(self) -> str:
        frame = self.to_frame().head(LINES)
        rows = [[cell(one) for one in row] for row in frame.rows()]
        return notebook_html(frame.columns, rows, note=self._note())

    def __str__(self) -> str:
        return f"{table_text(self.to_frame())}\n{self._note()}"

    def _note(self) -> str:
        mean = "" if len(self.set_ids) == 1 else f"{len(self.set_ids):,} sets: on average "
        bound = int(self.at_bound.sum())
        said = f"; prices at a bound: {bound:,}" if bound else ""
        return (
            f"{mean}{self.earned_before.mean():.6g} before, {self.earned_after.mean():.6g} after, "
            f"by {self.method}; better prices are not ruled out{said}"
        )


@dataclass(eq=False)
class Pricing:
    """Sets whose prices may be other ones, and what they earn."""

    model: RowModel
    choices: Choices
    column: str
    cost: Float[np.ndarray, " rows"]
    scored: int = 0

    def probabilities(
        self, sets: Int[np.ndarray, " k"], price: Float[np.ndarray, " rows"]
    ) -> tuple[Float[np.ndarray, " rows"], Int[np.ndarray, " k_and_one"]]:
        """P(x | s) of the items of these sets at these prices, one after the other."""
        some = repriced(self.choices.take(sets), self.column, price)
        encoded = self.model.schema.encode(some)
        self.scored += len(sets)
        p = np.exp(self.model.row_log_probabilities(encoded).astype(np.float64))
        return p[self.model.schema.real_rows(encoded)], some.offsets

    def earned(
        self, sets: Int[np.ndarray, " k"], price: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, " k"]:
        """R of these sets at these prices."""
        p, offsets = self.probabilities(sets, price)
        cost = self.cost[rows_of_sets(self.choices, sets)]
        return _segments.sums(p * (price - cost), offsets)


@checked(
    price=text, ladder=optional(each(number())), method=one_of(*METHODS), seed=seed
)  # fmt: skip
def prices(
    model: Any,
    items: Any,
    price: str = "price",
    *,
    cost: Any = 0.0,
    bounds: Any = None,
    ladder: Sequence[float | int] | None = None,
    which: Any = None,
    method: str = "auto",
    seed: int = 0,
) -> Prices:
    """The prices at which each set earns most.

    Args:
        model: a fitted estimator, or a :class:`setwise.scoring.Scorer`.
        items: a table with the sets as they are shown, or choices.
        price: the column of prices among the model's items; models may see it transformed.
        cost: what an item costs those who sell it: a column or numbers; 0 for revenue.
        bounds: the lowest and the highest price, each a number or a column. By default prices stay
            within 20 % of the present ones, as models know little of others.
        ladder: the prices that are allowed, such as 49, 59, 69. Those within the bounds count.
        which: the items whose price may change: a 0/1 column, flags, or values of columns; by
            default all.
        method: "search" over a grid, "gradients" after it, or "auto": gradients for models that
            have derivatives, without a ladder.
        seed: of the order in which items are priced.

    Columns that are made of the price outside of the model, such as a price per night, do not
    change with it: make them within the model, by a formula or a transform.

    >>> import setwise as sw
    >>> trips = sw.datasets.load("modecanada").sample(400)
    >>> found = prices(sw.MNL().fit(trips), trips[:3], "cost")
    >>> bool((found.earned_after >= found.earned_before).all())
    True
    """
    begun = time.perf_counter()
    row_model(model)
    candidates = Candidates.read(model, items, 0.0)
    low, high, now, free = _ranges(candidates, price, bounds, which, ladder)
    costs = numbers_of(candidates.data, candidates.choices, "cost", cost)
    work = Pricing(without_engine(model), candidates.choices, price, costs)
    every = np.arange(len(candidates))
    smooth = bool(getattr(model, "differentiable", False)) and ladder is None
    if method == "gradients" and not smooth:
        raise InputError(
            "method='gradients' needs a model with derivatives (such as a fitted MNL or SDA) and "
            "no ladder; use method='search'"
        )
    rungs = None if ladder is None else np.unique(np.asarray(ladder, np.float64))
    rng = np.random.default_rng(seed)
    found = _by_grid(work, low, high, now, free, rungs, rng)
    by_gradients = smooth and method != "search"
    if by_gradients:
        found = _by_gradients(work, low, high, found, free)
    before, after = work.earned(every, now), work.earned(every, found)
    p, _ = work.probabilities(every, found)
    width = 1e-6 * np.maximum(high - low, 1e-12)
    at_bound = free & (high > low) & ((found <= low + width) | (found >= high - width))
    return Prices(
        candidates.choices.roles.set, candidates.choices.set_ids, candidates.encoded.offsets,
        candidates.choices.rows, now, found, p, before, after, at_bound,
        GRADIENTS if by_gradients else GRID_SEARCH, work.scored, time.perf_counter() - begun,
    )  # fmt: skip


def repriced(choices: Choices, column: str, price: Float[np.ndarray, " rows"]) -> Choices:
    """The same sets at other prices; what was chosen is no longer known."""
    columns = {**choices.columns, column: Column(price)}
    return replace(choices, columns=columns, chosen=None, fold=None)


def rows_of_sets(choices: Choices, sets: Int[np.ndarray, " k"]) -> Int[np.ndarray, " rows"]:
    """The rows of these sets, one set after the other."""
    sizes = choices.sizes[sets]
    starts = np.repeat(choices.offsets[sets] - _segments.offsets_of(sizes)[:-1], sizes)
    return starts + np.arange(int(sizes.sum()))


def present_prices(choices: Choices, column: str) -> Float[np.ndarray, " rows"]:
    """The price of every row, or an error that says why there is none."""
    numbers = [name for name, one in choices.columns.items() if one.kind == "number"]
    if column not in numbers:
        raise InputError(
            f"the model has no number column '{column}' among its items to change; it has: "
            f"{', '.join(numbers) or 'none'}",
            column=column,
        )
    found = choices.columns[column].values.astype(np.float64)
    if np.isnan(found).any():
        row = int(choices.rows[np.argmax(np.isnan(found))])
        raise InputError(f"column '{column}' is missing at row {row}; fill it in", row=row)
    return found


def _ranges(
    candidates: Candidates, price: str, bounds: Any, which: Any, ladder: Any
) -> tuple[
    Float[np.ndarray, " rows"], Float[np.ndarray, " rows"], Float[np.ndarray, " rows"],
    Bool[np.ndarray, " rows"],
]:  # fmt: skip
    """Of every row the lowest and highest price, the present one, and whether it may change."""
    now = present_prices(candidates.choices, price)
    free = np.ones(len(now), bool) if which is None else candidates.flags("which", which)
    if bounds is None:
        low, high = now - NEAR * np.abs(now), now + NEAR * np.abs(now)
        if ladder is not None:
            low, high = np.full(len(now), -np.inf), np.full(len(now), np.inf)
    elif not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InputError("bounds= must be two: the lowest and the highest price, or their columns")
    else:
        low, high = (
            numbers_of(candidates.data, candidates.choices, "bounds", one) for one in bounds
        )
    bad = free & (low > high)
    if bad.any():
        row = int(candidates.choices.rows[np.argmax(bad)])
        raise InputError(f"bounds= has its lowest price above the highest at row {row}", row=row)
    if ladder is not None:
        rungs = np.asarray(ladder, np.float64)
        inside = (rungs >= low[:, None]) & (rungs <= high[:, None])
        if (free & ~inside.any(1)).any():
            row = int(candidates.choices.rows[np.argmax(free & ~inside.any(1))])
            raise InputError(
                f"no price of the ladder is within the bounds at row {row}; widen the bounds",
                row=row,
            )
        low = np.maximum(low, rungs.min())
        high = np.minimum(high, rungs.max())
    return low, high, now, free


def _by_grid(
    work: Pricing,
    low: Float[np.ndarray, " rows"],
    high: Float[np.ndarray, " rows"],
    now: Float[np.ndarray, " rows"],
    free: Bool[np.ndarray, " rows"],
    ladder: Float[np.ndarray, " rungs"] | None,
    rng: np.random.Generator,
) -> Float[np.ndarray, " rows"]:
    """Price the items of each set in turn, all others fixed, until no price moves."""
    price = np.where(free, np.clip(now, low, high), now)
    if ladder is not None:
        inside = (ladder >= low[:, None]) & (ladder <= high[:, None])
        far = np.where(inside, np.abs(ladder - price[:, None]), np.inf)
        price = np.where(free, ladder[np.argmin(far, 1)], price)
    offsets = work.choices.offsets
    for zoom in range(1 if ladder is not None else ZOOMS):
        width = (high - low) * 0.25**zoom
        moving = np.ones(len(offsets) - 1, bool)
        for _ in range(ROUNDS):
            moved = np.zeros(len(moving), bool)
            for place in rng.permutation(int(work.choices.sizes.max())).tolist():
                sets = np.flatnonzero(moving & (work.choices.sizes > place))
                sets = sets[free[offsets[sets] + place]]
                if not len(sets):
                    continue
                rows = offsets[sets] + place
                if ladder is None:
                    last = high[rows] - width[rows]
                    least = np.clip(price[rows] - width[rows] / 2, low[rows], last)
                    tried = np.linspace(least, least + width[rows], GRID, axis=1)
                else:
                    tried = np.tile(ladder, (len(sets), 1))
                    inside = (tried >= low[rows, None]) & (tried <= high[rows, None])
                    tried = np.where(inside, tried, price[rows, None])
                found, better = _best_of(work, sets, rows, tried, price)
                price[rows[better]] = found[better]
                moved[sets[better]] = True
            moving = moved
            if not moving.any():
                break
    return price


def _best_of(
    work: Pricing,
    sets: Int[np.ndarray, " k"],
    rows: Int[np.ndarray, " k"],
    tried: Float[np.ndarray, "k g"],
    price: Float[np.ndarray, " rows"],
) -> tuple[Float[np.ndarray, " k"], Bool[np.ndarray, " k"]]:
    """The best of these prices of one item per set, and where it beats the present one."""
    tried = np.column_stack([price[rows], tried])
    k, g = tried.shape
    many = np.repeat(sets, g)
    every = price[rows_of_sets(work.choices, many)]
    starts = _segments.offsets_of(work.choices.sizes[many])[:-1]
    every[starts + np.repeat(rows - work.choices.offsets[sets], g)] = tried.ravel()
    earned = work.earned(many, every).reshape(k, g)
    best = np.argmax(earned, 1)
    top = earned[np.arange(k), best]
    return tried[np.arange(k), best], top > earned[:, 0] + BETTER * np.abs(earned[:, 0])


def _by_gradients(
    work: Pricing,
    low: Float[np.ndarray, " rows"],
    high: Float[np.ndarray, " rows"],
    start: Float[np.ndarray, " rows"],
    free: Bool[np.ndarray, " rows"],
) -> Float[np.ndarray, " rows"]:
    """Climb from here, all prices of a set together, by quotients of central differences."""
    from scipy.optimize import minimize

    found = start.copy()
    offsets = work.choices.offsets
    for one in range(len(offsets) - 1):
        rows = np.arange(offsets[one], offsets[one + 1])
        rows = rows[free[rows] & (high[rows] > low[rows])]
        if not len(rows):
            continue
        step = SLOPE * (high[rows] - low[rows])
        base = found[offsets[one] : offsets[one + 1]].copy()
        at = rows - offsets[one]
        sets = np.full(2 * len(rows) + 1, one)
        unit = max(abs(float(work.earned(sets[:1], base)[0])), 1e-12)

        def loss(
            x: Float[np.ndarray, " k"], base: Any = base, at: Any = at, step: Any = step,
            sets: Any = sets, rows: Any = rows, unit: float = unit,
        ) -> tuple[float, Float[np.ndarray, " k"]]:  # fmt: skip
            whole = base.copy()
            whole[at] = low[rows] + x * (high[rows] - low[rows])
            many = np.tile(whole, (len(sets), 1))
            k = np.arange(len(at))
            many[1 + k, at] += step
            many[1 + len(at) + k, at] -= step
            earned = work.earned(sets, many.ravel()) / unit
            slope = (earned[1 : len(at) + 1] - earned[len(at) + 1 :]) / (2 * SLOPE)
            return -float(earned[0]), -slope

        begin = (base[at] - low[rows]) / (high[rows] - low[rows])
        ended = minimize(loss, begin, jac=True, bounds=[(0.0, 1.0)] * len(at), method="L-BFGS-B")
        if ended.fun < loss(begin)[0]:
            found[rows] = low[rows] + np.clip(ended.x, 0, 1) * (high[rows] - low[rows])
    return found

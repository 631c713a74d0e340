"""What one item's price does to what its set earns, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._arguments import checked, each, number, optional, seed, text, whole
from setwise._page import notebook_html
from setwise._shapes import Float
from setwise.decide.assortment import row_model
from setwise.decide.candidates import Candidates, numbers_of
from setwise.decide.prices import NEAR, Pricing, present_prices, repriced
from setwise.decide.result_tables import cell, table_text
from setwise.decide.set_values import without_engine
from setwise.decide.sureness import opinions


@dataclass(frozen=True, eq=False)
class PriceCurve:
    """What sets earn, and how often an item is chosen, as its price moves."""

    price: Float[np.ndarray, " points"]
    earned: Float[np.ndarray, " points"]
    """Per set, on average."""
    demand: Float[np.ndarray, " points"]
    """The probability that the item, or one of them, is chosen."""
    spread: Float[np.ndarray, " points"] | None
    """Of what is earned: the standard deviation over ``opinions``."""
    opinions: str
    """What the spread is over, such as "100 draws of the estimates"; "" if there are none."""
    relative: bool
    """Whether prices are factors of the present ones."""

    def to_frame(self) -> Any:
        """A Polars frame: price, earned, spread, demand."""
        import polars as pl

        columns = {"factor" if self.relative else "price": self.price, "earned": self.earned}
        if self.spread is not None:
            columns["spread"] = self.spread
        return pl.DataFrame(columns | {"demand": self.demand})

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        rows = [[cell(one) for one in row] for row in frame.rows()]
        return notebook_html(frame.columns, rows, note=self._note())

    def __str__(self) -> str:
        return f"{table_text(self.to_frame())}\n{self._note()}"

    def _note(self) -> str:
        best = self.to_frame().columns[0]
        top = f"most is earned at {best} {self.price[int(np.argmax(self.earned))]:.6g}"
        if self.spread is None:
            return f"{top}; how sure that is, this model does not say"
        return f"{top}; spread: one standard deviation over {self.opinions}"


@checked(price=text, points=whole(2), factors=optional(each(number())), seed=seed)
def price_curve(
    model: Any,
    items: Any,
    which: Any,
    price: str = "price",
    *,
    at: Sequence[float | int] | None = None,
    factors: Sequence[float | int] | None = None,
    cost: Any = 0.0,
    points: int = 9,
    seed: int = 0,
) -> PriceCurve:
    """What the sets earn as the price of one item, or of several, moves: with how sure that is.

    Args:
        model: a fitted estimator, or a :class:`setwise.scoring.Scorer`, which does not say how
            sure it is.
        items: a table with the sets as they are shown, or choices.
        which: the items whose price moves: a 0/1 column, flags, or values of columns.
        price: the column of prices.
        at: prices to try. By default factors of the present ones are tried.
        factors: factors to try; by default from 0.8 to 1.2.
        cost: what an item costs those who sell it: a column or numbers.
        points: how many factors are tried where none are given.
        seed: of the draws of the estimates.

    >>> import setwise as sw
    >>> trips = sw.datasets.load("modecanada").sample(400)
    >>> curve = price_curve(sw.MNL().fit(trips), trips[:20], {"is_air": 1}, "cost", points=3)
    >>> curve.opinions, bool(curve.demand[0] > curve.demand[2])
    ('100 draws of the estimates', True)
    """
    row_model(model)
    candidates = Candidates.read(model, items, 0.0)
    choices = candidates.choices
    now = present_prices(choices, price)
    moves = candidates.flags("which", which)
    costs = numbers_of(candidates.data, choices, "cost", cost)
    relative = at is None
    if at is None:
        tried = np.asarray(factors or np.linspace(1 - NEAR, 1 + NEAR, points), np.float64)
        each_price = [np.where(moves, now * one, now) for one in tried]
    else:
        tried = np.asarray(at, np.float64)
        each_price = [np.where(moves, one, now) for one in tried]
    work = Pricing(without_engine(model), choices, price, costs)
    every, sets = np.arange(len(choices)), len(choices)
    earned, demand = np.empty(len(tried)), np.empty(len(tried))
    for place, one in enumerate(each_price):
        p, _ = work.probabilities(every, one)
        earned[place] = float(p @ (one - costs)) / sets
        demand[place] = float(p[moves].sum()) / sets
    known = opinions(model, [repriced(choices, price, one) for one in each_price], seed)
    if known is None:
        return PriceCurve(tried, earned, demand, None, "", relative)
    all_earned = np.stack(
        [p @ (one - costs) / sets for p, one in zip(known.probability, each_price, strict=True)], 1
    )
    return PriceCurve(tried, earned, demand, known.spread(all_earned), known.of, relative)

"""Expedia's hotels and competitors as they might be: what the generated searches refer to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Shaped

from setwise.datasets.raw.drawing import drawn_from, popular, stream

TOWN = 64
"""Hotels a town: a search shows up to 38 of them. A power of two, for :func:`different`."""
STARS = {3: 0.402, 4: 0.296, 2: 0.197, 5: 0.072, 0: 0.031, 1: 0.003}
REVIEWS = {
    8: 0.312, 9: 0.31, 7: 0.159, 6: 0.08, 10: 0.045, 0: 0.043, 5: 0.031, 4: 0.013, 3: 0.003,
    2: 0.003, -1: 0.0015,
}  # fmt: skip
COUNTRIES = {219: 0.61, 100: 0.09, 55: 0.05, 216: 0.035, 220: 0.034, 129: 0.028, 31: 0.018}
RARE_COUNTRIES = 170
# Of each competitor: the share of rows with a rate, the share of rates with a difference.
COMPETITORS = (
    (0.024, 0.80), (0.43, 0.27), (0.33, 0.30), (0.051, 0.43),
    (0.467, 0.38), (0.047, 0.40), (0.058, 0.44), (0.415, 0.32),
)  # fmt: skip
RATES = np.array([-1, 0, 0, 0, 0, 0, 0, 1], np.int8)
AVAILABLE = np.array([0] * 18 + [1, -1], np.int8)


@dataclass(frozen=True, eq=False)
class Hotels:
    """Hotels, those of a town side by side; NaN and negative values stand for what is missing."""

    ids: Int[np.ndarray, " hotels"]
    country: Int[np.ndarray, " hotels"]
    stars: Int[np.ndarray, " hotels"]
    review: Float64[np.ndarray, " hotels"]
    brand: Int[np.ndarray, " hotels"]
    location1: Float64[np.ndarray, " hotels"]
    location2: Float64[np.ndarray, " hotels"]
    log_price: Float64[np.ndarray, " hotels"]
    historical: Float64[np.ndarray, " hotels"]
    appeal: Float64[np.ndarray, " hotels"]

    @property
    def towns(self) -> int:
        """How many towns there are."""
        return len(self.ids) // TOWN


def draw_hotels(seed: int, towns: int) -> Hotels:
    """Hotels of towns, each with a price level; more stars cost more."""
    rng = stream(seed, "hotels")
    size = towns * TOWN
    town = np.repeat(np.arange(towns), TOWN)
    stars = drawn_from(rng, STARS, size)
    level = rng.normal(4.75, 0.48, towns)[town]
    log_price = level + 0.22 * (stars - 3.1) + rng.normal(0, 0.27, size)
    location1 = (rng.normal(2.8, 1.4, towns)[town] + rng.normal(0, 0.6, size)).clip(0, 6.98)
    location2 = rng.beta(0.5, 3.2, size).round(4)
    historical = (log_price + rng.normal(0, 0.25, size)).clip(0, 6.21).round(2)
    return Hotels(
        ids=rng.permutation(size + size // 11)[:size] + 1,
        country=draw_countries(rng, towns)[town],
        stars=stars,
        review=drawn_from(rng, REVIEWS, size) / 2,
        brand=(rng.random(size) < 0.65).astype(np.int64),
        location1=location1.round(2),
        location2=np.where(rng.random(size) < 0.21, np.nan, location2),
        log_price=log_price,
        historical=np.where(rng.random(size) < 0.2, 0.0, historical),
        appeal=rng.normal(0, 0.5, size),
    )


def draw_countries(rng: np.random.Generator, size: int) -> Int[np.ndarray, " size"]:
    """Country ids: a few common ones, and a tail."""
    common = drawn_from(rng, COUNTRIES | {0: 1 - sum(COUNTRIES.values())}, size)
    return np.where(common > 0, common, 1 + popular(rng, size, RARE_COUNTRIES))


def different(
    rng: np.random.Generator, nth: Int[np.ndarray, " rows"], owner: Int[np.ndarray, " rows"]
) -> Int[np.ndarray, " rows"]:
    """Different places in a town for the n-th hotels of a search.

    A walk around the town from a random place with an odd stride meets all 64 before it returns.
    """
    searches = int(owner[-1]) + 1
    first = rng.integers(TOWN, size=searches)
    stride = 2 * rng.integers(TOWN // 2, size=searches) + 1
    return (first[owner] + stride[owner] * nth) % TOWN


def prices(
    rng: np.random.Generator, log_price: Float64[np.ndarray, " rows"]
) -> Float64[np.ndarray, " rows"]:
    """Prices around those of the hotels, in cents or whole; one in a thousand is absurd."""
    size = len(log_price)
    noise = rng.normal(0, 0.12, size)
    absurd = rng.random(size) < 0.001
    noise[absurd] += rng.normal(4.5, 2.0, int(absurd.sum()))
    tiny = rng.random(size) < 0.0003
    noise[tiny] -= rng.uniform(3, 6, int(tiny.sum()))
    price = np.exp(log_price + noise)
    return np.where(rng.random(size) < 0.6, price.round(0), price.round(2)).clip(0.01, 2e7)


def competitor_columns(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    """comp1_rate to comp8_rate_percent_diff: mostly missing, with a few absurd differences."""
    columns: dict[str, Any] = {}
    for number, (known, differing) in enumerate(COMPETITORS, start=1):
        luck = rng.random(rows, np.float32)
        percent = np.exp(rng.normal(2.4, 0.75, rows)).clip(2, None)
        absurd = rng.random(rows, np.float32) < 0.002
        percent[absurd] *= np.exp(rng.uniform(2, 9, int(absurd.sum())))
        columns[f"comp{number}_rate"] = where(luck < known, RATES[rng.integers(8, size=rows)])
        columns[f"comp{number}_inv"] = where(
            luck < 1.06 * known, AVAILABLE[rng.integers(20, size=rows)]
        )
        columns[f"comp{number}_rate_percent_diff"] = where(
            luck < known * differing, percent.astype(np.int32)
        )
    return columns


def where(present: Bool[np.ndarray, " rows"], values: Shaped[np.ndarray, " rows"]) -> Any:
    """A Polars series with the values where they are present, and else nothing."""
    import polars as pl

    return pl.select(pl.when(pl.Series(present)).then(pl.Series(values))).to_series()


def known(values: Float[np.ndarray, " rows"]) -> Any:
    """A Polars series in which what is not a number is missing."""
    return where(~np.isnan(values), values)

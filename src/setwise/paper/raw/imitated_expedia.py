"""The raw file of the Expedia personalised-sort competition of 2013, generated.

A search shows 5 to 38 hotels of one town; the traveller clicks one or several and may book the
first one clicked. At 399,344 sets the number of hotels is that of the real file; it shrinks with
the number of sets. Memory holds the hotels and one chunk of searches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Shaped

from setwise import _segments
from setwise.paper.raw.drawing import (
    FORMULA,
    DrawnSets,
    Expectation,
    Imitation,
    OnSets,
    chunks,
    context_scores,
    csv_file,
    drawn_from,
    pick,
    popular,
    stream,
)

TOWN = 64
"""Hotels per town: a search shows up to 38 of them. A power of two, for :func:`different`."""
STARS = {3: 0.402, 4: 0.296, 2: 0.197, 5: 0.072, 0: 0.031, 1: 0.003}
REVIEWS = {
    8: 0.312, 9: 0.31, 7: 0.159, 6: 0.08, 10: 0.045, 0: 0.043, 5: 0.031, 4: 0.013, 3: 0.003,
    2: 0.003, -1: 0.0015,
}  # fmt: skip
COUNTRIES = {219: 0.61, 100: 0.09, 55: 0.05, 216: 0.035, 220: 0.034, 129: 0.028, 31: 0.018}
RARE_COUNTRIES = 170
# Per competitor: the share of rows with a rate, the share of rates with a difference.
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


FILE = "train.csv"
FULL_SETS, FULL_TOWNS, LEAST_TOWNS = 399_344, 2_016, 8
SETS_PER_CHUNK = 10_000
SEARCH_SIZES = (
    dict.fromkeys(range(5, 26), 0.019)
    | {26: 0.02, 27: 0.028, 28: 0.027, 29: 0.027, 30: 0.042, 31: 0.083, 32: 0.123, 33: 0.106}
    | {34: 0.109, 35: 0.03, 36: 0.004, 37: 0.0015, 38: 0.0005}
)
CLICKS = {1: 0.936, 2: 0.045, 3: 0.011, 4: 0.004, 5: 0.002, 6: 0.002}
SHOWN_AT_RANDOM, BOOKED, BOOKED_AT_RANDOM = 0.3, 0.9, 0.2
SITES = {5: 0.65, 14: 0.093, 15: 0.051, 24: 0.04, 32: 0.034, 18: 0.029, 16: 0.018, 12: 0.015}
SITES |= dict.fromkeys((1, 2, 3, 7, 9, 10, 11, 13, 19, 20, 22, 25, 28, 31), 0.005)
NIGHTS = {1: 0.433, 2: 0.245, 3: 0.154, 4: 0.074, 5: 0.037, 6: 0.019, 7: 0.022, 10: 0.01, 14: 0.006}
ADULTS = {2: 0.641, 1: 0.242, 3: 0.052, 4: 0.048, 5: 0.006, 6: 0.006, 8: 0.003, 9: 0.002}
CHILDREN = {0: 0.771, 1: 0.138, 2: 0.077, 3: 0.01, 4: 0.003, 5: 0.001}
ROOMS = {1: 0.918, 2: 0.066, 3: 0.012, 4: 0.002, 5: 0.001, 8: 0.001}
FIRST_SECOND, SECONDS = np.datetime64("2012-11-01", "s"), 242 * 86_400
WEIGHTS = {
    "cheapness": 0.2, "stars": 0.1, "review": 0.1, "location": 0.2, "promotion": 0.4, "appeal": 0.2,
}  # fmt: skip
DESCRIPTION = (
    f"{FORMULA}; f: cheapness (-2.5 log price_usd, in 10 to 1000), stars (prop_starrating), review "
    "(prop_review_score, 0 where missing), location (4 sqrt(prop_location_score2), 0 where "
    "missing), promotion (promotion_flag), appeal (a number of each property, in the parameters). "
    "The first click is such a choice, and the one that may be booked; more clicks follow in turn"
)


def _write(
    folder: Path,
    sets: int,
    seed: int,
    expectation: Expectation,
    on_sets: OnSets | None,
    zipped: bool = False,
) -> Mapping[str, Any]:
    """``train.csv``, or ``train.csv.zip``.

    About 94 % of the searches have one click and the others up to six; 69 % have a booking.
    The expectations are over the searches with exactly one click; bookings are drawn from the same
    model.
    """
    hotels = draw_hotels(seed, max(LEAST_TOWNS, round(FULL_TOWNS * sets / FULL_SETS)))
    with csv_file(folder, FILE, zipped, missing="NULL") as write:
        for chunk, first, end in chunks(sets, SETS_PER_CHUNK, on_sets):
            write(_rows(stream(seed, FILE, chunk), np.arange(first, end), hotels, expectation))
    return {"prop_id": hotels.ids, "appeal": hotels.appeal}


expedia = Imitation("Expedia personalised sort", (FILE,), DESCRIPTION, WEIGHTS, _write)


def _rows(
    rng: np.random.Generator,
    number: Int[np.ndarray, " sets"],
    hotels: Hotels,
    expectation: Expectation,
) -> Any:
    """The rows of the searches of these numbers, in the order of the file's columns."""
    import polars as pl

    sets = DrawnSets(drawn_from(rng, SEARCH_SIZES, len(number)))
    town = popular(rng, len(number), hotels.towns)
    search = _searches(rng, number, town)
    hotel = sets.spread(town) * TOWN + different(rng, _segments.positions(sets.offsets), sets.owner)
    shown = {
        "price_usd": prices(rng, hotels.log_price[hotel]),
        "promotion_flag": (rng.random(sets.rows) < 0.216).astype(np.int64),
    }
    scores = context_scores(_features(hotels, hotel, shown), WEIGHTS, sets)
    outcome = _outcomes(rng, scores, sets, search["random_bool"], expectation)
    nights = sets.spread(search["srch_length_of_stay"] * search["srch_room_count"])
    columns = (
        {name: _spread(values, sets) for name, values in search.items()}
        | _hotel_columns(hotels, hotel)
        | shown
        | {"position": _positions(rng, sets)}
        | _distances(rng, sets)
        | competitor_columns(rng, sets.rows)
        | {name: chosen.astype(np.int8) for name, chosen in outcome.items()}
        | {"gross_bookings_usd": _paid(rng, outcome["booking_bool"], shown["price_usd"] * nights)}
    )
    return pl.DataFrame(columns).select(COLUMNS)


def _searches(
    rng: np.random.Generator, number: Int[np.ndarray, " sets"], town: Int[np.ndarray, " sets"]
) -> dict[str, Any]:
    """What is the same in all rows of a search."""
    import polars as pl

    size = len(number)
    when = FIRST_SECOND + rng.integers(SECONDS, size=size).astype("timedelta64[s]")
    frequent = rng.random(size) < 0.045
    stars, paid = rng.normal(3.4, 0.55, size).clip(1.4, 5), rng.lognormal(5.05, 0.5, size)
    return {
        # Steps of 5/3 on average: the competition kept two of five searches for its test.
        "srch_id": ((number + 0.4 * rng.random(size)) * 5 / 3).astype(np.int64) + 1,
        "date_time": pl.Series(when.astype("datetime64[ms]")).dt.strftime("%Y-%m-%d %H:%M:%S"),
        "site_id": drawn_from(rng, SITES, size),
        "visitor_location_country_id": draw_countries(rng, size),
        "visitor_hist_starrating": where(frequent, stars.round(2)),
        "visitor_hist_adr_usd": where(frequent, paid.round(2)),
        "srch_destination_id": 1 + 10 * town + popular(rng, size, 10),
        "srch_length_of_stay": drawn_from(rng, NIGHTS, size),
        "srch_booking_window": np.expm1(5.9 * rng.beta(1.6, 1.85, size)).astype(np.int64),
        "srch_adults_count": drawn_from(rng, ADULTS, size),
        "srch_children_count": drawn_from(rng, CHILDREN, size),
        "srch_room_count": drawn_from(rng, ROOMS, size),
        "srch_saturday_night_bool": (rng.random(size) < 0.51).astype(np.int64),
        "random_bool": (rng.random(size) < SHOWN_AT_RANDOM).astype(np.int64),
    }


def _hotel_columns(hotels: Hotels, hotel: Int[np.ndarray, " rows"]) -> dict[str, Any]:
    review = hotels.review[hotel]
    return {
        "prop_country_id": hotels.country[hotel],
        "prop_id": hotels.ids[hotel],
        "prop_starrating": hotels.stars[hotel],
        "prop_review_score": where(review >= 0, review),
        "prop_brand_bool": hotels.brand[hotel],
        "prop_location_score1": hotels.location1[hotel],
        "prop_location_score2": known(hotels.location2[hotel]),
        "prop_log_historical_price": hotels.historical[hotel],
    }


def _features(
    hotels: Hotels, hotel: Int[np.ndarray, " rows"], shown: Mapping[str, np.ndarray]
) -> dict[str, Float64[np.ndarray, " rows"]]:
    """f of the model, from what is written."""
    return {
        "cheapness": -2.5 * np.log(shown["price_usd"].clip(10, 1000)),
        "stars": hotels.stars[hotel].astype(np.float64),
        "review": hotels.review[hotel].clip(0, None),
        "location": 4 * np.sqrt(np.nan_to_num(hotels.location2[hotel])),
        "promotion": shown["promotion_flag"].astype(np.float64),
        "appeal": hotels.appeal[hotel],
    }


def _outcomes(
    rng: np.random.Generator,
    scores: Float64[np.ndarray, " rows"],
    sets: DrawnSets,
    random: Int[np.ndarray, " sets"],
    expectation: Expectation,
) -> dict[str, Bool[np.ndarray, " rows"]]:
    """Clicks from the model, and the booking of the first; fewer where the order was random."""
    clicks = drawn_from(rng, CLICKS, len(sets.sizes))
    books = rng.random(len(sets.sizes)) < np.where(random == 1, BOOKED_AT_RANDOM, BOOKED)
    first = pick(rng, scores, sets, np.ones_like(clicks))
    others = pick(rng, np.where(first, -np.inf, scores), sets, clicks - 1)
    expectation.add(scores, sets, clicks == 1)
    return {"click_bool": first | others, "booking_bool": first & sets.spread(books)}


def _distances(rng: np.random.Generator, sets: DrawnSets) -> dict[str, Any]:
    """How far the hotels are, and how likely searches lead to them: known for some searches."""
    searches = len(sets.sizes)
    far = sets.spread(rng.lognormal(6, 1.9, searches).clip(1, 11_000))
    distance = (far * rng.normal(1, 0.01, sets.rows) + rng.uniform(0, 5, sets.rows)).round(2)
    affinity = (-3.3 - rng.lognormal(2.9, 0.75, sets.rows)).round(4)
    return {
        "orig_destination_distance": where(sets.spread(rng.random(searches) < 0.685), distance),
        "srch_query_affinity_score": where(sets.spread(rng.random(searches) < 0.066), affinity),
    }


def _paid(
    rng: np.random.Generator,
    booked: Bool[np.ndarray, " rows"],
    cost: Float64[np.ndarray, " rows"],
) -> Any:
    """The amount with taxes, where booked and known."""
    known_amount = booked & (rng.random(len(booked)) < 0.88)
    return where(known_amount, (cost * rng.normal(1.15, 0.05, len(cost))).round(2))


def _positions(rng: np.random.Generator, sets: DrawnSets) -> Int[np.ndarray, " rows"]:
    """1 to n in random order within each search."""
    order = np.lexsort((rng.random(sets.rows), sets.owner))
    positions = np.empty(sets.rows, np.int64)
    positions[order] = _segments.positions(sets.offsets) + 1
    return positions


def _spread(values: Any, sets: DrawnSets) -> Any:
    """A column of the searches, for their rows."""
    return sets.spread(values) if isinstance(values, np.ndarray) else values.gather(sets.owner)


COLUMNS = [
    "srch_id", "date_time", "site_id", "visitor_location_country_id", "visitor_hist_starrating",
    "visitor_hist_adr_usd", "prop_country_id", "prop_id", "prop_starrating", "prop_review_score",
    "prop_brand_bool", "prop_location_score1", "prop_location_score2",
    "prop_log_historical_price", "position", "price_usd", "promotion_flag",
    "srch_destination_id", "srch_length_of_stay", "srch_booking_window", "srch_adults_count",
    "srch_children_count", "srch_room_count", "srch_saturday_night_bool",
    "srch_query_affinity_score", "orig_destination_distance", "random_bool",
    *(f"comp{number}_{what}" for number in range(1, 9)
      for what in ("rate", "inv", "rate_percent_diff")),
    "click_bool", "gross_bookings_usd", "booking_bool",
]  # fmt: skip

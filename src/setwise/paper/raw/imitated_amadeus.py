"""A table of flight itineraries with the columns of Amadeus' searches, generated.

A search shows 1 to 50 return itineraries by increasing price, of which one is booked. The table
of the paper has 34 thousand searches; it is made in memory, with about 90 bytes per row.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from setwise import _segments
from setwise._files import whole_file
from setwise.paper.raw.drawing import (
    FORMULA,
    DrawnSets,
    Expectation,
    Imitation,
    OnSets,
    chunks,
    context_scores,
    drawn_from,
    pick,
    popular,
    stream,
)

FILE = "amadeus_itinerary.parquet"
SETS_PER_CHUNK = 10_000
SEARCH_SIZES = dict.fromkeys(range(1, 50), 0.69 / 49) | {50: 0.31}
ORIGINS, DESTINATIONS = 16, 28
AIRLINES = {number: number**-1.5 for number in range(1, 21)}  # of low cost, and as many others
OFFICES = {5: 0.64, 7: 0.15, 10: 0.1, 11: 0.05, 8: 0.03, 2: 0.015, 6: 0.01, 9: 0.005}
WEEKDAYS = {2: 0.21, 3: 0.19, 1: 0.18, 4: 0.17, 0: 0.13, 5: 0.07, 6: 0.05}
HAULS = {0: 0.61, 1: 0.33, 2: 0.06}  # neither, domestic, continental
TRANSFERS = {1: 0.66, 2: 0.335, 3: 0.005}
MOST_FLIGHTS = 5
WEIGHTS = {"cheapness": 0.35, "speed": 0.3, "directness": 0.4, "low_cost": -0.3}
DESCRIPTION = (
    f"{FORMULA}; f: cheapness (-6 log totalPrice), speed (-2 log totalTripDurationMinutes), "
    "directness (2 - nFlights), low_cost (containsLCC)"
)


def _write(
    folder: Path, sets: int, seed: int, expectation: Expectation, on_sets: OnSets | None
) -> Mapping[str, Any]:
    """``amadeus_itinerary.parquet``; each search has exactly one booking."""
    import polars as pl

    parts = [
        _rows(stream(seed, FILE, chunk), np.arange(first, end), expectation)
        for chunk, first, end in chunks(sets, SETS_PER_CHUNK, on_sets)
    ]
    with whole_file(folder / FILE) as part:
        pl.concat(parts).write_parquet(part)
    return {}


amadeus = Imitation("Amadeus itineraries", (FILE,), DESCRIPTION, WEIGHTS, _write)


def _rows(
    rng: np.random.Generator, number: Int[np.ndarray, " sets"], expectation: Expectation
) -> Any:
    """The rows of the searches of these numbers, in the order of the table's columns."""
    import polars as pl
    import polars.selectors as cs

    sets = DrawnSets(drawn_from(rng, SEARCH_SIZES, len(number)))
    search = _searches(rng, number)
    columns = {name: sets.spread(values) for name, values in search.items()}
    columns |= _flights(rng, columns)
    price = _prices(rng, sets, columns)
    by_price = np.lexsort((price, sets.owner))
    columns = {name: values[by_price] for name, values in columns.items()}
    columns |= {
        "alt": _segments.positions(sets.offsets) + 1,
        "totalPrice": price[by_price],
    }
    scores = context_scores(_features(columns), WEIGHTS, sets)
    one = np.ones_like(number)
    columns["chosen"] = pick(rng, scores, sets, one)
    expectation.add(scores, sets, one == 1)
    table = pl.DataFrame(columns | {"airlines": _airlines(columns)}).with_columns(
        pl.format(letters + "{}", pl.col(name)).alias(name) for name, letters in PREFIXES.items()
    )
    return table.select(COLUMNS).cast({cs.numeric() | cs.boolean(): pl.Int32})


PREFIXES = {"origin": "O", "destination": "D", "pointOfSale": "POS"}
COLUMNS = [
    "set_id", "alt", "chosen", "staySaturday", "stayDurationMinutes", "totalPrice",
    "totalTripDurationMinutes", "dtd", "nAirlines", "nFlights", "isContinental", "isDomestic",
    "outDepTime", "outArrTime", "origin", "destination", "airlines", "depWeekDay", "containsLCC",
    "pointOfSale",
]  # fmt: skip


def _searches(rng: np.random.Generator, number: Int[np.ndarray, " sets"]) -> dict[str, np.ndarray]:
    """What is the same in all rows of a search, and the least duration and price level of it."""
    size = len(number)
    haul = drawn_from(rng, HAULS, size)
    stay = rng.lognormal(7.4, 1.2, size).clip(90, 118_000)
    level = 10.55 + 0.45 * (haul == 2) + rng.normal(0, 0.55, size)
    return {
        "set_id": number,
        "isDomestic": haul == 1,
        "isContinental": haul == 2,
        "origin": 1 + popular(rng, size, ORIGINS),
        "destination": 1 + popular(rng, size, DESTINATIONS),
        "pointOfSale": drawn_from(rng, OFFICES, size),
        "depWeekDay": drawn_from(rng, WEEKDAYS, size),
        "staySaturday": rng.random(size) < stay.clip(0, 10_080) / 10_080,
        "days": np.expm1(5.6 * rng.beta(1.3, 1.4, size)).astype(np.int64),
        "stay": stay,
        "least": (103 + rng.gamma(2.0, 28, size)) * np.where(haul == 2, 3.0, 1.0),
        "level": level,
        "transfers_likely": rng.beta(0.6, 1.0, size),
        "low_cost_likely": rng.beta(0.7, 1.2, size),
    }


def _flights(rng: np.random.Generator, search: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What differs between the itineraries of a search, its price excepted."""
    size = len(search["set_id"])
    likely = rng.random(size) < search["transfers_likely"]
    transfers = np.where(likely, drawn_from(rng, TRANSFERS, size), 0)
    waiting = transfers * rng.gamma(2.0, 110, size)
    low_cost = rng.random(size) < search["low_cost_likely"]
    first = 2 * drawn_from(rng, AIRLINES, size) - low_cost
    other = 2 * drawn_from(rng, AIRLINES, size) - low_cost
    other = np.where(rng.random(size) < 0.35, other, first)
    return {
        "nFlights": 2 + transfers,
        "totalTripDurationMinutes": (search["least"] * rng.uniform(1, 1.12, size) + waiting).astype(
            np.int64
        ),
        "stayDurationMinutes": (search["stay"] * rng.normal(1.02, 0.15, size) - 60).astype(
            np.int64
        ),
        "dtd": search["days"] + rng.integers(2, size=size),
        "nAirlines": 1 + (other != first),
        "outDepTime": rng.triangular(17_000, 27_000, 81_000, size).astype(np.int64),
        "outArrTime": rng.triangular(2_000, 68_000, 84_000, size).astype(np.int64),
        "containsLCC": low_cost,
        "first": first,
        "other": other,
    }


def _prices(
    rng: np.random.Generator, sets: DrawnSets, columns: dict[str, np.ndarray]
) -> Int[np.ndarray, " rows"]:
    """Around the level of the search: cheaper with low-cost airlines, a few many times as dear."""
    noise = rng.normal(0, 0.12, sets.rows) + (rng.random(sets.rows) < 0.02) * rng.exponential(
        0.7, sets.rows
    )
    cheaper = 0.1 * columns["containsLCC"] + 0.03 * (columns["nFlights"] - 2)
    return np.exp(columns["level"] + noise - cheaper).clip(9_000, 950_000).astype(np.int64)


def _features(columns: dict[str, np.ndarray]) -> dict[str, Float64[np.ndarray, " rows"]]:
    """f of the model, from what is written."""
    return {
        "cheapness": -6 * np.log(columns["totalPrice"]),
        "speed": -2 * np.log(columns["totalTripDurationMinutes"]),
        "directness": 2.0 - columns["nFlights"],
        "low_cost": columns["containsLCC"].astype(np.float64),
    }


def _airlines(columns: dict[str, np.ndarray]) -> Any:
    """The airline of each flight, such as A5/A5/A7: the other one, if any, flies the last."""
    import polars as pl

    flights = columns["nFlights"]
    pieces = []
    for nth in range(1, MOST_FLIGHTS + 1):
        airline = np.where(nth == flights, columns["other"], columns["first"])
        text = pl.format("A{}", pl.Series(airline))
        pieces.append(pl.when(pl.Series(nth <= flights)).then(text))
    return pl.select(pl.concat_str(pieces, separator="/", ignore_nulls=True)).to_series()

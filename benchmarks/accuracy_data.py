"""Make the data files of ``accuracy.py`` and ``study.py`` from the tables they were measured on.

    python benchmarks/accuracy_data.py TABLES OUT

``TABLES`` is a folder with the public tables as Parquet files, one row per item; which columns are
taken is below. Swissmetro and ModeCanada are shipped with setwise; "swissmetro-context" adds what
is known of the traveller. A table that is not there is left out, with a word.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

import setwise as sw

EXPEDIA = (
    "log(price_usd)", "prop_starrating", "prop_review_score", "prop_brand_bool",
    "prop_location_score1", "prop_location_score2", "prop_log_historical_price", "promotion_flag",
)  # fmt: skip
TABLES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "expedia-clicks": (
        "expedia_full", {"set": "srch_id", "chosen": "click_bool", "items": EXPEDIA},
    ),
    "expedia-bookings": (
        "expedia_full", {"set": "srch_id", "chosen": "booking_bool", "items": EXPEDIA},
    ),
    "wikispeedia": (
        "wikispeedia_unfinished",
        {"items": (
            "dist_to_target", "log_indeg", "log_outdeg", "same_topcat", "same_cat",
            "title_overlap", "visited",
        )},
    ),
    "manyitem": ("many_item_choice", {"items": ("liking", "row", "col"), "group": "subject"}),
    "noguchi": ("context_noguchi2014", {"items": ("x1_z", "x2_z"), "group": "participant"}),
    "amadeus": (
        "amadeus_itinerary",
        {"items": (
            "staySaturday", "stayDurationMinutes", "totalPrice", "totalTripDurationMinutes", "dtd",
            "nAirlines", "nFlights", "outDepTime", "outArrTime", "containsLCC",
        )},
    ),
}  # fmt: skip
SHIPPED = ("swissmetro", "modecanada", "swissmetro-context")
TRAVELLER = ("FIRST", "LUGGAGE", "AGE", "MALE", "INCOME", "GA", "category(PURPOSE)")
MISSING_IS_ZERO = ("prop_review_score", "prop_location_score2", "x1_z", "x2_z")
LEAST_PRICE = 1.0


def mended(table: pl.DataFrame) -> pl.DataFrame:
    """No missing scores, and no price below a dollar: the file has some of 42 cents."""
    zeros = [
        pl.col(name).fill_null(0).fill_nan(0) for name in MISSING_IS_ZERO if name in table.columns
    ]
    prices = [pl.col("price_usd").clip(LEAST_PRICE)] if "price_usd" in table.columns else []
    return table.with_columns(*zeros, *prices)


def choices_of(name: str, tables: Path) -> sw.Choices | None:
    """The choices of a data set; None where its table is absent."""
    if name in SHIPPED:
        shipped, _, context = name.partition("-")
        choices = sw.datasets.load(shipped)
        if not context:
            return choices
        roles = choices.roles
        items = [one.column for one in roles.items]
        told = {"set": roles.set, "chosen": roles.chosen, "group": roles.group}
        return sw.read(sw.datasets.table(shipped), items=items, context=TRAVELLER, **told)
    file, roles = TABLES[name]
    path = tables / f"{file}.parquet"
    if not path.exists():
        print(f"{name}: there is no {path}; left out")
        return None
    roles = {"set": "set_id", "chosen": "chosen", "on_none": "drop", "on_multiple": "drop"} | roles
    return sw.read(mended(pl.read_parquet(path)), **roles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=Path, help="the folder with the Parquet files")
    parser.add_argument("out", type=Path, help="the folder to write to")
    parser.add_argument("--most", type=int, default=10_000, help="sets; 20000 for the curves")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in (*TABLES, *SHIPPED):
        choices = choices_of(name, given.tables)
        if choices is not None:
            sampled = choices.sample(given.most)
            sw.save_choices(sampled, given.out / f"{name}.setwise-data")
            print(f"{name}: {sampled}")


if __name__ == "__main__":
    main()

"""Expedia's personalised sort (ICDM 2013) as choices: a search is a set, its hotels the items."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float, Num, Shaped

from setwise._errors import InputError
from setwise.choices.choices import Column
from setwise.paper.raw.files import Field, OnStep, find_file
from setwise.paper.raw.sets import UNKNOWN, RawChoices, RawSets, category, check_view, roles_of

OUTCOMES = {"click": "click_bool", "book": "booking_bool"}
PRICES = (1.0, 100_000.0)  # prices outside are errors of the file; the logarithm needs a bound
COMPETITORS = range(1, 9)

PAPER = (
    "log(price_usd)", "prop_starrating", "prop_review_score", "prop_brand_bool",
    "prop_location_score1", "sqrt(prop_location_score2)", "promotion_flag", "popularity(prop_id)",
)  # fmt: skip
FULL = (
    *PAPER, "other(star_level)", "other(review_level)", "prop_log_historical_price",
    "other(prop_country_id)", "impute(log1p(orig_destination_distance))",
    "impute(srch_query_affinity_score)", "impute(stars_above_history)",
    "impute(log_price_above_history)",
    *(f"comp{i}_{what}" for i in COMPETITORS for what in ("rate", "inv", "difference")),
)  # fmt: skip
FULL_CONTEXT = (
    "date_time", "log1p(srch_length_of_stay)", "log1p(srch_booking_window)", "srch_adults_count",
    "srch_children_count", "srch_room_count", "srch_saturday_night_bool", "random_bool",
    "other(site_id)", "other(visitor_location_country_id)", "impute(visitor_hist_starrating)",
    "impute(log1p(visitor_hist_adr_usd))",
)  # fmt: skip

# Position, gross bookings and the outcome that is not asked for are never read: they are results.
PAPER_FIELDS = {
    "srch_id": Field("int32"), "date_time": Field("date"), "prop_id": Field("int32"),
    "price_usd": Field("float32", least=0), "prop_starrating": Field("int8", least=0),
    "prop_review_score": Field("float32", np.nan), "prop_brand_bool": Field("int8"),
    "prop_location_score1": Field("float32"),
    "prop_location_score2": Field("float32", 0.0, least=0), "promotion_flag": Field("int8"),
}  # fmt: skip
CONTEXT_FIELDS = {
    "srch_length_of_stay": Field("int32", least=0), "srch_booking_window": Field("int32", least=0),
    "srch_adults_count": Field("int32"), "srch_children_count": Field("int32"),
    "srch_room_count": Field("int32"), "srch_saturday_night_bool": Field("int8"),
    "random_bool": Field("int8"), "site_id": Field("int32"),
    "visitor_location_country_id": Field("int32"),
    "visitor_hist_starrating": Field("float32", np.nan),
    "visitor_hist_adr_usd": Field("float32", np.nan, least=0),
}  # fmt: skip
ITEM_FIELDS = {
    "prop_log_historical_price": Field("float32"), "prop_country_id": Field("int32"),
    "orig_destination_distance": Field("float32", np.nan, least=0),
    "srch_query_affinity_score": Field("float32", np.nan),
} | {
    f"comp{i}_{what}": field
    for i in COMPETITORS
    for what, field in (
        ("rate", Field("int8", 0)), ("inv", Field("int8", 0)),
        ("rate_percent_diff", Field("float32", 0.0, least=0)),
    )
}  # fmt: skip
CONTEXT_NAMES = ("site_id", "visitor_location_country_id")  # numbers that are names
ITEM_NAMES = ("prop_id", "prop_country_id")


def load_expedia(
    path: str | Path, view: str = "paper", outcome: str = "click", on_step: OnStep | None = None
) -> RawChoices:
    """Choices from Expedia's ``train.csv``, or a Parquet file with its columns.

    The set is ``srch_id``, the chosen item the one that was clicked or, with ``outcome="book"``,
    booked; the time is ``date_time``. View "paper" has eight features; "full" adds more and the
    context of the search. See docs/raw-data.md for each of them.

    >>> load_expedia("no/such/folder")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: there is no file or folder no/such/folder; check the path
    """
    check_view(view)
    if outcome not in OUTCOMES:
        raise InputError(f"outcome={outcome!r} is not one of: {', '.join(OUTCOMES)}")
    full, chosen, step = view == "full", OUTCOMES[outcome], on_step or (lambda text: None)
    file = find_file(path, "train.csv")
    step(f"reading {file}")
    fields = PAPER_FIELDS | (CONTEXT_FIELDS | ITEM_FIELDS if full else {})
    table = file.read(fields | {chosen: Field("int8")})
    step("grouping rows into sets")
    sets = RawSets.of(file, table.pop("srch_id"), table.pop(chosen), chosen)
    step(sets.summary)
    time = sets.once_per_set(file, "date_time", table.pop("date_time"))
    context = {"date_time": Column(time)} if full else {}
    for name in CONTEXT_FIELDS if full else ():
        values = sets.once_per_set(file, name, table.pop(name))
        context[name] = category(values) if name in CONTEXT_NAMES else Column(values)
    roles = roles_of(
        "srch_id", chosen, FULL if full else PAPER, FULL_CONTEXT if full else (), "date_time"
    )
    return RawChoices(sets.choices(roles, context, time), _columns(sets, table, context))


def _columns(
    sets: RawSets, table: dict[str, Shaped[np.ndarray, " n"]], context: dict[str, Column]
) -> Iterator[tuple[str, Column]]:
    """The item columns; each leaves the table when it is made."""
    full = bool(context)
    price = np.clip(sets.rows(table.pop("price_usd")), *PRICES)
    yield "price_usd", Column(price)
    if full:
        usual = np.clip(context["visitor_hist_adr_usd"].values, *PRICES)
        yield "log_price_above_history", _above(sets, np.log(price), np.log(usual))
    del price
    stars = sets.rows(table.pop("prop_starrating"))
    yield "prop_starrating", Column(stars)
    if full:
        usual = context["visitor_hist_starrating"].values
        yield "stars_above_history", _above(sets, stars, usual)
        yield "star_level", category(stars)
    del stars
    review = sets.rows(table.pop("prop_review_score"))
    yield "prop_review_score", Column(np.where(np.isnan(review), np.float32(0), review))
    if full:
        yield "review_level", _review_level(review)
    del review
    for name in [name for name in table if not name.startswith("comp")]:
        values = sets.rows(table.pop(name))
        yield name, category(values) if name in ITEM_NAMES else Column(values)
    for i in COMPETITORS if full else ():
        rate, inv, percent = (
            sets.rows(table.pop(f"comp{i}_{what}")) for what in ("rate", "inv", "rate_percent_diff")
        )
        yield f"comp{i}_rate", Column(rate)
        yield f"comp{i}_inv", Column(inv)
        yield f"comp{i}_difference", Column(rate * np.log1p(percent))


def _above(
    sets: RawSets, values: Num[np.ndarray, " rows"], usual: Float[np.ndarray, " sets"]
) -> Column:
    """How far values of the items are above what the visitor had before; NaN without a history."""
    return Column(
        sets.computed(np.float32, lambda run, rows: values[rows] - sets.spread(usual[run], run))
    )


def _review_level(review: Float[np.ndarray, " n"]) -> Column:
    """Review scores, which go by halves, as levels; a missing one is a level of its own."""
    halves = np.where(np.isnan(review), -1, np.round(2 * review)).astype(np.int32)
    names = {half: f"{half / 2:g}" for half in range(11)}
    return category(halves, names | {-1: UNKNOWN})

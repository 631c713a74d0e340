"""Amadeus' flight itineraries as choices: a search is a set, its recommended flights the items."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from setwise.choices.choices import Column
from setwise.paper.raw.files import Field, OnStep, find_file
from setwise.paper.raw.sets import RawChoices, RawSets, category, check_view, named, roles_of

DAY = 86400
Levels = dict[str, dict[str, int]]
"""By column, the codes of its texts."""

PAPER = (
    "staySaturday", "stayDurationMinutes", "totalPrice", "totalTripDurationMinutes", "dtd",
    "nAirlines", "nFlights", "outDepTime", "outArrTime", "other(airlines)", "depWeekDay",
    "containsLCC",
)  # fmt: skip
FULL = (
    "staySaturday", "log1p(stayDurationMinutes)", "log(totalPrice)",
    "log(totalTripDurationMinutes)", "log1p(dtd)", "other(nAirlines)", "other(nFlights)",
    "departure_sine", "departure_cosine", "arrival_sine", "arrival_cosine",
    "other(airlines)", "other(first_airline)", "other(depWeekDay)", "containsLCC",
)  # fmt: skip
CONTEXT = (
    "isContinental", "isDomestic", "other(origin)", "other(destination)", "other(pointOfSale)",
)  # fmt: skip

FIELDS = {
    "set_id": Field("int32"), "chosen": Field("int8"), "staySaturday": Field("int8"),
    "stayDurationMinutes": Field("int32"), "totalPrice": Field("float32", least=0),
    "totalTripDurationMinutes": Field("int32", least=0), "dtd": Field("int32", least=0),
    "nAirlines": Field("int32"), "nFlights": Field("int32"), "isContinental": Field("int8"),
    "isDomestic": Field("int8"), "outDepTime": Field("int32", least=0),
    "outArrTime": Field("int32", least=0), "origin": Field("text"), "destination": Field("text"),
    "airlines": Field("text"), "depWeekDay": Field("int8", least=0), "containsLCC": Field("int8"),
    "pointOfSale": Field("text"),
}  # fmt: skip
OF_SETS = ("isContinental", "isDomestic", "origin", "destination", "pointOfSale")


def load_amadeus(
    path: str | Path, view: str = "paper", on_step: OnStep | None = None
) -> RawChoices:
    """Choices from a table of itineraries, ``amadeus_itinerary.parquet`` or ``.csv``.

    View "paper" has the table's 17 columns as they are, those that describe the search as
    context; "full" transforms them. See docs/raw-data.md for each of them.

    >>> load_amadeus("no/such/folder")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: there is no file or folder no/such/folder; check the path
    """
    check_view(view)
    file = find_file(path, "amadeus_itinerary.csv")
    step = on_step or (lambda text: None)
    step(f"reading {file}")
    levels: Levels = {name: {} for name, field in FIELDS.items() if field.type == "text"}
    table = file.read(FIELDS, levels)
    sets = RawSets.of(file, table.pop("set_id"), table.pop("chosen"), "chosen")
    step(sets.summary)
    context = {}
    for name in OF_SETS:
        values = sets.once_per_set(file, name, table.pop(name))
        context[name] = named(values, list(levels[name])) if name in levels else Column(values)
    full = view == "full"
    roles = roles_of("set_id", "chosen", FULL if full else PAPER, CONTEXT, None)
    rows = {name: sets.rows(values) for name, values in table.items()}
    columns = _transformed(rows, levels) if full else _as_they_are(rows, levels)
    return RawChoices(sets.choices(roles, context), columns)


def _as_they_are(rows: dict[str, Any], levels: Levels) -> Iterator[tuple[str, Column]]:
    for name, values in rows.items():
        yield name, named(values, list(levels[name])) if name in levels else Column(values)


def _transformed(rows: dict[str, Any], levels: Levels) -> Iterator[tuple[str, Column]]:
    for name in ("staySaturday", "dtd", "containsLCC"):
        yield name, Column(rows[name])
    # A few stays are a little below 0: the logarithm needs them at 0.
    yield "stayDurationMinutes", Column(np.maximum(rows["stayDurationMinutes"], 0))
    for name in ("totalPrice", "totalTripDurationMinutes"):
        yield name, Column(np.maximum(rows[name], 1))
    for name in ("nAirlines", "nFlights", "depWeekDay"):
        yield name, category(rows[name])
    for name, column in (("departure", "outDepTime"), ("arrival", "outArrTime")):
        angle = rows[column] * np.float32(2 * np.pi / DAY)
        yield f"{name}_sine", Column(np.sin(angle, dtype=np.float32))
        yield f"{name}_cosine", Column(np.cos(angle, dtype=np.float32))
    yield "airlines", named(rows["airlines"], list(levels["airlines"]))
    first: dict[str, int] = {}
    codes = [first.setdefault(one.partition("/")[0], len(first)) for one in levels["airlines"]]
    yield "first_airline", named(np.array(codes, np.int32)[rows["airlines"]], list(first))

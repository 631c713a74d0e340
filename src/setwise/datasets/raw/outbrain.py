"""Outbrain's click prediction files as choices: a page view is a set, its ads are the items."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from setwise.datasets.raw.categories import UNKNOWN, codes_of
from setwise.datasets.raw.fields import Field
from setwise.datasets.raw.files import OnStep, find_file
from setwise.datasets.raw.lookups import Ids, first_repeat
from setwise.datasets.raw.outbrain_columns import Ads, Shown, Views
from setwise.datasets.raw.outbrain_documents import Documents, read_documents
from setwise.datasets.raw.sets import Raw, Sets, check_view, roles_of

START = np.datetime64(1465876799998, "ms")  # timestamps count milliseconds from here, in UTC

PAPER = (
    "popularity(ad_id)", "popularity(campaign_id)", "popularity(advertiser_id)",
    "popularity(ad_category)", "popularity(ad_topic)", "popularity(advertiser_geography)",
    "category_similarity", "topic_similarity", "same_publisher", "log1p(ad_age_days)",
)  # fmt: skip
FULL = (
    *PAPER, "same_source", "other(ad_publisher)", "other(ad_source)", "other(ad_main_category)",
)  # fmt: skip
FULL_CONTEXT = (
    "other(platform)", "other(country)", "other(state)", "other(hour)", "other(weekday)",
    "log1p(page_age_days)", "other(page_category)", "other(page_publisher)",
)  # fmt: skip


def load_outbrain(path: str | Path, view: str = "paper", on_step: OnStep | None = None) -> Raw:
    """Choices from the folder with Outbrain's six CSV files, zipped or not.

    The set is ``display_id``, the chosen item the one with ``clicked`` 1, the time the moment of
    the view. View "paper" has ten features; "full" adds more and the context of the view. See
    docs/raw-data.md for each of them.

    >>> load_outbrain("no/such/folder")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: there is no file or folder no/such/folder; check the path
    """
    check_view(view)
    full = view == "full"
    path, step = Path(path), on_step or (lambda text: None)
    documents = read_documents(path, step)
    ads = _read_ads(path, documents, step)
    sets, shown = _read_clicks(path, ads, step)
    views = _read_views(path, sets, documents, step)
    rows = Shown(sets, shown, ads, views, documents)
    roles = roles_of(
        "display_id", "clicked", FULL if full else PAPER, FULL_CONTEXT if full else (), "timestamp"
    )
    frame = sets.choices(roles, rows.context() if full else {}, views.time)
    return Raw(frame, rows.columns(full))


def _read_ads(path: Path, documents: Documents, step: OnStep) -> Ads:
    step("reading promoted_content.csv")
    file = find_file(path, "promoted_content.csv")
    names = ("ad_id", "document_id", "campaign_id", "advertiser_id")
    table = file.read({name: Field("int32") for name in names})
    repeat = first_repeat(table["ad_id"])
    if repeat is not None:
        raise file.fault(
            repeat, "ad_id", f"ad {table['ad_id'][repeat]} is there already", "keep one line an ad"
        )
    order = np.argsort(table["ad_id"])
    ad, document, campaign, advertiser = (table[name][order] for name in names)
    return Ads(Ids.of(ad), documents.ids.find(document), campaign, advertiser)


def _read_clicks(path: Path, ads: Ads, step: OnStep) -> tuple[Sets, Int[np.ndarray, " rows"]]:
    """The sets, and the position of each row's ad among the ads."""
    step("reading clicks_train.csv")
    file = find_file(path, "clicks_train.csv")
    fields = {"display_id": Field("int32"), "ad_id": Field("int32"), "clicked": Field("int8")}
    parts: dict[str, list[Any]] = {name: [] for name in fields}
    for chunk in file.chunks(fields):
        found = ads.ids.find(chunk["ad_id"])
        if found.min() < 0:
            row = int(np.argmax(found < 0))
            raise file.fault(
                chunk.first + row, "ad_id",
                f"ad {chunk['ad_id'][row]} is not in promoted_content.csv",
                "take both files from the same download",
            )  # fmt: skip
        for name, values in {**chunk.columns, "ad_id": found}.items():
            parts[name].append(values)
    ids, clicked = (np.concatenate(parts.pop(name)) for name in ("display_id", "clicked"))
    step("grouping rows into sets")
    sets = Sets.of(file, ids, clicked, "clicked")
    step(sets.summary)
    del ids, clicked
    return sets, sets.rows(np.concatenate(parts.pop("ad_id")))


def _read_views(path: Path, sets: Sets, documents: Documents, step: OnStep) -> Views:
    step("reading events.csv")
    file = find_file(path, "events.csv")
    fields = {
        "display_id": Field("int32"), "document_id": Field("int32"), "timestamp": Field("int64"),
        "platform": Field("int8", 0), "geo_location": Field("text", UNKNOWN),
    }  # fmt: skip
    known, count = Ids.of(sets.ids), len(sets.ids)
    seen = np.zeros(count, bool)
    document, place = np.empty((2, count), np.int32)
    time = np.empty(count, np.int64)
    platform = np.empty(count, np.int8)
    places = {UNKNOWN: 0}
    for chunk in file.chunks(fields):
        found = known.find(chunk["display_id"])
        rows = np.flatnonzero(found >= 0)
        found = found[rows]
        before = np.count_nonzero(seen)
        repeated = seen[found]
        seen[found] = True
        if np.count_nonzero(seen) - before != len(found):
            at = int(np.argmax(repeated)) if repeated.any() else first_repeat(found) or 0
            raise file.fault(
                chunk.first + int(rows[at]), "display_id",
                f"display {chunk['display_id'][rows[at]]} is there already",
                "keep one line a display",
            )  # fmt: skip
        document[found] = documents.ids.find(chunk["document_id"][rows])
        time[found] = chunk["timestamp"][rows]
        place[found] = codes_of(chunk["geo_location"], places)[rows]
        platform[found] = chunk["platform"][rows]
    if not seen.all():
        absent = int(np.argmin(seen))
        row = sets.table_row(int(sets.offsets[absent]))
        raise find_file(path, "clicks_train.csv").fault(
            row, "display_id", f"display {sets.ids[absent]} is not in events.csv",
            "take both files from the same download",
        )  # fmt: skip
    moment = (START + time).astype("datetime64[s]")
    return Views(document, moment, place, tuple(places), platform)

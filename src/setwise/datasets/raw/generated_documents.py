"""Outbrain's documents and ads as they might be: what the generated displays refer to."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int, Int64

from setwise.datasets.raw.drawing import chunks, drawn_from, popular, stream
from setwise.datasets.raw.generated_files import csv_file

CATEGORIES, TOPICS, MOST_TOPICS = 97, 300, 8
STRIDES = np.array([7, 11, 13, 17, 19, 23])  # none shares a divisor with TOPICS
TOPIC_COUNTS = {
    0: 0.15, 1: 0.1, 2: 0.1, 3: 0.12, 4: 0.13, 5: 0.12, 6: 0.11, 7: 0.1, 8: 0.07,
}  # fmt: skip
WITHOUT_DATE, WITHOUT_PUBLISHER, WITHOUT_SOURCE = 0.34, 0.02, 0.001
NONSENSE_DATES, NONSENSE_YEARS = 0.002, ("0001", "1900", "2031")
DOCUMENTS_A_CHUNK = 500_000
FIRST_VIEW = np.datetime64(1_465_876_799_998, "ms")  # the format counts time from here


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents in the order of the files; NaT and -1 stand for what is missing."""

    ids: Int[np.ndarray, " documents"]
    source: Int[np.ndarray, " documents"]
    publisher: Int[np.ndarray, " documents"]
    published: np.ndarray
    categories: Int[np.ndarray, "documents 2"]
    confidence: Float64[np.ndarray, "documents 2"]

    @cached_property
    def direction(self) -> Float64[np.ndarray, "documents 2"]:
        """The confidence levels scaled to length 1, so that products add up to a cosine."""
        return self.confidence / np.linalg.norm(self.confidence, axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Ads:
    """Ads by increasing id; ``document`` is the place in Documents, ``shown`` by popularity."""

    ids: Int[np.ndarray, " ads"]
    document: Int[np.ndarray, " ads"]
    campaign: Int[np.ndarray, " ads"]
    advertiser: Int[np.ndarray, " ads"]
    shown: Int[np.ndarray, " shown"]
    appeal: Float64[np.ndarray, " ads"]


def draw_documents(seed: int, size: int, sources: int, publishers: int) -> Documents:
    """Documents with one or two categories; a source belongs to one publisher."""
    rng = stream(seed, "documents")
    source = popular(rng, size, sources)
    publisher = popular(rng, sources, publishers)[source] + 1
    two = rng.random(size) < 0.83
    first = np.where(rng.random(size) < 0.6, 0.92, rng.integers(50, 92, size) / 100)
    second = np.where(two, np.round(0.99 - first, 2), 0.0)
    main = popular(rng, size, CATEGORIES)
    other = (main + rng.integers(1, CATEGORIES, size)) % CATEGORIES
    return Documents(
        ids=_sparse_ids(rng, size),
        source=np.where(rng.random(size) < WITHOUT_SOURCE, -1, source + 1),
        publisher=np.where(rng.random(size) < WITHOUT_PUBLISHER, -1, publisher),
        published=_publish_times(rng, size),
        categories=np.stack([main, np.where(two, other, -1)], 1).astype(np.int16),
        confidence=np.stack([first, second], 1),
    )


def draw_ads(seed: int, sizes: Mapping[str, int], documents: Documents) -> Ads:
    """Ads of campaigns of advertisers; three ads share a document, one in seven is never shown.

    The appeal of an ad is that of its advertiser, of its category and of its own: N(0, 0.8).
    """
    rng, size = stream(seed, "ads"), sizes["ads"]
    ids = np.sort(_sparse_ids(rng, size))
    of_campaign = popular(rng, sizes["campaigns"], sizes["advertisers"])
    campaign = popular(rng, size, sizes["campaigns"])
    advertiser = of_campaign[campaign]
    advertised = rng.choice(len(documents.ids), max(size // 3, 1), replace=False)
    document = advertised[rng.integers(len(advertised), size=size)]
    appeal = (
        0.5 * rng.standard_normal(sizes["advertisers"])[advertiser]
        + 0.4 * rng.standard_normal(CATEGORIES)[documents.categories[document, 0]]
        + 0.5 * rng.standard_normal(size)
    )
    shown = rng.permutation(size)[: -(-size * 6 // 7)]
    return Ads(ids, document, campaign + 1, advertiser + 1, shown, appeal)


def write_documents(folder: Path, documents: Documents, seed: int, zipped: bool) -> None:
    """documents_meta.csv, documents_categories.csv and documents_topics.csv."""
    with (
        csv_file(folder, "documents_meta.csv", zipped) as meta,
        csv_file(folder, "documents_categories.csv", zipped) as categories,
        csv_file(folder, "documents_topics.csv", zipped) as topics,
    ):
        for chunk, first, end in chunks(len(documents.ids), DOCUMENTS_A_CHUNK):
            part = slice(first, end)
            meta(_meta(documents, part))
            categories(_categories(documents, part))
            topics(_topics(documents, part, stream(seed, "documents_topics", chunk)))


def write_ads(folder: Path, ads: Ads, documents: Documents, zipped: bool) -> None:
    """promoted_content.csv."""
    import polars as pl

    with csv_file(folder, "promoted_content.csv", zipped) as promoted:
        promoted(pl.DataFrame({
            "ad_id": ads.ids, "document_id": documents.ids[ads.document],
            "campaign_id": ads.campaign, "advertiser_id": ads.advertiser,
        }))  # fmt: skip


def category_ids(places: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
    """Four-digit numbers with gaps, as the real ones are."""
    return 1000 + 11 * places.astype(np.int64)


def _meta(documents: Documents, part: slice) -> Any:
    import polars as pl

    published = pl.Series(documents.published[part].astype("datetime64[ms]"))
    ids = {"source_id": documents.source[part], "publisher_id": documents.publisher[part]}
    return pl.DataFrame({"document_id": documents.ids[part], **ids}).with_columns(
        *(pl.when(pl.col(name) >= 0).then(pl.col(name)) for name in ids),
        publish_time=published.dt.strftime("%Y-%m-%d %H:%M:%S"),
    )


def _categories(documents: Documents, part: slice) -> Any:
    import polars as pl

    categories, confidence = documents.categories[part], documents.confidence[part]
    there = categories >= 0
    return pl.DataFrame({
        "document_id": np.repeat(documents.ids[part], there.sum(1)),
        "category_id": category_ids(categories[there]),
        "confidence_level": confidence[there],
    })  # fmt: skip


def _topics(documents: Documents, part: slice, rng: np.random.Generator) -> Any:
    """Up to eight different topics with falling confidence; the first one suits the category."""
    import polars as pl

    ids, main = documents.ids[part], documents.categories[part, 0]
    counts = drawn_from(rng, TOPIC_COUNTS, len(ids))
    nth = np.arange(MOST_TOPICS)
    there = nth < counts[:, None]
    first = 3 * main.astype(np.int64) + rng.integers(3, size=len(ids))
    stride = rng.choice(STRIDES, len(ids))
    confidence = rng.uniform(0.05, 0.4, len(ids))[:, None] * 0.6**nth
    return pl.DataFrame({
        "document_id": np.repeat(ids, counts),
        "topic_id": ((first[:, None] + stride[:, None] * nth) % TOPICS)[there],
        "confidence_level": confidence[there],
    })  # fmt: skip


def _sparse_ids(rng: np.random.Generator, size: int) -> Int64[np.ndarray, " size"]:
    """Different ids from 1, with a few gaps, in random order."""
    return rng.permutation(size + size // 25 + 1)[:size] + 1


def _publish_times(rng: np.random.Generator, size: int) -> np.ndarray:
    """Mostly in the months before the first view, some years before, a few after; many missing."""
    age = rng.lognormal(3.5, 1.8, size).clip(0, 9000) - 10
    times = FIRST_VIEW.astype("datetime64[s]") - (age * 86_400).astype("timedelta64[s]")
    at_midnight = rng.random(size) < 0.5
    times[at_midnight] = times[at_midnight].astype("datetime64[D]")
    nonsense = rng.random(size) < NONSENSE_DATES
    years = np.array([f"{year}-01-01" for year in NONSENSE_YEARS], "datetime64[s]")
    times[nonsense] = years[rng.integers(len(years), size=int(nonsense.sum()))]
    times[rng.random(size) < WITHOUT_DATE] = np.datetime64("NaT")
    return times

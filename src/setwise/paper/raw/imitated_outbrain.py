"""Raw files in the format of the Outbrain click prediction competition, generated.

Pages ("displays") show 2 to 12 ads, of which one is clicked. At 16.8 million sets the numbers of
ads, documents and so on are those of the real files; they shrink with the number of sets. Memory
holds the documents, the ads and one chunk of displays.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int, Int64

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

CATEGORIES, TOPICS, MOST_TOPICS = 97, 300, 8
STRIDES = np.array([7, 11, 13, 17, 19, 23])  # none shares a divisor with TOPICS
TOPIC_COUNTS = {
    0: 0.15, 1: 0.1, 2: 0.1, 3: 0.12, 4: 0.13, 5: 0.12, 6: 0.11, 7: 0.1, 8: 0.07,
}  # fmt: skip
WITHOUT_DATE, WITHOUT_PUBLISHER, WITHOUT_SOURCE = 0.34, 0.02, 0.001
NONSENSE_DATES, NONSENSE_YEARS = 0.002, ("0001", "1900", "2031")
DOCUMENTS_PER_CHUNK = 500_000
FIRST_VIEW = np.datetime64(1_465_876_799_998, "ms")  # the format counts time from here


@dataclass(frozen=True, eq=False)
class DrawnDocuments:
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
class DrawnAds:
    """Ads by increasing id; ``document`` is a place in the documents, ``shown`` by popularity."""

    ids: Int[np.ndarray, " ads"]
    document: Int[np.ndarray, " ads"]
    campaign: Int[np.ndarray, " ads"]
    advertiser: Int[np.ndarray, " ads"]
    shown: Int[np.ndarray, " shown"]
    appeal: Float64[np.ndarray, " ads"]


def draw_documents(seed: int, size: int, sources: int, publishers: int) -> DrawnDocuments:
    """Documents with one or two categories; a source belongs to one publisher."""
    rng = stream(seed, "documents")
    source = popular(rng, size, sources)
    publisher = popular(rng, sources, publishers)[source] + 1
    two = rng.random(size) < 0.83
    first = np.where(rng.random(size) < 0.6, 0.92, rng.integers(50, 92, size) / 100)
    second = np.where(two, np.round(0.99 - first, 2), 0.0)
    main = popular(rng, size, CATEGORIES)
    other = (main + rng.integers(1, CATEGORIES, size)) % CATEGORIES
    return DrawnDocuments(
        ids=_sparse_ids(rng, size),
        source=np.where(rng.random(size) < WITHOUT_SOURCE, -1, source + 1),
        publisher=np.where(rng.random(size) < WITHOUT_PUBLISHER, -1, publisher),
        published=_publish_times(rng, size),
        categories=np.stack([main, np.where(two, other, -1)], 1).astype(np.int16),
        confidence=np.stack([first, second], 1),
    )


def draw_ads(seed: int, sizes: Mapping[str, int], documents: DrawnDocuments) -> DrawnAds:
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
    return DrawnAds(ids, document, campaign + 1, advertiser + 1, shown, appeal)


def write_documents(folder: Path, documents: DrawnDocuments, seed: int, zipped: bool) -> None:
    """documents_meta.csv, documents_categories.csv and documents_topics.csv."""
    with (
        csv_file(folder, "documents_meta.csv", zipped) as meta,
        csv_file(folder, "documents_categories.csv", zipped) as categories,
        csv_file(folder, "documents_topics.csv", zipped) as topics,
    ):
        for chunk, first, end in chunks(len(documents.ids), DOCUMENTS_PER_CHUNK):
            part = slice(first, end)
            meta(_meta(documents, part))
            categories(_categories(documents, part))
            topics(_topics(documents, part, stream(seed, "documents_topics", chunk)))


def write_ads(folder: Path, ads: DrawnAds, documents: DrawnDocuments, zipped: bool) -> None:
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


def _meta(documents: DrawnDocuments, part: slice) -> Any:
    import polars as pl

    published = pl.Series(documents.published[part].astype("datetime64[ms]"))
    ids = {"source_id": documents.source[part], "publisher_id": documents.publisher[part]}
    return pl.DataFrame({"document_id": documents.ids[part], **ids}).with_columns(
        *(pl.when(pl.col(name) >= 0).then(pl.col(name)) for name in ids),
        publish_time=published.dt.strftime("%Y-%m-%d %H:%M:%S"),
    )


def _categories(documents: DrawnDocuments, part: slice) -> Any:
    import polars as pl

    categories, confidence = documents.categories[part], documents.confidence[part]
    there = categories >= 0
    return pl.DataFrame({
        "document_id": np.repeat(documents.ids[part], there.sum(1)),
        "category_id": category_ids(categories[there]),
        "confidence_level": confidence[there],
    })  # fmt: skip


def _topics(documents: DrawnDocuments, part: slice, rng: np.random.Generator) -> Any:
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


FILES = (
    "clicks_train.csv", "events.csv", "promoted_content.csv",
    "documents_meta.csv", "documents_categories.csv", "documents_topics.csv",
)  # fmt: skip
FULL_SETS = 16_800_000
AT_FULL_SIZE = {
    "documents": 3_000_000, "sources": 14_400, "publishers": 1_260,
    "ads": 560_000, "campaigns": 35_000, "advertisers": 4_400,
}  # fmt: skip
AT_LEAST = {
    "documents": 2_000, "sources": 100, "publishers": 30,
    "ads": 500, "campaigns": 150, "advertisers": 50,
}  # fmt: skip
SETS_PER_CHUNK = 200_000
DISPLAYS_WITHOUT_CLICKS = 0.37  # the competition's test displays are in events.csv too
DISPLAY_SIZES = {
    2: 0.075, 3: 0.09, 4: 0.305, 5: 0.09, 6: 0.265, 7: 0.012,
    8: 0.07, 9: 0.066, 10: 0.022, 11: 0.003, 12: 0.002,
}  # fmt: skip
CLICKS = {1: 0.999, 0: 0.0005, 2: 0.0005}
PLATFORMS = {1: 0.38, 2: 0.49, 3: 0.1295, 0: 0.0005}
PLATFORM_TEXT = ("\\N", "1", "2", "3")
TRAIN_DAYS, ALL_DAYS = 13, 15
USERS_PER_EVENT = 3.2  # drawn uniformly: 86 different users in 100 events, as in the real file
UNKNOWN_AGE, OLDEST = 365.0, 3650.0
WEIGHTS = {"appeal": 0.35, "category_similarity": 1.0, "freshness": 0.15}
DESCRIPTION = (
    f"{FORMULA}; f: appeal (a number of each ad, in the parameters), category_similarity (1.5 times"
    " the cosine of the category confidences of page and ad document), freshness (-log1p(age) / 1.5"
    " with age in days from publish_time to the view, in 0 to 3650, 365 where missing)"
)


@dataclass(frozen=True, eq=False)
class Events:
    """Views of pages: ``document`` is a place in the documents, ``time`` in ms of the format."""

    ids: Int[np.ndarray, " sets"]
    document: Int[np.ndarray, " sets"]
    time: Int[np.ndarray, " sets"]


def _write(
    folder: Path,
    sets: int,
    seed: int,
    expectation: Expectation,
    on_sets: OnSets | None,
    zipped: bool = False,
) -> Mapping[str, Any]:
    """Six files, each zipped as ``NAME.csv.zip``; one display in a thousand has no click or two."""
    sizes = {
        name: max(AT_LEAST[name], round(full * sets / FULL_SETS))
        for name, full in AT_FULL_SIZE.items()
    }
    documents = draw_documents(seed, sizes["documents"], sizes["sources"], sizes["publishers"])
    write_documents(folder, documents, seed, zipped)
    ads = draw_ads(seed, sizes, documents)
    write_ads(folder, ads, documents, zipped)
    with (
        csv_file(folder, "events.csv", zipped) as write_events,
        csv_file(folder, "clicks_train.csv", zipped) as write_clicks,
    ):
        displays = Displays(sets, documents, ads)
        for chunk, first, end in chunks(sets, SETS_PER_CHUNK, on_sets):
            rng = stream(seed, "events", chunk)
            events = displays.events(rng, first, end)
            write_events(displays.event_rows(rng, events))
            write_clicks(displays.click_rows(stream(seed, "clicks", chunk), events, expectation))
        for chunk, first, end in chunks(displays.without_clicks, SETS_PER_CHUNK):
            rng = stream(seed, "test events", chunk)
            write_events(displays.event_rows(rng, displays.events(rng, sets + first, sets + end)))
    return {"ad_id": ads.ids, "appeal": ads.appeal}


outbrain = Imitation("Outbrain click prediction", FILES, DESCRIPTION, WEIGHTS, _write)


@dataclass(frozen=True, eq=False)
class Displays:
    """Draws displays by number, from 0: those from ``sets`` on have an event and no clicks."""

    sets: int
    documents: DrawnDocuments
    ads: DrawnAds

    @property
    def without_clicks(self) -> int:
        """How many displays have an event only."""
        return max(1, round(DISPLAYS_WITHOUT_CLICKS * self.sets))

    def events(self, rng: np.random.Generator, first: int, end: int) -> Events:
        """Views in order of time: first those with clicks, then again from the start the rest."""
        test = first >= self.sets
        begin, among = (self.sets, self.without_clicks) if test else (0, self.sets)
        number = np.arange(first, end)
        through = (number - begin + rng.random(end - first)) / among
        hours, views = _views_by_hour(ALL_DAYS if test else TRAIN_DAYS)
        time = (np.interp(through, views, hours) * 3_600_000).astype(np.int64)
        return Events(number + 1, popular(rng, end - first, len(self.documents.ids)), time)

    def event_rows(self, rng: np.random.Generator, events: Events) -> Any:
        """The rows of events.csv."""
        import polars as pl

        size = len(events.ids)
        users = round(USERS_PER_EVENT * (self.sets + self.without_clicks))
        places = pl.Series(list(PLACES))
        return pl.DataFrame({
            "display_id": events.ids,
            "uuid": _uuids(rng.integers(users, size=size)),
            "document_id": self.documents.ids[events.document],
            "timestamp": events.time,
            "platform": pl.Series(PLATFORM_TEXT).gather(drawn_from(rng, PLATFORMS, size)),
            "geo_location": places.gather(drawn_from(rng, PLACE_SHARES, size)),
        })  # fmt: skip

    def click_rows(self, rng: np.random.Generator, events: Events, expectation: Expectation) -> Any:
        """The rows of clicks_train.csv: ads by popularity, clicks from the model."""
        import polars as pl

        sets = DrawnSets(drawn_from(rng, DISPLAY_SIZES, len(events.ids)))
        ad = self._different_ads(rng, sets)
        scores = context_scores(self._features(events, ad, sets), WEIGHTS, sets)
        clicks = drawn_from(rng, CLICKS, len(events.ids))
        clicked = pick(rng, scores, sets, clicks)
        expectation.add(scores, sets, clicks == 1)
        return pl.DataFrame({
            "display_id": sets.spread(events.ids), "ad_id": self.ads.ids[ad],
            "clicked": clicked.astype(np.int8),
        })  # fmt: skip

    def _different_ads(self, rng: np.random.Generator, sets: DrawnSets) -> Int[np.ndarray, " rows"]:
        """Ads of each display by increasing id, those drawn twice drawn again."""
        shown, ads = self.ads.shown, len(self.ads.ids)
        keys = sets.owner * ads + shown[popular(rng, sets.rows, len(shown))]
        while True:
            keys.sort()
            twice = np.flatnonzero(keys[1:] == keys[:-1])
            if not len(twice):
                return keys % ads
            again = shown[popular(rng, len(twice), len(shown))]
            keys[twice] = keys[twice] // ads * ads + again

    def _features(
        self, events: Events, ad: Int[np.ndarray, " rows"], sets: DrawnSets
    ) -> dict[str, Float64[np.ndarray, " rows"]]:
        """f of the model, from what is written."""
        document = self.ads.document[ad]
        viewed = FIRST_VIEW + events.time.astype("timedelta64[ms]")
        age = (sets.spread(viewed) - self.documents.published[document]) / np.timedelta64(1, "D")
        age = np.where(np.isnan(age), UNKNOWN_AGE, age).clip(0, OLDEST)
        return {
            "appeal": self.ads.appeal[ad],
            "category_similarity": 1.5 * self._similarity(events.document, document, sets),
            "freshness": -np.log1p(age) / 1.5,
        }

    def _similarity(
        self, page: Int[np.ndarray, " sets"], ad: Int[np.ndarray, " rows"], sets: DrawnSets
    ) -> Float64[np.ndarray, " rows"]:
        """The cosine of the category confidences of the page's and the ad's document."""
        categories, direction = self.documents.categories, self.documents.direction
        cosine = np.zeros(sets.rows)
        for i in range(2):
            of_page = sets.spread(categories[page, i])
            along = sets.spread(direction[page, i])
            for j in range(2):
                same: Bool[np.ndarray, " rows"] = of_page == categories[ad, j]
                cosine += np.where(same, along * direction[ad, j], 0.0)
        return cosine


def _views_by_hour(
    days: int,
) -> tuple[Float64[np.ndarray, " hours"], Float64[np.ndarray, " hours"]]:
    """Hours since the first view, and the share of views before each: few at night."""
    hours = np.arange(24 * days + 1.0)
    views = np.cumsum(1 - 0.6 * np.cos(2 * np.pi * (hours - 5) / 24))
    return hours, (views - views[0]) / (views[-1] - views[0])


def _uuids(users: Int[np.ndarray, " events"]) -> Any:
    """Fourteen hexadecimal digits of each user, scattered over all of them."""
    import polars as pl

    # Multiplying by an odd number modulo 2^56 maps different users to different ids.
    scattered = (users.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) & np.uint64(2**56 - 1)
    pieces = [
        _hexadecimal(4).gather((scattered >> np.uint64(shift)).astype(np.uint16))
        for shift in (40, 24, 8)
    ]
    pieces.append(_hexadecimal(2).gather(scattered.astype(np.uint8)))
    return pl.select(pl.concat_str(pieces)).to_series()


@cache
def _hexadecimal(digits: int) -> Any:
    """All numbers of so many digits, as text; made once, since every chunk looks them up."""
    import polars as pl

    return pl.Series([f"{number:0{digits}x}" for number in range(16**digits)])


def _places() -> dict[str | None, float]:
    """Places of views with their shares: most in markets of the US, some unknown."""
    states = re.findall("..", "CANYTXFLILPAOHGANCMINJVAWAAZMATNINMOMDWICOMNSCALLAKYOROKCTUT")
    markets: dict[str | None, float] = {
        f"US>{state}>{501 + 11 * rank + market}": 0.08 / (1 + rank / 3) / (1 + market)
        for rank, state in enumerate(states)
        for market in range(5)
    }
    abroad: dict[str | None, float] = {
        f"{country}>{region:02}": 0.06 / (1 + rank) / (1 + region)
        for rank, country in enumerate(("CA", "GB", "AU", "IN", "NZ", "ZA", "PH", "SG"))
        for region in range(4)
    }
    return {**markets, **abroad, "US": 0.03, "IE": 0.002, "AE": 0.002, None: 0.001}


PLACES = _places()
PLACE_SHARES = dict(enumerate(PLACES.values()))

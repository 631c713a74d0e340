"""Outbrain's click prediction files as choices: a page view is a set, its ads are the items."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise.choices.choices import Column
from setwise.paper.raw.files import Field, OnStep, codes_of, find_file, first_repeat
from setwise.paper.raw.sets import (
    UNKNOWN,
    Ids,
    RawChoices,
    RawSets,
    category,
    check_view,
    levels_of,
    named,
    parts_of,
    roles_of,
)

TOP = 3  # entries of a document's confidence vector that are kept, the most confident first


@dataclass(frozen=True, eq=False)
class Confidences:
    """What each document is about: its ``TOP`` most confident entries, as a vector of length 1.

    One row per entry, the most confident first; column ``-1`` is the unknown document. Absent
    entries have code -1 and weight 0.
    """

    ids: Ids
    codes: Int[np.ndarray, "top documents_and_one"]
    weights: Float[np.ndarray, "top documents_and_one"]

    @classmethod
    def of(
        cls,
        documents: Int[np.ndarray, " n"],
        subjects: Int[np.ndarray, " n"],
        confidence: Float[np.ndarray, " n"],
        count: int,
    ) -> "Confidences":
        """From long form: the position of a document, a category or topic id, its confidence."""
        ids = Ids.of(subjects)
        # The bits of floats from 0 up are in the order of the floats: one integer sorts by
        # document and then by falling confidence; ties keep the file's order.
        falling = ~confidence.view(np.int32)
        key = (documents.astype(np.int64) << 32) | falling.view(np.uint32)
        order = np.argsort(key, kind="stable")
        documents = documents[order]
        starts = np.searchsorted(documents, np.arange(count))
        rank = np.arange(len(order)) - starts[documents]
        top = min(TOP, int(rank.max()) + 1)
        kept = rank < top
        order, documents, rank = order[kept], documents[kept], rank[kept]
        codes = np.full((top, count + 1), -1, np.int16 if len(ids) < 2**15 else np.int32)
        weights = np.zeros((top, count + 1), np.float32)
        codes[rank, documents] = ids.find(subjects[order])
        weights[rank, documents] = confidence[order]
        length = np.sqrt((weights**2).sum(0))
        return cls(ids, codes, weights / np.where(length > 0, length, 1))

    @property
    def first(self) -> Int[np.ndarray, " documents_and_one"]:
        """The code of each document's most confident entry, -1 where it has none."""
        return self.codes[0]

    def similarity(
        self,
        some: Int[np.ndarray, " n"],
        others: Int[np.ndarray, " m"],
        pairs: Int[np.ndarray, " m"],
    ) -> Float[np.ndarray, " m"]:
        """The cosine of documents ``some[pairs[i]]`` and ``others[i]``; 0 if one is unknown."""
        entries = list(zip(self.codes, self.weights, strict=True))
        right = [(codes.take(others), weights.take(others)) for codes, weights in entries]
        total = np.zeros(len(others), np.float32)
        for codes, weights in entries:
            code, weight = codes.take(some).take(pairs), weights.take(some).take(pairs)
            shared = sum((code == other) * other_weight for other, other_weight in right)
            total += weight * shared
        return total


@dataclass(frozen=True, eq=False)
class Documents:
    """All documents that any of the three files names; position -1 is the unknown document."""

    ids: Ids
    source: Int[np.ndarray, " documents_and_one"]
    publisher: Int[np.ndarray, " documents_and_one"]
    published: Shaped[np.ndarray, " documents_and_one"]
    categories: Confidences
    topics: Confidences


def read_documents(path: Path, on_step: Callable[[str], None]) -> Documents:
    """Read ``documents_meta``, ``documents_categories`` and ``documents_topics``.

    A document that is absent from a file lacks what that file contains: no publisher, no
    date, no category, no topic.
    """
    on_step("reading documents_meta.csv")
    file = find_file(path, "documents_meta.csv")
    meta = file.read({
        "document_id": Field("int32"), "source_id": Field("int32", -1),
        "publisher_id": Field("int32", -1), "publish_time": Field("date", ""),
    })  # fmt: skip
    file.refuse_repeats("document_id", meta["document_id"], "document")
    about = {
        name: _read_confidences(path, f"documents_{name}.csv", column, on_step)
        for name, column in (("categories", "category_id"), ("topics", "topic_id"))
    }
    ids = Ids.of(meta["document_id"], *(document for document, _, _ in about.values()))
    count = len(ids)
    place = ids.find(meta["document_id"])
    source, publisher = np.full((2, count + 1), -1, np.int32)
    published = np.full(count + 1, "NaT", "datetime64[s]")
    source[place], publisher[place] = meta["source_id"], meta["publisher_id"]
    published[place] = meta["publish_time"]
    confidences = [
        Confidences.of(ids.find(document), subject, confidence, count)
        for document, subject, confidence in about.values()
    ]
    return Documents(ids, source, publisher, published, *confidences)


def _read_confidences(
    path: Path, name: str, column: str, on_step: Callable[[str], None]
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    on_step(f"reading {name}")
    read = find_file(path, name).read({
        "document_id": Field("int32"), column: Field("int32"),
        "confidence_level": Field("float32", least=0),
    })  # fmt: skip
    return read["document_id"], read[column], read["confidence_level"]


DAY = 86400.0
OLDEST = 3650.0  # days; ages are clipped to this and to 0
AGE_IF_UNKNOWN = 365.0  # days; a constant, so that nothing is learned from test data
NONE = {-1: UNKNOWN}


@dataclass(frozen=True, eq=False)
class Ads:
    """The promoted ads, in the order of their ids."""

    ids: Ids
    document: Int[np.ndarray, " ads"]  # its position among the documents
    campaign: Int[np.ndarray, " ads"]
    advertiser: Int[np.ndarray, " ads"]


@dataclass(frozen=True, eq=False)
class Views:
    """The page views, one per set."""

    document: Int[np.ndarray, " sets"]  # the page's position among the documents
    time: Shaped[np.ndarray, " sets"]
    place: Int[np.ndarray, " sets"]  # the code of geo_location
    places: tuple[str, ...]
    platform: Int[np.ndarray, " sets"]


@dataclass(frozen=True, eq=False)
class Shown:
    """The rows: which ad is shown in which view."""

    sets: RawSets
    ad: Int[np.ndarray, " rows"]  # its position among the ads
    ads: Ads
    views: Views
    documents: Documents

    def columns(self, full: bool) -> Iterator[tuple[str, Column]]:
        """The item columns, each made when it is taken."""
        used = np.zeros(len(self.ads.ids), bool)
        for rows in parts_of(len(self.ad)):
            used[self.ad[rows]] = True
        about = self.ads.document
        category, topic = (
            _first_ids(confidences)[about]
            for confidences in (self.documents.categories, self.documents.topics)
        )
        of_ads = {
            "ad_id": self.ads.ids.ids, "campaign_id": self.ads.campaign,
            "advertiser_id": self.ads.advertiser, "ad_category": category, "ad_topic": topic,
        }  # fmt: skip
        for name, values in of_ads.items():
            yield name, self._of_ads(values, used)
        yield "advertiser_geography", self._geography(used)
        yield "category_similarity", self._similarity(self.documents.categories)
        yield "topic_similarity", self._similarity(self.documents.topics)
        yield "same_publisher", self._same(self.documents.publisher)
        yield "ad_age_days", self._age()
        if full:
            yield "same_source", self._same(self.documents.source)
            yield "ad_publisher", self._of_ads(self.documents.publisher[about], used)
            yield "ad_source", self._of_ads(self.documents.source[about], used)
            yield "ad_main_category", self._of_ads(category, used)

    def context(self) -> dict[str, Column]:
        """The context columns of the full view."""
        views, documents = self.views, self.documents
        hours = views.time.astype("datetime64[h]").astype(np.int64)
        parts = [(*place.split(">"), "", "")[:2] for place in views.places]
        age = _days(views.time, documents.published[views.document])
        return {
            "platform": category(views.platform, {0: UNKNOWN}),
            "country": named(views.place, [country for country, _ in parts]),
            "state": named(views.place, [">".join(filter(None, part)) for part in parts]),
            "hour": category(hours % 24),
            "weekday": category((hours // 24 + 3) % 7),  # 1970-01-01 was a Thursday; Monday is 0
            "page_age_days": Column(age),
            "page_category": category(_first_ids(documents.categories)[views.document], NONE),
            "page_publisher": category(documents.publisher[views.document], NONE),
        }

    def _of_ads(self, values: Int[np.ndarray, " ads"], used: Shaped[np.ndarray, " ads"]) -> Column:
        """A category that depends on the ad alone."""
        ids = Ids.of(values[used])
        codes = ids.find(values)
        column = self.sets.computed(np.int32, lambda sets, rows: codes.take(self.ad[rows]))
        return Column(column, levels_of(ids, NONE))

    def _geography(self, used: Shaped[np.ndarray, " ads"]) -> Column:
        """The advertiser crossed with the country of the view."""
        advertisers = Ids.of(self.ads.advertiser[used])
        advertiser = advertisers.find(self.ads.advertiser).astype(np.int64)
        by_place = named(
            np.arange(len(self.views.places)),
            [place.partition(">")[0] for place in self.views.places],
        )
        countries, country = by_place.levels or (), by_place.values[self.views.place]
        size = len(advertisers) * len(countries)
        crossed = self.sets.computed(
            np.int32 if size < 2**31 else np.int64,
            lambda sets, rows: (
                advertiser.take(self.ad[rows]) * len(countries)
                + self.sets.spread(country[sets], sets)
            ),
        )
        ids = Ids.of(crossed)
        for rows in parts_of(len(crossed)):
            crossed[rows] = ids.find(crossed[rows])
        levels = tuple(
            f"{advertisers.ids[pair // len(countries)]} in {countries[pair % len(countries)]}"
            for pair in ids.ids.tolist()
        )
        return Column(crossed.astype(np.int32, copy=False), levels)

    def _pages_and_ads(
        self,
        function: Callable[[slice, Shaped[np.ndarray, " n"]], Shaped[np.ndarray, " n"]],
        dtype: type,
    ) -> Column:
        """A column of ``function(sets, documents of the ads in these sets)``."""
        return Column(
            self.sets.computed(
                dtype, lambda sets, rows: function(sets, self.ads.document.take(self.ad[rows]))
            )
        )

    def _similarity(self, confidences: Confidences) -> Column:
        def similarity(sets: slice, of_ads: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            pairs = self.sets.spread(np.arange(sets.stop - sets.start), sets)
            return confidences.similarity(self.views.document[sets], of_ads, pairs)

        return self._pages_and_ads(similarity, np.float32)

    def _same(self, values: Int[np.ndarray, " documents"]) -> Column:
        """1 where page and ad are known to have the same value, else 0."""

        def same(sets: slice, of_ads: Int[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
            pages = self.sets.spread(values[self.views.document[sets]], sets)
            return (values.take(of_ads) == pages) & (pages >= 0)

        return self._pages_and_ads(same, np.int8)

    def _age(self) -> Column:
        def age(sets: slice, of_ads: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            return _days(
                self.sets.spread(self.views.time[sets], sets), self.documents.published.take(of_ads)
            )

        return self._pages_and_ads(age, np.float32)


def _days(now: Shaped[np.ndarray, " n"], then: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Days between two moments, within bounds; the constant where one is unknown."""
    days = (now - then).astype("timedelta64[s]").astype(np.float32) / np.float32(DAY)
    days = np.clip(days, 0, OLDEST)
    days[np.isnat(then)] = AGE_IF_UNKNOWN
    return days


def _first_ids(confidences: Confidences) -> Int[np.ndarray, " documents_and_one"]:
    """The id of each document's most confident entry, -1 where it has none."""
    return np.where(confidences.first < 0, -1, confidences.ids.ids[confidences.first])


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


def load_outbrain(
    path: str | Path, view: str = "paper", on_step: OnStep | None = None
) -> RawChoices:
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
    return RawChoices(frame, rows.columns(full))


def _read_ads(path: Path, documents: Documents, step: OnStep) -> Ads:
    step("reading promoted_content.csv")
    file = find_file(path, "promoted_content.csv")
    names = ("ad_id", "document_id", "campaign_id", "advertiser_id")
    table = file.read({name: Field("int32") for name in names})
    file.refuse_repeats("ad_id", table["ad_id"], "ad")
    order = np.argsort(table["ad_id"])
    ad, document, campaign, advertiser = (table[name][order] for name in names)
    return Ads(Ids.of(ad), documents.ids.find(document), campaign, advertiser)


def _read_clicks(path: Path, ads: Ads, step: OnStep) -> tuple[RawSets, Int[np.ndarray, " rows"]]:
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
    sets = RawSets.of(file, ids, clicked, "clicked")
    step(sets.summary)
    del ids, clicked
    return sets, sets.rows(np.concatenate(parts.pop("ad_id")))


def _read_views(path: Path, sets: RawSets, documents: Documents, step: OnStep) -> Views:
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
                "keep one line per display",
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

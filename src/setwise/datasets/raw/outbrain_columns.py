"""Outbrain's features: columns of the ads shown, and of the page views."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise.choices.columns import Column
from setwise.datasets.raw.categories import UNKNOWN, category, levels_of, named
from setwise.datasets.raw.lookups import Ids, parts_of
from setwise.datasets.raw.outbrain_documents import Confidences, Documents
from setwise.datasets.raw.sets import Sets

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
    """The page views, one a set."""

    document: Int[np.ndarray, " sets"]  # the page's position among the documents
    time: Shaped[np.ndarray, " sets"]
    place: Int[np.ndarray, " sets"]  # the code of geo_location
    places: tuple[str, ...]
    platform: Int[np.ndarray, " sets"]


@dataclass(frozen=True, eq=False)
class Shown:
    """The rows: which ad is shown in which view."""

    sets: Sets
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

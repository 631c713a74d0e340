"""Raw files in the format of the Outbrain click prediction competition, generated.

Pages ("displays") show 2 to 12 ads, of which one is clicked. At 16.8 million sets the numbers of
ads, documents and so on are those of the real files; they shrink with the number of sets. Memory
holds the documents, the ads and one chunk of displays.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from setwise.datasets.generated import whole
from setwise.datasets.raw.drawing import (
    FORMULA,
    LOSS_AVERSION,
    Expectation,
    OnSets,
    Sets,
    Truth,
    chunks,
    context_scores,
    drawn_from,
    pick,
    popular,
    stream,
)
from setwise.datasets.raw.generated_documents import (
    FIRST_VIEW,
    Ads,
    Documents,
    draw_ads,
    draw_documents,
    write_ads,
    write_documents,
)
from setwise.datasets.raw.generated_files import csv_file, finish, prepare

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
SETS_A_CHUNK = 200_000
DISPLAYS_WITHOUT_CLICKS = 0.37  # the competition's test displays are in events.csv too
DISPLAY_SIZES = {
    2: 0.075, 3: 0.09, 4: 0.305, 5: 0.09, 6: 0.265, 7: 0.012,
    8: 0.07, 9: 0.066, 10: 0.022, 11: 0.003, 12: 0.002,
}  # fmt: skip
CLICKS = {1: 0.999, 0: 0.0005, 2: 0.0005}
PLATFORMS = {1: 0.38, 2: 0.49, 3: 0.1295, 0: 0.0005}
PLATFORM_TEXT = ("\\N", "1", "2", "3")
TRAIN_DAYS, ALL_DAYS = 13, 15
USERS_AN_EVENT = 3.2  # drawn uniformly: 86 different users in 100 events, as in the real file
UNKNOWN_AGE, OLDEST = 365.0, 3650.0
WEIGHTS = {"appeal": 0.35, "category_similarity": 1.0, "freshness": 0.15}
DESCRIPTION = (
    f"{FORMULA}; f: appeal (a number of each ad, in the parameters), category_similarity (1.5 times"
    " the cosine of the category confidences of page and ad document), freshness (-log1p(age) / 1.5"
    " with age in days from publish_time to the view, in 0 to 3650, 365 where missing)"
)


@dataclass(frozen=True, eq=False)
class Events:
    """Views of pages: ``document`` is the place in Documents, ``time`` in ms of the format."""

    ids: Int[np.ndarray, " sets"]
    document: Int[np.ndarray, " sets"]
    time: Int[np.ndarray, " sets"]


def outbrain(
    folder: Path, sets: int, seed: int = 0, zipped: bool = False, on_sets: OnSets | None = None
) -> Truth:
    """Write six files with ``sets`` displays with clicks, and return the truth behind the clicks.

    About one display in a thousand has no click or two. Zipped, each file is ``NAME.csv.zip``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     truth = outbrain(Path(folder), sets=200)
    ...     lines = (Path(folder) / "clicks_train.csv").read_text().splitlines()
    >>> lines[0], truth.one_choice
    ('display_id,ad_id,clicked', 200)
    """
    sets, seed = whole("sets", sets, least=1), whole("seed", seed, least=0)
    title = f"Format: Outbrain click prediction. Sets: {sets}. Seed: {seed}."
    prepare(folder, FILES, title)
    sizes = {
        name: max(AT_LEAST[name], round(full * sets / FULL_SETS))
        for name, full in AT_FULL_SIZE.items()
    }
    documents = draw_documents(seed, sizes["documents"], sizes["sources"], sizes["publishers"])
    write_documents(folder, documents, seed, zipped)
    ads = draw_ads(seed, sizes, documents)
    write_ads(folder, ads, documents, zipped)
    expectation = Expectation()
    with (
        csv_file(folder, "events.csv", zipped) as write_events,
        csv_file(folder, "clicks_train.csv", zipped) as write_clicks,
    ):
        displays = Displays(sets, documents, ads)
        for chunk, first, end in chunks(sets, SETS_A_CHUNK):
            rng = stream(seed, "events", chunk)
            events = displays.events(rng, first, end)
            write_events(displays.event_rows(rng, events))
            write_clicks(displays.click_rows(stream(seed, "clicks", chunk), events, expectation))
            if on_sets is not None:
                on_sets(end)
        for chunk, first, end in chunks(displays.without_clicks, SETS_A_CHUNK):
            rng = stream(seed, "test events", chunk)
            write_events(displays.event_rows(rng, displays.events(rng, sets + first, sets + end)))
    truth = expectation.truth(DESCRIPTION, _parameters(ads))
    finish(folder, title, truth)
    return truth


@dataclass(frozen=True, eq=False)
class Displays:
    """Draws displays by number, from 0: those from ``sets`` on have an event and no clicks."""

    sets: int
    documents: Documents
    ads: Ads

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
        users = round(USERS_AN_EVENT * (self.sets + self.without_clicks))
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

        sets = Sets(drawn_from(rng, DISPLAY_SIZES, len(events.ids)))
        ad = self._different_ads(rng, sets)
        scores = context_scores(self._features(events, ad, sets), WEIGHTS, sets)
        clicks = drawn_from(rng, CLICKS, len(events.ids))
        clicked = pick(rng, scores, sets, clicks)
        expectation.add(scores, sets, clicks == 1)
        return pl.DataFrame({
            "display_id": sets.spread(events.ids), "ad_id": self.ads.ids[ad],
            "clicked": clicked.astype(np.int8),
        })  # fmt: skip

    def _different_ads(self, rng: np.random.Generator, sets: Sets) -> Int[np.ndarray, " rows"]:
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
        self, events: Events, ad: Int[np.ndarray, " rows"], sets: Sets
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
        self, page: Int[np.ndarray, " sets"], ad: Int[np.ndarray, " rows"], sets: Sets
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


def _parameters(ads: Ads) -> Mapping[str, Any]:
    return {
        "weights": WEIGHTS, "loss_aversion": LOSS_AVERSION, "ad_id": ads.ids, "appeal": ads.appeal,
    }  # fmt: skip


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

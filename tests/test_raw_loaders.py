"""The loaders of Expedia, Outbrain and Amadeus: features by hand, faults by line, no leaks."""

import csv
import gzip
import io
import os
import shutil
import zipfile

import numpy as np
import polars as pl
import pytest

from beside import sample
from setwise import InputError
from setwise.choices.choices import Dropped
from setwise.paper.raw.amadeus import load_amadeus
from setwise.paper.raw.expedia import load_expedia
from setwise.paper.raw.outbrain import Confidences, load_outbrain

OUTBRAIN = {
    "documents_meta.csv": """document_id,source_id,publisher_id,publish_time
10,1,5,2016-06-10 04:00:00
20,1,5,2016-06-04 04:00:00
30,2,6,
50,,,2026-01-01 00:00:00
""",
    "documents_categories.csv": """document_id,category_id,confidence_level
10,1702,0.8
10,1403,0.6
20,1403,0.92
30,1702,0.3
30,1500,0.4
""",
    "documents_topics.csv": """document_id,topic_id,confidence_level
10,16,0.2
20,16,0.1
20,3,0.05
20,4,0.05
20,5,0.04
30,7,0.5
""",
    "promoted_content.csv": """ad_id,document_id,campaign_id,advertiser_id
9,40,100,1001
7,20,100,1000
8,30,101,1000
11,50,102,1002
""",
    "clicks_train.csv": """display_id,ad_id,clicked
1,7,1
1,8,0
1,9,0
2,8,0
2,9,1
3,7,0
3,8,0
4,7,1
4,8,1
5,9,1
6,11,0
6,7,1
""",
    "events.csv": """display_id,uuid,document_id,timestamp,platform,geo_location
1,cb8c55702adb93,10,2,3,US>CA>803
2,79a85fa78311b9,99,3600002,\\N,
3,822932ce3d8757,10,4,1,CA>ON
4,85281d0a49f7ac,10,4,1,CA>ON
5,8d0daef4bf5b56,10,4,1,CA>ON
6,7765b4faae4ad4,20,864000002,2,US
7,7765b4faae4ad4,20,864000002,2,US
""",
}

HOTEL = {
    "srch_id": 1, "date_time": "2013-04-04 08:32:15", "site_id": 12,
    "visitor_location_country_id": 187, "visitor_hist_starrating": "NULL",
    "visitor_hist_adr_usd": "NULL", "prop_country_id": 219, "prop_id": 893, "prop_starrating": 3,
    "prop_review_score": 3.5, "prop_brand_bool": 1, "prop_location_score1": 2.5,
    "prop_location_score2": 0.04, "prop_log_historical_price": 4.95, "position": 27,
    "price_usd": 104.5, "promotion_flag": 1, "srch_destination_id": 23246,
    "srch_length_of_stay": 1, "srch_booking_window": 0, "srch_adults_count": 4,
    "srch_children_count": 0, "srch_room_count": 1, "srch_saturday_night_bool": 1,
    "srch_query_affinity_score": "NULL", "orig_destination_distance": "NULL", "random_bool": 1,
} | {
    f"comp{i}_{what}": "NULL" for i in range(1, 9) for what in ("rate", "inv", "rate_percent_diff")
} | {"click_bool": 0, "gross_bookings_usd": "NULL", "booking_bool": 0}  # fmt: skip

HISTORY = {"visitor_hist_starrating": 3.5, "visitor_hist_adr_usd": 100.0}
LATER = {"srch_id": 4, "date_time": "2013-06-05 12:27:51", "site_id": 5} | HISTORY
HOTELS = [
    HOTEL | {"click_bool": 1, "booking_bool": 1, "gross_bookings_usd": 120.5},
    HOTEL | {"prop_id": 10, "price_usd": 0.4, "prop_review_score": "NULL",
             "prop_location_score2": "NULL", "comp5_rate": -1, "comp5_inv": 0,
             "comp5_rate_percent_diff": 7, "position": 3},
    HOTEL | {"srch_id": 2, "date_time": "2013-05-01 00:00:00"},  # neither clicked nor booked
    HOTEL | {"srch_id": 2, "date_time": "2013-05-01 00:00:00"},
    HOTEL | {"srch_id": 3, "click_bool": 1},  # alone
    HOTEL | LATER | {"prop_id": 9, "prop_starrating": 5, "price_usd": 200.0, "click_bool": 0},
    HOTEL | LATER | {"price_usd": 5e6, "prop_starrating": 0, "click_bool": 1},
    HOTEL | LATER | {"prop_id": 10, "orig_destination_distance": 12.5, "click_bool": 0},
    HOTEL | {"srch_id": 5, "click_bool": 1},
    HOTEL | {"srch_id": 5, "click_bool": 1},
]  # fmt: skip

FLIGHT = {
    "set_id": 0, "alt": 1, "chosen": 0, "staySaturday": 0, "stayDurationMinutes": 571,
    "totalPrice": 52178, "totalTripDurationMinutes": 136, "dtd": 3, "nAirlines": 1, "nFlights": 2,
    "isContinental": 0, "isDomestic": 0, "outDepTime": 21600, "outArrTime": 43200, "origin": "O14",
    "destination": "D11", "airlines": "A7/A7", "depWeekDay": 0, "containsLCC": 1,
    "pointOfSale": "POS5",
}  # fmt: skip
FLIGHTS = [
    FLIGHT | {"chosen": 1},
    FLIGHT | {"alt": 2, "stayDurationMinutes": -83, "airlines": "A12/A7"},
    FLIGHT | {"set_id": 1, "chosen": 1},  # alone
    FLIGHT | {"set_id": 2, "origin": "O2", "nFlights": 4},
    FLIGHT | {"set_id": 2, "origin": "O2", "totalPrice": 0, "outDepTime": 0, "chosen": 1},
]


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


TABLES = {
    "expedia": {"train.csv": as_csv(HOTELS)},
    "outbrain": OUTBRAIN,
    "amadeus": {"amadeus_itinerary.csv": as_csv(FLIGHTS)},
}
LOADERS = {"expedia": load_expedia, "outbrain": load_outbrain, "amadeus": load_amadeus}
VIEWS = [(name, view) for name in LOADERS for view in ("paper", "full")]


def write(folder, data, **changed):
    folder.mkdir(exist_ok=True)
    for name, text in TABLES[data].items():
        text = changed.get(name.removesuffix(".csv"), text)
        if text is not None:
            (folder / name).write_text(text)
    return folder


def columns(raw):
    return dict(raw.columns)


def texts(column):
    return column.text().tolist()


def refusal(data, folder, view="paper"):
    with pytest.raises(InputError) as caught:
        columns(LOADERS[data](folder, view=view))
    return str(caught.value)


# Outbrain


def test_outbrain_sets_are_those_with_one_click_among_several(tmp_path):
    steps = []
    frame = load_outbrain(write(tmp_path, "outbrain"), on_step=steps.append).frame
    assert frame.set_ids.tolist() == [1, 2, 6]
    assert frame.offsets.tolist() == [0, 3, 5, 7]
    assert frame.chosen.tolist() == [0, 1, 1]
    assert frame.dropped == Dropped(without_choice=1, several_choices=1)
    assert frame.time.tolist() == [
        np.datetime64(f"2016-06-{day}").item() for day in ("14T04:00:00", "14T05:00:00", "24T04:00")
    ]
    assert (frame.roles.set, frame.roles.chosen, frame.roles.time) == (
        "display_id", "clicked", "timestamp"
    )  # fmt: skip
    assert steps[0] == "reading documents_meta.csv"
    assert "3 sets with one choice, 7 rows" in steps[6]
    assert "1 sets without a choice, 1 with several, 1 of one item" in steps[6]


def test_outbrain_ten_features_by_hand(tmp_path):
    raw = load_outbrain(write(tmp_path, "outbrain"))
    made = columns(raw)
    assert [str(feature) for feature in raw.frame.roles.items] == [
        "popularity(ad_id)", "popularity(campaign_id)", "popularity(advertiser_id)",
        "popularity(ad_category)", "popularity(ad_topic)", "popularity(advertiser_geography)",
        "category_similarity", "topic_similarity", "same_publisher", "log1p(ad_age_days)",
    ]  # fmt: skip
    assert [feature.column for feature in raw.frame.roles.items] == list(made)
    assert raw.frame.context == {}
    assert made["ad_id"].levels == ("7", "8", "9", "11")
    assert texts(made["ad_id"]) == ["7", "8", "9", "8", "9", "11", "7"]
    assert texts(made["campaign_id"]) == ["100", "101", "100", "101", "100", "102", "100"]
    assert texts(made["advertiser_id"]) == ["1000", "1000", "1001", "1000", "1001", "1002", "1000"]
    ad_7, ad_8 = "1403", "1500"
    assert texts(made["ad_category"]) == [ad_7, ad_8, "unknown", ad_8, "unknown", "unknown", ad_7]
    assert texts(made["ad_topic"]) == ["16", "7", "unknown", "7", "unknown", "unknown", "16"]
    assert texts(made["advertiser_geography"]) == [
        "1000 in US", "1000 in US", "1001 in US", "1000 in unknown", "1001 in unknown",
        "1002 in US", "1000 in US",
    ]  # fmt: skip
    # The page of display 1 is (0.8, 0.6) on 1702 and 1403, ad 7 is (1) on 1403, and ad 8 is
    # (0.6, 0.8) on 1702 and 1500 once its length is 1; the page of display 6 is ad 7's document.
    cosines = [0.6, 0.8 * 0.6, 0, 0, 0, 0, 1]
    np.testing.assert_allclose(made["category_similarity"].values, cosines, rtol=1e-6)
    # Ad 7's document keeps its three most confident topics: 0.1, 0.05, 0.05.
    cosines = [0.1 / np.sqrt(0.01 + 2 * 0.0025), 0, 0, 0, 0, 0, 1]
    np.testing.assert_allclose(made["topic_similarity"].values, cosines, rtol=1e-6)
    assert made["same_publisher"].values.tolist() == [1, 0, 0, 0, 0, 0, 1]
    # Published 10 days before; unknown thrice; in the future; 20 days before.
    assert made["ad_age_days"].values.tolist() == [10, 365, 365, 365, 365, 0, 20]


def test_outbrain_full_view_adds_to_the_ten(tmp_path):
    raw = load_outbrain(write(tmp_path, "outbrain"), view="full")
    made, context = columns(raw), raw.frame.context
    assert [feature.column for feature in raw.frame.roles.items] == list(made)
    assert [feature.column for feature in raw.frame.roles.context] == list(context)
    assert made["same_source"].values.tolist() == [1, 0, 0, 0, 0, 0, 1]
    assert texts(made["ad_publisher"]) == ["5", "6", "unknown", "6", "unknown", "unknown", "5"]
    assert texts(context["platform"]) == ["3", "unknown", "2"]
    assert texts(context["country"]) == ["US", "unknown", "US"]
    assert texts(context["state"]) == ["US>CA", "unknown", "US"]
    assert texts(context["hour"]) == ["4", "5", "4"]
    assert texts(context["weekday"]) == ["1", "1", "4"]  # a Tuesday and the Friday after the next
    assert context["page_age_days"].values.tolist() == [4, 365, 20]
    assert texts(context["page_category"]) == ["1702", "unknown", "1403"]


def test_outbrain_clicks_in_any_order_give_the_same_sets(tmp_path):
    header, *lines = OUTBRAIN["clicks_train.csv"].splitlines()
    mixed = "\n".join([header, *lines[1::2], *lines[::2]]) + "\n"
    one = load_outbrain(write(tmp_path / "sorted", "outbrain"))
    other = load_outbrain(write(tmp_path / "mixed", "outbrain", clicks_train=mixed))
    assert one.frame.set_ids.tolist() == other.frame.set_ids.tolist()
    picked = [
        [texts(made)[start + chosen] for start, chosen in zip(f.offsets, f.chosen, strict=False)]
        for made, f in ((columns(raw)["ad_id"], raw.frame) for raw in (one, other))
    ]
    assert picked == [["7", "9", "7"]] * 2


@pytest.mark.parametrize(
    ("table", "old", "new", "expected"),
    [
        ("clicks_train", "2,8,0", "2,77,0",
         "clicks_train.csv, line 5, column 'ad_id': ad 77 is not in promoted_content.csv"),
        ("clicks_train", "2,8,0", "2,8,2",
         "clicks_train.csv, line 5, column 'clicked': 2 is neither 0 nor 1"),
        ("clicks_train", "6,11,0\n6,7,1", "8,11,0\n8,7,1",
         "clicks_train.csv, line 12, column 'display_id': display 8 is not in events.csv"),
        ("events", "6,7765", "1,7765",
         "events.csv, line 7, column 'display_id': display 1 is there already"),
        ("promoted_content", "8,30", "7,30",
         "promoted_content.csv, line 4, column 'ad_id': ad 7 is there already"),
        ("documents_meta", "30,2", "10,2",
         "documents_meta.csv, line 4, column 'document_id': document 10 is there already"),
        ("documents_topics", "16,0.2", "16,-0.2",
         "documents_topics.csv, line 2, column 'confidence_level': '-0.2' is not a finite"),
    ],
)  # fmt: skip
def test_outbrain_ids_that_do_not_fit_together_are_refused(tmp_path, table, old, new, expected):
    assert old in OUTBRAIN[f"{table}.csv"]
    text = OUTBRAIN[f"{table}.csv"].replace(old, new)
    assert expected in refusal("outbrain", write(tmp_path, "outbrain", **{table: text}))


def test_similarity_is_the_cosine_of_the_three_most_confident_entries():
    rng = np.random.default_rng(0)
    documents, subjects = np.divmod(rng.permutation(40 * 8)[:150], 8)
    confidence = rng.random(150, np.float32)
    dense = np.zeros((41, 8))  # the last is the unknown document
    dense[documents, subjects] = confidence
    dense[dense < np.sort(dense)[:, [-3]]] = 0
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)
    about = Confidences.of(
        documents.astype(np.int32), subjects.astype(np.int32) + 1000, confidence, 40
    )
    pages, pairs = np.arange(-1, 40), np.repeat(np.arange(41), 5)
    ads = rng.integers(-1, 40, 41 * 5)
    expected = (dense[pages[pairs]] * dense[ads]).sum(1)
    assert 0.2 < np.mean(expected > 0) < 0.8
    np.testing.assert_allclose(about.similarity(pages, ads, pairs), expected, atol=1e-6)


# Expedia


def test_expedia_eight_features_by_hand(tmp_path):
    raw = load_expedia(write(tmp_path, "expedia"))
    made = columns(raw)
    assert [str(feature) for feature in raw.frame.roles.items] == [
        "log(price_usd)", "prop_starrating", "prop_review_score", "prop_brand_bool",
        "prop_location_score1", "sqrt(prop_location_score2)", "promotion_flag",
        "popularity(prop_id)",
    ]  # fmt: skip
    assert raw.frame.context == {}
    assert raw.frame.set_ids.tolist() == [1, 4]
    assert raw.frame.chosen.tolist() == [0, 1]
    assert raw.frame.dropped == Dropped(without_choice=1, several_choices=1)
    assert [str(time) for time in raw.frame.time] == ["2013-04-04T08:32:15", "2013-06-05T12:27:51"]
    assert made["price_usd"].values.tolist() == [104.5, 1, 200, 100_000, 104.5]
    assert made["prop_starrating"].values.tolist() == [3, 3, 5, 0, 3]
    assert made["prop_review_score"].values.tolist() == [3.5, 0, 3.5, 3.5, 3.5]
    assert made["prop_brand_bool"].values.tolist() == [1] * 5
    assert made["prop_location_score1"].values.tolist() == [2.5] * 5
    np.testing.assert_array_equal(
        made["prop_location_score2"].values, np.array([0.04, 0, 0.04, 0.04, 0.04], np.float32)
    )
    assert made["promotion_flag"].values.tolist() == [1] * 5
    assert made["prop_id"].levels == ("9", "10", "893")
    assert texts(made["prop_id"]) == ["893", "10", "9", "893", "10"]


def test_expedia_bookings_are_another_outcome(tmp_path):
    frame = load_expedia(write(tmp_path, "expedia"), outcome="book").frame
    assert frame.set_ids.tolist() == [1]
    assert frame.roles.chosen == "booking_bool"
    with pytest.raises(InputError, match="outcome='buy' is not one of: click, book"):
        load_expedia(tmp_path, outcome="buy")


def test_expedia_full_view_adds_to_the_eight(tmp_path):
    raw = load_expedia(write(tmp_path, "expedia"), view="full")
    made, context = columns(raw), raw.frame.context
    assert {feature.column for feature in raw.frame.roles.items} == set(made)
    assert {feature.column for feature in raw.frame.roles.context} == set(context)
    above = made["stars_above_history"].values
    assert np.isnan(above[:2]).all()
    assert above[2:].tolist() == [1.5, -3.5, -0.5]
    np.testing.assert_allclose(
        made["log_price_above_history"].values[2:], np.log([2, 1000, 1.045]), rtol=1e-5
    )
    assert texts(made["review_level"]) == ["3.5", "unknown", "3.5", "3.5", "3.5"]
    assert texts(made["star_level"]) == ["3", "3", "5", "0", "3"]
    assert made["comp5_rate"].values.tolist() == [0, -1, 0, 0, 0]
    np.testing.assert_allclose(made["comp5_difference"].values[1], -np.log(8), rtol=1e-6)
    assert made["comp1_inv"].values.tolist() == [0] * 5
    assert np.isnan(made["orig_destination_distance"].values).tolist() == [1, 1, 1, 1, 0]
    assert texts(context["site_id"]) == ["12", "5"]
    assert context["date_time"].kind == "date"
    assert context["srch_adults_count"].values.tolist() == [4, 4]


def test_expedia_context_must_be_one_value_a_search(tmp_path):
    text = as_csv([*HOTELS[:1], HOTELS[1] | {"site_id": 7}, *HOTELS[2:]])
    message = refusal("expedia", write(tmp_path, "expedia", train=text), "full")
    assert "train.csv, line 3, column 'site_id': the value differs" in message


def test_expedia_parquet_reads_as_csv_does(tmp_path):
    folder = write(tmp_path / "csv", "expedia")
    frame = pl.read_csv(folder / "train.csv", null_values="NULL")
    frame.with_columns(source=pl.lit("more")).write_parquet(tmp_path / "hotels.parquet")
    for view in ("paper", "full"):
        one = columns(load_expedia(folder, view))
        other = columns(load_expedia(tmp_path / "hotels.parquet", view))
        assert list(one) == list(other)
        for name, column in one.items():
            np.testing.assert_array_equal(column.values, other[name].values)
            assert column.levels == other[name].levels


# Amadeus


def test_amadeus_paper_view_is_the_table_as_it_is(tmp_path):
    raw = load_amadeus(write(tmp_path, "amadeus"))
    made, context = columns(raw), raw.frame.context
    named = [f.column for f in (*raw.frame.roles.items, *raw.frame.roles.context)]
    assert len(named) == 17
    assert sorted(named) == sorted(set(FLIGHT) - {"set_id", "alt", "chosen"})
    assert sorted(named) == sorted([*made, *context])
    assert raw.frame.set_ids.tolist() == [0, 2]
    assert raw.frame.chosen.tolist() == [0, 1]
    assert made["totalPrice"].values.tolist() == [52178, 52178, 52178, 0]
    assert made["stayDurationMinutes"].values.tolist() == [571, -83, 571, 571]
    assert texts(made["airlines"]) == ["A7/A7", "A12/A7", "A7/A7", "A7/A7"]
    assert made["airlines"].levels == ("A12/A7", "A7/A7")
    assert texts(context["origin"]) == ["O14", "O2"]


def test_amadeus_full_view_transforms(tmp_path):
    raw = load_amadeus(write(tmp_path, "amadeus"), view="full")
    made = columns(raw)
    assert {feature.column for feature in raw.frame.roles.items} == set(made)
    assert made["totalPrice"].values.tolist() == [52178, 52178, 52178, 1]
    assert made["stayDurationMinutes"].values.tolist() == [571, 0, 571, 571]
    # Departures at six in the morning, but for the last, at midnight; arrivals at noon.
    np.testing.assert_allclose(made["departure_sine"].values, [1, 1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(made["departure_cosine"].values, [0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(made["arrival_cosine"].values, [-1] * 4, atol=1e-6)
    assert texts(made["first_airline"]) == ["A7", "A12", "A7", "A7"]
    assert texts(made["nFlights"]) == ["2", "2", "4", "2"]


# All of them


@pytest.mark.parametrize(("data", "view"), VIEWS)
def test_features_are_never_the_set_or_the_choice(tmp_path, data, view):
    raw = LOADERS[data](write(tmp_path, data), view=view)
    used = [feature.column for feature in (*raw.frame.roles.items, *raw.frame.roles.context)]
    outcomes = ("position", "gross_bookings_usd", "click_bool", "booking_bool", "clicked", "chosen")
    for name in [*used, *raw.frame.context, *columns(raw)]:
        assert not any(outcome in name for outcome in (*outcomes, raw.frame.roles.set))
    assert len(set(used)) == len(used)


def moved_choice(text, marks):
    """The same table, the choice of its first set on the set's second row, outcomes altered."""
    rows = list(csv.DictReader(io.StringIO(text)))
    rows[0] |= dict.fromkeys(marks, 0) | ({"position": 9} if "position" in rows[0] else {})
    rows[1] |= dict.fromkeys(marks, 1)
    if "gross_bookings_usd" in rows[0]:
        rows[0]["gross_bookings_usd"], rows[1]["gross_bookings_usd"] = "NULL", 99.5
    return as_csv(rows)


@pytest.mark.parametrize(("data", "view"), VIEWS)
def test_the_choice_changes_no_feature(tmp_path, data, view):
    table, marks = {
        "expedia": ("train", ["click_bool", "booking_bool"]),
        "outbrain": ("clicks_train", ["clicked"]),
        "amadeus": ("amadeus_itinerary", ["chosen"]),
    }[data]
    text = TABLES[data][f"{table}.csv"]
    one = LOADERS[data](write(tmp_path / "one", data, **{table: text}), view=view)
    moved = write(tmp_path / "moved", data, **{table: moved_choice(text, marks)})
    other = LOADERS[data](moved, view=view)
    assert (one.frame.chosen[0], other.frame.chosen[0]) == (0, 1)
    pairs = [(columns(one), columns(other)), (one.frame.context, other.frame.context)]
    for ours, theirs in pairs:
        assert list(ours) == list(theirs)
        for name, column in ours.items():
            np.testing.assert_array_equal(column.values, theirs[name].values)
            assert column.levels == theirs[name].levels


def test_expedia_needs_no_column_of_outcomes_but_the_one_asked_for(tmp_path):
    dropped = ("position", "gross_bookings_usd", "booking_bool")
    text = as_csv([{k: v for k, v in row.items() if k not in dropped} for row in HOTELS])
    assert len(load_expedia(write(tmp_path, "expedia", train=text), "full").frame) == 2


FILES = [(data, name) for data, tables in TABLES.items() for name in tables]


def spoiled(text, kind):
    """A table with one fault, and where the message must say it is."""
    header, first, second, *rest = text.splitlines()
    names = header.split(",")
    if kind == "missing column":
        return text.replace(names[0], "renamed", 1), f"line 1: there is no column '{names[0]}'"
    faults = {
        "too few": (second.rpartition(",")[0], f"line 3, column '{names[-1]}': the line ends"),
        "too many": (second + ",1", f"line 3, column '{names[-1]}': the line has {len(names) + 1}"),
        "stray quote": ('"' + second, f"line 3, column '{names[0]}': a quote opens"),
        "wrong type": ("x" + second, f"line 3, column '{names[0]}': 'x"),
        "missing value": (second[second.index(",") :], f"line 3, column '{names[0]}': the value"),
    }
    line, expected = faults[kind]
    return "\n".join([header, first, line, *rest]) + "\n", expected


KINDS = ("missing column", "too few", "too many", "stray quote", "wrong type", "missing value")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("data", "name"), FILES)
def test_a_spoiled_table_is_named_with_line_and_column(tmp_path, data, name, kind):
    text, expected = spoiled(TABLES[data][name], kind)
    message = refusal(data, write(tmp_path, data, **{name.removesuffix(".csv"): text}))
    assert f"{tmp_path / name}, {expected}" in message


@pytest.mark.parametrize(("data", "name"), FILES)
def test_a_table_that_is_absent_empty_or_only_a_header_is_refused(tmp_path, data, name):
    table = name.removesuffix(".csv")
    folder = write(tmp_path / "absent", data, **{table: None})
    (folder / "notes.txt").touch()
    assert f"has no {name}" in refusal(data, folder)
    folder = write(tmp_path / "empty", data, **{table: ""})
    assert f"{folder / name} is empty: line 1" in refusal(data, folder)
    header = TABLES[data][name].partition("\n")[0]
    folder = write(tmp_path / "header", data, **{table: header})
    assert f"{folder / name} has columns but no rows" in refusal(data, folder)


@pytest.mark.parametrize(("data", "name"), FILES)
def test_a_zipped_table_reads_the_same_and_a_truncated_one_is_refused(tmp_path, data, name):
    plain = columns(LOADERS[data](write(tmp_path / "plain", data)))
    folder = write(tmp_path / "zipped", data)
    packed = folder / f"{name}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / name, name)
    (folder / name).unlink()
    before = sorted(folder.iterdir())
    for column, same in zip(plain.values(), columns(LOADERS[data](folder)).values(), strict=True):
        np.testing.assert_array_equal(column.values, same.values)
    os.truncate(packed, packed.stat().st_size - 30)
    assert f"{packed} is not a whole zip" in refusal(data, folder)
    assert sorted(folder.iterdir()) == before  # nothing was unpacked beside it


@pytest.mark.parametrize(("data", "name"), FILES)
def test_a_truncated_gz_is_refused(tmp_path, data, name):
    folder = write(tmp_path, data)
    packed = folder / f"{name}.gz"
    packed.write_bytes(gzip.compress((folder / name).read_bytes())[:-12])
    (folder / name).unlink()
    assert f"{packed} is damaged or cut off" in refusal(data, folder)


@pytest.mark.parametrize("data", LOADERS)
def test_an_unknown_view_is_refused(tmp_path, data):
    assert "view='wide' is not one of: paper, full" in refusal(data, tmp_path, "wide")


def test_data_without_any_set_of_one_choice_are_refused(tmp_path):
    text = OUTBRAIN["clicks_train.csv"].replace(",1\n", ",0\n")
    message = refusal("outbrain", write(tmp_path, "outbrain", clicks_train=text))
    assert "clicks_train.csv: no set has exactly one clicked" in message


# Real samples


@pytest.mark.parametrize(("chosen", "sets"), [("click", 3783), ("book", 2840)])
@pytest.mark.parametrize("view", ["paper", "full"])
def test_the_real_sample_of_expedia_reads(chosen, sets, view):
    raw = load_expedia(sample("expedia_full.parquet"), view, chosen)
    assert len(raw.frame) == sets
    assert raw.frame.sizes.min() == 5  # so no set of one item was left out
    for _, column in raw.columns:
        assert len(column.values) == raw.frame.offsets[-1]
        assert column.levels is None or (column.values.min(), column.values.max()) == (
            0, len(column.levels) - 1,
        )  # fmt: skip


@pytest.mark.parametrize("view", ["paper", "full"])
def test_the_real_sample_of_amadeus_reads(tmp_path, view):
    steps = []
    shutil.copy(sample("amadeus_itinerary.parquet"), tmp_path)
    raw = load_amadeus(tmp_path, view, steps.append)
    assert len(raw.frame) == 612
    assert "3 of one item" in steps[1]  # 615 in all
    assert all(len(column.values) == raw.frame.offsets[-1] for _, column in raw.columns)

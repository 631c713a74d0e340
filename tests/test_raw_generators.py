"""Generated raw files: the real formats, and choices from the truth that the generators state."""

import io
import tracemalloc
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from beside import sample
from setwise._errors import InputError
from setwise.paper.raw import imitated_amadeus, imitated_expedia, imitated_outbrain
from setwise.paper.raw.drawing import LABEL, LOSS_AVERSION, DrawnSets, context_scores, pick, popular
from setwise.paper.raw.imitated_amadeus import amadeus
from setwise.paper.raw.imitated_expedia import COMPETITORS, expedia
from setwise.paper.raw.imitated_outbrain import FILES, outbrain

GENERATORS = {"outbrain": outbrain, "expedia": expedia, "amadeus": amadeus}
MODULES = {
    "outbrain": imitated_outbrain,
    "expedia": imitated_expedia,
    "amadeus": imitated_amadeus,
}
SETS = {"outbrain": 2000, "expedia": 600, "amadeus": 300}
NAMES = {"outbrain": FILES, "expedia": ("train.csv",), "amadeus": ("amadeus_itinerary.parquet",)}
every_format = pytest.mark.parametrize("name", GENERATORS)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The folder and the truth of each format, drawn once."""
    folders = {name: tmp_path_factory.mktemp(name) for name in GENERATORS}
    return {
        name: (folders[name], GENERATORS[name](folders[name], SETS[name], seed=3))
        for name in GENERATORS
    }


def read(folder: Path, name: str) -> pl.DataFrame:
    return pl.read_csv(folder / name, null_values=["NULL", ""], infer_schema_length=None)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def near(share: float, expected: float, draws: int) -> bool:
    """Within four standard errors."""
    return abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / draws)


# The formats


def test_outbrain_has_the_columns_of_the_competition(drawn):
    folder, _ = drawn["outbrain"]
    headers = {name: (folder / name).read_text().partition("\n")[0] for name in FILES}
    assert headers == {
        "clicks_train.csv": "display_id,ad_id,clicked",
        "events.csv": "display_id,uuid,document_id,timestamp,platform,geo_location",
        "promoted_content.csv": "ad_id,document_id,campaign_id,advertiser_id",
        "documents_meta.csv": "document_id,source_id,publisher_id,publish_time",
        "documents_categories.csv": "document_id,category_id,confidence_level",
        "documents_topics.csv": "document_id,topic_id,confidence_level",
    }


def test_outbrain_displays_are_consecutive_and_show_different_ads(drawn):
    clicks = read(drawn["outbrain"][0], "clicks_train.csv")
    assert clicks["display_id"].is_sorted()
    assert clicks["display_id"].unique().sort().to_list() == list(range(1, SETS["outbrain"] + 1))
    assert not clicks.select("display_id", "ad_id").is_duplicated().any()
    sizes = clicks.group_by("display_id").len()["len"]
    assert sizes.min() >= 2
    assert sizes.max() <= 12
    assert sizes.mean() == pytest.approx(5.2, abs=4 * 2 / np.sqrt(SETS["outbrain"]))


def test_outbrain_events_hold_all_displays_and_more(drawn):
    events = read(drawn["outbrain"][0], "events.csv")
    assert events["display_id"].to_list() == list(range(1, round(1.37 * SETS["outbrain"]) + 1))
    assert events["timestamp"].head(SETS["outbrain"]).is_sorted()
    assert events["timestamp"].min() >= 0
    assert events["timestamp"].max() < 15 * 86_400_000
    assert set(events["platform"].cast(pl.String)) <= {"1", "2", "3", "\\N"}
    assert events["uuid"].str.contains("^[0-9a-f]{14}$").all()
    assert events["uuid"].n_unique() < events.height
    geography = events["geo_location"].drop_nulls()
    assert geography.str.contains(r"^[A-Z]{2}(>[A-Z0-9]{2}(>\d{3})?)?$").all()
    assert (geography.str.slice(0, 2) == "US").mean() > 0.7


def test_outbrain_ids_lead_from_file_to_file(drawn):
    folder, _ = drawn["outbrain"]
    tables = {name: read(folder, name) for name in FILES}
    ads, meta = tables["promoted_content.csv"], tables["documents_meta.csv"]
    assert ads["ad_id"].is_unique().all()
    assert meta["document_id"].is_unique().all()
    assert tables["clicks_train.csv"]["ad_id"].is_in(ads["ad_id"].implode()).all()
    assert tables["clicks_train.csv"]["ad_id"].n_unique() < ads.height
    for name in set(FILES) - {"clicks_train.csv"}:
        assert tables[name]["document_id"].is_in(meta["document_id"].implode()).all()


def test_outbrain_documents_have_categories_topics_and_gaps(drawn):
    folder, _ = drawn["outbrain"]
    meta = read(folder, "documents_meta.csv")
    years = meta["publish_time"].drop_nulls().str.slice(0, 4).cast(pl.Int32)
    assert near(meta["publish_time"].null_count() / meta.height, 0.34, meta.height)
    assert near(meta["publisher_id"].null_count() / meta.height, 0.02, meta.height)
    assert not years.is_between(1990, 2016).all()
    for kind, most in (("categories", 2), ("topics", 8)):
        table = read(folder, f"documents_{kind}.csv")
        assert table.group_by("document_id").len()["len"].max() == most
        assert not table.drop("confidence_level").is_duplicated().any()
        assert table["confidence_level"].is_between(0, 1).all()
        assert (table.group_by("document_id").agg(pl.sum("confidence_level"))["confidence_level"]
                <= 1).all()  # fmt: skip
    categorised = read(folder, "documents_categories.csv")["document_id"].n_unique()
    assert categorised == meta.height


def test_popularity_is_heavy_tailed():
    counts = np.sort(np.bincount(popular(np.random.default_rng(0), 100_000, 1000)))[::-1]
    assert counts[:10].sum() > 0.1 * counts.sum()  # 1 % of the ads have a tenth of the views
    assert counts[500:].sum() < 0.2 * counts.sum()
    assert counts[0] > 30 * counts[-1]


def test_expedia_has_the_form_of_the_competition(drawn):
    folder, _ = drawn["expedia"]
    table = read(folder, "train.csv")
    assert table.width == 54
    searches = table["srch_id"].unique()
    assert table["srch_id"].is_sorted()
    assert len(searches) == SETS["expedia"]
    assert searches.max() > SETS["expedia"]
    assert ",NULL," in (folder / "train.csv").read_text()
    assert table["date_time"].str.contains(r"^201[23]-\d\d-\d\d \d\d:\d\d:\d\d$").all()
    by_search = table.group_by("srch_id").agg(
        pl.len(), pl.col("position").sort(), pl.n_unique("prop_id"), pl.n_unique("date_time")
    )
    assert by_search["len"].is_between(5, 38).all()
    assert (by_search["prop_id"] == by_search["len"]).all()
    assert (by_search["date_time"] == 1).all()
    for size, positions in by_search.select("len", "position").iter_rows():
        assert positions == list(range(1, size + 1))


def test_expedia_outcomes_fit_together(drawn):
    table = read(drawn["expedia"][0], "train.csv")
    assert table.filter(pl.col("booking_bool") == 1)["click_bool"].min() == 1
    paid = table["gross_bookings_usd"].is_not_null()
    assert table.filter(paid)["booking_bool"].min() == 1
    assert table.filter(~paid)["booking_bool"].max() == 1  # some bookings do not say
    outcomes = table.group_by("srch_id").agg(pl.sum("click_bool"), pl.sum("booking_bool"))
    assert outcomes["click_bool"].min() == 1
    assert outcomes["booking_bool"].max() == 1
    assert near((outcomes["click_bool"] > 1).mean(), 0.064, SETS["expedia"])
    assert near(outcomes["booking_bool"].mean(), 0.69, SETS["expedia"])


def test_expedia_misses_values_where_the_real_file_does(drawn):
    table = read(drawn["expedia"][0], "train.csv")
    missing = {name: table[name].null_count() / table.height for name in table.columns}
    for number, (known, differing) in enumerate(COMPETITORS, start=1):
        assert near(missing[f"comp{number}_rate"], 1 - known, table.height)
        assert near(missing[f"comp{number}_rate_percent_diff"], 1 - known * differing, table.height)
        assert missing[f"comp{number}_inv"] < missing[f"comp{number}_rate"]
    of_search = table.group_by("srch_id").first()
    for name, share in (
        ("visitor_hist_starrating", 0.955),
        ("visitor_hist_adr_usd", 0.955),
        ("orig_destination_distance", 0.315),
        ("srch_query_affinity_score", 0.934),
    ):
        assert near(of_search[name].null_count() / of_search.height, share, of_search.height)
    never = [name for name, share in missing.items() if share == 0]
    assert len(never) >= 54 - 24 - 7
    assert {"price_usd", "prop_id", "click_bool", "date_time", "position"} <= set(never)


def test_expedia_prices_are_skewed_with_absurd_ones(tmp_path):
    expedia(tmp_path, sets=1000)
    price = read(tmp_path, "train.csv")["price_usd"]
    assert 90 < price.median() < 160
    assert price.max() > 20 * price.quantile(0.99)
    assert price.min() < 10


@pytest.mark.parametrize(
    ("name", "file"),
    [("expedia", "expedia_full.parquet"), ("amadeus", "amadeus_itinerary.parquet")],
)
def test_columns_are_those_of_the_real_sample(drawn, name, file):
    real = pl.read_parquet(sample(file), n_rows=1).drop("source", strict=False)
    folder, _ = drawn[name]
    if name == "amadeus":
        assert pl.read_parquet(folder / file).schema == real.schema
        return
    ours = read(folder, "train.csv")
    assert ours.columns == real.columns
    text = [column for column in real.columns if real[column].dtype == pl.String]
    assert [column for column in ours.columns if ours[column].dtype == pl.String] == text


def test_amadeus_itineraries_are_consistent(drawn):
    table = pl.read_parquet(drawn["amadeus"][0] / "amadeus_itinerary.parquet")
    assert table["set_id"].is_sorted()
    assert table["set_id"].n_unique() == SETS["amadeus"]
    assert table.null_count().sum_horizontal().item() == 0
    flown = table["airlines"].str.split("/")
    assert (flown.list.len() == table["nFlights"]).all()
    assert (flown.list.n_unique() == table["nAirlines"]).all()
    by_search = table.group_by("set_id").agg(
        pl.sum("chosen"), pl.len(), pl.col("totalPrice").diff().min(), pl.n_unique("origin")
    )
    assert (by_search["chosen"] == 1).all()
    assert by_search["len"].is_between(1, 50).all()
    assert by_search["totalPrice"].drop_nulls().min() >= 0  # by increasing price
    assert (by_search["origin"] == 1).all()


# The truth


def outbrain_features(folder: Path, parameters) -> pl.DataFrame:
    """f of every click row, from the files and the stated appeal alone."""
    categories = read(folder, "documents_categories.csv")
    length = (pl.col("confidence_level") ** 2).sum().sqrt().over("document_id")
    unit = categories.with_columns(confidence_level=pl.col("confidence_level") / length)
    appeal = pl.DataFrame({"ad_id": parameters["ad_id"], "appeal": parameters["appeal"]})
    published = read(folder, "documents_meta.csv").select(
        pl.col("document_id").alias("ad_document"), pl.col("publish_time").str.to_datetime()
    )
    rows = (
        read(folder, "clicks_train.csv")
        .join(read(folder, "events.csv").select("display_id", "document_id", "timestamp"),
              on="display_id", how="left", maintain_order="left")
        .join(read(folder, "promoted_content.csv").select(
                  "ad_id", pl.col("document_id").alias("ad_document")),
              on="ad_id", how="left", maintain_order="left")
        .join(published, on="ad_document", how="left", maintain_order="left")
        .join(appeal, on="ad_id", how="left", maintain_order="left")
    )  # fmt: skip
    cosine = (
        rows.select("display_id", "ad_id", "document_id", "ad_document")
        .join(unit, on="document_id")
        .join(unit, left_on=["ad_document", "category_id"], right_on=["document_id", "category_id"])
        .group_by("display_id", "ad_id")
        .agg(cosine=(pl.col("confidence_level") * pl.col("confidence_level_right")).sum())
    )
    viewed = pl.from_epoch(pl.col("timestamp") + 1_465_876_799_998, time_unit="ms")
    days = (viewed - pl.col("publish_time")).dt.total_milliseconds() / 86_400_000
    return rows.join(
        cosine, on=["display_id", "ad_id"], how="left", maintain_order="left"
    ).with_columns(
        set=pl.col("display_id"),
        chosen=pl.col("clicked"),
        category_similarity=1.5 * pl.col("cosine").fill_null(0),
        freshness=-days.fill_null(365).clip(0, 3650).log1p() / 1.5,
    )


def expedia_features(folder: Path, parameters) -> pl.DataFrame:
    appeal = pl.DataFrame({"prop_id": parameters["prop_id"], "appeal": parameters["appeal"]})
    return (
        read(folder, "train.csv")
        .join(appeal, on="prop_id", how="left", maintain_order="left")
        .with_columns(
            set=pl.col("srch_id"),
            chosen=pl.col("click_bool"),
            cheapness=-2.5 * pl.col("price_usd").clip(10, 1000).log(),
            stars=pl.col("prop_starrating"),
            review=pl.col("prop_review_score").fill_null(0),
            location=4 * pl.col("prop_location_score2").fill_null(0).sqrt(),
            promotion=pl.col("promotion_flag"),
        )
    )


def amadeus_features(folder: Path, parameters) -> pl.DataFrame:
    return pl.read_parquet(folder / "amadeus_itinerary.parquet").with_columns(
        set=pl.col("set_id"),
        cheapness=-6 * pl.col("totalPrice").log(),
        speed=-2 * pl.col("totalTripDurationMinutes").log(),
        directness=2.0 - pl.col("nFlights"),
        low_cost=pl.col("containsLCC"),
    )


FEATURES = {"outbrain": outbrain_features, "expedia": expedia_features, "amadeus": amadeus_features}


def with_probabilities(rows: pl.DataFrame, parameters) -> pl.DataFrame:
    """The rows of sets with one choice, with P(x | s) by the formula, written a second time."""
    terms = []
    for name, weight in parameters["weights"].items():
        f = pl.col(name).cast(pl.Float64)
        extent = (f.max() - f.min()).over("set")
        felt = (f - f.mean().over("set")).tanh()
        losses = parameters["loss_aversion"]
        terms.append(weight * extent * pl.when(felt < 0).then(losses * felt).otherwise(felt))
    odds = pl.sum_horizontal(terms).exp()
    return rows.filter(pl.col("chosen").sum().over("set") == 1).with_columns(
        probability=odds / odds.sum().over("set")
    )


@every_format
def test_the_files_hold_choices_of_the_stated_model(drawn, name):
    folder, truth = drawn[name]
    rows = with_probabilities(FEATURES[name](folder, truth.parameters), truth.parameters)
    p = rows["probability"]
    entropy = rows.group_by("set").agg((-pl.col("probability") * pl.col("probability").log()).sum())
    chosen = rows.filter(pl.col("chosen") == 1)["probability"]
    assert len(chosen) == truth.one_choice
    assert entropy["probability"].mean() == pytest.approx(truth.expected_nll, rel=1e-9)
    best = rows.group_by("set").agg(pl.max("probability"))["probability"]
    assert best.mean() == pytest.approx(truth.expected_top1, rel=1e-9)
    realised = -chosen.log()
    error = realised.std() / np.sqrt(len(realised))
    assert abs(realised.mean() - truth.expected_nll) < 4 * error
    # Calibrated too: items that the model gives a small chance are chosen as rarely as it says.
    unlikely = rows.filter(p < p.median())
    expected = unlikely["probability"].sum()
    assert abs(unlikely["chosen"].sum() - expected) < 4 * np.sqrt(expected)


@every_format
def test_no_multinomial_logit_reaches_the_truth(drawn, name):
    folder, truth = drawn[name]
    rows = with_probabilities(FEATURES[name](folder, truth.parameters), truth.parameters)
    x = rows.select(*truth.parameters["weights"]).to_numpy().astype(float)
    x = (x - x.mean(0)) / x.std(0)
    p = rows["probability"].to_numpy()
    sets = DrawnSets(rows["set"].rle().struct[0].to_numpy().astype(int))

    def expected_loss(beta):
        scores = x @ beta
        scores -= sets.spread(np.maximum.reduceat(scores, sets.offsets[:-1]))
        scores -= sets.spread(np.log(np.add.reduceat(np.exp(scores), sets.offsets[:-1])))
        return -(p @ scores) / truth.one_choice, (np.exp(scores) - p) @ x / truth.one_choice

    best = minimize(expected_loss, np.zeros(x.shape[1]), jac=True)
    assert best.fun > truth.expected_nll + 0.02


def test_a_third_item_changes_the_odds_of_two():
    """IIA by hand: adding 4 to {0, 1} moves the mean from 1/2 to 5/3 and the range from 1 to 4."""
    two = context_scores({"f": np.array([0.0, 1.0])}, {"f": 1.0}, DrawnSets(np.array([2])))
    three = context_scores({"f": np.array([0.0, 1.0, 4.0])}, {"f": 1.0}, DrawnSets(np.array([3])))
    assert two[1] - two[0] == pytest.approx((1 + LOSS_AVERSION) * np.tanh(0.5))
    by_hand = 4 * LOSS_AVERSION * (np.tanh(5 / 3) - np.tanh(2 / 3))
    assert three[1] - three[0] == pytest.approx(by_hand)
    assert by_hand != pytest.approx(two[1] - two[0], rel=0.5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1), st.integers(0, 99))
def test_exactly_as_many_items_are_picked_as_asked(wanted, seed):
    sizes, counts = np.array(wanted).T
    rng, sets = np.random.default_rng(seed), DrawnSets(sizes)
    picked = pick(rng, rng.normal(0, 5, sets.rows), sets, counts)
    assert np.add.reduceat(picked, sets.offsets[:-1], dtype=int).tolist() == (
        np.minimum(sizes, counts).tolist()
    )


def test_outbrain_has_displays_without_and_with_two_clicks(tmp_path, monkeypatch):
    monkeypatch.setattr(imitated_outbrain, "CLICKS", {1: 0.4, 0: 0.3, 2: 0.3})
    truth = outbrain(tmp_path, sets=1000)
    clicks = read(tmp_path, "clicks_train.csv").group_by("display_id").agg(pl.sum("clicked"))
    shares = {n: (clicks["clicked"] == n).mean() for n in range(3)}
    assert sum(shares.values()) == pytest.approx(1)
    assert near(shares[0], 0.3, 1000)
    assert near(shares[2], 0.3, 1000)
    assert truth.one_choice == (clicks["clicked"] == 1).sum()


def test_about_one_display_in_a_thousand_has_another_number_of_clicks(tmp_path):
    truth = outbrain(tmp_path, sets=20_000)
    assert near(1 - truth.one_choice / 20_000, 0.001, 20_000)


# Seeds, chunks and memory


@every_format
def test_the_same_seed_gives_the_same_bytes(drawn, name, tmp_path):
    folder, truth = drawn[name]
    again = GENERATORS[name](tmp_path, SETS[name], seed=3)
    assert contents(tmp_path) == contents(folder)
    assert (again.expected_nll, again.one_choice) == (truth.expected_nll, truth.one_choice)


@every_format
def test_another_seed_gives_other_choices(drawn, name, tmp_path):
    GENERATORS[name](tmp_path, SETS[name], seed=4)
    ours, others = contents(tmp_path), contents(drawn[name][0])
    assert ours.keys() == others.keys()
    assert not any(ours[file] == others[file] for file in ours)


@every_format
def test_chunks_leave_no_seam(name, tmp_path, monkeypatch):
    monkeypatch.setattr(MODULES[name], "SETS_PER_CHUNK", 7)
    done: list[int] = []
    truth = GENERATORS[name](tmp_path, 50, on_sets=done.append)
    assert done == [7, 14, 21, 28, 35, 42, 49, 50]
    rows = FEATURES[name](tmp_path, truth.parameters)
    assert len(rows["set"].rle()) == rows["set"].n_unique() == 50
    assert rows["set"].is_sorted()
    known = with_probabilities(rows, truth.parameters)
    entropy = -(known["probability"] * known["probability"].log()).sum()
    assert entropy / truth.one_choice == pytest.approx(truth.expected_nll, rel=1e-9)
    # Other chunks are drawn from other random numbers, not the first ones over again.
    sizes = rows.group_by("set", maintain_order=True).len()["len"].to_list()
    assert sizes[:7] != sizes[7:14]


@pytest.mark.parametrize("name", ["outbrain", "expedia"])
def test_memory_does_not_grow_with_the_number_of_sets(name, tmp_path, monkeypatch):
    monkeypatch.setattr(MODULES[name], "SETS_PER_CHUNK", 100)

    def peak(sets: int) -> int:
        tracemalloc.start()
        GENERATORS[name](tmp_path, sets)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100)  # the first call imports
    assert peak(1600) < 1.2 * peak(400)


# Files


@pytest.mark.parametrize("name", ["outbrain", "expedia"])
def test_zipped_files_hold_the_plain_ones(drawn, name, tmp_path):
    GENERATORS[name](tmp_path, SETS[name], seed=3, zipped=True)
    plain, zipped = contents(drawn[name][0]), contents(tmp_path)
    assert set(zipped) == {f"{file}.zip" for file in NAMES[name]} | {LABEL}
    for file in NAMES[name]:
        with zipfile.ZipFile(io.BytesIO(zipped[f"{file}.zip"])) as archive:
            assert archive.namelist() == [file]
            assert archive.read(file) == plain[file]


@every_format
@pytest.mark.parametrize("label", [None, "my notes\n"])
@pytest.mark.parametrize("ending", ["", ".zip"])
def test_files_that_may_be_real_are_never_touched(name, label, ending, tmp_path):
    real = tmp_path / (NAMES[name][-1] + ending)
    real.write_text("precious")
    if label is not None:
        (tmp_path / LABEL).write_text(label)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="real data") as error:
        GENERATORS[name](tmp_path, 20)
    assert str(real) in str(error.value)
    assert contents(tmp_path) == before


def test_generated_files_are_replaced_in_either_form(tmp_path):
    expedia(tmp_path, 20, zipped=True)
    expedia(tmp_path, 20)
    assert set(contents(tmp_path)) == {"train.csv", LABEL}


@every_format
def test_the_label_says_what_the_files_are(drawn, name):
    folder, truth = drawn[name]
    label = (folder / LABEL).read_text()
    assert "generated by setwise" in label
    assert "not real data" in label
    assert f"Sets: {SETS[name]}. Seed: 3." in label
    assert truth.description in label
    assert "Unfinished" not in label


@every_format
def test_an_interrupted_folder_is_labelled_and_holds_no_half_file(name, tmp_path, monkeypatch):
    monkeypatch.setattr(MODULES[name], "SETS_PER_CHUNK", 10)

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GENERATORS[name](tmp_path, 30, on_sets=interrupt)
    left = contents(tmp_path)
    assert b"Unfinished" in left.pop(LABEL)
    assert not set(left) & {"clicks_train.csv", "events.csv", *NAMES["expedia"], *NAMES["amadeus"]}
    assert not any(file.endswith(".part") for file in left)
    GENERATORS[name](tmp_path, 30)
    assert set(contents(tmp_path)) == {*NAMES[name], LABEL}


@every_format
def test_bad_arguments_are_refused_before_anything_is_written(name, tmp_path):
    inside = tmp_path / "new"
    generate = partial(GENERATORS[name], inside)
    with pytest.raises(InputError, match="sets=0"):
        generate(0)
    with pytest.raises(InputError, match="seed=-1"):
        generate(10, seed=-1)
    assert not inside.exists()
    inside.write_text("a file")
    with pytest.raises(InputError, match="is a file; name a folder"):
        generate(10)

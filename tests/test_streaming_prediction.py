"""Predicting a file in parts gives what predicting the whole table gives."""

import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import setwise as sw
from scored import as_fitted
from setwise._executor import in_threads
from setwise.choices import Encoded, save_choices
from setwise.cli import app
from setwise.scoring import Scorer, predict_file, prediction

BRANDS = ("red", "blue", "green")
GRADES = (1.0, 2.0, 2.5)
ROLES = {
    "set": "trip",
    "chosen": "taken",
    "items": ["cost", "brand", "category(line)", "category(grade)", "impute(review)"],
    "context": ["income"],
}


def trips(sizes: list[int], seed: int = 0) -> pl.DataFrame:
    """Sets of these sizes, side by side, with a column of every kind that a model reads."""
    rng = np.random.default_rng(seed)
    sets = np.repeat(np.arange(len(sizes)), sizes)
    rows = len(sets)
    review = rng.normal(size=rows)
    review[rng.random(rows) < 0.3] = np.nan
    grade = rng.choice(GRADES, rows)
    grade[0] = 2.5  # levels are written 1.0 and not 1 as long as some number is not whole
    starts = np.cumsum([0, *sizes[:-1]])
    return pl.DataFrame(
        {
            "trip": sets,
            "cost": rng.normal(size=rows).astype(np.float32),
            "brand": rng.choice(BRANDS, rows),
            "line": rng.integers(3, 6, rows),
            "grade": grade,
            "review": pl.Series(review, nan_to_null=True),
            "income": rng.normal(size=len(sizes))[sets],
            "note": [f"row {row}" for row in range(rows)],
            "taken": np.isin(np.arange(rows), starts).astype(np.int64),
        }
    )


class Plain(sw.MNL):
    """A logit scored set by set, so that its numbers do not hang on the sets around: not even in
    the last bit, as the padding of compiled models makes them.
    """

    def row_log_probabilities(self, encoded: Encoded) -> np.ndarray:
        utility = encoded.items.sum(1, dtype=np.float64)
        total = np.add.reduceat(np.exp(utility), encoded.offsets[:-1])
        return utility - np.repeat(np.log(total), encoded.sizes)


@pytest.fixture(scope="module")
def model():
    return Plain().fit(sw.read(trips([5] * 60, seed=1), **ROLES))


@pytest.fixture(scope="module")
def logit():
    return sw.MNL().fit(sw.read(trips([5] * 60, seed=1), **ROLES))


@pytest.fixture
def in_chunks(monkeypatch):
    """Set the number of rows a chunk."""

    return lambda count: divide(monkeypatch, count)


def divide(patch: pytest.MonkeyPatch, count: int) -> None:
    """Into parts of so many rows, all files."""
    for module, name in SIZES:
        patch.setattr(module, name, count)


def whole(model: sw.MNL, table: pl.DataFrame) -> pl.DataFrame:
    """The predictions of the table in memory."""
    return table.with_columns(
        probability=model.predict_proba(table), predicted=model.predict(table)
    )


def streamed(model, table, folder: Path, suffix: str = "parquet", **arguments) -> pl.DataFrame:
    """The predictions of the table from file to file; nothing else stays in the folder."""
    source, out = folder / "trips.parquet", folder / f"out.{suffix}"
    table.write_parquet(source)
    assert predict_file(model, source, out, **arguments) == len(table)
    assert sorted(path.name for path in folder.iterdir()) == sorted([out.name, "trips.parquet"])
    return pl.read_parquet(out) if suffix == "parquet" else pl.read_csv(out)


SIZES = (
    (prediction, "ROWS_PER_CHUNK"),
    (prediction, "ROWS_PER_PASS"),
    (prediction, "ROWS_PER_PART"),
)
ORDERS = ("side by side", "shuffled", "by alternative")


def ordered(table: pl.DataFrame, order: str, seed: int = 0) -> pl.DataFrame:
    if order == "shuffled":
        return table.sample(fraction=1, shuffle=True, seed=seed)
    if order == "by alternative":
        return table.sort(pl.int_range(pl.len()).over("trip"), maintain_order=True)
    return table


# The same numbers


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    order=st.sampled_from(ORDERS),
    count=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_chunks_give_what_the_whole_table_gives(model, sizes, order, count, seed):
    table = ordered(trips(sizes, seed), order, seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        divide(patch, count)
        found = streamed(model, table, Path(folder))
    assert_frame_equal(found, whole(model, table), check_exact=True)


@pytest.mark.parametrize(("kind", "order"), [("mnl", "side by side"), ("sda", "shuffled")])
def test_compiled_models_agree_up_to_rounding(logit, kind, order, in_chunks, tmp_path):
    table = ordered(trips([3] * 50, seed=2), order)
    model = logit
    if kind == "sda":
        choices = sw.read(table, **ROLES)
        model = sw.SDA.paper(dimension=2, training=sw.Training(epochs=1)).fit(choices, choices)
    in_chunks(75)
    found, expected = streamed(model, table, tmp_path), whole(model, table)
    assert_frame_equal(found, expected, rel_tol=1e-6, abs_tol=0)
    assert found["predicted"].equals(expected["predicted"])


@pytest.mark.parametrize("order", ORDERS)
def test_an_outside_option_has_its_share(order, in_chunks, tmp_path):
    taken = pl.col("taken") * (pl.col("trip") % 3 > 0)
    choices = sw.read(trips([3] * 60, 1).with_columns(taken=taken), **ROLES, on_none="outside")
    model = Plain().fit(choices)
    table = ordered(trips([2, 5, 1] * 5, seed=3), order)
    in_chunks(9)
    found = streamed(model, table, tmp_path)
    assert_frame_equal(found, whole(model, table), check_exact=True)
    assert found.group_by("trip").agg(pl.sum("probability"))["probability"].max() < 1
    assert found["predicted"].sum() < 15


@pytest.mark.parametrize("order", ORDERS)
def test_a_set_may_be_larger_than_a_chunk(model, order, in_chunks, tmp_path):
    table = ordered(trips([2, 30, 1, 3]), order)
    in_chunks(4)
    assert_frame_equal(streamed(model, table, tmp_path), whole(model, table), check_exact=True)


@pytest.mark.parametrize("order", ORDERS)
def test_sets_that_share_a_hash_stay_apart(model, order, in_chunks, tmp_path, monkeypatch):
    table = ordered(trips([2, 3, 1, 4] * 3), order)
    in_chunks(4)
    monkeypatch.setattr(prediction.ParquetTable, "_hash", lambda self: pl.col("trip").hash() % 2)
    assert_frame_equal(streamed(model, table, tmp_path), whole(model, table), check_exact=True)


@pytest.mark.parametrize(
    "ids",
    [
        pl.format("trip {}", "trip"),
        pl.format("trip {}", "trip").cast(pl.Categorical),
        pl.date(2024, 1, 1) + pl.duration(days="trip"),
        pl.col("trip") / 2,
    ],
    ids=["text", "categorical", "date", "float"],
)
@pytest.mark.parametrize("order", ORDERS)
def test_ids_of_sets_have_any_type(model, ids, order, in_chunks, tmp_path):
    table = ordered(trips([2, 3, 1, 4]), order).with_columns(trip=ids)
    in_chunks(3)
    found = streamed(model, table, tmp_path)
    assert_frame_equal(found, whole(model, table), check_exact=True)


def test_what_a_chunk_lacks_changes_nothing(model, in_chunks, tmp_path):
    early = pl.col("trip") < 4
    table = trips([3] * 12).with_columns(
        review=pl.when(~early).then("review"),
        line=pl.when(early).then(3).otherwise("line"),
        grade=pl.when(early).then(1.0).otherwise("grade"),
    )
    in_chunks(6)
    assert_frame_equal(streamed(model, table, tmp_path), whole(model, table), check_exact=True)


def test_names_that_are_digits_in_one_chunk_are_names(in_chunks, tmp_path):
    names = pl.when(pl.col("trip") < 4).then(pl.lit("7")).otherwise("brand")
    table = trips([5] * 60).with_columns(brand=names)
    model = Plain().fit(sw.read(table, **ROLES))
    in_chunks(10)
    assert_frame_equal(streamed(model, table, tmp_path), whole(model, table), check_exact=True)


# What is written, and how


def test_columns_of_these_names_are_replaced_where_they_stand(model, in_chunks, tmp_path):
    table = trips([2, 3]).select(pl.lit("old").alias("predicted"), pl.all(), probability=0)
    in_chunks(2)
    with pytest.warns(sw.DataWarning, match="a column '(probability|predicted)', which"):
        found = streamed(model, table, tmp_path)
    assert found.columns == table.columns
    assert_frame_equal(found, whole(model, table), check_exact=True)


def test_csv_is_written_too(model, in_chunks, tmp_path):
    table = ordered(trips([2, 3, 4]), "shuffled")
    in_chunks(4)
    whole(model, table).write_csv(tmp_path / "whole.csv")
    expected = (tmp_path / "whole.csv").read_text()
    (tmp_path / "whole.csv").unlink()
    streamed(model, table, tmp_path, "csv")
    assert (tmp_path / "out.csv").read_text() == expected


@pytest.mark.parametrize("order", ORDERS)
def test_progress_counts_rows_in_chunks_of_about_the_size_wanted(model, order, in_chunks, tmp_path):
    told = []
    in_chunks(40)
    table = ordered(trips([4] * 50), order)
    streamed(model, table, tmp_path, on_rows=lambda *rows: told.append(rows))
    done = np.array([0, *(rows for rows, _ in told)])
    assert done[-1] == 200
    assert {total for _, total in told} == {200}
    assert len(told) == 5
    limit = 44 if order == "side by side" else 80  # hashes divide sets evenly only on average
    assert np.diff(done).max() <= limit


def test_choices_in_a_file_are_predicted_set_by_set(model, tmp_path, monkeypatch):
    table = ordered(trips([2, 3, 4]), "shuffled")
    choices, source = model.read(table), tmp_path / "trips.setwise-data"
    save_choices(choices, source)
    told = []
    monkeypatch.setattr("setwise.choices.choices.ROWS_PER_BLOCK", 4)
    rows = predict_file(model, source, tmp_path / "out.parquet", lambda *rows: told.append(rows))
    assert rows == 9
    assert len(told) > 1
    assert told[-1] == (9, 9)
    found = pl.read_parquet(tmp_path / "out.parquet")
    expected = whole(model, table)[choices.rows.tolist()].select(
        "trip", pl.int_range(pl.len()).over("trip").alias("position"), "probability", "predicted"
    )
    assert_frame_equal(found, expected, check_exact=True)


def test_a_set_column_named_as_the_output_is_refused(model, tmp_path):
    table = trips([2, 3]).rename({"trip": "position"})
    save_choices(sw.read(table, **(ROLES | {"set": "position"})), tmp_path / "t.setwise-data")
    with pytest.raises(sw.InputError, match="is named 'position'"):
        predict_file(model, tmp_path / "t.setwise-data", tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["t.setwise-data"]


def test_the_command_streams_parquet(logit, in_chunks, tmp_path, monkeypatch):
    in_chunks(7)
    logit.save(tmp_path / "m.setwise")
    trips([2, 3, 4]).write_parquet(tmp_path / "trips.parquet")
    monkeypatch.setattr("setwise.cli.tables.read_file", None)  # the table is never read whole
    words = ["predict", "m.setwise", "trips.parquet", "--out", "out.parquet"]
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.output.endswith("wrote out.parquet: 9 rows\n")
    assert pl.read_parquet("out.parquet").group_by("trip").agg(pl.sum("predicted")).height == 3


def test_the_command_needs_no_engine(logit, tmp_path):
    logit.save(tmp_path / "m.setwise")
    trips([2, 3, 4]).write_parquet(tmp_path / "trips.parquet")
    script = (
        "import sys; from setwise.cli import app\n"
        "app(['predict', 'm.setwise', 'trips.parquet', '--out', 'out.parquet'], "
        "standalone_mode=False)\n"
        "print([name for name in ('jax', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
    expected = whole(logit, trips([2, 3, 4]))
    assert_frame_equal(pl.read_parquet(tmp_path / "out.parquet"), expected, rel_tol=1e-5)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_model_without_a_graph_is_scored_by_its_estimator(logit, suffix, tmp_path):
    replace(logit.artifact(), graph=None).write(tmp_path / "m.setwise")
    table, path = trips([2, 3, 4]), tmp_path / f"trips.{suffix}"
    table.write_parquet(path) if suffix == "parquet" else table.write_csv(path)
    words = [str(tmp_path / "m.setwise"), str(path), "--out", str(tmp_path / "out.parquet")]
    done = CliRunner().invoke(app, ["predict", *words])
    assert done.exit_code == 0, done.output
    found, expected = (
        frame.select("trip", "probability", "predicted")
        for frame in (pl.read_parquet(tmp_path / "out.parquet"), whole(logit, table))
    )
    assert_frame_equal(found, expected, rel_tol=1e-6, abs_tol=0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["sda", "nccm"])
def test_the_scorer_writes_what_the_estimator_predicts(name, order, in_chunks, tmp_path):
    table = ordered(trips([2, 5, 1, 3] * 5, seed=3), order)
    schema = sw.Schema.fit(sw.read(trips([5] * 60, seed=1), **ROLES))
    estimator = as_fitted(name, schema, ensemble=2)
    scorer = Scorer.of(estimator.artifact(), "m.setwise")
    in_chunks(9)
    found, expected = streamed(scorer, table, tmp_path), whole(estimator, table)
    assert found.drop("probability").equals(expected.drop("probability"))
    assert found.schema == expected.schema
    np.testing.assert_allclose(found["probability"], expected["probability"], atol=1e-5)


def test_results_come_in_order_and_only_a_few_ahead():
    begun = []

    def tasks():
        for number in range(20):
            begun.append(number)
            yield number

    found = in_threads(lambda number: -number, tasks(), threads=3)
    assert next(found) == 0
    assert len(begun) == 4
    assert list(found) == [-number for number in range(1, 20)]


def test_work_that_nobody_waits_for_any_more_is_not_begun():
    started, first = [], Event()

    def work(number: int) -> int:
        started.append(number)
        if number:
            first.wait()
        return number

    found = in_threads(work, iter(range(100)), threads=8)
    assert next(found) == 0
    first.set()
    found.close()
    assert len(started) <= 10


# What is refused


def refused(model, table: pl.DataFrame, folder: Path) -> str:
    """What is said of a table; nothing is written, and nothing else stays."""
    source = folder / "trips.parquet"
    table.write_parquet(source)
    with pytest.raises(sw.InputError) as caught:
        predict_file(model, source, folder / "out.parquet")
    assert [path.name for path in folder.iterdir()] == ["trips.parquet"]
    return str(caught.value)


def spoilt(column: str, value: object, *rows: int) -> pl.Expr:
    """A column with another value in rows that are in the last chunk, where sets lie in order."""
    bad = pl.col("note").is_in([f"row {row}" for row in rows])
    return pl.when(bad).then(pl.lit(value)).otherwise(column).alias(column)


BAD = {
    "missing number": (spoilt("cost", None, 33), "not a number at row"),
    "infinity": (spoilt("cost", np.inf, 33), "infinite at row"),
    "missing text": (spoilt("brand", None, 33), "is missing at row"),
    "unknown level": (spoilt("brand", "mauve", 33), "is 'mauve' at row"),
    "unknown number": (spoilt("line", 9, 33), "is '9' at row"),
    "a context that differs": (spoilt("income", 99.0, 33), "differs within set 'trip'=8 (row"),
    "a missing set": (spoilt("trip", None, 33), "set column 'trip' is missing at row"),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("bad", "words"), BAD.values(), ids=BAD)
def test_errors_name_the_row_of_the_file(model, bad, words, order, in_chunks, tmp_path):
    table = ordered(trips([4] * 10), order).with_columns(bad)
    with pytest.raises(sw.InputError) as caught:
        model.predict_proba(table)
    in_chunks(8)
    said = refused(model, table, tmp_path)
    assert words in said
    assert said == f"{tmp_path / 'trips.parquet'}: {caught.value}"


def test_errors_do_not_count_rows_of_later_chunks(model, in_chunks, tmp_path):
    in_chunks(8)
    table = trips([4] * 10).with_columns(spoilt("cost", None, 20, 21, 33))
    assert "at row 20 (and at least 1 more)" in refused(model, table, tmp_path)


LACKING = {
    "empty": (trips([4])[:0], "the table is empty"),
    "no feature": (trips([4]).drop("cost"), "feature column 'cost' is missing"),
    "no set column": (trips([4]).drop("trip"), "set column 'trip' is not in the table"),
    "another type": (trips([4]).with_columns(brand=pl.lit(3)), "was a category when the model"),
}


@pytest.mark.parametrize(("table", "words"), LACKING.values(), ids=LACKING)
def test_a_table_that_lacks_something_is_refused(model, table, words, tmp_path):
    said = refused(model, table, tmp_path)
    assert said.startswith(f"{tmp_path / 'trips.parquet'}: ")
    assert words in said


def test_a_damaged_file_is_refused(model, tmp_path):
    source = tmp_path / "trips.parquet"
    trips([4] * 10).write_parquet(source)
    source.write_bytes(source.read_bytes()[:-20])
    with pytest.raises(sw.InputError, match=r"trips\.parquet cannot be read as a table"):
        predict_file(model, source, tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == [source]


def test_damage_in_the_middle_is_refused_without_a_trace(model, in_chunks, tmp_path):
    source = tmp_path / "trips.parquet"
    trips([4] * 500).write_parquet(source, row_group_size=100, compression="uncompressed")
    whole = bytearray(source.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 4000] = bytes(4000)
    source.write_bytes(whole)
    in_chunks(100)
    with pytest.raises(sw.InputError, match=r"trips\.parquet"):
        predict_file(model, source, tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == [source]


def test_a_full_disk_is_said_and_leaves_nothing(model, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(prediction.PredictionStore, "_reserve", full)
    scattered = ordered(trips([4, 4]), "shuffled")
    assert "the disk is full" in refused(model, scattered, tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_disk_that_fills_while_the_file_is_written_is_said(model, tmp_path, monkeypatch):
    @contextmanager
    def beside(path):
        yield Path("/dev/full")

    monkeypatch.setattr("setwise.scoring.prediction.whole_file", beside)
    assert "the disk is full" in refused(model, trips([4] * 100), tmp_path)


PATHS = {
    "itself": ("trips.parquet", "trips.parquet", "which is read and would be lost"),
    "no file": ("none.parquet", "out.parquet", "there is no file"),
    "a folder": ("folder.parquet", "out.parquet", "is a folder"),
    "csv": ("trips.csv", "out.parquet", "neither .parquet nor .setwise-data"),
    "another format": ("trips.parquet", "out.xlsx", "ends in .parquet or .csv"),
    "no folder": ("trips.parquet", "none/out.csv", "there is no folder"),
}


@pytest.mark.parametrize(("source", "out", "words"), PATHS.values(), ids=PATHS)
def test_paths_are_checked_first(model, source, out, words, tmp_path):
    trips([4]).write_parquet(tmp_path / "trips.parquet")
    (tmp_path / "folder.parquet").mkdir()
    before = (tmp_path / "trips.parquet").read_bytes()
    with pytest.raises(sw.InputError) as caught:
        predict_file(model, tmp_path / source, tmp_path / out)
    assert words in str(caught.value)
    assert (tmp_path / "trips.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_a_model_must_be_fitted(tmp_path):
    trips([4]).write_parquet(tmp_path / "trips.parquet")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        predict_file(sw.MNL(), tmp_path / "trips.parquet", tmp_path / "out.parquet")
    with pytest.raises(sw.InputError, match="a fitted estimator or a Scorer, not str"):
        predict_file("m.setwise", tmp_path / "trips.parquet", tmp_path / "out.parquet")

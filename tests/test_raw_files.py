"""Raw files: found, opened and read as they are, or refused with the line and the column."""

import gzip
import os
import zipfile

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise import InputError
from setwise.paper.raw import files
from setwise.paper.raw.files import Field, RawFile, find_file
from setwise.paper.raw.sets import Ids

FIELDS = {"id": Field("int32"), "score": Field("float32", np.nan, least=0), "place": Field("text")}
TEXT = "id,unused,score,place\n1,a,0.5,US\n2,b,,DE\n3,c,NULL,US\n"
FORMS = ("table.csv", "table.csv.zip", "table.csv.gz", "table.zip", "bundle.zip")


def write(folder, text, form="table.csv"):
    path, data = folder / form, text if isinstance(text, bytes) else text.encode()
    if form.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("__MACOSX/table.csv", b"not this one")
            archive.writestr("inner/table.csv", data)
    else:
        path.write_bytes(gzip.compress(data) if form.endswith(".gz") else data)
    return path


def read(path, fields=None):
    chunks = list(find_file(path, "table.csv").chunks(fields or FIELDS))
    return {name: [x for chunk in chunks for x in chunk[name]] for name in fields or FIELDS}


def refusal(path, fields=None):
    with pytest.raises(InputError) as caught:
        read(path, fields)
    return str(caught.value)


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_found_and_read_in_every_form(tmp_path, form):
    write(tmp_path, TEXT, form)
    table = read(tmp_path)
    assert table["id"] == [1, 2, 3]
    assert table["score"][0] == 0.5
    assert np.isnan(table["score"][1:]).all()
    assert table["place"] == ["US", "DE", "US"]


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.rstrip("\n"),
        TEXT + "\n\n",
        "\ufeff" + TEXT,
        TEXT.replace("US", '"US"').replace("id,", '"id",'),
        "place,unused,id,score\nUS,a,1,0.5\nDE,b,2,\nUS,c,3,\\N\n",
    ],
    ids=["windows", "no last newline", "blank end", "byte order mark", "quotes", "other order"],
)
def test_what_is_written_otherwise_reads_the_same(tmp_path, text):
    write(tmp_path, text)
    table = read(tmp_path)
    assert table["id"] == [1, 2, 3]
    assert table["place"] == ["US", "DE", "US"]


def test_a_quoted_separator_is_part_of_its_text(tmp_path):
    write(tmp_path, TEXT.replace("DE", '"DE, all"'))
    assert read(tmp_path)["place"] == ["US", "DE, all", "US"]


def test_a_file_itself_may_be_named(tmp_path):
    for form in FORMS:
        assert read(write(tmp_path, TEXT, form))["id"] == [1, 2, 3]


def test_whole_columns_are_arrays(tmp_path):
    table = find_file(write(tmp_path, TEXT), "table.csv").read({"id": Field("int8")})
    assert table["id"].dtype == np.int8
    assert table["id"].tolist() == [1, 2, 3]


LINES = {
    "too few fields": ("2,b,0.25", "line 3", "'place'", "3 fields where the header has 4"),
    "too many fields": ("2,b,0.25,DE,9", "line 3", "'place'", "5 fields where the header has 4"),
    "one of four fields": ("2", "line 3", "'unused'", "1 fields where the header has 4"),
    "an empty line": ("", "line 3", "'id'", "empty"),
    "a stray quote": ('2,b,0.25,"DE', "line 3", "'place'", "quote"),
    "a stray quote early": ('"2,b,0.25,DE', "line 3", "'id'", "quote"),
    "a stray quote inside": ('2,b,0.25,D"E', "line 3", "'place'", "quote"),
    "text for a number": ("two,b,0.25,DE", "line 3", "'id'", "'two' is not a whole number"),
    "a fraction for a whole": ("2.5,b,0.25,DE", "line 3", "'id'", "'2.5' is not a whole number"),
    "too large": ("3000000000,b,0.25,DE", "line 3", "'id'", "to 2147483647"),
    "a missing id": (",b,0.25,DE", "line 3", "'id'", "missing"),
    "a null id": ("NULL,b,0.25,DE", "line 3", "'id'", "missing"),
    "no text": ("2,b,0.25,", "line 3", "'place'", "missing"),
    "infinite": ("2,b,inf,DE", "line 3", "'score'", "'inf' is not a finite number"),
    "negative": ("2,b,-1,DE", "line 3", "'score'", "at least 0"),
    "not a number": ("2,b,nan,DE", "line 3", "'score'", "'nan' is not a finite number"),
}


@pytest.mark.parametrize("form", ["table.csv", "table.csv.zip"])
@pytest.mark.parametrize("name", LINES)
def test_a_bad_line_is_named_with_its_column(tmp_path, name, form):
    line, *expected = LINES[name]
    path = write(tmp_path, TEXT.replace("2,b,,DE", line), form)
    message = refusal(tmp_path)
    for part in (path.name, *expected):
        assert part in message


def test_text_must_be_utf_8(tmp_path):
    write(tmp_path, TEXT.encode().replace(b"DE", b"D\xff"))
    assert "line 3, column 'place'" in refusal(tmp_path)


def test_a_date_must_be_one(tmp_path):
    fields = {"at": Field("date", ""), "id": Field("int8")}
    write(tmp_path, "at,id\n2016-06-14 04:00:05,1\n,2\n")
    at = read(tmp_path, fields)["at"]
    assert at[0] == np.datetime64("2016-06-14T04:00:05")
    assert np.isnat(at[1])
    write(tmp_path, "at,id\n2016-06-14 04:00:05,1\n2016-13-01 00:00:00,2\n")
    assert "line 3, column 'at': '2016-13-01 00:00:00' is not a moment" in refusal(tmp_path, fields)


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path):
    write(tmp_path, TEXT.replace("score", "points"))
    message = refusal(tmp_path)
    assert "table.csv, line 1: there is no column 'score'" in message
    assert "id, unused, points, place" in message


def test_a_column_that_is_named_twice_is_refused(tmp_path):
    write(tmp_path, TEXT.replace("unused", "id"))
    assert "line 1, column 'id': named twice" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["", "\n\n"])
@pytest.mark.parametrize("form", ["table.csv", "table.csv.zip", "table.csv.gz"])
def test_an_empty_file_is_refused(tmp_path, text, form):
    write(tmp_path, text, form)
    assert "is empty: line 1 must be a header" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["id,unused,score,place", "id,unused,score,place\n\n"])
def test_a_header_without_rows_is_refused(tmp_path, text):
    write(tmp_path, text)
    assert "has columns but no rows (it ends after line 1)" in refusal(tmp_path)


def test_an_absent_file_is_named_with_what_is_there(tmp_path):
    (tmp_path / "other.csv").touch()
    assert "has no table.csv (nor table.csv.zip" in refusal(tmp_path)
    assert "it has: other.csv" in refusal(tmp_path)
    assert "there is no file or folder" in refusal(tmp_path / "nowhere")


def test_a_zip_without_the_table_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "table.csv.zip", "w") as archive:
        archive.writestr("other.csv", "1")
    assert "does not contain table.csv" in refusal(tmp_path)


def packed(folder, form):
    rows = np.random.default_rng(0).integers(10**6, size=(3000, 2))
    lines = "".join(f"{a},{b},0.5,US\n" for a, b in rows)
    return write(folder, "id,unused,score,place\n" + lines, form)


def test_a_truncated_zip_is_refused(tmp_path):
    path = packed(tmp_path, "table.csv.zip")
    os.truncate(path, path.stat().st_size // 2)
    message = refusal(tmp_path)
    assert str(path) in message
    assert "cut off or damaged before line 1" in message


def test_a_damaged_zip_is_refused_with_the_lines_that_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 1000)
    path = packed(tmp_path, "table.csv.zip")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    path.write_bytes(data)
    message = refusal(tmp_path)
    assert str(path) in message
    assert "line" in message
    assert "column" in message


def test_a_truncated_gz_is_refused_with_the_lines_that_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 1000)
    path = packed(tmp_path, "table.csv.gz")
    os.truncate(path, path.stat().st_size // 2)
    message = refusal(tmp_path)
    assert "table.csv.gz is damaged or cut off" in message
    assert 1000 < int(message.partition("about line ")[2].partition(",")[0]) < 2000


def test_a_plain_file_named_as_packed_is_refused(tmp_path):
    (tmp_path / "table.csv.gz").write_text(TEXT)
    assert "table.csv.gz is damaged or cut off" in refusal(tmp_path)


def test_a_packed_file_named_as_plain_is_refused(tmp_path):
    (tmp_path / "table.csv").write_bytes(gzip.compress(TEXT.encode()))
    assert "line 1: the header is not text with commas" in refusal(tmp_path)


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_field_without_end_is_refused(tmp_path, quote):
    write(tmp_path, TEXT.replace("2,b", quote + "2" * 200_000 + quote + ",b"))
    message = refusal(tmp_path)
    assert "line 3, column 'id'" in message
    assert len(message) < 500


def test_a_zip_that_needs_a_password_is_refused(tmp_path):
    path = write(tmp_path, TEXT, "table.csv.zip")
    data = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):  # mark members as encrypted
        at = -1
        while (at := data.find(signature, at + 1)) >= 0:
            data[at + flags] |= 1
    path.write_bytes(data)
    assert "cannot be opened" in refusal(tmp_path)
    assert "unpack it by hand" in refusal(tmp_path)


PARQUET = pl.DataFrame({"id": [1, 2], "score": [0.5, None], "place": ["US", "DE"], "more": [1, 2]})


def test_parquet_reads_as_csv_does(tmp_path):
    PARQUET.with_columns(pl.col("place").cast(pl.Categorical)).write_parquet(
        tmp_path / "table.parquet"
    )
    table = read(tmp_path)
    assert table["id"] == [1, 2]
    assert np.isnan(table["score"][1])
    assert table["place"] == ["US", "DE"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (pl.lit("two").alias("id"), "row 0 (from 0), column 'id': 'two' is not a whole number"),
        (pl.Series("id", [1.0, 2.5]), "row 1 (from 0), column 'id': 2.5 is not a whole number"),
        (pl.Series("id", [1, 2**40]), "row 1 (from 0), column 'id': 1099511627776 is not"),
        (pl.Series("id", [1, None]), "row 1 (from 0), column 'id': is missing"),
        (pl.Series("score", [1.0, -2.0]), "row 1 (from 0), column 'score': -2.0 is not"),
        (pl.Series("score", [np.nan, 1.0]), "row 0 (from 0), column 'score': nan is not"),
    ],
)
def test_parquet_is_as_strict(tmp_path, change, expected):
    PARQUET.with_columns(change).write_parquet(tmp_path / "table.parquet")
    assert expected in refusal(tmp_path)


def test_parquet_without_a_column_without_rows_or_cut_off_is_refused(tmp_path):
    path = tmp_path / "table.parquet"
    PARQUET.drop("score").write_parquet(path)
    assert "there is no column 'score'" in refusal(tmp_path)
    PARQUET.clear().write_parquet(path)
    assert "no rows" in refusal(tmp_path)
    PARQUET.write_parquet(path)
    os.truncate(path, path.stat().st_size // 2)
    assert f"{path} cannot be read as Parquet" in refusal(tmp_path)


ROWS = st.lists(
    st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=8),
        st.none() | st.floats(0, 1e6, width=32),
    ),
    min_size=1,
    max_size=30,
)


def csv_line(number, text, score):
    quoted = '"' + text.replace('"', '""') + '"'
    return f"{number},{quoted},{'' if score is None else repr(score)},DE"


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, block=st.integers(1, 300))
def test_what_was_written_is_read_whatever_the_blocks(tmp_path_factory, rows, block):
    path = tmp_path_factory.mktemp("blocks") / "table.csv"
    lines = ["id,name,score,place", *(csv_line(*row) for row in rows)]
    path.write_bytes("\n".join(lines).encode())
    fields = FIELDS | {"name": Field("text", "")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        table = read(path, fields)
    assert table["id"] == [row[0] for row in rows]
    assert table["name"] == [row[1] if row[1] not in ("NULL", "\\N") else "" for row in rows]
    expected = [np.nan if row[2] is None else row[2] for row in rows]
    np.testing.assert_array_equal(table["score"], np.array(expected, np.float32))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), count=st.integers(1, 40), block=st.integers(1, 300))
def test_the_first_bad_line_is_the_one_that_is_named(tmp_path_factory, data, count, block):
    bad = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3), label="bad")
    kinds = [LINES[name][0] for name in LINES]
    lines = [f"{i},a,0.5,US" for i in range(count)]
    for i in bad:
        lines[i] = data.draw(st.sampled_from(kinds), label="kind")
    path = tmp_path_factory.mktemp("lines") / "table.csv"
    # Something must follow, or a blank last line would be the end of the file.
    path.write_text("\n".join(["id,unused,score,place", *lines, "7,a,0.5,US"]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        message = refusal(path)
    assert f"line {min(bad) + 2}, column" in message


@settings(deadline=None)
@given(
    known=st.lists(st.integers(-5, 50) | st.integers(0, 2**31 - 1), max_size=20),
    wanted=st.lists(st.integers(-10, 60) | st.integers(0, 2**31 - 1), max_size=20),
)
def test_ids_are_found_where_they_are(known, wanted):
    ids = Ids.of(np.array(known, np.int64))
    ordered = sorted(set(known))
    assert ids.ids.tolist() == ordered
    expected = [ordered.index(one) if one in ordered else -1 for one in wanted]
    assert ids.find(np.array(wanted, np.int64)).tolist() == expected


def test_a_raw_file_says_where_it_is(tmp_path):
    assert str(RawFile(tmp_path / "a.zip", "b.csv")) == f"{tmp_path / 'a.zip'} (b.csv)"

"""Choices on disk are the choices that were written, at once, whole or not at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from setwise import _arrayfile
from setwise.choices import Schema, encoding, open_choices, save_choices, verify
from setwise.choices import choices as choices_module
from setwise.choices.choices import Column, Levels, StoredColumns
from setwise.choices.encoding import available_bytes

PER_SET = ("offsets", "rows", "set_ids", "chosen", "weight", "group", "time")


def rich(sets: int = 40, seed: int = 0, text_ids: bool = False) -> sw.Choices:
    """Every kind of column, missing values, weights, groups, times, an outside option."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, sets)
    owner = np.repeat(np.arange(sets), sizes)
    rows = len(owner)
    price = rng.lognormal(size=rows)
    price[rng.random(rows) < 0.1] = np.nan
    brand = rng.choice(["ä", "b\0c", 'd"', "e f"], rows).astype(object)
    brand[rng.random(rows) < 0.1] = None
    table = {
        "s": np.array([f"set {i}" for i in owner]) if text_ids else owner * 7,
        "price": price,
        "stars": rng.integers(1, 6, rows).astype(np.float32),
        "brand": brand,
        "seen": np.datetime64("2024-01-01", "s") + rng.integers(0, 10**7, rows),
        "income": rng.normal(size=sets)[owner],
        "city": rng.choice(["Bern", "Genf"], sets)[owner],
        "w": rng.uniform(1, 2, sets)[owner],
        "user": rng.integers(0, 9, sets)[owner],
        "when": (np.datetime64("2024-01-01", "s") + rng.integers(0, 10**7, sets))[owner],
    }
    chosen = np.zeros(rows)
    firsts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    taken = rng.random(sets) < 0.8
    chosen[(firsts + rng.integers(0, sizes))[taken]] = 1
    order = rng.permutation(rows)
    shuffled = {name: values[order] for name, values in (table | {"c": chosen}).items()}
    return sw.read(
        shuffled, set="s", chosen="c", items=["impute(price)", "stars", "impute(brand)", "seen"],
        context=["income", "city"], weight="w", group="user", time="when", on_none="outside",
        on_duplicate="keep",
    )  # fmt: skip


def same(one: sw.Choices, other: sw.Choices) -> None:
    assert (one.roles, one.outside, one.rare, one.dropped) == (
        other.roles, other.outside, other.rare, other.dropped,
    )  # fmt: skip
    for name in PER_SET:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for mine, yours in ((one.columns, other.columns), (one.context, other.context)):
        assert list(mine) == list(yours)
        for name in mine:
            np.testing.assert_array_equal(mine[name].values, yours[name].values)
            assert mine[name].values.dtype == yours[name].values.dtype
            assert tuple(mine[name].levels or ()) == tuple(yours[name].levels or ())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.setwise-data"


@given(seed=st.integers(0, 10**6), sets=st.integers(1, 40), text_ids=st.booleans())
@settings(max_examples=20, deadline=None)
def test_what_is_opened_is_what_was_written(tmp_path_factory, seed, sets, text_ids):
    path = tmp_path_factory.mktemp("stored") / "x.setwise-data"
    choices = rich(sets, seed, text_ids)
    save_choices(choices, path)
    opened = open_choices(path)
    verify(path)
    same(opened, choices)
    some = np.random.default_rng(seed).permutation(sets)[: sets // 2 + 1]
    same(opened.take(some), choices.take(some))
    same(opened.take(some).in_memory(), choices.take(some))
    assert opened.take(some).on_disk
    assert not opened.take(some).in_memory().on_disk


def test_a_part_of_a_file_can_be_written_again(path, monkeypatch):
    monkeypatch.setattr(choices_module, "ROWS_PER_BLOCK", 10)
    choices = rich()
    save_choices(choices, path)
    part = open_choices(path).take(np.arange(30, 3, -2))
    again = path.with_name("again.setwise-data")
    save_choices(part, again)
    same(open_choices(again), choices.take(np.arange(30, 3, -2)))


def test_splits_and_samples_are_the_same_sets(path):
    choices = rich()
    save_choices(choices, path)
    opened = open_choices(path)
    for by in ("set", "group", "time"):
        for mine, yours in zip(sw.split(opened, by=by), sw.split(choices, by=by), strict=True):
            same(mine, yours)
    same(opened.sample(7, seed=3), choices.sample(7, seed=3))
    same(opened.limit(4, 2), choices.limit(4, 2))


def test_blocks_are_all_sets_in_order(path, monkeypatch):
    monkeypatch.setattr(choices_module, "ROWS_PER_BLOCK", 10)
    choices = rich()
    save_choices(choices, path)
    for one in (choices, open_choices(path)):
        blocks = list(one.blocks())
        assert len(blocks) > 5
        assert max(block.offsets[-1] for block in blocks) < 10 + 5
        assert np.concatenate([block.set_ids for block in blocks]).tolist() == list(one.set_ids)
        prices = np.concatenate([block.columns["price"].values for block in blocks])
        np.testing.assert_array_equal(prices, choices.columns["price"].values)


@pytest.mark.parametrize("rows", [10, 10**6])
def test_the_schema_of_data_on_disk_is_that_of_data_in_memory(path, monkeypatch, rows):
    monkeypatch.setattr(choices_module, "ROWS_PER_BLOCK", rows)
    choices = rich()
    save_choices(choices, path)
    assert Schema.fit(open_choices(path)) == Schema.fit(choices)


def test_moments_of_blocks_are_those_of_the_whole(monkeypatch):
    whole = Schema.fit(rich())
    monkeypatch.setattr(choices_module, "ROWS_PER_BLOCK", 10)
    blocks = Schema.fit(rich())
    np.testing.assert_allclose(blocks.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(blocks.scale, whole.scale, rtol=1e-13)
    assert (blocks.items, blocks.context) == (whole.items, whole.context)


def test_any_reader_of_safetensors_opens_the_file(path):
    choices = rich()
    save_choices(choices, path)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata()["setwise"] == "choices"
        np.testing.assert_array_equal(file.get_tensor("offsets"), choices.offsets)
        np.testing.assert_array_equal(file.get_tensor("items/0"), choices.columns["price"].values)


def test_opening_reads_no_column(path):
    save_choices(rich(), path)
    entries = _arrayfile.read(path, "choices").arrays
    opened = open_choices(path)
    assert not opened.columns["stars"].values.flags.writeable  # mapped
    assert set(entries) >= {"offsets", "items/0", "items/2/levels", "rows"}


def test_asking_for_a_column_by_name_reads_nothing(path, monkeypatch):
    save_choices(rich(), path)
    some = open_choices(path).take(np.array([3, 1]))
    monkeypatch.setattr(StoredColumns, "_read", lambda self, values: pytest.fail("it was read"))
    assert "price" in some.columns
    assert "cost" not in some.columns
    assert (len(some.columns), next(iter(some.columns))) == (4, "price")
    assert some.levels("brand")


# Altered files


def flip(path: Path, place: int, bit: int) -> None:
    """Change one bit; doing it again undoes it."""
    with open(path, "r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ (1 << bit)]))


def places(path: Path) -> dict[str, tuple[int, int]]:
    """Where in the file each array lies, padding included."""
    with safetensors.safe_open(path, framework="numpy"):
        pass
    header = json.loads(path.read_bytes()[8 : 1 << 20])
    header.pop("__metadata__")
    return {
        name: tuple((1 << 20) + one for one in entry["data_offsets"])
        for name, entry in header.items()
    }


def everything(path: Path) -> bytes:
    """All that a user of the file can see, through opening, reading, encoding and parts of it."""
    choices = open_choices(path)
    _, seen = Schema.learn(choices)
    encoded = seen.encoded()
    some = choices.take(np.arange(len(choices) - 1, 0, -3)).in_memory()
    found = [encoded.items, encoded.context, encoded.offsets, encoded.chosen, encoded.weight]
    found += [choices.rows, choices.set_ids, choices.group, choices.time, some.rows]
    found += [column.values for column in some.columns.values()]
    return b"".join(np.ascontiguousarray(one).tobytes() for one in found)


def found(path: Path, read) -> str | bytes:
    """What reading the file gives: its content, or the message of the error."""
    try:
        return read(path)
    except sw.InputError as error:
        return str(error)


def sweep(path: Path, block: int) -> None:
    """Flip hundreds of bits, one at a time: each is an error or changes nothing."""
    _arrayfile.BLOCK_BYTES = block
    save_choices(rich(), path)
    sound, size = everything(path), path.stat().st_size
    header = len(path.read_bytes()[: 1 << 20].rstrip())
    rng = np.random.default_rng(block)
    drawn = np.concatenate([
        np.arange(8), rng.integers(8, header, 100), rng.integers(header, 1 << 20, 12),
        rng.integers(1 << 20, size, 300),
    ])  # fmt: skip
    noticed = 0
    for place in drawn.tolist():
        bit = int(rng.integers(8))
        flip(path, place, bit)
        seen = found(path, everything)
        assert seen == sound or str(path) in seen, place
        noticed += seen != sound
        flip(path, place, bit)
    assert everything(path) == sound
    assert noticed > 0.8 * len(drawn)  # the rest is padding between arrays


def flip_each_array(path: Path) -> None:
    """Flip bits of every array; the error names it. Padding may hold anything."""
    save_choices(rich(), path)
    sound = everything(path)
    for name, (begin, end) in places(path).items():
        for place in {begin, (begin + end) // 2, end - 1}:
            flip(path, place, place % 8)
            seen = found(path, everything)
            if name.startswith("padding/"):
                assert seen == sound
            else:
                assert f"checksum of its array '{name}'" in seen
            flip(path, place, place % 8)


def fit_altered(path: Path) -> None:
    """Flip bits and fit: the fit is refused or the same."""
    save_choices(sw.datasets.generate("mnl", sets=60, items=3).choices, path)

    def fitted(path: Path) -> bytes:
        return sw.MNL().fit(open_choices(path)).coef_.tobytes()

    sound, rng, refused = fitted(path), np.random.default_rng(0), 0
    for place in rng.integers(1 << 20, path.stat().st_size, 30).tolist():
        flip(path, place, 7)  # the sign of a byte: offsets and codes become huge or negative
        seen = found(path, fitted)
        assert seen == sound or "was altered" in seen
        refused += seen != sound
        flip(path, place, 7)
    assert refused > 20


@pytest.mark.parametrize(
    "what",
    ["sweep(path, 64)", "sweep(path, 1 << 14)", "flip_each_array(path)", "fit_altered(path)"],
)
def test_no_altered_byte_is_ever_used(path, what):
    # In a process without checks of types, which read columns that no code asks for.
    code = f"import test_stored_choices as t; path = t.Path({str(path)!r}); t.{what}"
    tests = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = os.environ | {"PYTHONPATH": tests}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_not_read_is_not_checked_and_costs_nothing(path, monkeypatch):
    monkeypatch.setattr(_arrayfile, "BLOCK_BYTES", 64)
    save_choices(rich(), path)
    flip(path, places(path)["items/3"][1] - 1, 0)
    choices = open_choices(path)
    stored = choices.columns.stored["seen"].values
    assert not stored._checked.any()
    first = choices.take(np.arange(5))
    np.testing.assert_array_equal(first.columns["seen"].values, rich().columns["seen"].values[
        : first.offsets[-1]])  # fmt: skip
    assert stored._checked.sum() == -(-first.offsets[-1] * 8 // 64)
    with pytest.raises(sw.InputError, match=r"x.setwise-data was altered .*'items/3'"):
        choices.columns["seen"]


@pytest.mark.parametrize("place", [-1, -5000])
def test_an_altered_array_is_found_by_verify(path, place):
    save_choices(rich(400), path)
    last = max(end for name, (_, end) in places(path).items() if name.startswith("items/"))
    flip(path, last + place, 0)
    open_choices(path)
    with pytest.raises(sw.InputError, match="checksum of its array"):
        verify(path)


def crafted(path: Path, change) -> None:
    """Write a file of which all checksums are right, but not its content."""
    choices = rich()

    class Changed(_arrayfile.Writer):
        def add(self, name, parts):
            super().add(name, [np.array(change.get(name, lambda x: x)(part)) for part in parts])

        def finish(self, kind, meta):
            super().finish(kind, change.get("meta", lambda x: x)(meta))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_arrayfile, "Writer", Changed)
        save_choices(choices, path)


def put(place, value):
    def change(array):
        array = array.copy()
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": put(3, 10**9)}, "'offsets' does not begin with 0 and rise"),
        ({"offsets": put(-1, 2**60)}, "values of 1152921504606846976 rows"),
        ({"offsets": put(0, 1)}, "'offsets' does not begin with 0"),
        ({"offsets": lambda x: x[:0]}, "'offsets' is empty"),
        ({"offsets": lambda x: x.astype(float)}, "'offsets' is of type float64"),
        ({"chosen": put(2, 99)}, "'chosen' has 99 for set number 2, which has"),
        ({"chosen": put(2, -1)}, "'chosen' has -1"),
        ({"chosen": lambda x: x[:-1]}, "'chosen' has 39 values of 40 sets"),
        ({"weight": put(0, np.nan)}, "'weight' has values that are not positive"),
        ({"weight": put(0, -1)}, "'weight' has values that are not positive"),
        ({"context/1": put(0, 7)}, "'context/1' has the code 7, and there are 2 levels"),
        ({"items/2": put(0, 9)}, "'items/2' has the code 9, and there are 4 levels"),
        ({"items/2": put(0, -2)}, "'items/2' has the code -2"),
        ({"items/2": lambda x: x.astype(np.float32)}, "'items/2' is of type float32"),
        ({"items/0": lambda x: x[1:]}, r"'items/0' has \d+ values of \d+ rows"),
        ({"meta": lambda x: x | {"items": x["items"][:2]}}, "are not those of the roles"),
        ({"meta": lambda x: x | {"items": 3}}, "items=3 must be a list"),
        ({"meta": lambda x: x | {"rare": "no"}}, "rare='no' must be a number"),
        ({"meta": lambda x: x | {"outside": 1}}, "outside=1 must be True or False"),
        ({"meta": lambda x: x | {"dropped": {"x": 1}}}, "dropped|unexpected"),
        ({"meta": lambda x: {k: x[k] for k in x if k != "roles"}}, "it lacks 'roles'"),
    ],
)
def test_a_file_that_was_made_wrong_is_refused(path, change, message):
    crafted(path, change)
    with pytest.raises(sw.InputError, match=message) as caught:
        everything(path)
    assert str(path) in str(caught.value)


def damaged(data: bytes, how: str) -> bytes:
    header = json.loads(data[8 : 1 << 20])
    room = (1 << 20) - 8
    if how == "cut":
        return data[:-1]
    if how == "longer":
        return data + b"\0"
    if how == "empty":
        return b""
    if how == "in the header":
        return data[:100]
    if how == "foreign":
        return b"PAR1" * 1000
    if how == "kind":
        header["__metadata__"]["setwise"] = "model"
    elif how == "version":
        header["__metadata__"]["version"] = "99"
    else:
        header["__metadata__"]["meta"] = header["__metadata__"]["meta"].replace("0.01", "0.02")
    return data[:8] + json.dumps(header).encode().ljust(room) + data[1 << 20 :]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut", "truncated"), ("longer", "was appended to"), ("empty", "is not a setwise choices"),
        ("in the header", "is not a setwise choices"), ("foreign", "is not a setwise choices"),
        ("kind", "of model, not a setwise choices"), ("version", "version 99.*upgrade"),
        ("meta", "altered"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_in_one_sentence(path, how, message):
    save_choices(rich(), path)
    path.write_bytes(damaged(path.read_bytes(), how))
    with pytest.raises(sw.InputError, match=message):
        open_choices(path)


def test_names_of_categories_are_decoded_when_one_is_needed():
    levels = Levels(np.frombuffer(b'["a", "b"]', np.uint8), 2, "x.setwise-data")
    assert (len(levels), levels._names) == (2, None)
    assert (levels[1], list(levels)) == ("b", ["a", "b"])


@pytest.mark.parametrize(
    "text", [b'["a", "b"', b'["a"]', b'["a", 1]', b'{"a": 1, "b": 2}', b"\xff"]
)
def test_names_that_cannot_be_decoded_are_an_error(text):
    levels = Levels(np.frombuffer(text, np.uint8), 2, "x.setwise-data")
    with pytest.raises(sw.InputError, match=r"x.setwise-data cannot be used \(its levels"):
        levels[0]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(sw.InputError, match=r"no choices file .*nowhere.setwise-data"):
        open_choices(tmp_path / "nowhere.setwise-data")


def test_a_failure_while_writing_leaves_what_was_there(path):
    save_choices(rich(), path)
    before = path.read_bytes()

    def columns():
        yield "x", Column(np.zeros(3))
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save_choices(rich(), path, columns())
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_same_choices_give_the_same_bytes(path):
    other = path.with_name("other.setwise-data")
    save_choices(rich(), path)
    save_choices(rich(), other)
    assert path.read_bytes() == other.read_bytes()


def test_a_data_file_is_no_table(path):
    save_choices(rich(), path)
    with pytest.raises(sw.InputError, match=r"x.setwise-data is a data file.*open_choices"):
        sw.read(path, set="s")


def test_a_model_that_needs_all_rows_in_memory_says_when_they_do_not_fit(path, monkeypatch):
    save_choices(rich(), path)
    opened = open_choices(path)
    assert available_bytes() > 10**6
    monkeypatch.setattr(encoding, "available_bytes", lambda: 10_000)
    with pytest.raises(sw.InputError, match=r"rows of \d+ columns need about .* \(choices.sample"):
        sw.MNL().fit(opened.limit(min_items=2))
    monkeypatch.setattr(encoding, "available_bytes", lambda: None)
    assert len(Schema.learn(opened)[1].encoded()) == len(opened)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([b"a", b"a", b"b", b"b"]), np.array([1, 1, 2, 2], ">i4"),
        np.array(["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02"], "M8[h]"),
    ],
    ids=["bytes", "big-endian", "hours"],
)  # fmt: skip
def test_ids_of_any_type_come_back(path, ids):
    table = {"s": ids, "x": np.arange(4.0), "c": np.array([1, 0, 0, 1])}
    choices = sw.read(table, set="s", chosen="c", items=["x"])
    save_choices(choices, path)
    assert open_choices(path).set_ids.tolist() == choices.set_ids.tolist()


def test_a_type_that_no_file_holds_is_named(path):
    column = Column(np.zeros(len(rich().rows), np.float16))
    with pytest.raises(sw.InputError, match=r"'items/0' has the type <f2, which data files do not"):
        save_choices(rich(), path, iter([("x", column)]))
    assert not path.exists()

"""Model files: the same bytes for the same fit, everything comes back, and damage is noticed."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import setwise as sw
from setwise import InputError, _tensorfile
from setwise._files import check_writable, whole_file
from setwise.scoring.model_file import Artifact

QUICK = sw.Training(epochs=2)


def table(sets=60, seed=0):
    """A column of every kind; the chosen item is mostly the cheapest."""
    rng = np.random.default_rng(seed)
    rows = 3 * sets
    cost = rng.lognormal(size=(sets, 3))
    taken = np.zeros((sets, 3), int)
    taken[np.arange(sets), np.argmin(cost * rng.lognormal(size=cost.shape), 1)] = 1
    return {
        "s": np.repeat(np.arange(sets), 3),
        "cost": cost.ravel(),
        "review": np.where(rng.random(rows) < 0.2, np.nan, rng.random(rows)),
        "brand": rng.choice(["red", "green", "blue"], rows),
        "day": np.datetime64("2024-01-01") + rng.integers(0, 300, rows),
        "age": np.repeat(rng.integers(20, 80, sets), 3),
        "taken": taken.ravel(),
    }


def read(data):
    features = ["log(cost)", "impute(review)", "other(brand)", "day"]
    return sw.read(data, set="s", chosen="taken", items=features, context=["age"])


MODELS = {
    "mnl": sw.MNL,
    "sdw": lambda: sw.SDW(dimension=2, training=QUICK, seed=3),
    "sda": lambda: sw.SDA.paper(dimension=2, components=3, training=QUICK),
}


@pytest.fixture(scope="module")
def fitted():
    return {name: make().fit(read(table())) for name, make in MODELS.items()}


@pytest.fixture
def path(fitted, tmp_path):
    """A small model file to damage."""
    fitted["mnl"].save(tmp_path / "model.setwise")
    return tmp_path / "model.setwise"


def header_length(data: bytes) -> int:
    return 8 + struct.unpack("<Q", data[:8])[0]


def refusal(path) -> str:
    with pytest.raises(InputError) as caught:
        sw.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


# Whole and back


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_saved_one(name, fitted, tmp_path):
    saved = fitted[name]
    saved.save(tmp_path / "a.setwise")
    loaded = sw.load(tmp_path / "a.setwise")
    assert type(loaded) is type(saved)
    assert loaded.get_params() == saved.get_params()
    assert loaded.schema_ == saved.schema_
    new = table(20, seed=1)  # raw columns: the whole way from table to number travels
    np.testing.assert_array_equal(loaded.predict_proba(new), saved.predict_proba(new))
    for fact in vars(saved).keys() - {"schema_", "model_", "_choices"}:
        np.testing.assert_equal(getattr(loaded, fact), getattr(saved, fact))


@pytest.mark.parametrize("name", MODELS)
def test_the_same_fit_gives_the_same_bytes_and_so_does_a_loaded_model(name, fitted, tmp_path):
    MODELS[name]().fit(read(table())).save(tmp_path / "again")
    fitted[name].save(tmp_path / "once")
    sw.load(tmp_path / "once").save(tmp_path / "loaded")
    once, again, loaded = ((tmp_path / f).read_bytes() for f in ("once", "again", "loaded"))
    assert once == again == loaded


def test_saving_again_replaces_the_file_and_leaves_nothing_else(fitted, path):
    fitted["sdw"].save(path)
    assert isinstance(sw.load(path), sw.SDW)
    assert os.listdir(path.parent) == [path.name]


def test_the_file_is_plain_safetensors_with_json(path):
    with safetensors.safe_open(path, framework="numpy") as opened:
        assert opened.metadata()["setwise"] == "model"
        assert opened.metadata()["version"] == str(_tensorfile.FORMAT_VERSION) == "1"
        assert sorted(opened.keys()) == [
            "coef", "covariance", "covariance_robust", "graph/F.theta", "identified",
        ]  # fmt: skip


# Damage


def test_a_newer_format_is_refused_with_both_versions(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(_tensorfile, "FORMAT_VERSION", 2)
    fitted["mnl"].save(tmp_path / "new")
    monkeypatch.undo()
    assert "has format version 2, and this setwise reads 1; upgrade" in refusal(tmp_path / "new")


def test_a_model_of_unknown_kind_is_refused(fitted, tmp_path):
    schema = fitted["mnl"].schema_
    Artifact("Oracle", {}, schema, {}, {"a": np.zeros(1)}).write(tmp_path / "oracle")
    assert "holds a model 'Oracle', which this setwise does not know" in refusal(
        tmp_path / "oracle"
    )


def test_arrays_of_another_size_are_refused(fitted, tmp_path):
    artifact = Artifact(
        "SDW", {"dimension": 9, "training": {}}, fitted["sdw"].schema_, {"weights": [1.0]},
        {"F": np.zeros(2)},
    )  # fmt: skip
    artifact.write(tmp_path / "odd")
    with pytest.raises(InputError, match="arrays do not fit the model"):
        sw.load(tmp_path / "odd")


def test_a_file_cut_anywhere_is_refused(path):
    data = path.read_bytes()
    for length in range(0, len(data), 31):
        path.write_bytes(data[:length])
        assert "truncated" in refusal(path)


def test_bytes_after_the_end_are_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    assert "is not a setwise model file" in refusal(path)


def test_one_flipped_bit_in_the_weights_is_noticed(path):
    data = path.read_bytes()
    for place in range(header_length(data), len(data), 5):
        path.write_bytes(flipped(data, place, bit=place % 8))
        assert "was altered after it was written" in refusal(path)


def test_one_flipped_bit_anywhere_in_the_header_is_noticed(path):
    data = path.read_bytes()
    for place in range(0, header_length(data), 3):
        path.write_bytes(flipped(data, place, bit=place % 7))
        refusal(path)


def flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def foreign_tensors(path):
    safetensors.numpy.save_file({"weight": np.zeros(3)}, path)


def checkpoint(path):
    _tensorfile.write(path, "checkpoint", {"a": np.zeros(1)}, {})


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (foreign_tensors, "is a safetensors file, but of something else, not a setwise model"),
        (checkpoint, "is a safetensors file, but of checkpoint, not a setwise model; name a model"),
        (lambda path: path.write_text("not a model"), "is not a setwise model file"),
        (lambda path: path.write_bytes(b"PK\x03\x04" * 50), "is not a setwise model file"),
        (lambda path: path.write_bytes(b""), "is not a setwise model file, or it is truncated"),
        (lambda path: path.mkdir(), "is a folder, not a model file; name a model file"),
        (lambda path: None, "there is no model file"),
    ],
    ids=["safetensors", "checkpoint", "text", "zip", "empty", "folder", "absent"],
)
def test_foreign_files_are_refused(write, message, tmp_path):
    write(tmp_path / "x")
    assert message in refusal(tmp_path / "x")


# Whole or not at all


def fail_halfway(path):
    with whole_file(path) as part:
        part.write_text("half of")
        raise RuntimeError


def test_a_writer_that_fails_leaves_nothing_and_spares_the_old_file(tmp_path):
    old = tmp_path / "old"
    old.write_text("before")
    for path in (old, tmp_path / "new"):
        with pytest.raises(RuntimeError):
            fail_halfway(path)
    assert os.listdir(tmp_path) == ["old"]
    assert old.read_text() == "before"


def test_a_rename_that_fails_leaves_nothing(tmp_path, monkeypatch, fitted):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(sw.InputError, match="the disk is full: the file needs"):
        fitted["mnl"].save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_written_file_appears_only_when_it_is_whole(tmp_path):
    with whole_file(tmp_path / "a") as part:
        part.write_text("content")
        assert not (tmp_path / "a").exists()
    assert os.listdir(tmp_path) == ["a"]


def test_a_pipe_or_device_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(InputError, match="it is a device or a pipe; name a plain file"),
        whole_file(tmp_path / "pipe") as part,
    ):
        part.write_text("")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "it is a folder; name a file in it"),
        ("none/a", "there is no folder .*none; create it first"),
        ("file/a", "there is no folder .*file; create it first"),
        ("x" * 300, "File name too long; choose another place"),
        ("y" * 250, "File name too long; choose another place"),
        ("pipe", "it is a device or a pipe; name a plain file"),
    ],
    ids=["folder", "no folder", "file as folder", "long", "long beside", "pipe"],
)
def test_a_path_that_cannot_be_written_is_refused(name, message, tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=f"cannot write .*: {message}"):
        check_writable(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", forbidden)
    with pytest.raises(InputError, match="Permission denied; choose another place"):
        check_writable(tmp_path / "a")


def test_a_path_that_can_be_written_is_left_as_it_was(tmp_path):
    (tmp_path / "old").write_text("before")
    for name in ("old", "new"):
        check_writable(tmp_path / name)
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "before"

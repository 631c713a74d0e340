"""Files written earlier: each current format loads and predicts the same, others are refused."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise import InputError, _arrayfile, _tensorfile
from setwise.scoring import load_scorer

FILES = Path(__file__).parent / "files"
MODELS = sorted(FILES.glob(f"model-{_tensorfile.FORMAT_VERSION}-*.setwise"))
DATA = FILES / f"data-{_arrayfile.FORMAT_VERSION}.setwise-data.gz"


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "trips.setwise-data"
    path.write_bytes(gzip.decompress(DATA.read_bytes()))
    return path


def test_a_file_of_every_current_format_is_stored():
    assert [path.stem.rpartition("-")[2] for path in MODELS] == ["mnl", "sda"]
    assert DATA.exists()


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("load", [sw.load, load_scorer])
def test_stored_models_predict_the_stored_numbers(path, load, data):
    choices = sw.open_choices(data)
    wanted = json.loads((FILES / "predictions.json").read_text())[path.stem.rpartition("-")[2]]
    found = load(path).predict_proba(choices)
    assert len(found) == len(wanted) == choices.offsets[-1]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-6)


def test_stored_data_are_the_same_choices(data):
    choices = sw.open_choices(data)
    assert (len(choices), choices.roles.set, choices.roles.chosen) == (40, "trip", "taken")
    assert list(choices.columns) == ["cost", "mode", "review"]
    assert list(choices.context) == ["income"]
    assert set(choices.columns["mode"].text()) == {"bus", "car", "train"}


VERSIONS = [("0", "write the file again"), ("99", "upgrade setwise"), ("new", "write the file")]


@pytest.mark.parametrize(("version", "remedy"), VERSIONS)
@pytest.mark.parametrize("kind", ["model", "data"])
def test_another_version_is_refused_in_a_sentence(kind, version, remedy, data, tmp_path):
    source, load = (MODELS[0], sw.load) if kind == "model" else (data, sw.open_choices)
    content = source.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["version"] = version
    text = json.dumps(header).encode().ljust(length)
    path = tmp_path / "other"
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    with pytest.raises(InputError, match=f"other has format version {version}, and .*{remedy}"):
        load(path)

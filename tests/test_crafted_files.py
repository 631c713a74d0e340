"""Files that were changed on purpose are refused in one sentence, or harmless: never a crash."""

import json
import os
import pickle
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import crafted
import scored
import setwise as sw
from setwise import InputError, _tensorfile, scoring
from setwise._trees import Trees
from setwise.scoring.graph import MOST_OPERATIONS, checked
from setwise.scoring.onnx_file import export_onnx

LOADERS = {"load": sw.load, "scorer": scoring.load_scorer}
FEW = ("mnl", "trees", "ensemble")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Makes a model file of a kind, once."""
    folder = tmp_path_factory.mktemp("files")

    def of(kind: str) -> Path:
        path = folder / f"{kind}.setwise"
        if not path.exists():
            crafted.made(kind, path)
        return path

    return of


def refusal(load, path) -> str:
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Hundreds of changes


def sweeps(path: Path, seed: int, count: int) -> None:
    code = f"import crafted; crafted.sweep(crafted.Path({str(path)!r}), {seed}, {count})"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", FEW)
def test_changed_model_files_are_refused_or_predict(files, kind):
    sweeps(files(kind), seed=0, count=200)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(crafted.kinds()))
def test_files_of_every_kind_are_refused_or_predict(files, kind):
    sweeps(files(kind), seed=1, count=1000)


# What was found by hand


def graph_of(operations, arrays=None):
    """Replace a file's graph by these operations, with these arrays beside its own."""

    def change(own, meta):
        given = [one[2] for one in meta["graph"]["operations"] if one[0] == "input"]
        ITEMS[2][2][:] = next(shape for name, _, shape in given if name == "items")
        meta["graph"]["operations"] = operations
        own.update(arrays or {})

    return change


ITEMS = ["input", [], ["items", "float32", ["sets", "items", 0]]]  # as wide as the file's
PRESENT = ["input", [], ["present", "bool", ["sets", "items"]]]


def folds_to_gigabytes():
    """Constants that grow from one number to 2^30, though the file is small."""
    column = ["weight", [], ["graph/w", "float32", [32768, 1]]]
    row = ["weight", [], ["graph/r", "float32", [1, 32768]]]
    arrays = {
        "graph/w": np.ones((32768, 1), np.float32), "graph/r": np.ones((1, 32768), np.float32)
    }  # fmt: skip
    return graph_of([ITEMS, column, row, ["mul", [1, 2], []], ["sum", [0], [2]]], arrays)


def folds_step_by_step():
    """No value is large by itself, but all of them together are."""
    wide = ["broadcast", [1], [4_000_000]]
    steps = [["add", [2 + n, 2 + n], []] for n in range(300)]
    return graph_of([ITEMS, ["literal", [], [1.0, "float32"]], wide, *steps, ["sum", [0], [2]]])


def grows_with_data():
    """Every item of a set becomes a billion numbers."""
    operations = [ITEMS, ["sum", [0], [2]], ["reshape", [1], ["sets", "items", 1]],
                  ["broadcast", [2], ["sets", "items", 10**9]], ["sum", [3], [2]]]  # fmt: skip
    return graph_of(operations)


def many_axes():
    shape = ["sets", "items", "items", "items", "items", "items"]
    return graph_of([ITEMS, ["sum", [0], [2]], ["broadcast", [1], shape]])


def many_operations(own, meta):
    many = (["neg", [n + 1], []] for n in range(100_000))
    graph_of([ITEMS, ["sum", [0], [2]], *many])(own, meta)


GRAPHS = {
    "folds to gigabytes": (folds_to_gigabytes(), "the graph's constants would have"),
    "folds step by step": (folds_step_by_step(), "the graph's constants would have"),
    "grows with data": (grows_with_data(), "values of an item would have"),
    "many axes": (many_axes(), "is not a shape"),
    "many operations": (many_operations, "the graph has 100,002 operations; at most 4,000"),
    "no operation": (graph_of([]), "must be a list or tuple of at least 1 value"),
    "unknown operation": (graph_of([["sort", [], []]]), "does not know it; upgrade"),
    "for tables": (graph_of([ITEMS, ["take", [0, 0], []]]), "does not know it"),
    "later value": (graph_of([ITEMS, ["neg", [5], []]]), "no operation before it makes"),
    "negative value": (graph_of([ITEMS, ["neg", [-1], []]]), "no operation before it makes"),
    "no values": (graph_of([ITEMS, ["add", [0], []]]), "it takes 2 inputs, not 1"),
    "axis": (graph_of([ITEMS, ["sum", [0], [7]]]), "has no axes"),
    "axis twice": (graph_of([ITEMS, ["sum", [0], [2, 2]]]), "has no axes"),
    "slice": (graph_of([ITEMS, ["slice", [0], [2, 0, 99, 1]]]), "has no part 0:99:1"),
    "step": (graph_of([ITEMS, ["slice", [0], [2, 0, 2, 0]]]), "has no part 0:2:0"),
    "reshape": (graph_of([ITEMS, ["reshape", [0], ["sets", 3]]]), "has another size"),
    "order": (graph_of([ITEMS, ["transpose", [0], [0, 1]]]), "is not an order of 3 axes"),
    "dot": (graph_of([ITEMS, ["dot", [0, 0], [[2], [1], [], []]]]), "lengths of axes differ"),
    "types": (graph_of([ITEMS, PRESENT, ["add", [0, 1], []]]), "types differ"),
    "logic": (graph_of([ITEMS, ["not", [0], []]]), "it is not for float32"),
    "join": (graph_of([ITEMS, ["concatenate", [0, 0], [1]]]), "data along their sets or items"),
    "cast": (graph_of([ITEMS, ["cast", [0], ["object"]]]), "there is no type object"),
    "literal": (graph_of([["literal", [], ["x", "float32"]]]), "is not of type float32"),
    "integer": (graph_of([["literal", [], [10**30, "int32"]]]), "is too large"),
    "size": (graph_of([["size", [], ["rows"]]]), "there is no size"),
    "weight": (graph_of([["weight", [], ["none", "float32", [2]]]]), "does not fit the file's"),
    "other input": (graph_of([["input", [], ["x", "float32", [2]]]]), "there is no input 'x'"),
    "width": (graph_of([["input", [], ["items", "float32", ["sets", "items", 3]]]]), "shape"),
    "result": (graph_of([ITEMS]), "the graph's result is float32 of shape"),
    "not probabilities": (graph_of([ITEMS, ["sum", [0], [2]]]), "add up to"),
    "version": (lambda arrays, meta: meta["graph"].update(version=2), "format version 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_that_makes_no_sense_is_refused(files, tmp_path, name):
    change, message = GRAPHS[name]
    path = tmp_path / "crafted.setwise"
    crafted.changed(files("mnl"), path, change)
    assert path.stat().st_size < 4_000_000
    begin = time.process_time()
    assert message in refusal(scoring.load_scorer, path)
    assert time.process_time() - begin < 5
    if name != "not probabilities":  # which only who computes them can see
        assert message in refusal(lambda one: export_onnx(one, tmp_path / "x.onnx"), path)


def test_an_estimator_does_not_need_the_graph_of_its_file(files, tmp_path):
    """So a file whose graph is of another version can be mended as its error says."""
    path = tmp_path / "crafted.setwise"
    crafted.changed(files("mnl"), path, GRAPHS["version"][0])
    assert "load the model and save it again" in refusal(scoring.load_scorer, path)
    sw.load(path).save(path)
    assert scoring.load_scorer(path).estimator == "MNL"


def test_weights_that_are_not_numbers_are_refused(files, tmp_path):
    path = tmp_path / "crafted.setwise"
    for value in (np.nan, np.inf):
        for kind, name in (("mnl", "coef"), ("sda", None), ("mnl", "graph/F.theta")):

            def change(arrays, meta, name=name, value=value):
                arrays[name or next(n for n in arrays if "theta" in n)].reshape(-1)[0] = value

            crafted.changed(files(kind), path, change)
            loaders = [scoring.load_scorer] if name == "graph/F.theta" else [sw.load]
            for load in loaders:
                assert "not finite numbers" in refusal(load, path)


def put(*keys, value):
    """Change one value of the JSON."""

    def change(arrays, meta):
        for key in keys[:-1]:
            meta = meta[key]
        meta[keys[-1]] = value

    return change


DESCRIPTIONS = {
    "many members": ("ensemble", put("params", "ensemble", value=10**9), "and there are 2 weights"),
    "weights": ("ensemble", put("fitted", "weights", value=[0.5] * 10**5), "100000 weights"),
    "negative weights": ("ensemble", put("fitted", "weights", value=[-1, 2]), "must be a number"),
    "dimension": ("sda", put("params", "dimension", value=10**9), "cannot be used (its model"),
    "no dimension": ("sda", put("params", "dimension", value=0), "dimension=0"),
    "unknown argument": ("mnl", put("params", "x", value=1), "cannot be used (its model"),
    "estimator": ("mnl", put("estimator", value=3), "estimator=3 must be a string"),
    "unknown": ("mnl", put("estimator", value="Oracle"), "does not know"),
    "schema": ("mnl", put("schema", value=[]), "schema=[] must be of type dict"),
    "mean": ("mnl", put("schema", "mean", value=[0.0]), "means and scales"),
    "mean of text": ("mnl", put("schema", "mean", 0, value="0"), "mean[0]='0' must be a number"),
    "scale": ("mnl", put("schema", "scale", 0, value=0), "scale[0]=0 must be a number above 0"),
    "infinite mean": ("mnl", put("schema", "mean", 0, value=float("inf")), "must be a number"),
    "kind": ("mnl", put("schema", "items", 0, "kind", value="x"), "kind='x' must be one of"),
    "levels": ("mnl", put("schema", "items", 3, "levels", value="ab"), "column 'brand'"),
    "transform": (
        "mnl", put("schema", "items", 0, "feature", "transform", value="exp"), "transform='exp'"
    ),
    "roles": ("mnl", put("schema", "roles", "items", value=[]), "not those of the roles"),
    "outside": ("mnl", put("schema", "outside", value=3), "outside=3 must be True or False"),
    "sample": ("mnl", put("sample", value=[{"items": [3]}]), "must be of type dict"),
    "temperature": ("trees", put("fitted", "temperature", value=0), "temperature=0"),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_description_that_makes_no_sense_is_refused(files, tmp_path, name):
    kind, change, message = DESCRIPTIONS[name]
    path = tmp_path / "crafted.setwise"
    crafted.changed(files(kind), path, change)
    assert message in refusal(sw.load, path)


def of_trees(name, place, value):
    def change(arrays, meta):
        arrays[f"trees/{name}"][place] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_trees("left", 0, 0), "leads out of its tree, or back"),
        (of_trees("right", 0, 10**6), "leads out of its tree, or back"),
        (of_trees("left", 0, -(10**6)), "leads out of its tree, or back"),
        (of_trees("feature", 0, 99), "is of a column beyond"),
        (of_trees("feature", 0, -1), "is of a column beyond"),
        (of_trees("value", 0, np.nan), "not finite"),
        (of_trees("threshold", 0, np.nan), "not finite"),
        (of_trees("decision", 0, 15), "of an unknown kind"),
        (of_trees("decision", 0, 1), "sets of categories contradict each other"),
        (of_trees("leaves", 0, 10**6), "do not have the leaves that they say"),
        (of_trees("leaves", 0, 0), "do not have the leaves that they say"),
        (lambda arrays, meta: arrays.__delitem__("trees/value"), "are not those of trees"),
        (lambda arrays, meta: arrays.update(trees=np.zeros(9, np.uint8)), "not those of trees"),
    ],
)
def test_trees_that_make_no_sense_are_refused(files, tmp_path, change, message):
    path = tmp_path / "crafted.setwise"
    crafted.changed(files("trees"), path, change)
    assert message in refusal(sw.load, path)


def test_lightgbm_is_not_needed_to_predict(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # importing it fails
    model = sw.load(files("trees"))
    assert isinstance(model.model_, Trees)
    assert np.isfinite(model.predict_proba(scored.rows([2, 3], seed=9))).all()


def test_the_bounds_are_far_from_what_models_need():
    from setwise.scoring.tracing import traced

    for name in scored.TELLING:
        graph, arrays = traced(scored.variants(name)["weighed"], scored.WIDTH)
        assert checked(graph, arrays, scored.WIDTH) is graph
        assert len(graph.operations) < MOST_OPERATIONS / 10


# Other files


def other_version(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tensorfile, "FORMAT_VERSION", 7)
        _tensorfile.write(path, "model", {"a": np.zeros(1)}, {})


def zipped(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.pkl", pickle.dumps([1]))


def nested(path):
    _tensorfile.write(path, "model", {"a": np.zeros(1)}, {})
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    deep = "[" * 100_000 + "]" * 100_000
    header["__metadata__"]["meta"] = deep
    arrays = {"a": np.zeros(1)}
    header["__metadata__"]["sha256"] = _tensorfile._checksum("model", arrays, deep)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def header(**entries):
    """A file whose header is this, followed by eight bytes."""

    def write(path):
        text = json.dumps(entries).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))

    return write


def one(dtype="F64", shape=(1,), between=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(between)}


ABOUT = {"setwise": "model", "version": "1", "meta": "{}", "sha256": ""}
FILES = {
    "empty": (lambda path: path.write_bytes(b""), "is not a setwise model file, or it is trunc"),
    "short": (lambda path: path.write_bytes(b"abc"), "is not a setwise model file"),
    "folder": (lambda path: path.mkdir(), "is a folder, not a model file"),
    "pipe": (os.mkfifo, "is a device or a pipe"),
    "absent": (lambda path: None, "there is no model file"),
    "safetensors": (lambda path: safetensors.numpy.save_file({"w": np.ones(2)}, path),
                    "but of something else, not a setwise model"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "is not a setwise model"),
    "zip": (zipped, "is not a setwise model file"),
    "version": (other_version, "has format version 7, and this setwise reads 1; upgrade"),
    "nested": (nested, "cannot be used (its JSON"),
    "long header": (lambda path: path.write_bytes((2**62).to_bytes(8, "little") + b"{}"),
                    "it has no header"),
    "list": (lambda path: path.write_bytes((2).to_bytes(8, "little") + b"[]"), "not an object"),
    "about": (header(__metadata__=[], a=one()), "but of something else"),
    "about is short": (header(__metadata__={"setwise": "model", "version": "1"}, a=one()), "lacks"),
    "same bytes twice": (header(__metadata__=ABOUT, a=one(), b=one()), "does not begin where"),
    "gap": (header(__metadata__=ABOUT, a=one("U8", (1,), (7, 8))), "does not begin where"),
    "shape": (header(__metadata__=ABOUT, a=one(shape=(10**9,))), "is not as long as its shape"),
    "negative": (header(__metadata__=ABOUT, a=one(shape=(-1,))), "does not describe the array"),
    "type": (header(__metadata__=ABOUT, a=one("F16")), "does not describe the array"),
    "number": (header(__metadata__=ABOUT, a=3), "does not describe the array"),
    "cut": (header(__metadata__=ABOUT, a=one("U8", (4,), (0, 4))), "bytes instead of"),
}  # fmt: skip


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("name", FILES)
def test_other_files_are_refused_in_one_sentence(tmp_path, name, loader):
    write, message = FILES[name]
    write(tmp_path / "x")
    assert message in refusal(LOADERS[loader], tmp_path / "x")


# Checkpoints


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """The folder of a fit's checkpoint, and what makes the fit."""
    folder = tmp_path_factory.mktemp("checkpoints")
    drawn = sw.datasets.generate("mnl", sets=40, items=3, seed=0).choices

    def fit(folder=folder, choices=drawn):
        training = sw.Training(epochs=2)
        return sw.SDW(2, training=training).fit(choices, choices, checkpoint=folder)

    fit()
    return folder, fit


def test_checkpoints_that_make_no_sense_are_refused(interrupted, tmp_path):
    folder, fit = interrupted
    (kept,) = [one for one in folder.rglob("*") if one.is_file()]
    copy = tmp_path / "copy" / kept.relative_to(folder)
    copy.parent.mkdir(parents=True)
    sound = kept.read_bytes()

    def refused() -> str:
        return refusal(lambda path: fit(tmp_path / "copy"), copy)

    copy.write_bytes(sound)
    fit(tmp_path / "copy")
    copy.write_bytes(sound[:-9])
    assert "truncated" in refused()
    copy.write_bytes(sound[:-9] + bytes([sound[-9] ^ 1]) + sound[-8:])
    assert "was altered after it was written" in refused()
    copy.write_bytes(b"")
    assert "is not a setwise checkpoint file" in refused()
    arrays, meta = _tensorfile.read(kept, "checkpoint")
    for key in meta:
        _tensorfile.write(copy, "checkpoint", arrays, {k: v for k, v in meta.items() if k != key})
        assert "cannot be used (its state" in refused()
    _tensorfile.write(copy, "checkpoint", dict(list(arrays.items())[1:]), meta)
    assert "arrays do not fit the model" in refused()
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    _tensorfile.write(copy, "checkpoint", wide, meta)
    assert "arrays do not fit the model" in refused()
    _tensorfile.write(copy, "checkpoint", arrays, meta | {"fit": "x"})
    assert "belongs to another fit" in refused()


def test_a_checkpoint_of_other_data_is_refused(interrupted):
    _, fit = interrupted
    other = sw.datasets.generate("mnl", sets=40, items=3, seed=1).choices
    with pytest.raises(InputError, match=r"belongs to another fit \(other data"):
        fit(choices=other)

"""Scoring without the engine: the same numbers as JAX's, quickly, and without JAX."""

import functools
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import scored
import setwise as sw
from setwise import InputError, scoring
from setwise.choices import Encoded
from setwise.models import ZOO
from setwise.scoring.model_file import Artifact
from setwise.scoring.numpy_program import NumpyProgram
from setwise.scoring.tracing import traced

SIZES = [1, 2, 3, 10, 37, 100]
SHARED = sw.models.Sizes(dimension=4, components=3, hidden=6, wiring="shared")


def close(found, wanted, present):
    """Probabilities to 1e-5, and logarithms as far as single precision has them."""
    np.testing.assert_array_equal(found[~present], -np.inf)
    np.testing.assert_allclose(np.exp(found), np.exp(wanted), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found[present], wanted[present], rtol=1e-4, atol=1e-4)


# Parity with JAX


def scores_as_with_jax(model, sizes):
    program = NumpyProgram.of(*traced(model, scored.WIDTH))
    items, present = scored.padded(sizes)
    kept = items.copy(), present.copy()
    found = program(items, present)
    close(found, scored.by_jax(model, items, present), present)
    for width in (1, 2, 7):  # without padding, where no masks are needed
        alone = items[:, :width], present[:, :width] | True
        given = program.inputs(*alone)
        close(program(*alone), program.general(given), alone[1])
    # A call changes neither its arguments nor the weights.
    np.testing.assert_array_equal(items, kept[0])
    np.testing.assert_array_equal(present, kept[1])
    np.testing.assert_array_equal(program(items, present), found)


@pytest.mark.parametrize("name", scored.TELLING)
def test_weighed_ensembles_score_as_with_jax(name):
    scores_as_with_jax(scored.variants(name)["weighed"], SIZES)


def test_a_network_wired_in_the_other_way_scores_as_with_jax():
    scores_as_with_jax(scored.built("sda_inner", sizes=SHARED), [4, 7])


@pytest.mark.slow
@pytest.mark.parametrize("wiring", [scored.SMALL, SHARED])
@pytest.mark.parametrize("name", ZOO)
def test_every_model_of_the_zoo_scores_as_with_jax(name, wiring):
    for model in scored.variants(name, wiring).values():
        scores_as_with_jax(model, SIZES)


ESTIMATORS = {
    "mnl": sw.MNL,
    "lcl": sw.LinearContextLogit,
}
SLOWER = {
    "cheapest": lambda: sw.SingleFeature("cost"),
    "random": sw.RandomChoice,
    "sda_trained": lambda: sw.SDA(2, ensemble=2, training=sw.Training(epochs=2)),
    "within": sw.WithinSetMNL,
    "nested": lambda: sw.NestedLogit("brand"),
    "mixed": lambda: sw.MixedMNL(2, starts=1),
    "svm": lambda: sw.SVMRank(C=0.1),
    "adarank": lambda: sw.AdaRank(rounds=3),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Fits and saves an estimator, once: columns of every kind, context, an outside option."""
    folder, choices = tmp_path_factory.mktemp("models"), scored.read(scored.rows([3, 4, 5] * 40))

    @functools.cache
    def of(name):
        path = folder / f"{name}.setwise"
        if name == "sda":
            estimator = scored.as_fitted("sda", sw.Schema.fit(choices), ensemble=3)
        else:
            estimator = (ESTIMATORS | SLOWER)[name]().fit(choices)
        estimator.save(path)
        return estimator, path

    return of


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name", ["sda", *ESTIMATORS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)]
)
def test_a_saved_estimator_predicts_a_table_as_before(trained, name):
    estimator, path = trained(name)
    table = scored.rows([1, 6, 5, 6], seed=3)
    shuffled = np.random.default_rng(0).permutation(len(table["cost"]))
    table = {column: values[shuffled] for column, values in table.items()}
    found = scoring.load_scorer(path).predict_proba(table)
    np.testing.assert_allclose(found, estimator.predict_proba(table), rtol=0, atol=1e-5)
    assert scoring.load_scorer(path).estimator == type(estimator).__name__
    assert scoring.load_scorer(path).schema == estimator.schema_


def test_probabilities_of_padded_sets_are_those_of_rows(trained):
    one = scoring.load_scorer(trained("sda")[1])
    encoded = one.schema.encode(scored.read(scored.rows([2, 5], seed=3)))
    assert encoded.sizes.tolist() == [3, 6]  # with the outside option
    items = np.full((2, 6, one.schema.width), np.nan, np.float32)
    present = np.arange(6) < encoded.sizes[:, None]
    items[present] = np.hstack([encoded.items, np.repeat(encoded.context, encoded.sizes, 0)])
    found = one.probabilities(items, present)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(found[~present], 0)
    flat = np.exp(one.row_log_probabilities(encoded))
    np.testing.assert_allclose(found[present], flat, rtol=1e-5)


def test_rows_come_back_in_order_whatever_the_sizes(trained):
    one = scoring.load_scorer(trained("mnl")[1])
    together = one.schema.encode(scored.read(scored.rows([7, 1, 7, 30, 2], seed=4)))
    flat = one.row_log_probabilities(together)
    for number in range(len(together)):
        first, end = together.offsets[number : number + 2]
        alone = Encoded(
            together.items[first:end], together.context[number : number + 1],
            np.array([0, end - first]), None, None,
        )  # fmt: skip
        np.testing.assert_allclose(flat[first:end], one.row_log_probabilities(alone), atol=1e-5)


# What holds of every program


@pytest.fixture(scope="module")
def program():
    return NumpyProgram.of(*traced(scored.variants("sda")["weighed"], scored.WIDTH))


def test_padding_and_what_stands_in_it_change_nothing(program):
    items, present = scored.padded([4, 9])
    found = program(items, present)
    dirty = np.where(present[..., None], items, np.nan).astype(np.float32)
    np.testing.assert_array_equal(program(dirty, present), found)
    wider = np.pad(items, [(0, 0), (0, 5), (0, 0)])
    again = program(wider, np.pad(present, [(0, 0), (0, 5)]))
    np.testing.assert_allclose(again[:, :9], found, rtol=1e-5, atol=1e-5)
    alone = program(items[:1, :4], present[:1, :4])  # the shorter program, without masks
    np.testing.assert_allclose(alone, found[:1, :4], rtol=1e-5, atol=1e-5)


def test_blocks_join_seamlessly(program, monkeypatch):
    items, present = scored.padded([5, 3, 8, 2, 8, 1, 4])
    whole = program(items, present)
    monkeypatch.setattr("setwise.scoring.numpy_program.NUMBERS_PER_BLOCK", 2 * 8 * 9)
    assert program.general.sets_per_block(8) == 50  # of 400 items, however long their rows are
    monkeypatch.setattr("setwise.scoring.numpy_program.FEWEST_ITEMS_PER_BLOCK", 16)
    assert 1 <= program.general.sets_per_block(8) <= 3
    np.testing.assert_allclose(program(items, present), whole, rtol=1e-5, atol=1e-6)


def test_threads_share_a_program(program):
    batches = [scored.padded([4, 6, 5], seed=seed) for seed in range(8)]
    alone = [program(*batch) for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            for found, wanted in zip(threads.map(lambda b: program(*b), batches), alone,
                                     strict=True):  # fmt: skip
                np.testing.assert_array_equal(found, wanted)


def test_no_sets_have_no_probabilities(program):
    items, present = np.zeros((0, 4, scored.WIDTH), np.float32), np.zeros((0, 4), bool)
    assert program(items, present).shape == (0, 4)


# What is refused


def test_a_wrong_number_of_features_is_refused(trained):
    one = scoring.load_scorer(trained("mnl")[1])
    with pytest.raises(InputError, match="sets x items x 15 features"):
        one.log_probabilities(np.zeros((2, 3, 14), np.float32), np.ones((2, 3), bool))


def test_a_table_without_a_column_is_refused(trained):
    table = scored.rows([3])
    del table["cost"]
    with pytest.raises(InputError, match="feature column 'cost' is missing"):
        scoring.load_scorer(trained("mnl")[1]).predict_proba(table)


def test_a_file_without_a_graph_says_what_to_do(trained, tmp_path):
    estimator, _ = trained("mnl")
    path = tmp_path / "old.setwise"
    estimator._to_artifact().write(path)
    with pytest.raises(InputError, match=r"setwise.load\(path\).save\(path\)"):
        scoring.load_scorer(path)
    sw.load(path).save(path)
    assert scoring.load_scorer(path).estimator == "MNL"


def test_rankers_of_trees_score_without_lightgbm(tmp_path):
    pytest.importorskip("lightgbm")
    choices = scored.read(scored.rows([3, 4, 5] * 20))
    model = sw.LambdaMART(threads=1, rounds=9, min_rows=3).fit(choices, choices)
    model.save(tmp_path / "trees.setwise")
    found = scoring.load_scorer(tmp_path / "trees.setwise").predict_proba(choices)
    np.testing.assert_allclose(found, model.predict_proba(choices), rtol=0, atol=1e-6)


def test_a_model_that_cannot_be_traced_is_saved_with_a_warning(trained, tmp_path, monkeypatch):
    def refuse(*arguments):
        raise InputError("the model computes with JAX's 'sort'")

    monkeypatch.setattr("setwise.scoring.tracing.traced", refuse)
    estimator, _ = trained("mnl")
    with pytest.warns(UserWarning, match="with JAX only.*'sort'"):
        estimator.save(tmp_path / "a.setwise")
    assert Artifact.read(tmp_path / "a.setwise").graph is None
    sw.load(tmp_path / "a.setwise")


# Without the engine

SCRIPT = """
import sys
import numpy as np
import setwise.scoring
scorer = setwise.scoring.load_scorer(sys.argv[1])
table = dict(np.load(sys.argv[2]))
probability = scorer.predict_proba(table)
print(float(probability.sum()))
try:
    scorer.probabilities(np.zeros((2, 3, scorer.schema.width), np.float32), np.ones((2, 4), bool))
except setwise.InputError as error:
    print(error)
print([name for name in sys.modules if name in ("jax", "polars", "sklearn", "scipy", "equinox")])
"""


def processor_seconds(command):
    """What a process takes from start to end if nobody else is there, and what it prints."""
    # Not os.times(), which counts in hundredths: NumPy's start is a few of them.
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime, done.stdout


def test_a_whole_prediction_imports_no_engine_and_costs_little_more_than_numpy(trained, tmp_path):
    """Less than four times what NumPy takes to start. Both are measured in turns: machines differ,
    and the same machine from hour to hour."""
    estimator, path = trained("sda")
    table = scored.rows([3, 10], seed=5)
    np.savez(tmp_path / "table.npz", **table)
    command = [sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "table.npz")]
    bare = [sys.executable, "-c", "import numpy"]
    turns = [(processor_seconds(command), processor_seconds(bare)) for _ in range(3)]
    printed = turns[0][0][1]
    total, refused, imported = printed.splitlines()
    assert float(total) == pytest.approx(estimator.predict_proba(table).sum(), abs=1e-5)
    assert "present has shape (2, 4)" in refused
    assert imported == "[]"
    ours, numpys = (min(turn[side][0] for turn in turns) for side in (0, 1))
    assert ours < 4 * numpys


ALONE = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "setwise"}:
            raise ModuleNotFoundError(f"there is no {name}", name=name)

if "refuse" in sys.argv:
    sys.meta_path.insert(0, Refused())
import numpy as np
import setwise.scoring
scorer = setwise.scoring.load_scorer(sys.argv[1])
table = dict(np.load(sys.argv[2]))
print(float(scorer.predict_proba(table).sum()))
for given in ("table.parquet", object()):
    try:
        scorer.predict_proba(given)
    except setwise.InputError as error:
        print(error)
try:
    setwise.MNL
except ImportError as error:
    print(error)
"""


def scores_alone(python, path, estimator, folder, *more):
    """Check that this Python scores and says what is missing for the rest."""
    table = scored.rows([3, 10], seed=5)
    np.savez(folder / "table.npz", **table)
    (folder / "table.parquet").touch()
    command = [python, "-c", ALONE, str(path), str(folder / "table.npz"), *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    total, no_file, no_frame, no_training = done.stdout.splitlines()
    assert float(total) == pytest.approx(estimator.predict_proba(table).sum(), abs=1e-5)
    assert "reading table.parquet needs the package polars: pip install polars" in no_file
    assert "reading a object needs the package narwhals" in no_frame
    assert "setwise.MNL needs the package" in no_training


@pytest.mark.parametrize("name", ["sda", "mnl"])
def test_scoring_needs_no_package_but_numpy(trained, tmp_path, name):
    estimator, path = trained(name)
    scores_alone(sys.executable, path, estimator, tmp_path, "refuse")

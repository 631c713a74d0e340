"""The benchmarks' own arithmetic, and a quick run of setwise's sides.

Rivals live in environments that `make bench` makes; what is not there is skipped.
"""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.append(str(BENCHMARKS))

import accuracy  # noqa: E402
import all as everything  # noqa: E402
import bare_polars  # noqa: E402
import data  # noqa: E402
import environments  # noqa: E402
import epoch_speed  # noqa: E402
import few_sets  # noqa: E402
import large_data  # noqa: E402
import league  # noqa: E402
import mixed_gpu  # noqa: E402
import mixed_speed  # noqa: E402
import mnl_speed  # noqa: E402
import report  # noqa: E402
import roofline  # noqa: E402
import setwise_population  # noqa: E402
import setwise_sda  # noqa: E402
import setwise_tuning  # noqa: E402
import study  # noqa: E402
import walk  # noqa: E402

import setwise as sw  # noqa: E402
from setwise import paper  # noqa: E402
from setwise.training import population_plan  # noqa: E402

SIDES = [*mnl_speed.sides(), *epoch_speed.networks(), *epoch_speed.logits()]
RIVALS = [side for side in SIDES if side.environment is not None]


def small(folder: Path, ragged: bool) -> Path:
    return data.write(folder, "small", data.make(200, 4, 3, seed=0, ragged=ragged))


def test_padding_keeps_every_row_in_its_place():
    choices = data.make(30, 5, 2, seed=1, ragged=True)
    x, present = data.padded(choices)
    sets, items = data.numbers(choices)
    assert present.sum() == len(choices["items"])
    np.testing.assert_array_equal(x[sets, items], choices["items"])
    assert not x[~present].any()


def test_log_likelihood_by_hand():
    choices = {
        "items": np.array([[0.0], [np.log(3)], [1.0], [1.0], [1.0]]),
        "sizes": np.array([2, 3]),
        "chosen": np.array([1, 2]),
    }
    expected = np.log(3 / 4) + np.log(1 / 3)
    assert data.log_likelihood(choices, np.ones(1)) == pytest.approx(expected)


def test_the_mixed_logit_of_setwise_runs(tmp_path):
    path = data.write(tmp_path, "panel", mixed_speed.panel(people=10, times=4))
    ours = mixed_speed.sides(draws=10)[0]
    found = report.attempt(sys.executable, ours.script, path, "--times", 1, *ours.arguments)
    assert "error" not in found
    assert found["log_likelihood"] < 0
    assert len(found["standard_errors"]) == 12


def test_the_mixed_logit_on_a_processor_and_perhaps_a_gpu(tmp_path):
    plan = mixed_gpu.QUICK
    path = data.write(tmp_path, "panel", mixed_speed.panel(plan.people, plan.times))
    found = mixed_gpu.play(mixed_gpu.PROCESSOR, path, plan)
    none = {"name": mixed_gpu.GPU, "error": "no GPU here"}
    text = mixed_gpu.as_text(
        {"plan": plan._asdict(), "sides": [found, none], "machine": report.machine()}
        | {"versions": found["versions"], "command": "python benchmarks/mixed_gpu.py"}
    )
    assert found["log_likelihood"] < 0
    assert "There was no GPU to compare with." in text
    assert "no GPU here" in text


def test_a_section_is_replaced_and_nothing_else(tmp_path, monkeypatch):
    results = tmp_path / "RESULTS.md"
    results.write_text("# Measured\n")
    monkeypatch.setattr(report, "RESULTS", results)
    report.write_section("one", "old")
    report.write_section("two", "kept")
    report.write_section("one", "new")
    text = results.read_text()
    assert "old" not in text
    assert text.index("new") < text.index("kept")
    assert text.count("<!-- one: begin -->") == 1


def test_a_side_that_fails_says_why(tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text("raise ValueError('sets of one size only')")
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    found = report.attempt(sys.executable, "bad.py")
    assert found == {"error": "ValueError: sets of one size only"}
    assert report.run_side(sys.executable, "bad.py") is None


def outcome(name: str, seconds: float, against: str = "") -> league.Outcome:
    return {"name": name, "against": against, "seconds": seconds}


def test_who_is_first():
    figure = league.Figure("seconds", "A fit")
    outcomes = [outcome("ours", 1.0), outcome("slow", 3.0, "ours"), outcome("slower", 9.0, "ours")]
    found = league.standings("ours", outcomes, [figure])
    assert found == "- A fit: ours is **first**, 3.0× ahead of slow."
    assert league.advantage(outcomes[1], outcomes, "seconds") == "3.0×"


def test_what_noise_could_turn_is_a_tie():
    figure = league.Figure("seconds", "A fit", {"": "It checks more."})
    for seconds in (0.98, 1.02):
        outcomes = [outcome("ours", seconds), outcome("theirs", 1.0, "ours")]
        found = league.standings("ours", outcomes, [figure])
        assert found == "- A fit: ours and theirs are level, and **first**."


def test_being_behind_is_said_with_the_reason():
    figure = league.Figure("seconds", "A fit", {"": "It checks more."})
    outcomes = [outcome("ours", 1.0), outcome("fast", 0.5, "ours"), outcome("slow", 2.0, "ours")]
    found = league.standings("ours", outcomes, [figure])
    assert found == "- A fit: ours is behind fast by 2.0×. It checks more."
    assert league.advantage(outcomes[1], outcomes, "seconds") == "0.50×"


def test_the_better_number_of_threads_counts(tmp_path, monkeypatch):
    taken = {"1": [3.0, 1.0, 2.0], "2": [9.0, 9.0, 0.5]}

    def attempt(python, script, *arguments, env):
        threads = str(arguments[arguments.index("--threads") + 1])
        return {"fit_seconds": taken[threads].pop(0), "versions": {"some": "1"}}

    monkeypatch.setattr(report, "attempt", attempt)
    monkeypatch.setattr(league, "python_of", lambda rival: Path(sys.executable))
    side = league.Side("some", "some.py", "some", threads=(1, 2))
    (found,) = league.play([side], tmp_path, times=1, repeats=3, decisive="fit_seconds")
    assert found["threads"] == 1
    assert found["fit_seconds"] == 2.0


def test_a_rival_that_fails_does_not_end_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "attempt", lambda *_, **__: {"error": "no"})
    monkeypatch.setattr(league, "python_of", lambda rival: None if rival == "gone" else Path("p"))
    sides = [league.Side("gone", "a.py", "gone"), league.Side("broken", "b.py", "broken")]
    found = league.play(sides, tmp_path, times=1, repeats=2, decisive="fit_seconds")
    assert [outcome["error"] for outcome in found] == ["does not install", "no"]


def test_every_side_has_its_script_and_environment():
    for side in SIDES:
        assert (BENCHMARKS / side.script).exists()
        assert side.environment is None or side.environment in environments.RIVALS


@pytest.mark.parametrize("script", everything.scripts(), ids=lambda script: script.stem)
def test_every_benchmark_has_a_quick_run(script):
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--quick" in done.stdout
    assert "--write" in done.stdout


def run(module, monkeypatch, *arguments) -> None:
    """A script's whole way, in this process."""
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
    module.main()


def test_xla_counts_what_is_counted_by_hand_and_element_wise_operations(monkeypatch, capsys):
    run(roofline, monkeypatch, 8, 4, 5, "--quick")
    found = json.loads(capsys.readouterr().out)
    by_hand = roofline.operations(roofline.Shape(8, 4, 5))
    assert by_hand < found["operations_by_xla"] < 1.1 * by_hand
    assert found["matrix_product_rate"] > 0


def test_our_sides_run(tmp_path, monkeypatch, capsys):
    """Those that the quick runs of population_speed, training_speed and tuning_speed start."""
    # What a side sets for its own process must not stay for the tests that follow.
    monkeypatch.setattr(population_plan, "LANES_ON_CPU", population_plan.LANES_ON_CPU)
    path = small(tmp_path, ragged=False)
    sides = {
        setwise_sda: (path, path, "--epochs", 2),
        setwise_population: (path, "--kind", "trials", "--lanes", 2, "--epochs", 2),
        setwise_tuning: (path, "--trials", 1, "--epochs", 1),
    }
    for side, arguments in sides.items():
        run(side, monkeypatch, *arguments)
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        seconds = [value for name, value in found.items() if name.endswith("seconds")]
        assert seconds
        assert min(seconds) > 0


@pytest.fixture
def data_file(tmp_path) -> Path:
    path = tmp_path / "drawn.setwise-data"
    sw.save_choices(sw.datasets.generate("mnl", sets=80, items=3, features=2).choices, path)
    return path


def test_the_study_of_the_default_sda_runs_and_goes_on(data_file, monkeypatch, capsys):
    monkeypatch.setattr(study, "BASE", replace(study.BASE, epochs=1))
    options = ("--splits", 1, "--seeds", 2, "--only", "default (one model)")
    out = data_file.parent / "study.jsonl"
    for _ in range(2):  # what is there is not done again
        run(study, monkeypatch, out, data_file, *options)
        (row,) = study.stored(out)
    assert (row["data"], row["change"]) == ("drawn", "default (one model)")
    for (nll, top1), *others in (row["single"], row["mean"]):
        assert 0 < nll < 2
        assert 0 <= top1 <= 100
        assert others == []


def test_the_study_of_few_sets_runs_and_goes_on(data_file, monkeypatch, capsys):
    """With small models; of drawn data, 3,000 sets of which are tested, and of a file."""
    small = sw.SDA(2, hidden=3, training=sw.Training(epochs=1), kinds=("straight",), ensemble=2)
    monkeypatch.setattr(few_sets.sw, "SDA", lambda: small)
    monkeypatch.setattr(few_sets, "MOST_TEST", 50)
    out = data_file.parent / "few.jsonl"
    for _ in range(2):
        run(few_sets, monkeypatch, out, data_file, "context", "--sets=30", "--splits=1")
        rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        assert [row["data"] for row in rows] == 3 * ["drawn"] + 3 * ["context"]
    assert [row["model"] for row in rows] == 2 * ["mnl", "mnl_within_set", "sda"]
    assert all(0 < row["nll"][0] < 3 for row in rows)
    assert "drawn, 30 sets: mnl" in capsys.readouterr().out


def test_the_comparison_with_rivals_runs_and_goes_on(data_file, monkeypatch, capsys):
    out = data_file.parent / "accuracy.jsonl"
    for _ in range(2):
        run(accuracy, monkeypatch, out, data_file, "--models=mnl,mnl+", "--splits=2", "--trials=0")
        rows = accuracy.stored(out)
        assert [row["model"] for row in rows] == 3 * ["mnl"] + 3 * ["mnl+"]
    assert all(0 < row["metrics"]["nll"] < 2 for row in rows)
    run(accuracy, monkeypatch, out, "--read")
    assert "drawn: rivals" in capsys.readouterr().out


def test_trees_are_tuned_and_mixed_as_the_accuracy_page_says(data_file, monkeypatch):
    monkeypatch.setattr(accuracy, "MIXED_TREES", [sw.BoostedLogit(rounds=3)])
    fast = lambda network, pairs, seeds: [sw.MNL().fit(*pair) for pair in pairs]  # noqa: E731
    monkeypatch.setattr(accuracy, "fit_together", fast)
    out = data_file.parent / "trees.jsonl"
    models = "mnl,boosted_logit tuned,mixture"
    run(accuracy, monkeypatch, out, data_file, f"--models={models}", "--splits=1", "--trials=2")
    nll = {row["model"]: row["metrics"]["nll"] for row in accuracy.stored(out)}
    assert list(nll) == models.split(",")
    assert nll["boosted_logit tuned"] != nll["mnl"]
    assert 0 < nll["mixture"] < 2


def test_a_mixture_has_the_weight_that_validation_prefers(monkeypatch):
    good, bad = sw.datasets.generate("mnl", sets=400, seed=0).choices, sw.RandomChoice()
    train, valid, test = sw.split(good, seed=0)
    monkeypatch.setattr(accuracy, "MIXED_TREES", [bad])
    mixed = accuracy.Mixture.chosen(train, valid, sw.MNL().fit(train))
    assert mixed.weight > 0.9
    log_p = np.log(mixed.predict_proba(test)[test.offsets[:-1] + test.chosen])
    assert mixed.outcomes(test).nll == pytest.approx(-log_p)


@pytest.mark.parametrize("ragged", [False, True])
def test_our_fit_reaches_the_optimum(tmp_path, ragged):
    path = small(tmp_path, ragged)
    found = report.attempt(sys.executable, "setwise_mnl.py", path, "--times", 2)
    truth = np.linspace(-1, 1, 3)
    assert found["log_likelihood"] >= data.log_likelihood(data.read(path), truth)
    assert len(found["standard_errors"]) == 3
    assert found["memory"] > found["memory_growth"] >= 0


def test_clustered_standard_errors_are_of_ten_sets_in_a_row(tmp_path):
    choices = data.make(200, 4, 3, seed=0)
    path = data.write(tmp_path, "choices", choices)
    found = report.attempt(sys.executable, "setwise_mnl.py", path, "--times", 1, "--clustered")
    marks = data.marks(choices["sizes"], choices["chosen"])
    b = sw.MNL().fit(sw.read(choices["items"], set=choices["sizes"], chosen=marks)).coef_
    x = choices["items"].reshape(200, 4, 3)
    p = np.exp(x @ b) / np.exp(x @ b).sum(1, keepdims=True)
    apart = x - np.einsum("sn,snd->sd", p, x)[:, None]
    bread = np.linalg.inv(np.einsum("sn,snd,sne->de", p, apart, apart))
    scores = apart[np.arange(200), choices["chosen"]].reshape(20, 10, 3).sum(1)
    by_hand = np.sqrt(np.diag(bread @ scores.T @ scores @ bread) * 20 / 19)
    assert found["standard_errors"] == pytest.approx(by_hand, rel=1e-4)


def test_our_epochs_run(tmp_path):
    path = small(tmp_path, ragged=True)
    options = ("--times", 3, "--model", "sda_inner")
    found = report.attempt(sys.executable, "setwise_epoch.py", path, *options)
    assert 0 < found["epoch_seconds"] < found["first_epoch_seconds"]
    assert found["parameters"] > 10_000


@pytest.mark.parametrize("name", large_data.SOURCES)
def test_bare_polars_does_the_same_job(tmp_path, name):
    paper.imitate(name, tmp_path, sets=60)
    rows, size = large_data.read_through(tmp_path, large_data.SOURCES[name].table)
    assert size == sum(path.stat().st_size for path in tmp_path.iterdir())
    choices = paper.load_raw(name, tmp_path)
    roles = choices.roles
    bare = bare_polars.QUERIES[name](tmp_path).collect()
    assert len(bare) == rows
    assert bare[roles.set].is_sorted()
    kept = bare.filter(bare[roles.set].is_in(choices.set_ids.tolist()))
    theirs, ours = {
        "expedia": ("prop_id", "prop_id"), "outbrain": ("category_id", "ad_category"),
    }[name]  # fmt: skip
    found = zip(kept[roles.set], kept[theirs].fill_null(-1).cast(str), strict=True)
    names = ["-1" if text == "unknown" else text for text in choices.columns[ours].text()]
    owners = np.repeat(choices.set_ids, choices.sizes).tolist()
    assert sorted(found) == sorted(zip(owners, names, strict=True))


def large(percent: float, seconds: float, gigabytes: float) -> dict:
    """A size of large_data.py whose figures are all alike, and bare Polars twice as fast."""
    figures = {"seconds": seconds, "gigabytes": gigabytes}
    return {
        "percent": percent, "sets": int(100 * percent), "rows": int(500 * percent),
        "raw_gigabytes": 1.0, "bare": {"seconds": seconds / 2, "gigabytes": 1.0},
        "build": figures | {"rows_a_second": 1.0, "times_bare": 2.0, "file_gigabytes": 1.0},
        "open": {"seconds": 0.01, "milliseconds": 10.0},
        "train": figures | {
            "sets": int(99 * percent), "schema_seconds": 1.0, "first_seconds": 2.0, "nll": 1.5,
            "sets_a_second": 7.0,
        },
    }  # fmt: skip


def test_limits_are_held_against_full_size():
    found = [large(10, 1.0, gigabytes=9.0), large(100, 12.0, gigabytes=3.5)]
    assert large_data.limits(found) == [
        "- Peak memory of building at 100 %: 3.50 GB, limit 6.00 GB: met.",
        "- Building, against bare Polars at 100 %: 2.00×, limit 3.00×: met.",
        "- Opening at 100 %: 0.0100 s, limit 0.1000 s: met.",
        "- Peak memory of training at 100 %: 3.50 GB, limit 3.00 GB: **missed**.",
    ]
    assert large_data.limits(found[:1]) == []
    (line,) = large_data.growth(found)
    assert "building 12.0× for 10.0× the rows" in line


def test_bare_polars_may_die():
    one = large(100, 1.0, gigabytes=1.0)
    one["bare"] = {"error": "?", "gigabytes": 22.5}
    del one["build"]["times_bare"]
    text = "\n".join(large_data.limits([one]))
    assert "- Bare Polars did not end at 100 %, with 22.5 GB: it was killed." in text
    assert "against bare Polars" not in text
    rows = {row[0]: row[1] for row in large_data.rows_of([one])}
    assert rows["build takes, of bare Polars' time"] == "–"


def test_raw_files_are_taken_only_if_all_are_there(tmp_path):
    assert not large_data.is_generated(tmp_path, 20)
    paper.imitate("expedia", tmp_path, sets=20)
    assert large_data.is_generated(tmp_path, 20)
    assert not large_data.is_generated(tmp_path, 2)
    label = tmp_path / "GENERATED.txt"
    label.write_text("\n".join([*label.read_text().splitlines()[:2], "Unfinished: wait"]))
    assert not large_data.is_generated(tmp_path, 20)


@pytest.mark.slow  # a minute each where rivals are installed
@pytest.mark.parametrize(
    "script",
    [*everything.scripts(), BENCHMARKS / "service_load.py"],
    ids=lambda script: script.stem,
)
def test_a_quick_run_ends(script):
    command = [sys.executable, script, "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.slow
def test_large_data_in_small():
    script = BENCHMARKS / "large_data.py"
    options = ("--quick", "--json", "--names", "expedia")
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["data"]["expedia"]
    assert found["bare"]["rows"] == found["rows"] >= found["build"]["rows"]
    assert 0 < found["train"]["seconds"] < found["train"]["first_seconds"]
    assert 0 < found["open"]["seconds"] < found["build"]["seconds"]


@pytest.mark.slow
@pytest.mark.parametrize("side", RIVALS, ids=lambda side: side.name)
def test_rival_runs(tmp_path, side):
    home = environments.FOLDER / side.environment
    if not (home / "installed").exists():
        pytest.skip(f"{side.environment} is not installed: run python benchmarks/environments.py")
    threads = () if side.threads == (None,) else ("--threads", 1)
    path = small(tmp_path, ragged=False)
    python = home / "bin" / "python"
    found = report.attempt(python, side.script, path, "--times", 2, *side.arguments, *threads)
    assert "error" not in found
    if side in mnl_speed.sides():
        ours = report.attempt(sys.executable, "setwise_mnl.py", path, "--times", 1)
        assert found["log_likelihood"] == pytest.approx(ours["log_likelihood"], abs=1e-4)


ABOVE_THEIR_AIM = {
    "read": (9, 47), "fit": (26, 195), "save": (13, None), "compare": (21, None),
    "predict file": (30, None), "request": (15, None),
}  # fmt: skip
"""The files and functions of walks that are longer than they should be.

A request passes limits on hosts, on bodies that arrive and on memory, each in a file of its own.
"fit" and "save" ask for parameters, which scikit-learn's base class did before, uncounted.
Bounds of coefficients are one more file in "compare", products and pieces two in all that score.
"""


def test_walks_do_not_grow_longer():
    """What a common call enters; `python benchmarks/walk.py --list fit` names it."""
    # In a process of its own: checking the types of all arrays would make it four times as long.
    script = BENCHMARKS / "walk.py"
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    line = re.compile(r"^(\S.*?) +(\d+) files +(\d+) functions", re.MULTILINE)
    found = {
        name: (int(files), int(functions))
        for name, files, functions in line.findall(printed.stdout)
    }
    assert list(found) == list(walk.AIMS)
    most = walk.AIMS | ABOVE_THEIR_AIM
    longer = {
        name: (files, functions)
        for name, (files, functions) in found.items()
        if files > most[name][0] or functions > (most[name][1] or functions)
    }
    assert longer == {}

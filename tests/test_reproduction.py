"""The paper's protocol on tiny data: what is planned, stored, resumed and gathered."""

import contextlib
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise._executor import ProcessExecutor, SerialExecutor
from setwise.cli import app
from setwise.cli import reproduce as command
from setwise.cli.source import Source as TableOptions
from setwise.estimators import TrainedEstimator, named
from setwise.paper import published_results
from setwise.paper.reproduction import (
    PRESETS,
    Method,
    MethodResult,
    Protocol,
    ReproductionData,
    Results,
    reproduce,
)
from setwise.paper.reproduction.protocol import ABLATION, CLASSICAL, REGIONS, TABLE, ReproducedCell
from setwise.paper.reproduction.run import plan, regions
from setwise.paper.reproduction.work import run_units
from setwise.tuning import with_arguments

QUICK = PRESETS["quick"]
TINY = replace(QUICK, splits=2, sets=40, trials=2, training=replace(QUICK.training, epochs=2))
AS_TINY = [
    "--preset",
    "quick",
    "--splits",
    "2",
    "--max-sets",
    "40",
    "--trials",
    "2",
    "--epochs",
    "2",
    "--workers",
    "1",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "hotels.setwise-data"
    sw.save_choices(sw.datasets.generate("mnl", sets=60, items=3).choices, path)
    return path


@pytest.fixture(scope="module")
def sources(table):
    return {"hotels": ReproductionData(sw.open_choices(table), (3,))}


@pytest.fixture(scope="module")
def whole(sources, tmp_path_factory):
    """A run that nobody disturbed, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    return reproduce(sources, folder, "all", TINY, workers=1), folder


def numbers(results):
    """What tables are made of: all but where and when it was computed."""
    return [replace(one, seconds=0.0, machine="") for one in results.outcomes]


def test_the_paper_preset_is_the_papers_protocol():
    protocol = PRESETS["paper"]
    assert (protocol.splits, protocol.sets, protocol.trials) == (10, 10_000, 100)
    training = protocol.training
    assert (training.batch_size, training.decay, training.decay_every) == (128, 0.95, 10)
    assert (training.stop_on, training.patience) == ("accuracy", 25)
    assert not training.decoupled_weight_decay
    assert protocol.tuning.space == "paper"


def test_the_parts_have_the_papers_methods():
    named = {one.method for one in published_results.published("full")}
    assert {name for group in TABLE.values() for name in group} == {
        published_results.METHODS[name] for name in named
    }
    assert set(ABLATION) == {
        published_results.METHODS[one.method] for one in published_results.published("ablation")
    }
    protocol = PRESETS["paper"]
    assert len(protocol.methods("table1", True)) == 11
    assert protocol.methods("table1", False) == []
    assert protocol.methods("full", False) == protocol.methods("table1", True)
    assert len(protocol.methods("ablation", False)) == 8
    figures = protocol.methods("figures", True)
    assert {Method("sda", l) for l in (1, 2, 4, 8, 16, 32)} < set(figures)  # noqa: E741
    assert {Method(name) for name in (*CLASSICAL, *REGIONS)} < set(figures)
    assert len(CLASSICAL) == 9
    everything = protocol.methods("all", True)
    assert len(everything) == len(set(everything)) == 11 + 4 + 6 + 8
    assert protocol.methods("figures", False) == []


def test_the_papers_preset_has_weight_decay_in_the_gradient():
    """Its range is for an L2 penalty: decoupled, it would do nearly nothing."""
    preset = PRESETS["paper"]
    names = {method.model for method in preset.methods("all", main=True)}
    trained = {}
    for name in names:
        estimator = preset.estimator(Method(name))
        if isinstance(estimator, TrainedEstimator):
            one = with_arguments(estimator, {"weight_decay": 1e-4, "dropout": 0.1})
            (member,) = one.members()
            trained[name] = member.options
    assert {"sda", "sde", "sdw", "mnl", "ranknet", "mixed_mnl", "deep_sets"} <= set(trained)
    assert not any(options.decoupled_weight_decay for options in trained.values())
    assert {options.weight_decay for options in trained.values()} == {1e-4}
    assert preset.space == "paper"
    assert not named("sda", "paper").training_options.decoupled_weight_decay  # what tune takes
    assert named("sda").training_options.decoupled_weight_decay


def test_networks_have_the_papers_sizes_and_the_protocols_training():
    protocol = Protocol(training=sw.training.Options(epochs=7, stop_on="accuracy"))
    ranknet = protocol.estimator(Method("ranknet"))
    assert (ranknet.hidden, ranknet.training.objective, ranknet.training.epochs) == (
        512, "pairwise", 7,
    )  # fmt: skip
    assert protocol.estimator(Method("deep_sets")).hidden == 256
    assert protocol.estimator(Method("sda", 4)).dimension == 4
    assert protocol.estimator(Method("tversky")).training.stop_on == "accuracy"


def test_sets_are_filtered_by_size_and_sampled_anew_for_each_split(tmp_path):
    sizes = np.repeat([1, 2, 5], [10, 50, 30])
    table = {
        "set": np.repeat(np.arange(90), sizes),
        "chosen": np.concatenate([[1] + [0] * (size - 1) for size in sizes]),
        "x": np.arange(sizes.sum(), dtype=float),
    }
    choices = sw.read(table, set="set", chosen="chosen", items=["x"])
    protocol = replace(TINY, sets=20)
    laid_out = plan({"a": ReproductionData(choices, (5, 2))}, "full", protocol, tmp_path)
    small, large = laid_out.settings
    assert (small.max_items, small.available, small.sets, small.mean_items) == (2, 50, 20, 2.0)
    assert (large.max_items, large.available, large.sets) == (5, 80, 20)
    samples = [sw.open_choices(path) for path in laid_out.units[0].samples]
    assert [len(one) for one in samples] == [20, 20]
    assert list(samples[0].set_ids) != list(samples[1].set_ids)


def test_too_few_sets_are_refused_by_name(tmp_path):
    choices = sw.datasets.generate("mnl", sets=10, items=3).choices
    with pytest.raises(InputError, match="few has only 10 sets of 2 to 3 items"):
        plan({"few": ReproductionData(choices, (3,))}, "table1", TINY, tmp_path)


def test_two_data_sets_of_one_name_are_refused(sources, tmp_path):
    twice = {"a b": sources["hotels"], "A (b)": sources["hotels"]}
    with pytest.raises(InputError, match="two data sets are called a-b"):
        plan(twice, "table1", TINY, tmp_path)


def test_every_method_and_split_has_an_outcome(whole):
    results, _ = whole
    found = {(one.method, one.split) for one in results.outcomes}
    methods = TINY.methods("all", True)
    assert found == {(method, split) for method in methods for split in range(2)}
    assert len(results.outcomes) == len(found)
    for one in results.outcomes:
        assert 0 <= one.metrics["top1"] <= 1
        assert (one.kappa is not None) == (one.method.model in REGIONS)
        solved = ("svmrank", "adarank", "single_feature", "random")
        assert (one.tuned == {}) == (one.method.model in solved)
    assert {one.right for one in results.regions} >= {(), REGIONS}
    assert sum(one.sets for one in results.regions) == 2 * 10
    assert {one.kappa for one in results.outcomes if one.method.model == "mnl"} == {0.0}


def test_the_same_call_computes_nothing_again(whole, sources):
    results, folder = whole
    begun = []
    again = reproduce(
        sources, folder, "all", TINY, workers=1,
        on_plan=lambda plan, left, workers: begun.extend(left),
    )  # fmt: skip
    assert begun == []
    assert again == results


def test_results_read_back_as_they_were(whole):
    results, folder = whole
    assert Results.open(folder / "results.json") == results


def test_a_killed_run_ends_with_the_same_numbers(whole, sources, tmp_path):
    results, _ = whole
    for units in (1, 2, 3):  # killed three times, each time after so many units more
        ended = []

        def on_unit(unit, share, notes, ended=ended, units=units):
            if notes is not None:
                ended.append(unit)
            if len(ended) == units:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            reproduce(sources, tmp_path, "ablation", TINY, workers=1, on_unit=on_unit)
    resumed = reproduce(sources, tmp_path, "ablation", TINY, workers=1)
    expected = {(one.method, one.split): one for one in numbers(results)}
    assert len(resumed.outcomes) == 2 * len(ABLATION)
    assert all(one == expected[one.method, one.split] for one in numbers(resumed))


def test_a_folder_of_another_reproduction_is_refused(whole, sources):
    _, folder = whole
    with pytest.raises(InputError, match=r"hotels-3-\S+.json belongs to another reproduction"):
        reproduce(sources, folder, "ablation", replace(TINY, seed=1), workers=1)


def test_more_values_of_l_keep_the_cells_there_are(whole, sources):
    _, folder = whole
    left = []

    class Seen(Exception):
        pass

    def on_plan(plan, units, workers):
        left.extend(units)
        raise Seen

    more = replace(TINY, dimensions=(1, 2, 4, 24))
    with pytest.raises(Seen):
        reproduce(sources, folder, "figures", more, workers=1, on_plan=on_plan)
    assert [str(unit.method) for unit in left] == ["sda-l2"]


def test_workers_find_the_same_and_errors_come_back(sources, tmp_path):
    laid_out = plan(sources, "table1", TINY, tmp_path)
    quick = [
        unit
        for unit in laid_out.units
        if unit.method.model in ("adarank", "single_feature", "random")
    ]
    run_units(quick, TINY, tmp_path / "1", SerialExecutor(), ignore_unit)
    with ProcessExecutor(2) as executor:
        run_units(quick, TINY, tmp_path / "2", executor, ignore_unit)
    for unit in quick:
        one, two = (
            [replace(cell.outcome, seconds=0.0) for cell in unit.file(folder, TINY).read()]
            for folder in (tmp_path / "1", tmp_path / "2")
        )
        assert one == two
        assert len(one) == 2
    quick[0].file(tmp_path / "2", TINY).path.write_text("no cells")
    with pytest.raises(InputError, match="is not a file of cells"), ProcessExecutor(2) as executor:
        run_units(quick, TINY, tmp_path / "2", executor, ignore_unit)


def ignore_unit(unit, share, notes):
    pass


def test_regions_by_hand():
    def cell(model, right, violations):
        outcome = MethodResult("d", 3, Method(model), 0, {})
        return [ReproducedCell(outcome, right, violations)]

    found = regions(
        {
            "sda": cell("sda", [True, True, False, True], [0.5, 0.0, 1.0, 0.25]),
            "mnl": cell("mnl", [True, True, False, False], [0.0, 0.0, 0.0, 0.0]),
            "deep_sets": cell("deep_sets", [False, False, False, True], [1.0, 0.5, 0.5, 0.75]),
        }
    )
    by_region = {one.right: one for one in found}
    assert len(by_region) == 8
    assert sum(one.sets for one in found) == 4
    assert by_region["sda", "mnl"].kappa == {"sda": 0.25, "mnl": 0.0, "deep_sets": 0.75}
    assert by_region["sda", "deep_sets"].kappa == {"sda": 0.25, "mnl": 0.0, "deep_sets": 0.75}
    assert by_region[()].kappa == {"sda": 1.0, "mnl": 0.0, "deep_sets": 0.5}
    assert by_region[("mnl",)].sets == 0
    assert by_region[("mnl",)].kappa == dict.fromkeys(REGIONS)
    assert regions({"sda": []}) == []


def test_cells_are_plain_json(whole):
    _, folder = whole
    read = json.loads((folder / "cells" / "hotels-3-sda.json").read_text())
    assert [len(one["right"]) for one in read["cells"]] == [10, 10]


def run(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def test_the_command_writes_a_report_with_everything_in_it(whole, table):
    """On the folder of the run above: the same protocol, so that nothing is left to compute."""
    _, folder = whole
    done = run("all", table, *AS_TINY, "--out", folder)
    assert done.exit_code == 0, done.output
    assert "0 methods to do" in done.stderr
    assert "about" not in done.stderr  # no time is told before some work was measured
    assert "hotels (n ≤ 3): " in done.stdout
    page = (folder / "report.html").read_text("utf-8")
    assert all(part in page for part in ("Table 1", "Ablation", "Friedman", "<svg", "Claim 1"))
    assert not re.search(r"(?:src|href)=.?(?:https?:)?//|url\((?!#)|@import", page)
    names = {path.name for path in (folder / "figures").iterdir()}
    assert {"hotels.png", "hotels.svg"} <= names
    assert (folder / "report.md").exists()
    assert (folder / "tables.csv").exists()


def test_the_command_gives_json(whole, table):
    results, folder = whole
    done = run("all", table, *AS_TINY, "--out", folder, "--json")
    read = json.loads(done.stdout)
    assert len(read["outcomes"]) == len(results.outcomes)
    assert read["protocol"]["part"] == "all"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sizes", "10,many"], "--sizes 10,many must be whole numbers"),
        (["--splits", "0"], "splits=0 must be at least 1"),
        (["--workers", "0"], "workers=0 must be at least 1"),
        (["--sizes", "1"], "no set has 2 to 1 items"),
    ],
)
def test_bad_options_are_one_sentence(table, tmp_path, words, said):
    done = run("table1", table, *words, "--out", tmp_path / "out")
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)


def test_data_sets_are_called_as_in_the_paper(table):
    hotels = sw.open_choices(table)
    booked = replace(hotels, roles=replace(hotels.roles, chosen="booking_bool"))
    assert list(command._named("expedia", hotels)) == ["Expedia"]
    assert list(command._named("expedia", booked)) == ["Expedia bookings"]
    found = command._sources(TableOptions(str(table)), {"amadeus": table}, "click", None, seed=0)
    assert {name: source.max_items for name, source in found.items()} == {
        "Amadeus": (10, 20, 30, 40, 50), "hotels": (3,),
    }  # fmt: skip


@pytest.mark.slow
def test_a_command_killed_three_times_ends_with_the_same_tables(table, tmp_path):
    """Killed for good, workers and all, at moments that nobody chose."""
    words = [sys.executable, "-m", "setwise", "reproduce", "table1", str(table), *AS_TINY[:-2]]
    subprocess.run([*words, "--out", "whole"], cwd=tmp_path, check=True, capture_output=True)
    for seconds in (12, 20, 28):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([*words, "--out", "killed"], cwd=tmp_path, timeout=seconds)
    subprocess.run([*words, "--out", "killed"], cwd=tmp_path, check=True, capture_output=True)
    whole, killed = ((tmp_path / name / "tables.csv").read_bytes() for name in ("whole", "killed"))
    assert whole == killed


@pytest.mark.slow
def test_the_quick_preset_runs_on_shipped_and_generated_data(tmp_path):
    words = [sys.executable, "-m", "setwise", "reproduce", "all", "--preset", "quick"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Swissmetro (n ≤ 3)" in done.stdout
    assert "generated hotels (n ≤ 10)" in done.stdout
    assert (tmp_path / "reproduction" / "report.html").stat().st_size > 100_000

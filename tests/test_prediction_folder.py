"""Predictions of a folder: what is there and still true is kept, everything else is done."""

import json
import os
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise.cli import app
from setwise.scoring import load_scorer
from setwise.scoring.predict_folder import predict_folder
from setwise.scoring.prediction import predict_file


@pytest.fixture
def lake(tmp_path):
    drawn = sw.datasets.generate("mnl", sets=30, items=3)
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name, seed in (("a", 1), ("b", 2), ("deep/c", 3)):
        table = sw.datasets.generate("mnl", sets=30, items=3, seed=seed).table
        table.write_parquet(tmp_path / "in" / f"{name}.parquet")
    sw.MNL().fit(drawn.choices).save(tmp_path / "m.setwise")
    return tmp_path


def run(lake):
    return predict_folder(load_scorer, lake / "m.setwise", lake / "in", lake / "out")


def test_each_file_is_as_predicted_alone(lake):
    assert run(lake) == (3, 270, 0)
    for name in ("a", "b", "deep/c"):
        predict_file(
            load_scorer(lake / "m.setwise"), lake / "in" / f"{name}.parquet", lake / "x.parquet"
        )
        assert (lake / "out" / f"{name}.parquet").read_bytes() == (lake / "x.parquet").read_bytes()
    assert run(lake) == (0, 0, 3)


def lose_output(lake):
    (lake / "out" / "b.parquet").unlink()


def cut_output(lake):
    path = lake / "out" / "b.parquet"
    path.write_bytes(path.read_bytes()[:100])


def change_input(lake):
    sw.datasets.generate("mnl", sets=30, items=3, seed=9).table.write_parquet(
        lake / "in" / "b.parquet"
    )


def touch_input(lake):
    os.utime(lake / "in" / "b.parquet", (1, 1))


def break_record(lake):
    (lake / "out" / ".setwise" / "b.parquet.json").write_text("{")


@pytest.mark.parametrize(
    "change", [lose_output, cut_output, change_input, touch_input, break_record]
)
def test_what_changed_is_done_again_and_nothing_else(lake, change):
    run(lake)
    change(lake)
    assert run(lake) == (1, 90, 2)
    assert run(lake) == (0, 0, 3)


def test_another_model_does_everything_again(lake):
    run(lake)
    sw.MNL().fit(sw.datasets.generate("mnl", sets=40, items=3, seed=5).choices).save(
        lake / "m.setwise"
    )
    assert run(lake).files == 3


def test_halves_of_a_killed_run_are_removed(lake):
    (lake / "out" / ".unfinished-1" / "0").mkdir(parents=True)
    run(lake)
    assert sorted(path.name for path in (lake / "out").iterdir()) == [
        ".setwise", "a.parquet", "b.parquet", "deep",
    ]  # fmt: skip


def test_an_error_leaves_what_was_finished_and_no_half(lake):
    (lake / "in" / "b.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match=r"b\.parquet"):
        run(lake)
    assert [path.name for path in (lake / "out").rglob("*.parquet")] == ["a.parquet"]
    assert not list((lake / "out").glob(".unfinished*"))


def test_a_set_that_goes_on_in_the_next_file_is_refused(lake):
    table = pl.read_parquet(lake / "in" / "a.parquet")
    table[:-1].write_parquet(lake / "in" / "a.parquet")
    table[-1:].write_parquet(lake / "in" / "b.parquet")
    with pytest.raises(InputError, match=r"set 29 is at the end of .*a\.parquet.*within one file"):
        run(lake)
    assert not (lake / "out" / "b.parquet").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["in"], "with --out"),
        (["in", "--out", "in/deep"], "is inside the other"),
        (["in", "--out", "m.setwise"], "it is a file"),
        (["empty", "--out", "out"], "no Parquet file"),
        (["in/a.parquet", "--out", "x.parquet", "--cluster"], "is not a folder"),
    ],
)
def test_bad_folders_are_one_sentence(lake, monkeypatch, words, said):
    monkeypatch.chdir(lake)
    (lake / "empty").mkdir()
    found = CliRunner().invoke(app, ["predict", "m.setwise", *words])
    assert isinstance(found.exception, InputError)
    assert said in str(found.exception)


def test_the_command_predicts_a_folder(lake):
    words = ["predict", f"{lake}/m.setwise", f"{lake}/in", "--out", f"{lake}/out"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert len(list((lake / "out").rglob("*.parquet"))) == 3
    record = json.loads((lake / "out" / ".setwise" / "deep" / "c.parquet.json").read_text())
    assert record["rows"] == 90


def test_without_ray_the_flag_says_what_to_install():
    """One process for both commands, since importing JAX takes seconds."""
    script = (
        "import sys; sys.modules['ray'] = None\n"
        "from setwise.cli import main\n"
        "for command in ('compare', 'tune'):\n"
        "    sys.argv = ['setwise', command, 'modecanada', '--max-sets', '100', '--cluster']\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n        print(command, end.code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["compare 2", "tune 2"]
    assert done.stderr.count("pip install 'setwise[cluster]'") == 2

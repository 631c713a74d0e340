"""Outputs: never over what is read, whole or absent, and a full disk is one sentence."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise._files import (
    WriteError,
    check_outputs,
    check_writable,
    is_of_disk,
    kept_elsewhere,
    locked,
    make_folder,
    scratch_folder,
    unfinished,
    whole_file,
)
from setwise.cli import app, main
from setwise.scoring import load_scorer
from setwise.scoring.predict_folder import predict_folder
from setwise.scoring.prediction import predict_file

ROLES = ("--set", "set_id", "--chosen", "chosen")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table as Parquet and CSV, a data file, raw files, a model and another."""
    folder = tmp_path_factory.mktemp("made")
    drawn = sw.datasets.generate("mnl", sets=80, items=3, features=2)
    drawn.table.write_parquet(folder / "t.parquet")
    drawn.table.write_csv(folder / "t.csv")
    sw.save_choices(drawn.choices, folder / "t.setwise-data")
    (folder / "in").mkdir()
    drawn.table.write_parquet(folder / "in" / "a.parquet")
    sw.paper.imitate("expedia", folder / "raw", sets=30)
    model = sw.MNL().fit(drawn.choices)
    model.save(folder / "m.setwise")
    model.save(folder / "other.setwise")
    return folder


@pytest.fixture
def files(made, tmp_path):
    """A copy of them, to be destroyed."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


# No command writes over what it reads


def commands(command=None, name=()):
    """Every command with its name."""
    command = command or typer.main.get_command(app)
    below = getattr(command, "commands", {})
    for word, child in below.items():
        yield from commands(child, (*name, word))
    if not below:
        yield " ".join(name), command


# Options that name a file or a folder which is read; all others of a path are written.
READ = {"model", "table", "reference", "token_file", "raw", "expedia", "outbrain", "amadeus"}
WRITTEN = {
    "fit": {"out", "checkpoint"},
    "predict": {"out"},
    "export": {"out"},
    "check": {"report"},
    "compare": {"report", "storage"},
    "tune": {"out", "plot", "storage"},
    "reproduce": {"out"},
    "violations": {"report"},
    "explain": {"report"},
    "audit": {"report"},
    "decide assortment": {"out"},
    "decide prices": {"out"},
    "decide curve": {"out"},
    "decide additions": {"out"},
    "theory rationalise": {"report"},
    "theory model": {"report"},
    "datasets write": {"out"},
    "datasets imitate": {"out"},
    "datasets build": {"out"},
}


def test_every_option_of_a_path_is_known_to_these_tests():
    """A new option that writes a file must be put into the tests below."""
    found = {}
    for name, command in commands():
        paths = {
            one.name
            for one in command.params
            if getattr(one, "type_descriptor", None) is not None
            and (one.name == "storage" or one.type_descriptor.annotation is Path)
        }
        if paths - READ:
            found[name] = paths - READ
    assert found == WRITTEN


# The command, with its input and its output in place of IN and OUT; the inputs to try.
OVER = {
    "fit": (["fit", "IN", *ROLES, "--model", "mnl", "--out", "OUT"], ["t.csv", "t.parquet"]),
    "fit, data file": (["fit", "IN", "--model", "mnl", "--out", "OUT"], ["t.setwise-data"]),
    "fit, raw": (
        ["fit", "raw", "--like", "expedia", "--model", "mnl", "--out", "OUT"], ["raw/train.csv"],
    ),
    "fit, checkpoint": (
        ["fit", "IN", *ROLES, "--model", "sdw", "--out", "new", "--checkpoint", "OUT"], ["t.csv"],
    ),
    "predict": (["predict", "m.setwise", "IN", "--out", "OUT"], ["t.csv", "t.parquet"]),
    "predict, model": (["predict", "IN", "t.csv", "--out", "OUT"], ["m.csv", "m.parquet"]),
    "predict, folder": (["predict", "m.setwise", "in", "--out", "OUT"], ["in"]),
    "predict, into the folder": (["predict", "m.setwise", "in", "--out", "OUT"], ["in/new"]),
    "export": (["export", "IN", "--out", "OUT"], ["m.setwise"]),
    "check": (["check", "IN", *ROLES, "--report", "OUT"], ["t.csv", "t.parquet"]),
    "compare": (
        ["compare", "IN", *ROLES, "--models", "mnl", "--report", "OUT"], ["t.csv", "t.parquet"],
    ),
    "compare, storage": (
        ["compare", "IN", *ROLES, "--models", "sdw", "--trials", "1", "--storage", "OUT"],
        ["t.csv"],
    ),
    "tune": (
        ["tune", "IN", *ROLES, "--trials", "1", "--storage", "s.sqlite", "--out", "OUT"],
        ["t.csv"],
    ),
    "tune, plot": (
        ["tune", "IN", *ROLES, "--trials", "1", "--storage", "s.sqlite", "--plot", "OUT"],
        ["t.csv"],
    ),
    "tune, storage": (["tune", "IN", *ROLES, "--trials", "1", "--storage", "OUT"], ["t.csv"]),
    "violations": (["violations", "m.setwise", "IN", "--report", "OUT"], ["t.csv"]),
    "violations, model": (["violations", "IN", "t.csv", "--report", "OUT"], ["m.setwise"]),
    "violations, others": (
        ["violations", "m.setwise", "t.csv", "--others", "IN", "--report", "OUT"],
        ["other.setwise"],
    ),
    "explain": (["explain", "m.setwise", "IN", "--column", "x0", "--report", "OUT"], ["t.csv"]),
    "explain, model": (
        ["explain", "IN", "t.csv", "--column", "x0", "--report", "OUT"], ["m.setwise"],
    ),
    "audit": (["audit", "m.setwise", "IN", "--sign", "x0=-1", "--report", "OUT"], ["t.csv"]),
    "audit, model": (["audit", "IN", "t.csv", "--report", "OUT"], ["m.setwise"]),
    "decide assortment": (
        ["decide", "assortment", "m.setwise", "IN", "--at-most", "2", "--out", "OUT"], ["t.csv"],
    ),
    "decide prices": (
        ["decide", "prices", "m.setwise", "IN", "--price", "x0", "--out", "OUT"], ["t.csv"],
    ),
    "decide curve": (
        [
            "decide", "curve", "m.setwise", "IN", "--price", "x0", "--which", "chosen",
            "--out", "OUT",
        ],
        ["t.csv"],
    ),
    "decide additions": (
        ["decide", "additions", "m.setwise", "IN", "--target", "chosen", "--out", "OUT"], ["t.csv"],
    ),
    "theory model": (["theory", "model", "m.setwise", "IN", "--report", "OUT"], ["t.csv"]),
    "theory model, model": (["theory", "model", "IN", "t.csv", "--report", "OUT"], ["m.setwise"]),
    "reproduce": (["reproduce", "table1", "IN", *ROLES, "--out", "OUT"], ["t.csv"]),
    "datasets build": (
        ["datasets", "build", "expedia", "--raw", "raw", "--out", "OUT"], ["raw/train.csv"],
    ),
    "datasets build, file": (
        ["datasets", "build", "expedia", "--raw", "IN", "--out", "OUT"], ["raw/train.csv"],
    ),
}  # fmt: skip
# What reads nothing: a generated table, and choices that are written on the command line.
NOTHING_READ = {"datasets write", "datasets imitate", "theory rationalise"}


def test_every_command_that_writes_is_tried():
    tried = {
        next(name for name in WRITTEN if words[: len(name.split())] == name.split())
        for words, _ in OVER.values()
    }
    assert tried | NOTHING_READ == set(WRITTEN)
    options = {word.removeprefix("--") for words, _ in OVER.values() for word in words}
    assert {one for names in WRITTEN.values() for one in names} <= options


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def spellings(path, folder):
    """The same file by other names: through a folder, a symbolic and a hard link."""
    yield path
    yield folder / "raw" / ".." / path.relative_to(folder)
    link = folder / f"link{path.suffix}"
    link.symlink_to(path)
    yield link
    link.unlink()
    if path.is_file():
        os.link(path, link)
        yield link
        link.unlink()


def refusal(words):
    """What the command says of bad input, in this process: but for commands within commands.

    The checks of types do not take the context that Typer gives to those.
    """
    if words[0] == "datasets":
        return assert_one_sentence(program(*words, cwd=Path.cwd()))
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, InputError), (words, found.output)
    return str(found.exception)


@pytest.mark.parametrize(("words", "inputs"), OVER.values(), ids=OVER)
def test_no_command_writes_over_what_it_reads(words, inputs, files, monkeypatch):
    monkeypatch.chdir(files)
    for suffix in (".csv", ".parquet"):
        shutil.copy(files / "m.setwise", files / f"m{suffix}")
    for name in inputs:
        before = contents(files)
        for spelling in spellings(files / name, files):
            given = [{"IN": name, "OUT": str(spelling)}.get(word, word) for word in words]
            said = refusal(given)
            assert "cannot write" in said or "is inside the other" in said
            now = {path: data for path, data in contents(files).items() if path != spelling}
            assert now == {path: data for path, data in before.items() if path != spelling}


def test_a_reproduction_does_not_write_over_its_table(files, monkeypatch):
    monkeypatch.chdir(files)
    shutil.copy("t.csv", "tables.csv")
    found = CliRunner().invoke(app, ["reproduce", "table1", "tables.csv", *ROLES, "--out", "."])
    assert isinstance(found.exception, InputError)
    assert "tables.csv, which is read" in str(found.exception)


def test_two_outputs_are_two_files(files, monkeypatch):
    monkeypatch.chdir(files)
    for options in (("--out", "a", "--plot", "./a"), ("--out", "a", "--storage", "a")):
        words = ["tune", "t.csv", *ROLES, "--trials", "1", *options]
        found = CliRunner().invoke(app, words)
        assert "two outputs have this name" in str(found.exception)
    check_outputs([files / "a", None, files / "b"])


def test_the_library_does_not_write_over_what_it_reads(files):
    with pytest.raises(InputError, match="which is read"):
        predict_file(load_scorer(files / "m.setwise"), files / "t.parquet", files / "t.parquet")
    with pytest.raises(InputError, match="which is read"):
        sw.paper.build("expedia", files / "raw", files / "raw" / "train.csv")
    with pytest.raises(InputError, match="is in the folder"):
        check_writable(files / "in" / "new", reads=[files / "in"])
    os.link(files / "in" / "a.parquet", files / "twin")
    (files / "out").mkdir()
    os.link(files / "in" / "a.parquet", files / "out" / "a.parquet")
    with pytest.raises(InputError, match="which is read"):
        predict_folder(load_scorer, files / "m.setwise", files / "in", files / "out")


# What a killed process left, and who else writes


KILLED = """
import os, sys
from pathlib import Path
from setwise._files import whole_file, scratch_folder
out = Path(sys.argv[1])
with whole_file(out) as part, scratch_folder(out) as scratch:
    part.write_text("half")
    (scratch / "more").write_text("half")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    out = tmp_path / "p.csv"
    subprocess.run([sys.executable, "-c", KILLED, out], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / ".p.csv.99999999.part").touch()
    (tmp_path / ".other.csv.1.part").touch()
    check_writable(out)
    assert [one.name for one in tmp_path.iterdir()] == [".other.csv.1.part"]
    assert unfinished(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_killed_prediction_leaves_nothing_for_the_next_one(files):
    script = (
        "import os, sys\nfrom setwise.scoring.prediction import predict_file\n"
        "from setwise.scoring import load_scorer\n"
        "predict_file(load_scorer('m.setwise'), 't.parquet', 'p.parquet',"
        " lambda *_: os.kill(os.getpid(), 9))"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=files, check=False)
    assert ended.returncode == -9
    predict_file(load_scorer(files / "m.setwise"), files / "t.parquet", files / "p.parquet")
    assert not list(files.glob(".*.part"))


def test_another_process_that_writes_the_same_file_is_named(tmp_path):
    out = tmp_path / "p.csv"
    with whole_file(out) as part:
        with pytest.raises(InputError, match="another process is writing it now"):
            check_writable(out)
        check_writable(tmp_path / "q.csv")
        part.write_text("whole")
    assert out.read_text() == "whole"
    with scratch_folder(out), pytest.raises(InputError, match="another process is writing"):
        check_writable(out)
    check_writable(out)


def test_two_predictions_into_one_folder_are_one_too_many(files):
    (files / "out" / ".setwise").mkdir(parents=True)
    (files / "out" / ".unfinished-1").mkdir()
    words = ["predict", str(files / "m.setwise"), str(files / "in"), "--out", str(files / "out")]
    with locked(files / "out" / ".setwise" / "lock"):
        found = CliRunner().invoke(app, words)
    assert "another process is writing predictions there now" in str(found.exception)
    assert (files / "out" / ".unfinished-1").exists()  # it is the other's
    assert CliRunner().invoke(app, words).exit_code == 0


# A disk that takes no more


@pytest.fixture
def small_disk(tmp_path):
    """A disk of eight kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no command mount")
    if done.returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def limited(*words, cwd, size=8):
    """Run setwise as a user does, with files of at most so many kilobytes: no mount is needed."""
    line = f'ulimit -f {size}; exec "$@"'
    command = ["bash", "-c", line, "bash", sys.executable, "-m", "setwise", *map(str, words)]
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": ""}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def program(*words, cwd):
    """Run setwise in a process of its own."""
    command = [sys.executable, "-m", "setwise", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def here(*words, cwd):
    """As :func:`program`, in this process, which has imported everything."""
    if words[0] in ("datasets", "tune"):  # see refusal; a database stays open in a process
        return program(*words, cwd=cwd)
    said, code = io.StringIO(), 0
    with (
        contextlib.chdir(cwd), contextlib.redirect_stderr(said), pytest.MonkeyPatch.context() as at,
    ):  # fmt: skip
        at.setattr(sys, "argv", ["setwise", *map(str, words)])
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(words, code, "", said.getvalue())


def assert_one_sentence(ended):
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("error: ") == 1
    return ended.stderr[ended.stderr.index("error: ") :]


def test_a_full_disk_is_said_and_the_model_is_kept(files, small_disk):
    # A model with examples takes more than the disk has.
    command = ["fit", "t.csv", *ROLES, "--model", "mnl", "--out", "disk/m.setwise"]
    (small_disk / "ballast").write_bytes(bytes(4096))
    said = assert_one_sentence(here(*command, cwd=files))
    assert "disk/m.setwise: the disk is full: the file needs" in said
    assert "are free in disk; free some space, or name a file on another disk" in said
    kept = Path(said.partition("it is kept in ")[2].strip())
    assert sw.load(kept).coef_ == pytest.approx(sw.load(files / "m.setwise").coef_)
    shutil.rmtree(kept.parent)
    assert [one.name for one in small_disk.iterdir()] == ["ballast"]


@pytest.mark.parametrize(
    "words",
    [
        ["export", "m.setwise", "--out", "disk/m.onnx"],
        ["datasets", "write", "decoy", "--out", "disk/d.csv"],
        ["datasets", "write", "decoy", "--out", "disk/d.parquet"],
        ["datasets", "imitate", "expedia", "--out", "disk/raw"],
        ["datasets", "build", "expedia", "--raw", "raw", "--out", "disk/d.setwise-data"],
        ["predict", "m.setwise", "t.parquet", "--out", "disk/p.parquet"],
        ["predict", "m.setwise", "t.parquet", "--out", "disk/p.csv"],
        ["predict", "m.setwise", "t.csv", "--out", "disk/p.csv"],
        ["predict", "m.setwise", "in", "--out", "disk/out"],
        ["check", "t.csv", *ROLES, "--report", "disk/page.html"],
        ["explain", "m.setwise", "t.csv", "--column", "x0", "--report", "disk/page.html"],
        ["tune", "t.csv", *ROLES, "--trials", "1", "--storage", "disk/s.sqlite"],
    ],
    ids=" ".join,
)
def test_a_full_disk_is_one_sentence_and_leaves_no_half(words, files, small_disk):
    (small_disk / "ballast").write_bytes(bytes(8192))
    said = assert_one_sentence(here(*words, cwd=files))
    assert "the disk is full" in said
    assert "column" not in said
    left = [path for path in small_disk.rglob("*") if path.is_file() and path.stat().st_size]
    assert [path.name for path in left] == ["ballast"]


def test_a_file_that_may_not_grow_is_one_sentence(files):
    said = assert_one_sentence(limited("datasets", "write", "decoy", "--out", "d.csv", cwd=files))
    assert "d.csv: the file is larger than this process may write (ulimit -f)" in said
    assert not list(files.glob("*d.csv*"))


def test_a_checkpoint_that_finds_no_room_does_not_end_the_fit(files, small_disk):
    (small_disk / "ballast").write_bytes(bytes(8192))
    fitted = ["fit", "t.csv", *ROLES, "--model", "sdw", "--epochs", "2", "--out", "m"]
    ended = program(*fitted, "--checkpoint", "disk/state", cwd=files)
    assert ended.returncode == 0, ended.stderr
    assert "warning: cannot write disk/state" in ended.stderr
    assert "The fit goes on" in ended.stderr
    assert len(sw.load(files / "m").predict_proba(files / "t.csv")) == 240


def test_a_reproduction_without_room_is_one_sentence(files, small_disk):
    (small_disk / "ballast").write_bytes(bytes(8192))
    options = ["--splits", "1", "--trials", "1", "--epochs", "1", "--workers", "1"]
    words = ["reproduce", "table1", "t.csv", *ROLES, *options, "--out", "disk/r"]
    assert "the disk is full" in assert_one_sentence(here(*words, cwd=files))


def test_errors_of_other_libraries_are_known_as_the_disks():
    for text in ("No space left on device (os error 28)", "database or disk is full"):
        assert is_of_disk(RuntimeError(text))
    caused = RuntimeError("no luck")
    caused.__cause__ = OSError(122, "Disk quota exceeded")
    assert is_of_disk(caused)
    assert not is_of_disk(RuntimeError("28 columns"))
    assert not is_of_disk(FileNotFoundError(2, "No such file or directory"))


def test_what_reading_raises_within_a_file_is_not_blamed_on_writing(tmp_path):
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "a"):
        (tmp_path / "missing").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_kept_elsewhere_where_writing_works(tmp_path):
    kept_elsewhere(lambda path: path.write_text("x"), tmp_path / "a", "model")
    assert (tmp_path / "a").read_text() == "x"

    def fails(path):
        raise WriteError(f"cannot write {path}")

    with pytest.raises(WriteError, match=r"cannot write .*a$"):
        kept_elsewhere(fails, tmp_path / "a", "model")


@pytest.mark.parametrize("name", ["file", "file/below", "/proc/setwise"])
def test_a_folder_that_cannot_be_is_one_sentence(name, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write to"):
        make_folder(tmp_path / name)

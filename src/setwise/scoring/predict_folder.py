"""Predictions for a folder of Parquet files: one output per file, complete or absent.

Next to every output a small record says what it was made of. A file whose record still holds is not
done again; one that is missing, or whose input or model changed, is.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from uuid import uuid4

from setwise._errors import InputError
from setwise._executor import Executor, Send, SerialExecutor, Shared
from setwise._files import cannot_write, locked, make_folder, refuse_read, whole_file
from setwise.scoring.prediction import predict_file
from setwise.scoring.scorer import RowModel

RECORDS = ".setwise"
UNFINISHED = ".unfinished-"
LOCK = "lock"

Load = Callable[[Path], RowModel]
"""Reads a model file; a function of a module, which other processes find by its name."""
OnFile = Callable[[int, int], None]
"""Called with the files done and in all."""


class Written(NamedTuple):
    """What a call did: the files and rows it predicted, and the files that existed before."""

    files: int
    rows: int
    kept: int


class _Sent(NamedTuple):
    """One file on its way."""

    load: Load
    model: Shared
    digest: str
    source: Path
    before: Path | None
    scratch: Path
    out: Path


def predict_folder(
    load: Load,
    model: str | Path,
    folder: str | Path,
    out: str | Path,
    *,
    executor: Executor | None = None,
    on_file: OnFile | None = None,
) -> Written:
    """Predict every Parquet file below a folder into a file of the same name below another.

    Each is as :func:`predict_file` writes it, so a set must lie within one file; a set that goes
    on in the next file is refused.

    Args:
        load: reads a model file, such as :func:`setwise.scoring.load_scorer`.
        model: the model file.
        folder: with Parquet files, in folders of its own too.
        out: the folder to write to; it is made if it is missing.
        executor: where to predict; by default in this process. Its workers must see both folders.
        on_file: called after each file.
    """
    folder, out = Path(folder).resolve(), Path(out).resolve()
    content = _content(Path(model))
    names = _names(folder, out)
    for name in names:
        refuse_read(out / name, [folder / name, model])
    digest = hashlib.sha256(content).hexdigest()
    todo = [place for place, name in enumerate(names) if _stale(folder, out, name, digest)]
    done, rows, kept = 0, 0, len(names) - len(todo)
    executor = executor or SerialExecutor()
    shared = executor.put(content)

    with _scratch(out) as scratch:

        def sent(number: int) -> _Sent:
            place = todo[number]
            before = folder / names[place - 1] if place else None
            name = names[place]
            return _Sent(
                load, shared, digest, folder / name, before, scratch / str(place), out / name
            )

        for number, (of_file, record) in executor.map_unordered(_predict, len(todo), sent):
            name = names[todo[number]]
            _remember(out, name, record)
            done, rows = done + 1, rows + of_file
            if on_file is not None:
                on_file(kept + done, len(names))
    return Written(done, rows, kept)


def _content(model: Path) -> bytes:
    try:
        return model.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {model}: {error.strerror}; check the path") from None


def _names(folder: Path, out: Path) -> list[Path]:
    """The Parquet files below a folder, in order; hidden ones are left out."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name one with Parquet files")
    if out.exists() and not out.is_dir():
        raise InputError(f"cannot write to {out}: it is a file; name a folder")
    if out == folder or folder in out.parents or out in folder.parents:
        raise InputError(f"one of {out} and {folder} is inside the other; name a separate folder")
    found = sorted(path.relative_to(folder) for path in folder.rglob("*.parquet"))
    found = [name for name in found if not any(part.startswith(".") for part in name.parts)]
    if not found:
        raise InputError(f"there is no Parquet file in {folder}; name a folder that has some")
    return found


def _predict(sent: _Sent, send: Send) -> tuple[int, dict[str, Any]]:
    """On a worker: write one file; its number of rows, and what it was made of."""
    if not sent.source.exists():
        import socket

        raise InputError(
            f"machine {socket.gethostname()} does not see {sent.source}; the folders must lie on "
            "a disk that all machines share"
        )
    model = _model(sent.digest, sent.load, sent.model)
    _refuse_spanning(sent, model.schema.roles.set)
    made_of = _made_of(sent.source, sent.digest)
    make_folder(sent.scratch)
    make_folder(sent.out.parent)
    # Whoever is killed leaves its half only in the scratch folder.
    part = sent.scratch / f"{uuid4().hex}{sent.out.suffix}"
    rows = predict_file(model, sent.source, part)
    record = made_of | {"rows": rows, "output": _seen(part)}
    try:
        part.replace(sent.out)
    except OSError as error:
        raise cannot_write(sent.out, error) from error
    return rows, record


@lru_cache(maxsize=1)
def _model(digest: str, load: Load, model: Shared) -> RowModel:
    """The model, read once per process."""
    with TemporaryDirectory(prefix="setwise-") as scratch:
        path = Path(scratch) / "model.setwise"
        path.write_bytes(model.get())
        return load(path)


def _refuse_spanning(sent: _Sent, column: str) -> None:
    """A file that begins with the set with which the one before it ends has half a set."""
    import polars as pl

    if sent.before is None:
        return
    try:
        first = pl.scan_parquet(sent.source, glob=False).select(column).head(1).collect()
        last = pl.scan_parquet(sent.before, glob=False).select(column).tail(1).collect()
    except (pl.exceptions.PolarsError, OSError):
        return  # predicting that file says what is wrong with it
    if len(first) and len(last) and first.item() == last.item():
        raise InputError(
            f"set {first.item()} is at the end of {sent.before} and at the beginning of "
            f"{sent.source}; write the table so that each set lies within one file"
        )


def _made_of(source: Path, digest: str) -> dict[str, Any]:
    return {"input": _seen(source), "model": digest}


def _seen(path: Path) -> list[int]:
    """Size and time of change."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _stale(folder: Path, out: Path, name: Path, digest: str) -> bool:
    """Whether a file has to be predicted: its output is missing, or made of something else."""
    if not (out / name).exists():
        return True
    try:
        record = json.loads(_record(out, name).read_text("utf-8"))
    except (OSError, ValueError):
        return True
    expected = _made_of(folder / name, digest) | {"output": _seen(out / name)}
    return any(record.get(key) != value for key, value in expected.items())


def _record(out: Path, name: Path) -> Path:
    return out / RECORDS / f"{name}.json"


def _remember(out: Path, name: Path, record: dict[str, Any]) -> None:
    path = _record(out, name)
    make_folder(path.parent)
    with whole_file(path) as part:
        part.write_text(json.dumps(record) + "\n", "utf-8")


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder for unfinished files, next to the final ones; those of killed runs are removed."""
    make_folder(out)
    make_folder(out / RECORDS)
    with _alone_in(out):
        for old in out.glob(f"{UNFINISHED}*"):
            shutil.rmtree(old, ignore_errors=True)
        scratch = out / f"{UNFINISHED}{uuid4().hex}"
        make_folder(scratch)
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """Two runs into one folder would take each other's files for those of a killed one."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(out / RECORDS / LOCK, wait=False))
        except BlockingIOError:
            raise InputError(
                f"cannot write to {out}: another process is writing predictions there now; wait "
                "until it ends, or name another folder"
            ) from None
        except OSError:
            pass  # a disk that knows no locks
        yield

"""Write files whole or not at all, never over a file that is read; errors say what went wrong."""

import errno
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from setwise._arguments import path as check_path
from setwise._errors import InputError

try:
    import fcntl
except ImportError:  # Windows: without locks, other writers are not noticed
    fcntl = None  # type: ignore[assignment]

Reads = Iterable[str | Path | None]
"""Files and folders that a command reads; None and missing files are ignored."""

_NUMBERS = itertools.count()

# Errors of the disk, not of a file that is read.
_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_WORDS = {
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "the file is larger than this process may write (ulimit -f)",
    errno.EROFS: "the disk is read-only",
    errno.ENOENT: "there is no such folder",
    errno.ENOTDIR: "its folder is a file",
}
ENDINGS = {
    ".csv", ".tsv", ".txt", ".parquet", ".xlsx", ".xls", ".json", ".gz", ".zip", ".pdf", ".doc",
    ".docx", ".png", ".jpg", ".svg", ".html", ".htm", ".onnx", ".setwise", ".setwise-data", ".py",
}  # fmt: skip
"""Endings of names that say what a file is."""
_IN_TEXT = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]")


class WriteError(InputError):
    """A file cannot be written: the disk is full, or permission is missing."""


@contextmanager
def whole_file(path: str | Path, size: int | None = None) -> Iterator[Path]:
    """A temporary path next to ``path``; renamed to ``path`` on success, removed on failure.

    A full disk raises :class:`WriteError` with the space that the file needs: ``size`` bytes,
    if known in advance.
    """
    path = Path(path)
    _refuse_special(path)
    part = _part(path)
    try:
        part.touch()
        with _held(part):
            yield part
            with open(part, "rb") as written:
                os.fsync(written.fileno())
            os.replace(part, path)
    except Exception as error:
        if isinstance(error, InputError) or not _is_about_writing(error, path, part):
            raise
        raise cannot_write(path, error, size, part) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def check_writable(path: str | Path, reads: Reads = (), kind: str | None = None) -> None:
    """Refuse an output path that cannot be written, before hours of work and not after.

    A path that another process is writing is refused too. So is a file that the same command reads,
    under any name, through a link or within a folder. Remains of a killed process are removed.
    ``kind`` is the ending of what is written, such as ".html": a name with the ending of another
    kind of file is refused, such as a report named table.csv.
    """
    check_path("path", path)
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; name a file in it")
        if not path.parent.is_dir():
            raise InputError(
                f"cannot write {path}: there is no folder {path.parent}; create it first"
            )
        _refuse_special(path)
        refuse_read(path, reads)
        for part in unfinished(path.parent, path.name):
            raise InputError(
                f"cannot write {path}: another process is writing it now ({part.name}); wait until "
                "it ends, or name another file"
            )
        probe = _part(path)
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None
    if kind is not None and path.suffix.lower() in ENDINGS - {kind, kind.removesuffix("l")}:
        raise InputError(
            f"cannot write {path}: it would not be a {path.suffix} file; name a file that ends in "
            f"{kind}"
        )


def check_outputs(paths: Reads, reads: Reads = ()) -> None:
    """:func:`check_writable` for several files, which must not be one file; None is passed over."""
    reads = list(reads)
    seen: dict[Path, str | Path] = {}
    for path in (one for one in paths if one is not None):
        check_writable(path, reads)
        if seen.setdefault(Path(path).resolve(), path) is not path:
            raise InputError(f"cannot write {path}: two outputs have this name; name another file")


def check_folder(path: str | Path, reads: Reads = (), writes: Iterable[str] = ()) -> None:
    """Refuse an output folder that cannot be created or written; nothing is created yet.

    ``writes`` are the files that will be in it; they must not be among ``reads``.
    """
    path, reads = Path(path), list(reads)
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"cannot write to {path}: it is a file; name a folder")
        for name in writes:
            refuse_read(path / name, reads)
        there = next(one for one in (path, *path.absolute().parents) if one.exists())
        probe = _part(there / "setwise")
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


def make_folder(path: str | Path) -> None:
    """Create an output folder if it is missing, and refuse one that cannot be written."""
    check_folder(path)
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(folder: str | Path, error: OSError) -> WriteError:
    return WriteError(f"cannot write to the folder {folder}: {fault(error)}; choose another place")


def refuse_read(path: Path, reads: Reads) -> None:
    """Refuse to overwrite what is read: a file under any name, or anything within a folder."""
    for one in reads:
        if not one or not Path(one).exists():
            continue
        if Path(one).is_dir():
            if Path(one).resolve() in path.resolve().parents:
                raise InputError(
                    f"cannot write {path}: it is in the folder {one}, which is read; name a file "
                    "outside of it"
                )
        elif path.exists() and path.samefile(one):
            raise InputError(
                f"cannot write {path}: it is the file {one}, which is read and would be lost; name "
                "another file"
            )


def unfinished(folder: Path, name: str | None = None) -> list[Path]:
    """Unfinished files in a folder (of one name), after those of dead processes are removed."""
    which = r".+" if name is None else re.escape(name)
    pattern = re.compile(rf"\.{which}\.\d+(-\d+)?\.part")
    found = []
    for part in folder.iterdir():
        if not pattern.fullmatch(part.name):
            continue
        try:
            with locked(part, wait=False, new=False):
                _remove(part)
        except BlockingIOError:
            found.append(part)
        except OSError:
            continue  # it has just ended, or this disk does not support locks
    return found


@contextmanager
def locked(path: Path, wait: bool = True, new: bool = True) -> Iterator[None]:
    """Hold the lock of a file or folder; it ends with the process.

    If another process holds it: wait, or raise BlockingIOError. ``new`` creates a missing file.
    """
    if fcntl is None:
        yield
        return
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | (os.O_CREAT if new else 0)
    place = os.open(path, flags, 0o666)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(place)


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """A temporary folder for the work on ``path``; that of a killed process is removed."""
    folder = _part(path)
    try:
        folder.mkdir()
        with _held(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cannot_write(
    path: str | Path, error: Exception, size: int | None = None, part: Path | None = None
) -> WriteError:
    """The error for a file that cannot be written; ``part`` is its unfinished part."""
    path = Path(path)
    said = fault(error)
    if _number(error) != errno.ENOSPC:
        return WriteError(f"cannot write {path}: {said}; choose another place")
    free, needs = "no space is left", ""
    with suppress(OSError):
        there = 0 if part is None or not part.exists() else part.stat().st_blocks * 512
        room = shutil.disk_usage(path.parent).free + there
        free = f"{in_bytes(room)} are free in {path.parent}"
        needs = (
            f"the file needs {f'more than {in_bytes(there)}' if size is None else in_bytes(size)}"
        )
    return WriteError(
        f"cannot write {path}: {said}: {' and '.join(filter(None, (needs, free)))}; free some "
        "space, or name a file on another disk"
    )


def fault(error: Exception) -> str:
    """The system's error in words: from an OSError, or from the text of another error."""
    number = _number(error)
    if number == errno.ENOSPC:
        return "the disk is full"
    if number in _WORDS:
        return _WORDS[number]
    if number is not None:
        return os.strerror(number)
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def is_of_disk(error: Exception) -> bool:
    """Whether an error, from any library, is about a disk that cannot be written.

    >>> is_of_disk(ValueError("while writing: No space left on device (os error 28)"))
    True
    """
    return _number(error) in _OF_THE_DISK


def kept_elsewhere(write: Callable[[Path], None], path: Path, what: str) -> None:
    """Write a file; if that fails at the end of long work, keep it elsewhere and say where.

    Tried in turn: the system's temporary folder, the current folder, the home folder.
    """
    try:
        write(path)
    except WriteError as error:
        for place in (Path(tempfile.gettempdir()), Path.cwd(), Path.home()):
            kept = _tried(write, place, path.name)
            if kept is not None:
                said = f"{error}. The {what} is not lost: it is kept in {kept}"
                raise WriteError(said) from error
        raise


def in_bytes(size: int) -> str:
    """A size as people write it.

    >>> in_bytes(1_234_567), in_bytes(12)
    ('1.2 MB', '12 bytes')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def _tried(write: Callable[[Path], None], place: Path, name: str) -> Path | None:
    """The file, written into a new folder of this place; None if that fails too."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="setwise-", dir=place))
    except OSError:
        return None
    try:
        write(folder / name)
        return folder / name
    except (InputError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _part(path: Path) -> Path:
    """A new name, next to this one, for an unfinished file."""
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_NUMBERS)}.part")


@contextmanager
def _held(part: Path) -> Iterator[None]:
    """Hold the lock of an unfinished file, so that other processes do not remove it."""
    with ExitStack() as stack:
        with suppress(OSError):  # a disk that does not support locks
            stack.enter_context(locked(part, wait=False))
        yield


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)


def _refuse_special(path: Path) -> None:
    """Renaming a file over a device or a pipe (as root, /dev/null) would destroy it."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"cannot write {path}: it is a device or a pipe; name a plain file")


def _number(error: BaseException) -> int | None:
    """The system's number of an error, or of the one that it reports."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno is not None:
            return seen.errno
        found = _IN_TEXT.search(str(seen))
        if found:
            return int(found[1] or found[2])
        if "database or disk is full" in str(seen):  # SQLite's own words
            return errno.ENOSPC
        seen = seen.__cause__
    return None


def _is_about_writing(error: Exception, path: Path, part: Path) -> bool:
    if is_of_disk(error):
        return True
    name = getattr(error, "filename", None)
    return isinstance(error, OSError) and name is not None and Path(name) in (path, part)

"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setwise._errors import InputError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; renamed to ``path`` on success, removed on failure."""
    path = Path(path)
    _refuse_special(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        with open(beside, "rb") as written:
            os.fsync(written.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Refuse an output path that cannot be written, before hours of work and not after."""
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; name a file in it")
        if not path.parent.is_dir():
            raise InputError(
                f"cannot write {path}: there is no folder {path.parent}; make it first"
            )
        _refuse_special(path)
        probe = path.with_name(f".{path.name}.{os.getpid()}.part")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another place") from None


def _refuse_special(path: Path) -> None:
    """Renaming a file over a device or a pipe (as root, /dev/null) would destroy it."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"cannot write {path}: it is a device or a pipe; name a plain file")

"""Where studies are stored: in memory, in an SQLite file, or in a database that machines share.

A running trial names its worker by host, process number and start time, so that dead workers are
recognised.
"""

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage, get_storage
from optuna.trial import FrozenTrial
from sqlalchemy import URL, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from setwise._errors import InputError
from setwise._files import fault, locked

HEARTBEAT = 30.0  # seconds between two beats
GRACE = 4 * HEARTBEAT


def this_worker() -> str:
    """This process, in one word."""
    return f"{socket.gethostname()}/{os.getpid()}/{_start_time(os.getpid())}"


def is_dead(worker: str) -> bool:
    """Whether a worker is known to be dead; nothing is known of workers on other machines.

    >>> is_dead(this_worker()), is_dead("elsewhere/1/0")
    (False, False)
    """
    host, number, start = worker.rsplit("/", 2)
    return host == socket.gethostname() and _start_time(int(number)) != start


def _start_time(process: int) -> str:
    """When a process started, since numbers are used again; empty if there is no such process."""
    try:
        # The 22nd field; the second may hold spaces and ends with the last bracket.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return _alive(process)


def _alive(process: int) -> str:
    """Without /proc: "alive", or empty if there is no such process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive" if not Path("/proc/self").exists() else ""


class WorkerWatch:
    """Gives up workers whose beat has not changed for too long, by this process's own clock."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}

    def given_up(self, trial: FrozenTrial) -> bool:
        """Whether the worker of a running trial is dead, or silent for :data:`GRACE` seconds."""
        if is_dead(trial.user_attrs["worker"]):
            return True
        beat = trial.user_attrs.get("beat", 0)
        before, since = self._seen.get(trial.number, (-1, 0.0))
        if beat != before:
            self._seen[trial.number] = (beat, time.monotonic())
            return False
        return time.monotonic() - since > GRACE


@contextmanager
def heartbeat(storage: BaseStorage, trials: Set[int]) -> Iterator[None]:
    """While these trials run, count up their beat every :data:`HEARTBEAT` seconds."""
    if isinstance(storage, InMemoryStorage):  # memory has no other workers
        yield
        return
    over = threading.Event()

    def beat() -> None:
        count = 0
        while not over.wait(HEARTBEAT):
            count += 1
            for trial in trials:
                with suppress(UpdateFinishedTrialError):
                    storage.set_trial_user_attr(trial, "beat", count)
        storage.remove_session()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


PATIENCE = 60.0  # seconds to wait while another worker writes to an SQLite file
LOCK = 0x5E7  # PostgreSQL's advisory locks have numbers; any will do, if it is always the same

Lock = AbstractContextManager[None]


class Storage:
    """An Optuna storage, and a lock that one worker holds at a time, on all machines."""

    def __init__(self, where: str | Path | None):
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would print every trial
        self._url: URL | None = None
        self._engine: Engine | None = None
        self._lock_file: Path | None = None
        self._database: RDBStorage | None = None
        self.base: BaseStorage = InMemoryStorage()
        if where is None:
            return
        url = _url(where)
        self._url = url
        try:
            with self.faults():
                self._set_up_lock(url)
                with self.lock():  # two workers must not create the tables at once
                    self._database = _opened(url)
                self.base = get_storage(self._database)  # with finished trials kept in memory
        except ImportError as error:
            raise InputError(
                f"the storage {url} needs a driver: {error}; "
                "for PostgreSQL install setwise[postgresql]"
            ) from error

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn errors of the database, such as a full disk, into one sentence."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, StorageInternalError) as error:
            cause: Any = error
            while isinstance(cause, StorageInternalError) and cause.__cause__ is not None:
                cause = cause.__cause__
            raise _unusable(self._url, getattr(cause, "orig", None) or cause) from error

    def lock(self) -> Lock:
        """Held while proposing; the lock of a dead worker is free."""
        if self._lock_file is not None:
            return _file_lock(self._lock_file)
        if self._engine is not None:
            return _advisory_lock(self._engine)
        return nullcontext()

    def close(self) -> None:
        """End the connections."""
        if self._database is not None:
            self.base.remove_session()
            self._database.engine.dispose()
        if self._engine is not None:
            self._engine.dispose()

    def _set_up_lock(self, url: URL) -> None:
        if url.get_backend_name() == "sqlite":
            self._lock_file = Path(f"{url.database}.lock")
        else:
            self._engine = create_engine(url)


def _opened(url: URL) -> RDBStorage:
    address = url.render_as_string(hide_password=False)
    if url.get_backend_name() != "sqlite":
        return RDBStorage(address)
    connection = sqlite3.connect(str(url.database), timeout=PATIENCE)
    connection.execute("PRAGMA journal_mode=WAL")  # which the file keeps
    connection.close()
    storage = RDBStorage(address, {"connect_args": {"timeout": PATIENCE}})

    @event.listens_for(storage.engine, "connect")
    def hasten(connection: sqlite3.Connection, _: object) -> None:
        # Do not wait for the disk at every commit: a killed process loses nothing all the same,
        # and after a power cut the last trials are run again.
        connection.execute("PRAGMA synchronous=NORMAL")

    storage.engine.dispose()  # the connections from before
    return storage


def _url(where: str | Path) -> URL:
    """The address of the database; shown as text, it hides the password."""
    if "://" not in str(where):
        return URL.create("sqlite", database=str(_file(Path(where))))
    try:
        url = make_url(str(where))
    except ArgumentError as error:
        raise InputError(
            f"storage '{where}' is neither a file nor the URL of a database"
        ) from error
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return url.set(database=str(_file(Path(url.database))))
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    raise InputError(f"studies can be stored in SQLite files or PostgreSQL, not in {kind}")


def _file(path: Path) -> Path:
    if path.is_dir():
        raise InputError(f"storage {path} is a folder; name a file in it")
    if not path.resolve().parent.is_dir():
        raise InputError(f"storage {path}: its folder does not exist")
    if path.exists() and path.stat().st_size > 0:
        with path.open("rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                raise InputError(f"storage {path} is not an SQLite file; name another")
    return path


def _unusable(where: object, error: Exception) -> InputError:
    return InputError(
        f"the storage {where} cannot be used: {fault(error)}; check its address and the free space "
        "there, or name another; finished trials are kept"
    )


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
        except OSError as error:
            raise _unusable(path.with_suffix(""), error) from error
        yield


@contextmanager
def _advisory_lock(engine: Engine) -> Iterator[None]:
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": LOCK})
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": LOCK})

"""Who works on a trial: processes by host, number and time of birth, so that the dead are known."""

import os
import socket
import threading
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial

HEARTBEAT = 30.0  # seconds between two beats
GRACE = 4 * HEARTBEAT


def this_worker() -> str:
    """This process, in one word."""
    return f"{socket.gethostname()}/{os.getpid()}/{_birth(os.getpid())}"


def is_dead(worker: str) -> bool:
    """Whether a worker is known to be dead; of those on other machines, nothing is known.

    >>> is_dead(this_worker()), is_dead("elsewhere/1/0")
    (False, False)
    """
    host, number, birth = worker.rsplit("/", 2)
    return host == socket.gethostname() and _birth(int(number)) != birth


def _birth(process: int) -> str:
    """When a process was born, since numbers are used again; empty if there is none."""
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


class Watch:
    """Gives up workers whose beat has stood still for too long, by this process's own clock."""

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
def signs_of_life(storage: BaseStorage, trials: Set[int]) -> Iterator[None]:
    """While these trials run, count up their beat."""
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

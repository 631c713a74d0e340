"""What each process of a fit on a Ray cluster does, and where the first writes how it stands."""

import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setwise.choices import Choices
from setwise.cluster.processes import join
from setwise.estimators.trained import TrainedEstimator
from setwise.progress import Stand, told_to

Read = Callable[[], Choices]


@dataclass(frozen=True)
class Job:
    """What to fit, on what; every process reads the choices for itself."""

    estimator: TrainedEstimator
    read: Read
    checkpoint: Path | None


class Board:
    """Where the first process writes how the fit stands, for the one that waits to read."""

    def __init__(self) -> None:
        self._stand: Stand | None = None

    def write(self, stand: Stand) -> None:
        self._stand = stand

    def read(self) -> Stand | None:
        return self._stand


class Process:
    """One of the processes, as Ray starts it."""

    def address(self) -> str:
        """Where this process could listen."""
        import ray

        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{probe.getsockname()[1]}"

    def unseen(self, paths: list[Path]) -> tuple[str, list[Path]]:
        """This machine's name, and which of the paths are not there."""
        return socket.gethostname(), [path for path in paths if not path.exists()]

    def fit(
        self, job: Job, address: str, processes: int, place: int, board: Any
    ) -> tuple[bytes, list[str]] | None:
        """Fit with the others; the first process gives the model's file, and warnings."""
        join(address, processes, place)
        told = place == 0 and board is not None
        with warnings.catch_warnings(record=True) as raised, _written_on(board, told):
            warnings.simplefilter("always", UserWarning)
            fitted = job.estimator.fit(job.read(), checkpoint=job.checkpoint, progress=told)
            if place > 0:
                return None
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                fitted.save(path)
                return path.read_bytes(), [
                    str(one.message) for one in raised if issubclass(one.category, UserWarning)
                ]


@contextmanager
def _written_on(board: Any, told: bool) -> Iterator[None]:
    """Fits in this block write on the board how they stand."""
    if not told:
        yield
        return
    with told_to(lambda stand: board.write.remote(stand)):
        yield

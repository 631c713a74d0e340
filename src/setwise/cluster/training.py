"""Train one model on all machines of a cluster, even if some of them are lost.

Every process runs the same program and joins JAX's multi-process runtime; then they fit together
(:mod:`setwise.training.processes`). SLURM, Open MPI or Ray starts them. On a Ray cluster,
:func:`fit_on_cluster` starts one per machine or GPU. If one is lost, all are ended, since the rest
would wait for its share of a sum forever; as many as there is room for start again at the last
checkpoint.
"""

import socket
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from setwise._errors import InputError
from setwise._files import make_folder
from setwise.choices import Choices
from setwise.cluster.ray_executor import RUNNING, OnLost, on_ray
from setwise.estimators import load
from setwise.estimators.trained import TrainedEstimator
from setwise.training.progress import Stand, drawn, told_to

SECONDS_TO_MEET = 300
"""How long the first processes wait for the last."""
SECONDS_OF_SILENCE = 30
"""After which a silent process counts as dead, which ends the others."""

SECONDS_TO_PART = 24 * 3600
"""How long finished processes wait for the first, which still writes and evaluates."""


def join(address: str | None = None, processes: int | None = None, place: int | None = None) -> int:
    """Join the processes that train together; call it before JAX computes anything.

    Args:
        address: where the first process listens, "host:port"; by default JAX gets all three
            arguments from what started the processes (SLURM or Open MPI).
        processes: how many there are.
        place: which of them this is, from 0.

    Returns the place.
    """
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            address, processes, place,
            cluster_detection_method=None if address is None else "deactivate",
            initialization_timeout=SECONDS_TO_MEET, heartbeat_timeout_seconds=SECONDS_OF_SILENCE,
            shutdown_timeout_seconds=SECONDS_TO_PART,
        )  # fmt: skip
    except ValueError as error:
        raise InputError(
            f"the processes to train with cannot be found ({error}); start them all at once with "
            "'srun setwise fit ...' in a SLURM job, or with mpirun"
        ) from None
    return jax.process_index()


Read = Callable[[], Choices]


@dataclass(frozen=True)
class ClusterFit:
    """What to fit on which choices; every process reads them itself."""

    estimator: TrainedEstimator
    read: Read
    checkpoint: Path | None


class ProgressBoard:
    """Where the first process writes the progress of the fit, for the driver to read."""

    def __init__(self) -> None:
        self._stand: Stand | None = None

    def write(self, stand: Stand) -> None:
        self._stand = stand

    def read(self) -> Stand | None:
        return self._stand


class FitProcess:
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
        self, job: ClusterFit, address: str, processes: int, place: int, board: Any
    ) -> tuple[bytes, list[str]] | None:
        """Fit with the others; the first process returns the model file's content, and warnings."""
        join(address, processes, place)
        shows = place == 0 and board is not None
        with warnings.catch_warnings(record=True) as raised, _written_on(board, shows):
            warnings.simplefilter("always", UserWarning)
            fitted = job.estimator.fit(job.read(), checkpoint=job.checkpoint, progress=shows)
            if place > 0:
                return None
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                fitted.save(path)
                return path.read_bytes(), [
                    str(one.message) for one in raised if issubclass(one.category, UserWarning)
                ]


@contextmanager
def _written_on(board: Any, shows: bool) -> Iterator[None]:
    """Fits in this block write their progress on the board."""
    if not shows:
        yield
        return
    with told_to(lambda stand: board.write.remote(stand)):
        yield


FAILURES = 3
"""Failures in a row, without a checkpoint between them, after which a fit is given up."""
SECONDS_TO_START = 120
"""The time for a process to start and import setwise."""
SECONDS_FOR_MACHINES = 300
"""How long a fit waits for machines if there are too few."""
SECONDS_BETWEEN_LOOKS = 1.0

Draw = Callable[[Stand], None]
Place = tuple[str, bool]
"""Where a process runs: its machine, and whether it has a GPU to itself."""


class _MachineLost(Exception):
    """A machine is no longer there."""


def fit_on_cluster(
    estimator: Any,
    read: Read,
    *,
    checkpoint: str | Path | None = None,
    address: str = RUNNING,
    workers: int | None = None,
    min_workers: int = 1,
    progress: bool | None = None,
    on_lost: OnLost | None = None,
) -> TrainedEstimator:
    """The fitted estimator, trained by all machines of a Ray cluster together.

    The batches are those of one machine, so the numbers differ only by the rounding of sums. A lost
    machine costs the work since the last checkpoint, and a warning says so.

    Args:
        estimator: one that is trained by gradients.
        read: gives the training choices, and is called on every machine:
            ``partial(setwise.open_choices, "x.setwise-data")``, a file at the same path on all.
        checkpoint: a folder that all machines see; without it, a lost machine restarts the fit.
        address: of the cluster; see :func:`setwise.cluster.on_ray`.
        workers: how many processes; by default one for each GPU, or without GPUs for each machine.
        min_workers: with fewer processes the fit waits for machines, and then gives up.
        progress: show a bar; by default on a terminal and in a notebook only. Elsewhere,
            True prints a line every ten seconds.
        on_lost: called when the cluster is lost; see :func:`setwise.cluster.on_ray`.
    """
    if not isinstance(estimator, TrainedEstimator):
        raise InputError(
            f"{type(estimator).__name__} is not trained by gradients, so machines cannot share its "
            "training; fit it on one machine, without --cluster, or choose a model such as sda"
        )
    if min_workers < 1 or (workers is not None and workers < min_workers):
        raise InputError(
            f"workers={workers} with min_workers={min_workers} is not possible; min_workers must "
            "be at least 1, and workers at least min_workers"
        )
    folder = None if checkpoint is None else Path(checkpoint).absolute()
    job = ClusterFit(estimator, read, folder)
    with on_ray(address, on_lost) as ray, drawn(progress) as draw:
        return _Driver(ray, job, workers, min_workers, draw).run()


class _Driver:
    """Starts processes until a group of them has finished the fit."""

    def __init__(
        self, ray: ModuleType, job: ClusterFit, workers: int | None, least: int, draw: Draw | None
    ):
        self._ray, self._job, self._least, self._draw = ray, job, least, draw
        machines = _machines(ray)
        self._workers = workers or sum(machines.values())
        self._on_each = -(-self._workers // max(1, len(machines)))

    def run(self) -> TrainedEstimator:
        failures, kept = 0, self._kept()
        while True:
            with self._processes() as (processes, places):
                try:
                    content, texts = self._outcome(processes, places)
                    break
                except InputError:
                    raise
                except (self._ray.exceptions.RayError, _MachineLost) as error:
                    lost = error
            failures = 1 if self._kept() != kept else failures + 1
            kept = self._kept()
            if failures == FAILURES:
                raise InputError(
                    f"the fit failed {FAILURES} times in a row, and no checkpoint was written "
                    f"between: {_said(lost)}"
                ) from lost
            warnings.warn(
                f"a process of the fit was lost ({_said(lost)}); the others begin again "
                + ("at the beginning" if not kept else "at the last checkpoint"),
                stacklevel=4,
            )
        for text in dict.fromkeys(texts):
            warnings.warn(text, stacklevel=4)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            path.write_bytes(content)
            fitted = load(path)
        assert isinstance(fitted, TrainedEstimator)
        return fitted

    def _outcome(self, processes: list[Any], places: list[Place]) -> Any:
        """What the first process gives; the first error of any process is raised."""
        ray = self._ray
        address = ray.get(processes[0].address.remote(), timeout=SECONDS_TO_START)
        board = None
        if self._draw is not None:
            board = ray.remote(ProgressBoard).options(num_cpus=0).remote()
        running = [
            one.fit.remote(self._job, address, len(processes), place, board)
            for place, one in enumerate(processes)
        ]
        first = running[0]
        while True:
            done, running = ray.wait(running, num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
            if not done:
                self._refuse_lost(places)
                self._show(board)
                continue
            try:
                value = ray.get(done[0])
            except InputError as error:  # Ray's own class beside it, with a stack trace
                raise InputError(str(getattr(error, "cause", error))) from None
            if done[0] == first:
                return value

    def _show(self, board: Any) -> None:
        """Draw what the first process wrote last."""
        if self._draw is None:
            return
        try:
            stand = self._ray.get(board.read.remote(), timeout=SECONDS_BETWEEN_LOOKS)
        except self._ray.exceptions.RayError:  # the board was on a machine that is lost
            return
        if stand is not None:
            self._draw(stand)

    @contextmanager
    def _processes(self) -> Iterator[tuple[list[Any], list[Place]]]:
        """Processes that have started, on machines that see the files; ended in the end."""
        deadline = time.monotonic() + SECONDS_FOR_MACHINES
        while True:
            places = self._places()
            processes = [self._started(node, gpu) for node, gpu in places]
            try:
                if len(places) >= self._least and self._ready(processes, places):
                    yield processes, places
                    return
            finally:
                for one in processes:
                    self._ray.kill(one)
            if time.monotonic() > deadline:
                raise InputError(
                    f"the cluster has room for {len(places)} processes, but at least "
                    f"{self._least} are required; add machines, or lower --min-workers"
                )
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _places(self) -> list[Place]:
        """Machines in turn, each with as many processes as it is to have."""
        machines = _machines(self._ray)
        gpus = any(node["Alive"] and node["Resources"].get("GPU", 0) for node in self._ray.nodes())
        each = {node: slots if gpus else self._on_each for node, slots in machines.items()}
        turns = range(max(each.values(), default=0))
        found = [(node, gpus) for turn in turns for node, slots in each.items() if turn < slots]
        return found[: self._workers]

    def _started(self, node: str, gpu: bool) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": 0 if gpu else 1, "num_gpus": int(gpu), "max_restarts": 0}
        remote = self._ray.remote(FitProcess).options(scheduling_strategy=there, **options)
        return remote.remote()

    def _refuse_lost(self, places: list[Place]) -> None:
        """Ray waits for a machine for ever if it is lost at the wrong moment."""
        there = _machines(self._ray)
        if any(node not in there for node, _ in places):
            raise _MachineLost("a machine is lost")

    def _ready(self, processes: list[Any], places: list[Place]) -> bool:
        """Whether all have started; machines that lack the checkpoint folder are refused."""
        paths = []
        if self._job.checkpoint is not None:
            make_folder(self._job.checkpoint)
            paths = [self._job.checkpoint]
        asked = [one.unseen.remote(paths) for one in processes]
        deadline, waiting = time.monotonic() + SECONDS_TO_START, asked
        try:
            while waiting and time.monotonic() < deadline:
                _, waiting = self._ray.wait(
                    asked, num_returns=len(asked), timeout=SECONDS_BETWEEN_LOOKS
                )
                self._refuse_lost(places)
            answers = self._ray.get(asked, timeout=0)
        except (self._ray.exceptions.RayError, _MachineLost):  # it was there a moment ago
            return False
        for machine, missing in answers:
            if missing:
                raise InputError(
                    f"machine {machine} does not see the folder {missing[0]}; give a checkpoint "
                    "folder on a disk that all machines share, or none"
                )
        return True

    def _kept(self) -> set[tuple[str, int]]:
        """The checkpoints that there are, and when they were written."""
        folder = self._job.checkpoint
        files = [] if folder is None or not folder.is_dir() else folder.rglob("*.checkpoint")
        return {(str(path), path.stat().st_mtime_ns) for path in files}


def _machines(ray: ModuleType) -> dict[str, int]:
    """The machines that are there, with how many processes each is to have.

    One for each GPU; without GPUs one per machine, which then computes with all its cores.
    """
    alive = {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
    gpus = {node: int(has.get("GPU", 0)) for node, has in alive.items() if has.get("GPU", 0) >= 1}
    return gpus or {node: 1 for node, has in alive.items() if has.get("CPU", 0) >= 1}


def _said(error: Exception) -> str:
    """The last line of what an error says: Ray's begin with a stack trace."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].strip().rstrip(".")

"""The option ``--cluster``: work on this machine, on a Ray cluster, or in a SLURM job."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise._errors import InputError
from setwise.cli import show
from setwise.cli.source import CLUSTER, Source, boxed

if TYPE_CHECKING:
    from setwise._executor import Executor
    from setwise.choices import Choices


FLAG = "--cluster"
CLUSTER_HELP = (
    "Run the work on a Ray cluster. --cluster: a running cluster (on this machine, or at "
    "RAY_ADDRESS). --cluster=local: a new one on this machine. --cluster=HOST:PORT: that one."
)

Cluster = Annotated[
    str | None, typer.Option(FLAG, metavar="[=ADDRESS]", help=CLUSTER_HELP, rich_help_panel=CLUSTER)
]


@contextmanager
def executor(address: str | None) -> "Iterator[Executor | None]":
    """An executor on a cluster, or None for this process, for which Ray is not imported."""
    if address is None:
        yield None
        return
    from setwise.cluster import executor_on

    with apart_from_results(), executor_on(address, end_when_lost) as found:
        yield found


@contextmanager
def apart_from_results() -> Iterator[None]:
    """Send what Ray and its processes print to standard error, apart from results."""
    if sys.stdout is None:  # it is closed
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):  # Ray's Python prints, too
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def end_when_lost(address: str) -> None:
    """Say why before Ray ends this process without a word."""
    show.note(
        f"error: the Ray cluster at {address} was lost: its head no longer answers; start it again "
        "and run the same command: stored results are kept"
    )
    sys.stderr.flush()
    os._exit(2)


SLURM = "slurm"
FIT_CLUSTER_HELP = (
    "Train on all machines of a Ray cluster. --cluster: a running cluster (on this machine, or at "
    "RAY_ADDRESS). --cluster=local: a new one on this machine. --cluster=HOST:PORT: that one. "
    "--cluster=slurm: as one of the processes that srun has started."
)
FitCluster = Annotated[
    str | None,
    typer.Option(FLAG, metavar="[=ADDRESS]", help=FIT_CLUSTER_HELP, rich_help_panel=CLUSTER),
]
Workers = Annotated[
    int | None,
    boxed(CLUSTER, "Processes. Default: one per GPU, else per machine.", min=1),
]
MinWorkers = Annotated[
    int | None, boxed(CLUSTER, "Wait if there are fewer processes. Default: 1.", min=1)
]


@dataclass(frozen=True)
class Machines:
    """Where to fit."""

    cluster: str | None
    workers: int | None
    min_workers: int | None

    def __post_init__(self) -> None:
        if self.cluster in (None, SLURM) and (self.workers or self.min_workers):
            raise InputError(
                "--workers and --min-workers are for a Ray cluster; give --cluster too, or leave "
                "them out"
            )

    def fitted(
        self,
        estimator: Any,
        choices: "Choices",
        source: Source,
        seed: int,
        checkpoint: Path | None,
    ) -> Any:
        """The fitted estimator; in a SLURM job only the first process continues the command."""
        if self.cluster is None:
            return estimator.fit(choices, checkpoint=checkpoint)
        if self.cluster == SLURM:
            from setwise.cluster.training import join

            place = join()
            estimator.fit(choices, checkpoint=checkpoint)
            if place > 0:
                raise typer.Exit
            return estimator
        from setwise.cluster.training import fit_on_cluster

        path = Path(source.table)
        here = replace(source, table=str(path.absolute())) if path.exists() else source
        with apart_from_results():
            return fit_on_cluster(
                estimator, partial(here.read, seed), checkpoint=checkpoint, address=self.cluster,
                workers=self.workers, min_workers=self.min_workers or 1, on_lost=end_when_lost,
            )  # fmt: skip

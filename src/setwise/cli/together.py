"""Fitting on this machine, on a Ray cluster, or as one of the processes that SLURM started."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise._errors import InputError
from setwise.cli.cluster import FLAG, apart_from_results, end_when_lost
from setwise.cli.source import Source

if TYPE_CHECKING:
    from setwise.choices import Choices

SLURM = "slurm"
CLUSTER_HELP = (
    "Train on all machines of a Ray cluster: the one that runs (here, or where RAY_ADDRESS says), "
    "--cluster=local for one on this machine, or --cluster=HOST:PORT. --cluster=slurm: as one of "
    "the processes that srun started."
)
FitCluster = Annotated[str | None, typer.Option(FLAG, metavar="[=ADDRESS]", help=CLUSTER_HELP)]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="With --cluster: processes. Default: one a GPU, or else a machine."),
]
MinWorkers = Annotated[
    int | None, typer.Option(min=1, help="With --cluster: with fewer a fit waits. Default: 1.")
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
        """The fitted estimator; of SLURM's processes, the command goes on in the first alone."""
        if self.cluster is None:
            return estimator.fit(choices, checkpoint=checkpoint)
        if self.cluster == SLURM:
            from setwise.cluster.processes import join

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

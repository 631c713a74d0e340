"""The option ``--cluster``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from setwise._crew import Crew

FLAG = "--cluster"
CLUSTER_HELP = (
    "Work on a Ray cluster: the one that runs (here, or where RAY_ADDRESS says), --cluster=local "
    "for one on this machine, or --cluster=HOST:PORT."
)

Cluster = Annotated[str | None, typer.Option(FLAG, metavar="[=ADDRESS]", help=CLUSTER_HELP)]


class MayUseCluster(TyperCommand):
    """A command whose ``--cluster`` needs no address; one is given after '=', never a space."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"{FLAG}=auto" if one == FLAG else one for one in args])


@contextmanager
def crew(address: str | None) -> "Iterator[Crew | None]":
    """The workers of a cluster, or None for this machine, for which Ray is not imported."""
    if address is None:
        yield None
        return
    from setwise.cluster import crew_on

    with crew_on(address) as found:
        yield found

"""The option ``--cluster``."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from setwise.cli import show

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

    with apart_from_results(), crew_on(address, end_when_lost) as found:
        yield found


@contextmanager
def apart_from_results() -> Iterator[None]:
    """What Ray's own processes and programs print goes to standard error, apart from results."""
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
        "and run the same command: what is finished is kept"
    )
    sys.stderr.flush()
    os._exit(2)

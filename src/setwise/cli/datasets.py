"""The commands of ``setwise datasets``: list and write."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from setwise.cli import show
from setwise.cli.source import Json

app = typer.Typer(help="Shipped tables and generators with known truth.")


@app.callback(invoke_without_command=True)
def listing(context: typer.Context, json: Json = False) -> None:
    """List the data sets that come with setwise."""
    if context.invoked_subcommand is not None:
        return
    from setwise import datasets as room

    if json:
        show.as_json([asdict(one) for one in room.catalogue()])
        return
    rows = [(one.name, one.kind, one.summary, one.source) for one in room.catalogue()]
    show.table(("name", "kind", "what", "source"), rows, numbers=False)


@app.command()
def write(
    name: Annotated[str, typer.Argument(help="Name of a data set; 'setwise datasets' lists them.")],
    out: Annotated[Path, typer.Option(help="Parquet or CSV file to write.")],
    sets: Annotated[int, typer.Option(help="Sets to draw, for generators.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the draw, for generators.")] = 0,
) -> None:
    """Write a data set to a file.

    Example: setwise datasets write decoy --sets 5000 --out decoy.parquet
    """
    from setwise import datasets as room
    from setwise.cli.tables import write_table

    write_table(None, out)
    generated = room.find(name).kind == "generated"
    frame = room.generate(name, sets, seed).table if generated else room.table(name)
    write_table(frame, out)
    show.note(f"wrote {out}: {len(frame):,} rows")

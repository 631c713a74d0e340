"""The commands of ``setwise datasets``: list, write, build and imitate."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from setwise._errors import InputError
from setwise.cli import show
from setwise.cli.source import Json, Outcome, RawName, View, seed_option

app = typer.Typer(help="Shipped tables, generated data with known truth, and public raw files.")


@app.callback(invoke_without_command=True)
def listing(context: typer.Context, json: Json = False) -> None:
    """List the data sets that come with setwise, and those whose raw files it reads."""
    if context.invoked_subcommand is not None:
        return
    from setwise import datasets as room
    from setwise.paper import RAW

    raw = [
        {"name": one.name, "kind": "raw", "summary": one.summary, "source": one.source}
        for one in RAW.values()
    ]
    known = [asdict(one) for one in room.catalogue()] + raw
    if json:
        show.as_json(known)
        return
    rows = [tuple(one[name] for name in ("name", "kind", "summary", "source")) for one in known]
    show.table(("name", "kind", "what", "source"), rows, numbers=False)


@app.command()
def write(
    name: Annotated[str, typer.Argument(help="Name of a data set; 'setwise datasets' lists them.")],
    out: Annotated[Path, typer.Option(help="Parquet or CSV file to write.")],
    sets: Annotated[
        int | None, typer.Option(help="Generated data: number of sets. Default: 1000.")
    ] = None,
    seed: Annotated[int | None, seed_option("Generated data: seed. Default: 0.")] = None,
) -> None:
    """Write a data set to a file.

    Example: setwise datasets write decoy --sets 5000 --out decoy.parquet
    """
    from setwise import datasets as room
    from setwise.cli.tables import check_table, write_table

    check_table(out)
    if room.find(name).kind == "generated":
        frame = room.generate(name, 1000 if sets is None else sets, seed or 0).table
    elif sets is None and seed is None:
        frame = room.table(name)
    else:
        raise InputError(
            f"--sets and --seed are for generated data, and {name} is a table; leave them out"
        )
    write_table(frame, out)
    show.note(f"wrote {out}: {len(frame):,} rows")


@app.command()
def imitate(
    name: Annotated[RawName, typer.Argument(help="Which public data set.")],
    out: Annotated[Path, typer.Option(help="Folder to write; created if it is missing.")],
    sets: Annotated[int, typer.Option(help="Number of choice sets.")] = 1000,
    seed: Annotated[int, seed_option("Seed; the same seed gives the same files.")] = 0,
    zipped: Annotated[bool, typer.Option("--zipped", help="Zip the files.")] = False,
) -> None:
    """Write generated files in the raw format of a public data set, for trials and load tests.

    They have the columns, types, gaps and skew of that data set. The choices are drawn from a known
    model in which context matters. GENERATED.txt in the folder says that they are not real.

    Example: setwise datasets imitate expedia --sets 500 --out downloads
    """
    from setwise.paper import imitate

    if zipped and name == "amadeus":
        raise InputError("--zipped is for expedia and outbrain; amadeus is one Parquet file")
    options: dict[str, Any] = {"zipped": True} if zipped else {}
    with show.counting_bar("sets") as on_sets:
        truth = imitate(name, out, sets, seed, on_sets=lambda done: on_sets(done, sets), **options)
    show.note(
        f"wrote generated files to {out}; the true model has NLL {truth.expected_nll:.4f} and "
        f"top-1 {100 * truth.expected_top1:.1f} % on {truth.one_choice:,} sets with one choice"
    )


@app.command()
def build(
    name: Annotated[RawName, typer.Argument(help="Which public data set.")],
    raw: Annotated[Path, typer.Option(help="Folder with the downloaded files, zipped or not.")],
    out: Annotated[Path, typer.Option(help="Data file to write (.setwise-data).")],
    view: Annotated[View, typer.Option(help="The paper's features, or all features.")] = "paper",
    outcome: Annotated[
        Outcome, typer.Option(help="Expedia: which outcome is the choice.")
    ] = "click",
) -> None:
    """Build a data file from the raw files of a public data set.

    Only sets with exactly one choice are kept. The commands fit, predict, evaluate, compare and
    tune take the file. It may be larger than memory.

    Example: setwise datasets build expedia --raw downloads --out expedia.setwise-data
    """
    from setwise.paper import build

    if outcome != "click" and name != "expedia":
        raise InputError(f"--outcome is for expedia; {name} has only one outcome")
    options: dict[str, Any] = {"outcome": outcome} if name == "expedia" else {}
    with show.steps() as on_step:
        choices = build(name, raw, out, view, on_step, **options)
    show.dropped(choices)
    show.note(f"wrote {out}: {choices}")

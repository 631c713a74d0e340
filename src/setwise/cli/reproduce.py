"""The command ``setwise reproduce``."""

import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise.cli import show
from setwise.cli.cluster import Cluster
from setwise.cli.cluster import executor as executor_of
from setwise.cli.source import (
    Json,
    Outcome,
    PaperPart,
    RawName,
    ReproducePreset,
    Source,
    seed_option,
)

if TYPE_CHECKING:
    from setwise.choices import Choices
    from setwise.paper import reproduction as room

PART_HELP = (
    "table1: the 11 methods at the smallest set size; full: at every size; ablation: the eight "
    "rows of Table 4; figures: the three panels; all: everything."
)
PRESET_HELP = "quick: a demonstration that takes minutes; paper: the real protocol."
SIZES_HELP = (
    "Largest set sizes, separated by commas; Table 1 uses the smallest of them. Default: the "
    "paper's for its data sets, the largest set of other tables."
)
OUT_HELP = "Folder for the report and finished work; the same command resumes from there."
RAW_HELP = "Raw files of {}, or a data file built from them."
GENERATED_SETS = 5000
LEAST_SHARE = 0.2
"""The share that must be done before the remaining time is shown."""


def reproduce(
    source: Source,
    part: Annotated[PaperPart, typer.Argument(help=PART_HELP)] = "all",
    expedia: Annotated[Path | None, typer.Option(help=RAW_HELP.format("Expedia"))] = None,
    outbrain: Annotated[Path | None, typer.Option(help=RAW_HELP.format("Outbrain"))] = None,
    amadeus: Annotated[Path | None, typer.Option(help=RAW_HELP.format("Amadeus"))] = None,
    outcome: Annotated[
        Outcome, typer.Option(help="Expedia's raw files: which outcome is the choice.")
    ] = "click",
    preset: Annotated[ReproducePreset, typer.Option(help=PRESET_HELP)] = "quick",
    sizes: Annotated[str | None, typer.Option(help=SIZES_HELP)] = None,
    splits: Annotated[int | None, typer.Option(help="Number of random 50:25:25 splits.")] = None,
    trials: Annotated[int | None, typer.Option(help="Trials per method and split.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Most passes over the data.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes. Default: one per core, four on a GPU.")
    ] = None,
    cluster: Cluster = None,
    out: Annotated[Path, typer.Option(help=OUT_HELP)] = Path("reproduction"),
    seed: Annotated[int, seed_option("Seed of samples, splits, models and trials.")] = 0,
    json: Json = False,
) -> None:
    """Run the paper's evaluation and write a report that compares our numbers with the paper's.

    It runs on the paper's data (--expedia, --outbrain, --amadeus), on any table or, without
    either, on shipped and generated data. --max-sets is the number of sets to sample per split.
    After a kill, the same command resumes and ends with the same tables.

    Example: setwise reproduce table1 swissmetro --preset quick --out first-look
    """
    from setwise._files import check_folder
    from setwise.paper import reproduction as room
    from setwise.paper.raw import raw_files

    given = {"splits": splits, "trials": trials, "sets": source.max_sets, "seed": seed}
    changed: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
    protocol = replace(room.PRESETS[preset], **changed)
    if epochs is not None:
        protocol = replace(protocol, training=replace(protocol.training, epochs=epochs))
    raw: dict[RawName, Path | None] = {
        "expedia": expedia,
        "outbrain": outbrain,
        "amadeus": amadeus,
    }
    reads = [one for path in raw.values() if path is not None for one in raw_files(path)]
    check_folder(out, [*source.reads(), *reads], room.FILES)
    sources = _sources(source, raw, outcome, sizes, seed)
    command = shlex.join(["setwise", *sys.argv[1:]])
    with executor_of(cluster) as executor, _progress(out) as (on_plan, on_unit):
        results = room.reproduce(
            sources, out, part, protocol, workers=workers, executor=executor, command=command,
            on_plan=on_plan, on_unit=on_unit,
        )  # fmt: skip
    written = room.write_report(results, out)
    if json:
        show.as_json(asdict(results))
    else:
        print(room.headline(results))
    show.note(f"wrote {', '.join(str(path) for path in written if path.parent == out)}")


def _sources(
    source: Source,
    raw: dict[RawName, Path | None],
    outcome: Outcome,
    sizes: str | None,
    seed: int,
) -> "dict[str, room.ReproductionData]":
    """The data to reproduce on, by the names to show."""
    from setwise.paper.published_results import MAX_ITEMS

    found: dict[str, Choices] = {}
    for name, path in raw.items():
        if path is not None:
            found |= _named(name, _raw(name, path, outcome))
    if source.table:
        choices = replace(source, max_sets=None).read(seed)
        show.dropped(choices)
        found |= _named(source.like, choices) if source.like else {_stem(source.table): choices}
    if not found:
        found = _default(seed)
    wanted = None if sizes is None else _numbers(sizes)
    return {
        name: _limited(choices, wanted or MAX_ITEMS.get(name.split(" ")[0]))
        for name, choices in found.items()
    }


def _limited(choices: "Choices", sizes: tuple[int, ...] | None) -> "room.ReproductionData":
    from setwise.paper import reproduction as room

    return room.ReproductionData(choices, sizes or (int(choices.sizes.max()),))


def _named(name: RawName, choices: "Choices") -> "dict[str, Choices]":
    """Under the paper's name; bookings, which the paper does not have, are marked."""
    booked = choices.roles.chosen == "booking_bool"
    return {f"{name.capitalize()}{' bookings' if booked else ''}": choices}


def _raw(name: RawName, path: Path, outcome: Outcome) -> "Choices":
    from setwise.choices import open_choices
    from setwise.cli.tables import is_data_file
    from setwise.paper import load_raw

    if is_data_file(path):
        return open_choices(path)
    options: dict[str, Any] = {"outcome": outcome} if name == "expedia" else {}
    choices = load_raw(name, path, "paper", **options)
    show.dropped(choices)
    return choices


def _default(seed: int) -> "dict[str, Choices]":
    """A shipped table, and generated files in the format of the paper's Expedia."""
    from setwise import datasets
    from setwise.paper import imitate, load_raw

    with tempfile.TemporaryDirectory() as folder:
        imitate("expedia", folder, GENERATED_SETS, seed)
        expedia = load_raw("expedia", folder, "paper").limit(10)
    show.note("no data given: using swissmetro, and generated data in Expedia's format")
    return {"Swissmetro": datasets.load("swissmetro"), "generated hotels": expedia}


def _stem(table: str) -> str:
    from setwise.cli.tables import is_dataset

    return table.capitalize() if is_dataset(table) else Path(table).stem


def _numbers(text: str) -> tuple[int, ...]:
    from setwise._errors import InputError

    try:
        return tuple(int(one) for one in text.split(","))
    except ValueError:
        raise InputError(f"--sizes {text} must be whole numbers separated by commas") from None


@contextmanager
def _progress(out: Path) -> "Iterator[tuple[room.OnPlan, room.OnUnit]]":
    """Show the plan, then a bar over all its work and a line for every unit that ends."""
    seconds: dict[Any, float] = {}
    done: dict[Any, float] = {}
    ended: list[Any] = []
    begin = time.monotonic()
    with show.share_bar("reproducing") as (say, advance):

        def on_plan(
            plan: "room.ReproductionPlan", left: "Sequence[room.Unit]", workers: int
        ) -> None:
            nonlocal begin
            begin = time.monotonic()
            _show_plan(plan, left, workers, out)
            seconds.update({unit: plan.seconds[unit] for unit in left})

        def on_unit(unit: "room.Unit", share: float, notes: Sequence[str] | None) -> None:
            done[unit] = share
            whole = sum(seconds[one] * done[one] for one in done) / sum(seconds.values())
            left = _left(time.monotonic() - begin, whole)
            advance(whole, left)
            if notes is not None:
                ended.append(unit)
                say(f"[{len(ended)}/{len(seconds)}] {unit}{left and f'; {left}'}")
            for text in notes or ():
                say(f"warning: {unit}: {text}")

        yield on_plan, on_unit


def _left(elapsed: float, share: float) -> str:
    """How long the rest takes at the speed so far; nothing before that is known.

    >>> _left(60.0, 0.25), _left(60.0, 0.05), _left(60.0, 1.0)
    ('about 3 min left', '', '')
    """
    if not LEAST_SHARE <= share < 1:
        return ""
    return f"about {_duration(elapsed * (1 - share) / share)} left"


def _show_plan(
    plan: "room.ReproductionPlan", left: "Sequence[room.Unit]", workers: int, out: Path
) -> None:
    rows = []
    for setting in plan.settings:
        units = plan.of(setting)
        todo = [unit for unit in units if unit in left]
        rows.append((
            f"{setting.data}, up to {setting.max_items} items",
            f"{setting.sets:,} of {setting.available:,}", str(setting.features),
            str(len(units)), str(len(todo)),
        ))  # fmt: skip
    heads = ("data", "sets", "features", "methods", "to do")
    show.table(heads, rows, title="The plan", to_stderr=True)
    show.note(f"{len(left)} methods to do with {workers} workers; results go to {out}")


def _duration(seconds: int | float) -> str:
    """Rounded to a suitable unit: an estimate is not exact."""
    for unit, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"

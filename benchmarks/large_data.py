"""The paper's largest data at full size: raw files, a data file, an epoch of SDA.

Generated files of Outbrain (16.8 million sets) and Expedia (399 thousand), at 1 %, 10 % and 100 %.
Every step runs in a process of its own. The full run takes about 10 minutes and 12 GB of disk.
"""

# A new process starts with the peak memory of the one that starts it: this one must stay small,
# and imports neither setwise nor NumPy.
import argparse
import itertools
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import report

OPENINGS = 5


class Source(NamedTuple):
    """A data set at its full size."""

    title: str
    sets: int
    table: str


class Limit(NamedTuple):
    """A figure, and what it must not exceed at full size."""

    words: str
    step: str
    figure: str
    most: float
    style: str


SOURCES = {
    "outbrain": Source("Outbrain", 16_800_000, "clicks_train.csv"),
    "expedia": Source("Expedia", 399_344, "train.csv"),
}
LIMITS = (
    Limit("Peak memory of building", "build", "gigabytes", 6, "{:.2f} GB"),
    Limit("Building, against bare Polars", "build", "times_bare", 3, "{:.2f}×"),
    Limit("Opening", "open", "seconds", 0.1, "{:.4f} s"),
    Limit("Peak memory of training", "train", "gigabytes", 3, "{:.2f} GB"),
)


def main() -> None:
    given = options()
    result: dict[str, Any] = {"machine": report.machine(), "command": command(given)}
    with tempfile.TemporaryDirectory() as scratch:
        raw = given.raw or Path(scratch) / "raw"
        result["data"] = {
            name: [measure(name, percent, raw, Path(scratch)) for percent in given.sizes]
            for name in given.names
        }
    result["versions"] = next(iter(result["data"].values()))[0]["build"]["versions"]
    report.publish("large_data", result, as_text(result), given, None)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=names, default=list(SOURCES), help="such as expedia")
    parser.add_argument("--sizes", type=sizes, default=[1, 10, 100], help="percent, such as 1,10")
    parser.add_argument("--raw", type=Path, help="where generated files are, or are to stay")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument("--quick", action="store_true", help="a smoke test: figures mean nothing")
    parser.add_argument("--write", action="store_true", help="keep the figures in RESULTS.md")
    given = parser.parse_args()
    if given.write and given.quick:
        parser.error("--write needs a full run: figures of --quick mean nothing")
    if given.quick:
        given.sizes = [0.1]
    return given


def names(text: str) -> list[str]:
    found = text.split(",")
    unknown = [name for name in found if name not in SOURCES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of: {', '.join(SOURCES)}")
    return found


def sizes(text: str) -> list[float]:
    try:
        found = sorted({float(one) for one in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are not numbers with commas") from None
    if not 0 < found[0] <= found[-1] <= 100:
        raise argparse.ArgumentTypeError(f"{text!r}: sizes are percent, above 0 and up to 100")
    return found


def command(given: argparse.Namespace) -> str:
    """The command of this run, without the place of the raw files, which is of no interest."""
    whole = report.command()
    return whole if given.raw is None else whole.replace(str(given.raw), "FOLDER")


def measure(name: str, percent: float, raw: Path, scratch: Path) -> dict[str, Any]:
    """All steps at one size; what they write is removed again, except raw files to be kept."""
    source, folder = SOURCES[name], raw / f"{name}_{percent:g}"
    sets = round(source.sets * percent / 100)
    generated = None if is_generated(folder, sets) else ours("generate", name, folder, sets)
    rows, size = read_through(folder, source.table)
    file, bare_file = scratch / f"{name}.setwise-data", scratch / f"{name}.parquet"
    report.say(f"{name}, {percent:g} %: {rows:,} rows")
    built = ours("build", name, folder, file)
    built |= {"rows_a_second": rows / built["seconds"], "file_gigabytes": built["bytes"] / 1e9}
    bare = bare_polars(name, folder, bare_file, rows)
    bare_file.unlink(missing_ok=True)
    if "error" not in bare:
        built["times_bare"] = built["seconds"] / bare["seconds"]
    opening = report.middle([ours("open", file) for _ in range(OPENINGS)], "seconds")
    with tempfile.TemporaryDirectory() as cache:
        trained = ours("train", file, env=report.with_own_cache(Path(cache)))
    trained["sets_a_second"] = trained["sets"] / trained["seconds"]
    file.unlink()
    return {
        "percent": percent, "sets": sets, "rows": rows, "raw_gigabytes": size / 1e9,
        "generate": generated, "build": built, "bare": bare, "train": trained,
        "open": {"seconds": opening, "milliseconds": 1e3 * opening},
    }  # fmt: skip


def is_generated(folder: Path, sets: int) -> bool:
    """Whether the folder's label says that all files of this many sets are there."""
    label = folder / "GENERATED.txt"
    text = label.read_text() if label.exists() else "Unfinished"
    return f"Sets: {sets}. Seed: 0." in text and "Unfinished" not in text


def read_through(folder: Path, table: str) -> tuple[int, int]:
    """The table's rows and all files' bytes; both sides then find the files in the page cache."""
    lines, size = 0, 0
    for path in folder.iterdir():
        size += path.stat().st_size
        with path.open("rb") as file:
            while block := file.read(2**20):
                lines += block.count(b"\n") if path.name == table else 0
    return lines - 1, size


def ours(step: str, *arguments: object, env: dict[str, str] | None = None) -> dict[str, Any]:
    """A step of setwise, which must not fail."""
    report.say(f"  {step}")
    os.sync()  # what an earlier step wrote must not be on its way to the disk during this one
    done = report.run_side(sys.executable, "setwise_large.py", step, *arguments, env=env)
    return with_gigabytes(report.required(done))


def bare_polars(name: str, folder: Path, out: Path, rows: int) -> dict[str, Any]:
    """The same files in bare Polars; if it dies, why, and how much memory it had."""
    report.say("  bare Polars")
    os.sync()
    done = report.attempt(sys.executable, "bare_polars.py", name, folder, out)
    if "error" in done:
        # Of all processes so far, one that ended for want of memory had the most.
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
        return with_gigabytes({"error": done["error"], "memory": most})
    if done["rows"] != rows:
        sys.exit(f"bare Polars wrote {done['rows']:,} rows of {rows:,}: it did another job")
    return with_gigabytes(done)


def with_gigabytes(found: dict[str, Any]) -> dict[str, Any]:
    """Peak memory in GB (10^9 bytes) too, from MiB."""
    return found | {"gigabytes": found["memory"] * 2**20 / 1e9}


def as_text(result: dict[str, Any]) -> str:
    parts = [
        "## Large data: from raw files to an epoch of SDA",
        "Generated files in the formats of Outbrain and Expedia; 100 % is the size of the real "
        "ones. Every step in a process of its own; memory is the most that the process had, code "
        f"included, in GB of 10⁹ bytes. Opening is the median of {OPENINGS} processes. SDA has its "
        "default sizes, batch 4096; a hundredth of the sets validates, and that is part of an "
        "epoch. The first epoch compiles, the second counts; data of one shard (2 million rows) "
        "are not read again for it.",
    ]
    for name, found in result["data"].items():
        parts += [f"### {SOURCES[name].title}", report.table(rows_of(found))]
        parts.append("\n".join([*growth(found), *limits(found)]))
    return "\n\n".join([*parts, report.provenance(result)])


def rows_of(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    def row(words: str, style: str, *path: str) -> list[str]:
        return [words, *(shown(one, style, path) for one in found)]

    return [
        ["", *(f"{one['percent']:g} %" for one in found)],
        row("sets", "{:,}", "sets"),
        row("rows", "{:,}", "rows"),
        row("raw files, GB", "{:.2f}", "raw_gigabytes"),
        row("build, s", "{:.2f}", "build", "seconds"),
        row("… rows per second", "{:,.0f}", "build", "rows_a_second"),
        row("… peak GB", "{:.2f}", "build", "gigabytes"),
        row("bare Polars: scan, join, sort, s", "{:.2f}", "bare", "seconds"),
        row("… peak GB", "{:.2f}", "bare", "gigabytes"),
        row("build takes, of bare Polars' time", "{:.2f}×", "build", "times_bare"),
        row("data file, GB", "{:.2f}", "build", "file_gigabytes"),
        row("open, ms", "{:.1f}", "open", "milliseconds"),
        row("learn the schema, s", "{:.2f}", "train", "schema_seconds"),
        row("the first epoch, compiling, s", "{:.2f}", "train", "first_seconds"),
        row("an epoch, s", "{:.2f}", "train", "seconds"),
        row("… sets per second", "{:,.0f}", "train", "sets_a_second"),
        row("… peak GB of all training", "{:.2f}", "train", "gigabytes"),
        row("… validation NLL after two", "{:.4f}", "train", "nll"),
    ]


def shown(one: dict[str, Any], style: str, path: Sequence[str]) -> str:
    value: Any = one
    for name in path:
        if name not in value:  # bare Polars died: it has no seconds, and there is no ratio
            return "–"
        value = value[name]
    return style.format(value)


def growth(found: Sequence[dict[str, Any]]) -> list[str]:
    """How time grows from each size to the next, beside how the data do."""
    pairs = list(itertools.pairwise(found))
    if not pairs:
        return []

    def ratios(step: str, figure: str, of: str) -> str:
        return ", then ".join(
            f"{after[step][figure] / before[step][figure]:.1f}× for {after[of] / before[of]:.1f}×"
            for before, after in pairs
        )

    sizes = " to ".join(f"{one['percent']:g} %" for one in found)
    return [
        f"- Time from {sizes}: building {ratios('build', 'seconds', 'rows')} the rows; learning "
        f"the schema {ratios('train', 'schema_seconds', 'rows')}; an epoch "
        f"{ratios('train', 'seconds', 'sets')} the sets."
    ]


def limits(found: Sequence[dict[str, Any]]) -> list[str]:
    """Each limit beside what full size took, if it was run, and where bare Polars died."""
    lines = []
    for limit in LIMITS if found[-1]["percent"] == 100 else ():
        value = found[-1][limit.step].get(limit.figure)
        if value is not None:
            verdict = "met" if value <= limit.most else "**missed**"
            measured, most = (limit.style.format(one) for one in (value, limit.most))
            lines.append(f"- {limit.words} at 100 %: {measured}, limit {most}: {verdict}.")
    deaths = [
        f"- Bare Polars did not end at {one['percent']:g} %, with {one['bare']['gigabytes']:.1f} "
        f"GB: {'it was killed' if one['bare']['error'] == '?' else one['bare']['error']}."
        for one in found
        if "error" in one["bare"]
    ]
    return lines + deaths


if __name__ == "__main__":
    main()

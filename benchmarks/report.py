"""What the benchmarks share: options, sides in processes of their own, the machine, RESULTS.md.

Standard library only, so that every environment can import it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"


def options(description: str) -> argparse.Namespace:
    """The options of every benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument("--quick", action="store_true", help="a smoke test: figures mean nothing")
    parser.add_argument("--write", action="store_true", help="keep the figures in RESULTS.md")
    parser.add_argument("--repeats", type=int, help="how often the sides take turns")
    given = parser.parse_args()
    if given.write and given.quick:
        parser.error("--write needs a full run: figures of --quick mean nothing")
    if given.repeats is not None and given.repeats < 1:
        parser.error("--repeats must be at least 1")
    return given


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that the action took, and its result."""
    began = time.perf_counter()
    result = action()
    return time.perf_counter() - began, result


def say(text: str) -> None:
    """Progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def emit(result: Mapping[str, Any]) -> None:
    """What a side's process hands back: JSON in its last line."""
    print(json.dumps(result), flush=True)


def attempt(
    python: Path | str, script: str, *arguments: object, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run one side in a process of its own; its figures, or ``error``: the last line it said."""
    command = [str(python), str(FOLDER / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        error = (done.stderr.strip() or "?").splitlines()[-1]
        say(f"{script} failed, going on without it: {error}")
        return {"error": error}
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_side(
    python: Path | str, script: str, *arguments: object, env: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    """The same, where a failure only needs to be said: None then."""
    result = attempt(python, script, *arguments, env=env)
    return None if "error" in result else result


def with_own_cache(folder: Path) -> dict[str, str]:
    """The environment with an empty cache of compiled programs: the first turn has to compile."""
    env = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return env | {"XDG_CACHE_HOME": str(folder)}


def required(result: dict[str, Any] | None) -> dict[str, Any]:
    """The result of a side that must not fail: ours."""
    if result is None:
        sys.exit("setwise's own side failed: there is nothing to compare")
    return result


def middle(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    """The median of one figure over the repeats."""
    return median(run[name] for run in runs)


def machine() -> dict[str, Any]:
    """Where and when the figures were taken."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "load_before": os.getloadavg()[0],
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def versions(*packages: str) -> dict[str, str]:
    """Versions of packages in this environment."""
    return {name: metadata.version(name) for name in packages}


def command() -> str:
    """The command of this run, as one would type it in the repository."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def provenance(result: Mapping[str, Any]) -> str:
    """One paragraph: the machine, the versions, the command."""
    m = result["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return (
        f"{m['date']}, {m['cores']} cores of {m['cpu']}, {m['system']}, Python {m['python']}, "
        f"load {m['load_before']:.1f} before the run; {packages}. Command: `{result['command']}`."
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that also reads well on a terminal; the first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [
        [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        for row in rows
    ]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (padded[0], rule, *padded[1:]))


def publish(
    name: str,
    result: Mapping[str, Any],
    text: str,
    given: argparse.Namespace,
    complaint: str | None,
) -> None:
    """Print the results as asked, and keep them if asked; a complaint ends the run as failed."""
    print(json.dumps(result, indent=2) if given.json else text)
    if complaint is not None:
        sys.exit(complaint)
    if given.write:
        write_section(name, text)
        say(f"wrote the section {name} of {RESULTS.name}")


def write_section(name: str, text: str) -> None:
    """Replace this benchmark's section of RESULTS.md, and nothing else there."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = RESULTS.read_text() if RESULTS.exists() else "# Measured\n"
    section = f"{begin}\n{text}\n{end}"
    if begin in whole and end in whole:
        before, rest = whole.split(begin, 1)
        whole = before + section + rest.split(end, 1)[1]
    else:
        whole = f"{whole.rstrip()}\n\n{section}\n"
    RESULTS.write_text(whole)

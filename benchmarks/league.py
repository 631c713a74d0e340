"""Several packages at the same task: sides take turns, and every figure says where setwise stands.

A side runs in a process of its own (``side.py``). A figure is the median within a run, then the
median over the turns. Where a side can run with several numbers of threads, the best counts.
"""

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import report
from environments import python_of

Outcome = dict[str, Any]

THREADS = (1, 2)
NEARLY = 1.05  # closer than this is a tie: the machine is not that steady


class Side(NamedTuple):
    """One row: what it is called, the script that runs it, and where."""

    name: str
    script: str
    environment: str | None = None  # None: setwise's own
    arguments: tuple[object, ...] = ()
    threads: tuple[int | None, ...] = (None,)
    against: str = ""  # the name of the side of setwise's that it is compared with
    remark: str = ""


class Figure(NamedTuple):
    """Something to be first in: the less, the better."""

    key: str
    title: str
    reasons: Mapping[str, str] = {}  # why setwise is behind a side, where it is


def play(
    sides: Sequence[Side], data: Path, times: int, repeats: int, decisive: str
) -> list[Outcome]:
    """Figures of all sides, in their order; ``decisive`` says which number of threads is best."""
    pythons = {side.environment: _python(side) for side in sides}
    runs: dict[tuple[str, int | None], list[Outcome]] = {}
    errors: dict[str, str] = {}
    for turn in range(repeats):
        for side in sides:
            python = pythons[side.environment]
            if python is None:
                errors[side.name] = "does not install"
            for threads in side.threads if side.name not in errors else ():
                report.say(f"turn {turn + 1} of {repeats}: {side.name}, threads: {threads or '–'}")
                run = _run(side, python, threads, (data, "--times", times, "--seed", turn))
                if "error" in run:
                    errors[side.name] = run["error"]
                else:
                    runs.setdefault((side.name, threads), []).append(run)
    return [_outcome(side, runs, errors, decisive) for side in sides]


def _python(side: Side) -> Path | str | None:
    return sys.executable if side.environment is None else python_of(side.environment)


def _run(
    side: Side, python: Path | str | None, threads: int | None, arguments: Sequence[object]
) -> Outcome:
    """One turn of one side; setwise finds no program compiled earlier: its first fit pays."""
    threaded = () if threads is None else ("--threads", threads)
    with tempfile.TemporaryDirectory() as cache:
        env = report.with_own_cache(Path(cache)) if side.environment is None else None
        return report.attempt(
            python or "", side.script, *arguments, *side.arguments, *threaded,
            "--began", time.time(), env=env,
        )  # fmt: skip


def _outcome(
    side: Side,
    runs: Mapping[tuple[str, int | None], list[Outcome]],
    errors: Mapping[str, str],
    decisive: str,
) -> Outcome:
    about = {"name": side.name, "against": side.against, "remark": side.remark}
    if side.name in errors:
        if side.environment is None:
            sys.exit(f"setwise's own side failed: {errors[side.name]}")
        return about | {"error": errors[side.name]}
    candidates = {threads: medians(runs[side.name, threads]) for threads in side.threads}
    best = min(candidates, key=lambda threads: candidates[threads][decisive])
    turns = {str(threads): runs[side.name, threads] for threads in side.threads}
    return about | candidates[best] | {"threads": best, "turns": turns}


def medians(runs: Sequence[Outcome]) -> Outcome:
    """Medians of numbers over the turns; what is no number is the same in all of them."""
    first = runs[0]
    return {
        name: median(run[name] for run in runs) if isinstance(value, float) else value
        for name, value in first.items()
    }


def usable(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that ran."""
    return [outcome for outcome in outcomes if "error" not in outcome]


def advantage(outcome: Outcome, outcomes: Sequence[Outcome], key: str) -> str:
    """How many times better than this side setwise is, as a cell."""
    if not outcome["against"]:
        return ""
    ours = next(other for other in outcomes if other["name"] == outcome["against"])
    ratio = outcome[key] / ours[key]
    return f"{ratio:.1f}×" if ratio >= 1 else f"{ratio:.2f}×"


def standings(
    ours: str, outcomes: Sequence[Outcome], figures: Sequence[Figure], against: str | None = None
) -> str:
    """A list: for each figure, whether ``ours`` is first, and if not, how far behind and why.

    Rivals are those of the side ``against``, by default its own.
    """
    own = next(outcome for outcome in outcomes if outcome["name"] == ours)
    rivals = [outcome for outcome in usable(outcomes) if outcome["against"] == (against or ours)]
    return "\n".join(f"- {figure.title}: {_standing(own, rivals, figure)}" for figure in figures)


def _standing(own: Outcome, rivals: Sequence[Outcome], figure: Figure) -> str:
    if not rivals:
        return "no rival was measured."
    ranked = sorted(rivals, key=lambda outcome: outcome[figure.key])
    ratios = {outcome["name"]: own[figure.key] / outcome[figure.key] for outcome in ranked}
    next_best = ranked[0]["name"]
    behind = [name for name, ratio in ratios.items() if ratio >= NEARLY]
    if not behind:
        ahead = 1 / ratios[next_best]
        if ahead < NEARLY:
            return f"{own['name']} and {next_best} are level, and **first**."
        return f"{own['name']} is **first**, {ahead:.1f}× ahead of {next_best}."
    parts = [f"{name} by {ratios[name]:.1f}×" for name in behind]
    reasons = dict.fromkeys(figure.reasons.get(name, figure.reasons.get("", "")) for name in behind)
    why = " ".join(reason for reason in reasons if reason)
    return f"{own['name']} is behind {', '.join(parts)}. {why}".rstrip()


def versions(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Of all packages that ran."""
    found: dict[str, str] = {}
    for outcome in usable(outcomes):
        found |= outcome["versions"]
    return found


def thread_note(outcome: Outcome) -> str:
    """Its name, with the number of threads that was best where there was a choice."""
    if len(outcome.get("turns", ())) < 2:
        return outcome["name"]
    return f"{outcome['name']} (threads: {outcome['threads']})"

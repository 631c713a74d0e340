"""The mixed logit over a large panel: setwise on two cores of a processor, and on a GPU.

10,000 people choose 8 times each, with 500 draws per person. Both sides run the same program on the
same data and draws, each in a process of its own. Where there is no GPU, its row says so.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import data
import league
import mixed_speed
import report
from league import Outcome

CORES = 2


class Plan(NamedTuple):
    """How much to run."""

    people: int = 10_000
    times: int = 8
    draws: int = 500
    fits: int = 3
    repeats: int = 1


QUICK = Plan(people=20, times=4, draws=20, fits=1)
PROCESSOR, GPU = "processor", "GPU"
PLATFORMS = {PROCESSOR: "cpu", GPU: "cuda"}


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    with tempfile.TemporaryDirectory() as folder:
        choices = mixed_speed.panel(plan.people, plan.times)
        path = data.write(Path(folder), "panel", choices)
        outcomes = [play(name, path, plan) for name in PLATFORMS]
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    result |= {"plan": plan._asdict(), "sides": outcomes}
    result["versions"] = league.versions(outcomes)
    report.publish("mixed_gpu", result, as_text(result), given, complaint=None)


def play(name: str, path: Path, plan: Plan) -> Outcome:
    """The figures of one side, as medians over its turns; or why there are none."""
    runs = []
    for turn in range(plan.repeats):
        report.say(f"turn {turn + 1} of {plan.repeats}: {name}")
        with tempfile.TemporaryDirectory() as cache:
            env = report.with_own_cache(Path(cache)) | {"JAX_PLATFORMS": PLATFORMS[name]}
            with pinned(name == PROCESSOR):
                run = report.attempt(
                    sys.executable, "setwise_mixed.py", path, "--times", plan.fits,
                    "--model", plan.draws, "--seed", turn, env=env,
                )  # fmt: skip
        if "error" in run:
            return {"name": name, "error": run["error"]}
        runs.append(run)
    return {"name": name} | league.medians(runs)


@contextmanager
def pinned(wanted: bool) -> Iterator[None]:
    """Processes that start in here may use two cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:CORES] if wanted else before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


HEAD = ["", "warm fit, s", "first fit, s", "log-likelihood", "peak MiB of the host"]


def as_text(result: dict[str, Any]) -> str:
    plan, outcomes = result["plan"], result["sides"]
    ran = {one["name"]: one for one in league.usable(outcomes)}
    said = "There was no GPU to compare with."
    if len(ran) == len(PLATFORMS):
        ratio = ran[PROCESSOR]["fit_seconds"] / ran[GPU]["fit_seconds"]
        said = f"The GPU is {ratio:.1f} times as fast as {CORES} cores of its host."
    return "\n\n".join(
        [
            "## The mixed logit over a large panel: setwise on a processor and on a GPU",
            f"{plan['people']:,} people × {plan['times']} choices of {mixed_speed.ALTERNATIVES} "
            f"items, six independent normal coefficients, {plan['draws']} draws per person, "
            f"standard errors included. {said}",
            report.table([HEAD, *map(row, outcomes)]),
            report.provenance(result),
        ]
    )


def row(outcome: Outcome) -> list[str]:
    if "error" in outcome:
        return [outcome["name"], outcome["error"], *[""] * (len(HEAD) - 2)]
    return [
        outcome["name"],
        f"{outcome['fit_seconds']:.2f}",
        f"{outcome['first_fit_seconds']:.2f}",
        f"{outcome['log_likelihood']:.4f}",
        f"{outcome['memory']:.0f}",
    ]


if __name__ == "__main__":
    main()

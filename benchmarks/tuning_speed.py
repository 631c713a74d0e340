"""Tuning SDA: setwise's populations, and Optuna's plain loop over SDA in PyTorch.

Seconds from the start of the process to the test result of the best trial, compilation included.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import data
import report
from environments import python_of

ITEMS, FEATURES = 10, 8
THREADS = (1, 2)


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 10_000
    trials: int = 20
    epochs: int = 100
    repeats: int = 1


QUICK = Plan(sets=400, trials=2, epochs=2)


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    result |= {"plan": plan._asdict(), **measure(plan)}
    report.publish("tuning_speed", result, as_text(result), given, None)


def measure(plan: Plan) -> dict[str, Any]:
    """Both sides, in turns; the rival with each number of threads."""
    ours: list[dict[str, Any]] = []
    rival: dict[int, list[dict[str, Any]]] = {threads: [] for threads in THREADS}
    torch = python_of("torch")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = data.write(folder, "all", data.make(plan.sets, ITEMS, FEATURES, 0, context=True))
        how = (path, "--trials", plan.trials, "--epochs", plan.epochs)
        for turn in range(plan.repeats):
            report.say(f"turn {turn + 1} of {plan.repeats}: setwise")
            env = report.with_own_cache(folder / f"cache-{turn}")
            side = report.run_side(
                sys.executable, "setwise_tuning.py", *how, "--began", time.time(), env=env
            )
            ours.append(report.required(side))
            for threads in THREADS if torch is not None else ():
                report.say(f"turn {turn + 1} of {plan.repeats}: PyTorch, threads: {threads}")
                options = (*how, "--threads", threads, "--began", time.time())
                done = report.run_side(torch, "rival_torch_tuning.py", *options)
                rival[threads] += [] if done is None else [done]
    return {
        "setwise": ours,
        "torch": {threads: runs for threads, runs in rival.items() if runs},
        "versions": ours[0]["versions"] | _versions(rival),
    }


def _versions(rival: dict[int, list[dict[str, Any]]]) -> dict[str, str]:
    return next((runs[0]["versions"] for runs in rival.values() if runs), {})


def as_text(result: dict[str, Any]) -> str:
    plan, ours = result["plan"], result["setwise"]
    columns = {"setwise": ours} | {
        f"Optuna + PyTorch, threads: {threads}": runs for threads, runs in result["torch"].items()
    }
    figures = {
        "seconds, start to test result": ("seconds", "{:.1f}"),
        "epochs of all trials": ("epochs", "{:,.0f}"),
        "best validation accuracy": ("validation", "{:.4f}"),
        "test accuracy of the best": ("top1", "{:.4f}"),
    }
    rows = [
        [name, *(style.format(report.middle(runs, key)) for runs in columns.values())]
        for name, (key, style) in figures.items()
    ]
    each = [
        1e3 * report.middle(r, "seconds") / report.middle(r, "epochs") for r in columns.values()
    ]
    rows.append(["milliseconds per epoch of a trial", *(f"{one:.1f}" for one in each)])
    if len(columns) > 1:
        whole = [report.middle(runs, "seconds") for runs in columns.values()]
        rows.append(
            ["**setwise is faster by**", "", *(f"**{one / whole[0]:.1f}×**" for one in whole[1:])]
        )
        rows.append(["… an epoch of a trial", "", *(f"{one / each[0]:.1f}×" for one in each[1:])])
    return "\n\n".join(
        [
            "## Tuning SDA: setwise and Optuna's loop over PyTorch",
            f"{plan['sets']:,} sets × {ITEMS} items × {FEATURES} features, one split, "
            f"{plan['trials']} trials of the paper's space, at most {plan['epochs']} epochs each "
            f"with early stopping; medians over {plan['repeats']} turns.",
            report.table([["", *columns], *rows]),
            report.provenance(result),
        ]
    )


if __name__ == "__main__":
    main()

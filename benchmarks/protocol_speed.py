"""The paper's protocol on one accelerator: 10 splits × 100 trials, at two sizes.

Seconds from the start of the process to tuned test results on all splits, compilation included.
Without an accelerator nothing is measured.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import data
import report

SIZES = ((10, 8), (50, 17))


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 10_000
    splits: int = 10
    trials: int = 100
    epochs: int = 100


QUICK = Plan(sets=400, splits=2, trials=2, epochs=2)


def main() -> None:
    given = report.options(__doc__)
    if not given.quick and backend() == "cpu":
        report.say("protocol_speed.py needs an accelerator; there is none here: not measured")
        return
    plan = QUICK if given.quick else Plan()
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    sizes = [measure(items, features, plan) for items, features in SIZES]
    result |= {"plan": plan._asdict(), "sizes": sizes, "versions": sizes[0]["versions"]}
    report.publish("protocol_speed", result, as_text(result), given, None)


def backend() -> str:
    """What JAX computes on; asked in a process of its own, which gives the memory back."""
    command = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def measure(items: int, features: int, plan: Plan) -> dict[str, Any]:
    report.say(f"{items} items × {features} features")
    with tempfile.TemporaryDirectory() as name:
        choices = data.make(plan.sets, items, features, seed=0, context=True)
        path = data.write(Path(name), "all", choices)
        how = ("--splits", plan.splits, "--trials", plan.trials, "--epochs", plan.epochs)
        env = report.with_own_cache(Path(name) / "cache")
        done = report.run_side(
            sys.executable, "setwise_tuning.py", path, *how, "--began", time.time(), env=env
        )
    return {"items": items, "features": features, **report.required(done)}


def as_text(result: dict[str, Any]) -> str:
    plan, sizes = result["plan"], result["sizes"]
    head = ["", *(f"{one['items']} items × {one['features']} features" for one in sizes)]
    rows = [
        ["seconds, start to tuned test results", *(f"{one['seconds']:.1f}" for one in sizes)],
        ["epochs of all trials", *(f"{one['epochs']:,}" for one in sizes)],
        ["mean test accuracy", *(f"{one['top1']:.4f}" for one in sizes)],
    ]
    return "\n\n".join(
        [
            "## The paper's protocol on one accelerator",
            f"SDA (inner, l = 24, k = 16), {plan['sets']:,} sets, {plan['splits']} splits × "
            f"{plan['trials']} trials of the paper's space, at most {plan['epochs']} epochs each "
            f"with early stopping, on one {sizes[0]['device']}.",
            report.table([head, *rows]),
            report.provenance(result),
        ]
    )


if __name__ == "__main__":
    main()

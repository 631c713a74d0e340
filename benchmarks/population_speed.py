"""How many models to train at once on a CPU: milliseconds per epoch of one model, by lanes.

Trials share their batches (one stream, so many lanes); members of an ensemble do not (so many
streams of one lane). The best number is a constant of
``setwise.training.population_plan``.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import data
import report

LANES = (1, 2, 4, 8, 16)
SIZES = ((10, 8), (50, 17))


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 5_000
    epochs: int = 6
    repeats: int = 3


QUICK = Plan(sets=256, epochs=2, repeats=1)


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    sizes = [measure(items, features, plan) for items, features in SIZES]
    result |= {"plan": plan._asdict(), "sizes": sizes, "versions": sizes[0]["versions"]}
    report.publish("population_speed", result, as_text(result), given, None)


def measure(items: int, features: int, plan: Plan) -> dict[str, Any]:
    """Medians over the turns, for every number of lanes in turn."""
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        choices = data.make(plan.sets, items, features, seed=0, context=True)
        path = data.write(Path(name), "all", choices)
        for turn in range(plan.repeats):
            for kind in ("trials", "ensemble"):
                for lanes in LANES:
                    report.say(f"{items} items, turn {turn + 1}: {kind}, {lanes} at once")
                    how = ("--kind", kind, "--lanes", lanes, "--epochs", plan.epochs)
                    done = report.run_side(sys.executable, "setwise_population.py", path, *how)
                    runs.setdefault((kind, lanes), []).append(report.required(done))
    return {
        "items": items,
        "features": features,
        "milliseconds": {
            kind: {str(n): report.middle(runs[kind, n], "milliseconds") for n in LANES}
            for kind in ("trials", "ensemble")
        },
        "versions": runs["trials", 1][0]["versions"],
    }


def as_text(result: dict[str, Any]) -> str:
    plan, sizes = result["plan"], result["sizes"]
    head = ["models at once", *map(str, LANES)]
    rows = [
        [
            f"{kind}, {one['items']} items × {one['features']} features",
            *(f"{one['milliseconds'][kind][str(n)]:.1f}" for n in LANES),
        ]
        for one in sizes
        for kind in ("trials", "ensemble")
    ]
    return "\n\n".join(
        [
            "## Lanes: how many models to train at once on a CPU",
            f"SDA with dropout, {plan['sets']:,} sets, batch 128: milliseconds per epoch of one "
            f"model; medians over epochs, then over {plan['repeats']} turns.",
            report.table([head, *rows]),
            report.provenance(result),
        ]
    )


if __name__ == "__main__":
    main()

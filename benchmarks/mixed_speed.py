"""The mixed logit over panels: setwise beside xlogit, same data, same number of draws.

Six independent normal coefficients on Electricity (``shared/data`` beside the clone), or on a
generated panel of the same size where that is not there. Sides take turns, each in a process of its
own, with standard errors. Each has draws of its own, so that log-likelihoods agree up to the noise
of simulation.
"""

import csv
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import data
import league
import numpy as np
import report
from league import Outcome, Side

TABLE = Path(__file__).parents[2] / "shared" / "data" / "electricity_wide.csv"
ATTRIBUTES = ("pf", "cl", "loc", "wk", "tod", "seas")
ALTERNATIVES = 4
OURS = "setwise"
NOISE = 15.0  # of log L between sets of 600 draws: four standard deviations over ten seeds


class Plan(NamedTuple):
    """How much to run."""

    draws: int = 600
    people: int = 361
    fits: int = 3
    repeats: int = 3


QUICK = Plan(draws=20, people=20, fits=1, repeats=1)


def sides(draws: int) -> list[Side]:
    arguments = ("--model", draws)
    return [
        Side(OURS, "setwise_mixed.py", arguments=arguments),
        Side("xlogit", "rival_xlogit_mixed.py", "xlogit", arguments, against=OURS),
    ]


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    generated = given.quick or not TABLE.exists()
    choices = panel(plan.people) if generated else electricity()
    with tempfile.TemporaryDirectory() as folder:
        path = data.write(Path(folder), "panel", choices)
        outcomes = league.play(sides(plan.draws), path, plan.fits, plan.repeats, "fit_seconds")
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    result |= {"plan": plan._asdict(), "sides": outcomes, "generated": generated}
    result["versions"] = league.versions(outcomes)
    report.publish("mixed_speed", result, as_text(result), given, disagreement(outcomes))


def electricity() -> dict[str, np.ndarray]:
    """The table of one row per choice, as sets of four items."""
    with TABLE.open() as file:
        rows = list(csv.DictReader(file))
    columns = [
        [[float(row[f"{name}{one}"]) for name in ATTRIBUTES] for one in range(1, ALTERNATIVES + 1)]
        for row in rows
    ]
    who = np.unique([float(row["id"]) for row in rows], return_inverse=True)[1]
    return {
        "items": np.array(columns).reshape(-1, len(ATTRIBUTES)),
        "sizes": np.full(len(rows), ALTERNATIVES),
        "chosen": np.array([int(float(row["choice"])) - 1 for row in rows]),
        "people": who.reshape(-1),
    }


def panel(people: int, times: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    """People with normal tastes, twelve choices each."""
    rng, d = np.random.default_rng(seed), len(ATTRIBUTES)
    who = np.repeat(np.arange(people), times)
    taste = np.linspace(-1, 1, d) + 0.7 * rng.standard_normal((people, d))
    x = rng.standard_normal((len(who), ALTERNATIVES, d))
    utility = np.einsum("sjd,sd->sj", x, taste[who]) + rng.gumbel(size=x.shape[:2])
    return {
        "items": x.reshape(-1, d),
        "sizes": np.full(len(who), ALTERNATIVES),
        "chosen": utility.argmax(1),
        "people": who,
    }


def disagreement(outcomes: list[Outcome]) -> str | None:
    """setwise must be as high as the best, up to the noise of the draws."""
    ran = league.usable(outcomes)
    best = max(outcome["log_likelihood"] for outcome in ran)
    ours = next(outcome for outcome in ran if outcome["name"] == OURS)
    short = best - ours["log_likelihood"]
    return None if short < NOISE else f"setwise's log-likelihood is {short:.2g} below the best"


HEAD = ["", "warm fit, s", "×", "first fit, s", "log-likelihood", "peak MiB"]


def as_text(result: dict[str, Any]) -> str:
    plan, outcomes = result["plan"], result["sides"]
    which = "a generated panel" if result["generated"] else "Electricity"
    return "\n\n".join(
        [
            "## The mixed logit over panels: setwise and xlogit",
            f"{which}, six independent normal coefficients, {plan['draws']} draws per person, "
            "standard errors included; × says how many times faster setwise is.",
            report.table([HEAD, *(row(one, outcomes) for one in outcomes)]),
            report.provenance(result),
        ]
    )


def row(outcome: Outcome, outcomes: list[Outcome]) -> list[str]:
    if "error" in outcome:
        return [outcome["name"], outcome["error"], *[""] * (len(HEAD) - 2)]
    return [
        outcome["name"],
        f"{outcome['fit_seconds']:.2f}",
        league.advantage(outcome, outcomes, "fit_seconds"),
        f"{outcome['first_fit_seconds']:.2f}",
        f"{outcome['log_likelihood']:.2f}",
        f"{outcome['memory']:.0f}",
    ]


if __name__ == "__main__":
    main()

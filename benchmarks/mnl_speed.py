"""The multinomial logit to its optimum: setwise beside five other packages, on the same data.

Sides take turns, each in a process of its own; a figure is the median over the fits of a run (the
first left out), then the median over the turns. All must reach the same log-likelihood, which is
computed from their coefficients, in one place and in double precision.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import data
import league
import report
from league import THREADS, Figure, Outcome, Side

ITEMS, FEATURES = 10, 8
LIKELIHOODS_AGREE = 1e-4  # of the totals over all sets, absolute
OURS = "setwise"
CLUSTERED = "setwise, clustered by person"


def sides(ragged: bool = False) -> list[Side]:
    """All of them; standard errors are optional in some, and come always in others."""
    padded = "padded, with a mask" if ragged else ""
    direct = "as they are" if ragged else ""
    optional = (
        ("xlogit", "rival_xlogit_mnl.py", (None,), padded),
        ("larch", "rival_larch_mnl.py", (None,), direct and "as they are; it pads them"),
        ("choice-learn", "rival_choice_learn_mnl.py", THREADS, padded),
    )
    always = (
        ("torchdcm", "rival_torchdcm_mnl.py", THREADS, direct),
        ("torch-choice", "rival_torch_choice_mnl.py", THREADS, padded),
    )
    return [
        Side(OURS, "setwise_mnl.py", remark=direct),
        Side(CLUSTERED, "setwise_mnl.py", arguments=("--clustered",), remark=direct),
        *(
            Side(f"{name} {how}", script, name, flag, threads, OURS, remark)
            for name, script, threads, remark in optional
            for how, flag in (("with standard errors", ("--errors",)), ("without", ()))
        ),
        *(
            Side(f"{name} with standard errors", script, name, (), threads, OURS, remark)
            for name, script, threads, remark in always
        ),
    ]


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 10_000
    fits: int = 9
    repeats: int = 3


QUICK = Plan(sets=500, fits=2, repeats=1)

LOADED = "Most of it is loaded code: Polars and SciPy come with setwise."
FIGURES = (
    Figure("fit_seconds", "A warm fit"),
    Figure(
        "whole_seconds", "Data handed over and fitted, warm",
        {"": "setwise checks and copies what it is given; xlogit takes arrays as they are."},
    ),
    Figure(
        "first_seconds", "The same, the first time in a process",
        {"": "setwise once looks for the libraries of the process whose threads it will limit."},
    ),
    Figure("memory", "Peak memory", {"": LOADED}),
)  # fmt: skip


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    result |= {"plan": plan._asdict(), "sides": measure(plan, ragged=False)}
    result["versions"] = league.versions(result["sides"])
    report.publish("mnl_speed", result, as_text(result), given, disagreement(result["sides"]))


def measure(plan: Plan, ragged: bool, also: Sequence[Side] = ()) -> list[Outcome]:
    """All figures, on sets of one size or of 2 to ``ITEMS`` items."""
    with tempfile.TemporaryDirectory() as folder:
        choices = data.make(plan.sets, ITEMS, FEATURES, seed=0, ragged=ragged)
        path = data.write(Path(folder), "choices", choices)
        everyone = [*sides(ragged), *also]
        outcomes = league.play(everyone, path, plan.fits, plan.repeats, "fit_seconds")
    return with_sums(outcomes)


def with_sums(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Figures that follow from the measured ones."""
    ran = league.usable(outcomes)
    best = max(outcome["log_likelihood"] for outcome in ran)
    reference = next(o["standard_errors"] for o in ran if o["name"] == OURS)
    for outcome in ran:
        outcome["whole_seconds"] = outcome["prepare_seconds"] + outcome["fit_seconds"]
        outcome["first_seconds"] = outcome["first_prepare_seconds"] + outcome["first_fit_seconds"]
        outcome["shortfall"] = best - outcome["log_likelihood"]
        outcome["errors_apart"] = apart(outcome["standard_errors"], reference)
    return list(outcomes)


def apart(errors: list[float] | None, reference: list[float]) -> float | None:
    """The largest relative difference of standard errors from setwise's."""
    if errors is None:
        return None
    return max(abs(theirs / ours - 1) for theirs, ours in zip(errors, reference, strict=True))


def disagreement(outcomes: Sequence[Outcome]) -> str | None:
    """setwise must have reached the best of all; a rival that stops short is only noted."""
    ours = next(outcome for outcome in outcomes if outcome["name"] == OURS)
    if ours["shortfall"] <= LIKELIHOODS_AGREE:
        return None
    return f"setwise's log-likelihood is {ours['shortfall']:.2g} below the best"


def as_text(result: dict[str, Any]) -> str:
    plan, outcomes = result["plan"], result["sides"]
    return "\n\n".join(
        [
            "## The multinomial logit to its optimum: setwise and five others",
            f"{plan['sets']:,} sets × {ITEMS} items × {FEATURES} features; medians over up to "
            f"{plan['fits']} fits (the first left out), then over {plan['repeats']} alternating "
            "turns. Seconds; × says how many times faster setwise is. Standard errors come with "
            "every fit in setwise. Clustered by person, they are others; no rival has them.",
            report.table([SECONDS, *(seconds_row(o, outcomes) for o in outcomes)]),
            league.standings(OURS, outcomes, FIGURES),
            league.standings(CLUSTERED, outcomes, FIGURES[:1], against=OURS),
            f"All at the same optimum? Log-likelihood of the best: {best_of(outcomes):.4f}.",
            report.table([VALUES, *map(values_row, outcomes)]),
            report.provenance(result),
        ]
    )


SECONDS = ["", "warm fit", "×", "with data", "×", "first, with data", "×"]
VALUES = [
    "",
    "below the best",
    "standard errors apart",
    "start-up, s",
    "peak MiB",
    "of it for fits",
]


def best_of(outcomes: Sequence[Outcome]) -> float:
    return max(outcome["log_likelihood"] for outcome in league.usable(outcomes))


def seconds_row(outcome: Outcome, outcomes: Sequence[Outcome]) -> list[str]:
    if "error" in outcome:
        return [outcome["name"], outcome["error"], *[""] * (len(SECONDS) - 2)]
    cells = [league.thread_note(outcome)]
    for key in ("fit_seconds", "whole_seconds", "first_seconds"):
        cells += [f"{outcome[key]:.4f}", league.advantage(outcome, outcomes, key)]
    return cells


def values_row(outcome: Outcome) -> list[str]:
    if "error" in outcome:
        return [outcome["name"], *[""] * (len(VALUES) - 1)]
    errors, short = outcome["errors_apart"], outcome["shortfall"]
    return [
        outcome["name"],
        f"{short:.0e}" + (" (stops short)" if short > LIKELIHOODS_AGREE else ""),
        "–" if errors is None else f"{errors:.0e}",
        f"{outcome['start_seconds']:.1f}",
        f"{outcome['memory']:.0f}",
        f"{outcome['memory_growth']:.0f}",
    ]


if __name__ == "__main__":
    main()

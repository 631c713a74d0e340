"""The multinomial logit to its optimum: setwise beside xlogit, on the same data.

Sides take turns, each in a process of its own; a figure is the median over the fits of a run (the
first left out), then the median over the repeats. The log-likelihoods must agree.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import data
import report
from environments import python_of

ITEMS, FEATURES = 10, 8
LIKELIHOODS_AGREE = 1e-4  # relative


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 10_000
    fits: int = 9
    repeats: int = 3


QUICK = Plan(sets=500, fits=2, repeats=1)


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    xlogit = python_of("xlogit")
    with tempfile.TemporaryDirectory() as folder:
        result |= measure(plan, xlogit, Path(folder))
    report.publish("mnl_speed", result, as_text(result), given, disagreement(result))


def measure(plan: Plan, xlogit: Path | None, folder: Path) -> dict[str, Any]:
    """All figures."""
    equal = data.write(folder, "equal", data.make(plan.sets, ITEMS, FEATURES, seed=0))
    ragged_data = data.make(plan.sets, ITEMS, FEATURES, seed=0, ragged=True)
    ragged = data.write(folder, "ragged", ragged_data)
    ours, ours_ragged, theirs = [], [], []
    for repeat in range(plan.repeats):
        report.say(f"turn {repeat + 1} of {plan.repeats}")
        ours.append(run_setwise(equal, plan))
        if xlogit:
            run = report.run_side(xlogit, "rival_xlogit_mnl.py", equal, "--fits", plan.fits)
            theirs += [run] if run else []
        ours_ragged.append(run_setwise(ragged, plan))
    result = {
        "plan": plan._asdict(),
        "setwise": medians(ours),
        "setwise_ragged": medians(ours_ragged) | {"rows": len(ragged_data["items"])},
        "versions": ours[0]["versions"],
        "turns": {"setwise": ours, "setwise_ragged": ours_ragged, "xlogit": theirs},
    }
    if theirs:
        result["xlogit"] = medians(theirs)
        result["versions"] |= {"xlogit": theirs[0]["version"]}
        result["ratios"] = ratios(result["setwise"], result["xlogit"])
    return result


def run_setwise(path: Path, plan: Plan) -> dict[str, Any]:
    return report.required(
        report.run_side(sys.executable, "setwise_mnl.py", path, "--fits", plan.fits)
    )


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of every time over the turns; the estimates are the same in all of them."""
    times = {name: report.middle(runs, name) for name in runs[0] if name.endswith("seconds")}
    return times | {name: runs[0][name] for name in ("log_likelihood", "standard_errors")}


def ratios(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    """xlogit's time over setwise's; xlogit takes arrays, so reading into setwise may count too."""
    fit, with_reading = ours["fit_seconds"], ours["fit_seconds"] + ours["read_seconds"]
    return {
        "with_standard_errors": theirs["fit_seconds"] / fit,
        "without_standard_errors": theirs["plain_fit_seconds"] / fit,
        "with_standard_errors_and_reading": theirs["fit_seconds"] / with_reading,
        "without_standard_errors_and_reading": theirs["plain_fit_seconds"] / with_reading,
    }


def disagreement(result: dict[str, Any]) -> str | None:
    """Both must have reached the same optimum, or their times do not compare."""
    if "xlogit" not in result:
        return None
    ours, theirs = (result[side]["log_likelihood"] for side in ("setwise", "xlogit"))
    if abs(ours - theirs) <= LIKELIHOODS_AGREE * abs(theirs):
        return None
    return f"the log-likelihoods disagree: setwise {ours:.4f}, xlogit {theirs:.4f}"


def as_text(result: dict[str, Any]) -> str:
    plan = result["plan"]
    return "\n\n".join(
        [
            "## The multinomial logit to its optimum: setwise and xlogit",
            f"{plan['sets']:,} sets × {ITEMS} items × {FEATURES} features; medians over "
            f"{plan['fits']} fits (the first left out), then over {plan['repeats']} alternating "
            "turns.",
            report.table([["", "seconds"], *seconds_rows(result)]),
            report.table([["", "value"], *value_rows(result)]),
            report.provenance(result),
        ]
    )


def seconds_rows(result: dict[str, Any]) -> list[list[str]]:
    ours, ragged = result["setwise"], result["setwise_ragged"]
    rows = {
        "setwise, fit with standard errors": ours["fit_seconds"],
        "… the very first fit in a fresh process": ours["first_fit_seconds"],
        "… reading from arrays, with all checks": ours["read_seconds"],
        "… importing": ours["import_seconds"],
        "setwise, ragged sets of 2 to 10 items, fit": ragged["fit_seconds"],
        "… reading": ragged["read_seconds"],
    }
    if "xlogit" in result:
        theirs = result["xlogit"]
        rows |= {
            "xlogit, fit with standard errors": theirs["fit_seconds"],
            "xlogit, fit without standard errors": theirs["plain_fit_seconds"],
            "… the very first fit in a fresh process, without": theirs["first_fit_seconds"],
        }
    return [[name, f"{seconds:.4f}"] for name, seconds in rows.items()]


def value_rows(result: dict[str, Any]) -> list[list[str]]:
    rows = [["log-likelihood, setwise", f"{result['setwise']['log_likelihood']:.4f}"]]
    if "xlogit" not in result:
        return [*rows, ["xlogit", "not measured"]]
    ratio = result["ratios"]
    pairs = zip(
        result["setwise"]["standard_errors"], result["xlogit"]["standard_errors"], strict=True
    )
    apart = max(abs(ours / theirs - 1) for ours, theirs in pairs)
    return [
        *rows,
        ["log-likelihood, xlogit", f"{result['xlogit']['log_likelihood']:.4f}"],
        ["largest relative difference of standard errors", f"{apart:.1e}"],
        [
            "**setwise is faster by**, with standard errors",
            f"**{ratio['with_standard_errors']:.1f}×**",
        ],
        ["… than xlogit without them", f"{ratio['without_standard_errors']:.1f}×"],
        ["… reading counted, with", f"{ratio['with_standard_errors_and_reading']:.1f}×"],
        ["… reading counted, than without", f"{ratio['without_standard_errors_and_reading']:.1f}×"],
    ]


if __name__ == "__main__":
    main()

"""Sets of 2 to 10 items: which packages take them, how, and how fast.

The logit is fitted to its optimum (see mnl_speed.py), set-dependent networks are trained by
minibatches (see epoch_speed.py). A package that only takes sets of one size gets them padded; the
time to pad counts as time to hand over the data.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import epoch_speed
import league
import mnl_speed
import report
from league import Outcome, Side


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 10_000
    fits: int = 9
    epochs: int = 8
    repeats: int = 3


QUICK = Plan(sets=512, fits=2, epochs=3, repeats=1)

# What happens to sets handed over as they are, where that is refused.
UNPADDED = Side(
    "xlogit, without padding", "rival_xlogit_mnl.py", "xlogit", ("--raw",), against=mnl_speed.OURS
)


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    logits = mnl_speed.measure(
        mnl_speed.Plan(plan.sets, plan.fits, plan.repeats), ragged=True, also=(UNPADDED,)
    )
    networks = epoch_speed.measure(
        epoch_speed.networks(ragged=True),
        epoch_speed.Plan(plan.sets, plan.epochs, plan.repeats),
        ragged=True,
    )
    result |= {"plan": plan._asdict(), "logits": logits, "networks": networks}
    result["versions"] = league.versions([*logits, *networks])
    report.publish("ragged_speed", result, as_text(result), given, mnl_speed.disagreement(logits))


def as_text(result: dict[str, Any]) -> str:
    plan, logits, networks = result["plan"], result["logits"], result["networks"]
    return "\n\n".join(
        [
            "## Sets of different sizes: who takes them, and how fast",
            f"{plan['sets']:,} sets of 2 to {mnl_speed.ITEMS} items; otherwise as above. "
            "× says how many times faster setwise is.",
            report.table([LOGITS, *(logit_row(outcome, logits) for outcome in logits)]),
            league.standings(mnl_speed.OURS, logits, mnl_speed.FIGURES),
            report.table([NETWORKS, *(network_row(outcome, networks) for outcome in networks)]),
            league.standings(epoch_speed.SDA, networks, epoch_speed.FIGURES),
            report.provenance(result),
        ]
    )


LOGITS = ["", "takes them", "warm fit, s", "×", "with data, s", "×", "below the best", "peak MiB"]
NETWORKS = ["", "takes them", "an epoch, s", "×", "first epoch, s", "loss", "peak MiB"]


def logit_row(outcome: Outcome, outcomes: Sequence[Outcome]) -> list[str]:
    if "error" in outcome:
        return [*refused(outcome), *[""] * (len(LOGITS) - 2)]
    return [
        league.thread_note(outcome),
        outcome["remark"],
        f"{outcome['fit_seconds']:.4f}",
        league.advantage(outcome, outcomes, "fit_seconds"),
        f"{outcome['whole_seconds']:.4f}",
        league.advantage(outcome, outcomes, "whole_seconds"),
        f"{outcome['shortfall']:.0e}",
        f"{outcome['memory']:.0f}",
    ]


def network_row(outcome: Outcome, outcomes: Sequence[Outcome]) -> list[str]:
    if "error" in outcome:
        return [*refused(outcome), *[""] * (len(NETWORKS) - 2)]
    return [
        league.thread_note(outcome),
        outcome["remark"],
        f"{outcome['epoch_seconds']:.4f}",
        league.advantage(outcome, outcomes, "epoch_seconds"),
        f"{outcome['first_epoch_seconds']:.2f}",
        f"{outcome['loss']:.3f}",
        f"{outcome['memory']:.0f}",
    ]


def refused(outcome: Outcome) -> list[str]:
    """Name and reason: the error that the package itself gives."""
    return [outcome["name"], f"no: {outcome['error']}"]


if __name__ == "__main__":
    main()

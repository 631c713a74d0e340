"""An epoch of training by minibatches: setwise's models beside those of four other packages.

Sides take turns, each in a process of its own; a figure is the median over the epochs of a run
(the first left out), then the median over the turns. The models differ, and so do their sizes:
the number of parameters is given. The same model is in the rows of SDA, FATE and the logit.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import data
import league
import report
from league import THREADS, Figure, Outcome, Side

ITEMS, FEATURES, BATCH = 10, 8, 128
SDA, FATE, MNL = "setwise SDA", "setwise FATE", "setwise MNL"


def networks(ragged: bool = False) -> list[Side]:
    """Models in which the set matters."""
    padded = "padded, with a mask" if ragged else ""
    cannot = "not at all" if ragged else ""
    ours = ("--model", "sda_inner")
    torch_sda = ("PyTorch SDA, by hand", "rival_torch_sda.py", "torch", ())
    return [
        Side(SDA, "setwise_epoch.py", None, ours, remark=padded and "as they are"),
        Side(*torch_sda, THREADS, SDA, padded),
        choice_learn("RUMnet", SDA, padded),
        choice_learn("ResLogit", SDA, padded),
        Side(FATE, "setwise_epoch.py", None, ("--model", "fate"), remark=padded and "as they are"),
        Side("csrank FATE", "rival_csrank_epoch.py", "csrank", (), THREADS, FATE, cannot),
    ]


def logits() -> list[Side]:
    """The multinomial logit, for orientation: setwise fits it by Newton's method."""
    script = "rival_torch_choice_epoch.py"
    return [
        Side(MNL, "setwise_epoch.py", None, ("--model", "mnl")),
        choice_learn("MNL", MNL),
        Side("torch-choice MNL", script, "torch-choice", (), THREADS, MNL),
    ]


def choice_learn(model: str, against: str, remark: str = "") -> Side:
    arguments = ("--model", model.lower())
    script = "rival_choice_learn_epoch.py"
    name = f"choice-learn {model}"
    return Side(name, script, "choice-learn", arguments, THREADS, against, remark)


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 10_000
    epochs: int = 8
    repeats: int = 3


QUICK = Plan(sets=512, epochs=3, repeats=1)

FIGURES = (
    Figure(
        "epoch_seconds", "An epoch",
        {"choice-learn ResLogit": "ResLogit has a hundredth of the parameters."},
    ),
    Figure(
        "first_epoch_seconds", "The first epoch",
        {"": "setwise compiles first, once: the next process finds the program in a cache."},
    ),
    Figure(
        "memory", "Peak memory",
        {"": "XLA takes about 100 MiB to compile, which a cached program saves."},
    ),
)  # fmt: skip


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    result |= {"plan": plan._asdict(), "sides": measure([*networks(), *logits()], plan)}
    result["versions"] = league.versions(result["sides"])
    report.publish("epoch_speed", result, as_text(result), given, None)


def measure(sides: Sequence[Side], plan: Plan, ragged: bool = False) -> list[Outcome]:
    """All figures, on sets of one size or of 2 to ``ITEMS`` items."""
    with tempfile.TemporaryDirectory() as folder:
        choices = data.make(plan.sets, ITEMS, FEATURES, seed=0, context=True, ragged=ragged)
        path = data.write(Path(folder), "choices", choices)
        return league.play(sides, path, plan.epochs, plan.repeats, "epoch_seconds")


def as_text(result: dict[str, Any]) -> str:
    plan, outcomes = result["plan"], result["sides"]
    return "\n\n".join(
        [
            "## An epoch of minibatches: setwise and four others",
            f"{plan['sets']:,} sets × {ITEMS} items × {FEATURES} features, batch {BATCH}; "
            f"{plan['epochs']} epochs per run, the first left out; medians over epochs, then over "
            f"{plan['repeats']} alternating turns. × says how many times faster the model of "
            "setwise above is.",
            report.table([HEAD, *(row(outcome, outcomes) for outcome in outcomes)]),
            *(league.standings(ours, outcomes, FIGURES) for ours in (SDA, FATE, MNL)),
            report.provenance(result),
        ]
    )


HEAD = ["", "an epoch, s", "×", "first epoch, s", "parameters", "loss", "peak MiB"]


def row(outcome: Outcome, outcomes: Sequence[Outcome]) -> list[str]:
    if "error" in outcome:
        return [outcome["name"], outcome["error"], *[""] * (len(HEAD) - 2)]
    return [
        league.thread_note(outcome),
        f"{outcome['epoch_seconds']:.4f}",
        league.advantage(outcome, outcomes, "epoch_seconds"),
        f"{outcome['first_epoch_seconds']:.2f}",
        f"{outcome['parameters']:,}",
        f"{outcome['loss']:.3f}",
        f"{outcome['memory']:.0f}",
    ]


if __name__ == "__main__":
    main()

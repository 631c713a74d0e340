"""Training SDA in setwise beside the same model written in PyTorch, on the same data.

Sides take turns, each in a process of its own, because the machine may be noisy; a figure is the
median over the epochs of a run (the first left out), then the median over the repeats. PyTorch
runs with one thread and with two, and the better counts.
"""

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import data
import report
from environments import python_of
from roofline import Shape, operations

SIZES = ((10, 8), (50, 17))  # items per set, features per item
BATCH = 128
THREADS = (1, 2)
LOSSES_AGREE = 0.05  # relative; the sides start from different random weights


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 5_000
    validation_sets: int = 2_500
    epochs: int = 12
    repeats: int = 3


QUICK = Plan(sets=512, validation_sets=256, epochs=3, repeats=1)


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    torch = python_of("torch")
    with tempfile.TemporaryDirectory() as folder:
        sizes = [measure(items, d, plan, torch, Path(folder)) for items, d in SIZES]
    add_shares(sizes)
    result |= {"plan": plan._asdict(), "sizes": sizes, "versions": sizes[0]["versions"]}
    complaint = None if given.quick else disagreement(sizes)
    report.publish("training_speed", result, as_text(result), given, complaint)


def measure(
    items: int, features: int, plan: Plan, torch: Path | None, folder: Path
) -> dict[str, Any]:
    """All figures of one size."""
    train, valid = write_data(items, features, plan, folder)
    ours, rival = [], {threads: [] for threads in THREADS}
    for repeat in range(plan.repeats):
        where = f"{items} items x {features} features, turn {repeat + 1} of {plan.repeats}"
        turn = ("--epochs", plan.epochs, "--seed", repeat)
        report.say(f"{where}: setwise")
        env = report.with_own_cache(folder / f"cache-{items}")
        run = report.run_side(sys.executable, "setwise_sda.py", train, valid, *turn, env=env)
        ours.append(report.required(run))
        for threads in THREADS if torch else ():
            report.say(f"{where}: PyTorch, threads: {threads}")
            arguments = (train, "--times", plan.epochs, "--seed", repeat, "--threads", threads)
            run = report.run_side(torch, "rival_torch_sda.py", *arguments)
            rival[threads] += [run] if run else []
    report.say(f"{items} items x {features} features: roofline")
    roof = report.run_side(sys.executable, "roofline.py", BATCH, items, features)
    shape = Shape(BATCH, items, features)
    return summary(shape, plan, ours, {t: runs for t, runs in rival.items() if runs}, roof)


def write_data(items: int, features: int, plan: Plan, folder: Path) -> tuple[Path, Path]:
    """Training and validation sets from the same truth."""
    whole = plan.sets + plan.validation_sets
    choices = data.make(whole, items, features, seed=0, context=True)
    train, valid = data.part(choices, 0, plan.sets), data.part(choices, plan.sets, whole)
    return data.write(folder, f"train-{items}", train), data.write(folder, f"valid-{items}", valid)


def summary(
    shape: Shape,
    plan: Plan,
    ours: list[dict[str, Any]],
    rival: dict[int, list[dict[str, Any]]],
    roof: dict[str, Any] | None,
) -> dict[str, Any]:
    epoch = report.middle(ours, "epoch_seconds")
    result = {
        "items": shape.items,
        "features": shape.features,
        "setwise": {
            "sets_a_second": plan.sets / epoch,
            "epoch_seconds": epoch,
            "validated_epoch_seconds": report.middle(ours, "validated_epoch_seconds"),
            "first_epoch_seconds": [run["first_epoch_seconds"] for run in ours],
            "fit_seconds": report.middle(ours, "fit_seconds"),
            "loss": report.middle(ours, "loss"),
            "parameters": ours[0]["parameters"],
        },
        "versions": ours[0]["versions"],
        "turns": {"setwise": ours, "torch": rival},
    }
    if rival:
        result["torch"] = against_torch(plan, ours, rival)
        result["versions"] |= next(iter(rival.values()))[0]["versions"]
    steps = -(-plan.sets // shape.batch)
    result["roofline"] = {
        "operations_a_step": operations(shape),
        "operations_a_second": operations(shape) * steps / epoch,
        **(roof or {}),
    }
    return result


def add_shares(sizes: list[dict[str, Any]]) -> None:
    """The share of the machine's rate, which is the best of those measured after each size."""
    roofs = [size["roofline"] for size in sizes]
    peak = max(roof.get("matrix_product_rate", 0.0) for roof in roofs)
    for roof in roofs if peak else ():
        roof["matrix_product_rate"] = peak
        roof["share"] = roof["operations_a_second"] / peak


def against_torch(
    plan: Plan, ours: list[dict[str, Any]], rival: dict[int, list[dict[str, Any]]]
) -> dict[str, Any]:
    """PyTorch's figures with its better number of threads, and how much faster setwise is."""
    epochs = {threads: report.middle(runs, "epoch_seconds") for threads, runs in rival.items()}
    best = min(epochs, key=epochs.__getitem__)
    turns = [
        theirs["epoch_seconds"] / run["epoch_seconds"]
        for run, theirs in zip(ours, rival[best], strict=False)
    ]
    return {
        "sets_a_second": {threads: plan.sets / epoch for threads, epoch in epochs.items()},
        "epoch_seconds": epochs[best],
        "threads": best,
        "loss": report.middle(rival[best], "loss"),
        "parameters": rival[best][0]["parameters"],
        "ratio": epochs[best] / report.middle(ours, "epoch_seconds"),
        "ratio_of_turns": [min(turns), max(turns)],
    }


def disagreement(sizes: list[dict[str, Any]]) -> str | None:
    """Both sides must have learnt the same, or their speeds do not compare."""
    for size in sizes:
        if "torch" not in size:
            continue
        ours, theirs = size["setwise"]["loss"], size["torch"]["loss"]
        if abs(ours - theirs) > LOSSES_AGREE * theirs:
            where = f"{size['items']} items"
            return f"the losses disagree at {where}: setwise {ours:.4f}, PyTorch {theirs:.4f}"
    return None


def as_text(result: dict[str, Any]) -> str:
    plan = result["plan"]
    head = ["SDA, l = 24, k = 16"]
    columns = []
    for size in result["sizes"]:
        head.append(f"{size['items']} items × {size['features']} features")
        columns.append({**our_rows(size, plan), **rival_rows(size, plan), **roofline_rows(size)})
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = [[name, *(column.get(name, "–") for column in columns)] for name in names]
    return "\n\n".join(
        [
            "## Training SDA: setwise and PyTorch",
            f"{plan['sets']:,} sets, batch {BATCH}, AdamW; {plan['epochs']} epochs per run, the "
            f"first left out; medians over epochs, then over {plan['repeats']} alternating turns.",
            report.table([head, *rows]),
            report.provenance(result),
        ]
    )


def our_rows(size: dict[str, Any], plan: dict[str, Any]) -> dict[str, str]:
    ours = size["setwise"]
    compiling, *compiled = ours["first_epoch_seconds"]  # the turns share a cache of programs
    return {
        "setwise, sets per second": f"{ours['sets_a_second']:,.0f}",
        "setwise, an epoch of training": f"{ours['epoch_seconds']:.4f} s",
        f"… with validation on {plan['validation_sets']:,} sets": (
            f"{ours['validated_epoch_seconds']:.4f} s"
        ),
        "… the first epoch, compiling": f"{compiling:.2f} s",
        "… the first epoch, compiled in an earlier run": (
            f"{median(compiled):.2f} s" if compiled else "–"
        ),
        f"… loss after {plan['epochs']} epochs": f"{ours['loss']:.4f}",
        "… parameters": f"{ours['parameters']:,}",
    }


def rival_rows(size: dict[str, Any], plan: dict[str, Any]) -> dict[str, str]:
    if "torch" not in size:
        return {"PyTorch": "not measured"}
    theirs = size["torch"]
    rows = {
        f"PyTorch, threads: {threads}, sets per second": f"{speed:,.0f}"
        for threads, speed in theirs["sets_a_second"].items()
    }
    low, high = theirs["ratio_of_turns"]
    return rows | {
        "PyTorch, an epoch of training (the better)": f"{theirs['epoch_seconds']:.4f} s",
        f"… loss after {plan['epochs']} epochs, PyTorch": f"{theirs['loss']:.4f}",
        "… parameters, PyTorch": f"{theirs['parameters']:,}",
        "**setwise is faster by**": f"**{theirs['ratio']:.1f}×**",
        "… lowest and highest of the turns": f"{low:.1f}× – {high:.1f}×",
    }


def roofline_rows(size: dict[str, Any]) -> dict[str, str]:
    roof = size["roofline"]
    rows = {"operations per step, by hand": f"{roof['operations_a_step'] / 1e6:.1f} million"}
    if roof.get("operations_by_xla"):
        rows["… by XLA's count"] = f"{roof['operations_by_xla'] / 1e6:.1f} million"
    rows["setwise, operations per second"] = f"{roof['operations_a_second'] / 1e9:.1f} billion"
    if "share" in roof:
        peak = roof["matrix_product_rate"]
        rows["the machine's best matrix product"] = f"{peak / 1e9:.0f} billion"
        rows["… share of it that training reaches"] = f"{roof['share']:.1%}"
    return rows


if __name__ == "__main__":
    main()

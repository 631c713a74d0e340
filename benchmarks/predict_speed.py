"""How fast `setwise predict` writes the predictions of a Parquet file: whole processes, timed.

A file of sets of 10 items with 8 features is made, then read, scored and written by the command,
models in turn. Beside the wall time of the process stands its processor time, user and system,
which other work on the machine changes less: divided by the cores it bounds what an idle machine
gives. Start-up is the same command on ten sets.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import report

ITEMS, FEATURES = 10, 8

MODELS = """
import sys
import warnings
import numpy as np
import polars as pl
import setwise as sw
from setwise.estimators import auto, networks, trained

warnings.simplefilter("ignore")
table = pl.read_parquet(sys.argv[1])
choices = sw.read(table, set="trip", chosen="taken")
train, valid, _ = sw.split(choices, seed=0)
brief = sw.Training(epochs=1)  # how well networks predict is not measured here
alike = lambda models, *rest: np.full(len(models), 1 / len(models))
# All members count, or the speed would be that of those that were chosen.
trained.select = networks.select = alike
networks.beyond_chance = auto.beyond_chance = lambda log_p, weights, *rest: weights
models = {"MNL": sw.MNL(), "SDA.paper": sw.SDA.paper(training=brief), "SDA": sw.SDA(training=brief)}
for name, model in models.items():
    model.fit(train, validation=valid).save(f"{sys.argv[2]}/{name}.setwise")
assert min(models["SDA"].weights_) > 0
model = sw.Auto().fit(train, validation=valid)  # with the weights that it selects itself
model.save(f"{sys.argv[2]}/Auto.setwise")
auto.select, auto.TREES = alike, {}
sw.Auto().fit(train, validation=valid).save(f"{sys.argv[2]}/Auto.smooth.setwise")
"""
NAMES = {
    "MNL": "MNL",
    "SDA.paper": "SDA.paper(), one network",
    "SDA": "SDA(), all 6 networks",
    "Auto.smooth": "Auto(), all 4 networks and 3 logits, no trees",
    "Auto": "Auto(), as it weighs its members",
}


class Plan(NamedTuple):
    """How much to run."""

    sets: int = 1_000_000
    repeats: int = 3
    training: int = 4_000


QUICK = Plan(sets=20_000, repeats=1, training=400)


class Run(NamedTuple):
    """One process."""

    wall: float
    processor: float
    load: float


def main() -> None:
    given = report.options(__doc__)
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(repeats=given.repeats or plan.repeats)
    result: dict[str, Any] = {"machine": report.machine(), "command": report.command()}
    result |= {"versions": report.versions("setwise", "numpy", "polars"), "plan": plan._asdict()}
    with tempfile.TemporaryDirectory() as folder:
        result |= measure(plan, Path(folder))
    report.publish("predict_speed", result, as_text(result), given, None)


def measure(plan: Plan, folder: Path) -> dict[str, Any]:
    """Medians of each model's runs."""
    for name, sets in (("large", plan.sets), ("training", plan.training), ("small", 10)):
        write_table(folder / f"{name}.parquet", sets)
    words = [sys.executable, "-c", MODELS, str(folder / "training.parquet"), str(folder)]
    subprocess.run(words, check=True)
    large: dict[str, list[Run]] = {name: [] for name in NAMES}
    small: dict[str, list[Run]] = {name: [] for name in NAMES}
    for _ in range(plan.repeats):
        for name in NAMES:
            small[name].append(run(folder, name, "small"))
            large[name].append(run(folder, name, "large"))
            report.say(f"{name}: {large[name][-1].wall:.1f} s")
    sizes = [(folder / f"{name}.parquet").stat().st_size for name in ("large", "out")]
    return {
        "models": {name: figures(large[name], small[name], plan.sets) for name in NAMES},
        "bytes": sizes,
    }


def write_table(path: Path, sets: int) -> None:
    import numpy as np
    import polars as pl

    rng, rows = np.random.default_rng(0), sets * ITEMS
    columns: dict[str, np.ndarray] = {"trip": np.repeat(np.arange(sets), ITEMS)}
    x = rng.standard_normal((rows, FEATURES), np.float32)
    columns |= {f"x{feature}": x[:, feature] for feature in range(FEATURES)}
    value = x[:, 0] - x[:, 1] + 2 * (x[:, 2] > 0.5) + np.sin(2 * x[:, 3]) * x[:, 4]
    value = (value + rng.gumbel(size=rows)).reshape(sets, ITEMS)
    best = value == value.max(1, keepdims=True)
    columns["taken"] = best.reshape(-1).astype(np.int8)
    pl.DataFrame(columns).write_parquet(path)


def run(folder: Path, model: str, table: str) -> Run:
    """The command, from its start to its end."""
    words = [f"{model}.setwise", f"{table}.parquet", "--out", "out.parquet"]
    before, begin = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "setwise", "predict", *words],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    wall, after = time.perf_counter() - begin, os.times()
    spent = after.children_user + after.children_system
    return Run(wall, spent - before.children_user - before.children_system, os.getloadavg()[0])


def figures(large: list[Run], small: list[Run], sets: int) -> dict[str, float]:
    """Seconds, and sets per second: as measured, and as the processor time would allow."""

    def middle(runs: list[Run], figure: str) -> float:
        return statistics.median(getattr(run, figure) for run in runs)

    wall, start = middle(large, "wall"), middle(small, "wall")
    processor = middle(large, "processor")
    working = processor - middle(small, "processor")
    return {
        "wall": wall,
        "start": start,
        "processor": processor,
        "sets_a_second": sets / (wall - start),
        "bound": sets / (working / (os.cpu_count() or 1)),
        "load": middle(large, "load"),
    }


def as_text(result: dict[str, Any]) -> str:
    plan, (given, written) = result["plan"], result["bytes"]
    head = ["model", "wall s", "start-up s", "processor s", "sets/s", "sets/s, idle", "load"]
    rows = [
        [
            NAMES[name],
            f"{one['wall']:.1f}",
            f"{one['start']:.2f}",
            f"{one['processor']:.1f}",
            f"{one['sets_a_second']:,.0f}",
            f"{one['bound']:,.0f}",
            f"{one['load']:.1f}",
        ]
        for name, one in result["models"].items()
    ]
    return "\n\n".join(
        [
            "## `setwise predict` from Parquet to Parquet",
            f"{plan['sets']:,} sets × {ITEMS} items × {FEATURES} features (float32); medians of "
            f"{plan['repeats']} processes. Sets per second leave start-up out. *Idle* is what the "
            "processor time allows if nothing else runs and all cores are always busy: a bound, "
            "not a measurement. Load is the machine's, at the end of a run. The file grows from "
            f"{given / 1e6:.0f} to {written / 1e6:.0f} MB by the two columns.",
            report.table([head, *rows]),
            report.provenance(result),
        ]
    )


if __name__ == "__main__":
    main()

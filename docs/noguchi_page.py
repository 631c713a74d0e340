"""Three context effects in the trials of Noguchi and Stewart (2014), in people and in models.

``python docs/noguchi_page.py context_noguchi2014.parquet`` fits the models, which takes about three
minutes, and writes ``results/noguchi.json``. With or without a table it then writes the marked
parts of ``noguchi.md`` and ``images/noguchi.svg`` from that file. The trials are not part of
setwise.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from paper_page import filled, table

import setwise as sw
from setwise.reports.effects import ROLES, misses, trial_effects, trials_picture
from setwise.violations import ContextEffect, context_effects

DOCS = Path(__file__).parent
PAGE = DOCS / "noguchi.md"
RESULT = DOCS / "results" / "noguchi.json"
FIGURE = DOCS / "images" / "noguchi.svg"
FEATURES = ("x1_z", "x2_z")
FAVOURING_A = ("Da", "Ca", "Sb")
"""Third options that favour A: its decoy, the extreme that makes it the middle, a copy of B."""
TRAINING = sw.Training(epochs=75, learning_rate=3e-3)
SEEDS = (0, 1, 2)
SPLITS = 5
LEFT_OUT = 0.3


def labelled(trials: pl.DataFrame) -> pl.DataFrame:
    """The trials of the three effects, with what each option is and whom the third one favours."""
    third = pl.col("alt").filter(~pl.col("alt").is_in(ROLES)).first().over("set_id")
    to_a = third.is_in(FAVOURING_A)
    return trials.filter(pl.col("choice_type") != "screening").with_columns(
        condition=pl.col("choice_type"),
        favours=pl.when(to_a).then(pl.lit("A")).otherwise(pl.lit("B")),
        option=pl.col("alt"),
    )


def models(seed: int = 0) -> dict[str, Any]:
    """The models that the page compares."""
    common: dict[str, Any] = {"ensemble": 8, "training": TRAINING, "seed": seed}
    return {
        "SDA": sw.SDA.paper(comparison="difference", **common),
        "SDA, inner": sw.SDA.paper(**common),
        "MNL": sw.MNL(),
    }


def fitted(model: Any, trials: pl.DataFrame) -> Any:
    """The model after its epochs on these trials; none are held back to stop it early."""
    choices = sw.read(trials, set="set_id", chosen="chosen", items=list(FEATURES))
    return model.fit(choices, choices)


def described(trials: pl.DataFrame) -> dict[str, Any]:
    """What people chose, and what each model makes of it after having seen it."""
    found = {
        name: trial_effects(fitted(model, trials), trials, group="participant")
        for name, model in models().items()
    }
    return {
        "people": trials["participant"].n_unique(),
        "observed": [asdict(one) for one in found["SDA"].observed],
        "models": {name: [asdict(one) for one in of.predicted] for name, of in found.items()},
    }


def largest_misses(trials: pl.DataFrame, seeds: Sequence[int]) -> list[float]:
    """Of the SDA, with other initial weights."""
    fits = (fitted(models(seed)["SDA"], trials) for seed in seeds)
    return [trial_effects(one, trials).largest_miss for one in fits]


def left_out(trials: pl.DataFrame, seed: int) -> dict[str, list[list[float]]]:
    """Misses of P(A) on people whom the models have not seen; and of the other people's shares.

    The last shows what chance does: nobody can predict new people better than others predict them.
    """
    people = trials["participant"].unique().sort()
    drawn = np.random.default_rng(seed).permutation(len(people))[: round(LEFT_OUT * len(people))]
    new = pl.col("participant").is_in(people[np.sort(drawn).tolist()].to_list())
    seen, unseen = trials.filter(~new), trials.filter(new)
    found = {
        name: misses((effects := trial_effects(fitted(model, seen), unseen)).observed,
                     effects.predicted).tolist()
        for name, model in models(seed).items()
    }  # fmt: skip
    return found | {"other people": misses(context_effects(unseen), context_effects(seen)).tolist()}


def measure(trials: pl.DataFrame) -> dict[str, Any]:
    """All figures of the page."""
    return {
        "all": described(trials),
        "engaged": described(trials.filter(pl.col("engaged") == "yes")),
        "largest_misses": largest_misses(trials, SEEDS),
        "left_out": [left_out(trials, seed) for seed in range(SPLITS)],
    }


def effects(stored: Sequence[Mapping[str, Any]]) -> list[ContextEffect]:
    """What was measured, as it was before it was written down."""
    return [
        ContextEffect(**{
            **one,
            "trials": tuple(one["trials"]),
            "share_of_a": tuple(one["share_of_a"]),
            "share_intervals": tuple(tuple(pair) for pair in one["share_intervals"]),
            "rst_interval": tuple(one["rst_interval"]),
        })
        for one in stored
    ]  # fmt: skip


def shares(stored: Mapping[str, Any]) -> str:
    """P(A) by condition and role: people, and each model."""
    observed = effects(stored["observed"])
    said = {name: effects(one) for name, one in stored["models"].items()}
    rows = []
    for number, one in enumerate(observed):
        for role, name in enumerate(ROLES):
            low, high = one.share_intervals[role]
            of_models = [found[number].share_of_a[role] for found in said.values()]
            rows.append([
                one.condition, name, one.trials[role], f"**{one.share_of_a[role]:.3f}**",
                f"{low:.3f} to {high:.3f}", *(f"{share:.3f}" for share in of_models),
            ])  # fmt: skip
    greatest = [f"{np.abs(misses(observed, found)).max():.3f}" for found in said.values()]
    rows.append(["largest miss", "", "", "", "", *greatest])
    return table(["trials", "third favours", "number", "people", "95 %", *said], rows)


def targets(stored: Mapping[str, Any]) -> str:
    """The relative share of the target."""
    said = {name: effects(one) for name, one in stored["models"].items()}
    rows = []
    for number, one in enumerate(effects(stored["observed"])):
        low, high = one.rst_interval
        rows.append([
            one.condition, f"**{one.rst:.3f}**", f"{low:.3f} to {high:.3f}",
            *(f"{found[number].rst:.3f}" for found in said.values()),
        ])  # fmt: skip
    return table(["trials", "people", "95 %", *said], rows)


def seeds(stored: Mapping[str, Any]) -> str:
    """How much the initial weights matter."""
    found = [f"{one:.3f}" for one in stored["largest_misses"]]
    return f"From {len(found)} starts (seeds) the largest miss of the SDA is {', '.join(found)}."


def new_people(stored: Mapping[str, Any]) -> str:
    """Misses on people who were left out, over all splits, conditions and roles."""
    rows = []
    for name in stored["left_out"][0]:
        off = np.abs([split[name] for split in stored["left_out"]])
        by_condition = off.mean(axis=(0, 2))
        rows.append([
            name, f"{off.mean():.3f}", *(f"{one:.3f}" for one in by_condition),
            f"{off.max(axis=(1, 2)).min():.3f} to {off.max():.3f}",
        ])  # fmt: skip
    names = [one["condition"] for one in stored["all"]["observed"]]
    return table(["predicted by", "mean miss", *names, "largest miss of a split"], rows)


def blocks(stored: Mapping[str, Any]) -> dict[str, str]:
    """The marked parts of the page."""
    return {
        "shares": shares(stored["all"]),
        "targets": targets(stored["all"]),
        "shares of the engaged": shares(stored["engaged"]),
        "targets of the engaged": targets(stored["engaged"]),
        "seeds": seeds(stored),
        "new people": new_people(stored),
    }


def figure(stored: Mapping[str, Any]) -> str:
    """The page's picture."""
    of_all = stored["all"]
    shown = {name: effects(of_all["models"][name]) for name in ("SDA", "MNL")}
    return trials_picture(effects(of_all["observed"]), shown) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measured = measure(labelled(pl.read_parquet(sys.argv[1])))
        RESULT.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
    results = json.loads(RESULT.read_text("utf-8"))
    FIGURE.write_text(figure(results), "utf-8")
    PAGE.write_text(filled(PAGE.read_text("utf-8"), blocks(results)), "utf-8")

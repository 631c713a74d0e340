"""Write the tables of the page "Accuracy" from what benchmarks stored.

``python docs/accuracy_page.py [RESULTS.jsonl ...]`` takes over what ``benchmarks/accuracy.py`` and
``benchmarks/study.py`` wrote, into ``results/accuracy.jsonl`` and ``results/study.jsonl``, and
fills the marked parts of ``accuracy.md``. Without files it writes the page from what is stored.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from paper_page import filled, table

from setwise.comparison.statistics import holm, paired_p, standard_error

DOCS = Path(__file__).parent
PAGE = DOCS / "accuracy.md"
RESULTS, STUDY = DOCS / "results" / "accuracy.jsonl", DOCS / "results" / "study.jsonl"
OF_ONE = ("calibration_error", "calibration_by_chance")
OF_ALL = ("calibration_of_all", "calibration_of_all_by_chance")
KEPT = ("nll", "top1", *OF_ONE, *OF_ALL)
SPLITS, ALL_SPLITS = 10, "all splits"
TEST_SHARE = 0.25 / 0.5
LEVEL = 0.05
OURS, BASE = "auto", "default (one model)"
CALIBRATED = "sda"
DATA = {
    "expedia-clicks": "Expedia clicks",
    "expedia-bookings": "Expedia bookings",
    "swissmetro": "Swissmetro",
    "swissmetro-context": "Swissmetro, traveller described",
    "wikispeedia": "wikispeedia",
    "manyitem": "many-item",
    "modecanada": "ModeCanada",
    "amadeus": "Amadeus",
    "noguchi": "Noguchi",
}
Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows of a file; none where there is none yet."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def take_over(paths: Iterable[Path]) -> None:
    """Add what benchmarks wrote; what is measured again replaces what was there.

    A model that lacks splits is not taken.
    """
    found = whole([row for path in paths for row in read(path)])
    for row in found:
        if "metrics" in row:
            kept = [name for name in KEPT if name in row["metrics"]]
            row["metrics"] = {name: round(row["metrics"][name], 6) for name in kept}
    for path, kind in ((RESULTS, "metrics"), (STUDY, "single")):
        rows = {name_of(row): row for row in (*read(path), *(r for r in found if kind in r))}
        lines = [json.dumps(rows[name]) for name in sorted(rows)]
        path.write_text("".join(line + "\n" for line in lines), "utf-8")


def whole(rows: Sequence[Row]) -> list[Row]:
    """Without the models of which not every split is there, and what is pooled but not shown."""

    def of(row: Row) -> tuple[str, ...]:
        return name_of(row)[:-1]

    def pooled(row: Row) -> bool:
        return bool(row["part"].endswith(ALL_SPLITS))

    def shown(row: Row) -> bool:
        return (row["task"], row["model"]) == ("rivals", CALIBRATED)

    splits: dict[tuple[str, ...], set[int]] = {}
    for row in rows:
        splits.setdefault(of(row), set()).add(row.get("split", 0))
    return [
        row
        for row in rows
        if "change" in row or (shown(row) if pooled(row) else len(splits[of(row)]) == SPLITS)
    ]


def name_of(row: Row) -> tuple[str, ...]:
    """What a row is of."""
    keys = ("data", "task", "part", "model", "change")
    return (*(str(row.get(key, "")) for key in keys), f"{row.get('split', 0):04d}")


def by_model(rows: Sequence[Row], data: str, task: str, part: str, metric: str) -> dict[str, Any]:
    """The values of a metric on every split, by model."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if (row["data"], row["task"], row["part"]) == (data, task, part):
            found.setdefault(row["model"], {})[row["split"]] = row["metrics"].get(metric, np.nan)
    return {
        model: np.array([values[split] for split in sorted(values)])
        for model, values in found.items()
    }


def verdicts(values: dict[str, Any], sign: int) -> dict[str, str]:
    """Against ours: "−" where the model is worse, "+" where it is better, beyond chance (Holm)."""
    others = [model for model in values if model != OURS]
    differences = [sign * (values[model] - values[OURS]) for model in others]
    p_values = holm([paired_p(one, TEST_SHARE) for one in differences])
    return {
        model: ("" if p >= LEVEL else "+" if one.mean() > 0 else "−")
        for model, one, p in zip(others, differences, p_values, strict=True)
    }


def rivals(rows: Sequence[Row], metric: str, task: str = "rivals") -> str:
    """Models by data sets: the mean over splits, and how each differs from ours."""
    scale, digits, sign = {"nll": (1, 3, -1), "top1": (100, 2, 1)}[metric]
    columns = {data: by_model(rows, data, task, "test", metric) for data in DATA}
    columns = {data: values for data, values in columns.items() if OURS in values}
    models = list(dict.fromkeys(model for values in columns.values() for model in values))
    models.sort(key=lambda model: (model != OURS, model))
    judged = {data: verdicts(values, sign) for data, values in columns.items()}
    lines = []
    for model in models:
        line = [f"**{model}**" if model == OURS else model]
        for data, values in columns.items():
            if model not in values:
                line.append("")
                continue
            best = max(values, key=lambda one: sign * values[one].mean())
            text = f"{scale * values[model].mean():.{digits}f}"
            text = f"**{text}**" if model == best else text
            line.append(f"{text} {judged[data].get(model, '')}".strip())
        lines.append(line)
    errors = [f"standard error of {OURS}"] + [
        f"{scale * standard_error(values[OURS]):.{digits}f}" for values in columns.values()
    ]
    return table(["", *(DATA[data] for data in columns)], [*lines, errors])


def standing(rows: Sequence[Row]) -> str:
    """Of each data set: who is first, and whether ours is told apart from it."""
    lines = []
    for data in DATA:
        line: list[object] = [DATA[data]]
        for metric, sign in (("nll", -1), ("top1", 1)):
            values = by_model(rows, data, "rivals", "test", metric)
            if OURS not in values:
                break
            first = max(values, key=lambda one: sign * values[one].mean())
            better = [one for one, mark in verdicts(values, sign).items() if mark == "+"]
            worse = sum(mark == "−" for mark in verdicts(values, sign).values())
            place = "first" if first == OURS else "not first" if better else "tied with the first"
            line += [place, first, f"{worse} of {len(values) - 1}"]
        else:
            lines.append(line)
    head = ["", "NLL", "the first", "beaten", "top-1", "the first", "beaten"]
    return table(head, lines)


def parts(rows: Sequence[Row], task: str) -> str:
    """NLL and top-1 of every part of a task, by model."""
    lines = []
    for data, part in dict.fromkeys((r["data"], r["part"]) for r in rows if r["task"] == task):
        for model, nll in by_model(rows, data, task, part, "nll").items():
            top1 = 100 * by_model(rows, data, task, part, "top1")[model]
            lines.append((
                DATA[data], part, model, f"{nll.mean():.4f} ± {standard_error(nll):.4f}",
                f"{top1.mean():.2f} ± {standard_error(top1):.2f}",
            ))  # fmt: skip
    order: Callable[[Sequence[str]], Any] = lambda line: (  # noqa: E731
        list(DATA.values()).index(line[0]), len(line[1]), line[1],
    )  # fmt: skip
    return table(["data", "part", "model", "NLL", "top-1 %"], sorted(lines, key=order))


def calibration(rows: Sequence[Row]) -> str:
    """Expected calibration error of SDA, in points, and what chance alone would give."""
    lines = []
    for data in DATA:
        together = [
            row["metrics"]
            for row in rows
            if (row["data"], row["model"], row["part"]) == (data, CALIBRATED, f"test, {ALL_SPLITS}")
        ]
        if together:
            line = [DATA[data]]
            for error, chance in (OF_ALL, OF_ONE):
                one, expected = (
                    100 * by_model(rows, data, "rivals", "test", metric)[CALIBRATED]
                    for metric in (error, chance)
                )
                line += [f"{one.mean():.2f} ± {standard_error(one):.2f}", f"{expected.mean():.2f}"]
            lines.append([*line, *(f"{100 * together[0][metric]:.2f}" for metric in OF_ONE)])
    chance = "by chance"
    head = ["", "all items", chance, "predicted item", chance, "the same, ten parts", chance]
    return table(head, lines)


def study(rows: Sequence[Row]) -> str:
    """Changes by data sets: the difference in NLL to the default, of single models."""
    found = {(row["data"], row["change"]): np.array(row["single"])[:, 0] for row in rows}
    columns = [data for data in DATA if (data, BASE) in found]
    changes = dict.fromkeys(row["change"] for row in rows if row["change"] != BASE)
    judged = {}
    for data in columns:
        here = [change for change in changes if (data, change) in found]
        differences = [found[data, change] - found[data, BASE] for change in here]
        p_values = [paired_p(one, TEST_SHARE) for one in differences]
        for change, one, p in zip(here, differences, p_values, strict=True):
            judged[data, change] = f"{one.mean():+.4f}{'*' if p < LEVEL else ''}"
    lines = [[change, *(judged.get((data, change), "") for data in columns)] for change in changes]
    base = [BASE, *(f"{found[data, BASE].mean():.4f}" for data in columns)]
    splits = ["splits", *(len(found[data, BASE]) for data in columns)]
    return table(["", *(DATA[data] for data in columns)], [splits, base, *lines])


def tables() -> dict[str, str]:
    """Every marked part of the page."""
    rows = read(RESULTS)
    return {
        "standing": standing(rows),
        "nll": rivals(rows, "nll"),
        "top1": rivals(rows, "top1"),
        "people": rivals(rows, "nll", "people"),
        "people_top1": rivals(rows, "top1", "people"),
        "calibration": calibration(rows),
        "transfer": parts(rows, "transfer"),
        "curve": parts(rows, "curve"),
        "study": study(read(STUDY)),
    }


if __name__ == "__main__":
    take_over(map(Path, sys.argv[1:]))
    PAGE.write_text(filled(PAGE.read_text("utf-8"), tables()), "utf-8")

"""Write the reports in ``results`` again from what is stored there, and their overview.

``python docs/reproduction_page.py`` writes tables and figures beside every ``results.json`` and
fills the marked part of ``reproduce.md``. To add a run, copy its ``results.json`` into a folder of
``results`` and name the page in ``mkdocs.yml``.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from paper_page import filled, table

from setwise.paper.reproduction import Results, Setting, write_report
from setwise.paper.reproduction.tables import WORSE_THAN_CHANCE

DOCS = Path(__file__).parent
PAGE = DOCS / "reproduce.md"
HEAD = (
    "data", "sets", "methods", "SDA top-1 %", "MNL top-1 %", "best top-1 %", "minutes", "machine",
    "",
)  # fmt: skip


def stored() -> dict[str, Results]:
    """The results of every run, by the name of its folder."""
    paths = sorted((DOCS / "results").glob("*/results.json"))
    return {path.parent.name: Results.open(path) for path in paths}


def overview(runs: Mapping[str, Results]) -> str:
    """One line a setting: who is best, and what it took."""
    rows = []
    for name, results in runs.items():
        minutes, machine = f"{results.run['seconds'] / 60:.1f}", results.run["machine"]
        for number, setting in enumerate(results.settings):
            means = accuracy(results, setting)
            best = max(means, key=lambda one: means[one])
            taken = [minutes, machine, f"[report](results/{name}/report.md)"]
            rows.append([
                f"{setting.data}, up to {setting.max_items} items",
                f"{setting.sets:,} of {setting.available:,}",
                len(means),
                *(_shown(means, one) for one in ("sda", "mnl")),
                f"{best} {100 * means[best]:.2f}",
                *(taken if number == 0 else ["", "", ""]),
            ])  # fmt: skip
    drawn = table(HEAD, rows)
    if WORSE_THAN_CHANCE not in drawn:
        return drawn
    return f"{drawn}\n\n{WORSE_THAN_CHANCE} Worse than Random: see below."


def _shown(means: Mapping[str, float], method: str) -> str:
    """An accuracy in per cent, marked where guessing is better."""
    if method not in means:
        return ""
    worse = means[method] < means.get("random", 0.0)
    return f"{100 * means[method]:.2f}{WORSE_THAN_CHANCE if worse else ''}"


def accuracy(results: Results, setting: Setting) -> dict[str, float]:
    """The mean top-1 accuracy of every method in one setting."""
    found: dict[str, list[float]] = {}
    for one in results.outcomes:
        if (one.data, one.max_items) == (setting.data, setting.max_items):
            found.setdefault(str(one.method), []).append(one.metrics["top1"])
    return {name: float(np.mean(values)) for name, values in found.items()}


if __name__ == "__main__":
    runs = stored()
    for name, results in runs.items():
        folder = DOCS / "results" / name
        write_report(results, folder)
        (folder / "report.html").unlink()  # the Markdown is the site's page
    PAGE.write_text(filled(PAGE.read_text("utf-8"), {"runs": overview(runs)}), "utf-8")

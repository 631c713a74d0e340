"""Is IIA violated, by a model and in data? Measures, tests and pictures on one page."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setwise._page import write_page
from setwise.choices import Choices
from setwise.estimators import Estimator
from setwise.experiments.figures import COLOURS, new_figure, svg_text
from setwise.violations import (
    IIATest,
    SoftViolations,
    Violations,
    bootstrap_interval,
    iia_test,
    influence,
    soft_violations,
    violation_capacity,
)
from setwise.violations.bootstrap import LevelMatrix

TESTS = ("lcl", "comparisons")
HEADS = ("measure", "value", "95 % interval", "what it says")

STYLE = """th, td { padding: .35rem .6rem; text-align: left; border-bottom: 1px solid #8884; }
td:nth-child(2), td:nth-child(3) { text-align: right; white-space: nowrap; }
figure { margin: 1rem 0; background: #fff; padding: .5rem; border-radius: .4rem; }
figure svg { width: 100%; max-width: 44rem; height: auto; }
figcaption { color: #444; font-size: .9rem; }
.test { border-left: .25rem solid #8888; padding-left: .75rem; }
"""


@dataclass(frozen=True, eq=False)
class IIAReport:
    """What a fitted model does to IIA on some choices, and what tests say of the data themselves.

    ``tests`` are empty where the choices do not say what was chosen; ``between`` is None where no
    column tells alternatives apart.
    """

    model: str
    data: str
    capacity: Violations
    soft: SoftViolations
    tests: tuple[IIATest, ...]
    between: LevelMatrix | None = None

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The measures as text, under :data:`HEADS`."""
        share = "of the other items, taken away one by one, change the model's choice"
        measures = (
            ("violation capacity", self.capacity.kappa, bootstrap_interval(self.capacity), share),
            (
                "odds move by", self.soft.odds.mean, self.soft.odds.interval(),
                "on the log scale, between two items that stay when another goes; 0 is IIA",
            ),
            (
                "regularity broken", self.soft.regularity.mean, self.soft.regularity.interval(),
                "of the items become less likely when a rival goes; 0 for random utility",
            ),
        )  # fmt: skip
        return [
            (name, f"{value:.4f}", f"{low:.4f} to {high:.4f}", said)
            for name, value, (low, high), said in measures
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        measures = {
            "kappa": (self.capacity.kappa, bootstrap_interval(self.capacity)),
            "odds": (self.soft.odds.mean, self.soft.odds.interval()),
            "regularity": (self.soft.regularity.mean, self.soft.regularity.interval()),
        }
        found: dict[str, Any] = {
            "model": self.model,
            "data": self.data,
            "measures": {
                name: {"value": value, "low": low, "high": high}
                for name, (value, (low, high)) in measures.items()
            },
            "tests": [vars(one) | {"details": dict(one.details)} for one in self.tests],
        }
        if self.between is not None:
            names, values = list(self.between.names), self.between.values.tolist()
            found["influence"] = {"names": names, "values": values}
        return found


def examine_iia(
    estimator: Estimator,
    choices: Choices,
    by: str | Sequence[str] | None = None,
    table: Any = None,
) -> IIAReport:
    """Measure how a fitted model violates IIA, and test IIA on the data.

    Args:
        estimator: a fitted model.
        choices: sets to look at; tests need to know what was chosen.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.
        table: what the choices were read from, where ``by`` is no feature.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(300)
    >>> found = examine_iia(sw.MNL().fit(choices), choices)
    >>> found.capacity.kappa, found.soft.odds.mean, [one.method for one in found.tests]
    (0.0, 0.0, ['lcl', 'comparisons'])
    """
    tests = () if choices.chosen is None else tuple(iia_test(choices, one) for one in TESTS)
    seen = choices if table is None else table
    return IIAReport(
        type(estimator).__name__,
        repr(choices),
        violation_capacity(estimator, choices),
        soft_violations(estimator, choices),
        tests,
        None if by is None else influence(estimator, seen, by).between,
    )


def write_iia_report(report: IIAReport, path: str | Path) -> None:
    """Write the page, whole or not at all; it needs no network."""
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in HEADS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in report.rows()
    )
    body = f"""<p>{html.escape(report.model)} on {html.escape(report.data)}</p>
<h2>How the model breaks IIA</h2>
<p>Independence of irrelevant alternatives (IIA) says that the odds between two items are the same
whatever else is offered. Here every item of every set is taken away in turn.</p>
<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>
<figure>{capacity_picture(report.capacity)}<figcaption>How often a model's choice changes, set by
set. A set at 0 keeps its choice whichever other item goes.</figcaption></figure>
"""
    if report.between is not None:
        body += f"""<h2>Who gains when an alternative goes</h2>
<figure>{influence_picture(report.between)}<figcaption>The change of the row's probability, in
points of per cent, when one item of the column leaves the set.</figcaption></figure>
"""
    if report.tests:
        body += "<h2>Is IIA rejected in the data?</h2>\n" + "\n".join(map(_test, report.tests))
    write_page(path, f"IIA and {report.model}", body, STYLE)


def capacity_picture(capacity: Violations) -> str:
    """The share of sets by how many removals change the choice."""
    values = capacity.of_sets[~np.isnan(capacity.of_sets)]
    figure = new_figure(7.0, 3.0)
    panel = figure.subplots()
    edges = np.linspace(0, 1, 21).tolist()
    panel.hist(
        values, edges, weights=np.full(len(values), 100 / len(values)), color=COLOURS[0],
        edgecolor="white",
    )  # fmt: skip
    panel.set_xlabel("share of removals that change the choice")
    panel.set_ylabel("sets (%)")
    panel.set_xlim(0, 1)
    panel.grid(axis="y", alpha=0.3)
    return svg_text(figure)


def influence_picture(between: LevelMatrix) -> str:
    """What each alternative gains or loses when another leaves, printed in a grid."""
    names, values = between.names, 100 * between.values
    figure = new_figure(2.5 + 0.9 * len(names), 1.8 + 0.5 * len(names))
    panel = figure.subplots()
    bound = float(np.nanmax(np.abs(values), initial=1e-9))
    panel.imshow(values, cmap="PuOr", vmin=-bound, vmax=bound, aspect="auto")
    panel.set_xticks(range(len(names)), names)
    panel.set_yticks(range(len(names)), names)
    panel.set_xlabel("leaves")
    panel.set_ylabel("changes")
    for (row, column), value in np.ndenumerate(values):
        dark = abs(value) > 0.6 * bound
        if not np.isnan(value):
            panel.text(
                column, row, f"{value:+.1f}", ha="center", va="center",
                color="white" if dark else "black",
            )  # fmt: skip
    return svg_text(figure)


def _test(one: IIATest) -> str:
    lines = [html.escape(line) for line in str(one).splitlines()]
    return f'<p class="test">{"<br>".join(lines)}</p>'

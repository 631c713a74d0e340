"""Is IIA violated, by a model and in data? Measures, tests and pictures on one page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setwise._arguments import by_name, checked, columns, optional
from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._page import Block, Figure, Heading, PageTable, write_page
from setwise.choices import Choices
from setwise.estimators import Estimator
from setwise.estimators.base import fitted, is_choices
from setwise.metrics.pairs import LevelMatrix
from setwise.metrics.set_means import Group
from setwise.reports.decoy import DecoyMap, decoy_picture
from setwise.reports.effects import TRIAL_HEADS, TrialEffects, trials_picture
from setwise.reports.figures import COLOURS, grid_picture, new_figure, svg_text
from setwise.violations import (
    CapacityByRegion,
    IIATest,
    SoftViolations,
    Violations,
    bootstrap_interval,
    capacity_by_region,
    holm,
    iia_test,
    influence,
    soft_violations,
    together,
    violation_capacity,
)

TESTS = ("lcl", "comparisons")
HEADS = ("measure", "value", "95 % interval", "what it says")
MEASURES = {
    "kappa": (
        "violation capacity",
        "of the other items, taken away one by one, change the model's choice",
    ),
    "odds": (
        "odds move by",
        "on the log scale, between two items that stay when another leaves; 0 is IIA",
    ),
    "regularity": (
        "regularity broken",
        "of the items become less likely when a rival leaves; 0 for random utility",
    ),
}

ABOUT = (
    "Independence of irrelevant alternatives (IIA) says that the odds between two items are the "
    "same whatever else is offered. Here every item of every set is taken away in turn."
)
CAPACITY_CAPTION = (
    "How often the model's choice changes, set by set. A set at 0 keeps its choice whichever other "
    "item leaves."
)
INFLUENCE_CAPTION = (
    "The change of the row's probability, in percentage points, when one item of the column leaves "
    "the set."
)
REGIONS = (
    "A row holds the sets that exactly these models predict right. Beside it, how often each model "
    "changes its choice when another item leaves, with 95 % intervals. If context helps, a context "
    "model changes its choice more often where it alone is right."
)
TRIALS = (
    "People chose among A, B and a third option that favours one of the two: the target. If the "
    "third option were irrelevant, it would not move the choice between A and B."
)
DECOY_CAPTION = (
    "Each point of the map is a decoy with this {first} and {second}, in all else like A. Purple: "
    "with the decoy there, more of those who take A or B take A. Orange: more of them take B. "
    "White: the decoy moves nothing between the two. Small dots are items of the table: far from "
    "them the model guesses. Hatched: A or B is chosen more often with the decoy than without it, "
    "though there is more to choose from; no model in which every person has fixed tastes can do "
    "that."
)


@dataclass(frozen=True, eq=False)
class IIAReport:
    """How a fitted model violates IIA on some choices, and what tests say about the data.

    ``tests`` is empty if the choices do not say what was chosen. ``between`` is None if no column
    tells alternatives apart. ``trials``, ``decoy`` and ``regions`` are None unless asked for.
    """

    model: str
    data: str
    capacity: Violations
    soft: SoftViolations
    tests: tuple[IIATest, ...]
    between: LevelMatrix | None = None
    trials: TrialEffects | None = None
    decoy: DecoyMap | None = None
    regions: CapacityByRegion | None = None

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The measures as text, under :data:`HEADS`."""
        rows = []
        for key, (value, low, high) in self._measured().items():
            name, meaning = MEASURES[key]
            rows.append((name, f"{value:.4f}", f"{low:.4f} to {high:.4f}", meaning))
        return rows

    def _measured(self) -> dict[str, tuple[float, float, float]]:
        """Each measure with its interval, by its key in :data:`MEASURES`."""
        odds, regularity = self.soft.odds, self.soft.regularity
        return {
            "kappa": (self.capacity.kappa, *bootstrap_interval(self.capacity)),
            "odds": (odds.mean, *odds.interval()),
            "regularity": (regularity.mean, *regularity.interval()),
        }

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        found: dict[str, Any] = {
            "model": self.model,
            "data": self.data,
            "measures": {
                key: dict(zip(("value", "low", "high"), numbers, strict=True))
                for key, numbers in self._measured().items()
            },
            "tests": [
                vars(one) | {"details": dict(one.details), "holm_p": None if p != p else p}
                for one, p in zip(self.tests, holm(self.tests), strict=True)
            ],
        }
        if self.between is not None:
            names, values = list(self.between.names), self.between.values.tolist()
            found["influence"] = {"names": names, "values": values}
        if self.trials is not None:
            found["trials"] = self.trials.to_json()
        if self.decoy is not None:
            found["decoy"] = self.decoy.to_json()
        if self.regions is not None:
            found["regions"] = [asdict(one) for one in self.regions.regions]
        return found


@checked(
    estimator=fitted,
    choices=is_choices,
    by=optional(columns),
    others=optional(by_name(fitted, least=0)),
)
def examine_iia(
    estimator: Estimator,
    choices: Choices,
    by: str | Sequence[str] | None = None,
    table: Any = None,
    group: str | Group | None = None,
    others: Mapping[str, Estimator] | None = None,
) -> IIAReport:
    """Measure how a fitted model violates IIA, and test IIA on the data.

    Args:
        estimator: a fitted model.
        choices: the sets to examine; the tests need to know what was chosen.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.
        table: the table that the choices were read from, if ``by`` is not a feature.
        group: the column of the person who made each choice; intervals then resample people, as
            in :func:`~setwise.violations.violation_capacity`.
        others: other fitted models by name, to see where each of them is right.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(300)
    >>> found = examine_iia(sw.MNL().fit(choices), choices)
    >>> found.capacity.kappa, found.soft.odds.mean, [one.method for one in found.tests]
    (0.0, 0.0, ['lcl', 'comparisons'])
    """
    tests = () if choices.chosen is None else tuple(iia_test(choices, one) for one in TESTS)
    seen = choices if table is None else table
    name = type(estimator).__name__
    if others and name in others:
        raise InputError(f"two models are called {name}; rename the one in others=")
    return IIAReport(
        name,
        repr(choices),
        violation_capacity(estimator, choices, group),
        soft_violations(estimator, choices, group),
        tests,
        None if by is None else influence(estimator, seen, by).between,
        regions=capacity_by_region({name: estimator} | dict(others), choices, group)
        if others
        else None,
    )


@checked(path=check_path)
def write_iia_report(report: IIAReport, path: str | Path) -> None:
    """Write the report as one HTML page that needs no network, whole or not at all."""
    blocks: list[Block] = [
        f"{report.model} on {report.data}",
        Heading("How the model breaks IIA"),
        ABOUT,
        PageTable(HEADS, report.rows()),
        Figure(capacity_picture(report.capacity), CAPACITY_CAPTION),
    ]
    if report.between is not None:
        names = report.between.names
        picture = grid_picture(100 * report.between.values, names, names, ("leaves", "changes"))
        blocks.append(Heading("Who gains when an alternative leaves"))
        blocks.append(Figure(picture, INFLUENCE_CAPTION))
    if report.regions is not None:
        blocks += [Heading("Where each model is right"), REGIONS]
        blocks.append(PageTable(report.regions.heads, report.regions.rows(), "numbers"))
    if report.trials is not None:
        blocks += _trials(report.trials)
    if report.decoy is not None:
        blocks += _decoy(report.decoy)
    if report.tests:
        blocks += [Heading("Is IIA rejected in the data?"), together(report.tests)]
        blocks += [*map(str, report.tests)]
    write_page(path, f"IIA and {report.model}", blocks)


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


def _trials(found: TrialEffects) -> list[Block]:
    first = found.observed[0]
    caption = (
        "Black dots are what people did; the bar is how far chance may have moved the dot (95 % "
        f"interval). Coloured marks are what {found.model} predicts for the same trials. For "
        f"example, in trials of {first.condition} people chose A in "
        f"{100 * first.share_of_a[0]:.0f} of 100 cases where the third option favours A, and in "
        f"{100 * first.share_of_a[1]:.0f} where it favours B. The lower picture makes one number "
        "of both: of those who chose A or B, how many chose the target. Half is no effect."
    )
    return [
        Heading("Context effects: people and model"),
        f"{TRIALS} {found.sentence()}",
        Figure(trials_picture(found.observed, {found.model: found.predicted}), caption),
        PageTable(TRIAL_HEADS, found.rows()),
    ]


def _decoy(found: DecoyMap) -> list[Block]:
    a, b = found.effect.without
    first, second = found.columns
    return [
        Heading("What a decoy does"),
        f"A and B are two items of set {found.pair}. Where only they are offered, {found.model} "
        f"gives A {100 * a:.0f} % and B {100 * b:.0f} %. Then a third item joins them, the decoy. "
        f"{found.sentence()}",
        Figure(decoy_picture(found), DECOY_CAPTION.format(first=first, second=second)),
        PageTable(found.heads(), found.rows()),
    ]

"""The theory of a fitted model: separable regions and the bounds of Theorems 2 and 3, on a page."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from setwise._arguments import checked
from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._page import Block, Figure, Heading, PageTable, write_page
from setwise.choices import Choices
from setwise.estimators import Estimator
from setwise.estimators.base import fitted, is_choices
from setwise.paper.theory.regions import Regions, separable_regions
from setwise.paper.theory.risk_bounds import Bounds, bounds
from setwise.reports.figures import COLOURS, new_figure, svg_text

HEADS = ("score function", "decides alone", "agrees", "separates")
BOUND_HEADS = ("part", "value", "what it is")
REMARK = (
    "The bounds are relative measures: use them to compare models of the same data. They do not "
    "guarantee the error, even where they are below 1, since they depend on the norms of the "
    "learned model."
)
MOST_DRAWN = 40


class FunctionShare(NamedTuple):
    """How often one score function (from 0, as in the model) decides alone, agrees and separates.

    The first two are shares of the sets. The third is a share of the violating subsets; it is None
    if there are none.
    """

    function: int
    decides_alone: float
    agrees: float
    separates: float | None


@dataclass(frozen=True, eq=False)
class ModelTheory:
    """What the paper's theory says about a fitted model on some choices.

    Where the theory does not apply, ``regions`` or ``bounds`` is text that says why.
    """

    model: str
    data: str
    regions: Regions | str
    chance: float
    """The share of violating subsets that as many unrelated score functions would separate."""
    bounds: Bounds | str

    def functions(self) -> list[FunctionShare]:
        """Every score function, the one that agrees most often first; empty without regions."""
        if isinstance(self.regions, str):
            return []
        sets, count = self.regions.agrees.shape
        total = int(self.regions.violations.sum())
        decided = self.regions.decided_by
        alone = np.bincount(decided[decided >= 0], minlength=count) / sets
        agrees, separated = self.regions.agrees.mean(0), self.regions.separated.sum(0)
        return [
            FunctionShare(
                int(i), float(alone[i]), float(agrees[i]),
                float(separated[i] / total) if total else None,
            )
            for i in np.argsort(-agrees, kind="stable")
        ]  # fmt: skip

    def nothing(self) -> str | None:
        """Why the theory says nothing about this model; None if it says something."""
        if isinstance(self.regions, str) and isinstance(self.bounds, str):
            return (
                f"the theory says nothing about this {self.model}. Regions: {self.regions}. "
                f"Bounds: {self.bounds}"
            )
        return None

    def rows(self) -> list[tuple[str, ...]]:
        """The score functions as text, under :data:`HEADS`."""
        return [
            (str(one.function), f"{one.decides_alone:.1%}", f"{one.agrees:.1%}",
             "" if one.separates is None else f"{one.separates:.1%}")
            for one in self.functions()
        ]  # fmt: skip

    def bound_rows(self) -> list[tuple[str, str, str]]:
        """The parts of the bound as text, under :data:`BOUND_HEADS`; none without a bound."""
        found = self.bounds
        if isinstance(found, str):
            return []
        network = (
            f"the largest feature ({found.largest_feature:.3g}), the weights, and how fast the set "
            f"network moves (Lipschitz constant {found.lipschitz[found.norm]:.3g})"
        )
        sure = (
            f"smaller with more sets; for {found.sets:,} sets and {1 - found.delta:.0%} certainty"
        )
        vacuous = "; no error is above 1, so it is vacuous" if found.vacuous else ""
        return [
            (
                "sample error",
                f"{found.error:.4f}",
                "the share of these sets that it predicts wrong",
            ),
            ("complexity", f"{found.complexity:.4g}", f"larger with {network}"),
            ("confidence", f"{found.confidence:.4f}", sure),
            ("bound", f"{found.bound:.4g}", f"the sum{vacuous}"),
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values; what does not apply is null, with its reason."""
        reasons = {
            name: value
            for name, value in (("regions", self.regions), ("bounds", self.bounds))
            if isinstance(value, str)
        }
        return {
            "model": self.model,
            "data": self.data,
            "regions": None if isinstance(self.regions, str) else self._regions_json(self.regions),
            "bounds": None if isinstance(self.bounds, str) else _bounds_json(self.bounds),
            "reasons": reasons,
            "remark": REMARK,
        }

    def __str__(self) -> str:
        parts = [f"{self.model} on {self.data}"]
        if isinstance(self.regions, str):
            parts.append(f"No separable regions: {self.regions}")
        else:
            parts.append(f"{self.regions.describe()}\n{_chance(self)}".rstrip())
        if isinstance(self.bounds, str):
            parts.append(f"No bounds: {self.bounds}")
        else:
            parts.append(f"{self.bounds.describe()}\n{REMARK}")
        return "\n\n".join(parts)

    def _regions_json(self, regions: Regions) -> dict[str, Any]:
        total = int(regions.violations.sum())
        return {
            "sets": len(regions.agrees),
            "decided_alone": float((regions.decided_by >= 0).mean()),
            "sets_with_violations": float((regions.violations > 0).mean()),
            "violating_subsets": total,
            "separable": int(regions.separable.sum()) / total if total else None,
            "separable_by_chance": self.chance,
            "functions": [one._asdict() for one in self.functions()],
        }


@checked(estimator=fitted, choices=is_choices)
def examine_theory(estimator: Estimator, choices: Choices) -> ModelTheory:
    """Separable regions of a fitted model and its bounds, or why it has none.

    Args:
        estimator: a fitted model.
        choices: the sets that it was trained on; the bounds are about these.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(200)
    >>> found = examine_theory(sw.MNL().fit(choices), choices)
    >>> found.functions()
    [FunctionShare(function=0, decides_alone=1.0, agrees=1.0, separates=None)]
    >>> found.bounds
    'the theorems do not cover MNL: Theorem 2 is for <w(s), F(x)> with a set network w (SDW), \
Theorem 3 for <v, mu(F(x) - r(s))> with a set network r (SDE), one model each, not an ensemble; \
fit one of these'
    """
    estimator.evaluate(choices)  # wrong choices are an error, not a reason to report
    regions = _or_reason(lambda: separable_regions(estimator, choices))
    return ModelTheory(
        type(estimator).__name__,
        repr(choices),
        regions,
        float("nan") if isinstance(regions, str) else _by_chance(regions, estimator, choices),
        _or_reason(lambda: bounds(estimator, choices)),
    )


@checked(path=check_path)
def write_theory_report(found: ModelTheory, path: str | Path) -> None:
    """Write the findings as one HTML page that needs no network, whole or not at all.

    A model about which the theory says nothing is refused.
    """
    nothing = found.nothing()
    if nothing is not None:
        raise InputError(nothing)
    blocks: list[Block] = [f"{found.model} on {found.data}", Heading("Who decides")]
    if isinstance(found.regions, str):
        blocks.append(f"No separable regions: {found.regions}")
    else:
        functions = found.functions()
        blocks += [
            f"The model adds up {len(functions)} score functions. Its choice from a set is the "
            "item with the highest sum. Here is how often each function has a say of its own.",
            Figure(functions_picture(functions), _functions_caption(found)),
            PageTable(HEADS, found.rows(), "numbers"),
            f"{_separated(found.regions)} {_chance(found)}",
        ]
    blocks.append(Heading("Bounds on the error"))
    if isinstance(found.bounds, str):
        blocks.append(f"No bounds: {found.bounds}")
    else:
        blocks += [
            f"Theorem {found.bounds.theorem} bounds the share of wrong predictions on new sets.",
            PageTable(BOUND_HEADS, found.bound_rows()),
            REMARK,
        ]
    write_page(path, f"The theory of {found.model}", blocks)


def functions_picture(functions: list[FunctionShare]) -> str:
    """How often each score function decides alone, agrees and separates, one line per function."""
    shown = functions[:MOST_DRAWN]
    figure = new_figure(5.0, 1.6 + 0.27 * len(shown))
    panel = figure.subplots()
    places = np.arange(len(shown))
    for number, (name, marker) in enumerate((("decides_alone", "s"), ("agrees", "o"),
                                             ("separates", "^"))):  # fmt: skip
        values = [getattr(one, name) for one in shown]
        if None not in values:
            panel.plot(
                [100 * value for value in values], places, marker, color=COLOURS[number],
                label=name.replace("_", " "),
            )  # fmt: skip
    panel.set_yticks(places, [str(one.function) for one in shown])
    panel.set_ylim(len(shown) - 0.5, -0.5)
    panel.set_xlim(-3, 103)
    panel.set_xlabel("how often (%)")
    panel.set_ylabel("score function")
    panel.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return svg_text(figure)


def _functions_caption(found: ModelTheory) -> str:
    first = found.functions()[0]
    text = (
        f"For example: score function {first.function}, asked alone, would make the model's choice "
        f"on {first.agrees:.0%} of the sets (it agrees); on {first.decides_alone:.0%} it decides "
        "alone: all others together could not outvote it."
    )
    if first.separates is None:
        return text
    return (
        f"{text} Where taking an item away changes the model's choice, that item is the lowest "
        f"by this function in {first.separates:.0%} of the cases (it separates)."
    )


def _separated(regions: Regions) -> str:
    total = int(regions.violations.sum())
    if total == 0:
        return "There are no violating subsets: no item's leaving changes the choice."
    share = int(regions.separable.sum()) / total
    return f"Of the {total:,} violating subsets, {share:.1%} are separated by some function."


def _chance(found: ModelTheory) -> str:
    if np.isnan(found.chance):
        return ""
    return (
        f"By chance, as many score functions that know nothing would separate {found.chance:.1%} "
        "of the violating subsets."
    )


def _by_chance(regions: Regions, estimator: Estimator, choices: Choices) -> float:
    """The mean of 1 - (1 - 1/n)^l over violating subsets; NaN without any."""
    total = int(regions.violations.sum())
    if total == 0:
        return float("nan")
    items = choices.sizes + int(estimator.schema_.outside)
    each = 1 - (1 - 1 / items) ** regions.agrees.shape[1]
    return float(regions.violations @ each / total)


def _bounds_json(found: Bounds) -> dict[str, Any]:
    parts = ("complexity", "confidence", "bound", "vacuous", "norm")
    return asdict(found) | {name: getattr(found, name) for name in parts}


def _or_reason(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except InputError as error:
        return str(error)

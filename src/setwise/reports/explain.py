"""What follows from a model? Elasticities, diversion and a change of the sets, and their page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setwise._arguments import checked, columns, each, optional, text
from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._page import Block, Details, Figure, Heading, PageTable, write_page
from setwise.choices.alternatives import column_of
from setwise.choices.choices import Column
from setwise.consequences import (
    Counterfactual,
    Diversions,
    Elasticities,
    counterfactual,
    diversion_ratios,
    elasticities,
)
from setwise.consequences.counterfactual import Change, ShareChange, is_change
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.metrics.pairs import LevelMatrix
from setwise.reports.figures import COLOURS, grid_picture, new_figure, svg_text

HEADS = ("measure", "value", "95 % interval", "what it says")
SHARE_HEADS = ("alternative", "before %", "after %", "change", "± s.e.")


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a fitted model expects when a column changes, and when the sets do.

    ``diverted`` is None if no column tells alternatives apart, ``changed`` if no change is given.
    """

    model: str
    data: str
    elastic: Elasticities
    diverted: Diversions | None = None
    changed: Counterfactual | None = None

    @property
    def leaving(self) -> float:
        """Out of 100 choices, how many leave their item because of the change."""
        if self.changed is None:
            return 0.0
        lost = np.maximum(self.changed.before - self.changed.after, 0).sum()
        return float(100 * lost / self.changed.sets)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The mean elasticities as text, under :data:`HEADS`."""
        when = f"when an item's {self.elastic.column} rises by 1 %,"
        measures = (
            ("own elasticity", self.elastic.own, True, f"{when} its own probability"),
            ("cross elasticity", self.elastic.cross, False, f"{when} that of another item"),
        )
        return [
            (name, f"{value:.4f}", "{:.4f} to {:.4f}".format(*self.elastic.interval(own)),
             f"{said} {moves(value)}")
            for name, value, own, said in measures
        ]  # fmt: skip

    def share_rows(self) -> list[tuple[str, ...]]:
        """The shares before and after the change as text, under :data:`SHARE_HEADS`."""
        shares = None if self.changed is None else self.changed.shares
        if shares is None:
            return []
        columns = (shares.before, shares.after, shares.standard_errors)
        return [
            (name, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}", f"{error:.2f}")
            for name, before, after, error in zip(
                shares.names, *(100 * each for each in columns), strict=True
            )
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        elastic = self.elastic
        found: dict[str, Any] = {"model": self.model, "data": self.data, "column": elastic.column}
        for name, value, own in (("own", elastic.own, True), ("cross", elastic.cross, False)):
            low, high = elastic.interval(own)
            found[f"{name}_elasticity"] = {"value": value, "low": low, "high": high}
        if elastic.between is not None:
            found["elasticities"] = _matrix_json(elastic.between)
        if self.diverted is not None and self.diverted.between is not None:
            found["diversion"] = _matrix_json(self.diverted.between)
        if self.changed is not None:
            found["changes"] = [str(one) for one in self.changed.changes]
            found["leaving_of_100"] = self.leaving
            if self.changed.shares is not None:
                found["shares"] = _shares_json(self.changed.shares)
        return found

    def __str__(self) -> str:
        parts = (self.elastic, self.diverted, self.changed)
        return "\n\n".join(str(part) for part in parts if part is not None)


@checked(estimator=fitted, column=text, by=optional(columns), changes=each(is_change, least=0))
def explain_model(
    estimator: Estimator,
    data: Any,
    column: str,
    by: str | Sequence[str] | None = None,
    changes: Sequence[Change] = (),
) -> Explanation:
    """Elasticities, diversion ratios and what changes of the sets would do.

    Args:
        estimator: a fitted model.
        data: a :class:`~setwise.Choices` or any table with the columns of the training table.
        column: a number among the item features, such as the price.
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart.
        changes: changes of the sets, applied one after the other.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("swissmetro").sample(200)
    >>> found = explain_model(sw.MNL().fit(choices), choices, "cost")
    >>> [row[0] for row in found.rows()], found.diverted
    (['own elasticity', 'cross elasticity'], None)
    """
    return Explanation(
        type(estimator).__name__,
        repr(estimator.as_choices(data)),
        elasticities(estimator, data, column, by),
        None if by is None else diversion_ratios(estimator, data, column, by),
        counterfactual(estimator, data, list(changes), by=by) if changes else None,
    )


def typed_values(estimator: Estimator, data: Any, texts: Mapping[str, str]) -> dict[str, Any]:
    """Values written as text, each converted to the kind of its column in the table.

    In a category whose names are numbers, '1' stays '1' and does not become 1.0.

    >>> import setwise as sw
    >>> choices = sw.read({"set": [1, 1], "zone": [1, 2], "cost": [3.0, 4.0], "chosen": [0, 1]},
    ...                   set="set", chosen="chosen", items=["category(zone)", "cost"])
    >>> typed_values(sw.RandomChoice().fit(choices), choices, {"zone": "1", "cost": "3"})
    {'zone': '1', 'cost': 3.0}
    """
    choices = estimator.as_choices(data)
    return {
        name: _typed(name, column_of(data, choices, name), text) for name, text in texts.items()
    }


def moves(value: float) -> str:
    """An elasticity in words.

    >>> moves(-0.634), moves(0.001)
    ('falls by 0.63 %', 'hardly moves')
    """
    if np.isnan(value):
        return "is not known"
    if abs(value) < 0.005:
        return "hardly moves"
    return f"{'rises' if value > 0 else 'falls'} by {abs(value):.2f} %"


def _matrix_json(matrix: LevelMatrix) -> dict[str, Any]:
    numbers = {name: getattr(matrix, name).tolist() for name in ("values", "low", "high")}
    return {"names": list(matrix.names), **numbers}


def _shares_json(shares: ShareChange) -> dict[str, dict[str, float]]:
    rows = zip(shares.names, shares.before, shares.after, shares.standard_errors, strict=True)
    return {
        name: {"before": float(before), "after": float(after), "standard_error": float(error)}
        for name, before, after, error in rows
    }


def _typed(name: str, column: Column, text: str) -> Any:
    try:
        if column.kind == "number":
            value, dtype = float(text), column.values.dtype
            # A float32 column holds 0.1 as the nearest float32.
            return float(dtype.type(value)) if dtype.kind == "f" else value
        return text if column.kind == "category" else np.datetime64(text)
    except ValueError:
        known = column.values[~column.missing][:1]
        example = f"; write for example {name}={known[0]}" if len(known) else ""
        raise InputError(
            f"column '{name}' holds {column.kind}s, but '{text}' is not a {column.kind}{example}"
        ) from None


MOST_DRAWN = 12
"""Above this number of alternatives a picture is too fine for a phone: a table replaces it."""


@checked(path=check_path)
def write_explanation(found: Explanation, path: str | Path) -> None:
    """Write the explanation as one HTML page that needs no network, whole or not at all."""
    elastic, column = found.elastic, found.elastic.column
    blocks: list[Block] = [
        f"{found.model} on {found.data}",
        "These are the model's expectations: as good as the model, and not an experiment.",
        Heading(f"If {column} rises by 1 %"),
        PageTable(HEADS, found.rows()),
        Figure(elasticity_picture(elastic), _elasticity_caption(elastic)),
    ]
    if elastic.between is not None:
        axes = (f"its {column} rises by 1 %", "share changes (%)")
        caption = _between_caption(column, elastic.between)
        blocks += _grid(elastic.between, 1, axes, "+z.2f", caption)
    if found.diverted is not None and found.diverted.between is not None:
        blocks.append(Heading("Where people go"))
        caption = _diversion_caption(column, found.diverted.between)
        blocks += _grid(
            found.diverted.between, 100, ("of 100 who leave", "so many go to"), "z.0f", caption
        )
    if found.changed is not None:
        changes = "; then ".join(str(one) for one in found.changed.changes)
        blocks.append(Heading(f"What if: {changes}"))
        blocks.append(f"Of 100 choices, {found.leaving:.1f} leave their item.")
        shares = found.changed.shares
        if shares is not None:
            blocks.append(Figure(shares_picture(shares), _shares_caption(shares)))
            blocks.append(PageTable(SHARE_HEADS, found.share_rows(), "numbers"))
    write_page(path, f"What follows from {found.model}: {column}", blocks)


def elasticity_picture(elastic: Elasticities) -> str:
    """The mean own and cross elasticities, with their intervals."""
    figure = new_figure(5.0, 1.8)
    panel = figure.subplots()
    panel.axvline(0, color="grey", linewidth=1)
    for place, (value, own) in enumerate(((elastic.cross, False), (elastic.own, True))):
        low, high = elastic.interval(own)
        panel.plot((low, high), (place, place), color=COLOURS[place], linewidth=3, alpha=0.5)
        panel.plot(value, place, "o", color=COLOURS[place])
    panel.set_yticks((0, 1), ("another item", "the item itself"))
    panel.set_ylim(-0.6, 1.6)
    panel.set_xlabel("change of the probability (%)")
    panel.grid(axis="x", alpha=0.3)
    return svg_text(figure)


def shares_picture(shares: ShareChange) -> str:
    """The share of each alternative before and after, as bars in pairs."""
    figure = new_figure(5.0, 1.3 + 0.5 * len(shares.names))
    panel = figure.subplots()
    places = np.arange(len(shares.names))
    panel.barh(places - 0.2, 100 * shares.before, 0.38, color="#999999", label="before")
    panel.barh(places + 0.2, 100 * shares.after, 0.38, color=COLOURS[0], label="after")
    panel.set_yticks(places, shares.names, parse_math=False)
    panel.invert_yaxis()
    panel.set_xlabel("expected share (%)")
    panel.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return svg_text(figure)


def _grid(
    matrix: LevelMatrix, unit: int, axes: tuple[str, str], form: str, caption: str
) -> list[Block]:
    """The matrix as a picture, or as a table where it is large; then its intervals."""
    names, values = matrix.names, unit * matrix.values
    shown: list[Block]
    if len(names) <= MOST_DRAWN:
        shown = [Figure(grid_picture(values, names, names, axes, form), caption)]
    else:
        cells = [(k, *(f"{v:{form}}" for v in row)) for k, row in zip(names, values, strict=True)]
        shown = [caption, PageTable(("", *names), cells, "numbers")]
    rows = [
        (names[k], names[j], f"{value:{form}}",
         f"{unit * matrix.low[k, j]:{form}} to {unit * matrix.high[k, j]:{form}}")
        for (k, j), value in np.ndenumerate(values) if not np.isnan(value)
    ]  # fmt: skip
    heads = (axes[1], axes[0], "value", "95 % interval")
    return [*shown, Details("With intervals", [PageTable(heads, rows)])]


def _elasticity_caption(elastic: Elasticities) -> str:
    text = (
        "Dots are means over all items, bars 95 % intervals. "
        f"When the {elastic.column} of one item rises by 1 %, its own probability "
        f"{moves(elastic.own)} and that of each other item of its set {moves(elastic.cross)}, on "
        "average."
    )
    if np.isnan(elastic.own):
        return text
    after = 20 * (1 + elastic.own / 100)
    return (
        f"{text} These are per cent of a probability, not points: if the item's {elastic.column} "
        f"rises by 1 %, a probability of 20 % becomes {after:.2f} %."
    )


def _between_caption(column: str, matrix: LevelMatrix) -> str:
    text = f"By how many per cent the row's share changes when the {column} of every item of the "
    text += "column rises by 1 %."
    found = _largest(np.abs(matrix.values))
    if found is None:
        return text
    k, j = found
    return (
        f"{text} For example: when every {matrix.names[j]} has 1 % more {column}, the share of "
        f"{matrix.names[k]} {moves(matrix.values[k, j])}, and that of {matrix.names[j]} itself "
        f"{moves(matrix.values[j, j])}."
    )


def _diversion_caption(column: str, matrix: LevelMatrix) -> str:
    text = f"Of 100 people who leave the column's alternative when its {column} gets a little "
    text += "worse, how many go to the row's. Below 0: the row loses people too. The diagonal is "
    text += "what goes to other items of the same alternative."
    found = _largest(matrix.values)
    if found is None:
        return text
    k, j = found
    return (
        f"{text} For example: of 100 who leave {matrix.names[j]}, {100 * matrix.values[k, j]:.0f} "
        f"go to {matrix.names[k]}. It is the strongest rival of {matrix.names[j]} here."
    )


def _shares_caption(shares: ShareChange) -> str:
    most = int(np.argmax(np.abs(shares.after - shares.before)))
    before, after = 100 * shares.before[most], 100 * shares.after[most]
    more = "more" if after > before else "fewer"
    return (
        "How often each alternative is chosen, as the model expects. For example: the share of "
        f"{shares.names[most]} goes from {before:.1f} % to {after:.1f} %. Of 1,000 choices, these "
        f"are {10 * abs(after - before):.0f} {more}."
    )


def _largest(values: Any) -> tuple[int, int] | None:
    """The place of the largest positive number off the diagonal; None if there is none."""
    off = np.where(np.eye(len(values), dtype=bool) | np.isnan(values), -np.inf, values)
    k, j = np.unravel_index(int(np.argmax(off)), off.shape)
    return (int(k), int(j)) if off[k, j] > 0 else None

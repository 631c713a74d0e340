"""The page of what follows from a model: elasticities, diversion and a change, for a phone too."""

import html
from pathlib import Path
from typing import Any

import numpy as np

from setwise._arguments import checked
from setwise._arguments import path as check_path
from setwise._page import REPORT_STYLE, figure_html, table_html, write_page
from setwise.consequences import Counterfactual, Elasticities
from setwise.consequences.counterfactual import ShareChange
from setwise.experiments.explain_report import HEADS, SHARE_HEADS, Explanation, moves
from setwise.experiments.figures import COLOURS, grid_picture, new_figure, svg_text
from setwise.violations.bootstrap import LevelMatrix

MOST_DRAWN = 12
"""A grid of more alternatives is too fine for a phone: it becomes a table that scrolls."""


@checked(path=check_path)
def write_explanation(found: Explanation, path: str | Path) -> None:
    """Write the page, whole or not at all; it needs no network."""
    column = found.elastic.column
    body = f"""<p>{html.escape(f"{found.model} on {found.data}")}</p>
<p>These are the model's expectations. They are as good as the model is, and no experiment.</p>
<h2>{html.escape(f"If {column} rises by 1 %")}</h2>
{table_html(HEADS, found.rows())}
{figure_html(elasticity_picture(found.elastic), _elasticity_caption(found.elastic))}
"""
    if found.elastic.between is not None:
        body += _grid(found.elastic.between, 1, (f"its {column} rises by 1 %", "share changes (%)"),
                      "+z.2f", _between_caption(column, found.elastic.between))  # fmt: skip
    if found.diverted is not None and found.diverted.between is not None:
        body += "<h2>Where people go</h2>\n"
        body += _grid(found.diverted.between, 100, ("of 100 who leave", "so many go to"),
                      "z.0f", _diversion_caption(column, found.diverted.between))  # fmt: skip
    if found.changed is not None:
        body += _change(found, found.changed)
    write_page(path, f"What follows from {found.model}: {column}", body, REPORT_STYLE)


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


def _grid(matrix: LevelMatrix, unit: int, axes: tuple[str, str], form: str, caption: str) -> str:
    """The matrix as a picture, or as a table where it is large; then its intervals."""
    names, values = matrix.names, unit * matrix.values
    if len(names) <= MOST_DRAWN:
        shown = figure_html(grid_picture(values, names, names, axes, form), caption)
    else:
        cells = [(k, *(f"{v:{form}}" for v in row)) for k, row in zip(names, values, strict=True)]
        shown = f"<p>{html.escape(caption)}</p>" + table_html(("", *names), cells, "numbers")
    rows = [
        (names[k], names[j], f"{value:{form}}",
         f"{unit * matrix.low[k, j]:{form}} to {unit * matrix.high[k, j]:{form}}")
        for (k, j), value in np.ndenumerate(values) if not np.isnan(value)
    ]  # fmt: skip
    heads = (axes[1], axes[0], "value", "95 % interval")
    return (
        f"{shown}\n<details><summary>With intervals</summary>{table_html(heads, rows)}</details>\n"
    )


def _change(found: Explanation, changed: Counterfactual) -> str:
    said = "; then ".join(str(one) for one in changed.changes)
    body = f"""<h2>{html.escape(f"What if: {said}")}</h2>
<p>Of 100 choices, {found.leaving:.1f} leave their item.</p>
"""
    if changed.shares is not None:
        body += figure_html(shares_picture(changed.shares), _shares_caption(changed.shares))
        body += table_html(SHARE_HEADS, found.share_rows(), "numbers")
    return body


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
    """Where the largest number off the diagonal is; None where all are NaN or not above 0."""
    off = np.where(np.eye(len(values), dtype=bool) | np.isnan(values), -np.inf, values)
    k, j = np.unravel_index(int(np.argmax(off)), off.shape)
    return (int(k), int(j)) if off[k, j] > 0 else None

"""The three panels of the paper's figure, each drawn from a table of its values."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from setwise._page import Figure
from setwise.paper.reproduction.protocol import (
    CLASSICAL,
    MAIN_DIMENSION,
    REGIONS,
    Region,
    Results,
    Setting,
)
from setwise.paper.reproduction.tables import (
    KAPPA,
    TOP1,
    Measured,
    ResultRow,
    ResultTable,
    Value,
    display_name,
    grid,
    setting_name,
    spread_note,
)
from setwise.reports.figures import COLOURS, new_figure, settle, svg_text
from setwise.violations.capacity import region_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BLUE, VERMILLION = COLOURS[:2]
GREY = "#5A5A5A"
WIDTH, HEIGHT = 7.4, 2.7  # inches: two columns of a journal
DOTS_PER_INCH = 200
APART = 1.05  # factor that moves the two values at the same l apart, so that both bars are seen
BARS = "; bars are one standard error over the splits"
FONTS: dict[Any, float] = {
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


@dataclass(frozen=True)
class Picture:
    """A drawn figure, and the same as a PNG image."""

    figure: Figure
    png: bytes


@dataclass(frozen=True)
class Panel:
    """One part of the figure: its name, its values, how to draw it, and its caption."""

    name: str
    table: ResultTable
    draw: Callable[["Axes", ResultTable], None]
    share: float  # of the figure's width, if it has other panels
    caption: str


def panels(results: Results, measured: Measured, setting: Setting) -> list[Panel]:
    """The panels for which a setting has outcomes."""
    dimensions = dimension_table(results, measured, setting)
    classical = classical_table(measured, setting)
    regions = region_table(results, setting)
    sda = display_name(REGIONS[0])
    found = []
    if dimensions is not None:
        caption = (
            f"top-1 accuracy of {sda} (blue circles, left axis) and its violation capacity κ "
            f"(vermillion squares, right axis) against the number of score functions ℓ{BARS}"
        )
        found.append(Panel("dimensions", dimensions, draw_dimensions, 1.3, caption))
    if classical is not None:
        caption = f"top-1 accuracy of {sda} and of the models that it generalises (Claim 1){BARS}"
        found.append(Panel("classical", classical, draw_classical, 1.0, caption))
    if regions is not None:
        caption = (
            "violation capacity κ of each model (columns) on the test sets that only the models of "
            "the row predict right, with the share of these sets"
        )
        found.append(Panel("regions", regions, draw_regions, 1.0, caption))
    return found


def pictures(stem: str, place: str, found: Sequence[Panel]) -> list[Picture]:
    """All panels side by side, then each on its own."""
    places = {1: ("",), 2: ("Left: ", "Right: "), 3: ("Left: ", "Centre: ", "Right: ")}
    captions = [
        f"{where}{panel.caption}."
        for where, panel in zip(places.get(len(found), ()), found, strict=True)
    ]
    together = [_picture(stem, f"{place}. {' '.join(captions)}", found)] if found else []
    alone = [
        _picture(f"{stem}-{panel.name}", f"{place}: {panel.caption}.", [panel]) for panel in found
    ]
    return together + alone


def dimension_table(results: Results, measured: Measured, setting: Setting) -> ResultTable | None:
    """Accuracy and violation capacity of SDA for each l; None with fewer than two values of l."""
    methods = {
        one.method.dimension or MAIN_DIMENSION: one.method
        for one in results.outcomes
        if one.method.model == REGIONS[0]
        and (one.data, one.max_items) == (setting.data, setting.max_items)
    }
    rows = [
        ResultRow("", str(length), tuple(measured.value(setting, method, m) for m in (TOP1, KAPPA)))
        for length, method in sorted(methods.items())
    ]
    if len(rows) < 2:
        return None
    title = f"{display_name(REGIONS[0])} with ℓ score functions: {setting_name(setting)}"
    columns = (("", TOP1.heading), ("", KAPPA.heading))
    splits = [len(measured.splits(setting, method, TOP1.name)) for method in methods.values()]
    return ResultTable(
        "figure_dimensions", title, "ℓ", columns, tuple(rows), (spread_note(splits),)
    )


def classical_table(measured: Measured, setting: Setting) -> ResultTable | None:
    """SDA and the models of Claim 1, the best first; None with fewer than three models."""
    title = f"{display_name(REGIONS[0])} and the models of Claim 1: {setting_name(setting)}"
    table = grid(
        measured, "figure_classical", title, [setting], {"": (REGIONS[0], *CLASSICAL)}, [TOP1]
    )
    if table is None or len(table.rows) < 3:
        return None
    rows = sorted(table.rows, key=lambda row: -_value(row, 0).mean)
    return ResultTable(table.key, title, "model", table.columns, tuple(rows), table.notes)


def region_table(results: Results, setting: Setting) -> ResultTable | None:
    """Violation capacity by which models are right, over the sets of all splits together."""
    here = [
        one
        for one in results.regions
        if (one.data, one.max_items) == (setting.data, setting.max_items)
    ]
    total = sum(one.sets for one in here)
    if not total:
        return None
    subsets = [right for size in (1, 2, 3, 0) for right in combinations(REGIONS, size)]
    rows = []
    for right in subsets:
        found = [one for one in here if set(one.right) == set(right)]
        share = Value(100 * sum(one.sets for one in found) / total, form=".1f")
        rows.append(
            ResultRow(
                "",
                region_name([display_name(one) for one in right], len(REGIONS)),
                (share, *(_pooled(found, m) for m in REGIONS)),
            )
        )
    return ResultTable(
        "figure_regions",
        f"Violation capacity by correctness region: {setting_name(setting)}",
        "right",
        (("", "sets %"), *(("κ", display_name(model)) for model in REGIONS)),
        tuple(rows),
        (f"Over {total:,} test sets of all splits together.",),
    )


def _pooled(found: Sequence[Region], model: str) -> Value | None:
    """The mean of kappa over the sets of all splits."""
    counted = [
        (one.sets, kappa) for one in found if one.sets and (kappa := one.kappa[model]) is not None
    ]
    sets = sum(count for count, _ in counted)
    if not sets:
        return None
    return Value(sum(count * kappa for count, kappa in counted) / sets, form=".3f")


def draw_dimensions(axes: "Axes", table: ResultTable) -> None:
    """Accuracy on the left axis and violation capacity on the right axis, against l."""
    sides = [(axes, 0, BLUE, "o", "top-1 accuracy (%)")]
    if any(row.cells[1] for row in table.rows):
        sides.append((axes.twinx(), 1, VERMILLION, "s", "violation capacity κ"))
    for side, column, colour, marker, label in sides:
        rows = [row for row in table.rows if row.cells[column] is not None]
        values = [_value(row, column) for row in rows]
        side.errorbar(
            [int(row.name) * APART ** (2 * column - 1) for row in rows],
            [one.mean for one in values],
            yerr=[one.error or 0 for one in values],
            color=colour, marker=marker, markersize=3.5, linewidth=1.2, capsize=2,
            linestyle="-" if column == 0 else "--",
        )  # fmt: skip
        side.set_ylabel(label, color=colour)
        side.tick_params(axis="y", colors=colour)
        side.margins(y=0.12)
        side.locator_params(axis="y", nbins=5)
        side.spines["top"].set_visible(False)
    lengths = [int(row.name) for row in table.rows]
    axes.set_xscale("log", base=2)
    # A label too near to the next one, such as 24 to 32, goes a line down.
    following = [*lengths[1:], 2 * lengths[-1]]
    labels = [
        f"\n{one}" if then < 1.4 * one else str(one)
        for one, then in zip(lengths, following, strict=True)
    ]
    axes.set_xticks(lengths, labels)
    axes.minorticks_off()
    axes.set_xlabel("score functions ℓ")
    axes.grid(axis="y", alpha=0.25, linewidth=0.5)


def draw_classical(axes: "Axes", table: ResultTable) -> None:
    """Means and standard errors, the best model on top; SDA has its own colour and shape."""
    rows = table.rows[::-1]
    for place, row in enumerate(rows):
        value, ours = _value(row, 0), row.name == display_name(REGIONS[0])
        axes.errorbar(
            value.mean, place, xerr=value.error or 0, markersize=3.2, linewidth=1.2,
            fmt="D" if ours else "o", color=BLUE if ours else GREY,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("top-1 accuracy (%)")
    axes.grid(alpha=0.25, linewidth=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_regions(axes: "Axes", table: ResultTable) -> None:
    """A heat map with its values printed; a cell without sets is empty."""
    import numpy as np

    cells = [[np.nan if cell is None else cell.mean for cell in row.cells[1:]]
             for row in table.rows]  # fmt: skip
    values = np.array(cells, float)
    # If no model ever changes its choice, all values are 0 and the scale still needs a width.
    highest = max([0.01, *values[~np.isnan(values)].tolist()])
    axes.imshow(values, cmap="cividis", vmin=0, vmax=highest, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else f"{value:.2f}"
        light = not np.isnan(value) and value < 0.55 * highest
        axes.text(j, i, text, ha="center", va="center", color="white" if light else "black")
    labels = [f"{row.name} ({_value(row, 0)} %)" for row in table.rows]
    axes.set_yticks(range(len(labels)), labels)
    names = [name.replace(" ", "\n") for _, name in table.columns[1:]]
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(length=0)
    axes.set_ylabel("predicted right by (share of sets)")
    axes.set_xlabel("violation capacity κ")
    for side in axes.spines.values():
        side.set_linewidth(0.4)


def _picture(name: str, caption: str, found: Sequence[Panel]) -> Picture:
    from matplotlib import rc_context

    with rc_context(FONTS):
        shares = [panel.share for panel in found]
        width = WIDTH if len(found) > 1 else WIDTH / 2
        figure = new_figure(width, HEIGHT)
        for axes, panel, letter in zip(
            figure.subplots(1, len(found), squeeze=False, width_ratios=shares)[0], found, "abc",
            strict=False,
        ):  # fmt: skip
            panel.draw(axes, panel.table)
            if len(found) > 1:
                axes.set_title(letter, loc="left", fontweight="bold")
        settle(figure)
        image = io.BytesIO()
        # Without the version of matplotlib, the same picture has the same bytes.
        figure.savefig(image, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        return Picture(Figure(svg_text(figure), caption, name, wide=True), image.getvalue())


def _value(row: ResultRow, column: int) -> Value:
    """A cell that holds a number."""
    cell = row.cells[column]
    assert cell is not None
    return cell

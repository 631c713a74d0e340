"""Figures as SVG text: readable, safe for colour-blind readers, the same bytes every time."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from setwise._arguments import checked, each, instance
from setwise.comparison.comparison import Comparison
from setwise.tuning import Tuned

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LABELS = {
    "top1": "top-1 accuracy (%)",
    "top5": "top-5 accuracy (%)",
    "nll": "negative log-likelihood a choice",
    "mean_rank": "mean rank of the chosen item",
    "mrr": "mean reciprocal rank",
    "rho2": "McFadden's rho²",
    "calibration_error": "calibration error",
}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
PERCENT = ("top1", "top5")


def dots(comparison: Comparison, metrics: tuple[str, ...] = ("top1", "nll")) -> str:
    """Means over splits with standard errors, one panel a measure, best model on top."""
    rows = comparison.leaderboard()[::-1]
    figure = new_figure(9.0, 1.2 + 0.42 * len(rows))
    panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        unit = 100 if metric in PERCENT else 1
        for place, row in enumerate(rows):
            colour = COLOURS[comparison.models.index(row.model) % len(COLOURS)]
            error = np.nan_to_num(row.standard_error[metric]) * unit
            panel.errorbar(
                row.mean[metric] * unit, place, xerr=error, fmt="o", color=colour, capsize=4
            )
        panel.set_yticks(range(len(rows)), [row.model for row in rows])
        panel.set_ylim(-0.6, len(rows) - 0.4)
        panel.set_xlabel(LABELS[metric])
        panel.grid(axis="x", alpha=0.3)
    return svg_text(figure)


def splits(comparison: Comparison) -> str:
    """Each model's difference from the best one, split by split: is the order stable?"""
    best = comparison.models.index(comparison.leaderboard()[0].model)
    table = comparison.values(comparison.metric)
    unit = 100 if comparison.metric in PERCENT else 1
    figure = new_figure(9.0, 3.2)
    panel = figure.subplots()
    panel.axhline(0, color="grey", linewidth=1)
    for i, model in enumerate(comparison.models):
        if i != best:
            panel.plot(
                np.arange(1, table.shape[1] + 1), unit * (table[i] - table[best]), "o-",
                color=COLOURS[i % len(COLOURS)], label=model,
            )  # fmt: skip
    panel.set_xlabel("split")
    panel.set_xticks(np.arange(1, table.shape[1] + 1))
    panel.set_ylabel(f"{LABELS[comparison.metric]},\nless that of {comparison.models[best]}")
    panel.grid(alpha=0.3)
    if len(comparison.models) > 1:
        panel.legend(frameon=False, ncols=4)
    return svg_text(figure)


@checked(tuned=each(instance(Tuned, "make them with setwise.tune(...)")))
def tuning_history(tuned: Sequence[Tuned]) -> str:
    """All trials of each study in their order, with a line for the best so far."""
    figure = new_figure(9.0, 4.0)
    panel = figure.subplots()
    for i, one in enumerate(tuned):
        colour = COLOURS[i % len(COLOURS)]
        label = f"split {i + 1}" if len(tuned) > 1 else "best so far"
        numbers = np.arange(1, len(one.trials) + 1)
        for pruned, marker in ((False, "o"), (True, "x")):
            here = [trial.pruned is pruned and np.isfinite(trial.value) for trial in one.trials]
            values = np.array([trial.value for trial in one.trials])
            panel.plot(numbers[here], values[here], marker, color=colour, alpha=0.4, markersize=4)
        panel.step(numbers, one.best_so_far(), where="post", color=colour, label=label)
    panel.set_xlabel("trial (crosses: pruned)")
    panel.set_ylabel(f"validation {tuned[0].measure}")
    panel.grid(alpha=0.3)
    panel.legend(frameon=False, ncols=5)
    return svg_text(figure)


def grid_picture(
    values: Float[np.ndarray, "rows columns"],
    rows: Sequence[str],
    columns: Sequence[str],
    axes: tuple[str, str],
    form: str = "+z.1f",
) -> str:
    """Numbers printed in a grid: purple above 0, orange below, blank where they are NaN.

    ``axes`` names the columns and the rows, in this order; ``form`` is how a number is written.
    """
    longest = max(len(name) for name in (*rows, *columns))
    figure = new_figure(1.4 + 0.8 * len(columns) + 0.06 * longest, 1.4 + 0.42 * len(rows))
    panel = figure.subplots()
    bound = float(np.nanmax(np.abs(values), initial=1e-9))
    panel.imshow(values, cmap="PuOr", vmin=-bound, vmax=bound, aspect="auto")
    # Names are the user's: a dollar in them begins no formula.
    panel.set_xticks(range(len(columns)), columns, parse_math=False)
    if longest > 9:
        panel.tick_params("x", rotation=30)
    panel.set_yticks(range(len(rows)), rows, parse_math=False)
    panel.set_xlabel(axes[0])
    panel.set_ylabel(axes[1])
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if abs(value) > 0.6 * bound else "black"
        if not np.isnan(value):
            written = f"{value:{form}}"
            panel.text(column, row, written, ha="center", va="center", color=colour)
    return svg_text(figure)


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, its sides in inches."""
    from matplotlib.figure import Figure  # only those who draw should wait for it

    return Figure(figsize=(width, height), layout="constrained")


def settle(figure: "Figure") -> None:
    """Lay the figure out once and for all, to a ten-thousandth of its sides.

    The solver of constraints leaves other last digits each time, and the bytes would follow them.
    """
    if figure.get_layout_engine() is None:
        return
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(one), 4) for one in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def svg_text(figure: "Figure") -> str:
    """The figure as an ``<svg>`` element."""
    from matplotlib import rc_context

    settle(figure)
    text = io.StringIO()
    with rc_context({"svg.hashsalt": "setwise", "svg.fonttype": "path"}):
        figure.savefig(
            text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    return text.getvalue().partition("?>")[2].partition("<svg")[2].join(("<svg", ""))

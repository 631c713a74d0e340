"""Figures as SVG text: readable, safe for colour-blind readers, the same bytes every time."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from setwise._arguments import checked, each, instance
from setwise.tuning import Tuned

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


@checked(tuned=each(instance(Tuned, "make them with setwise.tune(...)")))
def tuning_history(tuned: Sequence[Tuned]) -> str:
    """All trials of each study in order, with a line for the best value so far."""
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
    """Numbers printed in a grid: purple above 0, orange below, blank for NaN.

    ``axes`` names the columns and the rows, in this order; ``form`` is the format of a number.
    """
    longest = max(len(name) for name in (*rows, *columns))
    figure = new_figure(1.4 + 0.8 * len(columns) + 0.06 * longest, 1.4 + 0.42 * len(rows))
    panel = figure.subplots()
    bound = float(np.nanmax(np.abs(values), initial=1e-9))
    panel.imshow(values, cmap="PuOr", vmin=-bound, vmax=bound, aspect="auto")
    # Names come from the user: a dollar sign in them does not begin a formula.
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
    """An empty figure; width and height are in inches."""
    from matplotlib.figure import Figure  # slow to import, and only drawing needs it

    return Figure(figsize=(width, height), layout="constrained")


def settle(figure: "Figure") -> None:
    """Fix the layout, rounded to a ten-thousandth of the figure's sides.

    The constrained layout differs in its last digits from run to run, which would change the bytes.
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

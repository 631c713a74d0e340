"""A comparison as one HTML page: the leaderboard, how to read it, and two pictures."""

from pathlib import Path

import numpy as np

from setwise._arguments import checked, instance, text
from setwise._arguments import path as check_path
from setwise._page import Block, Figure, Heading, PageTable, write_page
from setwise.comparison.comparison import HEADS, Comparison, cells
from setwise.reports.figures import COLOURS, new_figure, svg_text

LABELS = {
    "top1": "top-1 accuracy (%)",
    "top5": "top-5 accuracy (%)",
    "nll": "negative log-likelihood per choice",
    "mean_rank": "mean rank of the chosen item",
    "mrr": "mean reciprocal rank",
    "rho2": "McFadden's rho²",
    "calibration_error": "calibration error",
}
PERCENT = ("top1", "top5")
SPLIT = {
    "set": "{} of whole sets",
    "group": "{} of whole groups: nobody is in two parts",
    "time": "{} in order of time: the test part is the latest",
}

DOTS_CAPTION = (
    "Dots are means over the splits, bars one standard error. Further right is better for "
    "accuracy, further left for the negative log-likelihood."
)
SPLITS_CAPTION = (
    "Each model's difference from the best one on each split. A line that never crosses zero lost "
    "every time."
)


@checked(
    comparison=instance(Comparison, "make one with setwise.compare(...)"),
    path=check_path,
    title=text,
)
def write_report(comparison: Comparison, path: str | Path, title: str = "Model comparison") -> None:
    """Write the comparison as one HTML page that needs no network, whole or not at all."""
    rows = [cells(row) for row in comparison.leaderboard()]
    blocks: list[Block] = [
        comparison.data,
        _verdict(comparison),
        Heading("Leaderboard"),
        PageTable(HEADS, rows, "numbers"),
        note(comparison),
        Heading("How good, and how sure"),
        Figure(dots_picture(comparison), DOTS_CAPTION, wide=True),
        Heading("Split by split"),
        Figure(splits_picture(comparison), SPLITS_CAPTION, wide=True),
    ]
    write_page(path, title, blocks)


def _verdict(comparison: Comparison) -> str:
    rows = comparison.leaderboard()
    label = LABELS[comparison.metric]
    text = f"By {label}, {rows[0].model} is first."
    clear = [row.model for row in rows[1:] if row.p is not None and row.p < 0.05]
    close = [row.model for row in rows[1:] if row.model not in clear]
    if clear:
        text += f" It is clearly ahead of {', '.join(clear)} (corrected p < 0.05)."
    if close:
        text += f" Its lead over {', '.join(close)} may be chance."
    return text


def note(comparison: Comparison) -> str:
    """How to read the leaderboard."""
    splits = comparison.values(comparison.metric).shape[1]
    shares = ":".join(f"{100 * size:g}" for size in comparison.sizes)
    split = SPLIT[comparison.split_by].format(shares)
    if splits == 1:
        return (
            f"Values on the test part of one split ({split}): it gives no standard errors and no "
            "p-values. Difference: from the first model."
        )
    text = (
        f"Means ± standard errors over {splits} random splits ({split}). "
        "Difference: paired with the first model on the same splits; p: corrected resampled t-test "
        "(Nadeau and Bengio), Holm-corrected."
    )
    friedman = comparison.friedman()
    return (
        text
        if friedman is None
        else f"{text} Friedman's test that all are equal: p = {friedman:.2g}."
    )


def dots_picture(comparison: Comparison) -> str:
    """Mean top-1 accuracy and NLL over splits with standard errors, the best model on top."""
    rows = comparison.leaderboard()[::-1]
    figure = new_figure(9.0, 1.2 + 0.42 * len(rows))
    panels = figure.subplots(1, 2, sharey=True)
    for panel, metric in zip(panels, ("top1", "nll"), strict=True):
        unit = 100 if metric in PERCENT else 1
        for place, row in enumerate(rows):
            colour = COLOURS[comparison.models.index(row.model) % len(COLOURS)]
            error = np.nan_to_num(row.standard_error[metric]) * unit
            panel.errorbar(
                row.mean[metric] * unit, place, xerr=error, fmt="o", color=colour, capsize=4
            )
        panel.set_yticks(range(len(rows)), [row.model for row in rows], parse_math=False)
        panel.set_ylim(-0.6, len(rows) - 0.4)
        panel.set_xlabel(LABELS[metric])
        panel.grid(axis="x", alpha=0.3)
    return svg_text(figure)


def splits_picture(comparison: Comparison) -> str:
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
    difference = f"{LABELS[comparison.metric]},\nless that of {comparison.models[best]}"
    panel.set_ylabel(difference, parse_math=False)
    panel.grid(alpha=0.3)
    if len(comparison.models) > 1:
        for label in panel.legend(frameon=False, ncols=4).get_texts():
            label.set_parse_math(False)
    return svg_text(figure)

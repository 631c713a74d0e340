"""A comparison as one HTML page: the leaderboard, how to read it, and two pictures."""

from pathlib import Path

from setwise._arguments import checked, instance, text
from setwise._arguments import path as check_path
from setwise._page import Block, Figure, Heading, PageTable, write_page
from setwise.comparison.comparison import HEADS, Comparison, cells
from setwise.reports import figures

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
        Figure(figures.dots(comparison), DOTS_CAPTION, wide=True),
        Heading("Split by split"),
        Figure(figures.splits(comparison), SPLITS_CAPTION, wide=True),
    ]
    write_page(path, title, blocks)


def _verdict(comparison: Comparison) -> str:
    rows = comparison.leaderboard()
    label = figures.LABELS[comparison.metric]
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

"""A comparison as one self-contained HTML page: tables and pictures, no request to the network."""

import html
from pathlib import Path

from setwise._arguments import checked, instance, text
from setwise._arguments import path as check_path
from setwise._page import write_page
from setwise.comparison.comparison import HEADS, Comparison, cells
from setwise.reports import figures

SPLIT = {
    "set": "{} of whole sets",
    "group": "{} of whole groups: nobody is in two parts",
    "time": "{} in order of time: the test part is the latest",
}

STYLE = """th, td { padding: .35rem .5rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
tbody tr:first-child { font-weight: 600; }
figure { margin: 1rem 0; background: #fff; padding: .5rem; border-radius: .4rem; }
figure svg { width: 100%; height: auto; }
figcaption { color: #444; font-size: .9rem; }
"""
BODY = """<p>{data}</p>
<p>{verdict}</p>
<h2>Leaderboard</h2>
<div class="scroll">{table}</div>
<p>{note}</p>
<h2>How good, and how sure</h2>
<figure>{dots}<figcaption>Dots are means over the splits, bars one standard error. Further right is
better for accuracy, further left for the negative log-likelihood.</figcaption></figure>
<h2>Split by split</h2>
<figure>{splits}<figcaption>Every model's distance from the best one on each split. A line that
never crosses zero lost every time.</figcaption></figure>
"""


@checked(
    comparison=instance(Comparison, "make one with setwise.compare(...)"),
    path=check_path,
    title=text,
)
def write_report(comparison: Comparison, path: str | Path, title: str = "Model comparison") -> None:
    """Write the page, whole or not at all."""
    body = BODY.format(
        data=html.escape(comparison.data),
        verdict=html.escape(_verdict(comparison)),
        table=_table(comparison),
        note=html.escape(note(comparison)),
        dots=figures.dots(comparison),
        splits=figures.splits(comparison),
    )
    write_page(path, title, body, STYLE)


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


def _table(comparison: Comparison) -> str:
    head = "".join(f"<th>{name}</th>" for name in HEADS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row)) + "</tr>"
        for row in comparison.leaderboard()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

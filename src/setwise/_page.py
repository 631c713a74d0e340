"""Self-contained HTML: one look for reports and for results in notebooks, and no request to the
network."""

import html
from collections.abc import Collection, Sequence
from pathlib import Path

from setwise._files import check_writable, whole_file

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: break-word; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.scroll {{ overflow-x: auto; }}
@media print {{ .scroll {{ overflow: visible; }} }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
{style}</style></head><body>
<h1>{title}</h1>
{body}</body></html>
"""

REPORT_STYLE = """\
th, td { padding: .35rem .6rem; text-align: left; border-bottom: 1px solid #8884; }
table.numbers td:not(:first-child), table.numbers th:not(:first-child) { text-align: right; }
figure { margin: 1rem 0; background: #fff; padding: .5rem; border-radius: .4rem; }
figure svg { width: 100%; max-width: 40rem; height: auto; }
figcaption { color: #444; font-size: .9rem; }
"""


NOTEBOOK_STYLE = """\
.setwise .scroll { overflow-x: auto; }
.setwise table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .3rem 0; }
.setwise th, .setwise td { padding: .2rem .6rem; text-align: left; white-space: nowrap; }
.setwise table.numbers :is(th, td):not(:first-child) { text-align: right; }
"""
ROWS_IN_NOTEBOOK = 100


def write_page(path: str | Path, title: str, body: str, style: str) -> None:
    """Write a page, whole or not at all; the title is text, the body and the style are code."""
    check_writable(path)
    page = PAGE.format(title=html.escape(title), body=body, style=style)
    content = page.encode(errors="replace")
    with whole_file(path, len(content)) as beside:
        beside.write_bytes(content)


def table_html(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    kind: str = "",
    marked: Collection[int] = (),
) -> str:
    """A table of text that scrolls sideways where the screen is narrow, some rows marked."""
    head = "".join(f"<th>{html.escape(one)}</th>" for one in heads)
    body = "".join(
        ('<tr class="marked">' if number in marked else "<tr>")
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for number, row in enumerate(rows)
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def notebook_html(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    note: str = "",
    kind: str = "numbers",
) -> str:
    """A table of text as a notebook shows it, with a line above and one below.

    Of a long table the first rows are shown, and the line below says how many there are.

    >>> "<td>&lt;b&gt;</td>" in notebook_html(["name"], [["<b>"]])
    True
    """
    if len(rows) > ROWS_IN_NOTEBOOK:
        cut = f"The first {ROWS_IN_NOTEBOOK} of {len(rows):,} rows; to_frame() has all of them."
        rows, note = rows[:ROWS_IN_NOTEBOOK], f"{cut} {note}".strip()
    above, below = (f"<p>{html.escape(one)}</p>" if one else "" for one in (title, note))
    table = table_html(heads, rows, kind)
    return f'<div class="setwise"><style>{NOTEBOOK_STYLE}</style>{above}{table}{below}</div>'


def figure_html(picture: str, caption: str) -> str:
    """A picture, which is code, with its caption, which is text."""
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"

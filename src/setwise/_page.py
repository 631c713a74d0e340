"""Self-contained HTML pages: one look for all reports, and no request to the network."""

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


def figure_html(picture: str, caption: str) -> str:
    """A picture, which is code, with its caption, which is text."""
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"

"""Self-contained HTML pages: one look for all reports, and no request to the network."""

import html
from pathlib import Path

from setwise._files import check_writable, whole_file

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto;
  padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
{style}</style></head><body>
<h1>{title}</h1>
{body}</body></html>
"""


def write_page(path: str | Path, title: str, body: str, style: str) -> None:
    """Write a page, whole or not at all; the title is text, the body and the style are code."""
    check_writable(path)
    page = PAGE.format(title=html.escape(title), body=body, style=style)
    with whole_file(path) as beside:
        beside.write_text(page, encoding="utf-8", errors="replace")

"""Blocks of a report as HTML, as Markdown, and their numbers as CSV: one content, three forms."""

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from setwise.experiments.reproduction.panels import Picture
from setwise.experiments.reproduction.tables import Table, Value

STYLE = """table { font-size: .82rem; }
th, td { padding: .25rem .4rem; text-align: right; border-bottom: 1px solid #8884;
  font-weight: normal; }
thead th { font-weight: 600; }
th[colspan] { text-align: center; }
th[scope=row], th[scope=rowgroup], th.stub { text-align: left; }
th[scope=rowgroup] { vertical-align: top; font-weight: 600; }
tbody.group tr:first-child > * { border-top: 2px solid #8888; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
.note { font-size: .9rem; max-width: 60rem; }
pre { white-space: pre-wrap; padding: .5rem; border: 1px solid #8884; border-radius: .3rem; }
figure { margin: 1rem 0; background: #fff; padding: .5rem; border-radius: .4rem; }
figure svg { width: 100%; height: auto; }
figcaption { color: #444; font-size: .9rem; }
"""
CSV_HEADS = (
    "table", "title", "row_group", "row", "column_group", "column", "value", "standard_error",
)  # fmt: skip


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    text: str


@dataclass(frozen=True)
class Code:
    """What was typed."""

    text: str


Block = Heading | Code | Table | Picture | str


def as_html(blocks: Sequence[Block]) -> str:
    """The body of a page.

    >>> as_html([Heading("Time & place"), "Now."])
    '<h2>Time &amp; place</h2>\\n<p>Now.</p>\\n'
    """
    return "\n".join(map(_html, blocks)) + "\n"


def as_markdown(title: str, blocks: Sequence[Block]) -> str:
    """The whole document; its pictures are files in ``figures/``.

    >>> as_markdown("Report", [Heading("Time"), "Now."])
    '# Report\\n\\n## Time\\n\\nNow.\\n'
    """
    return "\n\n".join([f"# {title}", *map(_markdown, blocks)]) + "\n"


def as_csv(blocks: Sequence[Block]) -> str:
    """Every number of every table, one a line and unrounded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADS)
    for table in blocks:
        if isinstance(table, Table):
            for place, value in table.numbers():
                error = "" if value.error is None else repr(float(value.error))
                names = [" ".join(name.split()) for name in place]
                writer.writerow([*names, repr(float(value.mean)), error])
    return text.getvalue()


def _html(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{html.escape(text)}</h2>"
        case Code(text):
            return f"<pre><code>{html.escape(text)}</code></pre>"
        case Table():
            return _html_table(block)
        case Picture():
            caption = html.escape(block.caption)
            return f"<figure>{block.svg}<figcaption>{caption}</figcaption></figure>"
        case str():
            return f"<p>{html.escape(block)}</p>"


def _html_table(table: Table) -> str:
    grouped = any(row.group for row in table.rows)
    body = ""
    for group, some in groupby(table.rows, key=lambda row: row.group):
        rows = list(some)
        for i, row in enumerate(rows):
            first = f'<th scope="rowgroup" rowspan="{len(rows)}">{html.escape(group)}</th>'
            lead = first if grouped and i == 0 else ""
            cells = "".join(map(_html_cell, row.cells))
            opening = '<tbody class="group">' if grouped and i == 0 else ""
            body += f'{opening}<tr>{lead}<th scope="row">{html.escape(row.name)}</th>{cells}</tr>\n'
        body += "</tbody>" if grouped else ""
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in table.notes)
    return (
        f'<h3>{html.escape(table.title)}</h3>\n<div class="scroll"><table>'
        f"<thead>{_html_heads(table, grouped)}</thead>\n"
        f"{body if grouped else f'<tbody>{body}</tbody>'}</table></div>\n{notes}"
    )


def _html_heads(table: Table, grouped: bool) -> str:
    names = "".join(f"<th>{html.escape(name)}</th>" for _, name in table.columns)
    empty = "<th></th>" if grouped else ""
    line = f'<tr>{empty}<th class="stub">{html.escape(table.stub)}</th>{names}</tr>'
    if not any(group for group, _ in table.columns):
        return line
    over = "".join(
        f'<th colspan="{len(list(some))}">{html.escape(group)}</th>'
        for group, some in groupby(table.columns, key=lambda column: column[0])
    )
    return f"<tr>{empty}<th></th>{over}</tr>{line}"


def _html_cell(cell: Value | None) -> str:
    text = html.escape("" if cell is None else str(cell))
    return f"<td><b>{text}</b></td>" if cell is not None and cell.best else f"<td>{text}</td>"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {_marked(text)}"
        case Code(text):
            return f"```text\n{text}\n```"
        case Table():
            return _markdown_table(block)
        case Picture():
            caption = _marked(block.caption)
            return f"![{caption}](figures/{block.name}.svg)\n\n*{caption}*"
        case str():
            return _marked(block)


def _markdown_table(table: Table) -> str:
    """Markdown has no groups: of columns they are a part of the name, of rows a column."""
    grouped = any(row.group for row in table.rows)
    lead = ["", table.stub] if grouped else [table.stub]
    heads = lead + [f"{group} {name}".strip() for group, name in table.columns]
    lines = [heads, ["---"] * len(lead) + ["---:"] * len(table.columns)]
    before = ""
    for row in table.rows:
        group = "" if row.group == before else row.group
        before = row.group
        name = [_marked(group), _marked(row.name)] if grouped else [_marked(row.name)]
        lines.append([*name, *map(_markdown_cell, row.cells)])
    lines[0] = [_marked(head) for head in lines[0]]
    drawn = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([f"### {_marked(table.title)}", drawn, *map(_marked, table.notes)])


def _markdown_cell(cell: Value | None) -> str:
    text = _marked("" if cell is None else str(cell))
    return f"**{text}**" if cell is not None and cell.best else text


def _marked(text: str) -> str:
    """Text that Markdown shows as it is."""
    for sign in ("\\", "|", "*", "_", "`", "<", "[", "]"):
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())

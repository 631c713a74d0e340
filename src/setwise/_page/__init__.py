"""Reports and notebook results as blocks, with one look: HTML pages that need no network, Markdown.

A page is a list of blocks; a block that is plain text is a paragraph. The Jinja2 templates next to
this file turn blocks into HTML and escape all text; ``style.css`` is the only style sheet.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from setwise._files import check_writable, whole_file

if TYPE_CHECKING:
    from jinja2 import Environment

ROWS_IN_NOTEBOOK = 100


@dataclass(frozen=True)
class Heading:
    """The title of a section; ``kind`` colours it: "error", "warning" or "note"."""

    form: ClassVar = "heading"
    text: str
    kind: str = ""


@dataclass(frozen=True)
class Code:
    """A command or program, in a fixed-width font."""

    form: ClassVar = "code"
    text: str


@dataclass(frozen=True)
class Figure:
    """An SVG picture with its caption; ``name`` is that of its file, which Markdown links to."""

    form: ClassVar = "figure"
    svg: str
    caption: str
    name: str = ""
    wide: bool = False
    """As wide as the page; otherwise at most 40 rem."""


@dataclass(frozen=True)
class StyledCell:
    """A cell that is more than text."""

    text: str = ""
    bold: bool = False
    shade: str = ""
    """The background: red, green, blue and opacity, such as "213, 94, 0, 0.30"."""
    bar: float = 0.0
    """The length of a bar, from 0 to 1."""


@dataclass(frozen=True)
class PageTable:
    """A table, which scrolls sideways on a narrow screen."""

    form: ClassVar = "table"
    heads: Sequence[str]
    rows: Sequence[Sequence[str | StyledCell]]
    kind: str = ""
    """"numbers" aligns all columns but the first to the right."""
    marked: Collection[int] = ()
    """The rows to shade."""
    title: str = ""
    notes: Sequence[str] = ()
    column_groups: Sequence[str] = ()
    """A common head of neighbouring columns, repeated for each of them."""
    row_groups: Sequence[str] = ()
    """A common name of neighbouring rows, repeated for each of them."""
    named_rows: bool = False
    """Whether the first cell of a row is its name and the others are numbers."""

    @property
    def column_spans(self) -> list[tuple[str, int]]:
        """Each group of columns and how many columns it has."""
        return [(group, len(list(some))) for group, some in groupby(self.column_groups)]

    @property
    def bodies(self) -> Iterator[tuple[str, list[tuple[bool, list[StyledCell]]]]]:
        """Each group of rows: its name, and for each row whether it is marked and its cells."""
        groups = self.row_groups or [""] * len(self.rows)
        for group, places in groupby(range(len(self.rows)), key=groups.__getitem__):
            yield group, [(i in self.marked, list(map(_styled, self.rows[i]))) for i in places]


@dataclass(frozen=True)
class Details:
    """Blocks that a reader opens by clicking on the summary."""

    form: ClassVar = "details"
    summary: str
    blocks: Sequence["Block"]


Block = str | Heading | Code | Figure | PageTable | Details


def write_page(path: str | Path, title: str, blocks: Sequence[Block]) -> None:
    """Write a page, whole or not at all."""
    check_writable(path, kind=".html")
    content = _rendered("page.html", title=title, blocks=blocks).encode(errors="replace")
    with whole_file(path, len(content)) as part:
        part.write_bytes(content)


def as_html(blocks: Sequence[Block]) -> str:
    """The blocks without a page around them.

    >>> as_html([Heading("Time & place"), "Now."])
    '<h2>Time &amp; place</h2>\\n<p>Now.</p>\\n'
    """
    return _rendered("blocks.html", blocks=blocks)


def notebook_html(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    note: str = "",
    kind: str = "numbers",
) -> str:
    """A table of text as a notebook shows it, with a line above and one below.

    A long table is cut to its first rows, and the line below says how many there are.

    >>> "<td>&lt;b&gt;</td>" in notebook_html(["name"], [["<b>"]])
    True
    """
    if len(rows) > ROWS_IN_NOTEBOOK:
        cut = f"The first {ROWS_IN_NOTEBOOK} of {len(rows):,} rows; to_frame() has all of them."
        rows, note = rows[:ROWS_IN_NOTEBOOK], f"{cut} {note}".strip()
    blocks = [title, PageTable(heads, rows, kind), note]
    return _rendered("notebook.html", blocks=[one for one in blocks if one])


def as_markdown(title: str, blocks: Sequence[Block]) -> str:
    """The whole document; its pictures are files in ``figures/``.

    >>> as_markdown("Report", [Heading("Time"), "Now."])
    '# Report\\n\\n## Time\\n\\nNow.\\n'
    """
    return "\n\n".join([f"# {title}", *map(_markdown, blocks)]) + "\n"


def as_markdown_table(table: PageTable) -> str:
    """One table of Markdown, with its title above and its notes below.

    >>> print(as_markdown_table(PageTable(["name", "cost"], [["bus", "2"]])))
    | name | cost |
    | --- | ---: |
    | bus | 2 |
    """
    return _markdown_table(table)


def _rendered(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader  # only those who write HTML wait for it

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _styled(cell: str | StyledCell) -> StyledCell:
    return StyledCell(cell) if isinstance(cell, str) else cell


def _markdown(block: Block) -> str:
    match block:
        case str():
            return _marked(block)
        case Heading():
            return f"## {_marked(block.text)}"
        case Code():
            return f"```text\n{block.text}\n```"
        case Figure():
            caption = _marked(block.caption)
            return f"![{caption}](figures/{block.name}.svg)\n\n*{caption}*"
        case PageTable():
            return _markdown_table(block)
        case Details():
            return "\n\n".join([_marked(block.summary), *map(_markdown, block.blocks)])


def _markdown_table(table: PageTable) -> str:
    """Markdown has no groups: those of columns become part of the name, those of rows a column."""
    groups = table.column_groups or [""] * len(table.heads)
    heads = [
        _marked(f"{group} {name}".strip()) for group, name in zip(groups, table.heads, strict=True)
    ]
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1)]
    for group, rows in table.bodies:
        for number, (_, cells) in enumerate(rows):
            lead = [_marked(group) if number == 0 else ""] if table.row_groups else []
            lines.append([*lead, *map(_markdown_cell, cells)])
    if table.row_groups:
        lines[:2] = [["", *lines[0]], ["---", *lines[1]]]
    drawn = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    title = [f"### {_marked(table.title)}"] if table.title else []
    return "\n\n".join([*title, drawn, *map(_marked, table.notes)])


def _markdown_cell(cell: StyledCell) -> str:
    return f"**{_marked(cell.text)}**" if cell.bold else _marked(cell.text)


def _marked(text: str) -> str:
    """Text that Markdown shows as it is."""
    for sign in ("\\", "|", "*", "_", "`", "<", "[", "]"):
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())

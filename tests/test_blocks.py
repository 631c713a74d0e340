"""Blocks of a page: every kind as HTML and as Markdown, with all text escaped."""

import html.parser
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise._page import (
    Code,
    Details,
    Figure,
    Heading,
    PageTable,
    StyledCell,
    as_html,
    as_markdown,
    notebook_html,
    write_page,
)

EVIL = "<script>&\"'"


class Reader(html.parser.HTMLParser):
    """The tags in their order with their attributes, the text, and whether all tags close."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def blocks(text):
    """One block of every kind that holds this text everywhere."""
    cells = (text, StyledCell(text, bold=True), StyledCell(text, shade="1, 2, 3, .5"))
    table = PageTable(
        (text, text, text), [cells],
        title=text, notes=[text], column_groups=(text, text, text), row_groups=[text],
        named_rows=True,
    )  # fmt: skip
    figure = Figure("<svg></svg>", text, "name")
    return [text, Heading(text), Code(text), figure, table, Details(text, [text, table])]


@pytest.mark.parametrize("number", range(6))
def test_no_text_of_a_block_is_code(number):
    block = blocks(EVIL)[number]
    found = Reader(as_html([block]))
    assert found.open == []
    assert "script" not in dict(found.tags)
    assert EVIL in found.text
    if not isinstance(block, Code):
        assert not re.search(r"(?<!\\)<", as_markdown("", [block]))


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_any_text_keeps_the_tags(text):
    tags = [tag for tag, _ in Reader(as_html(blocks(f"x{text}"))).tags]
    assert tags == [tag for tag, _ in Reader(as_html(blocks("x"))).tags]


def test_groups_span_their_rows_and_columns():
    table = PageTable(
        ("method", "top-1", "rank", "top-1"),
        [("a", "1", "2", "3"), ("b", "4", "5", "6"), ("c", "7", "8", "9")],
        column_groups=("", "small", "small", "large"), row_groups=("ours", "ours", "theirs"),
        named_rows=True,
    )  # fmt: skip
    found = Reader(as_html([table])).tags
    assert [a["colspan"] for _, a in found if "colspan" in a] == ["1", "2", "1"]
    assert [a["rowspan"] for _, a in found if "rowspan" in a] == ["2", "1"]
    assert [tag for tag, _ in found].count("tbody") == 2
    assert [tag for tag, _ in found].count("td") == 9
    lines = as_markdown("", [table]).splitlines()
    assert "|  | method | small top-1 | small rank | large top-1 |" in lines
    assert "| ours | a | 1 | 2 | 3 |" in lines
    assert "|  | b | 4 | 5 | 6 |" in lines


def test_cells_have_shades_bars_and_bold_text():
    cells = (StyledCell("1", shade="0, 1, 2, 0.5"), StyledCell(bar=0.5), StyledCell("3", bold=True))
    text = as_html([PageTable(("a", "b", "c"), [cells, ("4", "5", "6")], marked={1})])
    assert '<td style="background: rgba(0, 1, 2, 0.5)">1</td>' in text
    assert '<td><span class="bar" style="width: 15.00rem"></span></td>' in text
    assert "<td><b>3</b></td>" in text
    assert '<tr class="marked"><td>4</td><td>5</td><td>6</td></tr>' in text


def test_a_page_is_whole_fits_a_phone_and_needs_no_network(tmp_path):
    write_page(tmp_path / "page.html", EVIL, blocks("text"))
    page = (tmp_path / "page.html").read_text("utf-8")
    found = Reader(page)
    assert found.open == []
    assert page.startswith("<!doctype html>")
    names = {tag for tag, _ in found.tags}
    assert not names & {"script", "link", "img", "iframe"}
    assert not {"src", "href"} & {name for _, attributes in found.tags for name in attributes}
    assert "url(" not in page
    assert "@import" not in page
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        found.tags
    )
    assert page.count("<table") == page.count('<div class="scroll"><table')


def test_pages_and_notebooks_have_one_style_sheet(tmp_path):
    write_page(tmp_path / "page.html", "title", [])
    page, shown = (tmp_path / "page.html").read_text("utf-8"), notebook_html(["a"], [["1"]])
    styles = {text.partition("<style>")[2].partition("</style>")[0] for text in (page, shown)}
    assert len(styles) == 1
    rules = [line for line in styles.pop().splitlines() if "{" in line]
    assert all(".setwise" in rule for rule in rules)  # a notebook's other cells keep their look


def test_only_those_who_write_html_import_jinja2():
    script = (
        "import sys, setwise as sw, setwise.scoring, setwise.reports\n"
        "choices = sw.read({'s': [1, 1], 'x': [1.0, 2.0], 'c': [0, 1]}, set='s', chosen='c')\n"
        "assert 'jinja2' not in sys.modules\n"
        "choices._repr_html_()\n"
        "assert 'jinja2' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

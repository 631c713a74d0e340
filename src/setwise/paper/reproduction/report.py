"""Our values beside the paper's, with the difference and how sure it is.

Blocks of a report as HTML, as Markdown, and their numbers as CSV: one content, three forms.

The report of a reproduction: one page, the same as Markdown, all numbers, all figures.

It is a function of the results and of the paper's values alone, so that the same results give the
same bytes.
"""

import csv
import html
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from setwise._files import check_writable, make_folder, whole_file
from setwise._page import write_page
from setwise.paper import published_results
from setwise.paper.reproduction.panels import Picture, panels, pictures
from setwise.paper.reproduction.protocol import (
    ABLATION,
    CLASSICAL,
    RESULTS,
    SIZES,
    TABLE,
    Method,
    Results,
    Setting,
    slug,
)
from setwise.paper.reproduction.tables import (
    PAPER_MEASURES,
    TOP1,
    Measure,
    Measured,
    Row,
    Table,
    Value,
    ablation_tables,
    beside_chance,
    display_name,
    full_tables,
    main_tables,
    setting_name,
    significance,
)

MARK = "*"
ARTEFACT_NOTE = (
    f"{MARK} Not a ranking by that method but an artefact of how the paper sorted padded arrays; "
    "do not compare. The documentation has the evidence, “What differs from the paper, and why”."
)


def tables_beside_paper(measured: Measured, groups: Mapping[str, Sequence[str]]) -> list[Table]:
    """A table for each setting that the paper has; data of another name are not the paper's."""
    settings = [
        one
        for one in measured.settings
        if one.max_items in published_results.MAX_ITEMS.get(one.data, ())
    ]
    found = [_beside(measured, setting, groups) for setting in settings]
    return [table for table in found if table is not None]


def _beside(
    measured: Measured, setting: Setting, groups: Mapping[str, Sequence[str]]
) -> Table | None:
    rows = []
    for group, models in groups.items():
        for model in models:
            cells = [_cells(measured, setting, model, measure) for measure in PAPER_MEASURES]
            if any(any(three) for three in cells):
                rows.append(Row(group, display_name(model), tuple(sum(cells, ()))))
    if not rows:
        return None
    marked = any(cell.mark for row in rows for cell in row.cells if cell is not None)
    return Table(
        "beside",
        f"Beside the paper: {setting_name(setting)}",
        "method",
        tuple(
            (m.heading, name) for m in PAPER_MEASURES for name in ("ours", "paper", "difference")
        ),
        tuple(rows),
        (_agreement(rows), *([ARTEFACT_NOTE] if marked else [])),
    )


def _cells(
    measured: Measured, setting: Setting, model: str, measure: Measure
) -> tuple[Value | None, Value | None, Value | None]:
    """Ours, the paper's and the difference, in the table's units; all None where we have none."""
    ours = measured.value(setting, Method(model), measure)
    if ours is None:
        return None, None, None
    ours = replace(ours, form=".2f")
    main = any(model in models for models in TABLE.values())
    (theirs,) = published_results.published(
        "full" if main else "ablation",
        setting.data,
        setting.max_items,
        display_name(model),
        measure.name,
    )
    mark = MARK if _artefact(theirs) else ""
    error = None if ours.error is None else math.hypot(ours.error, theirs.standard_error)
    return (
        ours,
        Value(theirs.value, theirs.standard_error, mark=mark),
        Value(ours.mean - theirs.value, error, "+.2f", mark=mark),
    )


def _artefact(one: published_results.Published) -> bool:
    """Whether a padded array was sorted for it: top-1 alone is then what it says."""
    sorted_padding = one.method == "Random" or (
        one.method == "Price/Quality" and one.dataset == "Outbrain"
    )
    return sorted_padding and one.metric != "top1"


def _agreement(rows: Sequence[Row]) -> str:
    """How to read the differences, and how many of them are small, counted."""
    how = (
        "Difference: ours less the paper's, in points of per cent or in ranks, ± the root of the "
        "two squared standard errors. The paper prints its errors to one decimal, so that 0.0 is "
        "any below 0.05."
    )
    compared = [
        cell
        for row in rows
        for cell in row.cells[2::3]
        if cell is not None and cell.error is not None and not cell.mark
    ]
    if not compared:
        return how
    near = sum(abs(one.mean) <= 2 * (one.error or 0) for one in compared)
    return (
        f"{how} Within two standard errors of the paper's: {near} of the {len(compared)} values "
        "that can be compared."
    )


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


TITLE = "Predicting choice with set-dependent aggregation: a reproduction"

PAGE, MARKDOWN, TABLES = "report.html", "report.md", "tables.csv"
FILES = (RESULTS, PAGE, MARKDOWN, TABLES)
"""What a reproduction writes into its folder, beside the folders of cells and figures."""

# What a part of the paper's evaluation is about; its methods may have outcomes in other parts too.
TABLE_PARTS = ("table1", "full", "all")
ABLATION_PARTS = ("ablation", "all")
FIGURE_PARTS = ("figures", "all")


def write_report(results: Results, folder: Path) -> list[Path]:
    """Write ``report.html``, ``report.md``, ``tables.csv`` and ``figures/`` into a folder.

    Each file appears whole or not at all, and none before all of them are made.

    Returns:
        The files, in the order in which they were written.
    """
    page, figures = folder / PAGE, folder / "figures"
    make_folder(folder)
    check_writable(page)
    blocks, drawn = _contents(results)
    if drawn:
        make_folder(figures)
    files = {
        folder / MARKDOWN: as_markdown(TITLE, blocks).encode(errors="replace"),
        folder / TABLES: as_csv(blocks).encode(errors="replace"),
    }
    for one in drawn:
        files[figures / f"{one.name}.svg"] = one.svg.encode()
        files[figures / f"{one.name}.png"] = one.png
    for path, content in files.items():
        with whole_file(path, len(content)) as beside:
            beside.write_bytes(content)
    write_page(page, TITLE, as_html(blocks), STYLE)
    return [*files, page]


def headline(results: Results) -> str:
    """Which method is first on each setting by top-1, by how much over MNL, and who only guesses.

    >>> from setwise.paper.reproduction.protocol import Method, MethodResult, Setting
    >>> settings = (Setting("Expedia", 10, 900, 600, 7.5, 8),)
    >>> outcomes = tuple(
    ...     MethodResult("Expedia", 10, Method(model), 0, {"top1": top1})
    ...     for model, top1 in (("sda", 0.315), ("mnl", 0.301))
    ... )
    >>> headline(Results({"part": "table1"}, {}, settings, outcomes))
    'Expedia (n ≤ 10): SDA is first by top-1 with 31.50 %, 1.40 points over MNL.'
    """
    measured = Measured(results)
    families = _families(results) or [("figures", {"": ("sda", *CLASSICAL)})]
    models = dict.fromkeys(m for _, groups in families for some in groups.values() for m in some)
    said = []
    for setting in measured.settings:
        each = {m: beside_chance(measured, setting, m, TOP1) for m in models}
        found = {model: value for model, value in each.items() if value is not None}
        means = {model: value.mean for model, value in found.items()}
        if not means:
            continue
        ranked = sorted(means, key=lambda model: -means[model])
        first = ranked[0]
        text = f"{setting_name(setting)}: {display_name(first)} is first by top-1 with "
        text += f"{means[first]:.2f} %"
        rival = next(iter(ranked[1:2]), None) if first == "mnl" else "mnl"
        if rival in means:
            text += f", {means[first] - means[rival]:.2f} points over {display_name(rival)}"
        chance = measured.value(setting, Method("random"), TOP1)
        worse = [display_name(model) for model, value in found.items() if value.mark]
        if worse and chance is not None:
            text += f"; worse than Random ({chance.mean:.2f} %): {', '.join(worse)}"
        said.append(f"{text}.")
    return " ".join(said)


def _families(results: Results) -> list[tuple[str, Mapping[str, Sequence[str]]]]:
    """The methods that a part compares with one another, by the key of their tests."""
    part = results.protocol.get("part", "all")
    tables: list[tuple[str, Mapping[str, Sequence[str]]]] = []
    if part in TABLE_PARTS:
        tables.append(("methods", TABLE))
    if part in ABLATION_PARTS:
        tables.append(("ablation", {"": ABLATION}))
    return tables


def _contents(results: Results) -> tuple[list[Block], list[Picture]]:
    """The report in its order, and every picture of it; only the joint ones stand in the text."""
    measured = Measured(results)
    part = results.protocol.get("part", "all")
    families = _families(results)
    blocks: list[Block] = _run_blocks(results, measured)
    if part in TABLE_PARTS:
        blocks += _section("Main results", main_tables(measured, TABLE))
        blocks += _section("All sizes of sets", full_tables(measured, TABLE))
    if part in ABLATION_PARTS:
        blocks += _section("Ablation", ablation_tables(measured))
    seen: set[str] = set()
    groups: dict[str, list[str]] = {}
    for key, family in families:
        for group, models in family.items():
            fresh = [model for model in models if model not in seen]
            groups[group or key] = fresh
            seen |= set(fresh)
    blocks += _section("Beside the paper's values", tables_beside_paper(measured, groups))
    for key, family in families:
        found, untested = significance(measured, key, [m for some in family.values() for m in some])
        title = "Are the differences more than chance?"
        blocks += _section(
            f"{title} The ablation" if key == "ablation" else title, [*found, *untested]
        )
    drawn: list[Picture] = []
    if part in FIGURE_PARTS:
        for setting in measured.least():
            shown = panels(results, measured, setting)
            made = pictures(slug(setting.data), setting_name(setting), shown)
            blocks += _section(f"Figure: {setting_name(setting)}", made[:1])
            blocks += [panel.table for panel in shown]
            drawn += made
    return blocks, drawn


def _section(title: str, blocks: Sequence[Block]) -> list[Block]:
    """Nothing at all where there is nothing under the title."""
    return [Heading(title), *blocks] if blocks else []


def _run_blocks(results: Results, measured: Measured) -> list[Block]:
    """What was found in a sentence, what was run on what, and by which command."""
    run = results.run
    found = headline(results)
    blocks: list[Block] = [Heading("What was run"), *([found] if found else [])]
    blocks += [_protocol_sentence(results.protocol), _settings_table(measured.settings)]
    if run.get("command"):
        blocks.append(Code(str(run["command"])))
    where = [
        ("time", _duration(run["seconds"]) if run.get("seconds") is not None else ""),
        ("machine", run.get("machine", "")),
        ("versions", run.get("versions", "")),
        ("finished", run.get("finished", "")),
    ]
    said = "; ".join(f"{name}: {_plain(value)}" for name, value in where if value)
    return [*blocks, f"{said[:1].upper()}{said[1:]}."] if said else blocks


def _protocol_sentence(protocol: Mapping[str, Any]) -> str:
    """How it was done, of what the results say of it."""
    training = protocol.get("training", {})
    shares = ":".join(f"{100 * share:g}" for share in SIZES)
    words = [
        ("part", "part “{}” of the paper's evaluation"),
        ("preset", "preset “{}”"),
        ("splits", f"{{}} random splits ({shares} of whole sets)"),
        ("sets", "each of at most {:,} sampled sets"),
        ("trials", "{} trials of tuning for each method and split, judged on its validation part"),
        ("epochs", "at most {} epochs"),
        ("stop_on", "stopped early by validation {}"),
        ("patience", "after {} epochs without a better one"),
        ("seed", "seed {}"),
    ]
    known = {**training, **protocol}
    return "Protocol: " + ", ".join(
        text.format(known[name]) for name, text in words if known.get(name) is not None
    ) + "."  # fmt: skip


def _settings_table(settings: Sequence[Setting]) -> Table:
    columns = ("available sets", "sampled sets", "mean items", "features")
    rows = [
        Row(
            "",
            setting_name(one),
            (
                Value(float(one.available), form=",.0f"),
                Value(float(one.sets), form=",.0f"),
                Value(one.mean_items),
                Value(float(one.features), form=".0f"),
            ),
        )
        for one in settings
    ]
    return Table("settings", "Data", "data", tuple(("", name) for name in columns), tuple(rows))


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return str(value)


def _duration(seconds: float | int) -> str:
    """Hours and minutes of a long time, minutes and seconds of a short one."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

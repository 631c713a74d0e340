"""The report of a reproduction: one content as a page, as Markdown and as CSV, and its figures.

The report is a function of the results and of the paper's values alone, so that the same results
give the same bytes.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from setwise._files import check_writable, make_folder, whole_file
from setwise._page import Block, Code, Heading, as_markdown, write_page
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
    ResultRow,
    ResultTable,
    Value,
    ablation_tables,
    beside_chance,
    display_name,
    full_tables,
    main_tables,
    present,
    setting_name,
    significance,
)

MARK = "*"
ARTEFACT_NOTE = (
    f"{MARK} Not a ranking by that method but an artefact of how the paper sorted padded arrays; "
    "do not compare. The documentation has the evidence, “What differs from the paper, and why”."
)


def tables_beside_paper(
    measured: Measured, groups: Mapping[str, Sequence[str]]
) -> list[ResultTable]:
    """A table for each setting that the paper has, matched by the name of the data."""
    settings = [
        one
        for one in measured.settings
        if one.max_items in published_results.MAX_ITEMS.get(one.data, ())
    ]
    return present(*(_beside(measured, setting, groups) for setting in settings))


def _beside(
    measured: Measured, setting: Setting, groups: Mapping[str, Sequence[str]]
) -> ResultTable | None:
    rows = []
    for group, models in groups.items():
        for model in models:
            cells = [_cells(measured, setting, model, measure) for measure in PAPER_MEASURES]
            if any(any(three) for three in cells):
                rows.append(ResultRow(group, display_name(model), tuple(sum(cells, ()))))
    if not rows:
        return None
    marked = any(cell.mark for row in rows for cell in row.cells if cell is not None)
    return ResultTable(
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
    """Ours, the paper's and the difference, in the table's units; all None if we have no value."""
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
    """Whether the paper sorted a padded array for it; only top-1 is then comparable."""
    sorted_padding = one.method == "Random" or (
        one.method == "Price/Quality" and one.dataset == "Outbrain"
    )
    return sorted_padding and one.metric != "top1"


def _agreement(rows: Sequence[ResultRow]) -> str:
    """How to read the differences, and how many of them are small."""
    how = (
        "Difference: ours minus the paper's, in percentage points or ranks, ± the root of the sum "
        "of both squared standard errors. The paper prints its errors to one decimal, so 0.0 is "
        "any error below 0.05."
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


CSV_HEADS = (
    "table", "title", "row_group", "row", "column_group", "column", "value", "standard_error",
)  # fmt: skip


Content = Block | ResultTable


def as_csv(tables: Sequence[ResultTable]) -> str:
    """Every number of every table, one per line and unrounded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADS)
    for table in tables:
        for place, value in table.numbers():
            error = "" if value.error is None else repr(float(value.error))
            names = [" ".join(name.split()) for name in place]
            writer.writerow([*names, repr(float(value.mean)), error])
    return text.getvalue()


TITLE = "Predicting choice with set-dependent aggregation: a reproduction"

PAGE, MARKDOWN, TABLES = "report.html", "report.md", "tables.csv"
FILES = (RESULTS, PAGE, MARKDOWN, TABLES)
"""The files that a reproduction writes into its folder, which also holds cells and figures."""

# What a part of the paper's evaluation is about; its methods may have outcomes in other parts too.
TABLE_PARTS = ("table1", "full", "all")
ABLATION_PARTS = ("ablation", "all")
FIGURE_PARTS = ("figures", "all")


def write_report(results: Results, folder: Path) -> list[Path]:
    """Write ``report.html``, ``report.md``, ``tables.csv`` and ``figures/`` into a folder.

    Each file appears whole or not at all, and only after all of them are made.

    Returns:
        The files, in the order in which they were written.
    """
    page, figures = folder / PAGE, folder / "figures"
    make_folder(folder)
    check_writable(page)
    contents, drawn = _contents(results)
    tables = [one for one in contents if isinstance(one, ResultTable)]
    blocks = [one.block() if isinstance(one, ResultTable) else one for one in contents]
    if drawn:
        make_folder(figures)
    files = {
        folder / MARKDOWN: as_markdown(TITLE, blocks).encode(errors="replace"),
        folder / TABLES: as_csv(tables).encode(errors="replace"),
    }
    for one in drawn:
        files[figures / f"{one.figure.name}.svg"] = one.figure.svg.encode()
        files[figures / f"{one.figure.name}.png"] = one.png
    for path, content in files.items():
        with whole_file(path, len(content)) as part:
            part.write_bytes(content)
    write_page(page, TITLE, blocks)
    return [*files, page]


def headline(results: Results) -> str:
    """Which method is first on each setting by top-1, its lead over MNL, and which lose to Random.

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
    """The methods that a part compares with one another, with the key of their tests."""
    part = results.protocol.get("part", "all")
    tables: list[tuple[str, Mapping[str, Sequence[str]]]] = []
    if part in TABLE_PARTS:
        tables.append(("methods", TABLE))
    if part in ABLATION_PARTS:
        tables.append(("ablation", {"": ABLATION}))
    return tables


def _contents(results: Results) -> tuple[list[Content], list[Picture]]:
    """The report in order, and every picture; the text shows only those with all panels."""
    measured = Measured(results)
    part = results.protocol.get("part", "all")
    families = _families(results)
    blocks: list[Content] = _run_blocks(results, measured)
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
            blocks += _section(f"Figure: {setting_name(setting)}", [one.figure for one in made[:1]])
            blocks += [panel.table for panel in shown]
            drawn += made
    return blocks, drawn


def _section(title: str, blocks: Sequence[Content]) -> list[Content]:
    """The blocks under a heading; nothing if there are no blocks."""
    return [Heading(title), *blocks] if blocks else []


def _run_blocks(results: Results, measured: Measured) -> list[Content]:
    """The headline, what was run on which data, and by which command."""
    run = results.run
    found = headline(results)
    blocks: list[Content] = [Heading("What was run"), *([found] if found else [])]
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
    """The protocol in words, as far as the results record it."""
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


def _settings_table(settings: Sequence[Setting]) -> ResultTable:
    columns = {"available sets": ",.0f", "sampled sets": ",.0f", "mean items": ".2f",
               "features": ".0f"}  # fmt: skip
    rows = []
    for one in settings:
        numbers = (one.available, one.sets, one.mean_items, one.features)
        cells = [
            Value(float(number), form=form)
            for number, form in zip(numbers, columns.values(), strict=True)
        ]
        rows.append(ResultRow("", setting_name(one), tuple(cells)))
    heads = tuple(("", name) for name in columns)
    return ResultTable("settings", "Data", "data", heads, tuple(rows))


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return str(value)


def _duration(seconds: float | int) -> str:
    """Hours and minutes, or minutes and seconds if there are no hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

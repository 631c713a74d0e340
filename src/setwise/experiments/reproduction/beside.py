"""Our values beside the paper's, with the difference and how sure it is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from setwise.experiments import paper
from setwise.experiments.reproduction.protocol import TABLE
from setwise.experiments.reproduction.results import Method, Setting
from setwise.experiments.reproduction.tables import (
    PAPER_MEASURES,
    Measure,
    Measured,
    Row,
    Table,
    Value,
    display_name,
    setting_name,
)

MARK = "*"
ARTEFACT_NOTE = (
    f"{MARK} Not a ranking by that method but an artefact of how the paper sorted padded arrays; "
    "do not compare. The documentation has the evidence, “What differs from the paper, and why”."
)


def tables_beside_paper(measured: Measured, groups: Mapping[str, Sequence[str]]) -> list[Table]:
    """A table for each setting that the paper has; data of another name are not the paper's."""
    settings = [
        one for one in measured.settings if one.max_items in paper.MAX_ITEMS.get(one.data, ())
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
    (theirs,) = paper.published(
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


def _artefact(one: paper.Published) -> bool:
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

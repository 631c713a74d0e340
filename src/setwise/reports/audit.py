"""An audit as a page: the verdict, every finding, and examples of what was found."""

from pathlib import Path

import numpy as np

from setwise._arguments import checked, instance
from setwise._arguments import path as check_path
from setwise._page import Block, Details, Figure, Heading, PageTable, StyledCell, write_page
from setwise.auditing import CHECKS, Audit, AuditFinding, Verdict
from setwise.auditing.findings import HEADS, NOTHING
from setwise.reports.figures import COLOURS, new_figure, svg_text

SHADES: dict[Verdict, str] = {
    "ok": "0, 158, 115, 0.25", "look": "230, 159, 0, 0.30", "fail": "213, 94, 0, 0.40",
}  # fmt: skip
FILLS: dict[Verdict, str] = {"ok": COLOURS[2], "look": COLOURS[4], "fail": COLOURS[1]}
KINDS: dict[Verdict, str] = {"ok": "note", "look": "warning", "fail": "error"}
EXAMPLE_HEADS = ("set", "row", "what", "before", "after")

ABOUT = (
    "These are checks of economic sanity. A model may predict well and fail them: it then says "
    "wrong things about sets that are unlike those it learned from, such as sets with new prices. "
    "Only a sign that was given, or the choices themselves, can make a finding fail."
)
CAPTION = (
    "The share of sets (of items, for willingness to pay) in which something was found; the colour "
    "is the verdict. Findings of calibration are not shown: they are gaps, not shares."
)


@checked(
    found=instance(Audit, "make one with setwise.audit(model, choices)"),
    path=check_path,
)
def write_audit(found: Audit, path: str | Path) -> None:
    """Write the audit as one HTML page that needs no network, whole or not at all."""
    blocks: list[Block] = [
        f"{found.model} on {found.data}",
        Heading(found.headline(), KINDS[found.verdict]),
        ABOUT,
        _signs(found),
        PageTable(HEADS, [_row(one) for one in found.findings]),
        Figure(shares_picture(found), CAPTION),
    ]
    for check, asks in CHECKS.items():
        some = found.of(check)
        if some:
            blocks += [Heading(check.capitalize()), asks, *_details(some)]
    blocks += [Heading("The limits"), _limits(found)]
    write_page(path, f"Audit of {found.model}", blocks)


def shares_picture(found: Audit) -> str:
    """A bar per finding that has a share."""
    some = [one for one in found.findings if one.check != "calibration" and not np.isnan(one.share)]
    figure = new_figure(7.0, 1.2 + 0.3 * len(some))
    panel = figure.subplots()
    names = [f"{one.check}: {one.subject}" if one.subject else one.check for one in some]
    places = np.arange(len(some))
    shares = [100 * one.share for one in some]
    panel.barh(places, shares, 0.7, color=[FILLS[one.verdict] for one in some])
    panel.set_yticks(places, names, parse_math=False)
    panel.invert_yaxis()
    panel.set_xlim(0, max([1.0, *shares]) * 1.05)
    panel.set_xlabel("share (%)")
    panel.grid(axis="x", alpha=0.3)
    return svg_text(figure)


def _row(one: AuditFinding) -> list[str | StyledCell]:
    verdict = StyledCell(one.verdict, bold=one.verdict != "ok", shade=SHADES[one.verdict])
    return [verdict, one.check, one.subject, one.sentence]


def _signs(found: Audit) -> str:
    words = {1: "should raise", -1: "should lower"}
    said = "; ".join(f"{name} {words[one]} the probability" for name, one in found.signs.items())
    asked = "; ".join(f"{name} {words[one]} it?" for name, one in found.guessed.items())
    text = f"It was said: {said}. " if said else "No sign was given. "
    return text + (f"Guessed from names, as questions: {asked}" if asked else "")


def _details(some: tuple[AuditFinding, ...]) -> list[Block]:
    blocks: list[Block] = []
    for one in some:
        subject = one.subject or "all sets"
        blocks.append(f"{subject}: {one.sentence}")
        if one.examples:
            rows = [
                (each.set, str(each.row), each.what, f"{each.before:.4f}", f"{each.after:.4f}")
                for each in one.examples
            ]
            blocks.append(PageTable(EXAMPLE_HEADS, rows, title="The worst"))
        if one.numbers:
            numbers = [(name, f"{value:.4g}") for name, value in one.numbers.items()]
            table = PageTable(("number", "value"), numbers, "numbers")
            blocks.append(Details(f"Numbers of {subject}", [table]))
    return blocks


def _limits(found: Audit) -> str:
    limits = found.limits
    return (
        f"Changes of a probability below {100 * limits.noticeable:g} % of itself, or below "
        f"{NOTHING:g}, are not counted. A share above {100 * limits.look:g} % is worth a look, and "
        f"above {100 * limits.fail:g} % fails where a sign was given. A gap of calibration above "
        f"{100 * limits.gap:g} points that is more than {limits.errors:g} standard errors is worth "
        "a look, and twice as much fails."
    )

"""An examination as one self-contained HTML page: no request to the network."""

import html
from pathlib import Path

from setwise import _page
from setwise._arguments import checked, instance
from setwise._arguments import path as check_path
from setwise.doctor.examination import SEVERITIES, Examination, Finding

STYLE = """th, td { padding: .35rem .6rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid #8884; }
td.number { text-align: right; white-space: nowrap; }
.bar { display: inline-block; height: .8rem; min-width: 1px; background: #5470c6; }
.bars td { border: 0; padding: .1rem .6rem; }
.error { color: #c62828; } .warning { color: #b26a00; } .note { color: #5470c6; }
"""
BODY = """<p>{summary}</p>
<p>{verdict}. An error is what reading refuses; a warning can be read, but may mislead a model. Rows
count from 0.</p>
{findings}
<h2>Items a set</h2>
<table class="bars"><tbody>{bars}</tbody></table>
"""


@checked(examination=instance(Examination, "make one with setwise.examine(...)"), path=check_path)
def write_page(examination: Examination, path: str | Path) -> None:
    """Write the page, whole or not at all."""
    body = BODY.format(
        summary=html.escape(str(examination.summary)),
        verdict=html.escape(examination.verdict),
        findings="".join(_section(examination, severity) for severity in SEVERITIES),
        bars=_bars(examination),
    )
    _page.write_page(path, f"Examination of {examination.table}", body, STYLE)


def _section(examination: Examination, severity: str) -> str:
    found = [one for one in examination.findings if one.severity == severity]
    if not found:
        return ""
    rows = "".join(f"<tr>{_cells(one)}</tr>" for one in found)
    heads = "".join(f"<th>{head}</th>" for head in ("what", "column", "finding", "where", "remedy"))
    return (
        f'<h2 class="{severity}">{severity.capitalize()}s</h2><div class="scroll">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cells(one: Finding) -> str:
    texts = (one.code, one.column or "", one.message, one.place, one.remedy)
    return "".join(f"<td>{html.escape(text)}</td>" for text in texts)


def _bars(examination: Examination) -> str:
    bars = examination.summary.histogram
    most = max((sets for _, _, sets in bars), default=1) or 1
    return "".join(
        f'<tr><td class="number">{low if low == high else f"{low} to {high}"}</td>'
        f'<td class="number">{sets:,}</td>'
        f'<td><span class="bar" style="width: {30 * sets / most:.2f}rem"></span></td></tr>'
        for low, high, sets in bars
    )

"""What an examination found: findings with their place and remedy, the table in numbers, a page."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from setwise import _page
from setwise._arguments import checked, instance
from setwise._arguments import path as check_path

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or suspicious.

    An "error" is what :func:`setwise.choices.read` refuses. A "warning" can be read, but a model
    of it may be worthless or misleading. A "note" is worth knowing.

    ``rows`` (counted from 0 in the table's order) and ``sets`` (their ids) are the first few
    examples; ``count`` is how many there are in all: rows, sets or levels, as the message says.
    """

    severity: Severity
    code: str
    message: str
    remedy: str
    column: str | None = None
    rows: tuple[int, ...] = ()
    sets: tuple[str, ...] = ()
    count: int = 0

    @property
    def place(self) -> str:
        """The examples in words; empty if the finding has none."""
        parts = []
        if self.rows:
            parts.append(f"row{_s(self.rows)} {_listed(self.rows, self.count)}")
        if self.sets:
            parts.append(f"set{_s(self.sets)} {', '.join(self.sets)}")
        return "; ".join(parts)


@dataclass(frozen=True)
class TableSummary:
    """The table in numbers; ``histogram`` has the least and most items of a bar, and its sets."""

    rows: int
    columns: int
    sets: int = 0
    choices: int | None = None
    smallest: int = 0
    median: float = 0.0
    mean: float = 0.0
    largest: int = 0
    histogram: tuple[tuple[int, int, int], ...] = ()

    def __str__(self) -> str:
        text = f"{self.rows:,} rows, {self.columns} columns, {self.sets:,} sets"
        if self.sets:
            text += (
                f" of {self.smallest} to {self.largest} items "
                f"(median {self.median:g}, mean {self.mean:.1f})"
            )
        return text if self.choices is None else f"{text}, {self.choices:,} choices"


@dataclass(frozen=True)
class Examination:
    """All findings about a table, the worst first.

    >>> from setwise.doctor import examine
    >>> table = {"trip": [1, 1, 2, 2], "cost": [3.0, 1.0, None, 5.0], "taken": [0, 1, 1, 0]}
    >>> print(examine(table, set="trip", chosen="taken"))
    a table: 4 rows, 3 columns, 2 sets of 2 to 2 items (median 2, mean 2.0), 2 choices
    1 error, 0 warnings, 0 notes
    error: column 'cost' is missing or not a number in 1 row (25 %) [row 2; set 2]
      remedy: use impute(cost), or fill it
    """

    table: str
    summary: TableSummary
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What reading would refuse."""
        return self.of("error")

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(one for one in self.findings if one.severity == severity)

    @property
    def verdict(self) -> str:
        """How many findings there are of each severity."""
        counts = {severity: len(self.of(severity)) for severity in SEVERITIES}
        return ", ".join(f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts.items())

    def to_json(self) -> dict[str, Any]:
        """Plain values for programs."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([f"{self.table}: {self.summary}", self.verdict, *self._lines()])

    def _lines(self) -> Iterator[str]:
        for one in self.findings:
            place = f" [{one.place}]" if one.place else ""
            yield f"{one.severity}: {one.message}{place}"
            yield f"  remedy: {one.remedy}"


def counted(count: int, what: str, of: int | None = None) -> str:
    """A number of things, and its share of all of them.

    >>> counted(1, "row"), counted(1200, "set", of=4800), counted(1, "row", of=100_000)
    ('1 row', '1,200 sets (25 %)', '1 row (0.001 %)')
    """
    text = f"{count:,} {what}{'' if count == 1 else 's'}"
    return text if not of else f"{text} ({percent(count / of)})"


def percent(share: float) -> str:
    """A share in percent, in two digits; "99 %" and "100 %" are told apart.

    >>> percent(0.9999), percent(1.0), percent(0.005)
    ('99.99 %', '100 %', '0.5 %')
    """
    if 0.99 < share < 1:
        return f"{100 * share:.2f} %"
    return "100 %" if share >= 0.995 else f"{100 * share:.2g} %"


def _listed(rows: tuple[int, ...], count: int) -> str:
    return ", ".join(map(str, rows)) + (", ..." if count > len(rows) else "")


def _s(several: tuple) -> str:
    return "" if len(several) == 1 else "s"


ABOUT = (
    "An error is what reading refuses. A warning can be read, but may mislead a model. Rows count "
    "from 0."
)
HEADS = ("what", "column", "finding", "where", "remedy")


@checked(examination=instance(Examination, "make one with setwise.examine(...)"), path=check_path)
def write_page(examination: Examination, path: str | Path) -> None:
    """Write the examination as one HTML page that needs no network, whole or not at all."""
    blocks: list[_page.Block] = [str(examination.summary), f"{examination.verdict}. {ABOUT}"]
    for severity in SEVERITIES:
        found = examination.of(severity)
        if found:
            rows = [(one.code, one.column or "", one.message, one.place, one.remedy)
                    for one in found]  # fmt: skip
            blocks.append(_page.Heading(f"{severity.capitalize()}s", severity))
            blocks.append(_page.PageTable(HEADS, rows))
    blocks += [_page.Heading("Items per set"), _histogram(examination.summary)]
    _page.write_page(path, f"Examination of {examination.table}", blocks)


def _histogram(summary: TableSummary) -> _page.PageTable:
    most = max((sets for _, _, sets in summary.histogram), default=1) or 1
    rows = [
        (str(low) if low == high else f"{low} to {high}", f"{sets:,}",
         _page.StyledCell(bar=sets / most))
        for low, high, sets in summary.histogram
    ]  # fmt: skip
    return _page.PageTable(("items", "sets", ""), rows)

"""Results of decisions as plain text."""

from typing import Any

LINES = 12  # of a printed result


def table_text(frame: Any) -> str:
    """The first lines of a frame as plain text, aligned."""
    rows = [frame.columns, *([cell(one) for one in row] for row in frame.head(LINES).rows())]
    widths = [max(len(row[place]) for row in rows) for place in range(len(frame.columns))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    if len(frame) > LINES:
        lines.append(f"and {len(frame) - LINES:,} more")
    return "\n".join(lines)


def cell(value: Any) -> str:
    """A value as a table shows it, with the digits that single precision is sure of.

    >>> cell(0.25), cell(65.06345)
    ('0.2500', '65.06')
    """
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"

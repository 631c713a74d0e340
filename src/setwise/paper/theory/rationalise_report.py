"""Selves that make given choices, and which mechanisms can have such selves: rows, JSON, a page."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from setwise._arguments import checked as checked_arguments
from setwise._arguments import path as check_path
from setwise._page import Block, Heading, PageTable, StyledCell, write_page
from setwise.paper.theory.choice_functions import written
from setwise.paper.theory.mechanisms import (
    Mechanism,
    average_reference,
    ccm,
    has_triple_basis,
    kaneko_nakamura,
    lam,
    mnl,
    nccm,
    triple_basis,
    tversky,
)
from setwise.paper.theory.rationalising import Rationalisation

SET_HEADS = ("set", "choice", "scores", "IIA")
BASIS_HEADS = ("mechanism", "g(x, s)", "triple basis", "selves", "why")
UNDECIDED = (
    "Not decided here: krs, orhun with a learned average, nested logit. Their weights tie the "
    "selves together, so they are not sums of one function over selves."
)
MOST_SELVES = 61
"""Maximum number of selves on the page: a base order and twelve triple bases."""

BLUE, ORANGE = "0, 114, 178", "213, 94, 0"


@dataclass(frozen=True)
class BasisVerdict:
    """Whether a mechanism has a triple basis, of how many selves, and why."""

    mechanism: Mechanism
    selves: int | None
    """None where it has no basis."""
    why: str

    def row(self) -> tuple[str, str, str, str, str]:
        """As text, under :data:`BASIS_HEADS`."""
        found = ("none", "") if self.selves is None else ("yes", str(self.selves))
        return self.mechanism.name, self.mechanism.formula, *found, self.why

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "mechanism": self.mechanism.name,
            "formula": self.mechanism.formula,
            "triple_basis": self.selves is not None,
            "selves": self.selves,
            "why": self.why,
        }


def basis_verdicts() -> list[BasisVerdict]:
    """Each mechanism with its verdict; bases are checked with fractions each time.

    >>> [one.mechanism.name for one in basis_verdicts() if one.selves is None]
    ['ccm', 'lam', 'nccm', 'average_reference', 'mnl']
    """
    known = (
        tversky(), ccm(Fraction(1, 2)), ccm(2), kaneko_nakamura(), ccm(1), lam(), nccm(),
        average_reference(), mnl(),
    )  # fmt: skip
    return [BasisVerdict(one, _selves(one), _why(one)) for one in known]


def set_rows(found: Rationalisation) -> list[tuple[str, str, str, str]]:
    """Every subset of two items or more, the smallest first, as text under :data:`SET_HEADS`."""
    return [
        (
            written(one["set"]), one["choice"],
            ", ".join(f"{name} {score:,}" for name, score in one["scores"].items()),
            "violates" if one["violates"] else "",
        )
        for one in _sets(found)
    ]  # fmt: skip


def checked(found: Rationalisation) -> str:
    """Check all subsets once more, and say so; an error if one is wrong."""
    found.verify()
    subsets = len(found.choice_function.chosen) - 1
    return (
        f"Checked with whole numbers: in each of the {subsets:,} subsets, the choice has strictly "
        "the highest score."
    )


def rationalisation_json(found: Rationalisation) -> dict[str, Any]:
    """Choices, violations, selves and scores as plain values."""
    c = found.choice_function
    return {
        "items": list(c.items),
        "rho": found.rho,
        "order": list(found.order),
        "violations": [list(subset) for subset in c.violations()],
        "selves": found.dimension,
        "bases": [one._asdict() | {"subset": list(one.subset)} for one in found.bases],
        "utilities": [list(row) for row in found.utilities],
        "sets": _sets(found),
        "checked": checked(found),
    }


@checked_arguments(path=check_path)
def write_rationalisation(found: Rationalisation, path: str | Path) -> None:
    """Write the selves as one HTML page that needs no network, whole or not at all."""
    c = found.choice_function
    rows = set_rows(found)
    blocks: list[Block] = [
        f"A choice function says what is chosen from every subset of items. This one has "
        f"{len(c.items)} items and {len(rows):,} sets of two or more, of which "
        f"{len(c.violations()):,} violate independence of irrelevant alternatives (IIA): what is "
        "chosen from some larger set is still there, and is not chosen. No single utility can do "
        "that. Several selves can.",
        Heading("The selves"),
        "Each self has a utility for every item. A self for whom the items of a set differ much "
        f"speaks louder: an item's score is g(x, s) = {tversky(found.rho).formula}.",
        _heat_map(found),
        _selves_caption(found),
        Heading("Every set"),
        PageTable(SET_HEADS, rows, marked={i for i, row in enumerate(rows) if row[3]}),
        _sets_caption(found),
        checked(found),
    ]
    write_page(path, "Every choice function is an aggregation", blocks)


def _sets(found: Rationalisation) -> list[dict[str, Any]]:
    c = found.choice_function
    violates = c.violates()
    masks = sorted(range(1, len(c.chosen)), key=lambda mask: (mask.bit_count(), mask))
    return [
        {
            "set": list(c.subset(mask)),
            "choice": c.items[c.chosen[mask]],
            "scores": found.scores(c.subset(mask)),
            "violates": bool(violates[mask]),
        }
        for mask in masks
        if mask.bit_count() > 1
    ]


def _heat_map(found: Rationalisation) -> PageTable:
    """Every self's utilities, each shaded by its size within its row."""
    notes = {0: "base order: " + " > ".join(found.order)} | {
        1 + 5 * number: f"{written(one.subset)} → {one.choice}"
        for number, one in enumerate(found.bases)
    }
    rows: list[list[str | StyledCell]] = []
    for number, utilities in enumerate(found.utilities[:MOST_SELVES]):
        most = max(abs(value) for value in utilities) or 1
        shaded = [
            StyledCell(
                f"{value:,}",
                shade=f"{BLUE if value > 0 else ORANGE}, {0.6 * abs(value) / most:.2f}",
            )
            for value in utilities
        ]
        rows.append([str(number + 1), *shaded, notes.get(number, "")])
    return PageTable(("self", *found.choice_function.items, "what it is for"), rows)


def _selves_caption(found: Rationalisation) -> str:
    text = (
        "One row per self, one column per item. Blue: the self likes the item; orange: it dislikes "
        "it; the darker the more, row by row. The first self is the base order, which alone is "
        "right wherever IIA holds. "
    )
    if found.bases:
        first = found.bases[0]
        text += (
            f"The five selves after it make {first.choice} win from {written(first.subset)}. On "
            "every set that has an item from outside that set they cancel exactly, and so change "
            "nothing. "
        )
    left = found.dimension - MOST_SELVES
    more = f" {left:,} more are not shown; the JSON of the command has all." if left > 0 else ""
    return f"{text}There are {found.dimension:,} in all.{more}"


def _sets_caption(found: Rationalisation) -> str:
    text = "The item with the highest score is chosen. Sets that violate IIA are shaded. "
    violations = found.choice_function.violations()
    if not violations:
        return f"{text}Here none is: one order explains all choices."
    c = found.choice_function
    small = set(violations[0])
    larger = next(
        c.subset(mask) for mask in range(len(c.chosen))
        if small < set(c.subset(mask)) and c.choice(c.subset(mask)) in small - {c.choice(small)}
    )  # fmt: skip
    return (
        f"{text}For example: from {written(larger)} people choose {c.choice(larger)}. Take "
        f"{' and '.join(one for one in larger if one not in small)} away, which they did not "
        f"choose, and they choose {c.choice(small)}."
    )


def _selves(mechanism: Mechanism) -> int | None:
    return len(triple_basis(mechanism).utilities) if has_triple_basis(mechanism) else None


def _why(mechanism: Mechanism) -> str:
    if mechanism.kind == "range":
        return (
            "A self is as loud as its utilities differ in the set: selves can cancel wherever x3 "
            "is, and lean to x1 where it is not."
        )
    if mechanism.kind == "pairs":
        return (
            "Proved: on two items only differences of utilities count, so that x1's lead over x2 "
            "is its lead over x3 less x2's lead over x3; a basis needs both to be 0."
        )
    if mechanism.product or mechanism.rho < 1:
        size = "Two small gains over the least count for more than one gain as large as both"
    else:
        size = "One large gain over the least counts for more than two gains of half its size"
    return f"{size}: selves can tie wherever x3 is, and lean to x1 where it is not."

"""Which item of each set was chosen, and what becomes of sets with none or several."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from setwise._arguments import one_of
from setwise._errors import InputError
from setwise._shapes import Bool
from setwise.choices.choices import Choices
from setwise.choices.tables import Table


@dataclass(frozen=True)
class Irregular:
    """What to do with sets and rows that a choice model cannot take as they are."""

    on_none: Literal["error", "drop", "outside"] = "error"
    on_multiple: Literal["error", "drop"] = "error"
    on_duplicate: Literal["error", "drop", "keep"] = "error"

    def __post_init__(self) -> None:
        allowed = {
            "on_none": ("error", "drop", "outside"),
            "on_multiple": ("error", "drop"),
            "on_duplicate": ("error", "drop", "keep"),
        }
        for name, values in allowed.items():
            one_of(*values)(name, getattr(self, name))


def marks(table: Table, name: str) -> Bool[np.ndarray, " rows"]:
    """The chosen column as booleans, refusing anything but 0 and 1."""
    column = table.column(name, "chosen")
    if column.kind != "number":
        raise InputError(
            f"chosen column '{name}' is a {column.kind}, such as '{column.text()[0]}' at row 0; it "
            "must hold 0 and 1, or booleans"
        )
    wrong = ~np.isin(column.values, (0, 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"chosen column '{name}' is {column.values[row]:g} at row {row}; each row needs 0 or 1"
        )
    return column.values == 1


def with_choice(
    choices: Choices, marked: Bool[np.ndarray, " rows"], irregular: Irregular
) -> Choices:
    """Find the chosen item of each set; refuse, drop or give to the outside option the rest."""
    counts = np.add.reduceat(marked.astype(np.int64), choices.offsets[:-1])
    several, none = counts > 1, counts == 0
    name = choices.roles.set
    if several.any() and irregular.on_multiple == "error":
        which = int(np.argmax(several))
        raise InputError(
            f"set '{name}'={choices.set_ids[which]} has {counts[which]} chosen items; each set "
            'needs exactly one (use on_multiple="drop" to skip such sets)'
        )
    if none.any() and irregular.on_none == "error" and not choices.outside:
        raise InputError(
            f"set '{name}'={choices.set_ids[np.argmax(none)]} has no chosen item; each set needs "
            'exactly one (use on_none="drop" to skip such sets, or on_none="outside" if choosing '
            "nothing was possible)"
        )
    position = np.arange(len(marked)) - np.repeat(choices.offsets[:-1], choices.sizes)
    chosen = np.where(none, choices.sizes, 0)
    sets = np.repeat(np.arange(len(choices)), choices.sizes)
    chosen[sets[marked]] = position[marked]
    outside = choices.outside and irregular.on_none != "drop"
    keep = ~several if outside else ~several & ~none
    dropped = replace(
        choices.dropped,
        without_choice=0 if outside else int(none.sum()),
        several_choices=int(several.sum()),
    )
    if not keep.any():
        raise InputError("no set is left: every set has no or several chosen items")
    whole = replace(choices, chosen=chosen, dropped=dropped)
    return whole if keep.all() else whole.take(np.flatnonzero(keep))

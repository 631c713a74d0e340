"""Features that nearly determine the choice: known only after it, as a rule.

Asked of sets with exactly one choice in which the items differ in the feature. A score tells the
choice if the chosen item alone is first in 95 % of them, or if it beats 97 % of the other items
(ties count half), so that a mark on the chosen item and on a few others is found as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise.doctor.examination import Finding, percent
from setwise.doctor.examined import Examined

FIRST = 0.95
BEATEN = 0.97
ALIKE = 0.9
FEWEST_SETS = 20
REMEDY = "leave it out if it is known only after the choice"


def leak(one: Examined, exact: bool = False) -> Iterator[Finding]:
    """The first way, of those below, in which the feature tells the choice.

    With ``exact``, only what tells it without error, in most sets.
    """
    if one.role != "item" or one.sets.marks is None or one.empty:
        return
    for way in (_copy, _extreme, _presence, _level):
        finding = way(one, exact)
        if finding is not None:
            yield finding
            return


def _copy(one: Examined, exact: bool) -> Finding | None:
    """Two values, one of which marks nearly the same rows as the chosen column does."""
    marks = one.sets.marks
    assert marks is not None
    low, high = one.lowest.min(), one.highest.max()
    if one.kind != "number" or not low < high or not marks.any():
        return None
    for value in (high, low):
        same = one.values == value
        both = int((same & marks).sum())
        either = int(same.sum()) + int(marks.sum()) - both
        if both >= (1 if exact else ALIKE) * either and either >= FEWEST_SETS:
            return Finding(
                "warning", "copy-of-chosen",
                f"column '{one.name}' is {value:g} where an item was chosen, and nowhere else"
                if both == either else
                f"column '{one.name}' is {value:g} where an item was chosen, and nearly nowhere "
                f"else ({percent(both / either)} of the rows with either)",
                "leave it out: it is the choice itself", one.name, count=both,
            )  # fmt: skip
    return None


def _extreme(one: Examined, exact: bool) -> Finding | None:
    """The chosen item has the largest, or the smallest, value of its set."""
    if one.kind == "category":
        return None
    asked = one.sets.telling & (one.highest > one.lowest)
    told = _Told(one, asked, one.sets.telling, one.values)
    return told.finding(exact, "the largest value", "the smallest value")


def _presence(one: Examined, exact: bool) -> Finding | None:
    """The chosen item has a value where others have none, or none where others have one."""
    if not one.any_missing:
        return None
    asked = one.sets.telling & (one.present > 0) & (one.present < one.sets.sizes)
    there = (~one.missing).astype(np.float64)
    return _Told(one, asked, one.sets.telling, there).finding(exact, "a value", "none")


def _level(one: Examined, exact: bool) -> Finding | None:
    """The chosen item has the level that was chosen most often in *other* sets.

    Rates are learned on every second set and asked of the rest, so that levels seen once or twice
    do not tell the choice by themselves.
    """
    codes, marks = one.codes, one.sets.marks
    if codes is None or codes.max() < 1 or marks is None:
        return None
    sets, finding = one.sets, None
    for half in (0, 1) if exact else (0,):
        learned = np.arange(len(sets)) % 2 == half
        score = rates(marks, codes, sets.spread(learned))[codes]
        others = sets.telling & ~learned
        asked = others & (sets.highest(score) > sets.lowest(score))
        told = _Told(one, asked, others, score)
        finding = told.finding(exact, "the level most often chosen elsewhere", None)
        if finding is None:
            return None
    return finding


def rates(
    marks: Bool[np.ndarray, " rows"],
    codes: Int[np.ndarray, " rows"],
    learned: Bool[np.ndarray, " rows"],
) -> Float[np.ndarray, " levels"]:
    """How often each level is chosen, drawn towards the mean; the last entry is for missing."""
    levels = int(codes.max()) + 2
    places = np.where(codes < 0, levels - 1, codes)
    seen = np.bincount(places[learned], minlength=levels)
    chosen = np.bincount(places[learned & marks], minlength=levels)
    return (chosen + marks.mean()) / (seen + 1)


@dataclass(frozen=True, eq=False)
class _Told:
    """How well a score tells the chosen item in the sets asked, of those that may be asked."""

    one: Examined
    asked: Bool[np.ndarray, " sets"]
    possible: Bool[np.ndarray, " sets"]
    score: Float[np.ndarray, " rows"]

    def finding(self, exact: bool, largest: str, smallest: str | None) -> Finding | None:
        """A finding if the chosen item's score is nearly always the largest, or the smallest."""
        sets, score, asked, number = self.one.sets, self.score, self.asked, int(self.asked.sum())
        if number < FEWEST_SETS or (exact and 2 * number < self.possible.sum()):
            return None
        own = score[sets.chosen_at]
        against = sets.spread(own)
        above, below = sets.total(score < against), sets.total(score > against)
        # Items without a score are not compared with; a chosen item without one is like the others.
        others = np.maximum(sets.total(~np.isnan(score)) - 1, 1)
        beaten = np.where(np.isnan(own), 0.5, 0.5 + (above - below) / (2 * others))[asked]
        for how, first, share in (
            (largest, (above == others)[asked], float(beaten.mean())),
            (smallest, (below == others)[asked], 1 - float(beaten.mean())),
        ):
            if how is None:
                continue
            if first.all():
                where = "where" if exact else f"in the {number:,} sets in which"
                told = (
                    f"column '{self.one.name}' tells the choice without error: {where} items "
                    f"differ in it, the chosen item alone has {how}"
                )
            elif not exact and (first.mean() >= FIRST or share >= BEATEN):
                told = (
                    f"column '{self.one.name}' nearly tells the choice: of the {number:,} sets in "
                    f"which items differ, the chosen item alone has {how} in "
                    f"{percent(float(first.mean()))}; it is told from {percent(share)} of the "
                    "other items"
                )
            else:
                continue
            return Finding("warning", "leak", told, REMEDY, self.one.name, **sets.sets_where(asked))
        return None

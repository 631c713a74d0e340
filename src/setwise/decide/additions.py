"""Which item to add so that another wins, which one harms it, and what more items earn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._arguments import checked, each, optional, whole
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise._shapes import Bool, Float, Int, Shaped
from setwise.decide.assortment import Assortment, assortment, row_model, set_values
from setwise.decide.candidates import Candidates, Value
from setwise.decide.result_tables import LINES, cell, table_text


@dataclass(frozen=True, eq=False)
class Additions:
    """One row per item that could be added to its set, or removed: what becomes of the target."""

    set_column: str
    set_ids: Shaped[np.ndarray, " rows"]
    row: Int[np.ndarray, " rows"]
    """The item's place in the table."""
    added: Bool[np.ndarray, " rows"]
    """Whether the item is added; else it is removed."""
    before: Float[np.ndarray, " rows"]
    """P(target) in the set as it is."""
    after: Float[np.ndarray, " rows"]
    """P(target) with the item added, or removed."""
    under_iia: Float[np.ndarray, " rows"]
    """What P(target) would be if the item took from all others, or left to them, in proportion."""

    @property
    def change(self) -> Float[np.ndarray, " rows"]:
        """P(target) after, less that before."""
        return self.after - self.before

    @property
    def context_effect(self) -> Float[np.ndarray, " rows"]:
        """P(target) after, less what it would be in proportion: what no plain logit can have."""
        return self.after - self.under_iia

    def to_frame(self) -> Any:
        """A Polars frame, the changes that help the target most first."""
        import polars as pl

        columns = {
            self.set_column: self.set_ids, "row": self.row,
            "step": np.where(self.added, "add", "remove"), "before": self.before,
            "after": self.after, "change": self.change, "context_effect": self.context_effect,
        }  # fmt: skip
        return pl.DataFrame(columns).sort("change", descending=True, maintain_order=True)

    def _repr_html_(self) -> str:
        frame = self.to_frame().head(LINES)
        return notebook_html(frame.columns, [[cell(one) for one in row] for row in frame.rows()])

    def __str__(self) -> str:
        return table_text(self.to_frame())


def additions(model: Any, items: Any, target: Any, *, shown: Any = None) -> Additions:
    """What adding and removing each item does to the probability that a target is chosen.

    Additions that raise it are decoys: no model with IIA has them. ``context_effect`` says how far
    the target moves beyond what IIA would allow.

    Args:
        model: a fitted estimator, or a :class:`setwise.scoring.Scorer`.
        items: a table with the items of one set or of many, and those that could be added.
        target: the items that should win: a 0/1 column, one flag per row, or values of columns.
        shown: the items that are shown now, in the same forms, such as the ``shown`` of an
            assortment; by default all, and then removals alone are tried.

    >>> import setwise as sw
    >>> trips = sw.datasets.load("modecanada").sample(400)
    >>> one = trips.limit(min_items=4)[:1]
    >>> found = additions(sw.MNL().fit(trips), one, {"is_air": 1}, shown={"is_bus": 0})
    >>> frame = found.to_frame()
    >>> frame["step"].to_list().count("add"), bool((abs(frame["context_effect"]) < 1e-6).all())
    (1, True)
    """
    candidates = Candidates.read(row_model(model), items)
    sets = set_values(model, candidates, None)
    rows, present = candidates.rows, candidates.present
    wins = present & candidates.flags("target", target)[rows]
    flags = np.ones(len(candidates.values), bool)
    if shown is not None:
        flags = candidates.flags("shown", shown)
    now = present & flags[rows]
    bad = ~(wins & now).any(1)
    if bad.any():
        which = candidates.choices.set_ids[int(np.argmax(bad))]
        raise InputError(
            f"set '{candidates.choices.roles.set}'={which} shows no item of target= "
            f"({int(bad.sum()):,} such sets in all); name one that is shown, or leave them out",
            set=which,
        )
    every = np.arange(len(candidates))
    before = sets.probabilities(every, now)
    of_target = np.where(wins, before, 0.0).sum(1)
    owner, place = np.nonzero(present & ~(wins & now))
    added = ~now[owner, place]
    changed = now[owner].copy()
    changed[np.arange(len(owner)), place] = added
    after = sets.probabilities(owner, changed)
    # An item of the target that is added counts with the target.
    win = np.where(wins[owner], after, 0.0).sum(1)
    mine, was = after[np.arange(len(owner)), place], before[owner, place]
    whole = of_target[owner]
    in_proportion = np.where(added, whole * (1 - mine), whole / np.maximum(1 - was, 1e-12))
    in_proportion += np.where(added & wins[owner, place], mine, 0.0)
    return Additions(
        candidates.choices.roles.set, candidates.choices.set_ids[owner],
        candidates.choices.rows[rows[owner, place]], added, whole, win, in_proportion,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class BySize:
    """The best sets of each number of items, and what they earn."""

    counts: tuple[int, ...]
    assortments: tuple[Assortment, ...]

    @property
    def expected(self) -> Float[np.ndarray, " counts"]:
        """What the best sets of so many items earn, on average over contexts."""
        return np.array([float(one.expected.mean()) for one in self.assortments])

    def to_frame(self) -> Any:
        """A Polars frame: items, expected, and the loss against the best number of items."""
        import polars as pl

        best = self.expected.max()
        columns = {"items": list(self.counts), "expected": self.expected}
        return pl.DataFrame(columns | {"loss": best - self.expected})

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        return notebook_html(frame.columns, [[cell(one) for one in row] for row in frame.rows()])

    def __str__(self) -> str:
        return table_text(self.to_frame())


@checked(counts=optional(each(whole())))
def by_size(
    model: Any, items: Any, value: Value = 1.0, counts: Sequence[int] | None = None, **limits: Any
) -> BySize:
    """What the best set of exactly so many items earns, for several numbers of items.

    Args:
        model, items, value: as in :func:`assortment`.
        counts: numbers of items; by default 1 to the number of candidates of the smallest context,
            at most 12.
        limits: the other arguments of :func:`assortment`, but at_least and at_most.

    >>> import setwise as sw
    >>> trips = sw.datasets.load("modecanada").sample(400)
    >>> found = by_size(sw.MNL().fit(trips), trips[:5], "cost", [1, 2])
    >>> found.to_frame()["loss"][0]  # where nobody can choose nothing, one item is best
    0.0
    """
    if counts is None:
        smallest = int(Candidates.read(row_model(model), items).sizes.min())
        counts = range(1, min(12, smallest) + 1)
    found = [
        assortment(model, items, value, at_least=int(one), at_most=int(one), **limits)
        for one in counts
    ]
    return BySize(tuple(int(one) for one in counts), tuple(found))

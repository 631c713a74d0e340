"""What sets earn, and how sure the model is of it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise import _segments
from setwise._arguments import checked, seed
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise._shapes import Bool, Float
from setwise.choices import Choices
from setwise.decide.assortment import row_model
from setwise.decide.candidates import Candidates, Value
from setwise.decide.set_values import ModelSets, without_engine
from setwise.decide.sureness import opinions

PAIR = 2


@dataclass(frozen=True, eq=False)
class Earnings:
    """What each set earns on average, beside other sets of the same candidates."""

    each: Float[np.ndarray, " sets"]
    """Of each set."""
    other: Float[np.ndarray, " sets"] | None
    """Of the sets it is compared with."""
    spread: float | None
    """Of the mean: the standard deviation over ``opinions``."""
    gain_spread: float | None
    """Of the mean gain over the other sets."""
    opinions: str
    """What the spread is over, such as "100 draws of the estimates"; "" if there are none."""

    @property
    def mean(self) -> float:
        """What a set earns on average."""
        return float(self.each.mean())

    @property
    def gain(self) -> float | None:
        """How much more that is than the other sets earn."""
        return None if self.other is None else float((self.each - self.other).mean())

    def to_frame(self) -> Any:
        """A Polars frame, one row per set: earned, and other where there are such."""
        import polars as pl

        more = {} if self.other is None else {"other": self.other}
        return pl.DataFrame({"earned": self.each} | more)

    def _repr_html_(self) -> str:
        return notebook_html([], [], title=str(self))

    def __str__(self) -> str:
        said = f"{self.mean:.4g}{_plus_minus(self.spread)} per set"
        if self.gain is not None:
            said += f", {self.gain:+.4g}{_plus_minus(self.gain_spread)} against the other sets"
        sure = (
            f"one standard deviation over {self.opinions}"
            if self.opinions
            else ("how sure that is, this model does not say")
        )
        return f"{said} ({sure})"


def _plus_minus(spread: float | None) -> str:
    return "" if spread is None else f" ± {spread:.2g}"


@checked(seed=seed)
def earnings(
    model: Any,
    items: Any,
    value: Value = 1.0,
    *,
    shown: Any = None,
    against: Any = None,
    seed: int = 0,
) -> Earnings:
    """What sets earn per choice, with how sure the model is of it.

    The spread is that of the mean over draws of a logit's estimates, or over the members of an
    ensemble. It does not say how wrong the model may be, and a set that was chosen because it earns
    most in the model's eyes earns a little less on average in truth.

    Args:
        model: a fitted estimator, or a :class:`setwise.scoring.Scorer`, which has no spread.
        items: the table of candidates, as for :func:`assortment`.
        value: what each item earns, as for :func:`assortment`.
        shown: the items that are shown: the ``shown`` of an assortment, a 0/1 column, flags, or
            values of columns; by default all.
        against: the items of other sets to compare with, in the same forms.
        seed: of the draws of the estimates.

    >>> import setwise as sw
    >>> trips = sw.datasets.load("modecanada").sample(400)
    >>> found = earnings(sw.MNL().fit(trips), trips[:50], "cost", against={"is_air": 0})
    >>> found.opinions, found.gain > 0
    ('100 draws of the estimates', True)
    """
    candidates = Candidates.read(row_model(model), items, value)
    sets = ModelSets(without_engine(model), candidates)
    every = np.arange(len(candidates))
    flags = [_flags(candidates, "shown", shown)]
    if against is not None:
        flags.append(_flags(candidates, "against", against))
    each = [sets.expected(every, candidates.present & one[candidates.rows]) for one in flags]
    parts = [restricted(candidates.choices, one) for one in flags]
    known = opinions(model, parts, seed)
    other = each[1] if len(each) == PAIR else None
    if known is None:
        return Earnings(each[0], other, None, None, "")
    means = [
        p @ candidates.values[one] / len(candidates)
        for p, one in zip(known.probability, flags, strict=True)
    ]
    gain = float(known.spread(means[0] - means[1])) if len(means) == PAIR else None
    return Earnings(each[0], other, float(known.spread(means[0])), gain, known.of)


def restricted(choices: Choices, flags: Bool[np.ndarray, " rows"]) -> Choices:
    """The same sets with these rows alone; what was chosen is no longer known."""
    sizes = np.bincount(_segments.owners(choices.offsets)[flags], minlength=len(choices))
    return replace(
        choices,
        columns={name: column.take(flags) for name, column in choices.columns.items()},
        offsets=_segments.offsets_of(sizes),
        table_rows=choices.cells[flags],
        chosen=None,
        fold=None,
    )


def _flags(candidates: Candidates, name: str, given: Any) -> Bool[np.ndarray, " rows"]:
    if given is None:
        return np.ones(len(candidates.values), bool)
    flags = candidates.flags(name, given)
    empty = ~_segments.maxima(flags, candidates.choices.offsets)
    if empty.any():
        which = candidates.choices.set_ids[int(np.argmax(empty))]
        raise InputError(
            f"{name}= leaves nothing in set '{candidates.choices.roles.set}'={which} "
            f"({int(empty.sum()):,} such sets in all); show an item of each", set=which,
        )  # fmt: skip
    return flags

"""Features that nearly determine the choice: known only after it, as a rule.

Asked of sets with exactly one choice in which the items differ in the feature. A score tells the
choice if the chosen item alone is first in 95 % of them, or if it beats 97 % of the other items
(ties count half), so that a mark on the chosen item and on a few others is found as well.

Columns that hold the answer: with the alternative of each row they determine the choice.

After ``pd.wide_to_long`` the column that says what was chosen stands on every row: it is the same
for all items of a set, and with a column that names the alternatives it tells the choice. Two ways
are looked for, in sets with exactly one choice: its value is that of the chosen row in another
column; or each of its values goes with one alternative, which is then always the chosen one.

Neither may fail in a single set, and each has to say far more than how often the alternatives are
chosen does (rates are learned on every second set, and asked of the others). In the second way only
values count that many sets have: names that occur a few times determine anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from setwise import _segments
from setwise._shapes import Bool, Float, Int, Shaped
from setwise.choices import Choices
from setwise.choices.choices import Column
from setwise.doctor.columns import ExaminedFeature, ExaminedSets, features_of
from setwise.doctor.report import Finding, percent

FIRST = 0.95
BEATEN = 0.97
ALIKE = 0.9
FEWEST_SETS = 20
REMEDY = "leave it out if it is known only after the choice"


def leak(one: ExaminedFeature, exact: bool = False) -> Iterator[Finding]:
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


def _copy(one: ExaminedFeature, exact: bool) -> Finding | None:
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


def _extreme(one: ExaminedFeature, exact: bool) -> Finding | None:
    """The chosen item has the largest, or the smallest, value of its set."""
    if one.kind == "category":
        return None
    asked = one.sets.telling & (one.highest > one.lowest)
    told = _Told(one, asked, one.sets.telling, one.values)
    return told.finding(exact, "the largest value", "the smallest value")


def _presence(one: ExaminedFeature, exact: bool) -> Finding | None:
    """The chosen item has a value where others have none, or none where others have one."""
    if not one.any_missing:
        return None
    asked = one.sets.telling & (one.present > 0) & (one.present < one.sets.sizes)
    there = (~one.missing).astype(np.float64)
    return _Told(one, asked, one.sets.telling, there).finding(exact, "a value", "none")


def _level(one: ExaminedFeature, exact: bool) -> Finding | None:
    """The chosen item has the level that was chosen most often in *other* sets.

    Rates are learned on every second set and asked of the rest, so that levels seen once or twice
    do not tell the choice by themselves.
    """
    codes, marks = one.codes, one.sets.marks
    if codes is None or codes.max() < 1 or marks is None:
        return None
    sets, offsets, finding = one.sets, one.sets.offsets, None
    for half in (0, 1) if exact else (0,):
        learned = np.arange(len(sets)) % 2 == half
        score = rates(marks, codes, _segments.spread(learned, offsets))[codes]
        others = sets.telling & ~learned
        differs = _segments.maxima(score, offsets) > _segments.minima(score, offsets)
        asked = others & differs
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

    one: ExaminedFeature
    asked: Bool[np.ndarray, " sets"]
    possible: Bool[np.ndarray, " sets"]
    score: Float[np.ndarray, " rows"]

    def finding(self, exact: bool, largest: str, smallest: str | None) -> Finding | None:
        """A finding if the chosen item's score is nearly always the largest, or the smallest."""
        sets, score, asked, number = self.one.sets, self.score, self.asked, int(self.asked.sum())
        if number < FEWEST_SETS or (exact and 2 * number < self.possible.sum()):
            return None
        own, offsets = score[sets.chosen_at], sets.offsets
        against = _segments.spread(own, offsets)
        above = _segments.sums(score < against, offsets)
        below = _segments.sums(score > against, offsets)
        # Items without a score are not compared with; a chosen item without one is like the others.
        others = np.maximum(_segments.sums(~np.isnan(score), offsets) - 1, 1)
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


SETS = 10_000
ROWS = 100_000
FIRST_SETS = 200  # nearly all pairs of columns fail in these
SURPRISE = 25.0  # nats beyond what the rates of alternatives say: e**-25 by chance
REPEATED = 10  # sets that share a value, for it to count


@dataclass(frozen=True, eq=False)
class ChoiceLeak:
    """A column that determines the choice, with that of the alternatives (or several, or none)."""

    column: str
    alternatives: tuple[str, ...]
    equal: bool
    """Whether its value is that of the chosen row; else each value goes with one alternative."""

    def __str__(self) -> str:
        text = f"column '{self.column}' gives the choice away: it is the same for all items of a "
        if not self.alternatives:
            return text + "set, and tells at which place of its set the chosen row stands"
        names = ", ".join(f"'{name}'" for name in self.alternatives)
        if self.equal:
            return text + f"set, and equals {names} of the chosen item"
        return text + f"set, and with {names} it tells the chosen item"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return f"leave '{self.column}' out of items and context"

    def finding(self) -> Finding:
        """For an examination."""
        return Finding("warning", "leak", str(self), self.remedy, self.column)


@dataclass
class ChoiceLeaks:
    """Columns of sets at even distances, and which of them hold the answer."""

    sets: ExaminedSets
    fixed: dict[str, Column] = field(default_factory=dict)
    """Columns that are the same for all items of each set: one value per set."""
    varying: dict[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        telling = np.flatnonzero(self.sets.telling)
        step = max(1, -(-len(telling) // SETS), -(-self.sets.rows // ROWS))
        self._taken: Int[np.ndarray, " sets"] = telling[::step]
        sizes = self.sets.sizes[self._taken]
        starts = np.cumsum(sizes) - sizes
        self._rows: Int[np.ndarray, " rows"] = np.arange(sizes.sum()) - np.repeat(
            starts - self.sets.offsets[self._taken], sizes
        )
        self._starts, self._sizes = starts, sizes
        self._known: dict[tuple[tuple[str, ...], int], Int[np.ndarray, " rows"]] = {}
        self._chosen = starts + self.sets.chosen_at[self._taken] - self.sets.offsets[self._taken]

    def add(self, one: ExaminedFeature) -> None:
        """Take a feature in, unless it has missing values or tells the choice by itself."""
        if not len(self._taken):
            return
        column = one.column.take(self._rows)
        if column.missing.any():
            return
        first = column.values[self._starts]
        if (np.repeat(first, self._sizes) == column.values).all():
            self.fixed[one.name] = Column(first, column.levels)
        elif one.role == "item":
            self.varying[one.name] = column

    def found(self, leaks: tuple[str, ...] = (), certain: bool = True) -> Iterator[ChoiceLeak]:
        """The columns that hold the answer; those that leak by themselves are not looked at.

        Without ``certain`` it is enough that no set contradicts.
        """
        if not self.fixed or not len(self._taken):
            return
        others: list[tuple[str, ...]]
        others = [(name,) for name in self.varying if name not in leaks]
        two = tuple(name for (name, *_) in others if _two(self.varying[name].values))
        others += [two] if len(two) > 1 else []
        for name, column in self.fixed.items():
            if (column.values == column.values[0]).all():
                continue
            equal = [names for names in others if self._equal(column, names, certain)]
            if equal:
                yield ChoiceLeak(name, equal[0], equal=True)
                continue
            surprise = {names: self._mapped(column, names, certain) for names in (*others, ())}
            best = max(surprise, key=lambda names: surprise[names])
            if surprise[best] > SURPRISE:
                yield ChoiceLeak(name, best, equal=False)

    def _codes(self, names: tuple[str, ...], sets: int) -> Int[np.ndarray, " rows"]:
        """The alternative of each row by these columns together; by none, its place in the set."""
        rows = int(self._sizes[:sets].sum())
        if (names, rows) not in self._known:
            codes = np.arange(rows) - np.repeat(self._starts[:sets], self._sizes[:sets])
            for number, name in enumerate(names):
                own = _codes(self.varying[name].values[:rows])
                codes = own if number == 0 else _codes(codes * (own.max() + 1) + own)
            self._known[names, rows] = codes
        return self._known[names, rows]

    def _equal(self, fixed: Column, names: tuple[str, ...], certain: bool) -> bool:
        """Whether the chosen row has this value in the other column, in every set."""
        both = comparable(fixed, self.varying[names[0]]) if len(names) == 1 else None
        if both is None:
            return False
        mine, theirs = both
        if not (mine[:FIRST_SETS] == theirs[self._chosen[:FIRST_SETS]]).all():
            return False
        if not (mine == theirs[self._chosen]).all():
            return False
        matching = np.repeat(mine, self._sizes) == theirs
        return not certain or self._surprise(names, matching, np.ones(len(mine), bool)) > SURPRISE

    def _mapped(self, fixed: Column, names: tuple[str, ...], certain: bool) -> float:
        """How much is said by each value's going with one alternative, always the chosen one.

        Nothing if it is not so in a single set, or if most sets have values of their own.
        """
        values = _codes(fixed.values)
        often = np.bincount(values)[values] >= REPEATED
        if certain and 2 * often.sum() < len(values):
            return 0.0
        goes_with = np.full(int(values.max()) + 1, -1)
        for sets in (FIRST_SETS, len(values)):
            codes = self._codes(names, sets)
            chosen = codes[self._chosen[:sets]]
            goes_with[values[:sets]] = chosen
            if not (goes_with[values[:sets]] == chosen).all():
                return 0.0
        if not certain:
            return np.inf
        matching = np.repeat(goes_with[values], self._sizes) == codes
        return self._surprise(names, matching, often)

    def _surprise(
        self,
        names: tuple[str, ...],
        matching: Bool[np.ndarray, " rows"],
        counted: Bool[np.ndarray, " sets"],
    ) -> float:
        """How improbable it is that all chosen rows match, by the rates of their alternatives."""
        codes = self._codes(names, len(self._taken))
        asked = counted & (np.arange(len(self._taken)) % 2 == 1)
        learned = np.repeat(np.arange(len(self._taken)) % 2 == 0, self._sizes)
        marks = np.zeros(len(codes), bool)
        marks[self._chosen] = True
        rate = rates(marks, codes, learned)[codes]
        share = np.add.reduceat(rate * matching, self._starts) / np.add.reduceat(rate, self._starts)
        return float(-np.log(share[asked]).sum())


def giveaways(choices: Choices) -> list[Finding]:
    """Columns that tell the choice of these training sets without error, in a sample of them.

    It is cheap enough for every fit: nearly all columns fail in the first sets. Sets that chose the
    worst item are not looked at.
    """
    choices = choices.of_best()
    few = _sample(choices, FIRST_SETS)
    sets = ExaminedSets.of_choices(few)
    suspects, answers = set(), ChoiceLeaks(sets)
    for one in features_of(few, sets):
        answers.add(one)
        if any(leak(one, exact=True)):
            suspects.add(one.name)
    if not suspects and not any(answers.found(certain=False)):
        return []
    many = _sample(choices, SETS)
    sets = ExaminedSets.of_choices(many)
    findings: list[Finding] = []
    answers = ChoiceLeaks(sets)
    for one in features_of(many, sets):
        if one.name in suspects:
            findings += leak(one, exact=True)
        answers.add(one)
    leaks = tuple(finding.column for finding in findings if finding.column)
    return [*findings, *(answer.finding() for answer in answers.found(leaks))]


def _sample(choices: Choices, sets: int) -> Choices:
    """Sets at even distances: at most this many, and not too many rows."""
    step = max(-(-len(choices) // sets), -(-int(choices.offsets[-1]) // ROWS))
    return choices if step <= 1 else choices.take(np.arange(0, len(choices), step))


def comparable(
    one: Column, other: Column
) -> tuple[Shaped[np.ndarray, " n"], Shaped[np.ndarray, " m"]] | None:
    """The values of two columns in a form in which equal ones are equal; None if there is none.

    >>> numbers, names = Column(np.array([1.0, 3.0])), Column(np.array([0, 1]), ("1", "2"))
    >>> [values.tolist() for values in comparable(numbers, names)]
    [[1.0, 3.0], [1.0, 2.0]]
    """
    if one.levels is not None and other.levels is not None:
        place = {level: code for code, level in enumerate(other.levels)}
        codes = np.array([place.get(level, -1) for level in one.levels])
        return codes[one.values], other.values
    if one.kind == other.kind:
        return one.values, other.values
    numbers = [_numbers(one), _numbers(other)]
    return None if any(each is None for each in numbers) else (numbers[0], numbers[1])  # type: ignore[return-value]


def _numbers(column: Column) -> Float[np.ndarray, " n"] | None:
    """The column as numbers; those of a category are read from its levels."""
    if column.kind == "date":
        return None
    if column.levels is None:
        return column.values.astype(np.float64)
    try:
        return np.array([float(level) for level in column.levels])[column.values]
    except ValueError:
        return None


def _codes(values: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _two(values: Shaped[np.ndarray, " n"]) -> bool:
    """Whether there are two values in all, as in a dummy."""
    low, high = values.min(), values.max()
    return bool(low != high and ((values == low) | (values == high)).all())

"""Popularity: how much more often than by chance the items with this name are chosen.

``popularity(hotel)`` turns a column of names into one number. Over the training sets in which
items of the name k were shown, with n the size of the set,

    popularity(k) = log( (times chosen + 3) / (sum of 1/n + 3) ),

the log ratio of choices to those expected if every item had equal chances; the threes draw names
that were seldom shown towards 0, which is also the popularity of a name never seen.

It is learned from what was chosen, so it must not be told the answer. It knows training sets only,
as everything in a schema; and for the training sets themselves it is *cross-fitted*: they are
dealt into folds, and the popularity that a set sees is learned from the other folds. Otherwise a
model would learn to trust a number that holds the very choice it is to predict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from setwise._shapes import Float, Float64, Int, Num
from setwise.choices.choices import Choices

FOLDS = 10
PRIOR = 3.0  # of 0.1 to 10, the best in validation on hotels, for clicks; for bookings next to it


def in_folds(choices: Choices) -> Choices:
    """The same choices with a fold for each set, dealt at random and always alike."""
    fold = np.random.default_rng(0).integers(FOLDS, size=len(choices), dtype=np.int8)
    return replace(choices, fold=fold)


@dataclass(frozen=True, eq=False)
class Tally:
    """How often each name was chosen, and would be by chance, in each fold."""

    chosen: Float64[np.ndarray, "folds names"]
    expected: Float64[np.ndarray, "folds names"]
    rows: Int[np.ndarray, " folds_and_codes"]  # of each name, and last of none, in each fold

    @classmethod
    def of(cls, choices: Choices, columns: Sequence[str]) -> "dict[str, Tally]":
        """Count in choices that have folds, all columns at once."""
        sizes = [FOLDS * (len(choices.levels(name)) + 1) for name in columns]  # one for no name
        counts = [(np.zeros(size), np.zeros(size), np.zeros(size, np.int64)) for size in sizes]
        for block in choices.blocks():
            assert block.chosen is not None
            assert block.fold is not None
            fold = np.repeat(block.fold, block.sizes)
            share = np.repeat(1 / (block.sizes + block.outside), block.sizes)
            inside = block.chosen < block.sizes  # an outside option is no row of the table
            taken = (block.offsets[:-1] + block.chosen)[inside]
            for name, size, (chosen, expected, rows) in zip(columns, sizes, counts, strict=True):
                codes = np.int64(size // FOLDS)
                place = fold * codes + block.columns[name].values % codes
                _add(chosen, place[taken], 1)
                _add(expected, place, share)
                _add(rows, place, 1)
        return {
            name: cls(_by_fold(chosen), _by_fold(expected), rows)
            for name, (chosen, expected, rows) in zip(columns, counts, strict=True)
        }

    def popularity(self) -> Float64[np.ndarray, " names"]:
        """Learned from all folds: what new sets see."""
        return _log_ratio(self.chosen.sum(0), self.expected.sum(0))

    def table(self) -> Float64[np.ndarray, "folds_and_codes 1"]:
        """Learned from the other folds: what each fold's sets see; last in each, no name: 0."""
        expected = np.maximum(self.expected.sum(0) - self.expected, 0)
        out_of_fold = _log_ratio(self.chosen.sum(0) - self.chosen, expected)
        return np.pad(out_of_fold, [(0, 0), (0, 1)]).reshape(-1, 1)


def _add(
    counts: Num[np.ndarray, " codes"],
    place: Int[np.ndarray, " n"],
    share: Float[np.ndarray, " n"] | int,
) -> None:
    """Add to the counts at these places, in time that grows with the places alone."""
    if len(counts) > len(place):
        np.add.at(counts, place, share)
    else:  # faster, but it goes through all counts
        weights = None if isinstance(share, int) else share
        counts += np.bincount(place, weights, len(counts)).astype(counts.dtype, copy=False)


def _by_fold(counts: Float64[np.ndarray, " folds_and_codes"]) -> Float64[np.ndarray, "folds names"]:
    return counts.reshape(FOLDS, -1)[:, :-1]


def _log_ratio(
    chosen: Float[np.ndarray, "*names"], expected: Float[np.ndarray, "*names"]
) -> Float64[np.ndarray, "*names"]:
    return np.log((chosen + PRIOR) / (expected + PRIOR))

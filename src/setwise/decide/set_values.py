"""What sets earn: the expected value of many candidate sets at once.

    R(s) = sum over the items x of s of P(x | s) value(x)

Candidates are encoded once. A set is a row of flags, one per candidate of its context.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from setwise import _segments
from setwise._errors import InputError
from setwise._shapes import Bool, Float, Int
from setwise.choices import Encoded
from setwise.decide.candidates import Candidates
from setwise.scoring.scorer import RowModel, Scorer

ROWS_AT_A_TIME = 400_000
"""Of candidates in sets that are scored together: more would only fill the memory."""

Sets = Bool[np.ndarray, "sets n"]
Contexts = Int[np.ndarray, " sets"]


class SetValues(ABC):
    """A model's answer to: what does each of these sets earn?"""

    candidates: Candidates
    outside: bool
    """Whether people may choose nothing, which is worth 0."""

    @abstractmethod
    def probabilities(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, "sets n"]:
        """P(x | s) of every candidate; 0 for those that are not shown."""

    @abstractmethod
    def expected(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, " sets"]:
        """R(s) of every set; minus infinity where there is nothing to choose."""


def parts(contexts: Contexts, shown: Sets) -> Iterator[slice]:
    """Consecutive sets, with a bounded number of places."""
    step = max(1, ROWS_AT_A_TIME // max(1, shown.shape[1]))
    return (slice(begin, begin + step) for begin in range(0, len(contexts), step))


@dataclass(eq=False)
class ModelSets(SetValues):
    """Sets scored by any model, as it scores a table."""

    model: RowModel
    candidates: Candidates
    scored: int = 0
    _items: Float[np.ndarray, "rows d"] = field(init=False)

    def __post_init__(self) -> None:
        one = self.candidates
        self.outside = one.outside is not None
        items = one.encoded.items
        # The last row is the outside option, which every set shares.
        self._items = items if one.outside is None else np.vstack([items, one.outside])

    def expected(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, " sets"]:
        earned = np.full(len(contexts), -np.inf)
        for part in parts(contexts, shown):
            some, rows, offsets, p = self._scored(contexts[part], shown[part])
            if len(some):
                values = np.append(self.candidates.values, 0.0)[rows]
                earned[part.start + some] = _segments.sums(p * values, offsets)
        return earned

    def probabilities(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, "sets n"]:
        found = np.zeros(shown.shape)
        for part in parts(contexts, shown):
            _, rows, _, p = self._scored(contexts[part], shown[part])
            here = np.zeros(shown[part].shape)
            here[shown[part]] = p[rows < int(self.candidates.encoded.offsets[-1])]
            found[part] = here
        return found

    def _scored(
        self, contexts: Contexts, shown: Sets
    ) -> tuple[
        Int[np.ndarray, " some"], Int[np.ndarray, " rows"], Int[np.ndarray, " some_and_one"],
        Float[np.ndarray, " rows"],
    ]:  # fmt: skip
        """The sets that have a row, the candidates in them, where sets begin, and P(x | s)."""
        encoded = self.candidates.encoded
        sizes = shown.sum(1)
        some = np.flatnonzero(sizes + self.outside > 0)
        sizes = sizes[some]
        owner, place = np.nonzero(shown[some])
        rows = encoded.offsets[contexts[some]][owner] + place
        if self.outside:
            rows = np.insert(rows, np.cumsum(sizes), len(self._items) - 1)
        offsets = _segments.offsets_of(sizes + self.outside)
        self.scored += len(some)
        if not len(some):
            return some, rows, offsets, np.zeros(0)
        given = Encoded(self._items[rows], encoded.context[contexts[some]], offsets, None, None)
        p = np.exp(self.model.row_log_probabilities(given).astype(np.float64))
        if not np.isfinite(p).all():
            context = int(contexts[some][np.searchsorted(offsets, np.argmin(np.isfinite(p)))])
            which = self.candidates.choices.set_ids[min(context, len(self.candidates) - 1)]
            raise InputError(
                f"the model's scores in set '{self.candidates.choices.roles.set}'={which} are not "
                "numbers, so it predicts nothing; train it again, with a smaller learning rate"
            )
        return some, rows, offsets, p


def without_engine(model: Any) -> RowModel:
    """The model as a scorer, which takes sets of any number and size and compiles nothing."""
    if isinstance(model, Scorer):
        return model
    artifact = model.artifact()
    return model if artifact.graph is None else Scorer.of(artifact, "the model")

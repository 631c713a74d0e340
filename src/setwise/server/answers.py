"""What the service answers: probabilities, and what they would be without each item."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from setwise._shapes import Float, Float32
from setwise.choices import Encoded
from setwise.scoring.members import Members
from setwise.server.requests import ParsedRequest, RequestEncoder, RequestError

ROWS_AT_A_TIME = 20_000
"""Rows scored between two looks at the clock."""

Matrix = list[list[float | None]]


class Answer(msgspec.Struct):
    """The answer for one set: P(item | set), and the place of the most probable item.

    With an outside option also its probability; the choice is null where it is the most probable.
    """

    probabilities: list[float]
    choice: int | None
    outside: float | UnsetType = UNSET
    mnl: list[float] | UnsetType = UNSET
    members: list[list[float]] | UnsetType = UNSET
    """Of each member of an ensemble, rounded to six digits; the outside option's comes last."""


class Answers(msgspec.Struct):
    """The answer to a prediction, in the order of the sets asked."""

    sets: list[Answer]


class Explained(msgspec.Struct):
    """One set, as it is and without each item; row i is without item i, column j is item j.

    ``without[i][j]`` is P(j | s - i). ``iia[i][j]`` = P(j) / (1 - P(i)) is what independence of
    irrelevant alternatives would have allowed, and ``influence[i][j]`` = log(without / iia):
    above 0, item i took more from j than from the others; below 0, it helped j.
    """

    probabilities: list[float]
    without: Matrix
    iia: Matrix
    influence: Matrix
    outside: float | UnsetType = UNSET
    mnl: "Explained | UnsetType" = UNSET


@dataclass(frozen=True)
class Deadline:
    """The time by which a request must be answered."""

    at: float
    seconds: int | float

    @classmethod
    def after(cls, seconds: int | float) -> "Deadline":
        """A deadline this many seconds from now."""
        return cls(time.monotonic() + seconds, seconds)

    def check(self) -> None:
        """Raise an error if the time is over."""
        if time.monotonic() > self.at:
            raise RequestError(
                503,
                f"the request took longer than {self.seconds:g} s; send fewer sets or items at a "
                "time, or try again when the service is less busy",
            )


@dataclass(frozen=True, eq=False)
class RequestScorer:
    """A model that scores requests: the one in service, or the second one for comparison."""

    encoder: RequestEncoder
    log_probabilities: Callable[[Encoded], Float32[np.ndarray, " rows"]]
    members: Members | None = None
    """What its members say, if it is an ensemble."""

    def scored(self, encoded: Encoded, deadline: Deadline) -> Float32[np.ndarray, " rows"]:
        """log P(x | s) of every encoded row."""
        logs = []
        for part in _checked_parts(encoded, deadline):
            logs.append(self.log_probabilities(part))
        return _probable(logs[0] if len(logs) == 1 else np.concatenate(logs))

    def together(self, asked: Sequence[ParsedRequest]) -> Iterator["Scored"]:
        """Each of these requests, encoded and scored as if they were one."""
        sets = [one for request in asked for one in request.sets]
        encoded = self.encoder.encoded(ParsedRequest(sets, False, False, False))
        logs = _probable(self.log_probabilities(encoded))
        begin = 0
        for one in asked:
            end = begin + len(one.sets)
            first, last = encoded.offsets[begin], encoded.offsets[end]
            yield Scored(one, _part(encoded, begin, end), logs[first:last])
            begin = end


def _probable(logs: Float32[np.ndarray, " rows"]) -> Float32[np.ndarray, " rows"]:
    """Log-probabilities, if there are all of them."""
    if np.isnan(logs).any():
        raise RequestError(
            400,
            "the model gives no probability for some set: its values are too far from the "
            "training data; correct them",
        )
    return logs


@dataclass(frozen=True, eq=False)
class Scored:
    """A request and log P(x | s) of its encoded rows."""

    asked: ParsedRequest
    encoded: Encoded
    logs: Float32[np.ndarray, " rows"]


def predict(
    scored: Scored, model: RequestScorer, reference: RequestScorer | None, deadline: Deadline
) -> bytes:
    """The answer to a prediction."""
    values, asked, encoded = np.exp(scored.logs).tolist(), scored.asked, scored.encoded
    others = None
    if reference is not None and asked.reference:
        also = encoded if reference.encoder is model.encoder else reference.encoder.encoded(asked)
        others = np.exp(reference.scored(also, deadline)).tolist()
    apart = None
    if asked.members and model.members is not None:
        parts = [model.members.probabilities(part) for part in _checked_parts(encoded, deadline)]
        apart = np.concatenate(parts, axis=1).astype(np.float64).round(6)
    outside, ends = model.encoder.outside, encoded.offsets.tolist()
    sets = []
    for begin, end in pairwise(ends):
        whole = values[begin:end]
        choice: int | None = whole.index(max(whole))
        last = end - outside
        one = Answer(values[begin:last], choice)
        if outside:
            one.outside = values[last]
            one.choice = None if choice == last - begin else choice
        if others is not None:
            one.mnl = others[begin:last]
        if apart is not None:
            one.members = apart[:, begin:end].tolist()
        sets.append(one)
    return msgspec.json.encode(Answers(sets))


def explain(
    scored: Scored, model: RequestScorer, reference: RequestScorer | None, deadline: Deadline
) -> bytes:
    """The answer to a request for an explanation of one set."""
    answer = _explained(scored.encoded, scored.logs, model, deadline)
    if reference is not None and scored.asked.reference:
        also = reference.encoder.encoded(scored.asked)
        answer.mnl = _explained(also, reference.scored(also, deadline), reference, deadline)
    return msgspec.json.encode(answer)


def _explained(
    encoded: Encoded, single: Float32[np.ndarray, " rows"], side: RequestScorer, deadline: Deadline
) -> Explained:
    outside = side.encoder.outside
    values, logs = np.exp(single).tolist(), single.astype(np.float64)
    items = len(logs) - outside
    answer = Explained(values[:items], [], [], [])
    if outside:
        answer.outside = values[-1]
    if len(logs) == 1:
        return answer
    stays = ~np.eye(items, len(logs), dtype=bool)
    without = np.full(stays.shape, np.nan)
    without[stays] = side.scored(encoded.without_each(np.arange(items)), deadline)
    # log P(j) - log(1 - P(i)), with 1 - P(i) as the sum of the others: it may be tiny.
    left = np.where(stays, logs, -np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = np.where(stays, logs - np.logaddexp.reduce(left, axis=1)[:, None], np.nan)
        answer.without = _plain(np.exp(without[:, :items]))
        answer.iia = _plain(np.exp(allowed[:, :items]))
        answer.influence = _plain((without - allowed)[:, :items])
    return answer


def _plain(matrix: Float[np.ndarray, "i j"]) -> Any:
    plain = matrix.astype(object)
    plain[~np.isfinite(matrix)] = None
    return plain.tolist()


def _checked_parts(encoded: Encoded, deadline: Deadline) -> Iterator[Encoded]:
    for part in _parts(encoded):
        deadline.check()
        yield part


def _parts(encoded: Encoded) -> Iterator[Encoded]:
    """Consecutive sets of about :data:`ROWS_AT_A_TIME` rows."""
    offsets = encoded.offsets
    if offsets[-1] <= ROWS_AT_A_TIME:
        yield encoded
        return
    begin = 0
    while begin < len(encoded):
        end = int(np.searchsorted(offsets, offsets[begin] + ROWS_AT_A_TIME, "right")) - 1
        end = max(end, begin + 1)
        yield _part(encoded, begin, end)
        begin = end


def _part(encoded: Encoded, begin: int, end: int) -> Encoded:
    """The sets from the one to the other."""
    offsets = encoded.offsets
    return Encoded(
        encoded.items[offsets[begin] : offsets[end]], encoded.context[begin:end],
        offsets[begin : end + 1] - offsets[begin], None, None,
    )  # fmt: skip

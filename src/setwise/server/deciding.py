"""Which items of a set to show: a request as a call of :func:`setwise.decide.assortment`, and back.

The call is made by a scorer that looks at the clock, so that a search ends in time.
"""

import re
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from setwise._errors import InputError
from setwise._shapes import Float, Float32
from setwise.choices import Choices, Encoded
from setwise.choices.choices import Column
from setwise.decide import assortment
from setwise.scoring.scorer import Scorer
from setwise.server.answers import Deadline, RequestScorer, Scored
from setwise.server.requests import (
    ParsedRequest,
    RequestError,
    RequestFormat,
    decoded,
    list_of,
    struct_of,
    wrong_shape,
)
from setwise.server.settings import Limits

FIELDS = (
    "a set has 'items' and may have 'context', 'chosen' and 'names'; a decision also needs 'value' "
    "and may have 'at_most', 'at_least', 'must', 'exclusive', 'capacity', 'shown' and 'seed'"
)
GIVEN = re.compile(r"\b(\w+)(\[.*?\])?=(.*?) must be")
ARGUMENT = re.compile(r"\b(value|at_most|at_least|must|exclusive|capacity)=")
MOST_GROUPS = 1_000
"""Of items that exclude each other."""


class Decided(msgspec.Struct):
    """The items to show, and what they earn: the sum of probability times value."""

    show: list[int]
    """The numbers of the items to show."""
    probabilities: list[float]
    """P(item | items shown) of every item of the request; 0 for those that are not shown."""
    now: float
    """What all items earn together, or those of ``shown``."""
    after: float
    """What the items to show earn."""
    bound: float
    """No allowed set earns more."""
    proved: bool
    """Whether no allowed set is better, if the model is right."""
    method: str
    """How the set was found."""
    sets_scored: int
    outside: float | UnsetType = UNSET


@dataclass(frozen=True, eq=False)
class ClockedScorer(Scorer):
    """A scorer for one search, which ends when its time is over."""

    served: RequestScorer
    deadline: Deadline

    def row_log_probabilities(self, encoded: Encoded) -> Float32[np.ndarray, " rows"]:
        """log P(x | s) of every encoded row."""
        return self.served.scored(encoded, self.deadline)


@dataclass(frozen=True, eq=False)
class Decisions:
    """The shape of requests for a decision to a model, and how they are answered."""

    form: RequestFormat
    scorer: Scorer
    decoder: msgspec.json.Decoder[Any]
    described: Any
    """The type of bodies, for the OpenAPI description."""
    most: int
    """Items at most."""

    @classmethod
    def of(cls, scorer: Scorer, form: RequestFormat, limits: Limits) -> "Decisions":
        """For a model whose requests have this format."""
        most = limits.max_decided
        body = struct_of("DecideBody", [("items", list_of(form.item)), *form.further, *_asks(None)])
        described = struct_of(
            "DecidedSet", [("items", list_of(form.item, most)), *form.further, *_asks(most)]
        )
        return cls(form, scorer, msgspec.json.Decoder(body), described, most)

    def read(self, body: bytes) -> ParsedRequest:
        """The set in a body, from which items are to be shown."""
        asked = decoded(body, self.decoder, self._wrong_shape)
        count = len(asked.items)
        if count > self.most:
            raise RequestError(
                413, f"the set has {count:,} items; decide takes at most {self.most}", "items"
            )
        if len(asked.exclusive) > MOST_GROUPS:
            raise RequestError(
                413, f"'exclusive' has {len(asked.exclusive):,} groups; decide takes at most "
                f"{MOST_GROUPS:,}", "exclusive",
            )  # fmt: skip
        self._check_items(asked, count)
        self._check_columns(asked, count)
        return ParsedRequest([asked], True, False, False)

    def _wrong_shape(self, error: msgspec.ValidationError) -> RequestError:
        return wrong_shape(str(error), self.form.columns, self.form.context, FIELDS)

    def _check_items(self, asked: Any, count: int) -> None:
        """Refuse numbers of items that the set does not have."""
        named = {"must": asked.must, "shown": [] if asked.shown is None else asked.shown}
        named |= {f"exclusive[{place}]": group for place, group in enumerate(asked.exclusive)}
        for where, items in named.items():
            for place, item in enumerate(items):
                if not 0 <= item < count:
                    raise RequestError(
                        400, f"{item} in '{where}' is not an item of the set; items have numbers "
                        f"from 0 to {count - 1}", f"{where}[{place}]",
                    )  # fmt: skip

    def _check_columns(self, asked: Any, count: int) -> None:
        """Refuse columns that the model does not have, and values that are not one per item."""
        columns = [("capacity", name) for name in asked.capacity]
        if isinstance(asked.value, str):
            columns.append(("value", asked.value))
        elif len(asked.value) != count:
            raise RequestError(
                422, f"'value' has {len(asked.value):,} numbers, and the set has {count:,} items; "
                "give one number per item, or name a column", "value",
            )  # fmt: skip
        known = [*self.form.columns, *self.form.context]
        for where, name in columns:
            if name not in known:
                raise RequestError(
                    400, f"'{where}' names the column '{name}', which the model does not have; its "
                    f"columns are: {', '.join(known)}", where,
                )  # fmt: skip

    def decide(self, scored: Scored, served: RequestScorer, deadline: Deadline) -> bytes:
        """The answer: the call of ``assortment`` with what was asked."""
        asked = scored.asked.sets[0]
        count = len(asked.items)
        must = np.isin(np.arange(count), asked.must)
        try:
            found = assortment(
                ClockedScorer(**vars(self.scorer), served=served, deadline=deadline),
                self._choices(scored.asked),
                asked.value if isinstance(asked.value, str) else np.array(asked.value, np.float64),
                at_most=asked.at_most, at_least=asked.at_least, must=must,
                exclusive=asked.exclusive or None, capacity=asked.capacity or None, seed=asked.seed,
            )  # fmt: skip
        except InputError as error:
            raise _refused(error) from None
        answer = Decided(
            np.flatnonzero(found.shown).tolist(), found.probability.tolist(),
            _earned(scored, served, asked.shown, found.values, deadline),
            float(found.expected[0]), float(found.bound[0]), bool(found.proved[0]), found.method,
            found.sets_scored,
        )  # fmt: skip
        if found.outside:
            answer.outside = max(0.0, 1.0 - sum(answer.probabilities))
        return msgspec.json.encode(answer)

    def _choices(self, asked: ParsedRequest) -> Choices:
        """The set as choices, whose columns have the values that were asked."""
        schema, one = self.scorer.schema, asked.sets[0]
        rows = [astuple(item) for item in one.items]
        around = None if one.context is UNSET else astuple(one.context)
        items, context = schema.feature_encoders()
        columns: dict[str, Column] = {}
        for encoder in items:
            place = self.form.columns.index(encoder.name)
            columns[encoder.name] = encoder.for_requests().read([row[place] for row in rows])
        shared: dict[str, Column] = {}
        for encoder in context:
            place = self.form.context.index(encoder.name)
            given = [] if around is None else [around[place]]
            given += [row[len(self.form.columns) + place] for row in rows]
            value = next((one for one in given if one is not UNSET), None)
            shared[encoder.name] = encoder.for_requests().read([value])
        roles = replace(
            schema.roles, chosen=None, rank=None, worst=None, weight=None, group=None, time=None,
            wide=None, alternative=None,
        )  # fmt: skip
        return Choices(
            roles, columns, shared, np.array([0, len(rows)]), np.arange(len(rows)), np.array([0]),
            outside=schema.outside,
        )  # fmt: skip


def _asks(most: int | None) -> list[tuple[Any, ...]]:
    """What a decision asks besides the set.

    ``most`` items are described; decoded without that limit, a longer list gets a better answer.
    """
    item = int if most is None else _from_0(int, most - 1)
    group, weight = list_of(item, most), _from_0(float)
    numbers, groups = _up_to(most, item), _up_to(None if most is None else MOST_GROUPS, group)
    return [
        ("value", str | list_of(float, most)), ("at_most", _from_0(int) | None, None),
        ("at_least", _from_0(int), 1), ("must", numbers, []), ("exclusive", groups, []),
        ("capacity", dict[str, weight], {}), ("shown", numbers | None, None),
        ("seed", _from_0(int, 2**32 - 1), 0),
    ]  # fmt: skip


def _from_0(kind: Any, largest: int | None = None) -> Any:
    """Numbers of at least 0, as described: ``assortment`` itself refuses others."""
    most = {} if largest is None else {"maximum": largest}
    return Annotated[kind, Meta(extra_json_schema={"minimum": 0} | most)]


def _up_to(most: int | None, kind: Any) -> Any:
    return Annotated[list[kind], Meta(max_length=most)]


def _earned(
    scored: Scored,
    served: RequestScorer,
    shown: list[int] | None,
    values: Float[np.ndarray, " items"],
    deadline: Deadline,
) -> float:
    """What all items of a set earn, or some of them."""
    encoded, logs = scored.encoded, scored.logs
    items = np.arange(len(values))
    if shown is not None:
        items = np.unique(np.array(shown, np.int64))
        rows = np.append(items, len(values)) if served.encoder.outside else items
        if not len(rows):
            raise RequestError(
                422, "'shown' is empty, and the model has no outside option; name at least one "
                "item", "shown",
            )  # fmt: skip
        ends = np.array([0, len(rows)])
        some_items = Encoded(encoded.items[rows], encoded.context, ends, None, None)
        logs = served.scored(some_items, deadline)
    return float(np.exp(logs[: len(items)].astype(np.float64)) @ values[items])


def _refused(error: InputError) -> RequestError:
    """What ``assortment`` refuses, in the words of the request."""
    said = str(error)
    found = GIVEN.match(said) or ARGUMENT.search(said)
    sentence = ARGUMENT.sub(r"'\1'", GIVEN.sub(r"'\1'\2 is \3; it must be", said))
    sentence = sentence.replace(" at row ", " at item ")
    if error.set is not None:
        sentence = f"no set{sentence.partition('=0')[2]}".replace(", or leave this context out", "")
    return RequestError(400, sentence, found[1] if found else None)

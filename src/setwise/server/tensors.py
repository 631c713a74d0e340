"""The Open Inference Protocol (v2): a table's columns as tensors, and probabilities as one.

Each column is a tensor of one dimension with a value per item, for all sets one after another; the
column with the ids of the sets says which items belong together. Without it all are one set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec
import numpy as np

from setwise import __version__
from setwise.choices import Schema
from setwise.choices.encoders import Encoder
from setwise.server.answers import Scored
from setwise.server.requests import ParsedRequest, RequestError, RequestFormat, decoded
from setwise.server.settings import Limits

PLATFORM = "setwise"
SERVER = {"name": "setwise", "version": __version__, "extensions": []}
PROBABILITY, OUTSIDE = "probability", "outside"

Value = Any  # what JSON has; it is checked with the columns


class Tensor(msgspec.Struct, omit_defaults=True):
    """A named array; its values are in a list, or in lists of lists as its shape says."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any]
    parameters: dict[str, Any] = {}


class TensorName(msgspec.Struct):
    """An output that a client asks for."""

    name: str
    parameters: dict[str, Any] = {}


class InferenceRequest(msgspec.Struct):
    """What a client of the Open Inference Protocol sends."""

    inputs: list[Tensor]
    id: str | None = None
    outputs: list[TensorName] = []
    parameters: dict[str, Any] = {}


class InferenceAnswer(msgspec.Struct, omit_defaults=True):
    """What it gets."""

    model_name: str
    outputs: list[Tensor]
    id: str | None = None


class InferenceError(msgspec.Struct):
    """What it gets if the request cannot be answered."""

    error: str


@dataclass(frozen=True, eq=False)
class AskedTensors(ParsedRequest):
    """A request that came as tensors: its answer has a probability for each row that it had."""

    id: str | None
    rows_of_items: list[int]
    """The row of each item, set by set."""
    outputs: tuple[str, ...]


_DECODER = msgspec.json.Decoder(InferenceRequest)


@dataclass(frozen=True)
class Tensors:
    """The tensors that a model takes."""

    set: str
    """The name of the tensor with the ids of sets."""
    items: tuple[str, ...]
    context: tuple[str, ...]
    kinds: tuple[str, ...]
    """The data type of each column, items first."""
    optional: frozenset[str]
    outside: bool

    @classmethod
    def of(cls, schema: Schema) -> "Tensors":
        """Those of a fitted schema: the columns of the training table."""
        everyone = [*schema.items, *schema.context]
        return cls(
            schema.roles.set,
            tuple(one.feature.column for one in schema.items),
            tuple(one.feature.column for one in schema.context),
            tuple(map(_datatype, everyone)),
            frozenset(one.feature.column for one in everyone if one.may_be_missing),
            schema.outside,
        )

    def about(self, name: str) -> dict[str, Any]:
        """The model's metadata."""
        columns = zip((*self.items, *self.context), self.kinds, strict=True)
        inputs = [(self.set, "INT64"), *columns]
        outputs = [PROBABILITY, OUTSIDE] if self.outside else [PROBABILITY]
        return {
            "name": name,
            "platform": PLATFORM,
            "inputs": [{"name": n, "datatype": kind, "shape": [-1]} for n, kind in inputs],
            "outputs": [{"name": n, "datatype": "FP32", "shape": [-1]} for n in outputs],
        }

    def read(self, body: bytes, form: RequestFormat, limits: Limits) -> ParsedRequest:
        """The request in a body, checked like one that came as sets."""
        asked = decoded(body, _DECODER, _wrong_shape)
        given = {one.name: list(_flat(one)) for one in asked.inputs}
        self._check(given, asked)
        ids = given.pop(self.set, None)
        rows = len(next(iter(given.values())))
        sets = _by_set(ids, rows)
        plain = [self._set(given, members) for members in sets]
        try:
            body_of_sets = msgspec.convert({"sets": plain}, form.body)
        except msgspec.ValidationError as error:
            raise form.wrong_shape(error) from None
        checked = form.checked(body_of_sets, limits)
        wanted = tuple(one.name for one in asked.outputs)
        places = [row for members in sets for row in members]
        return AskedTensors(checked.sets, False, False, False, asked.id, places, wanted)

    def _check(self, given: dict[str, list[Value]], asked: InferenceRequest) -> None:
        if len(given) < len(asked.inputs):
            raise RequestError(400, "two inputs have the same name; leave one out")
        known = {self.set, *self.items, *self.context}
        for name in given:
            if name not in known:
                names = ", ".join([self.set, *self.items, *self.context])
                raise RequestError(
                    400, f"the input '{name}' is not known; leave it out (inputs are: {names})"
                )
        for name in (*self.items, *self.context):
            if name not in given and name not in self.optional:
                raise RequestError(400, f"the input '{name}' is missing; add it")
        sizes = {name: len(values) for name, values in given.items()}
        if len(set(sizes.values())) != 1 or 0 in sizes.values() or set(given) <= {self.set}:
            raise RequestError(
                400, f"inputs must have the same number of values, one per item, not {sizes}"
            )
        for output in asked.outputs:
            if output.name not in (PROBABILITY, *([OUTSIDE] if self.outside else [])):
                raise RequestError(
                    400, f"the output '{output.name}' is not known; '{PROBABILITY}' is"
                )

    def _set(self, given: dict[str, list[Value]], members: Sequence[int]) -> dict[str, Any]:
        items = [{name: given[name][row] for name in given} for row in members]
        return {"items": items}


def infer(name: str, scored: Scored, outside: bool) -> bytes:
    """The answer: a probability per item, in the order of the request's rows."""
    asked, offsets = scored.asked, scored.encoded.offsets
    assert isinstance(asked, AskedTensors)
    values = np.exp(scored.logs)
    inside = np.ones(len(values), bool)
    if outside:
        inside[offsets[1:] - 1] = False
    probability = np.empty(len(asked.rows_of_items), np.float32)
    probability[asked.rows_of_items] = values[inside]
    found = {PROBABILITY: probability} | ({OUTSIDE: values[~inside]} if outside else {})
    outputs = [
        Tensor(one, [len(data)], "FP32", data.tolist())
        for one, data in found.items()
        if not asked.outputs or one in asked.outputs
    ]
    return msgspec.json.encode(InferenceAnswer(name, outputs, asked.id))


def _datatype(encoder: Encoder) -> str:
    return "FP64" if encoder.kind == "number" else "BYTES"


def _flat(tensor: Tensor) -> Iterator[Value]:
    """A tensor's values; lists of lists are taken apart."""
    if tensor.shape[1:] not in ([], [1]) or min(tensor.shape, default=-1) < 0:
        raise RequestError(
            400, f"the input '{tensor.name}' has the shape {tensor.shape}; give one value per "
            "item, in the shape [items]",
        )  # fmt: skip
    data = [inner for one in tensor.data for inner in (one if isinstance(one, list) else [one])]
    if len(data) != prod(tensor.shape):
        raise RequestError(
            400, f"the input '{tensor.name}' has {len(data):,} values, but the shape {tensor.shape}"
        )
    return iter(data)


def _by_set(ids: Sequence[Value] | None, rows: int) -> list[list[int]]:
    """The rows of each set, in the order in which the sets begin.

    >>> _by_set([7, 7, 3, 7], 4)
    [[0, 1, 3], [2]]
    """
    if ids is None:
        return [list(range(rows))]
    found: dict[Value, list[int]] = {}
    for row, one in enumerate(ids):
        if not isinstance(one, (str, int, float)):
            raise RequestError(400, f"the id of the set of row {row} is not a number or text")
        found.setdefault(one, []).append(row)
    return list(found.values())


def _wrong_shape(error: msgspec.ValidationError) -> RequestError:
    return RequestError(
        400, f"the body does not follow the Open Inference Protocol ({error}); correct it"
    )

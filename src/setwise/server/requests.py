"""Requests to one model: shape, values as numbers, and refusals.

A body is checked while it is read, by a shape made from the model's schema. msgspec says what is
wrong with it; the client is told where, and what to do.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from setwise._errors import InputError
from setwise.choices import Encoded, Schema
from setwise.choices.choices import Column
from setwise.choices.encoders import OTHER, BadValue, Encoder, FeatureEncoder, RowEncoder
from setwise.choices.encoding import with_outside
from setwise.choices.features import TRANSFORMS
from setwise.choices.terms import TermEncoder
from setwise.server.settings import Limits


class Refusal(msgspec.Struct):
    """What went wrong: the cause with its remedy, and where in the request."""

    message: str
    where: str | None = None


class ErrorBody(msgspec.Struct):
    """The body of every response that is an error."""

    error: Refusal


class RequestError(Exception):
    """A request that cannot be answered: the status, the reason and the place in the request.

    >>> RequestError(413, "the body is too large; send fewer sets").body()
    b'{"error":{"message":"the body is too large; send fewer sets","where":null}}'
    """

    def __init__(self, status: int, message: str, where: str | None = None, closes: bool = False):
        super().__init__(message)
        self.status, self.message, self.where = status, message, where
        self.closes = closes  # the rest of the body may never come

    def body(self) -> bytes:
        """The answer's body."""
        return msgspec.json.encode(ErrorBody(Refusal(self.message, self.where)))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The answer's headers besides the usual ones."""
        found = [(b"connection", b"close")] if self.closes else []
        if self.status == 401:
            found.append((b"www-authenticate", b"Bearer"))
        if self.status == 503:
            found.append((b"retry-after", b"1"))
        return found

    def raw(self) -> bytes:
        """The whole answer, after which the connection is closed."""
        body, status = self.body(), HTTPStatus(self.status)
        lines = [
            b"HTTP/1.1 %d %s" % (status, status.phrase.encode()), b"content-type: application/json",
            b"content-length: %d" % len(body), *(b"%s: %s" % line for line in self.headers()),
        ]  # fmt: skip
        return b"\r\n".join([*lines, b"", body])


_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "null": "null", "array": "a list", "object": "an object", "bool | float": "a number",
    "bool | float | null": "a number or null", "str | null": "text or null",
    "bool | int | float | str": "text or a number", "int | null": "a whole number or null",
    "bool | int | float | str | null": "text, a number or null", "array | null": "a list or null",
    "str | array": "a column's name or a list of numbers",
}  # fmt: skip


FIELDS = (
    "a set has 'items' and may have 'context', 'chosen' and 'names'; a body has 'sets', or one "
    "set, and 'reference' and 'members'"
)


def wrong_shape(
    error: str, columns: Sequence[str], context: Sequence[str], fields: str = FIELDS
) -> RequestError:
    """msgspec's error as one that names set, item and column; ``fields`` are those of a body.

    >>> error = "Expected `bool | float`, got `str` - at `$.sets[3].items[0].price`"
    >>> refused = wrong_shape(error, ["price", "stars"], [])
    >>> refused.message
    "'price' of item 0 of set 3 is text; give a number"
    >>> refused.where
    'sets[3].items[0].price'
    """
    found = re.fullmatch(r"(.*?)(?: - at `\$\.?(.*)`)?", error, re.DOTALL)
    assert found is not None
    what, path = found[1], found[2] or ""
    if match := re.fullmatch(
        r"Object (?:missing required|contains (unknown)) field `(.*)`", what, re.DOTALL
    ):
        path = f"{path}.{match[2]}" if path else match[2]
        why = "is not known; leave it out" if match[1] else "is missing; add it"
        sentence = f"{why} ({_known(path, columns, context, fields)})"
    elif match := re.fullmatch("Expected `(.*)`, got `(.*)`", what):
        wanted, given = (_WORDS.get(word, word) for word in match.groups())
        sentence = f"is {given}; give {wanted}"
    elif "of length >= 1" in what:
        sentence = "is empty; give at least one"
    elif "out of range" in what:
        sentence = "is too large a number; correct it"
    else:
        sentence = f"cannot be taken ({what}); correct it"
    return RequestError(422, f"{_named(path)} {sentence}", path or None)


def _split(path: str) -> tuple[str | None, str | None, bool, str]:
    """Set, item, whether it is in the context, and the name at the end of a path."""
    match = re.fullmatch(
        r"(?:sets\[(\d+)\]\.?)?(?:items\[(\d+)\]\.?|(context\.))?(.*)", path, re.DOTALL
    )
    assert match is not None
    return match[1], match[2], match[3] is not None, match[4]


def _named(path: str) -> str:
    number, item, around, name = _split(path)
    parts = [f"'{name}'"] if name else []
    parts += [f"item {item}"] if item else []
    parts += ["the context"] if around else []
    parts += [f"set {number}"] if number else []
    return " of ".join(parts) or "the body"


def _known(path: str, columns: Sequence[str], context: Sequence[str], fields: str) -> str:
    _, item, around, _ = _split(path)
    if around:
        return f"the model's context is: {', '.join(context)}" if context else "it has no context"
    if item:
        return f"the model's columns are: {', '.join([*columns, *context])}"
    return fields


_LEAST = {"all": {}, "positive": {"exclusiveMinimum": 0}, "not negative": {"minimum": 0}}


@dataclass(frozen=True, eq=False)
class ParsedRequest:
    """A request of the right shape, whose values are not encoded yet."""

    sets: Sequence[Any]
    """Each has ``items`` and ``context``."""
    alone: bool
    """Whether the body is one set, not a list of them."""
    reference: bool
    """Whether the second model answers too."""
    members: bool
    """Whether the members of an ensemble answer too."""

    @property
    def rows(self) -> int:
        """The number of items in all."""
        return sum(len(one.items) for one in self.sets)

    def where(self, number: int, *further: str) -> str:
        """The place of a set, or of something in it, as a path into the body."""
        return ".".join(([] if self.alone else [f"sets[{number}]"]) + list(further))

    def which(self, number: int) -> str:
        """The set in a sentence."""
        return "the set" if self.alone else f"set {number}"

    def refused(self, number: int, item: int | None, column: str, why: str) -> RequestError:
        """The error about one value: of an item, or of the set's context."""
        at = "the context" if item is None else f"item {item}"
        place = "context" if item is None else f"items[{item}]"
        sentence = f"'{column}' of {at} of {self.which(number)} {why}"
        return RequestError(400, sentence, self.where(number, place, column))


@dataclass(frozen=True, eq=False)
class RequestFormat:
    """The shape of requests to a model.

    Fields of items have names of their own (c0, c1, ..., and k0, ... for context), since a
    column's name may be any text; in JSON they have the columns' names.
    """

    columns: tuple[str, ...]
    """Those of items, in the order of a row's values; context columns come after them."""
    context: tuple[str, ...]
    decoder: msgspec.json.Decoder[Any]
    body: Any
    """The type of bodies as they are decoded: one set, or many."""
    one_set: Any
    """The types of bodies, for the OpenAPI description."""
    many_sets: Any
    explained: Any
    item: Any
    """The type of an item."""
    further: Sequence[tuple[Any, ...]]
    """The fields of a set besides its items."""

    @classmethod
    def of(cls, schema: Schema, limits: Limits) -> "RequestFormat":
        """The format for a fitted schema."""
        items = [_field(f"c{place}", one, False) for place, one in enumerate(schema.items)]
        given = [_field(f"k{place}", one, True) for place, one in enumerate(schema.context)]
        columns = tuple(one.feature.column for one in schema.items)
        context = tuple(one.feature.column for one in schema.context)
        names = {f"c{place}": name for place, name in enumerate(columns)}
        also = {f"k{place}": name for place, name in enumerate(context)}
        item = struct_of("Item", items + given, names | also, gc=False)
        around = struct_of("Context", given, also, gc=False)
        further = [
            ("context", around | UnsetType, UNSET),
            ("chosen", int | None | UnsetType, UNSET),
            ("names", list[str] | UnsetType, UNSET),
        ]
        reference = ("reference", bool, False)
        asks = [reference, ("members", bool, False)]
        some = list_of(item)
        one_set = struct_of("Set", [("items", some), *further])
        body = struct_of("Body", [
            ("sets", list_of(one_set) | UnsetType, UNSET), ("items", some | UnsetType, UNSET),
            *further, *asks,
        ])  # fmt: skip
        # As described the lists have their limits; decoded without, they get an answer of 413.
        limited = [("items", list_of(item, limits.max_items)), *further]
        batch = list_of(struct_of("Set", limited), limits.max_sets)
        few = ("items", list_of(item, limits.max_explained))
        return cls(
            columns, context, msgspec.json.Decoder(body), body,
            struct_of("OneSet", [*limited, *asks]), struct_of("ManySets", [("sets", batch), *asks]),
            struct_of("ExplainedSet", [few, *further, reference]), item, further,
        )  # fmt: skip

    def read(self, body: bytes, limits: Limits) -> ParsedRequest:
        """Parse a body; a :class:`RequestError` says what is wrong with it."""
        return self.checked(decoded(body, self.decoder, self.wrong_shape), limits)

    def wrong_shape(self, error: msgspec.ValidationError) -> RequestError:
        """What to say of a body of another shape."""
        return wrong_shape(str(error), self.columns, self.context)

    def checked(self, asked: Any, limits: Limits) -> ParsedRequest:
        """The request in a body of the right types, if it keeps to the limits."""
        alone = asked.sets is UNSET
        if alone == (asked.items is UNSET) or (not alone and asked.context is not UNSET):
            raise RequestError(
                422, "give either 'sets', a list of sets, or one set's 'items' and 'context'"
            )
        sets = [asked] if alone else asked.sets
        request = ParsedRequest(sets, alone, asked.reference, asked.members)
        if len(request.sets) > limits.max_sets:
            raise RequestError(
                413, f"the request has {len(request.sets):,} sets; send at most "
                f"{limits.max_sets:,} at a time", "sets",
            )  # fmt: skip
        for number, one in enumerate(request.sets):
            if len(one.items) > limits.max_items:
                raise RequestError(
                    413, f"{request.which(number)} has {len(one.items):,} items; the service takes "
                    f"at most {limits.max_items:,} in a set", request.where(number, "items"),
                )  # fmt: skip
        return request


def decoded(
    body: bytes, decoder: Any, wrong: Callable[[msgspec.ValidationError], RequestError]
) -> Any:
    """What a body holds; ``wrong`` says what is wrong with one of another shape."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise wrong(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(400, f"the body is not JSON in UTF-8 ({error}); correct it") from None


def struct_of(name: str, fields: Any, rename: Any = None, gc: bool = True) -> Any:
    """A type of objects in a body, which have no other fields."""
    return msgspec.defstruct(
        name, fields, rename=rename, gc=gc, kw_only=True, forbid_unknown_fields=True
    )


def list_of(kind: Any, most: int | None = None) -> Any:
    """A type of lists in a body, which are not empty."""
    return Annotated[list[kind], Meta(min_length=1, max_length=most)]


def _field(name: str, encoder: Encoder, context: bool) -> tuple[Any, ...]:
    """A column's type in JSON; a context column may be in the context or in every item."""
    kind = _type(encoder)
    if context:
        return name, kind | UnsetType, UNSET
    return (name, kind, None) if encoder.may_be_missing else (name, kind)


def _type(encoder: Encoder) -> Any:
    described: dict[str, Any] = {}
    if encoder.kind == "number":
        kind: Any = float | bool
        described = _LEAST[TRANSFORMS[encoder.feature.transform].domain]
    elif encoder.kind == "date":
        kind, described = str, {"format": "date"}
    else:
        kind = str | int | float | bool if encoder.feature.category else str
        if encoder.kind == "category" and OTHER not in encoder.levels:
            known = [
                value for level in encoder.levels for value in [level, *encoder.same_as(level)]
            ]
            described = {"enum": known + [None] * encoder.may_be_missing}
    kind = kind | None if encoder.may_be_missing else kind
    return Annotated[kind, Meta(extra_json_schema=described)] if described else kind


@dataclass(frozen=True, eq=False)
class RequestEncoder:
    """Requests as the numbers that a model sees, in the encoding of its schema."""

    columns: tuple[str, ...]
    context_columns: tuple[str, ...]
    optional: tuple[bool, ...]
    """Which context columns may be missing."""
    items: RowEncoder
    context: RowEncoder
    outside: bool
    terms: "RequestTerms | None" = None
    """What makes numbers of the values where the model has a utility."""

    @classmethod
    def of(cls, schema: Schema, form: RequestFormat, own: Schema | None = None) -> "RequestEncoder":
        """Encode requests of this format; ``own`` is the schema of the format, if it is another."""
        if own is not None:
            _check_same_columns(schema, own)
        items, context = schema.feature_encoders()
        terms = schema.term_encoder()
        read = None if terms is None else RequestTerms.of(terms, items, context, form)
        return cls(
            form.columns, form.context,
            tuple(one.may_be_missing for one in (own or schema).context),
            RowEncoder.of(items, form.columns + form.context),
            RowEncoder.of(context, form.context),
            schema.outside, read,
        )  # fmt: skip

    def encoded(self, asked: ParsedRequest) -> Encoded:
        """The sets as numbers, outside options included."""
        sizes = [len(one.items) for one in asked.sets]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = [astuple(item) for item in chain.from_iterable(one.items for one in asked.sets)]
        if self.terms is not None:
            return self._of_terms(self.terms, asked, rows, offsets)
        try:
            items = self.items.encoded(rows)
        except BadValue as bad:
            number = int(np.searchsorted(offsets, bad.row, "right")) - 1
            place = bad.row - int(offsets[number])
            raise asked.refused(number, place, bad.column, bad.said) from None
        encoded = Encoded(items, self._context(asked, rows, offsets), offsets, None, None)
        return with_outside(encoded) if self.outside else encoded

    def _of_terms(
        self, terms: "RequestTerms", asked: ParsedRequest, rows: Sequence[Any], offsets: Any
    ) -> Encoded:
        """The terms of a utility, from the values of items and of their set's context."""
        around = [
            self._context_of_set(asked, number, rows[offsets[number] : offsets[number + 1]])
            for number in range(len(asked.sets))
        ]
        try:
            items = terms.encoded(rows, around, np.diff(offsets)).astype(np.float32)
        except BadValue as bad:
            number = int(np.searchsorted(offsets, bad.row, "right")) - 1
            place = None if bad.column in self.context_columns else bad.row - int(offsets[number])
            raise asked.refused(number, place, bad.column, bad.said) from None
        encoded = Encoded(items, np.zeros((len(around), 0), np.float32), offsets, None, None)
        return with_outside(encoded) if self.outside else encoded

    def _context(self, asked: ParsedRequest, rows: Sequence[Any], offsets: Any) -> Any:
        if not self.context_columns:
            return np.zeros((len(asked.sets), 0), np.float32)
        found = [
            self._context_of_set(asked, number, rows[offsets[number] : offsets[number + 1]])
            for number in range(len(asked.sets))
        ]
        try:
            return self.context.encoded(found)
        except BadValue as bad:
            raise asked.refused(bad.row, None, bad.column, bad.said) from None

    def _context_of_set(
        self, asked: ParsedRequest, number: int, rows: Sequence[Any]
    ) -> tuple[Any, ...]:
        """The values of a set's context, which may be in its context, in its items, or in both."""
        given = asked.sets[number].context
        values = list(astuple(given)) if given is not UNSET else [UNSET] * len(self.context_columns)
        first = len(self.columns)
        for place, name in enumerate(self.context_columns):
            for item, row in enumerate(rows):
                value = row[first + place]
                if value is UNSET:
                    continue
                if values[place] is UNSET:
                    values[place] = value
                elif values[place] != value:
                    why = "differs within the set; a context column has one value per set"
                    raise asked.refused(number, item, name, why)
            if values[place] is UNSET:
                if not self.optional[place]:
                    raise RequestError(
                        422, f"'{name}' of the context of {asked.which(number)} is missing; "
                        "the model needs it", asked.where(number, "context", name),
                    )  # fmt: skip
                values[place] = None
        return tuple(values)


@dataclass(frozen=True, eq=False)
class RequestTerms:
    """The terms of a utility for the rows of a request."""

    terms: TermEncoder
    items: tuple[tuple[int, FeatureEncoder], ...]
    """The place of each column in a row, and how its values are read."""
    context: tuple[tuple[int, FeatureEncoder], ...]

    @classmethod
    def of(
        cls,
        terms: TermEncoder,
        items: Sequence[FeatureEncoder],
        context: Sequence[FeatureEncoder],
        form: RequestFormat,
    ) -> "RequestTerms":
        """For requests of this format."""
        own = tuple((form.columns.index(one.name), one.for_requests()) for one in items)
        around = tuple((form.context.index(one.name), one.for_requests()) for one in context)
        return cls(terms, own, around)

    def encoded(self, rows: Sequence[Any], around: Sequence[Any], sizes: Any) -> Any:
        """The standardised terms of every row."""
        columns: dict[str, Column] = {}
        given: dict[str, Sequence[Any]] = {}
        owners = np.repeat(np.arange(len(around)), sizes)
        for place, one in self.items:
            given[one.name] = [row[place] for row in rows]
            columns[one.name] = one.read(given[one.name])
        for place, one in self.context:
            values = [row[place] for row in around]
            given[one.name] = [values[owner] for owner in owners]
            columns[one.name] = one.read(values).take(owners)
        return self.terms.encoded(columns, given)


def _check_same_columns(reference: Schema, own: Schema) -> None:
    """Refuse a second model that cannot read the same requests."""
    for role in ("items", "context"):
        known: dict[str, Encoder] = {one.feature.column: one for one in getattr(own, role)}
        for one in getattr(reference, role):
            name = one.feature.column
            if name not in known:
                why = f"is not among the {role} of the first model"
            elif (one.kind == "number", one.kind == "date") != (
                known[name].kind == "number", known[name].kind == "date"
            ):  # fmt: skip
                why = f"is a {one.kind}, but a {known[name].kind} in the first model"
            elif known[name].may_be_missing and not one.may_be_missing:
                why = "must not be missing, but may be missing in the first model"
            else:
                continue
            raise InputError(
                f"the second model cannot read the same requests: its column '{name}' {why}; "
                "fit both models on the same columns"
            )
    if reference.outside != own.outside:
        raise InputError(
            "only one of the two models has an outside option; fit both models on the same data"
        )

"""A request seen through a schema: its sets as the encoded rows that a model scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from msgspec import UNSET
from msgspec.structs import astuple

from setwise._errors import InputError
from setwise.choices import Encoded, Schema
from setwise.choices.encoders import Encoder
from setwise.choices.encoding import with_outside
from setwise.server.cells import BadCell, Cells
from setwise.server.forms import Asked, Form, may_be_missing
from setwise.server.refusals import Refused


@dataclass(frozen=True, eq=False)
class Reading:
    """From a request to numbers, in the encoding of a schema."""

    columns: tuple[str, ...]
    context_columns: tuple[str, ...]
    optional: tuple[bool, ...]
    """Of context columns, whether they may be missing."""
    items: Cells
    context: Cells
    outside: bool

    @classmethod
    def of(cls, schema: Schema, form: Form, own: Schema | None = None) -> "Reading":
        """Read requests of this form; ``own`` is the form's schema, where that is another one."""
        if own is not None:
            _check_same_columns(schema, own)
        count = sum(len(encoder.names) for encoder in schema.items)
        rows = form.columns + form.context
        return cls(
            form.columns, form.context,
            tuple(may_be_missing(one) for one in (own or schema).context),
            Cells.of(schema.items, rows, schema.mean[:count], schema.scale[:count]),
            Cells.of(schema.context, form.context, schema.mean[count:], schema.scale[count:]),
            schema.outside,
        )  # fmt: skip

    def encoded(self, asked: Asked) -> Encoded:
        """The sets as numbers, outside options included."""
        sizes = [len(one.items) for one in asked.sets]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = [astuple(item) for item in chain.from_iterable(one.items for one in asked.sets)]
        try:
            items = self.items.encoded(rows)
        except BadCell as bad:
            number = int(np.searchsorted(offsets, bad.row, "right")) - 1
            place = bad.row - int(offsets[number])
            raise asked.refused(number, place, bad.column, bad.why) from None
        encoded = Encoded(items, self._context(asked, rows, offsets), offsets, None, None)
        return with_outside(encoded) if self.outside else encoded

    def _context(self, asked: Asked, rows: Sequence[Any], offsets: Any) -> Any:
        if not self.context_columns:
            return np.zeros((len(asked.sets), 0), np.float32)
        found = [
            self._context_of_set(asked, number, rows[offsets[number] : offsets[number + 1]])
            for number in range(len(asked.sets))
        ]
        try:
            return self.context.encoded(found)
        except BadCell as bad:
            raise asked.refused(bad.row, None, bad.column, bad.why) from None

    def _context_of_set(self, asked: Asked, number: int, rows: Sequence[Any]) -> tuple[Any, ...]:
        """The values of a set's context: they stand in its context, or in its items, or in both."""
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
                    why = "differs within the set; a context column has one value a set"
                    raise asked.refused(number, item, name, why)
            if values[place] is UNSET:
                if not self.optional[place]:
                    raise Refused(
                        422, f"'{name}' of the context of {asked.which(number)} is missing; "
                        "the model needs it", asked.where(number, "context", name),
                    )  # fmt: skip
                values[place] = None
        return tuple(values)


def _check_same_columns(beside: Schema, own: Schema) -> None:
    """Refuse a model beside that cannot read what the model reads."""
    for role in ("items", "context"):
        known: dict[str, Encoder] = {one.feature.column: one for one in getattr(own, role)}
        for one in getattr(beside, role):
            name = one.feature.column
            if name not in known:
                why = f"is not a column of the model's {role}"
            elif (one.kind == "number", one.kind == "date") != (
                known[name].kind == "number", known[name].kind == "date"
            ):  # fmt: skip
                why = f"is a {one.kind} there, and a {known[name].kind} to the model"
            elif may_be_missing(known[name]) and not may_be_missing(one):
                why = "must not be missing there, but may be to the model"
            else:
                continue
            raise InputError(
                f"the model beside cannot be asked the same: its column '{name}' {why}; "
                "fit both on the same columns"
            )
    if beside.outside != own.outside:
        raise InputError(
            "of the model and the model beside only one has an outside option; fit both alike"
        )

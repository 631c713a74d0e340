"""The schema: how columns become the numbers that models see, fitted on training data only.

Number, category and date columns become plain numeric columns, each of which is then standardised
with the training mean and scale. The schema is plain JSON and is saved with every model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise._arguments import check_all, each, flag, number
from setwise._errors import InputError
from setwise._shapes import Bool, Float, Float64
from setwise.choices.choices import Choices
from setwise.choices.encoders import Encoder
from setwise.choices.encoding import Encoded, Encoding, Standardised
from setwise.choices.features import Feature, Roles
from setwise.choices.popularity import Tally, in_folds

Table = Float64[np.ndarray, "codes m"]


@dataclass(frozen=True)
class Schema:
    """Roles, fitted encoders and standardisation: everything between a table and a model.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> Schema.fit(choices).item_names
    ['cost', 'ivt', 'ovt', 'freq', 'is_car', 'is_train', 'is_bus', 'is_air']
    """

    roles: Roles
    items: tuple[Encoder, ...]
    context: tuple[Encoder, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    outside: bool

    @classmethod
    def fit(cls, choices: Choices) -> "Schema":
        """Learn the encoding from training data."""
        return cls.learn(choices)[0]

    @classmethod
    def learn(cls, choices: Choices) -> "tuple[Schema, Encoding]":
        """Learn the encoding from training data, and see these data in it, to train a model on.

        The training data differ from what :meth:`encode` makes of them in one thing: popularity
        is cross-fitted, so that no set sees its own choice.
        """
        roles = choices.roles
        if any(feature.popularity for feature in roles.items):
            choices = in_folds(choices)
        named = [feature.column for feature in roles.items if feature.popularity]
        tallies = Tally.of(choices, named) if named else {}
        items = []
        for feature in roles.items:
            if feature.popularity:
                encoder = _popularity(feature, choices, tallies[feature.column])
            else:
                parts = (block.columns[feature.column] for block in choices.blocks())
                encoder = Encoder.fit(feature, parts, choices.rare)
            items.append(encoder)
        context = [
            Encoder.fit(feature, iter([choices.context[feature.column]]), choices.rare)
            for feature in roles.context
        ]
        for one in [*items, *context]:
            one.warn_of_one_level(choices.levels(one.feature.column), choices.rare)
        width = sum(len(encoder.names) for encoder in items + context)
        plain = cls(
            roles, tuple(items), tuple(context), (0.0,) * width, (1.0,) * width, choices.outside
        )
        tables = {name: tally.table() for name, tally in tallies.items()}
        counts = {name: tally.rows for name, tally in tallies.items()}
        mean, scale = plain._seen(choices, tables).moments(counts)
        schema = replace(plain, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()))
        seen = schema._seen(choices, tables)
        seen.refuse_collapsed()
        return schema, seen

    @property
    def item_names(self) -> list[str]:
        """The numeric item columns, as coefficients are labelled."""
        names = [name for encoder in self.items for name in encoder.names]
        return [*names, "outside option"] if self.outside else names

    @property
    def context_names(self) -> list[str]:
        """The numeric context columns."""
        return [name for encoder in self.context for name in encoder.names]

    @property
    def width(self) -> int:
        """The number of columns that a model sees: items' and, beside them, the set's context."""
        return len(self.item_names) + len(self.context_names)

    @property
    def item_scales(self) -> Float[np.ndarray, " d"]:
        """What one standardised unit of each item column is in the table's units."""
        count = sum(len(encoder.names) for encoder in self.items)
        return np.array([*self.scale[:count], *([1.0] if self.outside else [])])

    def over(self, choices: Choices) -> Encoding:
        """These choices in this encoding; errors name what the table lacks."""
        if choices.outside and not self.outside:
            raise InputError(
                "these choices have an outside option, but the model was trained without one; "
                'read them with on_none="drop", or train with on_none="outside"'
            )
        return self._seen(choices, {})

    def encode(self, choices: Choices, dtype: type = np.float32) -> Encoded:
        """Choices as numbers, all at once."""
        return self.over(choices).encoded(dtype)

    def real_rows(self, encoded: Encoded) -> Bool[np.ndarray, " rows"]:
        """Which encoded rows are the table's: all but the outside options."""
        real = np.ones(len(encoded.items), bool)
        if self.outside:
            real[encoded.offsets[1:] - 1] = False
        return real

    def _seen(self, choices: Choices, tables: Mapping[str, Table]) -> Encoding:
        """Choices in this encoding, with the tables of those columns that have their own."""
        features = [
            Standardised(encoder, np.array(self.mean[place]), np.array(self.scale[place]))
            for encoder, place in self._places()
        ]
        count = len(self.items)
        return Encoding.of(choices, features[:count], features[count:], self.outside, tables)

    def _places(self) -> Iterator[tuple[Encoder, slice]]:
        """Every encoder and where its columns stand in mean and scale."""
        end = 0
        for encoder in self.items + self.context:
            begin, end = end, end + len(encoder.names)
            yield encoder, slice(begin, end)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a model file."""
        encoders = {
            name: [encoder.to_json() for encoder in getattr(self, name)]
            for name in ("items", "context")
        }
        return vars(self) | encoders | {"roles": self.roles.to_json()}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Schema":
        """The schema that :meth:`to_json` wrote."""
        encoders = {
            name: tuple(Encoder.from_json(one) for one in plain[name])
            for name in ("items", "context")
        }
        check_all({"mean": each(number(), 0), "scale": each(number(above=0), 0)}, plain)
        check_all({"outside": flag}, plain)
        vectors = {name: tuple(plain[name]) for name in ("mean", "scale")}
        roles = Roles.from_json(plain["roles"])
        schema = cls(**(plain | encoders | vectors | {"roles": roles}))
        for fitted, asked in ((schema.items, roles.items), (schema.context, roles.context)):
            if tuple(encoder.feature for encoder in fitted) != asked:
                raise InputError("the encoded columns are not those of the roles")
        width = sum(len(encoder.names) for encoder in schema.items + schema.context)
        if not schema.items or {len(vector) for vector in vectors.values()} != {width}:
            raise InputError(f"there are not {width} means and scales")
        return schema


def _popularity(feature: Feature, choices: Choices, tally: Tally) -> Encoder:
    names, values = choices.levels(feature.column), tally.popularity()
    shown = np.flatnonzero(tally.expected.sum(0)).tolist()  # names of test sets are not learned
    levels = tuple(names[code] for code in shown)
    return Encoder(feature, "popularity", levels, values=tuple(values[shown].tolist()))

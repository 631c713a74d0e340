"""The schema: how columns become the numbers that models see, fitted on training data only.

Number, category and date columns become plain numeric columns, each of which is then standardised
with the training mean and scale. The schema is plain JSON and is saved with every model.

**Popularity** turns a column of names into one number. Over the training sets in which items of
the name k were shown, with n the size of the set,

    popularity(k) = log( (times chosen + 3) / (sum of 1/n + 3) ),

the log ratio of choices to those expected if every item had equal chances. The threes draw names
that were seldom shown towards 0, which is also the popularity of a name never seen.

Popularity is learned from what was chosen, so it must not know the answer. It is learned from
training sets only, as everything in a schema. For the training sets themselves it is
*cross-fitted*: they are divided into folds, and the popularity that a set sees is learned from the
other folds. Otherwise a model would learn to trust a number that holds the very choice to predict.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise._arguments import check_all, each, flag, number
from setwise._errors import DataWarning, InputError
from setwise._shapes import Bool, Float, Float64, Int, Num
from setwise.choices.choices import Choices, Column
from setwise.choices.encoders import MISSING, OTHER, Encoder, FeatureEncoder
from setwise.choices.encoding import Encoded, Encoding
from setwise.choices.features import Feature, Roles
from setwise.choices.terms import TermEncoder, Terms, row_columns, used_roles
from setwise.choices.text_values import look_alikes
from setwise.choices.utility import Utility

FOLDS = 10
MOST_NAMES = 100  # a column with more levels hardly names alternatives
PRIOR = 3.0  # of 0.1 to 10, the best in validation on hotels, for clicks; for bookings next to it


def in_folds(choices: Choices) -> Choices:
    """The same choices with a random fold for each set or ranking; it is always the same."""
    units = choices.units
    count = int(units.max(initial=-1)) + 1
    fold = np.random.default_rng(0).integers(FOLDS, size=count, dtype=np.int8)
    return replace(choices, fold=fold[units])


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
            inside = block.chosen < block.sizes  # an outside option is not a row of the table
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
    terms: Terms | None = None
    """What models see, where the roles have a utility; items and context are read for it."""

    @classmethod
    def fit(cls, choices: Choices) -> "Schema":
        """Learn the encoding from training data."""
        return cls.learn(choices, worst=True)[0]

    @classmethod
    def learn(
        cls, choices: Choices, whole: Collection[str] = (), worst: bool = False
    ) -> "tuple[Schema, Encoding]":
        """Learn the encoding from training data, and see these data in it, to train a model on.

        No rare level of the columns ``whole`` is merged with others. The training data differ from
        what :meth:`encode` makes of them in one thing: popularity is cross-fitted, so that no set
        sees its own choice. With ``worst``, some sets may have chosen the worst item.
        """
        _check_worst(choices, worst)
        roles = choices.roles
        if roles.utility is not None:
            return cls._learn_terms(choices, roles.utility)
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
                rare = 0.0 if feature.column in whole else choices.rare
                encoder = Encoder.fit(feature, parts, rare)
            items.append(encoder)
        context = [
            Encoder.fit(feature, iter([choices.context[feature.column]]), choices.rare)
            for feature in roles.context
        ]
        for one in [*items, *context]:
            levels = choices.levels(one.feature.column)
            if not len(levels):
                continue
            one.warn_of_one_level(levels, choices.rare)
            if one.kind == "category" and one.feature.column in choices.columns:
                _warn_of_merged_alternatives(one, choices, levels)
            odd = look_alikes(one.feature.column, levels)
            if odd is not None:
                warnings.warn(odd, DataWarning, stacklevel=2)
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

    @classmethod
    def _learn_terms(cls, choices: Choices, utility: Utility) -> "tuple[Schema, Encoding]":
        """The schema of the terms of a utility. No level is merged: each has a coefficient."""
        roles = used_roles(utility, choices)
        terms = Terms.fit(utility, choices)
        columns = row_columns([*roles.items, *roles.context], choices)
        items, context = (
            tuple(Encoder.fit(one, iter([columns[one.column]]), 0.0) for one in features)
            for features in (roles.items, roles.context)
        )
        width = len(terms.names)
        plain = cls(roles, items, context, (0.0,) * width, (1.0,) * width, choices.outside, terms)
        mean, scale = plain._seen(choices, {}).moments({})
        schema = replace(plain, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()))
        return schema, schema._seen(choices, {})

    def with_marks(self, marks: Mapping[str, Sequence[str]], choices: Choices) -> "Schema":
        """With one more column per name, after the terms: above 0 for these alternatives alone.

        Nests are told apart by them. The schema must be that of a utility of these choices.

        >>> import setwise as sw
        >>> table = {"trip": [1, 1], "mode": ["bus", "car"], "cost": [1.0, 2.0], "taken": [1, 0]}
        >>> choices = sw.read(table, set="trip", chosen="taken", alternative="mode")
        >>> schema = Schema.fit(choices.with_utility("cost | 0"))
        >>> schema = schema.with_marks({"road": ["car"]}, choices)
        >>> schema.encode(choices).items[:, -1].tolist()
        [-0.5, 0.5]
        """
        assert self.terms is not None
        column = self.roles.alternative
        assert column is not None
        roles, items = self.roles, self.items
        if column not in [one.column for one in roles.items]:
            named = Feature(column, category=True)
            roles = replace(roles, items=(*roles.items, named))
            items = (*items, Encoder.fit(named, iter([choices.columns[column]]), 0.0))
        return replace(
            self, roles=roles, items=items, terms=self.terms.with_marks(column, marks),
            mean=(*self.mean, *[0.5] * len(marks)), scale=(*self.scale, *[1.0] * len(marks)),
        )  # fmt: skip

    def with_context_terms(self, formula: str, choices: Choices) -> "Schema":
        """With the terms of a formula of context after those of the utility.

        They are equal for all items of a set: what tells people apart. The schema must be that of
        a utility of these choices.

        >>> import setwise as sw
        >>> table = {"trip": [1, 1, 2, 2], "cost": [1.0, 2.0, 3.0, 1.0], "taken": [1, 0, 0, 1],
        ...          "age": [30, 30, 50, 50]}
        >>> choices = sw.read(table, set="trip", chosen="taken", items=["cost"], context=["age"])
        >>> schema = Schema.fit(choices.with_utility("log(cost)"))
        >>> schema.with_context_terms("age + I(age > 40)", choices).item_names
        ['log(cost)', 'age', 'I(age > 40)']
        """
        assert self.terms is not None
        alone = Utility(f"{formula} | 0")  # without constants of alternatives
        known = {one.column for one in self.roles.context}
        added = [one for one in used_roles(alone, choices).context if one.column not in known]
        columns = row_columns(added, choices)
        encoders = (Encoder.fit(one, iter([columns[one.column]]), 0.0) for one in added)
        count = len(self.terms.names)
        schema = replace(
            self, roles=replace(self.roles, context=(*self.roles.context, *added)),
            context=(*self.context, *encoders), terms=self.terms.with_context(alone, choices),
        )  # fmt: skip
        width = len(schema.item_names) - int(self.outside)
        plain = replace(schema, mean=(0.0,) * width, scale=(1.0,) * width)
        mean, scale = plain._seen(choices, {}).moments({})
        return replace(
            schema, mean=(*self.mean, *mean[count:].tolist()),
            scale=(*self.scale, *scale[count:].tolist()),
        )  # fmt: skip

    @property
    def model_items(self) -> tuple[Encoder, ...]:
        """What a model sees of items, in order: features, or the terms of the utility."""
        if self.terms is None:
            return self.items
        return tuple(Encoder(Feature(name), "number") for name in self.terms.names)

    @property
    def item_names(self) -> list[str]:
        """The numeric item columns, as coefficients are labelled."""
        names = [name for encoder in self.model_items for name in encoder.names]
        return [*names, "outside option"] if self.outside else names

    @property
    def model_context(self) -> tuple[Encoder, ...]:
        """What a model sees of the context: nothing beside the terms of a utility."""
        return self.context if self.terms is None else ()

    @property
    def context_names(self) -> list[str]:
        """The numeric context columns."""
        return [name for encoder in self.model_context for name in encoder.names]

    @property
    def width(self) -> int:
        """The number of columns that a model sees: items' and the set's context."""
        return len(self.mean) + int(self.outside)

    @property
    def item_scales(self) -> Float[np.ndarray, " d"]:
        """What one standardised unit of each item column is in the table's units."""
        count = sum(len(encoder.names) for encoder in self.model_items)
        return np.array([*self.scale[:count], *([1.0] if self.outside else [])])

    def over(self, choices: Choices, worst: bool = False) -> Encoding:
        """These choices in this encoding; errors name what the table lacks.

        With ``worst``, some sets may have chosen the worst item: who asks for them must look at
        ``Encoded.worst``.
        """
        _check_worst(choices, worst)
        if choices.outside and not self.outside:
            raise InputError(
                "these choices have an outside option, but the model was trained without one; "
                'read them with on_none="drop", or train with on_none="outside"'
            )
        return self._seen(choices, {})

    def encode(self, choices: Choices, dtype: type = np.float32, worst: bool = False) -> Encoded:
        """Choices as numbers, all at once; ``worst`` is that of :meth:`over`."""
        return self.over(choices, worst).encoded(dtype)

    def real_rows(self, encoded: Encoded) -> Bool[np.ndarray, " rows"]:
        """Which encoded rows are the table's: all but the outside options."""
        real = np.ones(len(encoded.items), bool)
        if self.outside:
            real[encoded.offsets[1:] - 1] = False
        return real

    def _seen(self, choices: Choices, tables: Mapping[str, Table]) -> Encoding:
        """Choices in this encoding, with the tables of those columns that have their own."""
        items, context = self.feature_encoders()
        return Encoding.of(choices, items, context, self.outside, tables, self.term_encoder())

    def term_encoder(self) -> TermEncoder | None:
        """The terms of the utility with their mean and scale; None where there is no utility."""
        if self.terms is None:
            return None
        items, context = self.feature_encoders()
        moments = (np.array(one, np.float64) for one in (self.mean, self.scale))
        return TermEncoder(self.terms, (*items, *context), *moments)

    def feature_encoders(self) -> tuple[list[FeatureEncoder], list[FeatureEncoder]]:
        """The encoders of items and of context, with the mean and scale of their numbers.

        Columns of a utility are not standardised: its terms are.
        """
        found, end = [], 0
        for encoder in self.items + self.context:
            begin, end = end, end + len(encoder.names)
            mean, scale = (np.array(one[begin:end], np.float64) for one in (self.mean, self.scale))
            if self.terms is not None:
                mean, scale = np.zeros(end - begin), np.ones(end - begin)
            found.append(FeatureEncoder(encoder, mean, scale))
        return found[: len(self.items)], found[len(self.items) :]

    def to_json(self) -> dict[str, Any]:
        """Plain values for a model file."""
        encoders = {
            name: [encoder.to_json() for encoder in getattr(self, name)]
            for name in ("items", "context")
        }
        terms = None if self.terms is None else self.terms.to_json()
        return vars(self) | encoders | {"roles": self.roles.to_json(), "terms": terms}

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
        roles, terms = Roles.from_json(plain["roles"]), plain.get("terms")
        made = {"roles": roles, "terms": None if terms is None else Terms.from_json(terms)}
        schema = cls(**(plain | encoders | vectors | made))
        for fitted, asked in ((schema.items, roles.items), (schema.context, roles.context)):
            if tuple(encoder.feature for encoder in fitted) != asked:
                raise InputError("the encoded columns are not those of the roles")
        if (schema.terms is None) != (roles.utility is None):
            raise InputError("there are terms without a utility, or a utility without terms")
        if schema.terms is not None:
            schema.terms.check({one.feature.column: one for one in schema.items + schema.context})
        seen = schema.model_items + schema.model_context
        width = sum(len(encoder.names) for encoder in seen)
        if not schema.items or {len(vector) for vector in vectors.values()} != {width}:
            raise InputError(f"there are not {width} means and scales")
        return schema


def _check_worst(choices: Choices, taken: bool) -> None:
    if choices.worst is not None and not taken:
        raise InputError(
            "some of these sets chose the worst item (worst=), which only MNL, LinearContextLogit, "
            "WithinSetMNL, MixedLogit and models trained by gradients, such as SDA, can be fitted "
            "to and evaluated on; for other uses give the table, or read it without worst="
        )


def _warn_of_merged_alternatives(encoder: Encoder, choices: Choices, levels: Sequence[str]) -> None:
    """Warn if a column that seems to name alternatives loses rare ones to "other".

    No set has such a name twice.
    """
    column = choices.columns[encoder.feature.column]
    lost = [level for level in levels if level not in encoder.levels]
    if not lost or len(levels) > MOST_NAMES or OTHER not in encoder.levels:
        return
    marks = choices.offsets[:-1].repeat(choices.sizes) * np.int64(len(levels) + 1) + column.values
    if len(np.unique(marks)) < len(marks):
        return
    name, some = encoder.feature.column, ", ".join(f"'{one}'" for one in lost[:5])
    warnings.warn(
        f"column '{name}' seems to name the alternatives, and {some} are in fewer than "
        f"{choices.rare:.2%} of the rows: they become one level, 'other', with one constant; read "
        f"it with alternative='{name}', or with rare=0, to keep them apart",
        DataWarning,
        stacklevel=3,
    )


def _popularity(feature: Feature, choices: Choices, tally: Tally) -> Encoder:
    names, values = choices.levels(feature.column), tally.popularity()
    shown = np.flatnonzero(tally.expected.sum(0)).tolist()  # names of test sets are not learned
    levels = tuple(names[code] for code in shown)
    return Encoder(feature, "popularity", levels, values=tuple(values[shown].tolist()))


def common_levels(choices: Choices, least: int = 20) -> Choices:
    """The same choices, in memory, with rare levels of categories grouped as "other" now.

    A schema groups levels by the training part. Grouped beforehand, parts of a random split have
    the same levels, hence the same columns, and models of all splits can train as one program.
    What was chosen plays no part in it. Rare are levels in fewer than the share ``choices.rare``
    of the rows (of the sets, for context), or in fewer than ``least`` of them.

    >>> import setwise as sw
    >>> choices = sw.read({"set": [1, 1, 2, 2], "brand": ["a", "a", "a", "b"],
    ...                    "chosen": [1, 0, 0, 1]}, set="set", chosen="chosen")
    >>> common_levels(choices, least=2).columns["brand"].levels
    ('a', 'other')
    """
    loaded, roles = choices.in_memory(), choices.roles
    columns = _grouped(loaded.columns, roles.items, loaded.rare, least)
    context = _grouped(loaded.context, roles.context, loaded.rare, least)
    if not columns and not context:
        return choices
    return replace(
        loaded,
        roles=replace(
            roles,
            items=tuple(_with_other(feature, columns) for feature in roles.items),
            context=tuple(_with_other(feature, context) for feature in roles.context),
        ),
        columns={**loaded.columns, **columns},
        context={**loaded.context, **context},
        rare=0.0,
    )


def _grouped(
    columns: Mapping[str, Column], features: Sequence[Feature], rare: float, least: int
) -> dict[str, Column]:
    """The columns that are categories, with fewer levels."""
    grouped = {}
    for feature in features:
        column = columns[feature.column]
        if column.levels is not None and not feature.popularity:
            share = max(rare, least / len(column.values))
            encoder = Encoder.fit(feature, iter([column]), share)
            encoder.warn_of_one_level(column.levels, share)
            kept = encoder.levels
            grouped[feature.column] = _recoded(column, [one for one in kept if one != MISSING])
    return grouped


def _with_other(feature: Feature, grouped: Mapping[str, Column]) -> Feature:
    """Expecting "other" where levels were grouped: a part may happen to have none of them."""
    levels = grouped[feature.column].levels if feature.column in grouped else ()
    return replace(feature, other=feature.other or OTHER in (levels or ()))


def _recoded(column: Column, kept: Sequence[str]) -> Column:
    """With these levels only; others become "other", and missing values stay missing."""
    place = {level: code for code, level in enumerate(kept)}
    rest = place.get(OTHER, -1)
    codes = np.array([*(place.get(level, rest) for level in column.levels or ()), -1])
    return Column(codes[column.values].astype(column.values.dtype), tuple(kept))

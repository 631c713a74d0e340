"""The schema: how columns become the numbers that models see, fitted on training data only.

Number, category and date columns become plain numeric columns, each of which is then standardised
with the training mean and scale. The schema is plain JSON and is saved with every model.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from setwise._errors import InputError
from setwise.choices.choices import Choices
from setwise.choices.columns import Column
from setwise.choices.features import Feature, Roles

OTHER = "other"
MISSING = "missing"


@dataclass(frozen=True)
class Encoder:
    """One feature's fitted form: its kind, its category levels or its median."""

    feature: Feature
    kind: str
    levels: tuple[str, ...] = ()
    median: float | None = None

    @property
    def names(self) -> list[str]:
        """The numeric columns that the feature becomes."""
        name = str(self.feature.column)
        if self.kind == "category":
            return [f"{name}={level}" for level in self.levels]
        if self.kind == "date":
            return [f"{name}:week", f"{name}:month"]
        plain = name if self.feature.transform == "none" else f"{self.feature.transform}({name})"
        return [plain, f"{name}:{MISSING}"] if self.median is not None else [plain]

    @classmethod
    def fit(cls, feature: Feature, column: Column, rare: float) -> "Encoder":
        """Learn levels or the median from training data."""
        if column.kind == "category":
            return cls(feature, "category", _levels(feature, column, rare))
        if column.kind == "date" or not feature.impute:
            return cls(feature, column.kind)
        if column.missing.all():
            raise InputError(
                f"column '{feature.column}' has no value at all to impute from; drop it"
            )
        return cls(feature, "number", median=float(np.nanmedian(_transformed(feature, column))))

    def expand(
        self, column: Column, rows: Int[np.ndarray, " n"] | None = None
    ) -> Float[np.ndarray, "n m"]:
        """The feature's numeric columns, before standardisation; errors name the table's rows."""
        if self.kind == "category" and column.kind == "number" and column.missing.all():
            column = Column(np.full(len(column.values), -1, np.int32), ())
        if column.kind != self.kind:
            name = self.feature.column
            also = f", or train with category({name})" if self.kind == "category" else ""
            raise InputError(
                f"column '{name}' is a {column.kind} here but was a {self.kind} when the model "
                f"was trained; convert it{also}"
            )
        if self.kind == "category":
            return self._one_hot(column, np.arange(len(column.values)) if rows is None else rows)
        if self.kind == "date":
            return np.stack([_week(column.values), _month(column.values)], 1)
        values = _transformed(self.feature, column)
        if self.median is None:
            return values[:, None]
        gone = np.isnan(values)
        return np.stack([np.where(gone, self.median, values), gone.astype(values.dtype)], 1)

    def _one_hot(self, column: Column, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n m"]:
        place = {level: i for i, level in enumerate(self.levels)}
        fallback = place.get(OTHER, -1)
        codes = np.array([place.get(level, fallback) for level in column.levels or ()], np.int64)
        # A missing category has code -1 and so takes the last entry.
        coded = np.append(codes, place.get(MISSING, fallback))[column.values]
        unknown = coded < 0
        if unknown.any():
            at = int(np.argmax(unknown))
            code = column.values[at]
            level = (column.levels or ())[code] if code >= 0 else None
            raise InputError(
                f"column '{self.feature.column}' has the level {level!r} at row {rows[at]}, which "
                f"training data did not have (it had: {', '.join(self.levels[:8])}); correct it, "
                f"or train with other({self.feature.column}) to take new levels as 'other'"
            )
        return np.eye(len(self.levels))[coded]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Choices as models see them: flat numeric rows, standardised.

    With an outside option every set has one more row, its last: zero in every feature (the mean)
    and one in the indicator column that is added at the end.
    """

    items: Float[np.ndarray, "rows d"]
    context: Float[np.ndarray, "sets c"]
    offsets: Int[np.ndarray, " sets_and_one"]
    chosen: Int[np.ndarray, " sets"] | None
    weight: Float[np.ndarray, " sets"] | None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """The number of items of each set, the outside option included."""
        return np.diff(self.offsets)


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
        items = tuple(
            Encoder.fit(feature, choices.columns[feature.column], choices.rare)
            for feature in choices.roles.items
        )
        context = tuple(
            Encoder.fit(feature, choices.context[feature.column], choices.rare)
            for feature in choices.roles.context
        )
        blocks = [encoder.expand(choices.columns[encoder.feature.column]) for encoder in items]
        blocks += [encoder.expand(choices.context[encoder.feature.column]) for encoder in context]
        mean = np.concatenate([block.mean(0, dtype=np.float64) for block in blocks])
        scale = np.concatenate([block.std(0, dtype=np.float64) for block in blocks])
        # A constant column keeps its unit; so does one whose spread is rounding error.
        scale = np.where(scale > 1e-12 * np.maximum(1, np.abs(mean)), scale, 1.0)
        return cls(
            choices.roles, items, context, tuple(mean.tolist()), tuple(scale.tolist()),
            choices.outside,
        )  # fmt: skip

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

    def encode(self, choices: Choices, dtype: type = np.float32) -> Encoded:
        """Choices as numbers; errors name what the table lacks."""
        if choices.outside and not self.outside:
            raise InputError(
                "these choices have an outside option, but the model was trained without one; "
                'read them with on_none="drop", or train with on_none="outside"'
            )
        firsts = choices.rows[choices.offsets[:-1]]
        items = self._block(self.items, choices.columns, choices.rows, 0, dtype)
        context = self._block(self.context, choices.context, firsts, items.shape[1], dtype)
        encoded = Encoded(items, context, choices.offsets, choices.chosen, choices.weight)
        return _with_outside(encoded) if self.outside else encoded

    def _block(
        self,
        encoders: tuple[Encoder, ...],
        columns: Any,
        rows: Int[np.ndarray, " n"],
        start: int,
        dtype: type,
    ) -> Float[np.ndarray, "n m"]:
        """Standardised columns of these encoders; ``start`` is their place in mean and scale."""
        names = [name for encoder in encoders for name in encoder.names]
        block: np.ndarray = np.empty((len(rows), len(names)), dtype)
        end = 0
        for encoder in encoders:
            name = encoder.feature.column
            if name not in columns:
                raise InputError(
                    f"feature column '{name}' is missing; the model was trained with it "
                    f"(columns here: {', '.join(columns)})"
                )
            begin, end = end, end + len(encoder.names)
            place = slice(start + begin, start + end)
            values = encoder.expand(columns[name], rows)
            block[:, begin:end] = (values - np.array(self.mean[place])) / np.array(
                self.scale[place]
            )
        return block

    def to_json(self) -> dict[str, Any]:
        """Plain values for a model file."""
        return asdict(self) | {"roles": self.roles.to_json()}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Schema":
        """The schema that :meth:`to_json` wrote."""
        encoders = {
            name: tuple(
                Encoder(Feature(**one["feature"]), one["kind"], tuple(one["levels"]), one["median"])
                for one in plain[name]
            )
            for name in ("items", "context")
        }
        vectors = {name: tuple(plain[name]) for name in ("mean", "scale")}
        return cls(**(plain | encoders | vectors | {"roles": Roles.from_json(plain["roles"])}))


def _levels(feature: Feature, column: Column, rare: float) -> tuple[str, ...]:
    """Frequent levels in alphabetical order, then "other" and "missing" where they are needed."""
    present = column.values[~column.missing]
    counts = np.bincount(present, minlength=len(column.levels or ()))
    frequent = counts >= max(1, rare * len(column.values))
    levels = [level for level, keep in zip(column.levels or (), frequent, strict=True) if keep]
    levels = [level for level in levels if level not in (OTHER, MISSING)]
    grouped = (counts > 0).sum() > len(levels)
    if grouped or feature.other:
        levels.append(OTHER)
    return (*levels, MISSING) if feature.impute else tuple(levels)


def _transformed(feature: Feature, column: Column) -> Float[np.ndarray, " n"]:
    functions: dict[str, Any] = {
        "none": lambda x: x,
        "log": np.log,
        "log1p": np.log1p,
        "sqrt": np.sqrt,
    }
    return functions[feature.transform](column.values)


def _week(dates: np.ndarray) -> Float[np.ndarray, " n"]:
    """ISO week of the year: the week of the year in which this week's Thursday falls."""
    days = dates.astype("datetime64[D]")
    thursday = days - ((days.astype(np.int64) + 3) % 7) + 3  # 1970-01-01 was a Thursday
    new_year = thursday.astype("datetime64[Y]").astype("datetime64[D]")
    return ((thursday - new_year).astype(np.int64) // 7 + 1).astype(np.float64)


def _month(dates: np.ndarray) -> Float[np.ndarray, " n"]:
    return (dates.astype("datetime64[M]").astype(np.int64) % 12 + 1).astype(np.float64)


def _with_outside(encoded: Encoded) -> Encoded:
    """Add the outside option as the last row of every set, and its indicator column."""
    rows, features = encoded.items.shape
    offsets = encoded.offsets + np.arange(len(encoded.offsets))
    items = np.zeros((rows + len(encoded), features + 1), encoded.items.dtype)
    real = np.ones(len(items), bool)
    real[offsets[1:] - 1] = False
    items[real, :features] = encoded.items
    items[~real, features] = 1
    return Encoded(items, encoded.context, offsets, encoded.chosen, encoded.weight)

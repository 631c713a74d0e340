"""Levels of categories that all parts of the data have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from setwise.choices.choices import Choices
from setwise.choices.columns import Column
from setwise.choices.encoders import MISSING, OTHER, Encoder
from setwise.choices.features import Feature


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

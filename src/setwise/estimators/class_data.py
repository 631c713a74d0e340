"""Which columns latent classes see: those of the utility, and those that tell people apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise._errors import InputError
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.estimators.maximum_likelihood import people_of, with_mean_weight, with_utility
from setwise.training.latent import People

DIFFERS = 1e-9  # of a standardised column


@dataclass(frozen=True, eq=False)
class ClassColumns:
    """The encoded columns by what they are for; places count items, then context."""

    names: list[str]
    of_utility: Int[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    shared: Bool[np.ndarray, " d"]
    known_names: list[str]
    of_people: Int[np.ndarray, " m"]
    known_mean: Float[np.ndarray, " m"]
    known_scale: Float[np.ndarray, " m"]

    def utility(self, encoded: Encoded) -> Encoded:
        """The choices with the columns of the utility alone."""
        items = np.ascontiguousarray(encoded.items[:, self.of_utility])
        return replace(encoded, items=items, context=np.zeros((len(encoded), 0)))

    def known(self, encoded: Encoded) -> Float[np.ndarray, "sets m"]:
        """What is known of the person, in each set."""
        firsts = encoded.items[encoded.offsets[:-1]]
        return np.hstack([firsts, encoded.context])[:, self.of_people]

    def in_units(self) -> Float[np.ndarray, "m m"]:
        """What turns gamma of standardised columns, the constant first, into the table's units."""
        found = np.diag(np.append(1.0, 1 / self.known_scale))
        found[0, 1:] = -self.known_mean / self.known_scale
        return found

    def unused_context(self, schema: Schema) -> str:
        """A line for the summary on context that is not used; empty if there is none."""
        places = len(schema.item_names)
        names = []
        for encoder in schema.model_context:
            if not np.isin(np.arange(places, places + len(encoder.names)), self.of_people).any():
                names.append(f"'{encoder.feature.column}'")
            places += len(encoder.names)
        if not names:
            return ""
        many = len(names) > 1
        return (
            f"Context {', '.join(names)} {'are' if many else 'is'} not used: equal for all items "
            f"of a set, {'they cancel' if many else 'it cancels'}."
        )


def learned(
    choices: Choices, utility: str | Utility | None, membership: Sequence[str] | str | None
) -> tuple[Schema, Encoded]:
    """The schema of training sets, with what membership needs, and these sets in it."""
    used = with_utility(choices, utility)
    if membership is not None:
        _check_membership(membership, used)
    schema, seen = Schema.learn(used)
    if schema.terms is not None and membership is not None:
        schema = schema.with_context_terms(_formula(membership), used)
        seen = schema.over(used)
    return schema, with_mean_weight(seen.encoded(np.float64))


def class_columns(
    schema: Schema, membership: Sequence[str] | str | None, shared: Sequence[str] | None
) -> ClassColumns:
    """Which of the schema's columns are for what; unknown names are refused."""
    items, every = len(schema.item_names), [*schema.item_names, *schema.context_names]
    if schema.terms is not None:
        context = [] if membership is None else [one.column for one in schema.roles.context]
        people = np.array(schema.terms.of_context(context), np.int64)
    else:
        wanted = [] if membership is None else _plain_columns(membership)
        owners = [one.feature.column for one in schema.model_context for _ in one.names]
        people = items + np.flatnonzero(np.isin(owners, wanted))
    of_utility = np.setdiff1d(np.arange(items), people)
    outside = int(schema.outside)
    mean, scale = (
        np.insert(np.array(one), [items - outside] * outside, fill)
        for one, fill in ((schema.mean, 0.0), (schema.scale, 1.0))
    )
    names = [every[place] for place in of_utility]
    return ClassColumns(
        names, of_utility, scale[of_utility], _shared(schema, shared, names),
        [every[place] for place in people], people, mean[people], scale[people],
    )  # fmt: skip


def people_in(choices: Choices, columns: ClassColumns, encoded: Encoded, panels: bool) -> People:
    """Who made these choices; context or weights that differ between their sets are refused."""
    group = people_of(choices) if panels else None
    of_set = np.arange(len(choices)) if group is None else group
    known = columns.known(encoded)
    weight = np.ones(len(choices)) if encoded.weight is None else encoded.weight
    first = np.unique(of_set, return_index=True)[1]
    table = np.column_stack([known, weight])
    differs = np.abs(table - table[first][of_set]) > DIFFERS * np.maximum(1, np.abs(table))
    if differs.any():
        at, column = (int(one[0]) for one in np.nonzero(differs))
        assert choices.group is not None
        who = f"{choices.roles.group}={choices.group[at]}"
        what = "weights" if column == known.shape[1] else f"'{columns.known_names[column]}'"
        raise InputError(
            f"{what} must be the same in all sets of a person, but those of {who} differ; "
            + ("give a weight per person" if what == "weights" else "take it out of membership=")
        )
    ones = np.ones((len(first), 1))
    return People(of_set, weight[first], np.hstack([ones, known[first]]))


def _shared(
    schema: Schema, shared: Sequence[str] | None, names: Sequence[str]
) -> Bool[np.ndarray, " d"]:
    """Which columns have one coefficient for all classes: by their name, or a category's."""
    found = np.zeros(len(names), bool)
    own = {encoder.feature.column: encoder.names for encoder in schema.model_items}
    for one in shared or ():
        levels = own.get(one, [one])
        which = np.isin(names, list(levels))
        if not which.any():
            raise InputError(
                f"shared= names '{one}', which has no coefficient; there are: {', '.join(names)}"
            )
        found |= which
    return found


def _check_membership(membership: Sequence[str] | str, choices: Choices) -> None:
    """Refuse what is not context, and a formula where there is no utility."""
    parsed = Utility(_formula(membership)).parsed()
    if parsed.by_context or parsed.by_item or parsed.chosen:
        raise InputError(f"membership={membership!r} must be one sum of terms, without | and ~")
    known = list(choices.context)
    for name in sorted(set().union(*(one.columns() for one in parsed.products))):
        if name not in known:
            raise InputError(
                f"membership= names '{name}', which is not a context column; there are: "
                f"{', '.join(known) or 'none'}; read it with context=[...]",
                column=name,
            )
    if choices.roles.utility is None:
        _plain_columns(membership)
    elif choices.outside:
        raise InputError(
            "membership= with a utility does not go with an outside option; leave the utility out"
        )


def _plain_columns(membership: Sequence[str] | str) -> list[str]:
    """The columns of membership without a utility; other terms are refused."""
    if not isinstance(membership, str):
        return list(membership)
    names = []
    for one in Utility(membership).parsed().products:
        if len(one.factors) != 1 or one.factors[0][0] != "column":
            raise InputError(
                f"membership={membership!r} has '{one.name}', which is not a column; give a "
                "utility= too, or read the column with a transform, such as context=['log(income)']"
            )
        names.append(str(one.factors[0][1]))
    return names


def _formula(membership: Sequence[str] | str) -> str:
    if isinstance(membership, str):
        return membership
    return " + ".join(f"`{one}`" for one in membership)

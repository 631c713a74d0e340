"""Warnings of columns that are made of a changed column but do not change with it."""

import warnings
from collections.abc import Collection, Sequence

from setwise._errors import DataWarning
from setwise.choices import Choices
from setwise.doctor.derived import Derived, derived
from setwise.estimators import Estimator
from setwise.estimators.maximum_likelihood import Estimated

BOTH = (
    "ask for a finite change of both, with counterfactual(model, data, [Reprice('{of}', ...), "
    "Reprice('{column}', ...)])"
)
TOO = "change it too, with a Reprice('{column}', ...) of its own next to that of '{of}'"


def warn_of_derived(
    estimator: Estimator, choices: Choices, columns: Sequence[str], remedy: str
) -> None:
    """Warn of columns of the model that are made of these, in the data at hand or in training's.

    Args:
        estimator: a fitted model.
        choices: the data at hand.
        columns: those that change.
        remedy: what to do about a column that does not change with them.
    """
    known = {(one.column, one.of): one for one in made_of(estimator, columns)}
    for one in derived(choices, columns):
        known.setdefault((one.column, one.of), one)
    used = [encoder.feature.column for encoder in estimator.schema_.items]
    stays = set(used) - set(columns)
    found = [one for one in known.values() if one.column in stays and one.of in used]
    # If c = a b moves with a, b need not: what stands last in the table is what was made.
    tell([one for one in found if one.partner not in columns
          or used.index(one.column) > used.index(one.of)], remedy)  # fmt: skip


def made_of(estimator: Estimator, columns: Collection[str]) -> list[Derived]:
    """Columns that were made of these in training data, where the model remembers it."""
    found = estimator.derived_ if isinstance(estimator, Estimated) else []
    return [one for one in found if one.of in columns]


def tell(found: Sequence[Derived], remedy: str) -> None:
    """A warning for each column that is made of another."""
    for one in found:
        warnings.warn(
            f"{one}, but the model takes them for two columns: what changes with '{one.of}' "
            f"leaves '{one.column}' as it is; {remedy.format(column=one.column, of=one.of)}",
            DataWarning,
            stacklevel=4,
        )

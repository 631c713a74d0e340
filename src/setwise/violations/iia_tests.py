"""Alternatives of a test of IIA, such as modes of travel: from a column or a vector of names.

Is IIA violated in these data? Six tests, each with its warnings.

Independence of irrelevant alternatives (IIA) says: how often a is preferred to b does not depend
on what else is offered. Every MNL satisfies it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Shaped

from setwise._arguments import checked, columns, one_of, optional
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise.choices import Choices, Encoded, Schema
from setwise.choices.alternatives import Alternatives, shown
from setwise.estimators.base import trainable
from setwise.violations.fewer_items import (
    EstimateComparison,
    hausman_mcfadden,
    mcfadden_tye_train,
    random_items,
    small_hsiao,
)
from setwise.violations.likelihood_ratio import (
    comparisons,
    linear_context,
    mnl_columns,
    pairwise_pulls,
)
from setwise.violations.verdict import LEVEL, IIATest, sampling_warnings

Names = str | Sequence[Any] | Shaped[np.ndarray, " rows"]
"""A feature column of the choices, or one name per row of the table that they were read from."""


def named_alternatives(choices: Choices, names: Names) -> Alternatives:
    """The alternative of each encoded row; the outside option is one, and none may be missing.

    >>> import setwise as sw
    >>> choices = sw.read({"trip": [1, 1, 2, 2], "mode": ["bus", "car", "car", "air"],
    ...                    "taken": [0, 1, 1, 0]}, set="trip", chosen="taken")
    >>> found = named_alternatives(choices, "mode")
    >>> found.names, found.codes.tolist()
    (('air', 'bus', 'car'), [1, 2, 2, 0])
    """
    values = _column(choices, names) if isinstance(names, str) else _vector(choices, names)
    missing = np.array([one is None or one != one for one in values.tolist()], bool)
    if missing.any():
        row = int(choices.rows[int(np.argmax(missing))])
        raise InputError(
            f"row {row} of the table has no alternative ({int(missing.sum())} such rows in "
            "all); name it, or leave its set out"
        )
    distinct, codes = np.unique(values.astype(str), return_inverse=True)
    found = Alternatives(tuple(distinct.tolist()), codes.reshape(-1))
    return found.with_outside(choices) if choices.outside else found


def _column(choices: Choices, name: str) -> Shaped[np.ndarray, " rows"]:
    if name not in choices.columns:
        raise InputError(
            f"alternatives='{name}' is not an item column of these choices (they have: "
            f"{', '.join(choices.columns)}); read it among items=, or give one name per row of the "
            "table as a vector"
        )
    return np.asarray(choices.columns[name].text())


def _vector(choices: Choices, names: Sequence[Any] | np.ndarray) -> Shaped[np.ndarray, " rows"]:
    values, rows = np.asarray(names), choices.rows
    if values.ndim != 1 or len(values) <= int(rows.max()):
        raise InputError(
            f"alternatives has shape {values.shape}, but the table that these choices were read "
            f"from has at least {int(rows.max()) + 1} rows; give one name for each of them"
        )
    return values[rows]


__all__ = ["METHODS", "IIATest", "iia_test"]

METHODS = (
    "lcl", "comparisons", "cdm", "hausman_mcfadden", "mcfadden_tye_train", "small_hsiao",
)  # fmt: skip
VARIANCES = ("each", "all_items")
BLIND = (
    "This test sees the means of sets alone, and hardly ever a decoy or a compromise: "
    'method="comparisons" looks for these.'
)
ON_FEATURES = {"lcl": linear_context, "comparisons": comparisons}


@checked(
    method=one_of(*METHODS),
    drop=optional(columns),
    seed=check_seed,
    variance_at=one_of(*VARIANCES),
)
def iia_test(
    choices: Choices,
    method: str = "lcl",
    *,
    alternatives: Names | None = None,
    drop: str | Sequence[str] | None = None,
    seed: int = 0,
    variance_at: str = "each",
) -> IIATest:
    """Test IIA on data.

    The hypothesis is always an MNL on the features of ``choices`` (and their products with the
    context). A test may also reject because that MNL is wrong in another way, such as a price
    that acts by its logarithm.

    Args:
        choices: the data; one set per person, or p is too small.
        method: which test.

            - "lcl": the likelihood ratio of the linear context logit against MNL. Needs no names
              of alternatives, and has the most power where set means matter. It hardly ever finds
              decoys: read it together with "comparisons".
            - "comparisons": the likelihood ratio of comparing each item with each other one. Sees
              decoys, compromises and near copies, which the set's mean does not show.
            - "cdm": the likelihood ratio of a pull for every ordered pair of alternatives, on
              top of a constant for each. For at most 20 named alternatives.
            - "hausman_mcfadden": do the weights change when items are taken away? Known for a
              covariance that fails to be positive; it warns where it does.
            - "mcfadden_tye_train": the same comparison as a likelihood ratio.
            - "small_hsiao": the same on random halves of the data.
        alternatives: which alternative each row is: an item column, or one name per row of the
            table. "cdm" needs it; the last three take random items away without it.
        drop: the alternative, or alternatives, that the last three tests take away.
        seed: of the random items and halves.
        variance_at: for "hausman_mcfadden" alone, the weights at which the variance from fewer
            items is taken. "each": those estimated from fewer items, as published. "all_items":
            those estimated from all items, which has less noise if IIA is true.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=500, items=4, features=2).choices
    >>> found = iia_test(choices)
    >>> found.degrees, found.rejected
    (4, False)
    """
    choices = trainable(choices)
    named = _named(choices, method, alternatives, drop)
    if variance_at != "each" and method != "hausman_mcfadden":
        raise InputError(
            f'variance_at= is for method="hausman_mcfadden", not "{method}"; leave it out'
        )
    data = Schema.learn(choices)[1].encoded(np.float64)
    found = _tested(data, choices, method, named, drop, seed, variance_at)
    if method == "lcl" and found.p >= LEVEL:
        found = replace(found, sentence=f"{found.sentence} {BLIND}")
    return replace(found, warnings=(*found.warnings, *sampling_warnings(choices)))


def _tested(
    data: Encoded,
    choices: Choices,
    method: str,
    named: Alternatives | None,
    drop: str | Sequence[str] | None,
    seed: int,
    variance_at: str,
) -> IIATest:
    if method in ON_FEATURES:
        return ON_FEATURES[method](data)
    if method == "cdm":
        assert named is not None
        return pairwise_pulls(data, named)
    if named is None or drop is None:
        gone = random_items(data, choices.outside, seed)
    else:
        gone = named.are(drop)
    columns = mnl_columns(data)
    if method == "small_hsiao":
        return small_hsiao(columns, gone, seed)
    if method == "hausman_mcfadden":
        return hausman_mcfadden(EstimateComparison.of(columns, gone, variance_at))
    return mcfadden_tye_train(EstimateComparison.of(columns, gone))


def _named(
    choices: Choices, method: str, alternatives: Names | None, drop: str | Sequence[str] | None
) -> Alternatives | None:
    """The alternatives, where the method uses them; errors where arguments do not fit."""
    if method in ON_FEATURES and not (alternatives is None and drop is None):
        raise InputError(
            f'method="{method}" looks at features alone; leave alternatives= and drop= out, or '
            "use another method"
        )
    if alternatives is None:
        if method == "cdm":
            raise InputError(
                'method="cdm" needs to know which alternative each row is; name the column in '
                'alternatives=, or use method="lcl" where items have no identity'
            )
        if drop is not None:
            raise InputError("drop= names alternatives; say which column has them in alternatives=")
        return None
    found = named_alternatives(choices, alternatives)
    if method == "cdm" and drop is not None:
        raise InputError('method="cdm" takes nothing away; leave drop= out')
    if method != "cdm" and drop is None:
        raise InputError(
            "drop= must name the alternatives to take away, or alternatives= be left out "
            f"(random items go then); there are: {shown(found.names)}"
        )
    return found

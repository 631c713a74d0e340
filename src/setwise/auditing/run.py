"""The audit: every check of a fitted model on some choices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from setwise._arguments import (
    by_name,
    checked,
    columns,
    instance,
    optional,
    sign,
    text,
    whole,
)
from setwise._arguments import seed as check_seed
from setwise.auditing.beyond import beyond_finding
from setwise.auditing.calibration import calibration_findings
from setwise.auditing.duplicates import duplicate_finding
from setwise.auditing.expected import check_signs, numbers, price_by_name, signs_by_name
from setwise.auditing.findings import Audit, AuditFinding, AuditLimits
from setwise.auditing.regularity import regularity_finding
from setwise.auditing.sample import Sample
from setwise.auditing.signs import sign_finding
from setwise.auditing.worths import worth_findings
from setwise.choices import Choices, open_table
from setwise.consequences.derived_columns import TOO, warn_of_derived
from setwise.consequences.elasticities import place_of
from setwise.estimators import Estimator
from setwise.estimators.base import fitted

MOST_SETS = 1000


@checked(
    estimator=fitted,
    signs=optional(by_name(sign, least=0)),
    price=optional(text),
    by=optional(columns),
    max_sets=optional(whole()),
    limits=instance(AuditLimits, "make them with setwise.auditing.AuditLimits(look=0.05)"),
    seed=check_seed,
)
def audit(
    estimator: Estimator,
    data: Any,
    signs: Mapping[str, int] | None = None,
    *,
    price: str | None = None,
    by: str | Sequence[str] | None = None,
    max_sets: int | None = MOST_SETS,
    limits: AuditLimits = AuditLimits(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> Audit:
    """Can this model be trusted when a price moves? Checks of economic sanity, each with a verdict.

    The checks are: the sign of each column that should have one, willingness to pay, reaction
    beyond the range of the data, copies of items, regularity, and calibration (:data:`CHECKS`). A
    finding is "ok", "look" or "fail" by :class:`AuditLimits`. Only what contradicts a sign that was
    given, or the choices themselves (calibration), can fail.

    Args:
        estimator: a fitted model, any of them.
        data: a :class:`~setwise.Choices`, whose weights count, or any table with the columns of
            the training table; best of sets that the model did not learn from. Calibration needs
            choices that say what was chosen.
        signs: by number column of the items, 1 if more of it should raise the item's probability,
            and -1 if it should lower it. Where none is given, names such as "price", "time" or
            "stars" suggest one, and what is found is a question.
        price: the column in whose units willingness to pay is counted. By default, the only
            column with a name such as "price" or "cost".
        by: a column whose levels are alternatives, or several 0/1 columns that tell them apart,
            for calibration by alternative.
        max_sets: a random sample of this many sets is looked at; None takes all of them.
        limits: where a finding ends to be fine.
        seed: of the sample, and of items drawn from it.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada").sample(300)
    >>> found = audit(sw.MNL().fit(choices), choices, {"cost": -1, "ivt": -1})
    >>> [(one.subject, one.verdict) for one in found.of("sign")]
    [('cost', 'ok'), ('ivt', 'ok'), ('ovt', 'ok')]
    """
    sample = Sample(estimator, _sampled(estimator, data, max_sets, seed), limits, int(seed))
    schema = estimator.schema_
    given = {} if signs is None else {name: int(one) for name, one in signs.items()}
    check_signs(given, schema)
    guessed = {name: one for name, one in signs_by_name(schema).items() if name not in given}
    if price is None:
        price = price_by_name(schema)
    else:
        place_of(schema, price)  # refuses what is not a numeric item column
    expected = given | guessed
    if expected:
        warn_of_derived(estimator, sample.choices, list(expected), TOO)
    table = sample.choices if isinstance(data, Choices) else data
    found = [sign_finding(sample, name, one, name in given) for name, one in expected.items()]
    found += _worths(sample, price)
    beyond = (beyond_finding(sample, name) for name in numbers(schema))
    found += [one for one in beyond if one is not None]
    found += [duplicate_finding(sample), regularity_finding(sample, expected)]
    found += calibration_findings(sample, table, by)
    name = type(estimator).__name__
    data_name, count = repr(sample.choices), len(sample.choices)
    return Audit(name, data_name, count, given, guessed, price, limits, tuple(found))


def _sampled(estimator: Estimator, data: Any, max_sets: int | None, seed: int) -> Choices:
    """The sets to look at, in memory; those that chose the worst item say nothing here.

    What was chosen is read from a table where it has that column.
    """
    roles, knows = estimator.schema_.roles, False
    if not isinstance(data, (Choices, np.ndarray)):
        names = open_table(data).names
        knows = roles.rank in names or roles.chosen in names
    choices = estimator.as_choices(data, with_choice=knows).of_best()
    return (choices if max_sets is None else choices.sample(max_sets, seed)).in_memory()


def _worths(sample: Sample, price: str | None) -> list[AuditFinding]:
    """Of every number column with more than two values, where there is a price."""
    if price is None:
        return []
    others = [
        name
        for name in numbers(sample.estimator.schema_)
        if name != price and len(np.unique(sample.values(name))) > 2
    ]
    return worth_findings(sample, price, others)

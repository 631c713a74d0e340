"""Violations of IIA: how often the choice between some items depends on the others.

In fitted models: ``capacity`` (kappa, also by correctness region) and ``soft`` (with influence). In
data: ``iia_tests`` (with ``likelihood_ratio``, ``fewer_items`` and ``verdict``). The effects that
break IIA: ``effects``. Intervals come from :mod:`setwise.metrics.set_means`.
"""

from setwise.metrics.set_means import SetMean, bootstrap_interval
from setwise.violations.capacity import (
    CapacityByRegion,
    CorrectnessRegion,
    Violations,
    capacity_by_region,
    violation_capacity,
)
from setwise.violations.effects import (
    ContextEffect,
    DecoyEffect,
    context_effects,
    decoy_effect,
    decoy_grid,
)
from setwise.violations.iia_tests import METHODS, iia_test
from setwise.violations.soft import Influence, SoftViolations, influence, soft_violations
from setwise.violations.verdict import IIATest, holm, together

__all__ = [
    "METHODS",
    "CapacityByRegion",
    "ContextEffect",
    "CorrectnessRegion",
    "DecoyEffect",
    "IIATest",
    "Influence",
    "SetMean",
    "SoftViolations",
    "Violations",
    "bootstrap_interval",
    "capacity_by_region",
    "context_effects",
    "decoy_effect",
    "decoy_grid",
    "holm",
    "iia_test",
    "influence",
    "soft_violations",
    "together",
    "violation_capacity",
]

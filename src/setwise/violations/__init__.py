"""Violations of IIA: how often the choice between some items depends on the others."""

from setwise.violations.capacity import Violations, violation_capacity

__all__ = ["Violations", "violation_capacity"]

"""From predictions to decisions: which set to show, at which prices, and what else to add."""

from setwise.decide.assortment import Assortment, assortment

__all__ = ["Assortment", "assortment"]

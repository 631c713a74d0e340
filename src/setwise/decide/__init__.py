"""From predictions to decisions: which set to show, at which prices, and what else to add."""

from setwise.decide.additions import Additions, BySize, additions, by_size
from setwise.decide.assortment import Assortment, assortment
from setwise.decide.earnings import Earnings, earnings
from setwise.decide.price_curves import PriceCurve, price_curve
from setwise.decide.prices import Prices, prices

__all__ = [
    "Additions",
    "Assortment",
    "BySize",
    "Earnings",
    "PriceCurve",
    "Prices",
    "additions",
    "assortment",
    "by_size",
    "earnings",
    "price_curve",
    "prices",
]

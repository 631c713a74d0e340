"""What follows from a fitted model: elasticities, diversion, shares, prices people would pay."""

from setwise.consequences.counterfactual import Add, Counterfactual, Remove, Reprice, counterfactual
from setwise.consequences.diversion import Diversions, diversion_ratios
from setwise.consequences.elasticities import Elasticities, elasticities
from setwise.consequences.shares import Shares, expected_shares
from setwise.consequences.willingness import WillingnessToPay, willingness_to_pay

__all__ = [
    "Add",
    "Counterfactual",
    "Diversions",
    "Elasticities",
    "Remove",
    "Reprice",
    "Shares",
    "WillingnessToPay",
    "counterfactual",
    "diversion_ratios",
    "elasticities",
    "expected_shares",
    "willingness_to_pay",
]

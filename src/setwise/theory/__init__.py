"""Theory as running code: what aggregation can express, what a fitted model does with it."""

from setwise.theory.bases import TripleBasis, has_triple_basis, triple_basis
from setwise.theory.choice_functions import ChoiceFunction
from setwise.theory.mechanisms import (
    Mechanism,
    average_reference,
    ccm,
    kaneko_nakamura,
    lam,
    mnl,
    nccm,
    tversky,
)
from setwise.theory.rationalising import (
    PlacedBasis,
    Rationalisation,
    UniversalAggregation,
    rationalise,
    universal,
)
from setwise.theory.regions import Regions, separable_regions
from setwise.theory.risk_bounds import Bounds, bounds, lipschitz_constants

__all__ = [
    "Bounds",
    "ChoiceFunction",
    "Mechanism",
    "PlacedBasis",
    "Rationalisation",
    "Regions",
    "TripleBasis",
    "UniversalAggregation",
    "average_reference",
    "bounds",
    "ccm",
    "has_triple_basis",
    "kaneko_nakamura",
    "lam",
    "lipschitz_constants",
    "mnl",
    "nccm",
    "rationalise",
    "separable_regions",
    "triple_basis",
    "tversky",
    "universal",
]

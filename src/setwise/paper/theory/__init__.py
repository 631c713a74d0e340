"""Theory as running code: what aggregation can express, what a fitted model does with it."""

from setwise.paper.theory.choice_functions import ChoiceFunction
from setwise.paper.theory.mechanisms import (
    Mechanism,
    TripleBasis,
    average_reference,
    ccm,
    has_triple_basis,
    kaneko_nakamura,
    lam,
    mnl,
    nccm,
    triple_basis,
    tversky,
)
from setwise.paper.theory.model_report import ModelTheory, examine_theory, write_theory_report
from setwise.paper.theory.rationalise_report import write_rationalisation
from setwise.paper.theory.rationalising import (
    PlacedBasis,
    Rationalisation,
    UniversalAggregation,
    rationalise,
    universal,
)
from setwise.paper.theory.regions import Regions, separable_regions
from setwise.paper.theory.risk_bounds import Bounds, bounds, lipschitz_constants

__all__ = [
    "Bounds",
    "ChoiceFunction",
    "Mechanism",
    "ModelTheory",
    "PlacedBasis",
    "Rationalisation",
    "Regions",
    "TripleBasis",
    "UniversalAggregation",
    "average_reference",
    "bounds",
    "ccm",
    "examine_theory",
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
    "write_rationalisation",
    "write_theory_report",
]

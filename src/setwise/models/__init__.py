"""Choice models: pure functions of one set, composed from the parts of one equation."""

from setwise import _engine
from setwise.models.aggregation import Aggregation
from setwise.models.boosted_trees import BoostedTrees
from setwise.models.ensemble import Ensemble
from setwise.models.model import About, Blueprint, Dropout, Model, Sizes
from setwise.models.recipes import Recipe
from setwise.models.zoo import ZOO

_engine.set_up()

__all__ = [
    "ZOO",
    "About",
    "Aggregation",
    "Blueprint",
    "BoostedTrees",
    "Dropout",
    "Ensemble",
    "Model",
    "Recipe",
    "Sizes",
]

"""Choice models: pure functions of one set, composed from the parts of one equation."""

from setwise.models.aggregation import Aggregation
from setwise.models.model import Dropout, Model
from setwise.models.zoo import ZOO, Recipe, Sizes

__all__ = ["ZOO", "Aggregation", "Dropout", "Model", "Recipe", "Sizes"]

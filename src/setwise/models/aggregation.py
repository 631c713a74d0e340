"""The one equation."""

import equinox as eqx

from setwise._types import Items, Mask, Scores
from setwise.models.comparisons import Comparison
from setwise.models.evaluations import Evaluation
from setwise.models.item_functions import ItemFunction
from setwise.models.model import Dropout, Model
from setwise.models.set_functions import SetFunction


class Aggregation(Model):
    """g(x, s) = < w(s), mu(F(x) compared with r(s)) >; letters as in docs/notation.md."""

    F: ItemFunction
    w: SetFunction
    r: SetFunction
    mu: Evaluation
    compare: Comparison = eqx.field(static=True)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        for_w, for_r = dropout.split() if dropout is not None else (None, None)
        f = self.F(items)
        w, r = self.w(f, present, for_w), self.r(f, present, for_r)
        return self.mu(self.compare(f, r)) @ w

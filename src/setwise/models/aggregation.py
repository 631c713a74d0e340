"""The one equation: how an item is scored, given its choice set."""

import equinox as eqx

from setwise._types import Array, Float, Items, Mask, Scores
from setwise.models.evaluations import Comparison, Evaluation
from setwise.models.item_functions import ItemFunction
from setwise.models.model import Dropout, Model
from setwise.models.set_functions import SetFunction, values
from setwise.models.within_set import View, alone


class Aggregation(Model):
    """g(x, s) = < w(s), mu(F(x) compared with r(s)) > + < b, x >; letters as in docs/notation.md.

    F scores an item, r(s) is the set's reference point, mu says how a gain or a loss against it is
    felt, and w(s) weighs the results. The paper has no b, and its x are the features ``alone``.
    Other views of x add the item's place in its set (``among_others``) and hat functions of both
    (``splines``).
    """

    F: ItemFunction
    w: SetFunction
    r: SetFunction
    mu: Evaluation
    compare: Comparison = eqx.field(static=True)
    b: Float[Array, " v"] | None = None
    view: View = eqx.field(static=True, default=alone)

    def scores(self, items: Items, present: Mask, dropout: Dropout | None = None) -> Scores:
        for_w, for_r, for_F = dropout.three() if dropout is not None else (None, None, None)
        x = self.view(items, present)
        f = self.F(x, for_F)
        w, r = values((self.w, self.r), f, present, (for_w, for_r))
        g = self.mu(self.compare(f, r)) @ w
        return g if self.b is None else g + x @ self.b

"""Shapes as types: the arrays of one choice set, named once and checked while tests run.

n items, d features, l score functions (the aggregation dimension), k components of each.
"""

from jaxtyping import Array, Bool, Float, PRNGKeyArray

Items = Float[Array, "n d"]
Mask = Bool[Array, " n"]
Scores = Float[Array, " n"]
Evaluated = Float[Array, "n l"]
Key = PRNGKeyArray

__all__ = ["Array", "Bool", "Evaluated", "Float", "Items", "Key", "Mask", "Scores"]

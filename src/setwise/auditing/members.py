"""The members of an ensemble, one by one."""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from setwise.choices import Encoded
from setwise.estimators import Estimator
from setwise.models import Ensemble, Model
from setwise.training import row_log_probabilities

LogP = Callable[[Encoded], Float[np.ndarray, " rows"]]
"""log P of every row by one member."""


def members_of(estimator: Estimator) -> list[tuple[float, LogP]] | None:
    """Each member's share and its log P; None if the model is not an ensemble.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=60, items=3, features=2).choices
    >>> training = sw.Training(epochs=1)
    >>> model = sw.SDW(2, hidden=2, ensemble=2, training=training).fit(choices)
    >>> [share for share, _ in members_of(model)], members_of(sw.MNL().fit(choices))
    ([0.5, 0.5], None)
    """
    model = estimator.model_ if estimator.has_jax_model else None
    if not isinstance(model, Ensemble):
        return None
    alone = [one for kind in model.members for one in _unstacked(kind)]
    if len(alone) < 2:
        return None
    equal = np.full(len(alone), 1 / len(alone))
    shares = equal if model.weight is None else np.asarray(model.weight, np.float64)
    shares = shares / shares.sum()
    return [(float(share), _log_p(one)) for share, one in zip(shares, alone, strict=True)]


def _log_p(model: Model) -> LogP:
    return lambda encoded: row_log_probabilities(model, encoded)


def _unstacked(kind: Model) -> list[Model]:
    """The models whose arrays stand along the first axis; those of trees stand alone."""
    if not kind.differentiable:
        return [kind]
    arrays, static = eqx.partition(kind, eqx.is_array)
    count = jax.tree.leaves(arrays)[0].shape[0]
    return [
        eqx.combine(jax.tree.map(lambda leaf, at=number: leaf[at], arrays), static)
        for number in range(count)
    ]

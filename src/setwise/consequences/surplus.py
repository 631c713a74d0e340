"""Consumer surplus: what a set is worth to those who choose from it, in units of price."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from setwise import _segments
from setwise._errors import InputError
from setwise.choices import Choices, Encoded
from setwise.consequences.willingness import check_price, linear_weights
from setwise.estimators import MNL, Estimator, MixedMNL, NestedLogit


def surplus(estimator: Estimator, choices: Choices, price: str) -> Float[np.ndarray, " sets"]:
    """The expected utility of the best item, over the price coefficient (Small and Rosen 1981).

        S(s) = log sum over x in s of exp V(x) / -beta_price                 (MNL)
        S(s) = log sum over nests k of exp(lambda_k I_k) / -beta_price       (nested logit)
        S(s) = sum over classes c of pi_c S_c(s)                             (mixed logit)

    Utility has no zero point: only differences of S between sets mean something.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> surplus(sw.MNL().fit(choices), choices, "cost").shape
    (4324,)
    """
    if not isinstance(estimator, (MNL, NestedLogit, MixedMNL)):
        raise InputError(
            f"{type(estimator).__name__} is no model of utility that is linear in price and does "
            "not depend on the other items, so that it has no consumer surplus; use MNL, "
            "NestedLogit or MixedMNL, or leave price= out"
        )
    betas = []
    for weights in linear_weights(estimator, price):
        place = weights.names.index(price)
        check_price(price, float(weights.values[place]), weights.identified[place], weights.suffix)
        betas.append(-float(weights.values[place]))
    encoding = estimator.schema_.over(choices)
    found = [_logsums(estimator, part.encoded(np.float64)) / betas for part in encoding.blocks()]
    shares = estimator.shares_ if isinstance(estimator, MixedMNL) else np.ones(1)
    return np.concatenate(found) @ shares


def _logsums(
    estimator: MNL | NestedLogit | MixedMNL, data: Encoded
) -> Float[np.ndarray, "sets classes"]:
    names = estimator.schema_.item_names
    scale = estimator.schema_.item_scales
    places = [names.index(name) for name in estimator.feature_names_]
    utilities = data.items[:, places] @ (np.atleast_2d(estimator.coef_) * scale[places]).T
    if not isinstance(estimator, NestedLogit):
        return _segments.log_sum_exp(utilities, data.offsets)
    nested = np.stack([*_in_nests(estimator, data, utilities[:, 0])], 1)
    return np.logaddexp.reduce(nested, axis=1)[:, None]


def _in_nests(
    estimator: NestedLogit, data: Encoded, utility: Float[np.ndarray, " rows"]
) -> Iterator[Float[np.ndarray, " sets"]]:
    """lambda_k I_k of each nest in every set; last, what is in no nest."""
    member = estimator.nest_members(data)
    for k, one in enumerate(estimator.lambdas_):
        inside = np.where(member[:, k], utility / one, -np.inf)
        yield one * _segments.log_sum_exp(inside, data.offsets)
    yield _segments.log_sum_exp(np.where(member.any(1), -np.inf, utility), data.offsets)

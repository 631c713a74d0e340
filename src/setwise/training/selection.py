"""Which members of an ensemble count, and how much: chosen on the validation part."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from setwise.choices import Encoded, Encoding
from setwise.models import Model
from setwise.training.group import Group
from setwise.training.scoring import Validation

PICKS = 32


def select(
    log_p: Float[np.ndarray, "members sets"], weight: Float[np.ndarray, " sets"] | None = None
) -> Float[np.ndarray, " members"]:
    """The weight of each member, by greedy selection with replacement (Caruana et al. 2004).

        add, 32 times, the member m that makes the mean of the probabilities picked so far best:
        argmax_m sum over s of log (sum over picks p of P_p(s) + P_m(s))

    The weight of a member is its share of the picks. Each step looks one member ahead, so that a
    small validation part is hardly fitted, and members that only add noise get nothing.

    Args:
        log_p: log P of what was chosen in each validation set, one row a member.
        weight: of the sets.

    >>> log_p = np.log([[0.9, 0.1], [0.1, 0.9], [0.1, 0.1]])
    >>> select(log_p).tolist()
    [0.5, 0.5, 0.0]
    """
    members, sets = log_p.shape
    share = np.ones(sets) if weight is None else weight
    picked, counts = np.full(sets, -np.inf), np.zeros(members)
    for _ in range(PICKS):
        tried = np.logaddexp(picked, log_p)
        best = int(np.argmax(tried @ share))
        picked, counts[best] = tried[best], counts[best] + 1
    return counts / PICKS


def weigh(models: Sequence[Model], valid: Encoded | Encoding) -> Float[np.ndarray, " members"]:
    """:func:`select` for models that were trained, by the weights of the validation sets."""
    validation = Validation(valid, Group.current())
    return select(np.stack([validation.of_chosen(model) for model in models]), validation.weight)

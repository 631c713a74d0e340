"""The MNL that a model is compared with: what IIA makes of the same data."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32

from setwise._arguments import checked
from setwise._errors import InputError
from setwise.choices import Choices, Schema
from setwise.estimators.base import Estimator, fitted, is_choices, trainable
from setwise.estimators.logit import MNL
from setwise.training.shards import stays_on_disk


@checked(estimator=fitted, choices=is_choices)
def reference_mnl(estimator: Estimator, choices: Choices) -> Float32[np.ndarray, " d"]:
    """The weights of an MNL of the sets that a model learned from, on the same encoded columns.

    Args:
        estimator: a fitted model.
        choices: what it was fitted to; where it held sets out by itself, the MNL learns without
            them too. They are gone through several times, so that those which are too large to
            keep in memory are refused.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=200, items=4, features=2).choices
    >>> model = sw.WithinSetMNL().fit(choices)
    >>> len(reference_mnl(model, choices))
    2
    """
    if stays_on_disk(choices):
        raise InputError(
            "the data stay on disk, and an MNL would read them many times more; fit one to a part "
            "of them (--max-sets), and show it with 'setwise serve --reference'"
        )
    for sets in _learned_from(estimator, choices):
        if Schema.fit(sets) == estimator.schema_:
            mnl = MNL().fit(sets)
            return (mnl.coef_ * mnl.schema_.item_scales).astype(np.float32)
    raise InputError(
        "these are not the sets that the model learned from: their columns have another mean or "
        "scale; give those of fit"
    )


def _learned_from(estimator: Estimator, choices: Choices) -> Iterator[Choices]:
    yield trainable(choices)
    fitted, held_out = estimator.parts_of_fit(choices)
    if held_out is not None:
        yield fitted

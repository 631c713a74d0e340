"""How sure a model is: its probabilities under other estimates, or by each of its members."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._shapes import Float
from setwise.choices import Choices

DRAWS = 100
"""Of the estimates, from their normal distribution."""


@dataclass(frozen=True, eq=False)
class Opinions:
    """Several predictions of the same rows, and how much each counts."""

    probability: Sequence[Float[np.ndarray, "opinions _"]]
    """For each of the choices asked about."""
    weight: Float[np.ndarray, " opinions"]
    of: str
    """What they are opinions of."""

    def spread(self, values: Float[np.ndarray, " opinions *rest"]) -> Float[np.ndarray, " *rest"]:
        """The standard deviation of numbers that follow from the opinions."""
        weight = self.weight / self.weight.sum()
        mean = np.tensordot(weight, values, 1)
        return np.asarray(np.sqrt(np.tensordot(weight, (values - mean) ** 2, 1)))


def opinions(model: Any, several: Sequence[Choices], seed: int = 0) -> Opinions | None:
    """What draws of the estimates, or members of an ensemble, predict; None if there are none.

    Rows are those of each of the choices, without outside options. Draws of estimates show how well
    the parameters are known, and their spread is a standard error. Members of an ensemble show how
    far models that fit the same data agree, which is less than all uncertainty.
    """
    if not hasattr(model, "satisfies_iia"):
        return None
    from setwise.estimators.maximum_likelihood import Estimated
    from setwise.scoring.members import Members

    if isinstance(model, Estimated):
        drawn = [model.with_parameters(one) for one in _parameters(model, seed)]
        found = [
            np.stack([one.row_probabilities(choices).astype(np.float64) for one in drawn])
            for choices in several
        ]
        return Opinions(found, np.ones(len(drawn)), f"{DRAWS} draws of the estimates")
    artifact = model.artifact()
    members = Members.of(artifact, "the model")
    if members is None:
        return None
    found = []
    for choices in several:
        encoded = model.schema_.encode(choices)
        real = model.schema_.real_rows(encoded)
        found.append(members.probabilities(encoded)[:, real].astype(np.float64))
    weight = np.array(members.weights, np.float64)
    return Opinions(found, weight, f"{len(weight)} members of the ensemble")


def _parameters(model: Any, seed: int) -> Float[np.ndarray, "draws p"]:
    """Draws from the normal distribution of the estimates; those without a variance stay."""
    values, vectors = np.linalg.eigh(np.nan_to_num(model.covariance_of(None)))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.random.default_rng(seed).standard_normal((DRAWS, len(values)))
    return np.asarray(model.parameters_ + noise @ root.T, np.float64)

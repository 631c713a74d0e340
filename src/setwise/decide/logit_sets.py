"""Sets under a logit, or a mixture of logits: what they earn has a formula, and an optimum a proof.

    R(s) = sum over classes k of share_k * (sum over x in s of w_kx value(x)) / (sum of w_kx + w_k0)

with w_kx = exp V_k(x), and w_k0 that of the outside option (0 where there is none).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Float
from setwise.choices import Schema
from setwise.decide.candidates import Candidates
from setwise.decide.set_values import Contexts, Sets, SetValues, parts

MOST_CLASSES = 8
"""A mixture of more (as MixedLogit's draws) is left to the search."""


@dataclass(frozen=True, eq=False)
class Utilities:
    """V of rows per class, and the shares of the classes per context."""

    of_rows: Float[np.ndarray, "rows k"]
    shares: Float[np.ndarray, "contexts k"]
    outside: Float[np.ndarray, "contexts k"] | None


@dataclass(eq=False)
class LogitSets(SetValues):
    """Sets under a mixture of logits; with one class it is the plain logit."""

    candidates: Candidates
    utilities: Float[np.ndarray, "contexts n k"]
    """V, less the largest of the context and class; minus infinity where there is no candidate."""
    level: Float[np.ndarray, "contexts k"]
    """V of the outside option, on the same scale; minus infinity where there is none."""
    shares: Float[np.ndarray, "contexts k"]
    scored: int = 0

    def __post_init__(self) -> None:
        self.outside = bool(np.isfinite(self.level).any())
        self.values = self.candidates.padded(self.candidates.values)
        self.weights, self.nothing = np.exp(self.utilities), np.exp(self.level)

    @classmethod
    def of(cls, candidates: Candidates, given: Utilities) -> "LogitSets":
        """From utilities."""
        present = candidates.present[:, :, None]
        V = np.where(present, given.of_rows[candidates.rows], -np.inf)
        level = np.full(given.shares.shape, -np.inf) if given.outside is None else given.outside
        top = np.maximum(V.max(1), level)
        return cls(candidates, V - top[:, None, :], level - top, given.shares)

    @property
    def classes(self) -> int:
        """How many logits are mixed."""
        return self.shares.shape[1]

    def expected(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, " sets"]:
        self.scored += len(contexts)
        earned = np.full(len(contexts), -np.inf)
        for part in parts(contexts, shown):
            some, flags = contexts[part], shown[part]
            p = self._shares(some, flags)
            possible = flags.any(1) | self.outside
            earned[part] = np.where(possible, (p * self.values[some]).sum(1), -np.inf)
        return earned

    def probabilities(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, "sets n"]:
        found = np.zeros(shown.shape)
        for part in parts(contexts, shown):
            found[part] = self._shares(contexts[part], shown[part])
        return found

    def _shares(self, contexts: Contexts, shown: Sets) -> Float[np.ndarray, "sets n"]:
        V = np.where(shown[:, :, None], self.utilities[contexts], -np.inf)
        level = self.level[contexts]
        top = np.maximum(V.max(1), level)
        top = np.where(np.isfinite(top), top, 0.0)
        odds = np.exp(V - top[:, None, :])
        total = odds.sum(1) + np.exp(level - top)
        share = self.shares[contexts] / np.where(total > 0, total, 1.0)
        return np.einsum("bnk,bk->bn", odds, share)


def logit_sets(model: Any, candidates: Candidates, outside: float | None) -> LogitSets | None:
    """The formula of a model that is a logit or a mixture of a few; None for any other model."""
    if not hasattr(model, "satisfies_iia"):  # a scorer does not say so of itself
        return None
    weights = linear_weights(model)
    if weights is None:
        if not model.satisfies_iia or outside is not None:
            return None
        return LogitSets.of(candidates, _of_probabilities(model, candidates))
    contexts = len(candidates)
    shares = np.ones((contexts, 1))
    if weights.shape[1] > 1:
        shares = model.class_shares(candidates.encoded)
    nothing = None
    if outside is not None:
        nothing = np.tile(float(outside) + utility_at_zero(model.schema_, weights), (contexts, 1))
    elif candidates.outside is not None:
        nothing = np.tile(candidates.outside @ weights, (contexts, 1))
    return LogitSets.of(candidates, Utilities(candidates.encoded.items @ weights, shares, nothing))


def linear_weights(model: Any) -> Float[np.ndarray, "d k"] | None:
    """The weights of encoded columns in V, per class; None where no formula with such is known."""
    from setwise.estimators import LatentClass
    from setwise.estimators.maximum_likelihood import Estimated

    if isinstance(model, LatentClass) and model.classes_ <= MOST_CLASSES:
        return model.population()[0]
    if isinstance(model, Estimated) and model.satisfies_iia:
        return (model.parameters_ * model.schema_.item_scales)[:, None]
    return None


def utility_at_zero(schema: Schema, weights: Float[np.ndarray, "d k"]) -> Float[np.ndarray, " k"]:
    """V of encoded columns where all columns of the table are 0: encoded ones have mean 0."""
    if schema.outside:
        raise InputError(
            "outside= is for models without an outside option, and this one has learned its own; "
            "leave it out"
        )
    d = len(weights)
    mean, scale = (np.array(one[:d], np.float64) for one in (schema.mean, schema.scale))
    return -(mean / scale) @ weights


def _of_probabilities(model: Any, candidates: Candidates) -> Utilities:
    """Under IIA, log P of the whole set is V up to a constant."""
    encoded = model.schema_.encode(candidates.choices)
    logs = model.row_log_probabilities(encoded).astype(np.float64)[:, None]
    real = model.schema_.real_rows(encoded)
    outside = None if candidates.outside is None else logs[~real]
    return Utilities(logs[real], np.ones((len(candidates), 1)), outside)

"""The mixed logit with a few classes of people, by maximum likelihood."""

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from jax import random
from jaxtyping import Float, Int
from scipy.linalg import eigh
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from setwise import _segments
from setwise._arguments import optional, seed, whole
from setwise._errors import InputError
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.estimators.base import held_out
from setwise.estimators.maximum_likelihood import (
    Estimated,
    Remarks,
    check_identified,
    is_utility,
    warn_if_certain,
    warn_of_rounding,
    with_mean_weight,
    with_utility,
    without_context,
)
from setwise.estimators.summary import reasons
from setwise.models.mixtures import Mixture
from setwise.training import Optimum, maximise, row_log_probabilities
from setwise.training.covariances import Resampling
from setwise.training.likelihood import Likelihood, Maximum, maximise_likelihood, resampled

MOST_CLASSES = 4
EM_STEPS = 15
EM_SETS = 2_000  # a start is found on so many sets, then polished on all
CLIMBED = 2  # of the starts up to each, so many of the best are climbed from on all sets
LEAST_SHARE = 1e-3  # a class with less is a degenerate one
SAME = 1e-3  # weights in standardised units that differ by less are the same
FLAT = 1e-4  # a class's curvature in some direction; about 1 where all items have equal chances
LARGE = 5.0  # in standardised units
SINGULAR = 1e-9
LEAST = 1e-8  # of a set's membership in a class, so that no weight is zero

Run = tuple[float, Float[np.ndarray, "k d"], Float[np.ndarray, " k"]]
"""log L at the end of EM, the weights of each class, and the classes' shares."""

REST = "one less the other shares"


class MixedMNL(Estimated):
    """Discrete mixed logit (latent classes): P(x | s) = sum_k pi_k softmax over s of < b_k, x >.

    Short runs of EM from several random starts, on a sample, find promising regions; a trust region
    on the exact likelihood of all sets finds the maximum in them. Each start that is among the two
    best of those up to it is climbed to its maximum, and the best maximum is kept: more ``starts``
    never fit worse. The likelihood may have better ones still. Classes are in the order of their
    shares. Context features cancel within each class and are not used; columns that the MNL cannot
    identify have coefficient 0 in each class.

    A degenerate solution (a class of almost nobody, two classes that are the same, coefficients
    without bound, a singular information matrix) has ``converged_`` False, and a warning names it.

    Args:
        classes: how many, or None for the one of 1 to 4 with the best likelihood on validation
            sets (without such, on a fifth of the training sets; then all are used to fit).
        utility: the utility within each class as a formula or :class:`setwise.Utility`, as in
            :class:`MNL`, without fixed coefficients.
        starts: random starts of EM; those of a smaller number are among them.
        seed: of the starts and of a held-out fifth.

    Fitted attributes: ``classes_``, ``shares_``, ``coef_`` (classes × features, in the table's
    units), ``feature_names_``, and those of :class:`Estimated`, class after class, then shares.

    >>> import setwise as sw
    >>> made = sw.datasets.generate("mixed", sets=500, features=2)
    >>> model = MixedMNL(classes=2).fit(made.choices)
    >>> model.coef_.shape, bool(model.shares_[0] > model.shares_[1])
    ((2, 2), True)
    """

    CHECKS: ClassVar = {
        "classes": optional(whole()), "utility": is_utility, "starts": whole(), "seed": seed,
    }  # fmt: skip
    ARRAYS = ("coef", "shares", "identified")

    coef_: Float[np.ndarray, "k d"]
    shares_: Float[np.ndarray, " k"]

    def __init__(
        self,
        classes: int | None = None,
        *,
        utility: str | Utility | None = None,
        starts: int = 5,
        seed: int = 0,
    ):
        self.classes = classes
        self.utility = utility
        self.starts = starts
        self.seed = seed

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        if self.classes is not None:
            if self.classes > len(choices):
                raise InputError(
                    f"classes={self.classes} is more than the {len(choices):,} sets to learn from; "
                    "use fewer classes"
                )
            mnl, found = self._solve(choices, self.classes)
        elif validation is None:
            mnl, found = self._solve(choices, self._best(*held_out(choices, self.seed)))
        else:
            mnl, found = self._solve(choices, self._best(choices, validation))
        self._keep_covariances(choices, mnl.data, found)
        warn_of_rounding(self.feature_names_, mnl)
        warn_if_certain(self.log_likelihood_, self.null_log_likelihood_, self.sets_)
        if not self.converged_:
            why = "; ".join(self._flaws) or "the search did not end"
            warnings.warn(
                f"the likelihood of {self.classes_} classes has no clear maximum ({why}), and its "
                "standard errors mean little; use fewer classes or features, or more sets",
                ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def classes_(self) -> int:
        """The number of classes."""
        return len(self.shares_)

    @property
    def feature_names_(self) -> list[str]:
        """What each column of ``coef_`` belongs to."""
        return self.schema_.item_names

    @property
    def parameter_names_(self) -> list[str]:
        numbers = range(1, self.classes_ + 1)
        names = [f"{name} (class {k})" for k in numbers for name in self.feature_names_]
        return names + [f"share of class {k}" for k in numbers]

    @property
    def parameters_(self) -> Float[np.ndarray, " p"]:
        return np.concatenate([self.coef_.ravel(), self.shares_])

    def with_parameters(self, parameters: Float[np.ndarray, " p"]) -> "MixedMNL":
        other, end = copy(self), self.coef_.size
        other.coef_ = parameters[:end].reshape(self.coef_.shape)
        other.shares_ = parameters[end:]
        other.model_ = other._model()
        return other

    def _remarks(self) -> Remarks:
        fixed = self._fixed() | {self.parameter_names_[-1]: REST}
        return Remarks(fixed, without_context(self.schema_))

    def _fixed(self) -> dict[str, str]:
        """Why parameters of classes have no estimate."""
        return {f"{name} (class {k})": reason for k in range(1, self.classes_ + 1)
                for name, reason in self.dropped_.items()}  # fmt: skip

    def _best(self, choices: Choices, validation: Choices) -> int:
        """The number of classes with the best likelihood on validation sets."""
        losses = []
        for classes in range(1, MOST_CLASSES + 1):
            self._solve(choices, classes)
            valid = self.schema_.encode(validation)
            assert valid.chosen is not None
            logs = row_log_probabilities(self.model_, valid)[valid.offsets[:-1] + valid.chosen]
            weight = np.ones(len(valid)) if valid.weight is None else valid.weight
            losses.append(-float(weight @ logs.astype(np.float64)))
        return int(np.argmin(losses)) + 1

    def _solve(self, choices: Choices, classes: int) -> tuple[Optimum, Maximum]:
        """Fit so many classes; returns the MNL of the same columns, and the maximum."""
        schema, seen = Schema.learn(with_utility(choices, self.utility))
        data = with_mean_weight(_without_context(seen.encoded(np.float64)))
        sample = _without_context(seen.sample(EM_SETS, self.seed).encoded(np.float64))
        mnl = maximise(data)
        check_identified(schema.item_names, mnl.identified)
        found = self._climbed(data, sample, mnl, classes)
        self.schema_ = schema
        self.shares_, self.coef_ = self._reported(found.parameters, _order(found, classes))
        self.identified_ = np.append(
            np.tile(mnl.identified, classes), np.arange(classes) < classes - 1
        )  # the last share is what the others leave
        self.dropped_ = reasons(
            schema.item_names, data.items[schema.real_rows(data)], mnl.relations
        )
        self.log_likelihood_, self.null_log_likelihood_ = (
            found.log_likelihood,
            mnl.null_log_likelihood,
        )
        self.sets_, self.iterations_ = len(data), found.iterations
        self._flaws = flaws(found, mnl, self.feature_names_, classes)
        self.converged_ = found.converged and not self._flaws
        self.model_ = self._model()
        return mnl, found

    def _climbed(self, data: Encoded, sample: Encoded, mnl: Optimum, classes: int) -> Maximum:
        """The best of the maxima that the promising starts lead to."""
        # Shares add up to one: the first class's logit stays where it is.
        free = np.append(np.repeat(mnl.identified, classes), np.arange(classes) > 0)
        model = Mixture(data.items.shape[1], classes, random.key(0))
        runs = _starts(sample, mnl, classes, self.starts, self.seed)
        unit = np.append(np.repeat(mnl.units, classes), np.ones(classes))
        maxima = []
        for place in promising([value for value, _, _ in runs]):
            _, theta, shares = runs[place]
            theta[:, ~mnl.identified] = 0
            start = np.concatenate([theta.T.ravel(), np.log(shares)])
            maxima.append(maximise_likelihood(model, start, data, free, unit))
        return max(maxima, key=lambda one: one.log_likelihood)

    def _reported(
        self, parameters: Float[np.ndarray, "*r p"], order: Int[np.ndarray, " k"]
    ) -> tuple[Float[np.ndarray, "*r k"], Float[np.ndarray, "*r k d"]]:
        """Shares, and coefficients in the table's units, of classes in this order."""
        classes, scale = len(order), self.schema_.item_scales
        theta = parameters[..., :-classes].reshape(*parameters.shape[:-1], len(scale), classes)
        coef = np.swapaxes(theta / scale[:, None], -1, -2)[..., order, :]
        return softmax(parameters[..., -classes:], -1)[..., order], coef

    def _keep_covariances(self, choices: Choices, data: Encoded, found: Maximum) -> None:
        """Covariances of coefficients and shares, by the delta method."""
        d, scale, classes = data.items.shape[1], self.schema_.item_scales, self.classes_
        shares, order = softmax(found.parameters[-classes:]), _order(found, classes)
        slopes = np.zeros((classes * d + classes, len(found.parameters)))
        for place, k in enumerate(order):
            rows = np.arange(place * d, (place + 1) * d)
            slopes[rows, np.arange(d) * classes + k] = 1 / scale
        slopes[classes * d :, classes * d :] = (np.diag(shares) - np.outer(shares, shares))[order]
        scores = Likelihood(Mixture(d, classes, random.key(0)), data).scores(found.parameters)
        self._keep(choices, data, found.covariance, scores, lambda one: slopes @ one @ slopes.T)

    def _resampling(self, choices: Choices) -> Resampling:
        schema, seen = Schema.learn(with_utility(choices, self.utility))
        data = with_mean_weight(_without_context(seen.encoded(np.float64)))
        classes, d = self.coef_.shape
        theta = (self.coef_ * schema.item_scales).T.ravel()
        free = np.append(
            np.repeat(self.identified_[:d], classes), np.arange(classes) > 0
        )  # as in the fit, the first class's logit stays where it is
        likelihood = Likelihood(Mixture(d, classes, random.key(0)), data)

        def report(drawn: Float[np.ndarray, "r p"]) -> Float[np.ndarray, "r q"]:
            shares, coef = self._reported(drawn, np.arange(classes))
            return np.hstack([coef.reshape(len(drawn), -1), shares])

        start = np.concatenate([theta, np.log(self.shares_)])
        return resampled(likelihood, start, free, data, report)

    def _model(self) -> Mixture:
        theta = np.zeros((self.schema_.width, self.classes_), np.float32)
        theta[: self.coef_.shape[1]] = (self.coef_ * self.schema_.item_scales).T
        arrays = {"theta": theta, "logits": np.log(self.shares_).astype(np.float32)}
        return with_arrays(Mixture(*theta.shape, random.key(0)), arrays)


def _order(found: Maximum, classes: int) -> Int[np.ndarray, " k"]:
    """The classes by their shares, the largest first."""
    return np.argsort(-softmax(found.parameters[-classes:]), kind="stable")


def _without_context(data: Encoded) -> Encoded:
    return replace(data, context=np.zeros((len(data), 0)))


def promising(values: Sequence[float]) -> list[int]:
    """The starts to climb from: those among the two best of all starts up to them.

    Whether a start is climbed from does not depend on later ones, so that more starts climb from
    all that fewer would.

    >>> promising([-5.0, -7.0, -6.0, -8.0, -4.0])
    [0, 1, 2, 4]
    """
    return [
        place
        for place, value in enumerate(values)
        if sum(earlier >= value for earlier in values[:place]) < CLIMBED
    ]


def flaws(found: Maximum, mnl: Optimum, names: Sequence[str], classes: int) -> list[str]:
    """What is degenerate about a solution, in words that name the class; classes by share."""
    d = len(mnl.identified)
    known = np.flatnonzero(mnl.identified)
    theta, logits = np.split(found.parameters, [d * classes])
    theta, shares = theta.reshape(d, classes), softmax(logits)
    order = np.argsort(-shares, kind="stable")
    spread = mnl.within[np.ix_(known, known)] / len(mnl.data.items)
    size = np.sqrt(np.diag(spread))
    told = []
    for number, k in enumerate(order, 1):
        if shares[k] < LEAST_SHARE:
            told.append(f"class {number} has a share of {shares[k]:.1g}")
            continue
        block = found.information[np.ix_(known * classes + k, known * classes + k)]
        curvature, directions = eigh(block / (mnl.sets * shares[k]), spread)
        if curvature[0] < FLAT and np.abs(theta[known, k] * size).max() > LARGE:
            part = np.abs(directions[:, 0]) * size
            which = [f"'{names[known[one]]}'" for one in np.argsort(-part)[:2]
                     if part[one] > 0.1 * part.max()]  # fmt: skip
            told.append(f"coefficients of class {number} grow without bound: {', '.join(which)}")
        told += [
            f"classes {number} and {later} are the same"
            for later, other in enumerate(order[number:], number + 1)
            if (np.abs(theta[known, k] - theta[known, other]) * size).max() < SAME
        ]
    if not told and classes > 1:
        free = ~np.isnan(np.diag(found.information))
        whole = found.information[np.ix_(free, free)]
        scale = np.sqrt(np.maximum(np.diag(whole), np.finfo(float).tiny))
        if np.linalg.eigvalsh(whole / np.outer(scale, scale))[0] < SINGULAR:
            told.append("the information matrix is singular")
    return told


def _starts(data: Encoded, mnl: Optimum, classes: int, starts: int, seed: int) -> list[Run]:
    """Short runs of EM, from random weights around the MNL's; fewer starts are the first ones."""
    b = mnl.coefficients
    if classes == 1:
        return [(0.0, b[None, :].copy(), np.ones(1))]
    rng = np.random.default_rng(seed)
    noise = 2 / np.sqrt(len(b)) * mnl.units  # utilities move by about 2
    return [_em(data, b + noise * rng.normal(size=(classes, len(b)))) for _ in range(starts)]


def _em(data: Encoded, theta: Float[np.ndarray, "k d"]) -> Run:
    """Expectation (who belongs where) and maximisation (a weighted MNL a class), in turn."""
    weight = np.ones(len(data)) if data.weight is None else data.weight
    shares = np.full(len(theta), 1 / len(theta))
    value = -np.inf
    for _ in range(EM_STEPS):
        joint = _chosen_logs(data, theta) + np.log(shares)
        value = float(weight @ np.logaddexp.reduce(joint, 1))
        belongs = np.maximum(softmax(joint, 1), LEAST)
        shares = weight @ belongs / (weight @ belongs).sum()
        parts = [maximise(replace(data, weight=weight * one)) for one in belongs.T]
        theta = np.stack([part.coefficients for part in parts])
    return value, theta, shares


def _chosen_logs(data: Encoded, theta: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "sets k"]:
    """log P(chosen | s, class) of every set and class."""
    assert data.chosen is not None
    logs = _segments.log_softmax(data.items @ theta.T, data.offsets)
    return logs[data.offsets[:-1] + data.chosen]

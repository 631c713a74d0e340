"""Latent classes: people of a few kinds, each with tastes of its own, by maximum likelihood."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from jax import random
from jaxtyping import Bool, Float, Int
from scipy.special import softmax

from setwise._arguments import each, one_of, optional, seed, text, whole
from setwise._errors import InputError
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.estimators.base import held_out
from setwise.estimators.class_data import ClassColumns, class_columns, learned, people_in
from setwise.estimators.degenerate import flaws
from setwise.estimators.known_people import KnowsPeople, Points, Posterior
from setwise.estimators.maximum_likelihood import (
    Remarks,
    check_identified,
    is_utility,
    warn_if_certain,
    warn_of_rounding,
)
from setwise.estimators.scikit_learn import warn_of_convergence
from setwise.estimators.summary import reasons
from setwise.models.mixtures import Mixture
from setwise.training import Optimum, maximise
from setwise.training.class_starts import em_starts, promising
from setwise.training.covariances import Resampling
from setwise.training.latent import ClassLayout, ClassLikelihood, People
from setwise.training.likelihood import Maximum, climb, maximum_at, resampled
from setwise.training.newton import independent_columns

MOST_CLASSES = 4
EM_SETS = 2_000  # a start is found on so many sets, then polished on all
VARIES = 1e-9  # of a standardised column between people

REST = "one less the other shares"


def is_membership(name: str, value: Any) -> None:
    """Check an argument that must be a formula or a list of columns."""
    if isinstance(value, str):
        text(name, value)
    else:
        each(text)(name, value)


@dataclass(frozen=True, eq=False)
class _Solution:
    """A fit with so many classes, in standardised units; the largest class is the first."""

    schema: Schema
    columns: ClassColumns
    people: People
    layout: ClassLayout
    mnl: Optimum
    found: Maximum
    free: Bool[np.ndarray, " p"]

    @property
    def shares(self) -> Float[np.ndarray, " k"]:
        """The mean membership of people."""
        gamma = self.layout.split(self.found.parameters)[1]
        return _shares(gamma, self.people)

    @property
    def bic(self) -> float:
        """k log(sets) - 2 log L, as in a summary."""
        count = int(self.free.sum()) * float(np.log(self.mnl.sets))
        return count - 2 * self.found.log_likelihood


class LatentClass(KnowsPeople):
    """Latent classes: each person is of one of a few kinds, which choose by logits of their own.

        P(choices of n) = sum_k pi_k(z_n) product over the sets t of n of P_k(chosen | s_t),
        P_k(x | s) = softmax over s of < b_k, x >,  pi(z) = softmax of < gamma_k, z >, gamma_1 = 0

    Where the person of each set is known (``group=`` of :func:`setwise.read`), all choices of a
    person are of one class. Else each set counts as a person of its own. Predictions are for new
    people: P(x | s) = sum_k pi_k(z) P_k(x | s). :meth:`membership_probabilities` says to which
    class people belong who have chosen, and :meth:`predict_known` predicts what they choose next.

    Short runs of EM from several random starts, on a sample, find promising regions; a trust region
    on the exact likelihood of all sets finds the maximum in them. Each start that is among the two
    best of those up to it is climbed to its maximum, and the best maximum is kept: more ``starts``
    never fit worse. The likelihood may have better ones still. Classes are in the order of their
    shares. Columns that the MNL cannot identify have coefficient 0 in each class.

    A degenerate solution (a class of almost nobody, two classes that are the same, coefficients
    without bound, a singular information matrix) has ``converged_`` False, and a warning names it.

    Args:
        classes: how many, or None for the best of 1 to 4 by ``choose``.
        utility: the utility within each class as a formula or :class:`setwise.Utility`, as in
            :class:`MNL`, without fixed coefficients.
        shared: columns whose coefficients are the same in all classes.
        membership: context columns that tell who is of which class, as a list or as a formula
            such as ``"log(income) + age"``; a formula with more than columns goes with a utility.
            They must be the same in all sets of a person.
        choose: what decides the number of classes: "bic" (k log(sets) - 2 log L, the lowest), or
            "validation": the likelihood of validation people (without such, of a fifth of the
            training people; then all are used to fit).
        starts: random starts of EM; those of a smaller number are among them.
        seed: of the starts, of the sample and of a held-out fifth.

    Fitted attributes: ``classes_``, ``shares_`` (the mean membership of training people), ``coef_``
    (classes × features, in the table's units), ``feature_names_``, ``membership_`` (gamma: classes
    × a constant and the columns ``membership_names_``, in the table's units), and those of
    :class:`Estimated`: own coefficients class after class, shared ones, then shares or gamma.

    >>> import setwise as sw
    >>> made = sw.datasets.generate("mixed", sets=600, features=2)
    >>> columns = dict(made.columns) | {"person": made.columns["set_id"] // 2}
    >>> choices = sw.read(columns, set="set_id", chosen="chosen", items=["x0", "x1"],
    ...                   group="person")
    >>> model = LatentClass(2, shared=["x1"]).fit(choices)
    >>> model.parameter_names_[:3]
    ['x0 (class 1)', 'x0 (class 2)', 'x1']
    """

    CHECKS: ClassVar = {
        "classes": optional(whole()), "utility": is_utility, "shared": optional(each(text)),
        "membership": optional(is_membership), "choose": one_of("bic", "validation"),
        "starts": whole(), "seed": seed,
    }  # fmt: skip
    ARRAYS: tuple[str, ...] = ("coef", "shares", "identified", "membership")
    PANELS: ClassVar[bool] = True
    """Whether all choices of a person are of one class."""

    coef_: Float[np.ndarray, "k d"]
    shares_: Float[np.ndarray, " k"]
    membership_: Float[np.ndarray, "k m"]

    def __init__(
        self,
        classes: int | None = None,
        *,
        utility: str | Utility | None = None,
        shared: Sequence[str] | None = None,
        membership: Sequence[str] | str | None = None,
        choose: Literal["bic", "validation"] = "bic",
        starts: int = 5,
        seed: int = 0,
    ):
        self.classes = classes
        self.utility = utility
        self.shared = shared
        self.membership = membership
        self.choose = choose
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
            solved = self._solve(choices, self.classes)
        elif self.choose == "bic":
            every = (self._solve(choices, one) for one in range(1, MOST_CLASSES + 1))
            solved = min(every, key=lambda one: one.bic)
        else:
            parts = held_out(choices, self.seed) if validation is None else (choices, validation)
            solved = self._solve(choices, self._best(*parts))
        self._take(choices, solved)
        warn_of_rounding(self.feature_names_, solved.mnl)
        warn_if_certain(self.log_likelihood_, self.null_log_likelihood_, self.sets_)
        if not self.converged_:
            why = "; ".join(self._flaws) or "the search did not end"
            warn_of_convergence(
                f"the likelihood of {self.classes_} classes has no clear maximum ({why}), and its "
                "standard errors mean little; use fewer classes or features, or more sets",
                stacklevel=3,
            )

    @property
    def classes_(self) -> int:
        """The number of classes."""
        return len(self.shares_)

    @property
    def feature_names_(self) -> list[str]:
        """What each column of ``coef_`` belongs to."""
        return self._columns.names

    @property
    def membership_names_(self) -> list[str]:
        """What each column of ``membership_`` belongs to, after the constant."""
        return self._columns.known_names

    @property
    def parameter_names_(self) -> list[str]:
        columns, numbers = self._columns, range(1, self.classes_ + 1)
        own, shared = ([name for name, one in zip(columns.names, columns.shared, strict=True)
                        if one == common] for common in (False, True))  # fmt: skip
        names = [f"{name} (class {k})" for k in numbers for name in own] + shared
        if not columns.known_names:
            return names + [f"share of class {k}" for k in numbers]
        every = ["constant", *columns.known_names]
        return names + [f"membership of class {k}: {one}" for k in numbers[1:] for one in every]

    @property
    def parameters_(self) -> Float[np.ndarray, " p"]:
        layout = self._layout
        coefficients = np.empty(layout.first)
        coefficients[layout.places] = self.coef_
        member = self.membership_[1:].ravel() if self.membership_names_ else self.shares_
        return np.concatenate([coefficients, member])

    def with_parameters(self, parameters: Float[np.ndarray, " p"]) -> "LatentClass":
        other, layout = copy(self), self._layout
        other.coef_ = parameters[layout.places]
        if self.membership_names_:
            other.membership_ = layout.split(parameters)[1]
        else:
            other.shares_ = parameters[layout.first :]
        other.model_ = other._model()
        return other

    def membership_probabilities(self, data: Any) -> Any:
        """To which class people belong, given what they chose: a Polars frame, one row per person.

        Its columns are the person (the set, where people are not known) and a probability per
        class. Without a chosen column these are the probabilities before any choice.

        >>> import setwise as sw
        >>> made = sw.datasets.generate("mixed", sets=300, features=2)
        >>> LatentClass(2).fit(made.choices).membership_probabilities(made.choices).columns
        ['set_id', 'class 1', 'class 2']
        """
        import polars as pl

        choices = self.as_choices(data)
        found = self.posterior(choices)
        columns = {found.column: found.people}
        columns |= {f"class {k}": one for k, one in enumerate(found.weights.T, 1)}
        return pl.DataFrame(columns)

    def posterior(self, choices: Choices) -> Posterior:
        """The classes of people; before any choice where it is not known."""
        encoded = self.schema_.encode(choices, np.float64)
        people = people_in(choices, self._columns, encoded, self.PANELS)
        if choices.chosen is None:
            found = softmax(people.known @ self._gamma().T, 1)
        else:
            likelihood = ClassLikelihood(self._columns.utility(encoded), people, self._layout)
            found = likelihood.posterior(self._standardised())
        of_people = self.PANELS and choices.group is not None
        column = choices.roles.group if of_people else choices.roles.set
        ids = choices.group if of_people else choices.set_ids
        assert ids is not None
        points = self.population()[0]
        return Posterior(column or "person", ids[people.first], of_people, found, lambda _: points)

    def population(self) -> tuple[Points, Float[np.ndarray, " points"]]:
        points = np.zeros((len(self.schema_.item_names), self.classes_))
        points[self._columns.of_utility] = (self.coef_ * self._columns.scale).T
        return points, self.shares_

    def coefficient_places(self) -> Int[np.ndarray, "k d"]:
        """Where each class's coefficients stand in ``parameters_``."""
        return self._layout.places

    def class_shares(self, encoded: Encoded) -> Float[np.ndarray, "sets k"]:
        """The probability of each class in each encoded set, before any choice."""
        known = self._columns.known(encoded)
        known = np.hstack([np.ones((len(known), 1)), known])
        return softmax(known @ self._gamma().T, 1)

    def _remarks(self) -> Remarks:
        fixed = self._fixed() if self.membership_names_ else (
            self._fixed() | {self.parameter_names_[-1]: REST}
        )  # fmt: skip
        return Remarks(fixed, self._columns.unused_context(self.schema_))

    def _fixed(self) -> dict[str, str]:
        """Why parameters of classes have no estimate."""
        alike = {name: why for name, why in self.dropped_.items() if name in self.parameter_names_}
        return alike | {f"{name} (class {k})": reason for k in range(1, self.classes_ + 1)
                        for name, reason in self.dropped_.items()}  # fmt: skip

    def _best(self, choices: Choices, validation: Choices) -> int:
        """The number of classes with the best likelihood on validation people."""
        values = []
        for classes in range(1, MOST_CLASSES + 1):
            solved = self._solve(choices, classes)
            valid = solved.schema.encode(validation, np.float64)
            people = people_in(validation, solved.columns, valid, self.PANELS)
            likelihood = ClassLikelihood(solved.columns.utility(valid), people, solved.layout)
            values.append(likelihood.value(solved.found.parameters))
        return int(np.argmax(values)) + 1

    def _solve(self, choices: Choices, classes: int) -> _Solution:
        """Fit so many classes."""
        schema, whole = learned(choices, self.utility, self.membership)
        columns = class_columns(schema, self.membership, self.shared)
        people = people_in(choices, columns, whole, self.PANELS)
        _check_count(classes, len(people), choices, self.PANELS)
        data = columns.utility(whole)
        mnl = maximise(data)
        check_identified(columns.names, mnl.identified)
        layout = ClassLayout.of(classes, columns.shared, people.known.shape[1])
        free = _free(mnl, layout, people)
        unit = np.ones(len(layout))
        unit[layout.places] = mnl.units
        sets = _sampled(people, self.seed)
        runs = em_starts(
            data.take(sets), people.among(sets), mnl, columns.shared, classes, self.starts,
            self.seed,
        )  # fmt: skip
        likelihood = ClassLikelihood(data, people, layout)
        maxima = []
        for place in promising([value for value, _, _ in runs]):
            start = layout.joined(*runs[place][1:])
            maxima.append(climb(likelihood, np.where(free, start, 0), free, unit))
        best = max(maxima, key=lambda one: one.log_likelihood)
        theta, gamma = layout.split(best.parameters)
        order = np.argsort(-_shares(gamma, people), kind="stable")
        ordered = layout.joined(theta[order], gamma[order])
        found = maximum_at(likelihood, ordered, free, unit, best.iterations, best.converged)
        return _Solution(schema, columns, people, layout, mnl, found, free)

    def _take(self, choices: Choices, solved: _Solution) -> None:
        """Keep a solution as the fitted model."""
        mnl, found, data = solved.mnl, solved.found, solved.mnl.data
        self.schema_, self._columns = solved.schema, solved.columns
        self.shares_ = solved.shares
        reported = self._reported(found.parameters, solved.layout)
        self.coef_ = reported[solved.layout.places]
        if solved.columns.known_names:
            self.membership_ = solved.layout.split(reported)[1]
            self.identified_ = solved.free
        else:
            logs = np.log(self.shares_)
            self.membership_ = (logs - logs[0])[:, None]
            others = np.arange(self.classes_) < self.classes_ - 1
            self.identified_ = np.append(solved.free[: solved.layout.first], others)
        self.dropped_ = reasons(
            self.feature_names_, data.items[self.schema_.real_rows(data)], mnl.relations
        )
        self.log_likelihood_, self.null_log_likelihood_ = (
            found.log_likelihood,
            mnl.null_log_likelihood,
        )
        self.sets_, self.iterations_ = len(data), found.iterations
        self._flaws = flaws(found, mnl, self.feature_names_, solved.layout, self.shares_)
        self.converged_ = found.converged and not self._flaws
        self.model_ = self._model()
        self._keep_covariances(choices, solved)

    def _reported(
        self, parameters: Float[np.ndarray, "*r p"], layout: ClassLayout
    ) -> Float[np.ndarray, "*r q"]:
        """Coefficients, and shares or membership, in the table's units."""
        columns = self._columns
        coefficients = parameters[..., : layout.first] / _by_place(layout, columns.scale)
        gamma = layout.split(parameters)[1]
        if not columns.known_names:
            return np.concatenate([coefficients, softmax(gamma[..., 0], -1)], -1)
        member = (gamma @ columns.in_units().T)[..., 1:, :]
        return np.concatenate([coefficients, member.reshape(*member.shape[:-2], -1)], -1)

    def _keep_covariances(self, choices: Choices, solved: _Solution) -> None:
        """Covariances of what is reported, by the delta method."""
        layout, columns, people = solved.layout, solved.columns, solved.people
        slopes = np.zeros((len(self.parameter_names_), len(layout)))
        first = np.arange(layout.first)
        slopes[first, first] = 1 / _by_place(layout, columns.scale)
        if columns.known_names:
            others = np.eye(layout.classes - 1)
            slopes[layout.first :, layout.first :] = np.kron(others, columns.in_units())
        else:
            change = np.diag(self.shares_) - np.outer(self.shares_, self.shares_)
            slopes[layout.first :, layout.first :] = change[:, 1:]
        likelihood = ClassLikelihood(solved.mnl.data, people, layout)
        scores = np.zeros((len(choices), len(layout)))
        scores[people.first] = likelihood.scores(solved.found.parameters)
        self._keep(
            choices, solved.mnl.data, solved.found.covariance, scores,
            lambda one: slopes @ one @ slopes.T,
        )  # fmt: skip

    def _resampling(self, choices: Choices) -> Resampling:
        _, whole = learned(choices, self.utility, self.membership)
        people = people_in(choices, self._columns, whole, self.PANELS)
        data, layout = self._columns.utility(whole), self._layout
        free = self.identified_[: len(layout)]  # membership, or all shares but the last
        likelihood = ClassLikelihood(data, people, layout)
        return resampled(
            likelihood, self._standardised(), free, data,
            lambda drawn: self._reported(drawn, layout),
        )  # fmt: skip

    @property
    def _layout(self) -> ClassLayout:
        columns = self._columns
        return ClassLayout.of(self.classes_, columns.shared, 1 + len(columns.known_names))

    @property
    def _columns(self) -> ClassColumns:
        """Which columns are of the utility, and which of membership."""
        if "_columns" not in self.__dict__:  # of a model that was loaded
            self.__dict__["_columns"] = class_columns(self.schema_, self.membership, self.shared)
        return self.__dict__["_columns"]

    @_columns.setter
    def _columns(self, columns: ClassColumns) -> None:
        self.__dict__["_columns"] = columns

    def _gamma(self) -> Float[np.ndarray, "k m"]:
        """gamma of standardised columns."""
        if not self.membership_names_:
            return np.log(self.shares_)[:, None]
        return np.linalg.solve(self._columns.in_units(), self.membership_.T).T

    def _standardised(self) -> Float[np.ndarray, " p"]:
        """The parameters that the likelihood has."""
        return self._layout.joined(self.coef_ * self._columns.scale, self._gamma())

    def _model(self) -> Mixture:
        columns, width = self._columns, self.schema_.width
        theta = np.zeros((width, self.classes_), np.float32)
        theta[: len(self.schema_.item_names)] = self.population()[0]
        gamma, known = self._gamma(), bool(columns.known_names)
        arrays = {"theta": theta, "logits": gamma[:, 0].astype(np.float32)}
        if known:
            arrays["gamma"] = np.zeros((width, self.classes_), np.float32)
            arrays["gamma"][columns.of_people] = gamma[:, 1:].T
        return with_arrays(Mixture(*theta.shape, random.key(0), known), arrays)


def _by_place(layout: ClassLayout, scale: Float[np.ndarray, " d"]) -> Float[np.ndarray, " p"]:
    """The scale of each coefficient's column."""
    found = np.empty(layout.first)
    found[layout.places] = scale
    return found


def _shares(gamma: Float[np.ndarray, "k m"], people: People) -> Float[np.ndarray, " k"]:
    """The mean membership of people, by their weights."""
    if people.known.shape[1] == 1:
        return softmax(gamma[:, 0])
    return people.weight @ softmax(people.known @ gamma.T, 1) / people.weight.sum()


def _free(mnl: Optimum, layout: ClassLayout, people: People) -> Bool[np.ndarray, " p"]:
    """What can be estimated: columns of the logit, and of people what no others account for."""
    free = np.ones(len(layout), bool)
    free[layout.places] = mnl.identified
    centred = people.known[:, 1:] - people.known[:, 1:].mean(0)
    varying = np.abs(centred).max(0, initial=0) > VARIES
    known = np.append(True, independent_columns(centred.T @ centred, varying)[0])
    free[layout.first :] = np.tile(known, layout.classes - 1)
    return free


def _sampled(people: People, seed: int) -> np.ndarray:
    """About so many sets as EM looks at, of whole people, in their order."""
    count = round(len(people) * EM_SETS / len(people.of_set))
    if count >= len(people):
        return np.arange(len(people.of_set))
    drawn = np.random.default_rng(seed).choice(len(people), count, replace=False)
    return np.flatnonzero(np.isin(people.of_set, drawn))


def _check_count(classes: int, people: int, choices: Choices, panels: bool) -> None:
    if classes > people:
        what = "people" if panels and choices.group is not None else "sets"
        raise InputError(
            f"classes={classes} is more than the {people:,} {what} to learn from; use fewer classes"
        )

"""People whose choices are known: what they say about their tastes, and predictions for them.

A model of tastes gives each person a point beta of a distribution, and P(x | s, beta). With the
past choices of a person, Bayes' rule weighs the points:

    weight(beta) ~ prior(beta) * product over past sets t of P(chosen_t | s_t, beta),
    P(x | s, past) = sum over beta of weight(beta) P(x | s, beta).

The points are draws of the mixed logit, or the classes of latent classes.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise import _segments
from setwise._arguments import text
from setwise._errors import DataWarning, InputError
from setwise.choices import Choices, Encoded
from setwise.choices.choices import rows_of
from setwise.estimators.base import is_choices
from setwise.estimators.maximum_likelihood import Estimated
from setwise.metrics import Metrics, Outcomes

Points = Float[np.ndarray, "d points"]
"""Coefficients of the encoded item columns, at points of the distribution of tastes."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """What choices say about those who made them: the weight of each point, person by person."""

    column: str
    """The name of the column of people; that of sets where each set is a person."""
    people: Shaped[np.ndarray, " people"]
    of_people: bool
    """Whether these are people; else each set is one of its own."""
    weights: Float[np.ndarray, "people points"]
    points: Callable[[int], Points]
    """The points of a person, by the person's place."""


class KnowsPeople(Estimated):
    """A model of tastes that differ between people, and so learns from each person's choices."""

    @property
    @abstractmethod
    def feature_names_(self) -> list[str]:
        """The columns of the utility, in the order of ``coef_``."""

    @abstractmethod
    def posterior(self, choices: Choices) -> Posterior:
        """What these choices say about the tastes of those who made them."""

    @abstractmethod
    def population(self) -> tuple[Points, Float[np.ndarray, " points"]]:
        """Points of the distribution of tastes of all people, and their shares."""

    def predict_known(self, choices: Choices, past: Choices) -> Float[np.ndarray, " rows"]:
        """P(x | s) for people whose past choices are known, one per row, in the table's order.

        The past choices of a person weigh the distribution of tastes. People without past choices
        get the prediction of :meth:`predict_proba`, which is for people who are not known.

        Args:
            choices: sets to predict, read with ``group=``.
            past: what the same people chose before, read with ``chosen=`` and the same ``group=``.
                The model need not be fitted to it. Leave the sets to predict out of it.

        >>> import setwise as sw
        >>> made = sw.datasets.generate("panel", sets=400, features=2)
        >>> past, later = sw.split(made.choices, (0.75, 0.25), seed=0, by="set")
        >>> model = sw.LatentClass(2).fit(past)
        >>> model.predict_known(later, past).shape
        (400,)
        """
        found = [
            np.exp(logs[self.schema_.real_rows(part)])
            for part, logs in self._known_parts(choices, past)
        ]
        return choices.in_table_order(np.concatenate(found))

    def evaluate_known(self, choices: Choices, past: Choices) -> Metrics:
        """The measures of :meth:`evaluate`, for predictions by :meth:`predict_known`.

        ``choices`` must say what was chosen. No set of ``past`` may be among them.
        """
        is_choices("choices", choices)
        if choices.chosen is None:
            raise InputError("these choices do not say what was chosen; read them with chosen=")
        found = []
        for part, logs in self._known_parts(choices, past):
            assert part.chosen is not None
            found.append(Outcomes.of(logs, part.offsets, part.chosen))
        return Outcomes.joined(found).measured(choices.weight, choices.group)

    def individual_coefficients(self, choices: Choices | None = None) -> Any:
        """What the choices of each person say about that person's coefficients.

        A Polars table with a row per person: the mean and the standard deviation of the
        coefficients over the distribution of tastes, given the person's choices (Train 2009,
        chapter 11).

        Args:
            choices: of these people, whether or not the model was fitted to them; by default those
                of the fit.

        >>> import setwise as sw
        >>> made = sw.datasets.generate("panel", sets=400, features=2)
        >>> model = sw.MixedLogit(draws=50).fit(made.choices)
        >>> model.individual_coefficients().columns
        ['person', 'x0', 'x1', 'sd(x0)', 'sd(x1)']
        """
        names = self.feature_names_
        return self._individual(choices, names, lambda points: self._in_units(points))

    def individual_willingness_to_pay(self, price: str, choices: Choices | None = None) -> Any:
        """What each person would pay for one more of each feature, given the person's choices.

        A Polars table with a row per person: the mean and the standard deviation of
        - beta_k / beta_price over the person's distribution of tastes. The ratio is taken at each
        point of the distribution, not of the means.

        Args:
            price: the column, or the term of the utility, that is the price.
            choices: of these people; by default those of the fit.

        >>> import setwise as sw
        >>> made = sw.datasets.generate("panel", sets=400, features=2)
        >>> model = sw.MixedLogit({"x1": "normal"}, draws=50).fit(made.choices)
        >>> model.individual_willingness_to_pay("x0").columns
        ['person', 'x1', 'sd(x1)']
        """
        self.check_is_fitted()
        place = self.price_place(price)
        names = [name for name in self.feature_names_ if name != price]
        return self._individual(
            choices, names, lambda points: worth(self._in_units(points), place, price)
        )

    def feature_names(self) -> list[str]:
        """The columns of the utility, in the order of ``coef_``."""
        return self.feature_names_

    def price_place(self, price: str) -> int:
        """The place of a price among the columns of the utility; others are refused."""
        text("price", price)
        names = self.feature_names_
        if price not in names:
            raise InputError(
                f"price='{price}' is not a column of the utility; the columns are: "
                f"{', '.join(names)}"
            )
        return names.index(price)

    def population_values(self, price: str | None = None) -> Float[np.ndarray, "k points"]:
        """The coefficients at each point of :meth:`population`, in the table's units.

        With a ``price``, what people pay for one more of each of the other columns.
        """
        points = self._in_units(self.population()[0])
        return points if price is None else worth(points, self.price_place(price), price)

    def _in_units(self, points: Points) -> Float[np.ndarray, "k points"]:
        """The coefficients of the utility's columns, in the table's units."""
        places = [self.schema_.item_names.index(name) for name in self.feature_names_]
        return points[places] / self.schema_.item_scales[places, None]

    def _individual(
        self,
        choices: Choices | None,
        names: list[str],
        of: Callable[[Points], Float[np.ndarray, "k points"]],
    ) -> Any:
        """A table of the mean and the spread of some function of tastes, person by person."""
        import polars as pl

        self.check_is_fitted()
        choices = self.training_choices() if choices is None else self.as_choices(choices)
        found = self._posterior_of(choices)
        means, spreads = np.zeros((2, len(names), len(found.people)))
        varies = np.zeros(len(names), bool)
        for person, weights in enumerate(found.weights):
            values = of(found.points(person))
            means[:, person] = mean = values @ weights
            spreads[:, person] = np.sqrt((values - mean[:, None]) ** 2 @ weights)
            varies |= np.ptp(values, axis=1) > 0
        table = {found.column: found.people} | dict(zip(names, means, strict=True))
        table |= {f"sd({names[k]})": spreads[k] for k in np.flatnonzero(varies)}
        return pl.DataFrame(table)

    def _posterior_of(self, choices: Choices) -> Posterior:
        if choices.chosen is None:
            raise InputError(
                "these choices do not say what was chosen, and so nothing about the people; read "
                "them with chosen="
            )
        return self.posterior(choices)

    def _known_parts(
        self, choices: Choices, past: Choices
    ) -> Iterator[tuple[Encoded, Float[np.ndarray, " rows"]]]:
        """The choices in parts, with log P of every row, outside options included."""
        self.check_is_fitted()
        is_choices("choices", choices)
        is_choices("past", past)
        found = self._posterior_of(past)
        if choices.group is None or not found.of_people:
            raise InputError(
                "predictions for known people need to know who made each choice; read choices and "
                "past with group=, and fit LatentClass or MixedLogit (MixedMNL takes each set as a "
                "person of its own)"
            )
        places = {person: place for place, person in enumerate(found.people.tolist())}
        who = np.array([places.get(person, -1) for person in choices.group.tolist()])
        if (who < 0).all():
            warnings.warn(
                f"nobody of '{choices.roles.group}' in choices is in past: all predictions are for "
                "people who are not known; check that both have the same ids",
                DataWarning,
                stacklevel=4,
            )
        first = 0
        for part in self.encoded_parts(choices):
            logs = self.row_log_probabilities(part).astype(np.float64)
            for person, sets in _by_person(who[first : first + len(part)]):
                one = part.take(sets)
                p = _segments.softmax(one.items @ found.points(person), one.offsets)
                rows = rows_of(part.offsets[sets], part.sizes[sets])
                logs[rows] = np.log(np.maximum(p @ found.weights[person], np.finfo(float).tiny))
            first += len(part)
            yield part, logs


def worth(
    coefficients: Float[np.ndarray, "k points"], place: int, price: str
) -> Float[np.ndarray, "others points"]:
    """- beta_k / beta_price at each point, without the price; only where all dislike to pay.

    >>> worth(np.array([[-2.0, -4.0], [1.0, 1.0]]), 0, "price").tolist()
    [[0.5, 0.25]]
    """
    liked = float((coefficients[place] >= 0).mean())
    if liked:
        raise InputError(
            f"the coefficient of '{price}' is not negative for {max(liked, 0.001):.1%} of people: "
            "by this model they like to pay, and a ratio to it means nothing; give the price one "
            'coefficient for all, or a distribution without positive values, such as "-lognormal"'
        )
    return np.delete(-coefficients / coefficients[place], place, axis=0)


def _by_person(
    who: Int[np.ndarray, " sets"],
) -> Iterator[tuple[int, Int[np.ndarray, " some"]]]:
    """The known people (numbers from 0), each with the places of their sets."""
    order = np.argsort(who, kind="stable")
    numbers, starts = np.unique(who[order], return_index=True)
    for person, sets in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        if person >= 0:
            yield person, sets

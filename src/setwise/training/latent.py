"""The likelihood of latent classes: each person belongs to one class, which chooses by a logit.

    log L = sum over people n of weight_n * log sum over classes k of
            pi_k(z_n) * product over the person's sets t of P_k(chosen | s_t)

    P_k(x | s) = softmax over s of < theta_k, x >,   pi(z) = softmax of < gamma_k, z >, gamma_1 = 0

The first column of z is 1. Where each set is a person of its own, this is the likelihood of the
discrete mixed logit. With h_nk the posterior of class k and a_nk the log of a term of the sum, the
gradient of a person's term is sum_k h_nk a'_nk, and its Hessian
sum_k h_nk (a''_nk + a'_nk a'_nk') less the product of the gradient with itself. All is in NumPy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.special import log_softmax, logsumexp

from setwise import _segments
from setwise.choices import Encoded
from setwise.training.likelihood import Derivatives


@dataclass(frozen=True, eq=False)
class People:
    """Who made each choice, and what is known of them: a column of ones, then context."""

    of_set: Int[np.ndarray, " sets"]
    """The person of each set, numbered from 0."""
    weight: Float[np.ndarray, " people"]
    known: Float[np.ndarray, "people m"]

    def __len__(self) -> int:
        return len(self.weight)

    @cached_property
    def first(self) -> Int[np.ndarray, " people"]:
        """The first set of each person."""
        return np.unique(self.of_set, return_index=True)[1]

    def among(self, sets: Int[np.ndarray, " some"]) -> "People":
        """The people of these sets, numbered anew."""
        kept, of_set = np.unique(self.of_set[sets], return_inverse=True)
        return People(of_set.reshape(-1), self.weight[kept], self.known[kept])

    @cached_property
    def sums(self) -> csr_array:
        """A sparse matrix (people x sets) that sums over the sets of each person."""
        sets = len(self.of_set)
        return csr_array((np.ones(sets), (self.of_set, np.arange(sets))), (len(self), sets))


@dataclass(frozen=True, eq=False)
class ClassLayout:
    """Where the parameters of classes stand in one vector.

    ``places`` has the place of each class's coefficient of each column: a shared coefficient has
    the same place in all classes. Those of membership come last, class after class.
    """

    places: Int[np.ndarray, "k d"]
    known: int
    """The number of columns of z, the ones included."""

    @classmethod
    def of(cls, classes: int, shared: np.ndarray, known: int) -> "ClassLayout":
        """Own coefficients class after class, then shared ones, then membership.

        >>> ClassLayout.of(2, np.array([False, True]), 1).places.tolist()
        [[0, 2], [1, 2]]
        """
        own = int((~shared).sum())
        places = np.empty((classes, len(shared)), np.int64)
        places[:, ~shared] = np.arange(classes * own).reshape(classes, own)
        places[:, shared] = classes * own + np.arange(int(shared.sum()))
        return cls(places, known)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.places)

    @property
    def first(self) -> int:
        """The place of the first parameter of membership."""
        return int(self.places.max(initial=-1)) + 1

    def __len__(self) -> int:
        return self.first + (self.classes - 1) * self.known

    def split(
        self, parameters: Float[np.ndarray, "*r p"]
    ) -> tuple[Float[np.ndarray, "*r k d"], Float[np.ndarray, "*r k m"]]:
        """theta of each class, and gamma of each class, of which the first is 0."""
        theta = parameters[..., self.places]
        rest = parameters[..., self.first :]
        rest = rest.reshape(*rest.shape[:-1], self.classes - 1, self.known)
        none = np.zeros((*rest.shape[:-2], 1, self.known))
        return theta, np.concatenate([none, rest], -2)

    def joined(
        self, theta: Float[np.ndarray, "k d"], gamma: Float[np.ndarray, "k m"]
    ) -> Float[np.ndarray, " p"]:
        """One vector; a shared coefficient is the mean of the classes', gamma_1 is taken off."""
        found = np.zeros(len(self))
        counts = np.bincount(self.places.ravel(), minlength=self.first)
        sums = np.bincount(self.places.ravel(), theta.ravel(), self.first)
        found[: self.first] = sums / counts
        found[self.first :] = (gamma[1:] - gamma[0]).ravel()
        return found

    def reduced(self, whole: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n p"]:
        """Derivatives by the parameters, of those by theta (class after class) and gamma."""
        count = self.places.size
        places = np.append(self.places.ravel(), self.first + np.arange(whole.shape[1] - count))
        sums = csr_array((np.ones(len(places)), (places, np.arange(len(places)))))
        return (sums @ whole.T).T


@dataclass(frozen=True, eq=False)
class _Point:
    """What the derivatives at one point need."""

    probabilities: Float[np.ndarray, "rows k"]
    shares: Float[np.ndarray, "people k"]
    posterior: Float[np.ndarray, "people k"]
    values: Float[np.ndarray, " people"]
    """log L of each person, without their weight."""


class ClassLikelihood:
    """log L of latent classes, its gradient and its Hessian; the last point asked is remembered."""

    def __init__(self, data: Encoded, people: People, layout: ClassLayout):
        assert data.chosen is not None
        self.people, self.layout = people, layout
        self.offsets, self.chosen = data.offsets, data.offsets[:-1] + data.chosen
        self.x = _segments.centred(data.items, data.offsets)
        self.total = float(people.weight @ np.bincount(people.of_set))
        self.last: tuple[bytes, Derivatives] | None = None

    def __call__(self, parameters: Float[np.ndarray, " p"]) -> Derivatives:
        key = parameters.tobytes()
        if self.last is None or self.last[0] != key:
            self.last = (key, self._derivatives(parameters))
        return self.last[1]

    def value(self, parameters: Float[np.ndarray, " p"]) -> float:
        """log L alone."""
        return float(self.people.weight @ self._at(parameters).values)

    def posterior(self, parameters: Float[np.ndarray, " p"]) -> Float[np.ndarray, "people k"]:
        """The probability of each class, given what a person chose."""
        return self._at(parameters).posterior

    def scores(self, parameters: Float[np.ndarray, " p"]) -> Float[np.ndarray, "people p"]:
        """The gradient of each person's weighted log L."""
        return self._scores(self._at(parameters)) * self.people.weight[:, None]

    def together(
        self, points: Float[np.ndarray, "r p"], weights: Float[np.ndarray, "r sets"]
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "r p"]]:
        """log L and its gradient at several points; a person has the weight of their sets."""
        values, gradients = np.empty(len(points)), np.empty(points.shape)
        for place, (point, weight) in enumerate(zip(points, weights, strict=True)):
            at, count = self._at(point), weight[self.people.first]
            values[place], gradients[place] = count @ at.values, count @ self._scores(at)
        return values, gradients

    def _at(self, parameters: Float[np.ndarray, " p"]) -> _Point:
        theta, gamma = self.layout.split(parameters)
        of_rows = _segments.log_softmax(self.x @ theta.T, self.offsets)
        log_shares = log_softmax(self.people.known @ gamma.T, 1)
        joint = log_shares + self.people.sums @ of_rows[self.chosen]
        values = logsumexp(joint, 1)
        posterior = np.exp(joint - values[:, None])
        return _Point(np.exp(of_rows), np.exp(log_shares), posterior, values)

    def _residuals(
        self, at: _Point
    ) -> Iterator[tuple[Float[np.ndarray, "sets d"], Float[np.ndarray, "people d"]]]:
        """Of each class, the mean item of each set and the slope of a person's log product."""
        for p in at.probabilities.T:
            means = _segments.sums(self.x * p[:, None], self.offsets)
            yield means, self.people.sums @ (self.x[self.chosen] - means)

    def _scores(self, at: _Point) -> Float[np.ndarray, "people p"]:
        slopes = [slope for _, slope in self._residuals(at)]
        return self.layout.reduced(self._stacked(at, slopes))

    def _stacked(
        self, at: _Point, slopes: list[Float[np.ndarray, "people d"]]
    ) -> Float[np.ndarray, "people q"]:
        """Gradients of people by theta, class after class, and gamma."""
        parts = [h[:, None] * one for h, one in zip(at.posterior.T, slopes, strict=True)]
        moved = (at.posterior - at.shares)[:, 1:, None] * self.people.known[:, None, :]
        return np.hstack([*parts, moved.reshape(len(moved), -1)])

    def _derivatives(self, parameters: Float[np.ndarray, " p"]) -> Derivatives:
        at, weight = self._at(parameters), self.people.weight
        both = [*self._residuals(at)]
        slopes = [slope for _, slope in both]
        gradients = self._stacked(at, slopes)
        hessian = -gradients.T @ (gradients * weight[:, None])
        theta = self.layout.places.size
        hessian[theta:, theta:] += self._of_membership(at)
        d, known = self.x.shape[1], self.people.known
        for k, (means, slope) in enumerate(both):
            block = slice(k * d, (k + 1) * d)
            counted = weight * at.posterior[:, k]
            hessian[block, block] += slope.T @ (slope * counted[:, None])
            hessian[block, block] -= self._spread(at.probabilities[:, k], means, counted)
            other = np.eye(self.layout.classes)[k] - at.shares
            moved = (other[:, 1:, None] * known[:, None, :]).reshape(len(known), -1)
            cross = slope.T @ (moved * counted[:, None])
            hessian[block, theta:] += cross
            hessian[theta:, block] += cross.T
        reduced = self.layout.reduced(self.layout.reduced(hessian).T)
        gradient = self.layout.reduced((weight @ gradients)[None])[0]
        return float(weight @ at.values), gradient, (reduced + reduced.T) / 2

    def _spread(
        self,
        p: Float[np.ndarray, " rows"],
        means: Float[np.ndarray, "sets d"],
        counted: Float[np.ndarray, " people"],
    ) -> Float[np.ndarray, "d d"]:
        """The covariance of the items under P_k, added up over the sets of people so counted."""
        of_sets = counted[self.people.of_set]
        scaled = self.x * np.sqrt(p * _segments.spread(of_sets, self.offsets))[:, None]
        return scaled.T @ scaled - means.T @ (means * of_sets[:, None])

    def _of_membership(self, at: _Point) -> Float[np.ndarray, "q q"]:
        """The Hessian by gamma, with the product of the gradient added back.

        Of classes j and l it is the sum of z z' times the weight and
        [j = l] (h_j - pi_j) + 2 pi_j pi_l - h_j pi_l - pi_j h_l.
        """
        h, pi, known = at.posterior[:, 1:], at.shares[:, 1:], self.people.known
        count, m = pi.shape[1], known.shape[1]
        found = np.zeros((count * m, count * m))
        for j in range(count):
            for one in range(count):
                factor = 2 * pi[:, j] * pi[:, one] - h[:, j] * pi[:, one] - pi[:, j] * h[:, one]
                factor = factor + (h[:, j] - pi[:, j] if j == one else 0)
                scaled = known * (factor * self.people.weight)[:, None]
                found[j * m : (j + 1) * m, one * m : (one + 1) * m] = known.T @ scaled
        return found

"""The nested logit for given nests, by maximum likelihood."""

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from setwise import _segments
from setwise._arguments import by_name, each, optional, text
from setwise._errors import InputError
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.choices.alternatives import shown
from setwise.estimators.maximum_likelihood import (
    FIXED,
    Estimated,
    Remarks,
    check_identified,
    fixed_coefficients,
    is_utility,
    warn_if_certain,
    warn_of_no_maximum,
    warn_of_rounding,
    with_fixed,
    with_mean_weight,
    with_utility,
    without_context,
)
from setwise.estimators.summary import reasons
from setwise.models.mixtures import Nested
from setwise.training import Optimum, maximise
from setwise.training.covariances import Resampling
from setwise.training.likelihood import Likelihood, Maximum, maximise_likelihood, resampled

START = np.log(9.0)  # lambda = 0.9: the sigmoid reaches 1, the MNL, in the limit only
ONE = 40.0  # the sigmoid of this is 1 to the last digit
BOUND = 0.999

NOTE = "z and p of a lambda test lambda = 1, where its nest is none."
AT_BOUND = "at its bound: this nest is none"
ALONE = "not identified: no set has two items of this nest"


class NestedLogit(Estimated):
    """Nested logit (McFadden 1978): items of a nest take most from each other.

        g(x, s) = V_x / lambda_k + (lambda_k - 1) I_k,  V = < b, x >,  x in nest k,
        I_k = log sum over the items z of nest k in s of exp(V_z / lambda_k)

    0 < lambda_k <= 1 says how unlike the items of nest k are; with all lambdas at 1 it is the MNL.
    A nest that has never two items in a set leaves its lambda unidentified, and one whose best
    lambda is not below 1 is at its bound: both are fixed at 1, have no standard error, and
    :meth:`summary` says why. The outside option, where there is one, is a nest of its own.
    Context features cancel and are not used.

    Args:
        nest: the column of nests, read as a category among the items (``items=[...,
            "category(nest)"]``; text is a category anyway). It is not part of V: constants of
            nests or alternatives are columns of their own. No level of it is merged with others.
        nests: instead of a column, the named alternatives of each nest, such as
            ``{"existing": ["TRAIN", "CAR"]}``. An alternative that is not listed is in no nest. It
            goes with a utility. :class:`CrossNestedLogit` takes alternatives in several nests, and
            does not bound lambda.
        utility: V as a formula or :class:`setwise.Utility`, as in :class:`MNL`.

    Fitted attributes: ``coef_`` (of V, in the table's units), ``feature_names_``, ``lambdas_`` and
    ``lambda_`` (the same by nest), and those of :class:`Estimated`, lambdas after coefficients.

    >>> import setwise as sw
    >>> made = sw.datasets.generate("nested", sets=500, features=2, nests=2)
    >>> choices = sw.read(made.columns, set="set_id", chosen="chosen",
    ...                   items=[*made.items, "category(nest)"])
    >>> NestedLogit("nest").fit(choices).parameter_names_
    ['x0', 'x1', 'lambda(nest=0)', 'lambda(nest=1)']
    >>> draw = np.random.default_rng(0)
    >>> table = {f"cost.{one}": draw.uniform(1, 5, 300) for one in ("bus", "car", "train")}
    >>> table["mode"] = draw.choice(["bus", "car", "train"], 300)
    >>> trips = sw.read_wide(table, chosen="mode", items=["cost.{alt}"])
    >>> nested = NestedLogit(nests={"road": ["bus", "car"]}, utility="cost").fit(trips)
    >>> nested.parameter_names_
    ['cost', 'constant:car', 'constant:train', 'lambda(road)']
    """

    CHECKS: ClassVar = {
        "nest": optional(text),
        "nests": optional(by_name(each(text))),
        "utility": is_utility,
    }
    TAKES_FIXED: ClassVar = True
    ARRAYS = ("coef", "lambdas", "identified", "bounded")

    coef_: Float[np.ndarray, " d"]
    lambdas_: Float[np.ndarray, " k"]
    bounded_: Bool[np.ndarray, " k"]

    def __init__(
        self,
        nest: str | None = None,
        *,
        nests: Mapping[str, Sequence[str]] | None = None,
        utility: str | Utility | None = None,
    ):
        self.nest = nest
        self.nests = nests
        self.utility = utility

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        self.schema_, data = self._learned(choices)
        schema, (start, nests) = self.schema_, self._marks()
        informative = _informative(data, start, nests, self._said)
        d = data.items.shape[1]
        utility = self._utility()
        given = with_fixed(data, schema)
        linear = replace(given, items=np.ascontiguousarray(given.items[:, utility]))
        mnl = maximise(linear)
        check_identified(np.array(schema.item_names)[utility].tolist(), mnl.identified)
        separates = mnl.separation
        begin, free = np.zeros(d + nests), np.zeros(d + nests, bool)
        begin[:d][utility], free[:d][utility] = mnl.coefficients, mnl.identified
        begin[d:], free[d:] = np.where(informative, START, ONE), informative
        for place, value in fixed_coefficients(schema).items():
            begin[place] = value * schema.item_scales[place]
        unit = np.ones(d + nests)
        unit[:d][utility] = mnl.units
        found, self.bounded_ = _solve(Nested(d, nests, start), begin, data, free, unit)
        self.coef_, self.lambdas_ = self._reported(found.parameters)
        self.identified_ = np.concatenate([mnl.identified, informative & ~self.bounded_])
        self.log_likelihood_, self.null_log_likelihood_ = (
            found.log_likelihood,
            mnl.null_log_likelihood,
        )
        self.sets_, self.iterations_ = len(data), found.iterations
        self.converged_ = found.converged and not separates
        self._keep_covariances(choices, data, found)
        real = linear.items[schema.real_rows(data)]
        self.dropped_ = reasons(self.feature_names_, real, mnl.relations)
        self.dropped_ |= {schema.item_names[place]: FIXED for place in fixed_coefficients(schema)}
        self.model_ = self._model()
        self._warn(linear, mnl, found)

    def _learned(self, choices: Choices) -> tuple[Schema, Encoded]:
        """The schema of training sets, with its nests, and these sets in it."""
        if (self.nest is None) == (self.nests is None):
            raise InputError(
                "give nest=, the column of nests, or nests=, the alternatives of each nest"
                + ("" if self.nest is None else ", and not both")
            )
        used = with_utility(choices, self.utility)
        if self.nests is None:
            keep = () if self.nest is None else (self.nest,)
            schema, seen = Schema.learn(used, whole=keep)
        else:
            _check_nests(self.nests, used)
            schema = Schema.fit(used).with_marks(self.nests, used)
            seen = schema.over(used)
        data = with_mean_weight(seen.encoded(np.float64))
        return schema, replace(data, context=np.zeros((len(data), 0)))

    def _warn(self, linear: Encoded, mnl: Optimum, found: Maximum) -> None:
        if mnl.separation:
            warn_of_no_maximum(self.feature_names_, mnl.separation, len(linear))
        warn_of_rounding(self.feature_names_, mnl)
        warn_if_certain(self.log_likelihood_, self.null_log_likelihood_, self.sets_)
        if not found.converged and not mnl.separation:
            warnings.warn(
                "the likelihood of the nested logit has no clear maximum; its standard errors "
                "mean little: use fewer features or nests, or more sets",
                ConvergenceWarning,
                stacklevel=4,
            )

    @property
    def nests_(self) -> list[str]:
        """The levels of the nest column, or the names of the nests."""
        if self.nests is not None:  # a file does not keep the order of the argument
            assert self.schema_.terms is not None
            return self.schema_.terms.names[self._marks()[0] :]
        return [n for encoder in self.schema_.items if encoder.feature.column == self.nest
                for n in encoder.levels]  # fmt: skip

    @property
    def lambda_(self) -> dict[str, float]:
        """Each nest's lambda."""
        return dict(zip(self.nests_, self.lambdas_.tolist(), strict=True))

    def nest_members(self, encoded: Encoded) -> Bool[np.ndarray, "rows k"]:
        """Which of the nests each encoded row is in; an outside option is in none."""
        start, nests = self._marks()
        return encoded.items[:, start : start + nests] > 0

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient of V belongs to."""
        names = np.array(self.schema_.item_names, object)
        return names[self._utility()].tolist()

    @property
    def parameter_names_(self) -> list[str]:
        of = "" if self.nest is None else f"{self.nest}="
        return [*self.feature_names_, *(f"lambda({of}{name})" for name in self.nests_)]

    @property
    def parameters_(self) -> Float[np.ndarray, " p"]:
        return np.concatenate([self.coef_, self.lambdas_])

    def with_parameters(self, parameters: Float[np.ndarray, " p"]) -> "NestedLogit":
        other = copy(self)
        other.coef_, other.lambdas_ = np.split(parameters, [len(self.coef_)])
        other.model_ = other._model()
        return other

    def _remarks(self) -> Remarks:
        names, d = self.parameter_names_, len(self.coef_)
        why = np.where(self.bounded_, AT_BOUND, ALONE).tolist()
        fixed = self.dropped_ | dict(zip(names[d:], why, strict=True))
        note = "\n".join(filter(None, (NOTE, without_context(self.schema_))))
        null = np.concatenate([np.zeros(d), np.ones(len(self.lambdas_))])
        return Remarks(fixed, note, null)

    def _reported(
        self, parameters: Float[np.ndarray, "*r p"]
    ) -> tuple[Float[np.ndarray, "*r d"], Float[np.ndarray, "*r k"]]:
        """Coefficients in the table's units, and lambdas, of what the likelihood has."""
        utility, nests = self._utility(), self._marks()[1]
        theta = parameters[..., :-nests][..., utility]
        return theta / self.schema_.item_scales[utility], expit(parameters[..., -nests:])

    def _keep_covariances(self, choices: Choices, data: Encoded, found: Maximum) -> None:
        """Covariances of coefficients and lambdas, by the delta method."""
        start, nests = self._marks()
        shown = np.append(self._utility(), np.ones(nests, bool))
        scale = self.schema_.item_scales[self._utility()]
        slopes = np.concatenate([1 / scale, self.lambdas_ * (1 - self.lambdas_)])
        both, places = np.outer(slopes, slopes), np.ix_(shown, shown)
        model = Nested(data.items.shape[1], nests, start)
        scores = Likelihood(model, data).scores(found.parameters)
        self._keep(choices, data, found.covariance, scores, lambda one: one[places] * both)

    def _resampling(self, choices: Choices) -> Resampling:
        _, data = self._learned(choices)
        start, nests = self._marks()
        shown = np.append(self._utility(), np.ones(nests, bool))
        parameters, free = np.zeros(len(shown)), np.zeros(len(shown), bool)
        scale = self.schema_.item_scales[self._utility()]
        parameters[shown] = np.concatenate([self.coef_ * scale, _raw(self.lambdas_)])
        free[shown] = self.identified_
        likelihood = Likelihood(Nested(data.items.shape[1], nests, start), data)
        return resampled(
            likelihood, parameters, free, data, lambda drawn: np.hstack(self._reported(drawn))
        )

    @property
    def _said(self) -> str:
        """The nests, for messages."""
        return "nests=" if self.nest is None else f"'{self.nest}'"

    def _marks(self) -> tuple[int, int]:
        """The first of the columns that mark the nests, and how many there are."""
        if self.nests is not None:
            assert self.schema_.terms is not None
            return len(self.schema_.terms.names) - len(self.nests), len(self.nests)
        assert self.nest is not None
        return _nest_columns(self.schema_, self.nest)

    def _utility(self) -> Bool[np.ndarray, " d"]:
        """The columns of V: all item columns but the nests'."""
        start, nests = self._marks()
        place = np.arange(len(self.schema_.item_names))
        return (place < start) | (place >= start + nests)

    def _model(self) -> Nested:
        start, nests = self._marks()
        utility, width = self._utility(), self.schema_.width
        theta = np.zeros(width, np.float32)
        theta[: len(utility)][utility] = self.coef_ * self.schema_.item_scales[utility]
        arrays = {"theta": theta, "raw": _raw(self.lambdas_).astype(np.float32)}
        return with_arrays(Nested(width, nests, start), arrays)


def _raw(lambdas: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """What the sigmoid turns into these; finite at 1."""
    with np.errstate(divide="ignore"):
        return np.minimum(np.log(lambdas) - np.log1p(-lambdas), ONE)


def _check_nests(nests: Mapping[str, Sequence[str]], choices: Choices) -> None:
    """Refuse nests of alternatives that there are not, or that are in two of them."""
    name = choices.roles.alternative
    if name is None or choices.roles.utility is None:
        raise InputError(
            "nests= lists named alternatives and goes with a utility; read the choices with "
            "alternative= (or from a wide table) and give utility=, or name a column in nest="
        )
    known, seen = choices.levels(name), dict[str, str]()
    for nest, members in nests.items():
        for one in members:
            if one not in known:
                raise InputError(
                    f"nests['{nest}'] has '{one}', which is not an alternative; the "
                    f"alternatives are: {shown(known)}"
                )
            if one in seen:
                raise InputError(
                    f"'{one}' is in nests['{seen[one]}'] and in nests['{nest}']; an alternative "
                    "can be in one nest only; use CrossNestedLogit"
                )
            seen[one] = nest


def _solve(
    model: Nested,
    start: Float[np.ndarray, " p"],
    data: Encoded,
    free: Bool[np.ndarray, " p"],
    unit: Float[np.ndarray, " p"],
) -> tuple[Maximum, Bool[np.ndarray, " k"]]:
    """The maximum, and which lambdas are at their bound: fixed there, the rest is solved again."""
    nests, free = len(model.raw), free.copy()
    bounded, iterations = np.zeros(nests, bool), 0
    while True:
        found = maximise_likelihood(model, start, data, free, unit)
        iterations += found.iterations
        reached = free[-nests:] & (expit(found.parameters[-nests:]) > BOUND)
        if not reached.any():
            return replace(found, iterations=iterations), bounded
        bounded |= reached
        start = found.parameters.copy()
        start[-nests:][bounded] = ONE
        free[-nests:] &= ~bounded


def _nest_columns(schema: Schema, nest: str) -> tuple[int, int]:
    """The first of the nest's one-hot columns, and how many there are."""
    start = 0
    for encoder in schema.items:
        if encoder.feature.column == nest:
            if encoder.kind != "category":
                raise InputError(
                    f"the nest column '{nest}' is a {encoder.kind}; read it as a category, with "
                    f'items=[..., "category({nest})"]'
                )
            if len(encoder.levels) < 2:
                raise InputError(
                    f"the nest column '{nest}' has one level only, '{encoder.levels[0]}': with all "
                    "items in one nest the nested logit is the MNL; use that"
                )
            return start, len(encoder.levels)
        start += len(encoder.names)
    names = ", ".join(str(encoder.feature) for encoder in schema.items)
    raise InputError(
        f"there is no nest column '{nest}' among the items ({names}); read it with "
        f'items=[..., "category({nest})"]'
    )


def _informative(data: Encoded, start: int, nests: int, nest: str) -> Bool[np.ndarray, " k"]:
    """Nests of which some set has two items, so that lambda can be learned."""
    counts = _segments.sums(data.items[:, start : start + nests] > 0, data.offsets)
    if (counts.max(1) == data.sizes).all():
        raise InputError(
            f"all items of every set are in one nest of {nest}, so there is no choice between "
            "nests; a nested logit needs sets that span nests"
        )
    return np.any(counts > 1, axis=0)

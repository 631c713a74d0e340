"""The nested logit for given nests, by maximum likelihood."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from setwise import _segments
from setwise._arguments import by_name, each, text
from setwise._errors import InputError
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.doctor.derived import derived
from setwise.estimators.maximum_likelihood import (
    FIXED,
    Estimated,
    check_identified,
    fixed_coefficients,
    is_utility,
    warn_if_certain,
    warn_of_no_maximum,
    warn_of_rounding,
    with_fixed,
    with_utility,
    without_context,
)
from setwise.estimators.summary import Summary, reasons
from setwise.models.mixtures import Nested
from setwise.training import maximise
from setwise.training.likelihood import Maximum, maximise_likelihood

START = np.log(9.0)  # lambda = 0.9: the sigmoid reaches 1, the MNL, in the limit only
ONE = 40.0  # the sigmoid of this is 1 to the last digit
BOUND = 0.999
NEST = "nest"

NOTE = "z and p of a lambda test lambda = 1, where its nest is none."
AT_BOUND = "at its bound: this nest is none"
ALONE = "not identified: no set has two items of this nest"


def _check_nests(name: str, value: Any) -> None:
    """A column, or a mapping from the name of each nest to its alternatives."""
    if not isinstance(value, Mapping):
        return text(name, value)
    by_name(each(text))(name, value)
    listed = [one for some in value.values() for one in some]
    twice = next((one for one in listed if listed.count(one) > 1), None)
    if twice is not None:
        raise InputError(f"{name} has the alternative '{twice}' twice; it can be in one nest only")
    return None


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
        nests: the alternatives of each nest, such as ``{"road": ["bus", "car"]}``, where the
            alternatives have names (``alternative=`` of :func:`setwise.read`); an alternative in
            no nest stands alone. Or the column of nests, read as a category among the items
            (``items=[..., "category(nest)"]``; text is a category anyway). That column is not
            part of V.
        utility: the formula of V, such as ``"cost + time | income"``, or a
            :class:`setwise.Utility` with a reference or fixed coefficients. Nests by alternative
            need one. By default V has a coefficient for every other item column.

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
    >>> NestedLogit({"road": ["bus", "car"]}, "cost").fit(trips).parameter_names_
    ['cost', 'constant:car', 'constant:train', 'lambda(road)']
    """

    CHECKS: ClassVar = {"nests": _check_nests, "utility": is_utility}
    TAKES_FIXED: ClassVar = True
    ARRAYS = ("coef", "lambdas", "covariance", "identified", "bounded")

    coef_: Float[np.ndarray, " d"]
    lambdas_: Float[np.ndarray, " k"]
    bounded_: Bool[np.ndarray, " k"]

    def __init__(
        self, nests: str | Mapping[str, Sequence[str]], utility: str | Utility | None = None
    ):
        self.nests = nests
        self.utility = utility

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        schema, data = self._learned(with_utility(choices, self.utility))
        start, names = _nest_columns(schema, self.nests)
        nests = len(names)
        informative = _informative(data, start, nests)
        d = data.items.shape[1]
        utility, fixed = _utility(d, start, nests), fixed_coefficients(schema)
        offset = with_fixed(data, schema)
        linear = replace(offset, items=np.ascontiguousarray(offset.items[:, utility]))
        mnl = maximise(linear)
        check_identified(np.array(schema.item_names)[utility].tolist(), mnl.identified)
        separates = mnl.separation
        begin, free = np.zeros(d + nests), np.zeros(d + nests, bool)
        begin[:d][utility], free[:d][utility] = mnl.coefficients, mnl.identified
        for place, value in fixed.items():
            begin[place] = value * schema.item_scales[place]
        begin[d:], free[d:] = np.where(informative, START, ONE), informative
        unit = np.ones(d + nests)
        unit[:d][utility] = mnl.units
        found, bounded = _solve(Nested(d, nests, start), begin, data, free, unit)
        self.schema_ = schema
        self._read(found, np.append(utility, np.ones(nests, bool)), nests)
        self.bounded_ = bounded
        self.identified_ = np.concatenate([mnl.identified, informative & ~bounded])
        self.log_likelihood_, self.null_log_likelihood_ = (
            found.log_likelihood,
            mnl.null_log_likelihood,
        )
        self.sets_, self.iterations_ = len(data), found.iterations
        self.converged_ = found.converged and not separates
        real = linear.items[schema.real_rows(data)]
        self.dropped_ = reasons(self.feature_names_, real, mnl.relations)
        self.dropped_ |= {schema.item_names[place]: FIXED for place in fixed}
        self.derived_ = derived(choices)
        self.model_ = self._model()
        if separates:
            warn_of_no_maximum(self.feature_names_, separates, len(data))
        warn_of_rounding(self.feature_names_, linear, mnl.identified)
        warn_if_certain(self.log_likelihood_, self.null_log_likelihood_, self.sets_)
        if not found.converged and not separates:
            warnings.warn(
                "the likelihood of the nested logit has no clear maximum; its standard errors "
                "mean little: use fewer features or nests, or more sets",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _learned(self, choices: Choices) -> tuple[Schema, Encoded]:
        """The schema of training sets, with a column per nest, and their numbers."""
        if isinstance(self.nests, str):
            if choices.roles.utility is not None:
                raise InputError(
                    f"with a utility, nests={self.nests!r} cannot be a column; give the "
                    "alternatives of each nest, such as nests={'road': ['bus', 'car']}"
                )
            schema, seen = Schema.learn(choices)
        else:
            schema = Schema.fit(choices).with_marks(_marks(self.nests, choices), choices)
            seen = schema.over(choices)
        data = seen.encoded(np.float64)
        return schema, replace(data, context=np.zeros((len(data), 0)))

    @property
    def nests_(self) -> list[str]:
        """The names of the nests."""
        return _nest_columns(self.schema_, self.nests)[1]

    @property
    def lambda_(self) -> dict[str, float]:
        """Each nest's lambda."""
        return dict(zip(self.nests_, self.lambdas_.tolist(), strict=True))

    def nest_members(self, encoded: Encoded) -> Bool[np.ndarray, "rows k"]:
        """Which of the nests each encoded row is in; an outside option is in none."""
        start, names = _nest_columns(self.schema_, self.nests)
        return encoded.items[:, start : start + len(names)] > 0

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient of V belongs to."""
        names = np.array(self.schema_.item_names, object)
        return names[self._utility()].tolist()

    @property
    def parameter_names_(self) -> list[str]:
        column = f"{self.nests}=" if isinstance(self.nests, str) else ""
        return [*self.feature_names_, *(f"lambda({column}{name})" for name in self.nests_)]

    def summary(self) -> Summary:
        self.check_is_fitted()
        names, d = tuple(self.parameter_names_), len(self.coef_)
        why = np.where(self.bounded_, AT_BOUND, ALONE).tolist()
        null = np.concatenate([np.zeros(d), np.ones(len(self.lambdas_))])
        return Summary(
            names, np.concatenate([self.coef_, self.lambdas_]), self.standard_errors_,
            self.identified_, self.log_likelihood_, self.null_log_likelihood_, self.sets_,
            fixed=self.dropped_ | dict(zip(names[d:], why, strict=True)), null=null,
            note="\n".join(filter(None, (NOTE, without_context(self.schema_)))),
        )  # fmt: skip

    def _read(self, found: Maximum, shown: Bool[np.ndarray, " p"], nests: int) -> None:
        """Coefficients in the table's units and lambdas, with their covariance (delta method)."""
        values = found.parameters[shown]
        scale = self.schema_.item_scales[shown[:-nests]]
        self.coef_, self.lambdas_ = values[:-nests] / scale, expit(values[-nests:])
        slopes = np.concatenate([1 / scale, self.lambdas_ * (1 - self.lambdas_)])
        covariance = found.covariance[np.ix_(shown, shown)]
        self.covariance_ = covariance * np.outer(slopes, slopes)

    def _utility(self) -> Bool[np.ndarray, " d"]:
        start, names = _nest_columns(self.schema_, self.nests)
        return _utility(len(self.schema_.item_names), start, len(names))

    def _model(self) -> Nested:
        start, names = _nest_columns(self.schema_, self.nests)
        utility, width = self._utility(), self.schema_.width
        theta = np.zeros(width, np.float32)
        theta[: len(utility)][utility] = self.coef_ * self.schema_.item_scales[utility]
        with np.errstate(divide="ignore"):
            raw = np.minimum(np.log(self.lambdas_) - np.log1p(-self.lambdas_), ONE)
        arrays = {"theta": theta, "raw": raw.astype(np.float32)}
        return with_arrays(Nested(width, len(names), start), arrays)


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


def _marks(nests: Mapping[str, Sequence[str]], choices: Choices) -> dict[str, Sequence[str]]:
    """The alternatives of each nest, by the name of the column that marks it."""
    if choices.roles.alternative is None:
        raise InputError(
            "nests name alternatives, but these choices do not; read them with "
            "alternative='column', or give nests= the column of nests"
        )
    if choices.roles.utility is None:
        raise InputError(
            "nests by alternative need a utility; give one, such as utility='cost + time'"
        )
    known = choices.levels(choices.roles.alternative)
    for name, some in nests.items():
        unknown = next((one for one in some if one not in known), None)
        if unknown is not None:
            raise InputError(
                f"the nest '{name}' has '{unknown}', which is not an alternative; the "
                f"alternatives are: {', '.join(known)}"
            )
    return {f"{NEST}:{name}": some for name, some in nests.items()}


def _nest_columns(
    schema: Schema, nests: str | Mapping[str, Sequence[str]]
) -> tuple[int, list[str]]:
    """The first of the columns that mark the nests, which follow each other, and their names."""
    if isinstance(nests, str):
        return _one_hot(schema, nests)
    return schema.item_names.index(f"{NEST}:{next(iter(nests))}"), list(nests)


def _one_hot(schema: Schema, nest: str) -> tuple[int, list[str]]:
    """The first of the one-hot columns of a category, and its levels."""
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
            return start, list(encoder.levels)
        start += len(encoder.names)
    names = ", ".join(str(encoder.feature) for encoder in schema.items)
    raise InputError(
        f"there is no nest column '{nest}' among the items ({names}); read it with "
        f'items=[..., "category({nest})"]'
    )


def _utility(d: int, start: int, nests: int) -> Bool[np.ndarray, " d"]:
    """The columns of V: all item columns but the nests'."""
    place = np.arange(d)
    return (place < start) | (place >= start + nests)


def _informative(data: Encoded, start: int, nests: int) -> Bool[np.ndarray, " k"]:
    """Nests of which some set has two items, so that lambda can be learned."""
    counts = _segments.sums(data.items[:, start : start + nests] > 0, data.offsets)
    if (counts.max(1) == data.sizes).all():
        raise InputError(
            "all items of every set are in one nest, so there is no choice between nests; a nested "
            "logit needs sets that span nests"
        )
    return np.any(counts > 1, axis=0)

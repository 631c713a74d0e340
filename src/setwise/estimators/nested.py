"""The nested logit for given nests, of one level or several, by maximum likelihood."""

from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from setwise import _segments
from setwise._arguments import flag, optional, text
from setwise._errors import InputError
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.estimators.maximum_likelihood import (
    FIXED,
    LEAST,
    Estimated,
    Remarks,
    about_penalty,
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
from setwise.estimators.nests import (
    ALONE,
    ALONE_WITHIN,
    NOTE,
    Branches,
    Tree,
    above,
    check_alternatives,
    check_one_nest_each,
    is_one_lambda,
    is_tree,
    warn_if_above,
)
from setwise.estimators.scikit_learn import warn_of_convergence
from setwise.estimators.summary import reasons
from setwise.models.nested import Nested
from setwise.training import Optimum, maximise
from setwise.training.covariances import Resampling
from setwise.training.likelihood import (
    Likelihood,
    LogLikelihood,
    Maximum,
    Penalised,
    climb,
    resampled,
)
from setwise.training.newton import penalised
from setwise.training.penalties import by_leave_one_out

START = 0.9  # of a lambda: a sigmoid reaches 1, the MNL, in the limit only
ONE = 40.0  # the sigmoid of this is 1 to the last digit
BOUND = 0.999

AT_BOUND = "at its bound: this nest is none"
BEYOND = "A lambda at its bound may be best above 1: bounded=False estimates it."


class NestedLogit(Estimated):
    """Nested logit (McFadden 1978): items of a nest take most from each other.

        g(x, s) = V_x / lambda_k + (lambda_k - 1) I_k,  V = < b, x >,  x in nest k,
        I_k = log sum over the items z of nest k in s of exp(V_z / lambda_k)

    0 < lambda_k <= 1 says how unlike the items of nest k are; with all lambdas at 1 it is the MNL.
    A nest that has never two items in a set leaves its lambda unidentified, and one whose best
    lambda is not below 1 is at its bound: both are fixed at 1, have no standard error, and
    :meth:`summary` says why. The outside option, where there is one, is a nest of its own.
    Context features cancel and are not used.

    If the likelihood has no maximum (separated data), ``fit`` warns, ``converged_`` is False, and
    the estimates are penalised as in :class:`MNL`, lambdas towards 0.9 by their log-odds.

    **Several levels.** Nests may hold nests. The lambda of a nest is relative to the nest around
    it, so that every lambda up to 1 is consistent with utility maximisation, and 1 makes its nest
    none. It is the coefficient of the nest's log-sum I (the inclusive value) one level up:

        g(x, s) = V_x / scale_k + sum over the nests m that hold x of (lambda_m - 1) I_m

    with k the innermost nest of x, scale_m the product of the lambdas of m and of all nests around
    it, and I_m = log( sum over the items z of m itself of exp(V_z / scale_m) + sum over the nests
    c within m of exp(lambda_c I_c) ). Scales fall from level to level. They are what
    apollo calls lambda, and the inverse of biogeme's mu; :meth:`summary` lists them.

    Args:
        nest: the column of nests, read as a category among the items (``items=[...,
            "category(nest)"]``; text is a category anyway). It is not part of V: constants of
            nests or alternatives are columns of their own. No level of it is merged with others.
        nests: instead of a column, the named alternatives of each nest, such as
            ``{"existing": ["TRAIN", "CAR"]}``, or nests in nests, of any depth: ``{"public":
            {"rail": ["train", "metro"], "road": ["bus"]}, "private": ["car", "bike"]}``. An
            alternative that is not listed is in no nest. It goes with a utility.
            :class:`CrossNestedLogit` takes alternatives in several nests.
        utility: V as a formula or :class:`setwise.Utility`, as in :class:`MNL`.
        one_lambda: whether all nests have the same lambda: False (the default), True, or
            "by level", for one lambda per level.
        bounded: whether lambdas are at most 1, the default. If False, a lambda above 1 is
            estimated too, and a warning and :meth:`summary` say that it is inconsistent with
            utility maximisation.

    Fitted attributes: ``coef_`` (of V, in the table's units), ``feature_names_``, ``nests_``,
    ``lambdas_`` and ``lambda_`` (the same by nest), ``scales_`` and ``scale_`` (products of
    lambdas), ``l2_`` (the strength of the penalty, 0 if there is none), and those of
    :class:`Estimated`, lambdas after coefficients.

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
        "nests": optional(is_tree),
        "utility": is_utility,
        "one_lambda": is_one_lambda,
        "bounded": flag,
    }
    TAKES_FIXED: ClassVar = True
    ARRAYS = ("coef", "lambdas", "identified", "bounded")

    FITTED: ClassVar = {"l2": 0.0}

    coef_: Float[np.ndarray, " d"]
    l2_: float
    lambdas_: Float[np.ndarray, " k"]
    bounded_: Bool[np.ndarray, " r"]

    def __init__(
        self,
        nest: str | None = None,
        *,
        nests: Tree | None = None,
        utility: str | Utility | None = None,
        one_lambda: bool | Literal["by level"] = False,
        bounded: bool = True,
    ):
        self.nest = nest
        self.nests = nests
        self.utility = utility
        self.one_lambda = one_lambda
        self.bounded = bounded

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        self.schema_, data = self._learned(choices)
        schema, form = self.schema_, self._form(data.items.shape[1])
        informative = self._informative(data)
        d, utility = data.items.shape[1], self._utility()
        given = with_fixed(data, schema)
        linear = replace(given, items=np.ascontiguousarray(given.items[:, utility]))
        mnl = maximise(linear)
        check_identified(np.array(schema.item_names)[utility].tolist(), mnl.identified)
        self.l2_ = by_leave_one_out(linear, choices.group, LEAST) if mnl.separation else 0.0
        logit = penalised(linear, self.l2_) if self.l2_ else mnl
        begin, free = np.zeros(d + len(form.raw)), np.zeros(d + len(form.raw), bool)
        begin[:d][utility], free[:d][utility] = logit.coefficients, mnl.identified
        begin[d:], free[d:] = self._raw(np.where(informative, START, 1.0)), informative
        for place, value in fixed_coefficients(schema).items():
            begin[place] = value * schema.item_scales[place]
        unit = np.ones(len(begin))
        unit[:d][utility] = mnl.units
        likelihood = Likelihood(form, data)
        centre = np.append(np.zeros(d), self._raw(np.full(len(form.raw), START)))
        strength = self.l2_ * np.append(data.items.var(0), np.ones(len(form.raw)))
        better = Penalised(likelihood, centre, strength) if self.l2_ else likelihood
        found, self.bounded_ = _solve(better, form, begin, free, unit)
        self.coef_, lambdas = self._reported(found.parameters)
        self.lambdas_ = lambdas[[*form.shared]]
        self.identified_ = np.concatenate([mnl.identified, informative & ~self.bounded_])
        self.log_likelihood_ = likelihood(found.parameters)[0]
        self.null_log_likelihood_ = mnl.null_log_likelihood
        self.sets_, self.iterations_ = len(data), found.iterations
        self.converged_ = found.converged and not mnl.separation
        self._keep_covariances(choices, data, found, likelihood)
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
            tree = Branches.of(self.nests)
            check_alternatives(tree.members, used, ", or name a column in nest=")
            check_one_nest_each(self.nests)
            schema = Schema.fit(used).with_marks(
                {name: tree.members[name] for name in tree.names}, used
            )
            seen = schema.over(used)
        data = with_mean_weight(seen.encoded(np.float64))
        return schema, replace(data, context=np.zeros((len(data), 0)))

    def _warn(self, linear: Encoded, mnl: Optimum, found: Maximum) -> None:
        if mnl.separation:
            warn_of_no_maximum(
                self.feature_names_, mnl.separation, len(linear), self.l2_, own=False
            )
        warn_of_rounding(self.feature_names_, mnl)
        reached = max(self.log_likelihood_, mnl.log_likelihood)
        warn_if_certain(reached, self.null_log_likelihood_, self.sets_)
        if not found.converged and not mnl.separation:
            warn_of_convergence(
                "the likelihood of the nested logit has no clear maximum; its standard errors "
                "mean little: use fewer features or nests, or more sets",
                stacklevel=4,
            )
        warn_if_above(self._lambda_names(), self._own_lambdas())

    @property
    def nests_(self) -> list[str]:
        """The levels of the nest column, or the names of the nests, the outermost first."""
        if self.nests is not None:  # a file does not keep the order of the argument
            assert self.schema_.terms is not None
            return self.schema_.terms.names[self._marks()[0] :]
        return [n for encoder in self.schema_.items if encoder.feature.column == self.nest
                for n in encoder.levels]  # fmt: skip

    @property
    def lambda_(self) -> dict[str, float]:
        """Each nest's lambda."""
        return dict(zip(self.nests_, self.lambdas_.tolist(), strict=True))

    @property
    def scales_(self) -> Float[np.ndarray, " k"]:
        """The product of each nest's lambda and those of the nests around it."""
        return self.tree_.products(self.lambdas_)

    @property
    def scale_(self) -> dict[str, float]:
        """Each nest's scale."""
        return dict(zip(self.nests_, self.scales_.tolist(), strict=True))

    @property
    def tree_(self) -> Branches:
        """Which nest is within which."""
        if self.nests is not None:
            return Branches.of(self.nests, self.nests_)
        return Branches.of({name: [] for name in self.nests_})

    def nest_members(self, encoded: Encoded) -> Bool[np.ndarray, "rows k"]:
        """Which of the nests each encoded row is in; an outside option is in none."""
        start, nests = self._marks()
        return encoded.items[:, start : start + nests] > 0

    def log_odds(
        self, encoded: Encoded, utilities: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, " rows"]:
        """g of encoded rows with these utilities, in double precision.

        The sum of exp g over a set is that of exp(lambda_k I_k) over the outermost nests.
        """
        member, offsets = self.nest_members(encoded), encoded.offsets
        g = utilities / np.where(member, self.lambdas_, 1).prod(1)
        for place in reversed(range(len(self.lambdas_))):  # inner nests come after outer ones
            held = member[:, place]
            inclusive = _segments.log_sum_exp(np.where(held, g, -np.inf), offsets)
            gain = (self.lambdas_[place] - 1) * np.where(np.isfinite(inclusive), inclusive, 0)
            g = g + np.where(held, _segments.spread(gain, offsets), 0)
        return g

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient of V belongs to."""
        names = np.array(self.schema_.item_names, object)
        return names[self._utility()].tolist()

    @property
    def parameter_names_(self) -> list[str]:
        return [*self.feature_names_, *self._lambda_names()]

    @property
    def parameters_(self) -> Float[np.ndarray, " p"]:
        return np.concatenate([self.coef_, self._own_lambdas()])

    def with_parameters(self, parameters: Float[np.ndarray, " p"]) -> "NestedLogit":
        other = copy(self)
        other.coef_, lambdas = np.split(parameters, [len(self.coef_)])
        other.lambdas_ = lambdas[[*self._shared]]
        other.model_ = other._model()
        return other

    def _remarks(self) -> Remarks:
        names, d = self.parameter_names_, len(self.coef_)
        inner = set(self.tree_.parents)
        alone = [ALONE] * len(self.bounded_)
        for place, one in enumerate(self._shared):
            alone[one] = ALONE_WITHIN if place in inner else alone[one]
        why = np.where(self.bounded_, AT_BOUND, alone).tolist()
        fixed = self.dropped_ | dict(zip(names[d:], why, strict=True))
        notes = (
            NOTE, self._about_scales(), above(names[d:], self._own_lambdas()),
            BEYOND if self.bounded_.any() else "", about_penalty(self.l2_, asked=False),
            without_context(self.schema_),
        )  # fmt: skip
        null = np.concatenate([np.zeros(d), np.ones(len(self.bounded_))])
        return Remarks(fixed, "\n".join(filter(None, notes)), null)

    def _about_scales(self) -> str:
        """What lambdas of several levels mean, for the summary."""
        if max(self.tree_.depths) == 0:
            return ""
        scales = ", ".join(f"{name} {scale:.4g}" for name, scale in self.scale_.items())
        return (
            "A lambda is relative to the nest around its nest: up to 1 it is consistent with "
            f"utility maximisation.\nScales, the products of lambdas from the top: {scales}."
        )

    @property
    def _shared(self) -> tuple[int, ...]:
        """The place among the estimated lambdas of each nest's lambda."""
        return self.tree_.shared(self.one_lambda)

    def _own_lambdas(self) -> Float[np.ndarray, " r"]:
        """The lambdas that are estimated, each of one nest or of several."""
        return self.lambdas_[np.unique(self._shared, return_index=True)[1]]

    def _lambda_names(self) -> list[str]:
        if self.one_lambda == "by level":
            return [f"lambda(level {one + 1})" for one in range(max(self._shared) + 1)]
        of = "" if self.nest is None else f"{self.nest}="
        return ["lambda"] if self.one_lambda else [f"lambda({of}{name})" for name in self.nests_]

    def _reported(
        self, parameters: Float[np.ndarray, "*r p"]
    ) -> tuple[Float[np.ndarray, "*r d"], Float[np.ndarray, "*r l"]]:
        """Coefficients in the table's units, and lambdas, of what the likelihood has."""
        utility = self._utility()
        theta = parameters[..., : len(utility)][..., utility]
        raw = parameters[..., len(utility) :]
        lambdas = expit(raw) if self.bounded else np.exp(raw)
        return theta / self.schema_.item_scales[utility], lambdas

    def _raw(self, lambdas: Float[np.ndarray, " l"]) -> Float[np.ndarray, " l"]:
        """What gives these lambdas in the likelihood; finite at 1."""
        with np.errstate(divide="ignore"):
            odds = np.log1p(-lambdas) if self.bounded else 0.0
            return np.minimum(np.log(lambdas) - odds, ONE)

    def _keep_covariances(
        self, choices: Choices, data: Encoded, found: Maximum, likelihood: Likelihood
    ) -> None:
        """Covariances of coefficients and lambdas, by the delta method."""
        lambdas = self._own_lambdas()
        shown = np.append(self._utility(), np.ones(len(lambdas), bool))
        scale = self.schema_.item_scales[self._utility()]
        moves = lambdas * (1 - lambdas) if self.bounded else lambdas
        slopes = np.concatenate([1 / scale, moves])
        both, places = np.outer(slopes, slopes), np.ix_(shown, shown)
        scores = likelihood.scores(found.parameters)
        self._keep(choices, data, found.covariance, scores, lambda one: one[places] * both)

    def _resampling(self, choices: Choices) -> Resampling:
        _, data = self._learned(choices)
        d, lambdas = data.items.shape[1], self._own_lambdas()
        shown = np.append(self._utility(), np.ones(len(lambdas), bool))
        parameters, free = np.zeros(len(shown)), np.zeros(len(shown), bool)
        scale = self.schema_.item_scales[self._utility()]
        parameters[shown] = np.concatenate([self.coef_ * scale, self._raw(lambdas)])
        free[shown] = self.identified_
        return resampled(
            Likelihood(self._form(d), data), parameters, free, data,
            lambda drawn: np.hstack(self._reported(drawn)),
        )  # fmt: skip

    @property
    def _said(self) -> str:
        """The nests, for messages."""
        return "nests=" if self.nest is None else f"'{self.nest}'"

    def _marks(self) -> tuple[int, int]:
        """The first of the columns that mark the nests, and how many there are."""
        if self.nests is not None:
            assert self.schema_.terms is not None
            count = len(Branches.of(self.nests).names)
            return len(self.schema_.terms.names) - count, count
        assert self.nest is not None
        return _nest_columns(self.schema_, self.nest)

    def _utility(self) -> Bool[np.ndarray, " d"]:
        """The columns of V: all item columns but the nests'."""
        start, nests = self._marks()
        place = np.arange(len(self.schema_.item_names))
        return (place < start) | (place >= start + nests)

    def _informative(self, data: Encoded) -> Bool[np.ndarray, " r"]:
        """Lambdas that can be learned: some set has two items, or nests, of one of their nests."""
        tree, member = self.tree_, self.nest_members(data)
        counts = _segments.sums(member, data.offsets)
        top = np.array(tree.parents) < 0
        if (counts[:, top].max(1) == data.sizes).all():
            raise InputError(
                f"all items of every set are in one nest of {self._said}, so there is no choice "
                "between nests; a nested logit needs sets that span nests"
            )
        parts = counts.copy()
        for place in np.flatnonzero(~top):  # a nest counts as one item of the nest around it
            parts[:, tree.parents[place]] -= np.maximum(counts[:, place] - 1, 0)
        known, found = np.any(parts > 1, axis=0), np.zeros(max(self._shared) + 1, bool)
        found[[one for one, yes in zip(self._shared, known, strict=True) if yes]] = True
        return found

    def _form(self, width: int) -> Nested:
        """The model with its nests, and nothing learned."""
        return Nested(width, self.tree_.levels, self._marks()[0], self._shared, self.bounded)

    def _model(self) -> Nested:
        utility, width = self._utility(), self.schema_.width
        theta = np.zeros(width, np.float32)
        theta[: len(utility)][utility] = self.coef_ * self.schema_.item_scales[utility]
        raw = self._raw(self._own_lambdas()).astype(np.float32)
        return with_arrays(self._form(width), {"theta": theta, "raw": raw})


def _solve(
    likelihood: LogLikelihood,
    model: Nested,
    start: Float[np.ndarray, " p"],
    free: Bool[np.ndarray, " p"],
    unit: Float[np.ndarray, " p"],
) -> tuple[Maximum, Bool[np.ndarray, " k"]]:
    """The maximum, and which lambdas are at their bound: fixed there, the rest is solved again."""
    nests, free = len(model.raw), free.copy()
    bounded, iterations = np.zeros(nests, bool), 0
    if not model.bounded:
        return climb(likelihood, start, free, unit), bounded
    while True:
        found = climb(likelihood, start, free, unit)
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

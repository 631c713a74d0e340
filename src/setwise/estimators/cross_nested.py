"""The cross-nested logit for given nests of named alternatives, by maximum likelihood."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import softmax

from setwise import _segments
from setwise._arguments import by_name, each, flag, text
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.estimators.maximum_likelihood import (
    Estimated,
    Remarks,
    check_identified,
    is_utility,
    warn_if_certain,
    warn_of_no_maximum,
    warn_of_rounding,
    with_mean_weight,
    with_utility,
    without_context,
)
from setwise.estimators.nests import ALONE, NOTE, above, check_alternatives, warn_if_above
from setwise.estimators.scikit_learn import warn_of_convergence
from setwise.estimators.summary import reasons
from setwise.models.cross_nested import CrossNested
from setwise.training import Optimum, maximise
from setwise.training.covariances import Resampling
from setwise.training.likelihood import Likelihood, Maximum, maximise_likelihood, resampled

STARTS = (0.9, 0.4)  # lambdas to climb from; the better maximum is kept
REST = "one less the other shares of this alternative"


@dataclass(frozen=True, eq=False)
class Nests:
    """Which alternatives are in which nests, and the likelihood's parameters for them."""

    names: list[str]
    alternatives: list[str]
    member: Bool[np.ndarray, "a k"]
    one: bool
    """Whether all nests have the same lambda."""

    @classmethod
    def of(cls, nests: Mapping[str, Sequence[str]], one: bool) -> "Nests":
        """In the order of their names: a model file does not keep another."""
        names = sorted(nests)
        listed = sorted({name for some in nests.values() for name in some})
        member = np.array([[one in nests[name] for name in names] for one in listed])
        return cls(names, listed, member, one)

    @property
    def scales(self) -> int:
        """How many lambdas there are to estimate."""
        return 1 if self.one else len(self.names)

    @property
    def several(self) -> Bool[np.ndarray, "a k"]:
        """The alphas that are reported: those of alternatives in several nests."""
        return self.member & (self.member.sum(1) > 1)[:, None]

    @property
    def first(self) -> Bool[np.ndarray, "a k"]:
        """Each alternative's first nest, whose logit stays at 0."""
        return self.member & (self.member.cumsum(1) == 1)

    @property
    def last(self) -> Bool[np.ndarray, "a k"]:
        """Each alternative's last nest, whose alpha is what the others leave."""
        return self.member & (self.member[:, ::-1].cumsum(1)[:, ::-1] == 1)

    def parameter_names(self) -> list[str]:
        """lambdas, then alphas."""
        scales = ["lambda"] if self.one else [f"lambda({name})" for name in self.names]
        return scales + [
            f"alpha({self.alternatives[a]} in {self.names[k]})"
            for a, k in np.argwhere(self.several)
        ]

    def values(
        self, raw: Float[np.ndarray, "*r q"]
    ) -> tuple[Float[np.ndarray, "*r s"], Float[np.ndarray, "*r a k"]]:
        """lambdas, and alphas of all alternatives, which are 0 outside their nests."""
        logits = raw[..., self.scales :].reshape(*raw.shape[:-1], *self.member.shape)
        return np.exp(raw[..., : self.scales]), softmax(np.where(self.member, logits, -np.inf), -1)

    def slopes(self, raw: Float[np.ndarray, " q"]) -> Float[np.ndarray, "p q"]:
        """How the reported lambdas and alphas change with the likelihood's parameters."""
        lambdas, alphas = self.values(raw)
        count, nests = alphas.shape
        found = np.zeros((self.scales + alphas.size, len(raw)))
        found[: self.scales, : self.scales] = np.diag(lambdas)
        for a in range(count):
            block = slice(self.scales + a * nests, self.scales + (a + 1) * nests)
            found[block, block] = np.diag(alphas[a]) - np.outer(alphas[a], alphas[a])
        return found[np.append(np.ones(self.scales, bool), self.several.ravel())]


class CrossNestedLogit(Estimated):
    """Cross-nested logit (Vovsha 1997): an alternative may belong to several nests, in part.

        P(x | s) = sum over nests k of P(k | s) P(x | k, s),
        P(x | k, s) = (alpha_xk exp V_x)^(1 / lambda_k) / exp I_k,  P(k | s) ~ exp(lambda_k I_k),
        I_k = log sum over the items z of nest k in s of (alpha_zk exp V_z)^(1 / lambda_k)

    The alphas of an alternative add up to 1 over its nests. Lambdas are not bounded: one above 1
    is inconsistent with utility maximisation, which a warning and :meth:`summary` say. Where no
    alternative is in two nests it is a nested logit. Biogeme's scale mu is 1 / lambda. Context
    features cancel and are not used.

    Args:
        nests: the named alternatives of each nest, such as
            ``{"existing": ["TRAIN", "CAR"], "public": ["TRAIN", "SM"]}``. An alternative that is
            not listed is in no nest.
        utility: V as a formula or :class:`setwise.Utility`, as in :class:`MNL`, without fixed
            coefficients.
        one_lambda: whether all nests have the same lambda.

    Fitted attributes: ``coef_`` (of V, in the table's units), ``feature_names_``, ``lambdas_`` (of
    nests in the order of their names), ``lambda_`` (by nest), ``alphas_`` (alternatives × nests)
    and ``alpha_`` (by alternative and nest), and those of :class:`Estimated`: coefficients,
    lambdas, alphas.

    >>> import setwise as sw
    >>> columns = ["cost", "ivt", "ovt"]
    >>> choices = sw.read(sw.datasets.table("modecanada"), set="set_id", chosen="chosen",
    ...                   items=columns, alternative="alt")
    >>> nests = {"ground": ["train", "car"], "fast": ["car", "air"]}
    >>> model = CrossNestedLogit(nests, utility="cost + ivt + ovt").fit(choices)
    >>> model.parameter_names_[-4:-1]
    ['lambda(fast)', 'lambda(ground)', 'alpha(car in fast)']
    """

    CHECKS: ClassVar = {"nests": by_name(each(text)), "utility": is_utility, "one_lambda": flag}
    ARRAYS = ("coef", "lambdas", "alphas", "identified")

    coef_: Float[np.ndarray, " d"]
    lambdas_: Float[np.ndarray, " k"]
    alphas_: Float[np.ndarray, "a k"]

    def __init__(
        self,
        nests: Mapping[str, Sequence[str]],
        *,
        utility: str | Utility | None = None,
        one_lambda: bool = False,
    ):
        self.nests = nests
        self.utility = utility
        self.one_lambda = one_lambda

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        self.schema_, data = self._learned(choices)
        nests, d = self._nests, data.items.shape[1]
        linear = replace(data, items=np.ascontiguousarray(data.items[:, self._utility()]))
        mnl = maximise(linear)
        check_identified(self.feature_names_, mnl.identified)
        found = self._solve(data, mnl)
        self.coef_, self.lambdas_, self.alphas_ = self._described(found.parameters)
        known = np.append(self._free_lambdas(data), ~nests.last[nests.several])
        self.identified_ = np.concatenate([mnl.identified, known])
        self.log_likelihood_, self.null_log_likelihood_ = (
            found.log_likelihood,
            mnl.null_log_likelihood,
        )
        self.sets_, self.iterations_ = len(data), found.iterations
        self.converged_ = found.converged and not mnl.separation
        real = linear.items[self.schema_.real_rows(data)]
        self.dropped_ = reasons(self.feature_names_, real, mnl.relations)
        scores = Likelihood(self._form(d), data).scores(found.parameters)
        slopes = self._slopes(found.parameters)
        self._keep(choices, data, found.covariance, scores, lambda one: slopes @ one @ slopes.T)
        self.model_ = self._model()
        self._warn(linear, mnl, found)

    def _solve(self, data: Encoded, mnl: Optimum) -> Maximum:
        """The better of the maxima that two starts lead to."""
        nests, d, utility = self._nests, data.items.shape[1], self._utility()
        free, unit = np.zeros(self._count(d), bool), np.ones(self._count(d))
        free[:d][utility], unit[:d][utility] = mnl.identified, mnl.units
        lambdas = self._free_lambdas(data)
        free[d : d + nests.scales] = lambdas
        free[d + nests.scales :] = (nests.member & ~nests.first).ravel()
        maxima = []
        for one in STARTS:
            start = np.zeros(len(free))
            start[:d][utility] = mnl.coefficients
            start[d : d + nests.scales] = np.where(lambdas, np.log(one), 0)
            maxima.append(maximise_likelihood(self._form(d), start, data, free, unit))
        best = max(maxima, key=lambda found: found.log_likelihood)
        return replace(best, iterations=sum(one.iterations for one in maxima))

    def _learned(self, choices: Choices) -> tuple[Schema, Encoded]:
        """The schema of training sets, with a mark per alternative of a nest, and these sets."""
        used = with_utility(choices, self.utility)
        check_alternatives(self.nests, used, "")
        marks = {one: [one] for one in self._nests.alternatives}
        schema = Schema.fit(used).with_marks(marks, used)
        data = with_mean_weight(schema.over(used).encoded(np.float64))
        return schema, replace(data, context=np.zeros((len(data), 0)))

    def _free_lambdas(self, data: Encoded) -> Bool[np.ndarray, " s"]:
        """The lambdas of nests of which some set has two items."""
        nests, start = self._nests, self._start
        marks = data.items[:, start : start + len(nests.alternatives)] > 0
        counts = _segments.sums((marks @ nests.member.astype(np.int64)) > 0, data.offsets)
        known = np.any(counts > 1, axis=0)
        return known.any(keepdims=True) if nests.one else known

    def _warn(self, linear: Encoded, mnl: Optimum, found: Maximum) -> None:
        if mnl.separation:
            warn_of_no_maximum(self.feature_names_, mnl.separation, len(linear))
        warn_of_rounding(self.feature_names_, mnl)
        warn_if_certain(self.log_likelihood_, self.null_log_likelihood_, self.sets_)
        if not found.converged and not mnl.separation:
            warn_of_convergence(
                "the likelihood of the cross-nested logit has no clear maximum; its standard "
                "errors mean little: use fewer features or nests, or more sets",
                stacklevel=4,
            )
        warn_if_above(*self._scales())

    def _scales(self) -> tuple[list[str], Float[np.ndarray, " r"]]:
        """The names of the lambdas that are estimated, and the lambdas."""
        count = self._nests.scales
        return self._nests.parameter_names()[:count], self.lambdas_[:count]

    @property
    def lambda_(self) -> dict[str, float]:
        """Each nest's lambda."""
        return dict(zip(self._nests.names, self.lambdas_.tolist(), strict=True))

    @property
    def alpha_(self) -> dict[str, dict[str, float]]:
        """Each alternative's alphas in its nests."""
        nests = self._nests
        return {
            name: {nest: float(alpha) for nest, alpha, inside in
                   zip(nests.names, self.alphas_[a], nests.member[a], strict=True) if inside}
            for a, name in enumerate(nests.alternatives)
        }  # fmt: skip

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient of V belongs to."""
        return np.array(self.schema_.item_names, object)[self._utility()].tolist()

    @property
    def parameter_names_(self) -> list[str]:
        return [*self.feature_names_, *self._nests.parameter_names()]

    @property
    def parameters_(self) -> Float[np.ndarray, " p"]:
        nests = self._nests
        return np.concatenate(
            [self.coef_, self.lambdas_[: nests.scales], self.alphas_[nests.several]]
        )

    def with_parameters(self, parameters: Float[np.ndarray, " p"]) -> "CrossNestedLogit":
        other, nests, d = copy(self), self._nests, len(self.coef_)
        other.coef_, lambdas, alphas = np.split(parameters, [d, d + nests.scales])
        other.lambdas_ = np.broadcast_to(lambdas, len(nests.names)).copy()
        other.alphas_ = nests.member.astype(np.float64)
        other.alphas_[nests.several] = alphas
        other.model_ = other._model()
        return other

    def _remarks(self) -> Remarks:
        nests, d = self._nests, len(self.coef_)
        fixed = self.dropped_ | {
            name: ALONE if name.startswith("lambda") else REST for name in nests.parameter_names()
        }
        notes = NOTE, above(*self._scales()), without_context(self.schema_)
        null = np.zeros(len(self.identified_))
        null[d : d + nests.scales] = 1
        return Remarks(fixed, "\n".join(filter(None, notes)), null)

    def _resampling(self, choices: Choices) -> Resampling:
        _, data = self._learned(choices)
        nests, d, utility = self._nests, data.items.shape[1], self._utility()
        free = np.zeros(self._count(d), bool)
        free[:d][utility] = self.identified_[: len(self.coef_)]
        free[d : d + nests.scales] = self.identified_[len(self.coef_) :][: nests.scales]
        free[d + nests.scales :] = (nests.member & ~nests.first).ravel()

        def report(drawn: Float[np.ndarray, "r p"]) -> Float[np.ndarray, "r q"]:
            raw = drawn[:, d:]
            lambdas, alphas = nests.values(raw)
            coef = drawn[:, :d][:, utility] / self.schema_.item_scales[utility]
            return np.hstack([coef, lambdas, alphas[:, nests.several]])

        likelihood = Likelihood(self._form(d), data)
        return resampled(likelihood, self._raw(d), free, data, report)

    @property
    def _nests(self) -> Nests:
        return Nests.of(self.nests, self.one_lambda)

    @property
    def _start(self) -> int:
        """The first of the columns that mark alternatives."""
        assert self.schema_.terms is not None
        return len(self.schema_.terms.names) - len(self._nests.alternatives)

    def _utility(self) -> Bool[np.ndarray, " d"]:
        """The columns of V: all item columns but the marks."""
        place = np.arange(len(self.schema_.item_names)) - self._start
        return (place < 0) | (place >= len(self._nests.alternatives))

    def _count(self, width: int) -> int:
        return width + self._nests.scales + self._nests.member.size

    def _form(self, width: int) -> CrossNested:
        member = tuple(tuple(row) for row in self._nests.member.tolist())
        return CrossNested(width, member, self._start, self.one_lambda)

    def _described(
        self, parameters: Float[np.ndarray, " p"]
    ) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " k"], Float[np.ndarray, "a k"]]:
        """Coefficients in the table's units, lambdas of all nests, and alphas."""
        utility, nests = self._utility(), self._nests
        lambdas, alphas = nests.values(parameters[len(utility) :])
        coef = parameters[: len(utility)][utility] / self.schema_.item_scales[utility]
        return coef, np.broadcast_to(lambdas, len(nests.names)).copy(), alphas

    def _slopes(self, parameters: Float[np.ndarray, " p"]) -> Float[np.ndarray, "q p"]:
        """How what is reported changes with the likelihood's parameters."""
        utility = self._utility()
        width, inner = len(utility), self._nests.slopes(parameters[len(utility) :])
        found = np.zeros((int(utility.sum()) + len(inner), len(parameters)))
        scale = self.schema_.item_scales[utility]
        found[np.arange(len(scale)), np.flatnonzero(utility)] = 1 / scale
        found[len(scale) :, width:] = inner
        return found

    def _raw(self, width: int) -> Float[np.ndarray, " p"]:
        """The likelihood's parameters of the fitted model, in so many columns."""
        nests, utility = self._nests, self._utility()
        found = np.zeros(self._count(width))
        found[np.flatnonzero(utility)] = self.coef_ * self.schema_.item_scales[utility]
        found[width : width + nests.scales] = np.log(self.lambdas_[: nests.scales])
        with np.errstate(divide="ignore"):
            logs = np.where(nests.member, np.maximum(np.log(self.alphas_), -700), 0)
        firsts = (logs * nests.first).sum(1, keepdims=True)
        found[width + nests.scales :] = np.where(nests.member, logs - firsts, 0).ravel()
        return found

    def _model(self) -> CrossNested:
        width, nests = self.schema_.width, self._nests
        theta, raw, logits = np.split(
            self._raw(width).astype(np.float32), [width, width + nests.scales]
        )
        arrays = {"theta": theta, "raw": raw, "logits": logits.reshape(nests.member.shape)}
        return with_arrays(self._form(width), arrays)

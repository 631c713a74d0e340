"""Logits that are linear in their columns, solved exactly: MNL, with set means, within sets."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from setwise import _segments
from setwise._arguments import checked, number, or_word
from setwise._errors import InputError
from setwise._shapes import Bool, Float, Float32
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema, Utility
from setwise.estimators.base import Estimator, fitted, held_out, is_choices, trainable
from setwise.estimators.maximum_likelihood import (
    BOUND,
    FIXED,
    LEAST,
    STATISTICS,
    Estimated,
    Remarks,
    about_bounds,
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
from setwise.estimators.monotone import encoded_signs, is_monotone
from setwise.estimators.summary import reasons
from setwise.training.bounded import bounded
from setwise.training.covariances import Resampling, logit_climb
from setwise.training.newton import Optimum, few_threads, maximise
from setwise.training.penalties import by_leave_one_out, by_validation

if TYPE_CHECKING:
    from setwise.models import Model

ROUNDING = 1e-12  # a set's mean this near to zero, in standardised units, is zero

Logit = TypeVar("Logit", bound="ConvexLogit")


class ConvexLogit(Estimated):
    """g(x, s) = < b, phi(x, s) > for given columns phi: concave, by Newton to the exact optimum.

    A subclass names the columns, makes them from encoded choices, and says in which units it
    reports them.

    ``l2`` is the strength of the penalty (:class:`MNL` has the formula).

    Fitted attributes: ``coef_``, ``l2_`` (the strength used), ``standard_errors_``,
    ``covariance_``, ``identified_``, ``dropped_``, ``feature_names_``, ``log_likelihood_``
    (without the penalty), ``null_log_likelihood_``, ``iterations_``, ``converged_``, ``sets_``.
    """

    TAKES_WORST: ClassVar = True
    CHECKS: ClassVar = {"l2": or_word("loo", or_word("validation", number(least=0)))}
    FITTED: ClassVar = {"l2": 0.0}

    coef_: Float[np.ndarray, " p"]
    l2_: float
    note = ""
    utility: str | Utility | None = None
    monotone: Mapping[str, int] | None = None

    def __init__(self, l2: int | float | Literal["validation", "loo"] = 0.0):
        self.l2 = l2

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        schema, data, scale = self._learned(choices)
        with few_threads(data.items.shape[1]):
            first, optimum = self._estimate(choices, validation, schema, data, scale)
        if not self.converged_:
            instead = self.l2_ if optimum is not first else 0.0
            warn_of_no_maximum(self.feature_names_, first.separation, len(data), instead)
        warn_of_rounding(self.feature_names_, optimum)
        warn_if_certain(first.log_likelihood, self.null_log_likelihood_, self.sets_)

    def _estimate(
        self,
        choices: Choices,
        validation: Choices | None,
        schema: Schema,
        data: Encoded,
        scale: Float[np.ndarray, " p"],
    ) -> tuple[Optimum, Optimum]:
        """Find the optimum, and keep it with its covariances.

        Returns what the penalty asked for gives, and what is kept: they differ where the first has
        no maximum.
        """
        l2 = self._strength(choices, validation, schema, data, scale)
        signs = self._signs(schema)
        first, held = bounded(data, l2, signs)
        optimum = first
        check_identified(schema.item_names, first.identified | held)
        has_maximum = first.converged and not first.separation
        if l2 == 0 and not has_maximum:
            l2 = by_leave_one_out(data, choices.group, LEAST)
            optimum, held = bounded(data, l2, signs)
        self.schema_, self.l2_ = schema, l2
        self.coef_ = optimum.coefficients / scale
        self.identified_ = optimum.identified
        both = np.outer(scale, scale)
        self._keep(choices, data, optimum.covariance, optimum.scores, lambda one: one / both)
        for name in STATISTICS:
            setattr(self, f"{name}_", getattr(optimum, name))
        self.converged_ = has_maximum
        self.dropped_ = {}
        if optimum.relations:
            real = data.items[schema.real_rows(data)]
            self.dropped_ = reasons(self.feature_names_, real, optimum.relations)
        self.dropped_ |= {self.feature_names_[place]: BOUND for place in np.flatnonzero(held)}
        for place, value in fixed_coefficients(schema).items():
            self.coef_[place] = value
            self.dropped_[self.feature_names_[place]] = FIXED
        self.__dict__.pop("model_", None)  # that of an earlier fit
        return first, optimum

    def _learned(self, choices: Choices) -> tuple[Schema, Encoded, Float[np.ndarray, " p"]]:
        """The schema of training sets, their columns phi, and what one unit of each is."""
        schema, seen = Schema.learn(with_utility(choices, self.utility), worst=True)
        encoded = with_mean_weight(with_fixed(seen.encoded(np.float64), schema))
        columns, scale = self._columns(encoded, schema)
        return schema, replace(encoded, items=columns).mirrored(), scale

    def _strength(
        self,
        choices: Choices,
        validation: Choices | None,
        schema: Schema,
        data: Encoded,
        scale: Float[np.ndarray, " p"],
    ) -> float:
        """The penalty's strength: as given, or chosen as asked."""
        if self.l2 == "loo":
            return by_leave_one_out(data, choices.group)
        if self.l2 != "validation":
            return float(self.l2)
        if validation is None:
            train, validation = held_out(choices, seed=0)
            schema, data, scale = self._learned(train)
        valid = with_fixed(schema.encode(validation, np.float64, worst=True), schema)
        columns, unit = self._columns(valid, schema)
        return by_validation(data, replace(valid, items=columns * (unit / scale)).mirrored())

    def solve(self, schema: Schema, train: Encoded, valid: Encoded) -> Float[np.ndarray, " sets"]:
        """Learn coefficients alone from encoded sets; ``valid`` chooses the penalty.

        The estimator then predicts, but has no standard errors and no summary. Returns log P of
        what was chosen in each validation set.
        """
        assert valid.chosen is not None
        train, valid = (replace(one, items=one.items.astype(float)) for one in (train, valid))
        (x, scale), (of_valid, unit) = (self._columns(one, schema) for one in (train, valid))
        data = replace(train, items=x).mirrored()
        judged = replace(valid, items=of_valid * (unit / scale)).mirrored()
        self.schema_ = schema
        with few_threads(x.shape[1]):
            self.l2_ = by_validation(data, judged)
            best, _ = bounded(data, self.l2_, self._signs(schema))
        self.coef_ = best.coefficients / scale
        log_p = _segments.log_softmax(judged.items @ best.coefficients, valid.offsets)
        return log_p[valid.offsets[:-1] + valid.chosen]

    def _signs(self, schema: Schema) -> dict[int, int]:
        """The signs that coefficients must have, by the place of their column."""
        if not self.monotone:
            return {}
        signs = encoded_signs(self.monotone, schema)
        for place, value in fixed_coefficients(schema).items():
            if signs.get(place, 0) * value < 0:
                raise InputError(
                    f"the coefficient of '{schema.item_names[place]}' is fixed at {value:g}, which "
                    "has the sign that monotone= forbids; change one of them"
                )
        return signs

    @property
    @abstractmethod
    def feature_names_(self) -> list[str]:
        """What each coefficient belongs to."""

    @abstractmethod
    def _columns(
        self, encoded: Encoded, schema: Schema
    ) -> tuple[Float[np.ndarray, "rows p"], Float[np.ndarray, " p"]]:
        """phi of every row, in units of about one, and what one such unit is where reported."""

    @property
    def parameter_names_(self) -> list[str]:
        return self.feature_names_

    @property
    def parameters_(self) -> Float[np.ndarray, " p"]:
        return self.coef_

    def with_parameters(self: Logit, parameters: Float[np.ndarray, " p"]) -> Logit:
        other = copy(self)
        other.coef_ = parameters
        other.__dict__.pop("model_", None)
        return other

    def _remarks(self) -> Remarks:
        notes = (
            self.note, self._about_context(), about_penalty(self.l2_, self.l2 != 0),
            about_bounds(self.dropped_),
        )  # fmt: skip
        return Remarks(self.dropped_, "\n".join(filter(None, notes)))

    def _resampling(self, choices: Choices) -> Resampling:
        _, data, scale = self._learned(choices)
        known = self.identified_
        some = replace(data, items=np.ascontiguousarray(data.items[:, known]))
        penalty = self.l2_ * some.items.var(0) if self.l2_ > 0 else None
        units, covariance = scale[known], self.covariances_["classical"][np.ix_(known, known)]

        def report(drawn: Float[np.ndarray, "r k"]) -> Float[np.ndarray, "r p"]:
            found = np.tile(self.coef_, (len(drawn), 1))
            found[:, known] = drawn / units
            return found

        weight = np.ones(len(data)) if data.weight is None else data.weight
        return Resampling(
            logit_climb(some, penalty), self.coef_[known] * units,
            covariance * np.outer(units, units), weight, len(data.items), report,
        )  # fmt: skip

    def derivatives_given(
        self, given: Bool[np.ndarray, " p"], values: Float[np.ndarray, " p"]
    ) -> tuple[Float[np.ndarray, "sets p"], Float[np.ndarray, "p p"]]:
        """Each set's score and the information, where some parameters are given.

        The other identified ones are at their best beside them. Needs the training choices.
        """
        _, data, scale = self._learned(self.training_choices())
        free = self.identified_ & ~given
        offset = data.items[:, given] @ (values[given] * scale[given])
        offset = offset if data.offset is None else offset + data.offset
        best = maximise(replace(data, items=data.items * free, offset=offset))
        whole = np.where(free, best.coefficients, values * scale)
        at = replace(best, coefficients=whole, identified=self.identified_, data=data)
        return at.scores * scale, at.information * np.outer(scale, scale)

    def _about_context(self) -> str:
        """What becomes of context, for the summary."""
        return without_context(self.schema_)


class MNL(ConvexLogit):
    """Multinomial logit (McFadden 1973): g(x, s) = x . b, by Newton to the exact optimum.

    Coefficients are in the table's units (of the transformed column, where a feature has a
    transform). A column that is a combination of earlier ones within every set, such as the last
    of a full set of dummies, has no coefficient of its own: it is 0, and ``dropped_`` and
    :meth:`summary` say why. Context features are equal for all items of a set, cancel, and are not
    used; :meth:`summary` says that too.

    Args:
        utility: a formula such as ``"price + catch | income"``, or a :class:`setwise.Utility`
            with a reference or fixed coefficients. By default every item column has a coefficient.
        l2: the strength of the penalty. The fit maximises

                sum over sets of weight * log P(chosen) - l2 / 2 * sum_j (sd_j b_j)^2

            with sd_j the standard deviation of column j over the training rows, so that units do
            not matter, and weights divided by their mean. l2 stands against the sum over all
            sets, as 1/C in scikit-learn.
            0 is maximum likelihood, with standard errors. "validation" takes the value of
            ``setwise.training.penalties.GRID`` (0.1 to 10,000) with the best NLL on the
            validation part. Without one, a fifth of the sets (whole groups, where a group column
            was read) decides, and the model is then fitted to all sets. "loo" takes the value
            with the best approximate leave-one-out NLL, one Newton step per set (or group). Both
            choose it without the bounds of ``monotone``.
        monotone: by item column, 1 if the probability of an item must not fall where its value
            rises, and -1 if it must not rise: ``monotone={"price": -1}``. The coefficient, or those
            of all terms of a utility that contain the column, are kept from having the other sign,
            and the fit is the exact optimum under these bounds. A coefficient at its bound is 0
            and has no standard error; the standard errors of the others are for the case that it
            stays there. A term such as ``price:income``, which need not go one way, is refused.

    With a penalty, columns that are combinations of others within sets have coefficients too; only
    columns that never differ within a set are dropped.

    If l2 is 0 and the likelihood has no maximum (separated data), ``fit`` warns, ``converged_`` is
    False, and the coefficients are penalised: leave-one-out chooses ``l2_`` from 1 to 10,000.

    Fitted attributes: ``coef_``, ``l2_`` (the strength used), ``standard_errors_``,
    ``covariance_``, ``identified_``, ``dropped_``, ``feature_names_``, ``log_likelihood_``
    (without the penalty), ``null_log_likelihood_``, ``iterations_``, ``converged_``, ``sets_``.

    >>> import setwise as sw
    >>> model = MNL().fit(sw.datasets.load("modecanada"))
    >>> dict(zip(model.feature_names_, model.coef_.round(3).tolist()))["cost"]
    -0.051
    >>> few = sw.datasets.generate("mnl", sets=50, items=4, features=8).choices
    >>> MNL(l2="loo").fit(few).l2_
    3.0
    >>> MNL("cost + log1p(ivt)").fit(sw.datasets.load("modecanada")).feature_names_
    ['cost', 'log1p(ivt)']
    """

    CHECKS: ClassVar = {"utility": is_utility, "monotone": is_monotone, **ConvexLogit.CHECKS}
    TAKES_FIXED: ClassVar = True

    def __init__(
        self,
        utility: str | Utility | None = None,
        l2: int | float | Literal["validation", "loo"] = 0.0,
        monotone: Mapping[str, int] | None = None,
    ):
        super().__init__(l2)
        self.utility = utility
        self.monotone = monotone

    @property
    def satisfies_iia(self) -> bool:
        """True: an item's utility is its own."""
        return True

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient belongs to."""
        return self.schema_.item_names

    def _columns(self, encoded: Encoded, schema: Schema) -> Any:
        return encoded.items, schema.item_scales

    def row_log_probabilities(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        return _log_probabilities(encoded.items @ (self.coef_ * self.schema_.item_scales), encoded)

    def _model(self) -> "Model":
        """The same equation as every other model: f(x) = x . b on standardised columns."""
        theta = np.zeros((self.schema_.width, 1, 1), np.float32)
        theta[: len(self.coef_), 0, 0] = self.coef_ * self.schema_.item_scales
        from setwise.models import ZOO

        skeleton = ZOO["mnl"].skeleton(self.schema_.width)
        return with_arrays(skeleton, {"F.theta": theta})


class LinearContextLogit(ConvexLogit):
    """Linear context logit (Tomlinson and Benson 2021): g(x, s) = < theta + A mean(x), x >.

    A_jk says how the weight of feature j changes where feature k is high on average in the set:
    the row "cost × mean(time)". With A = 0 it is the MNL, which makes it a test of IIA with d²
    degrees of freedom. A set's context joins its mean (A is d × (d + c)): a context feature moves
    the weight of every item feature. So does the share of the outside option, where there is one.

    **Units are standardised**: all of x is centred and scaled with the training mean and standard
    deviation first, so theta_j is the weight of one standard deviation of feature j in a set of
    average means. (In the table's units A's zero point, and with it theta, would be a set whose
    means are all zero.) A_jk over both scales, ``schema_.item_scales``, is A in the table's units.

    Memory is 8 bytes × rows × d (d + c + 1), and twice that while solving.

    Args:
        l2: the strength of the penalty, as in :class:`MNL`: 0 for none, a positive number,
            "validation" or "loo". With few sets a penalty is worth a lot here.

    Fitted attributes: ``theta_``, ``A_``, and those of :class:`ConvexLogit`.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=200, items=5, features=2).choices
    >>> LinearContextLogit().fit(choices).feature_names_
    ['x0', 'x1', 'x0 × mean(x0)', 'x0 × mean(x1)', 'x1 × mean(x0)', 'x1 × mean(x1)']
    """

    note = "Units are standardised: one standard deviation of each feature in the training rows."

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient belongs to: theta, then A row by row."""
        names = self.schema_.item_names
        means = [f"mean({name})" for name in names] + self.schema_.context_names
        return [*names, *(f"{name} × {mean}" for name in names for mean in means)]

    @property
    def theta_(self) -> Float[np.ndarray, " d"]:
        """The weights in a set of average means."""
        return self.coef_[: len(self.schema_.item_names)]

    @property
    def A_(self) -> Float[np.ndarray, "d m"]:
        """How the weights (rows) change with the set's means and context (columns)."""
        d = len(self.schema_.item_names)
        return self.coef_[d:].reshape(d, self.schema_.width)

    def _columns(self, encoded: Encoded, schema: Schema) -> Any:
        x = encoded.items
        means = np.hstack([_segments.means(x, encoded.offsets), encoded.context])
        means[np.abs(means) < ROUNDING] = 0  # or a mean that is never other than 0 would be noise
        scale = np.sqrt((means**2).mean(0))
        scale[scale == 0] = 1
        spread = _segments.spread(means / scale, encoded.offsets)
        products = (x[:, :, None] * spread[:, None, :]).reshape(len(x), -1)
        units = np.concatenate([np.ones(x.shape[1]), np.tile(scale, x.shape[1])])
        return np.hstack([x, products]), units

    def _about_context(self) -> str:
        return ""  # here it is used

    def row_log_probabilities(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        means = np.hstack([_segments.means(encoded.items, encoded.offsets), encoded.context])
        weights = _segments.spread(self.theta_ + means @ self.A_.T, encoded.offsets)
        return _log_probabilities(np.einsum("ij,ij->i", encoded.items, weights), encoded)

    def _model(self) -> "Model":
        """The zoo's LCL; context's own weights are zero, since they would cancel."""
        from setwise.models import ZOO

        d, width = len(self.theta_), self.schema_.width
        theta, A = np.zeros(width, np.float32), np.zeros((width, width), np.float32)
        theta[:d], A[:d] = self.theta_, self.A_
        skeleton = ZOO["lcl"].skeleton(width)
        return with_arrays(skeleton, {"w.theta": theta, "w.A": A})


class WithinSetMNL(ConvexLogit):
    """MNL on features, their z-scores and their positions within the set's range, exact.

        g(x, s) = < b, x > + < b_z, (x - mean) / sd > + < b_p, (x - min) / (max - min) >

    with mean, standard deviation, min and max over the items of s; both are 0 where all items of
    s are equal in a feature. The model computes them itself, so removing an item changes the
    others' (IIA fails). Coefficients of x are in the table's units; the others have none.
    Combinations of others within every set have coefficient 0, and ``dropped_`` says of which: the
    position of a dummy always is one. The outside option, where there is one, counts as an average
    item.

    Args:
        l2: the strength of the penalty, as in :class:`MNL`: 0 for none, a positive number,
            "validation" or "loo".

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=200, items=5, features=2).choices
    >>> WithinSetMNL().fit(choices).feature_names_
    ['x0', 'x1', 'z(x0)', 'z(x1)', 'position(x0)', 'position(x1)']
    """

    note = "z(x) and position(x) are within the set and have no unit."

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient belongs to."""
        names = self.schema_.item_names
        return [*names, *(f"{kind}({name})" for kind in ("z", "position") for name in names)]

    def _columns(self, encoded: Encoded, schema: Schema) -> Any:
        from setwise.models.within_set import within_set
        from setwise.training.likelihood import by_set

        # In single precision first: what the model takes as equal is equal here.
        single = replace(encoded, items=encoded.items.astype(np.float32).astype(np.float64))
        relative = by_set(within_set, single)
        scales = schema.item_scales
        return np.hstack([encoded.items, relative]), _pad(scales, 3)

    def _model(self) -> "Model":
        from setwise.models.within_set import WithinSet

        d = len(self.schema_.item_names)
        theta = np.zeros((3, self.schema_.width), np.float32)
        theta[:, :d] = (self.coef_ * _pad(self.schema_.item_scales, 3)).reshape(3, d)
        return with_arrays(WithinSet(self.schema_.width), {"theta": theta})


def _log_probabilities(
    scores: Float[np.ndarray, " rows"], encoded: Encoded
) -> Float[np.ndarray, " rows"]:
    """log P(x | s) of these scores; in sets that chose the worst item, that of being the worst.

    NumPy computes it sooner than JAX starts, and with the same precision.
    """
    if encoded.worst is not None:
        scores = np.where(_segments.spread(encoded.worst, encoded.offsets), -scores, scores)
    return _segments.log_softmax(scores, encoded.offsets).astype(np.float32)


def _pad(scales: Float[np.ndarray, " d"], times: int) -> Float[np.ndarray, " p"]:
    """The scales of d columns, followed by ones for columns that have no unit."""
    return np.concatenate([scales, np.ones((times - 1) * len(scales))])


@checked(estimator=fitted, choices=is_choices)
def reference_mnl(estimator: Estimator, choices: Choices) -> Float32[np.ndarray, " d"]:
    """The weights of an MNL of the sets that a model learned from, on the same encoded columns.

    Args:
        estimator: a fitted model.
        choices: what it was fitted to; where it held sets out by itself, the MNL learns without
            them too. They are gone through several times, so that those which are too large to
            keep in memory are refused.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=200, items=4, features=2).choices
    >>> model = sw.WithinSetMNL().fit(choices)
    >>> len(reference_mnl(model, choices))
    2
    """
    from setwise.training.shards import stays_on_disk

    if stays_on_disk(choices):
        raise InputError(
            "the data stay on disk, and an MNL would read them many times more; fit one to a part "
            "of them (--max-sets), and show it with 'setwise serve --reference'"
        )
    for sets in _learned_from(estimator, choices):
        if Schema.fit(sets) == estimator.schema_:
            mnl = MNL().fit(sets)
            return (mnl.coef_ * mnl.schema_.item_scales).astype(np.float32)
    raise InputError(
        "these are not the sets that the model learned from: their columns have another mean or "
        "scale; give those of fit"
    )


def _learned_from(estimator: Estimator, choices: Choices) -> Iterator[Choices]:
    yield trainable(choices)
    train, validation = estimator.parts_of_fit(choices)
    if validation is not None:
        yield train

"""Logits that are linear in their columns, solved exactly: MNL, with set means, within sets."""

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from setwise import _segments
from setwise._tensorfile import with_arrays
from setwise.choices import Choices, Encoded, Schema
from setwise.doctor.derived import derived
from setwise.estimators.maximum_likelihood import (
    STATISTICS,
    Estimated,
    check_identified,
    warn_if_certain,
    warn_of_separation,
    without_context,
)
from setwise.estimators.summary import Summary, reasons
from setwise.models import ZOO, Model, Sizes
from setwise.models.within_set import WithinSet, within_set
from setwise.training import maximise
from setwise.training.likelihood import by_set

ROUNDING = 1e-12  # a set's mean this near to zero, in standardised units, is zero


class ConvexLogit(Estimated):
    """g(x, s) = < b, phi(x, s) > for given columns phi: concave, by Newton to the exact optimum.

    A subclass names the columns, makes them from encoded choices, and says in which units it
    reports them.

    Fitted attributes: ``coef_``, ``standard_errors_``, ``covariance_``, ``identified_``,
    ``dropped_``, ``feature_names_``, ``log_likelihood_``, ``null_log_likelihood_``,
    ``iterations_``, ``converged_``, ``sets_``.
    """

    coef_: Float[np.ndarray, " p"]
    note = ""

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        schema, seen = Schema.learn(choices)
        encoded = seen.encoded(np.float64)
        columns, scale = self._columns(encoded, schema)
        optimum = maximise(replace(encoded, items=columns))
        check_identified(schema.item_names, optimum.identified)
        found = optimum.separation
        self.schema_ = schema
        self.coef_ = optimum.coefficients / scale
        self.covariance_ = optimum.covariance / np.outer(scale, scale)
        self.identified_ = optimum.identified
        for name in STATISTICS:
            setattr(self, f"{name}_", getattr(optimum, name))
        self.converged_ = optimum.converged and not found
        real = columns[schema.real_rows(encoded)] if optimum.relations else columns
        self.dropped_ = reasons(self.feature_names_, real, optimum.relations)
        self.derived_ = derived(choices)
        self.__dict__.pop("model_", None)  # that of an earlier fit
        warn_of_separation(self.feature_names_, found, len(encoded))
        warn_if_certain(self.log_likelihood_, self.null_log_likelihood_, self.sets_)

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

    def summary(self) -> Summary:
        self.check_is_fitted()
        return Summary(
            tuple(self.feature_names_), self.coef_, self.standard_errors_, self.identified_,
            self.log_likelihood_, self.null_log_likelihood_, self.sets_, self.dropped_,
            note="\n".join(filter(None, (self.note, self._about_context()))),
        )  # fmt: skip

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

    Fitted attributes: ``coef_``, ``standard_errors_``, ``covariance_``, ``identified_``,
    ``dropped_``, ``feature_names_``, ``log_likelihood_``, ``null_log_likelihood_``,
    ``iterations_``, ``converged_``, ``sets_``.

    >>> import setwise as sw
    >>> model = MNL().fit(sw.datasets.load("modecanada"))
    >>> dict(zip(model.feature_names_, model.coef_.round(3).tolist()))["cost"]
    -0.051
    """

    @property
    def feature_names_(self) -> list[str]:
        """What each coefficient belongs to."""
        return self.schema_.item_names

    def _columns(self, encoded: Encoded, schema: Schema) -> Any:
        return encoded.items, schema.item_scales

    def _model(self) -> Model:
        """The same equation as every other model: f(x) = x . b on standardised columns."""
        theta = np.zeros((self.schema_.width, 1, 1), np.float32)
        theta[: len(self.coef_), 0, 0] = self.coef_ * self.schema_.item_scales
        skeleton = ZOO["mnl"].skeleton(self.schema_.width, Sizes())
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

    def _model(self) -> Model:
        """The zoo's LCL; context's own weights are zero, since they would cancel."""
        d, width = len(self.theta_), self.schema_.width
        theta, A = np.zeros(width, np.float32), np.zeros((width, width), np.float32)
        theta[:d], A[:d] = self.theta_, self.A_
        skeleton = ZOO["lcl"].skeleton(width, Sizes())
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
        # In single precision first: what the model takes as equal is equal here.
        single = replace(encoded, items=encoded.items.astype(np.float32).astype(np.float64))
        relative = by_set(within_set, single)
        scales = schema.item_scales
        return np.hstack([encoded.items, relative]), _pad(scales, 3)

    def _model(self) -> Model:
        d = len(self.schema_.item_names)
        theta = np.zeros((3, self.schema_.width), np.float32)
        theta[:, :d] = (self.coef_ * _pad(self.schema_.item_scales, 3)).reshape(3, d)
        return with_arrays(WithinSet(self.schema_.width), {"theta": theta})


def _pad(scales: Float[np.ndarray, " d"], times: int) -> Float[np.ndarray, " p"]:
    """The scales of d columns, followed by ones for columns that have no unit."""
    return np.concatenate([scales, np.ones((times - 1) * len(scales))])

"""Estimates as a table: the statistics that an economist expects of a likelihood."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from setwise._page import notebook_html
from setwise._shapes import Bool, Float

NORMAL = 1.959964  # the normal distribution's 97.5th percentile
REFERENCE = "reference: not identified by itself"
CONSTANT = "constant within sets"
UNKNOWN = "not identified by itself"  # of files that do not say why
SHOWN = 3
FEW_PEOPLE = 40  # with fewer, clustered standard errors come out too small


@dataclass(frozen=True, eq=False)
class Summary:
    """A logit's estimates; ``print`` and notebooks show the table.

    :meth:`to_frame` gives it as a Polars frame, :meth:`to_json` as plain values.

    ``fixed`` says why a coefficient that was not estimated has its value: its column is constant
    within sets, a combination of others, or the reference of a full set of dummies. ``null`` holds
    the values that z and p test against (0 otherwise); ``note`` is more lines for the reader.
    """

    names: tuple[str, ...]
    coefficients: Float[np.ndarray, " d"]
    standard_errors: Float[np.ndarray, " d"]
    identified: Bool[np.ndarray, " d"]
    log_likelihood: float
    null_log_likelihood: float
    sets: int
    fixed: Mapping[str, str] = field(default_factory=dict)
    null: Float[np.ndarray, " d"] | None = None
    note: str = ""
    constants_log_likelihood: float | None = None
    """That of the constants of alternatives alone; None where alternatives have no names."""
    constants: int = 0
    """How many constants those are."""
    rows: int = 0
    people: int = 0
    """How many people chose; 0 where the person of each set is not known."""
    converged: bool = True
    covariance: str = "classical"
    """Whose standard errors these are: "classical", "robust", "cluster" or "bootstrap"."""
    group: str = ""
    """The column of the person."""

    @property
    def z(self) -> Float[np.ndarray, " d"]:
        """(Estimate - null) over standard error."""
        null = 0.0 if self.null is None else self.null
        return (self.coefficients - null) / self.standard_errors

    @property
    def p(self) -> Float[np.ndarray, " d"]:
        """Two-sided p-values of z under the normal distribution."""
        return np.array([math.erfc(abs(one) / math.sqrt(2)) for one in self.z.tolist()])

    @property
    def parameters(self) -> int:
        """Coefficients that were estimated."""
        return int(self.identified.sum())

    @property
    def rho2(self) -> float:
        """McFadden's 1 - logL / logL(equal chances)."""
        return 1 - self.log_likelihood / self.null_log_likelihood

    @property
    def adjusted_rho2(self) -> float:
        """1 - (logL - k) / logL(equal chances), with k the parameters."""
        return 1 - (self.log_likelihood - self.parameters) / self.null_log_likelihood

    @property
    def constants_rho2(self) -> float | None:
        """1 - logL / logL(constants); None where alternatives have no names."""
        if self.constants_log_likelihood is None:
            return None
        return 1 - self.log_likelihood / self.constants_log_likelihood

    @property
    def adjusted_constants_rho2(self) -> float | None:
        """1 - (logL - k) / (logL(constants) - c), with c the constants; None without names."""
        if self.constants_log_likelihood is None:
            return None
        below = self.constants_log_likelihood - self.constants
        return 1 - (self.log_likelihood - self.parameters) / below

    @property
    def aic(self) -> float:
        """2 k - 2 logL."""
        return 2 * self.parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """k log(sets) - 2 logL."""
        return self.parameters * float(np.log(self.sets)) - 2 * self.log_likelihood

    def to_json(self) -> dict[str, Any]:
        """Plain values: one entry per coefficient, and the measures of fit."""
        rows = zip(self.names, self.coefficients, self.standard_errors, self.z, self.p, strict=True)
        fields = ("name", "coefficient", "standard_error", "z", "p")
        whole = (
            "sets", "rows", "people", "parameters", "log_likelihood", "null_log_likelihood",
            "constants_log_likelihood", "rho2", "adjusted_rho2", "constants_rho2",
            "adjusted_constants_rho2", "aic", "bic", "converged", "covariance",
        )  # fmt: skip
        return {
            "coefficients": [
                {
                    f: v if isinstance(v, str) else _finite(v)
                    for f, v in zip(fields, row, strict=True)
                }
                for row in rows
            ],
            **{name: getattr(self, name) for name in whole},
            "fixed": dict(self.fixed),
        }

    def to_frame(self) -> Any:
        """A Polars frame: name, coefficient, standard_error, z, p, and the 95 % interval low, high.

        Where a coefficient was not estimated, all but the first two are null.
        """
        import polars as pl

        reach = NORMAL * self.standard_errors
        columns = {
            "name": list(self.names), "coefficient": self.coefficients,
            "standard_error": self.standard_errors, "z": self.z, "p": self.p,
            "low": self.coefficients - reach, "high": self.coefficients + reach,
        }  # fmt: skip
        return pl.DataFrame(columns, nan_to_null=True)

    def _repr_html_(self) -> str:
        heads = ["feature", "estimate", "std. error", "z", "p"]
        rows = []
        for i, name in enumerate(self.names):
            row = [name, f"{self.coefficients[i]:.6g}"]
            if self.identified[i]:
                row += [f"{self.standard_errors[i]:.6g}", f"{self.z[i]:.2f}", f"{self.p[i]:.3g}"]
            else:
                row += ["", "", "", self.fixed.get(name, UNKNOWN)]
            rows.append(row)
        if not self.identified.all():
            heads.append("")
            rows = [row + [""] * (len(heads) - len(row)) for row in rows]
        return notebook_html(heads, rows, note=f"{self._measures()}. {self.note}".strip())

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "feature"))
        lines = [f"{'feature':<{width}}  {'estimate':>12} {'std. error':>12} {'z':>9} {'p':>9}"]
        for i, name in enumerate(self.names):
            estimate = f"{name:<{width}}  {self.coefficients[i]:>12.6g}"
            if self.identified[i]:
                error = f"{self.standard_errors[i]:>12.6g}"
                lines.append(f"{estimate} {error} {self.z[i]:>9.2f} {self.p[i]:>9.3g}")
            else:
                lines.append(f"{estimate} ({self.fixed.get(name, UNKNOWN)})")
        lines.append(self._measures())
        return "\n".join([*lines, self.note] if self.note else lines)

    def _measures(self) -> str:
        constants = "" if self.constants_log_likelihood is None else (
            f", constants only {self.constants_log_likelihood:.3f}"
        )  # fmt: skip
        people = f" of {self.people:,} people" if self.people else ""
        lines = [
            f"log-likelihood {self.log_likelihood:.3f} (equal chances "
            f"{self.null_log_likelihood:.3f}{constants}), rho² {self.rho2:.4f}, "
            f"AIC {self.aic:.1f}, BIC {self.bic:.1f}, {self.sets:,} sets{people}",
            f"Standard errors: {self.about_covariance}",
        ]
        if not self.converged:
            lines.append("The search for the maximum did not converge.")
        return "\n".join(lines)

    @property
    def about_covariance(self) -> str:
        """Whose standard errors these are, and when they are right."""
        by = f"by '{self.group}' ({self.people:,} people)" if self.people else ""
        few = f"; {self.people} people are few for that" if 0 < self.people < FEW_PEOPLE else ""
        alike = ""
        if 0 < self.people < self.sets:
            alike = '; choices of one person are alike, which covariance="cluster" heeds'
        return {
            "classical": f"classical, for independent sets and a model that is right{alike}",
            "robust": f"robust, for independent sets{alike}",
            "cluster": f"clustered {by}{few}",
            "bootstrap": f"bootstrap {by or 'of sets'}{few}",
        }[self.covariance]


def reasons(
    names: Sequence[str],
    columns: Float[np.ndarray, "rows d"],
    relations: Mapping[int, Float[np.ndarray, " d"]],
) -> dict[str, str]:
    """Why columns have no coefficient of their own, by name.

    Args:
        names: of all columns.
        columns: their values in the table's rows.
        relations: of those without a coefficient, the weights of the sum of columns that each
            equals within every set (:class:`setwise.training.Optimum`).

    >>> x = np.array([[1.0, 0, 5, 2], [0, 1, 5, 0], [1, 0, 7, 2], [0, 1, 7, 0]])
    >>> weights = {1: np.array([-1.0, 0, 0, 0]), 2: np.zeros(4), 3: np.array([2.0, 0, 0, 0])}
    >>> for name, reason in reasons(["bus", "car", "income", "fee"], x, weights).items():
    ...     print(name, "is", reason)
    car is reference: not identified by itself
    income is constant within sets
    fee is a multiple of bus within sets
    """
    found = {}
    for dropped, weights in relations.items():
        others = np.flatnonzero(weights).tolist()
        if not len(others):
            found[names[dropped]] = CONSTANT
        elif _full_set_of_dummies(columns[:, [dropped, *others]]):
            found[names[dropped]] = REFERENCE
        else:
            listed = [names[one] for one in others]
            more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
            what = "multiple" if len(listed) == 1 else "combination"
            found[names[dropped]] = f"a {what} of {', '.join(listed[:SHOWN])}{more} within sets"
    return found


def _full_set_of_dummies(columns: Float[np.ndarray, "rows d"]) -> bool:
    """Whether each column has two values, and each row the higher one in exactly one of them."""
    low, high = columns.min(0), columns.max(0)
    marked = columns == high
    return bool((marked | (columns == low)).all() and (low < high).all()
                and (marked.sum(1) == 1).all())  # fmt: skip


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

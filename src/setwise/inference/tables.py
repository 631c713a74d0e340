"""Estimates of several models side by side, as text, Markdown, HTML and LaTeX."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from setwise._arguments import by_name, checked, flag, one_of, optional
from setwise._page import PageTable, as_html, as_markdown_table
from setwise.estimators.maximum_likelihood import Estimated
from setwise.estimators.summary import Summary
from setwise.inference.model_tests import estimated
from setwise.training.covariances import KINDS

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
ABOUT_STARS = "* p < 0.05, ** p < 0.01, *** p < 0.001"
TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "²": r"\textsuperscript{2}", "×": r"$\times$", "<": r"$<$", ">": r"$>$", "|": r"$|$",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ResultsTable:
    """Estimates with standard errors in parentheses, then measures of fit; a column per model.

    ``print`` shows :attr:`text`, and notebooks :attr:`html`. :attr:`rows` has the cells.
    """

    heads: tuple[str, ...]
    estimates: tuple[tuple[str, ...], ...]
    measures: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """All rows, estimates first; the first cell names the row."""
        return self.estimates + self.measures

    @property
    def text(self) -> str:
        """Columns of plain text."""
        widths = [max(map(len, column)) for column in zip(self.heads, *self.rows, strict=True)]
        line = "-" * (sum(widths) + 2 * (len(widths) - 1))

        def shown(row: Sequence[str]) -> str:
            first, *rest = (
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            return "  ".join([first, *rest]).rstrip()

        parts = [[self.heads], self.estimates, self.measures]
        drawn = [[shown(row) for row in part] for part in parts]
        return "\n".join([*drawn[0], line, *drawn[1], line, *drawn[2], *self.notes])

    @property
    def markdown(self) -> str:
        """A table of Markdown, notes below."""
        return as_markdown_table(self._block())

    @property
    def html(self) -> str:
        """A table of HTML, without a page around it."""
        return as_html([self._block()])

    @property
    def latex(self) -> str:
        """A ``tabular`` of LaTeX with the rules of the package booktabs, notes below."""
        lines = [rf"\begin{{tabular}}{{l{'r' * (len(self.heads) - 1)}}}", r"\toprule"]
        lines += [_tex(self.heads), r"\midrule", *map(_tex, self.estimates), r"\midrule"]
        lines += [*map(_tex, self.measures), r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*lines, *(rf"\par {_escaped(note)}" for note in self.notes)])

    def _block(self) -> PageTable:
        return PageTable(self.heads, self.rows, "numbers", notes=self.notes)

    def _repr_html_(self) -> str:
        return self.html

    def __str__(self) -> str:
        return self.text


@checked(models=by_name(estimated), covariance=optional(one_of(*KINDS)), stars=flag)
def results_table(
    models: Mapping[str, Estimated], covariance: str | None = None, stars: bool = True
) -> ResultsTable:
    """The estimates of several models side by side, with what a paper reports of each.

    Args:
        models: fitted models by the name that their column has.
        covariance: whose standard errors, as in ``summary``; by default each model's own.
        stars: whether estimates have stars by their p-values.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> models = {one: sw.MNL(one).fit(choices) for one in ("cost", "cost + ivt")}
    >>> print("\\n".join(results_table(models).text.splitlines()[:6]))
                           cost  cost + ivt
    ---------------------------------------
    cost              0.0065***  -0.0082***
                       (0.0003)    (0.0007)
    ivt                          -0.0084***
                                   (0.0003)
    """
    found = {name: model.summary(covariance) for name, model in models.items()}
    names = list(dict.fromkeys(name for one in found.values() for name in one.names))
    estimates = [row for name in names for row in _estimates(name, [*found.values()], stars)]
    notes = ["Standard errors in parentheses."]
    if stars:
        notes.append(ABOUT_STARS)
    return ResultsTable(
        ("", *found), tuple(estimates), tuple(_measures([*found.values()])), (" ".join(notes),)
    )


def _estimates(name: str, summaries: Sequence[Summary], stars: bool) -> Iterator[tuple[str, ...]]:
    """The row of estimates and that of standard errors."""
    above, below = [name], [""]
    for one in summaries:
        place = one.names.index(name) if name in one.names else None
        if place is None:
            above.append("")
            below.append("")
            continue
        p, error = float(one.p[place]), float(one.standard_errors[place])
        mark = next((mark for level, mark in STARS if p < level), "") if stars else ""
        above.append(f"{one.coefficients[place]:.4f}{mark if one.identified[place] else ''}")
        known = one.identified[place] and np.isfinite(error)
        below.append(f"({error:.4f})" if known else "(fixed)")
    yield tuple(above)
    yield tuple(below)


def _measures(summaries: Sequence[Summary]) -> Iterator[tuple[str, ...]]:
    """Measures of fit; those that no model has are left out."""

    def number(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    columns = {
        "Log-likelihood": [number(one.log_likelihood, ".3f") for one in summaries],
        "at equal chances": [number(one.null_log_likelihood, ".3f") for one in summaries],
        "constants only": [number(one.constants_log_likelihood, ".3f") for one in summaries],
        "rho²": [number(one.rho2, ".4f") for one in summaries],
        "adjusted rho²": [number(one.adjusted_rho2, ".4f") for one in summaries],
        "rho² (constants)": [number(one.constants_rho2, ".4f") for one in summaries],
        "adjusted rho² (constants)": [
            number(one.adjusted_constants_rho2, ".4f") for one in summaries
        ],
        "AIC": [number(one.aic, ".1f") for one in summaries],
        "BIC": [number(one.bic, ".1f") for one in summaries],
        "Parameters": [str(one.parameters) for one in summaries],
        "People": [f"{one.people:,}" if one.people else "" for one in summaries],
        "Choice sets": [f"{one.sets:,}" for one in summaries],
        "Rows": [f"{one.rows:,}" if one.rows else "" for one in summaries],
        "Standard errors": [one.covariance for one in summaries],
        "Converged": ["yes" if one.converged else "no" for one in summaries],
    }
    for name, cells in columns.items():
        if any(cells):
            yield (name, *cells)


def _tex(row: Sequence[str]) -> str:
    return " & ".join(map(_escaped, row)) + r" \\"


def _escaped(text: str) -> str:
    """Text that LaTeX shows as it is.

    >>> print(_escaped("cost_CHF & 5 %"))
    cost\\_CHF \\& 5 \\%
    """
    return "".join(TEX.get(one, one) for one in text)

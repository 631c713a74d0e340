"""What a test of IIA says: its numbers, one sentence for everyone, and when not to trust it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from setwise.choices import Choices

LEVEL = 0.05
POWER = 0.8


@dataclass(frozen=True)
class IIATest:
    """The outcome of one test of IIA.

    ``p`` is the share of data sets, were IIA true, whose statistic is at least this large; NaN
    where the data cannot tell. ``degrees`` is whole, but for a weighted sum of chi-squares.
    ``warnings`` say why p may be wrong, or why the test could hardly have found anything.
    ``details`` holds the log-likelihoods and other numbers behind the statistic.

    >>> found = IIATest("lcl", 20.0, 4, 0.0005, "Other items matter.", ("few sets",))
    >>> found.rejected
    True
    >>> print(found)
    lcl: statistic 20.00, 4 degrees of freedom, p = 0.0005
    Other items matter.
    Warning: few sets
    """

    method: str
    statistic: float
    degrees: int | float
    p: float
    sentence: str
    warnings: tuple[str, ...] = ()
    details: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def rejected(self) -> bool:
        """Whether IIA is rejected at the level of 5 %."""
        return self.p < LEVEL

    def __str__(self) -> str:
        p = "p = unknown" if np.isnan(self.p) else _p(self.p)
        first = f"{self.method}: statistic {self.statistic:.2f}, {self.degrees:.4g} degrees of "
        lines = [f"{first}freedom, {p}", self.sentence]
        return "\n".join(lines + [f"Warning: {one}" for one in self.warnings])


def verdict(
    method: str,
    statistic: float,
    degrees: int | float,
    warnings: list[str],
    details: Mapping[str, int | float],
) -> IIATest:
    """The test whose statistic is chi-squared with so many degrees of freedom under IIA.

    >>> verdict("lcl", 3.84, 1, [], {}).p.__round__(3)
    0.05
    """
    p = float(chi2.sf(max(statistic, 0.0), degrees)) if degrees > 0 else float("nan")
    return IIATest(method, statistic, degrees, p, _sentence(p), tuple(warnings), details)


def holm(tests: Sequence[IIATest]) -> list[float]:
    """The p-values of several tests of the same data, corrected for their number (Holm 1979).

    IIA is rejected if the least of them is below 5 %. A test without p does not count.

    >>> two = [IIATest("lcl", 1.0, 4, 0.9, ""), IIATest("comparisons", 9.0, 2, 0.01, "")]
    >>> holm(two)
    [0.9, 0.02]
    """
    known = sorted((one.p, place) for place, one in enumerate(tests) if not np.isnan(one.p))
    found, largest = [float("nan")] * len(tests), 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        found[place] = largest
    return found


def together(tests: Sequence[IIATest]) -> str:
    """What several tests of the same data say together, in one sentence."""
    corrected = holm(tests)
    known = [p for p in corrected if not np.isnan(p)]
    if not known:
        return "These data cannot tell whether the other items of a set matter."
    each = ", ".join(
        f"{one.method} {_p(p)}" for one, p in zip(tests, corrected, strict=True) if not np.isnan(p)
    )
    said = "IIA is rejected" if min(known) < LEVEL else "IIA is not rejected"
    return f"Both tests together, p corrected for their number (Holm): {each}. {said} at 5 %."


def _p(p: float) -> str:
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"


def detectable_gain(sets: int, degrees: int) -> float:
    """The gain in log-likelihood per choice that a likelihood ratio test finds in 4 cases of 5.

    The statistic of a true gain g per choice is noncentral chi-squared with noncentrality 2 m g;
    g is where P(statistic > the 5 % point) = 0.8.

    >>> round(detectable_gain(1000, 1), 5)  # 7.85 / 2000
    0.00392
    """
    critical = chi2.isf(LEVEL, degrees)
    noncentrality = brentq(lambda c: ncx2.sf(critical, degrees, c) - POWER, 1e-3, 1e4)
    return float(noncentrality) / (2 * sets)


def sampling_warnings(choices: Choices) -> list[str]:
    """Why choices may not be a simple random sample, which all the tests suppose."""
    found = []
    if choices.weight is not None:
        found.append(
            "the sets have weights, which count here as repeated sets: p is right only if they are"
        )
    if choices.group is not None and len(np.unique(choices.group)) < len(choices):
        found.append(
            f"several sets belong to one '{choices.roles.group}': choices of one person are alike, "
            "and p is too small; try one set per person"
        )
    return found


def _sentence(p: float) -> str:
    if np.isnan(p):
        return (
            "These data cannot tell whether the other items of a set matter: nothing in them "
            "differs between what IIA says and what it forbids."
        )
    if p < LEVEL:
        return (
            "The other items of a set seem to matter (IIA is rejected): were they irrelevant, data "
            f"this far from it would come about in {_share(p)} of cases."
        )
    return (
        "No sign that the other items of a set matter: were they irrelevant, data this far from "
        f"it would come about in {_share(p)} of cases. This does not prove IIA."
    )


def _share(p: float) -> str:
    return "fewer than 0.01 %" if p < 1e-4 else f"{100 * p:.2g} %"

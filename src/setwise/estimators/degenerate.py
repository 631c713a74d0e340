"""Signs that a maximum of the likelihood of latent classes is degenerate."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh

from setwise.training import Optimum
from setwise.training.latent import ClassLayout
from setwise.training.likelihood import Maximum

LEAST_SHARE = 1e-3  # a class with less is a degenerate one
SAME = 1e-3  # weights in standardised units that differ by less are the same
FLAT = 1e-4  # a class's curvature in some direction; about 1 where all items have equal chances
LARGE = 5.0  # in standardised units
SINGULAR = 1e-9


def flaws(
    found: Maximum,
    mnl: Optimum,
    names: Sequence[str],
    layout: ClassLayout,
    shares: Float[np.ndarray, " k"],
) -> list[str]:
    """What is degenerate about a solution, in words that name the class.

    Args:
        found: the maximum, in the parameters of the layout.
        mnl: the logit of the same columns.
        names: of the columns.
        layout: where the parameters stand.
        shares: of the classes, the largest first.
    """
    known = np.flatnonzero(mnl.identified)
    theta, gamma = layout.split(found.parameters)
    spread = mnl.within[np.ix_(known, known)] / len(mnl.data.items)
    size = np.sqrt(np.diag(spread))
    told = []
    for k, share in enumerate(shares):
        if share < LEAST_SHARE:
            told.append(f"class {k + 1} has a share of {share:.1g}")
            continue
        places = layout.places[k, known]
        block = found.information[np.ix_(places, places)]
        curvature, directions = eigh(block / (mnl.sets * share), spread)
        if curvature[0] < FLAT and np.abs(theta[k, known] * size).max() > LARGE:
            part = np.abs(directions[:, 0]) * size
            which = [f"'{names[known[one]]}'" for one in np.argsort(-part)[:2]
                     if part[one] > 0.1 * part.max()]  # fmt: skip
            told.append(f"coefficients of class {k + 1} grow without bound: {', '.join(which)}")
        told += [
            f"classes {k + 1} and {later + 1} are the same"
            for later in range(k + 1, layout.classes)
            if _same(theta[k, known], theta[later, known], size)
        ]
        if np.abs(gamma[k, 1:]).max(initial=0) > 2 * LARGE:
            told.append(f"context tells who is in class {k + 1} without error")
    if not told and layout.classes > 1:
        free = np.flatnonzero(~np.isnan(np.diag(found.information)))
        told += _singular(found.information, free)
    return told


def _same(
    first: Float[np.ndarray, " d"], second: Float[np.ndarray, " d"], size: Float[np.ndarray, " d"]
) -> bool:
    return bool((np.abs(first - second) * size).max() < SAME)


def _singular(information: Float[np.ndarray, "p p"], free: Int[np.ndarray, " f"]) -> list[str]:
    whole = information[np.ix_(free, free)]
    scale = np.sqrt(np.maximum(np.diag(whole), np.finfo(float).tiny))
    if np.linalg.eigvalsh(whole / np.outer(scale, scale))[0] < SINGULAR:
        return ["the information matrix is singular"]
    return []

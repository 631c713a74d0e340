"""Where to climb from to the likelihood's maxima of latent classes: short runs of EM.

EM takes turns: expectation (who belongs where) and maximisation (a weighted logit per class, and a
weighted logit of membership).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import log_softmax, softmax

from setwise import _segments
from setwise.choices import Encoded
from setwise.training.latent import ClassLayout, People
from setwise.training.newton import Optimum, maximise

EM_STEPS = 15
CLIMBED = 2  # of the starts up to each, so many of the best are climbed from on all sets
LEAST = 1e-8  # of a person's membership in a class, so that no weight is zero
MEMBERSHIP_STEPS = 5
RIDGE = 1e-6  # of a person, in a Newton step of membership

Run = tuple[float, Float[np.ndarray, "k d"], Float[np.ndarray, "k m"]]
"""log L at the end of EM, theta of each class and gamma of each class."""


def promising(values: Sequence[float]) -> list[int]:
    """The starts to climb from: those among the two best of all starts up to them.

    Whether a start is climbed from does not depend on later ones, so that more starts climb from
    all that fewer would.

    >>> promising([-5.0, -7.0, -6.0, -8.0, -4.0])
    [0, 1, 2, 4]
    """
    return [
        place
        for place, value in enumerate(values)
        if sum(earlier >= value for earlier in values[:place]) < CLIMBED
    ]


def em_starts(
    data: Encoded,
    people: People,
    mnl: Optimum,
    shared: Bool[np.ndarray, " d"],
    classes: int,
    starts: int,
    seed: int,
) -> list[Run]:
    """Short runs of EM, from random weights around the MNL's; fewer starts are the first ones."""
    b, m = mnl.coefficients, people.known.shape[1]
    if classes == 1:
        return [(0.0, b[None, :].copy(), np.zeros((1, m)))]
    rng = np.random.default_rng(seed)
    noise = 2 / np.sqrt(len(b)) * mnl.units  # utilities move by about 2
    drawn = [noise * rng.normal(size=(classes, len(b))) * ~shared for _ in range(starts)]
    return [_em(data, people, b + one, shared) for one in drawn]


def _em(
    data: Encoded, people: People, theta: Float[np.ndarray, "k d"], shared: Bool[np.ndarray, " d"]
) -> Run:
    gamma = np.zeros((len(theta), people.known.shape[1]))
    value = -np.inf
    for _ in range(EM_STEPS):
        logs = people.sums @ _chosen_logs(data, theta)
        joint = logs + log_softmax(people.known @ gamma.T, 1)
        value = float(people.weight @ np.logaddexp.reduce(joint, 1))
        belongs = np.maximum(softmax(joint, 1), LEAST)
        gamma = _membership(people, belongs, gamma)
        theta = _tastes(data, people, belongs, shared)
    return value, theta, gamma


def _chosen_logs(data: Encoded, theta: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "sets k"]:
    """log P_k(chosen | s) of every set and class."""
    assert data.chosen is not None
    logs = _segments.log_softmax(data.items @ theta.T, data.offsets)
    return logs[data.offsets[:-1] + data.chosen]


def _tastes(
    data: Encoded,
    people: People,
    belongs: Float[np.ndarray, "people k"],
    shared: Bool[np.ndarray, " d"],
) -> Float[np.ndarray, "k d"]:
    """The weighted logits of the classes; with shared coefficients, one logit of all of them."""
    weights = (people.weight[:, None] * belongs)[people.of_set].T
    if not shared.any():
        parts = [maximise(replace(data, weight=one)) for one in weights]
        return np.stack([part.coefficients for part in parts])
    assert data.chosen is not None
    classes, layout = len(weights), ClassLayout.of(len(weights), shared, 1)
    rows, sets = data.items.shape[0], len(data)
    items = np.zeros((classes * rows, layout.first))
    for k, places in enumerate(layout.places):
        items[k * rows : (k + 1) * rows, places] = data.items
    stacked = Encoded(
        items, np.zeros((classes * sets, 0)), _segments.offsets_of(np.tile(data.sizes, classes)),
        np.tile(data.chosen, classes), weights.ravel(),
    )  # fmt: skip
    return maximise(stacked).coefficients[layout.places]


def _membership(
    people: People, belongs: Float[np.ndarray, "people k"], gamma: Float[np.ndarray, "k m"]
) -> Float[np.ndarray, "k m"]:
    """gamma that explains who belongs where: the logs of shares, or a few Newton steps."""
    weight, known = people.weight, people.known
    if known.shape[1] == 1:
        sums = weight @ belongs
        return np.log(sums / sums.sum())[:, None]
    classes, m = gamma.shape
    for _ in range(MEMBERSHIP_STEPS):
        shares = softmax(known @ gamma.T, 1)
        slope = ((belongs - shares) * weight[:, None]).T @ known
        both = -weight[:, None, None] * shares[:, :, None] * shares[:, None, :]
        curve = np.einsum("njl,na,nb->jalb", both, known, known, optimize=True)
        for k in range(classes):
            curve[k, :, k] += known.T @ (known * (weight * shares[:, k])[:, None])
        inner = curve[1:, :, 1:].reshape((classes - 1) * m, -1)
        inner[np.diag_indices_from(inner)] += RIDGE * weight.sum()
        step = np.linalg.solve(inner, slope[1:].ravel()).reshape(classes - 1, m)
        gamma = gamma + np.concatenate([np.zeros((1, m)), np.clip(step, -2, 2)])
    return gamma

"""Classical models as generators: multinomial, nested and mixed logit.

Every item has features x ~ N(0, 1), in the columns x0, x1, ...
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float64, Int

from setwise._errors import InputError
from setwise.datasets.generated import (
    Generated,
    SetSizes,
    choose,
    generator,
    log_sums,
    numbers,
    set_of_rows,
    softmax,
    whole,
    with_features,
)

FEATURES = 8
Weights = Sequence[float] | Float[np.ndarray, " d"]


def mnl(
    sets: int = 1000,
    seed: int = 0,
    items: SetSizes = 10,
    features: int | None = None,
    beta: Weights | None = None,
) -> Generated:
    """Multinomial logit: P(x | s) = softmax over s of < beta, x >.

    Args:
        sets: how many choices.
        seed: the same seed gives the same data.
        items: items a set, or the least and the most, (2, 10), uniform between.
        features: how many; 8, or as many as ``beta`` has.
        beta: the weights; evenly spaced from -1 to 1 by default.

    >>> mnl(sets=5, features=3).parameters["beta"].tolist()
    [-1.0, 0.0, 1.0]
    """
    rng, weights = generator(seed), _beta(beta, features)
    owner = set_of_rows(rng, sets, items)
    x = rng.normal(size=(len(owner), len(weights)))
    truth = softmax(x @ weights, owner)
    return with_features(x, owner, choose(rng, truth, owner), truth, {"beta": weights})


def nested(
    sets: int = 1000,
    seed: int = 0,
    items: SetSizes = 10,
    features: int | None = None,
    nests: int = 3,
    beta: Weights | None = None,
    lambdas: Weights | None = None,
) -> Generated:
    """Nested logit with V = < beta, x >; see :func:`nested_logit` for P.

    Each item falls into one of the nests at random; the column ``nest`` says which, and is no
    feature. IIA holds within a nest and fails across nests where lambda < 1.

    Args:
        sets: how many choices.
        seed: the same seed gives the same data.
        items: items a set, or the least and the most, (2, 10), uniform between.
        features: how many; 8, or as many as ``beta`` has.
        nests: how many nests.
        beta: the weights; evenly spaced from -1 to 1 by default.
        lambdas: dissimilarity of each nest, 0 < lambda <= 1; from 0.3 to 0.9 by default.

    >>> sorted(set(nested(sets=50).columns["nest"].tolist()))
    [0, 1, 2]
    """
    rng, weights = generator(seed), _beta(beta, features)
    dissimilarity = _lambdas(lambdas, whole("nests", nests, least=1))
    owner = set_of_rows(rng, sets, items)
    x = rng.normal(size=(len(owner), len(weights)))
    nest = rng.integers(nests, size=len(owner))
    truth = nested_logit(x @ weights, nest, dissimilarity, owner)
    parameters = {"beta": weights, "lambda": dissimilarity}
    return with_features(x, owner, choose(rng, truth, owner), truth, parameters, nest=nest)


def nested_logit(
    utilities: Float[np.ndarray, " rows"],
    nest: Int[np.ndarray, " rows"],
    lambdas: Float[np.ndarray, " nests"],
    owner: Int[np.ndarray, " rows"],
) -> Float64[np.ndarray, " rows"]:
    """P(x | s) = P(k | s) P(x | k, s) for an item x in nest k, with inclusive values I.

    I_k = log sum over z in k of exp(V_z / lambda_k); P(k | s) = softmax over the nests present of
    lambda_k I_k; P(x | k, s) = exp(V_x / lambda_k - I_k). The product is the softmax over s of
    V_x / lambda_k + (lambda_k - 1) I_k.

    >>> one_nest = nested_logit(np.zeros(3), np.array([0, 0, 1]), np.array([0.5, 1.0]),
    ...                         np.array([0, 0, 0]))
    >>> one_nest.round(4).tolist()  # the nest of two weighs 2 ** 0.5, not 2
    [0.2929, 0.2929, 0.4142]
    """
    own = lambdas[nest]
    group = owner * len(lambdas) + nest
    inclusive = log_sums(utilities / own, group, (int(owner[-1]) + 1) * len(lambdas))[group]
    return softmax(utilities / own + (own - 1) * inclusive, owner)


def mixed(
    sets: int = 1000,
    seed: int = 0,
    items: SetSizes = 10,
    features: int | None = None,
    classes: int = 2,
    shares: Weights | None = None,
    theta: Sequence[Weights] | Float[np.ndarray, "k d"] | None = None,
) -> Generated:
    """Discrete mixed logit: P(x | s) = sum_k pi_k softmax over s of < theta_k, x >.

    The class k of a set is drawn first, then the choice from that class; the column
    ``latent_class`` says which, and is no feature.

    Args:
        sets: how many choices.
        seed: the same seed gives the same data.
        items: items a set, or the least and the most, (2, 10), uniform between.
        features: how many; 8, or as many as ``theta`` has.
        classes: how many classes.
        shares: pi; in proportion to K, ..., 2, 1 by default, so that the classes have an order.
        theta: the weights of each class, K x d; by default class k looks only at every K-th
            feature from the k-th, with alternating signs and norm 3: classes are orthogonal.

    >>> mixed(sets=5, features=4).parameters["theta"].round(2).tolist()
    [[2.12, 0.0, -2.12, 0.0], [0.0, 2.12, 0.0, -2.12]]
    """
    rng, classes = generator(seed), whole("classes", classes, least=1)
    weights, pi = _theta(theta, features, classes), _shares(shares, classes)
    owner = set_of_rows(rng, sets, items)
    x = rng.normal(size=(len(owner), weights.shape[1]))
    latent = rng.choice(classes, size=int(owner[-1]) + 1, p=pi)[owner]
    by_class = np.stack([softmax(x @ of_class, owner) for of_class in weights], 1)
    chosen = choose(rng, by_class[np.arange(len(owner)), latent], owner)
    parameters = {"shares": pi, "theta": weights}
    return with_features(x, owner, chosen, by_class @ pi, parameters, latent_class=latent)


def _beta(beta: Weights | None, features: int | None) -> Float64[np.ndarray, " d"]:
    if beta is None:
        return np.linspace(-1, 1, whole("features", FEATURES if features is None else features, 1))
    length = len(beta) if features is None else whole("features", features, least=1)
    return numbers("beta", beta, (length,))


def _lambdas(lambdas: Weights | None, nests: int) -> Float64[np.ndarray, " k"]:
    given = np.linspace(0.3, 0.9, nests) if lambdas is None else lambdas
    checked = numbers("lambdas", given, (nests,))
    if (checked <= 0).any() or (checked > 1).any():
        raise InputError(f"lambdas={checked.tolist()} must lie above 0 and at most at 1")
    return checked


def _theta(
    theta: Sequence[Weights] | Float[np.ndarray, "k d"] | None, features: int | None, classes: int
) -> Float64[np.ndarray, "k d"]:
    if theta is not None:
        width = len(theta[0]) if features is None else whole("features", features, least=1)
        return numbers("theta", theta, (classes, width))
    features = whole("features", FEATURES if features is None else features, least=1)
    if features < classes:
        raise InputError(
            f"features={features} is fewer than classes={classes}; each class looks at features "
            "of its own, so give more features, fewer classes or theta"
        )
    weights = np.zeros((classes, features))
    for k in range(classes):
        seen = weights[k, k::classes]
        seen[:] = 3 / np.sqrt(len(seen)) * (-1.0) ** np.arange(len(seen))
    return weights


def _shares(shares: Weights | None, classes: int) -> Float64[np.ndarray, " k"]:
    given = np.arange(classes, 0, -1.0) if shares is None else shares
    pi = numbers("shares", given, (classes,))
    if (pi <= 0).any():
        raise InputError(f"shares={pi.tolist()} must be positive")
    return pi / pi.sum()

"""Models as generators: logits, sharp effects, and models of the family.

Every item has features x ~ N(0, 1), in the columns x0, x1, ... The truth of a model of the family
are its initial weights; JAX is loaded only if such a model is asked for.

The three context effects of the literature, in sets of three options.

Options have two attributes, x1 and x2, higher is better in both. A is strong in x1, B in x2; they
trade off along a line x1 + x2 = const. Where the third option lies decides whom it helps:

attraction
    a decoy just below the favoured option, dominated by it and not by the other
compromise
    an extreme option beyond the favoured one, which becomes the middle
similarity
    a near copy of the other option, which shares its attention; the favoured one stands alone

Who profits follows from the attributes alone (:func:`context_scores`), never from a label. A
model that scores items alone cannot learn it. Nor can one that sees the set's mean only: the
place on the line varies far more from set to set than the third option moves the mean.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from setwise import _segments
from setwise._arguments import checked, optional, text, whole
from setwise._errors import InputError
from setwise._shapes import Bool, Float, Float64, Int
from setwise.choices.choices import generator
from setwise.datasets.generated import (
    Generated,
    SetSizes,
    choose,
    log_sums,
    numbers,
    offsets_of_rows,
    set_of_rows,
    softmax,
    with_features,
)

FEATURES = 8
Weights = Sequence[float] | Float[np.ndarray, " d"]


@checked(features=optional(whole()))
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
        items: items per set, or the least and the most, (2, 10), uniform between.
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


def sharp(sets: int = 1000, seed: int = 0, items: SetSizes = 6) -> Generated:
    """Sharp effects: a price threshold, an exact level, and an interaction of two features.

        V(x) = 2 [price < 40] + 1.5 [stars = 3] + 1.5 [price < 60 and rating > 8] + 0.05 rating

    Prices are uniform from 10 to 100, stars from 1 to 5, ratings from 5 to 10; P is the softmax of
    V, so that IIA holds. Smooth models must approximate the steps.

    Args:
        sets: how many choices.
        seed: the same seed gives the same data.
        items: items per set, or the least and the most, (2, 10), uniform between.

    >>> sharp(sets=200)
    Generated(200 sets, 1,200 rows; items: price, stars, rating; parameters: steps)
    """
    rng = generator(seed)
    owner = set_of_rows(rng, sets, items)
    rows = len(owner)
    price = rng.uniform(10, 100, rows).round(2)
    stars, rating = rng.integers(1, 6, rows).astype(float), rng.uniform(5, 10, rows)
    steps = np.array([2.0, 1.5, 1.5, 0.05])
    shown = (price < 40, stars == 3, (price < 60) & (rating > 8), rating)
    truth = softmax(np.column_stack(shown) @ steps, owner)
    columns = {
        "set_id": owner, "price": price, "stars": stars, "rating": rating,
        "chosen": choose(rng, truth, owner),
    }  # fmt: skip
    return Generated(columns, ("price", "stars", "rating"), truth, {"steps": steps})


@checked(features=optional(whole()), nests=whole())
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
        items: items per set, or the least and the most, (2, 10), uniform between.
        features: how many; 8, or as many as ``beta`` has.
        nests: how many nests.
        beta: the weights; evenly spaced from -1 to 1 by default.
        lambdas: dissimilarity of each nest, 0 < lambda <= 1; from 0.3 to 0.9 by default.

    >>> sorted(set(nested(sets=50).columns["nest"].tolist()))
    [0, 1, 2]
    """
    rng, weights = generator(seed), _beta(beta, features)
    dissimilarity = _lambdas(lambdas, nests)
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


@checked(features=optional(whole()), classes=whole())
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
    ``latent_class`` says which, and is not a feature.

    Args:
        sets: how many choices.
        seed: the same seed gives the same data.
        items: items per set, or the least and the most, (2, 10), uniform between.
        features: how many; 8, or as many as ``theta`` has.
        classes: how many classes.
        shares: pi; in proportion to K, ..., 2, 1 by default, so that the classes have an order.
        theta: the weights of each class, K x d; by default class k looks only at every K-th
            feature from the k-th, with alternating signs and norm 3: classes are orthogonal.

    >>> mixed(sets=5, features=4).parameters["theta"].round(2).tolist()
    [[2.12, 0.0, -2.12, 0.0], [0.0, 2.12, 0.0, -2.12]]
    """
    rng = generator(seed)
    weights, pi = _theta(theta, features, classes), _shares(shares, classes)
    owner = set_of_rows(rng, sets, items)
    x = rng.normal(size=(len(owner), weights.shape[1]))
    latent = rng.choice(classes, size=int(owner[-1]) + 1, p=pi)[owner]
    by_class = np.stack([softmax(x @ of_class, owner) for of_class in weights], 1)
    chosen = choose(rng, by_class[np.arange(len(owner)), latent], owner)
    parameters = {"shares": pi, "theta": weights}
    return with_features(x, owner, chosen, by_class @ pi, parameters, latent_class=latent)


@checked(features=optional(whole()), choices=whole())
def panel(
    sets: int = 1000,
    seed: int = 0,
    items: SetSizes = 4,
    features: int | None = None,
    choices: int = 8,
    beta: Weights | None = None,
    spread: Sequence[Any] | Float[np.ndarray, "..."] | None = None,
) -> Generated:
    """Mixed logit over panels: person n has weights beta_n ~ N(beta, L L') in all their choices.

    The column ``person`` says who chose, and is not a feature: read it with ``group="person"``.
    ``probabilities`` are those of the person.

    Args:
        sets: how many choices.
        seed: the same seed gives the same data.
        items: items per set, or the least and the most, (2, 10), uniform between.
        features: how many; 4, or as many as ``beta`` has.
        choices: choices per person.
        beta: the mean weights; evenly spaced from -1 to 1 by default.
        spread: L, or the standard deviations of independent weights; 0.7 for all by default.

    >>> drawn = panel(sets=20, features=2)
    >>> drawn.columns["person"].max() + 1, drawn.parameters["spread"].tolist()
    (np.int64(3), [[0.7, 0.0], [0.0, 0.7]])
    """
    rng, weights = generator(seed), _beta(beta, features or (4 if beta is None else None))
    d = len(weights)
    given = np.full(d, 0.7) if spread is None else np.asarray(spread)
    root = numbers("spread", given, (d, d) if given.ndim == 2 else (d,))
    root = root if root.ndim == 2 else np.diag(root)
    owner = set_of_rows(rng, sets, items)
    person = owner // choices
    x = rng.normal(size=(len(owner), d))
    own = weights + rng.normal(size=(int(person[-1]) + 1, d)) @ root.T
    truth = softmax((x * own[person]).sum(1), owner)
    parameters = {"beta": weights, "spread": root}
    return with_features(x, owner, choose(rng, truth, owner), truth, parameters, person=person)


def _beta(beta: Weights | None, features: int | None) -> Float64[np.ndarray, " d"]:
    if beta is None:
        return np.linspace(-1, 1, features or FEATURES)
    return numbers("beta", beta, (features or len(beta),))


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
        return numbers("theta", theta, (classes, features or len(theta[0])))
    features = features or FEATURES
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


CONDITIONS = ("attraction", "compromise", "similarity")
ALIKE = 0.9
"""Options no further apart than this in both attributes are alike, unless one dominates."""


@checked(sets=whole())
def decoy(
    sets: int = 1000,
    seed: int = 0,
    attraction: float = 1.0,
    compromise: float = 1.0,
    similarity: float = 1.0,
    beta: Sequence[float] | Float[np.ndarray, "2"] = (2.0, 2.0),
) -> Generated:
    """Choices among A, B and a third option: P(x | s) = softmax of :func:`context_scores`.

    The columns ``condition``, ``favours`` ("A" or "B") and ``option`` ("A", "B" or "third") say
    how a set was made; the options stand in random order.

    Args:
        sets: how many choices; each is of a random condition and favours A or B at random.
        seed: the same seed gives the same data.
        attraction: by how much that condition raises the log-odds of favoured against other option.
        compromise: the same for compromise.
        similarity: the same; with log 2 the two alike options together get what one would.
        beta: the weights of x1 and x2.

    >>> drawn = decoy(sets=4)
    >>> drawn.items, sorted(set(drawn.columns["option"].tolist()))
    (('x1', 'x2'), ['A', 'B', 'third'])
    """
    rng, weights = generator(seed), numbers("beta", beta, (2,))
    given = zip(CONDITIONS, (attraction, compromise, similarity), strict=True)
    strengths = {name: float(numbers(name, value, ())) for name, value in given}
    condition, favours = rng.integers(3, size=sets), rng.integers(2, size=sets)
    order = rng.permuted(np.tile(np.arange(3), (sets, 1)), axis=1)
    x = np.take_along_axis(_options(rng, condition, favours), order[:, :, None], axis=1)
    owner = np.repeat(np.arange(sets), 3)
    truth = softmax(context_scores(x, weights, **strengths).reshape(-1), owner)
    columns = {
        "set_id": owner,
        "chosen": choose(rng, truth, owner),
        "condition": np.array(CONDITIONS)[condition][owner],
        "favours": np.array(["A", "B"])[favours][owner],
        "option": np.array(["A", "B", "third"])[order.reshape(-1)],
        "x1": x[:, :, 0].reshape(-1),
        "x2": x[:, :, 1].reshape(-1),
    }
    return Generated(columns, ("x1", "x2"), truth, {"beta": weights, **strengths})


def context_scores(
    x: Float[np.ndarray, "sets n 2"],
    beta: Float[np.ndarray, "2"],
    attraction: float,
    compromise: float,
    similarity: float,
) -> Float64[np.ndarray, "sets n"]:
    """g(x, s) of every option of every set, from the attributes of the set and nothing else.

    g(x, s) = < beta, x >
            + attraction * [x dominates a z in s that another option of s does not dominate]
            + compromise * [x is neither best nor worst in either attribute, and none are alike]
            + similarity * [two options of s are alike, and x is like none]

    y dominates z if it is at least as good in both attributes and better in one. y and z are
    alike if they differ by at most ``ALIKE`` in each attribute and neither dominates. In sets of
    two the last three terms are zero: without a third option there is no context.

    >>> middle = np.array([[[1.0, 5.0], [3.0, 3.0], [5.0, 1.0]]])
    >>> context_scores(middle, np.ones(2), 1.0, 1.0, 1.0).tolist()
    [[6.0, 7.0, 6.0]]
    """
    dominates, alike = _dominates(x), _alike(x)
    n = x.shape[1]
    # With n - 1 dominators every option but z itself dominates z, which sets none of them apart.
    asymmetric = dominates & (dominates.sum(1, keepdims=True) < n - 1)
    inside = ((x > x.min(1, keepdims=True)) & (x < x.max(1, keepdims=True))).all(2)
    like_another = np.any(alike, axis=2)
    any_alike = np.any(like_another, axis=1, keepdims=True)
    return (
        x @ beta
        + attraction * asymmetric.any(2)
        + compromise * (inside & ~any_alike)
        + similarity * (any_alike & ~like_another)
    )


def _dominates(x: Float[np.ndarray, "sets n 2"]) -> Bool[np.ndarray, "sets n n"]:
    """Whether the first option dominates the second."""
    ahead = x[:, :, None] - x[:, None, :]
    return (ahead >= 0).all(-1) & (ahead > 0).any(-1)


def _alike(x: Float[np.ndarray, "sets n 2"]) -> Bool[np.ndarray, "sets n n"]:
    """Whether two different options are close, and neither is better."""
    near = (np.abs(x[:, :, None] - x[:, None, :]) <= ALIKE).all(-1)
    dominates = _dominates(x)
    itself = np.eye(x.shape[1], dtype=bool)
    return near & ~dominates & ~dominates.swapaxes(1, 2) & ~itself


def _options(
    rng: np.random.Generator, condition: Int[np.ndarray, " sets"], favours: Int[np.ndarray, " sets"]
) -> Float64[np.ndarray, "sets 3 2"]:
    """A, B and the third option of each set, as (5 + t + q, 5 - t + q): place t and quality q.

    All noise is bounded, so that each set shows the effect of its condition and no other: y
    dominates z if q_y - q_z >= |t_y - t_z|; else they are alike if |t_y - t_z| + |q_y - q_z| is at
    most ``ALIKE``. The bounds below keep clear of both limits.
    """
    sets = len(condition)

    def between(low: float, high: float) -> Float64[np.ndarray, " sets"]:
        return rng.uniform(low, high, sets)

    centre, half = between(-3.0, 3.0), between(0.8, 1.2)
    side = np.where(favours == 0, 1, -1)  # A lies at larger t
    favoured, other = centre + side * half, centre - side * half
    quality = rng.uniform(-0.1, 0.1, (sets, 3))
    quality_of_favoured = quality[np.arange(sets), favours]
    third = np.choose(condition, [
        favoured + between(-0.1, 0.1),
        favoured + side * 2 * half * between(0.8, 1.2),  # at least 1.28 away
        other + between(0.25, 0.4) * rng.choice([-1, 1], sets),  # more than qualities differ
    ])  # fmt: skip
    is_attraction = condition == CONDITIONS.index("attraction")
    quality[is_attraction, 2] = (quality_of_favoured - between(0.25, 0.45))[is_attraction]
    t = np.stack([centre + half, centre - half, third], 1)
    return np.stack([5 + t + quality, 5 - t + quality], 2)


REFERENCE_SETS = 1000
SETS_PER_CHUNK = 1024


@checked(features=whole(), dimension=whole(), recipe=text)
def sda(
    sets: int = 1000,
    seed: int = 0,
    items: SetSizes = 10,
    features: int = 8,
    recipe: str = "sda_difference",
    dimension: int = 4,
    strength: float = 2.0,
) -> Generated:
    """A model of the zoo as the truth: P(x | s) = softmax over s of strength * g(x, s) / scale.

    g has random weights, drawn from the seed, and ``scale`` is its standard deviation within sets
    (over 1,000 other sets of the same sizes, so that the truth does not depend on ``sets``).

    Args:
        sets: how many choices.
        seed: of the model and of the data.
        items: items per set, or the least and the most, (2, 10), uniform between.
        features: how many, each N(0, 1).
        recipe: a name in ``setwise.models.ZOO``.
        dimension: l, the model's number of score functions.
        strength: the spread of the scores; 0 makes choices random, large ones deterministic.

    >>> drawn = sda(sets=50, items=(2, 4))
    >>> drawn.parameters["F.theta"].shape
    (8, 4, 1)
    """
    rng = generator(seed)
    strength = float(numbers("strength", strength, ()))
    model = _build(recipe, features, dimension, seed)
    reference = np.random.default_rng([seed, 1])  # apart from the data, so that they stay the same
    scale = float(_centred_scores(model, *_items(reference, REFERENCE_SETS, items, features)).std())
    owner, x = _items(rng, sets, items, features)
    # Sets of one item, or a model without slope, have no spread to divide by.
    truth = softmax(strength / (scale or 1.0) * _centred_scores(model, owner, x), owner)
    parameters = _weights(model) | {"strength": strength, "scale": scale}
    return with_features(x, owner, choose(rng, truth, owner), truth, parameters)


def _build(recipe: str, features: int, dimension: int, seed: int) -> Any:
    """The model, with JAX imported only here and below: most users of data sets need none."""
    import jax

    from setwise.models import ZOO, Sizes

    if recipe not in ZOO:
        raise InputError(f"recipe={recipe!r} is not a model; the models are: {', '.join(ZOO)}")
    return ZOO[recipe].build(features, Sizes(dimension=dimension), jax.random.key(seed))


def _items(
    rng: np.random.Generator, sets: int, items: SetSizes, features: int
) -> tuple[Int[np.ndarray, " rows"], Float[np.ndarray, "rows d"]]:
    """The set of each row and its features, in the precision that models read them in."""
    owner = set_of_rows(rng, sets, items)
    return owner, rng.standard_normal((len(owner), features), np.float32)


def _centred_scores(
    model: Any, owner: Int[np.ndarray, " rows"], x: Float[np.ndarray, "rows d"]
) -> Float64[np.ndarray, " rows"]:
    """g(x, s) of every row, less its mean over s (which no probability depends on)."""
    offsets = offsets_of_rows(owner)
    sizes = np.diff(offsets)
    # Chunks of one shape, the last filled with empty sets: one program, and bounded memory.
    chunks = -(-len(sizes) // SETS_PER_CHUNK)
    filled = np.zeros(chunks * SETS_PER_CHUNK, np.int64)
    filled[: len(sizes)] = sizes
    present = np.arange(sizes.max()) < filled[:, None]
    padded = np.zeros((*present.shape, x.shape[1]), x.dtype)
    padded[present] = x
    parts = zip(np.split(padded, chunks), np.split(present, chunks), strict=True)
    by_set = np.concatenate([_scores()(model, *part) for part in parts])
    scores = by_set[present].astype(np.float64)
    return _segments.centred(scores, offsets)


@cache
def _scores() -> Any:
    """g for many sets, compiled; kept, so that each shape compiles once."""
    import jax

    return jax.jit(jax.vmap(lambda model, *one: model.scores(*one), in_axes=(None, 0, 0)))


def _weights(model: Any) -> dict[str, np.ndarray | float]:
    """The model's arrays by the path to them, such as ``F.theta``."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(model)
    return {jax.tree_util.keystr(path).lstrip("."): np.asarray(leaf) for path, leaf in leaves}

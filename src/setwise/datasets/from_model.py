"""Choices drawn from the family's own models, with their initial weights as the truth."""

from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int

from setwise import _segments
from setwise._arguments import checked, text, whole
from setwise._errors import InputError
from setwise.choices.choices import generator
from setwise.datasets.generated import (
    Generated,
    SetSizes,
    choose,
    numbers,
    offsets_of_rows,
    set_of_rows,
    softmax,
    with_features,
)

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

"""Models with arbitrary weights and sets of all sizes, for tests of scoring without the engine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import setwise as sw
from setwise import _masked
from setwise.models import ZOO, Ensemble, Model, Sizes

# Between them these compute with most of what the zoo computes with; the others are slow tests.
TELLING = ("sda", "nccm", "mcfadden", "set_transformer")
EVERY = [name if name in TELLING else pytest.param(name, marks=pytest.mark.slow) for name in ZOO]

WIDTH = 5
SMALL = Sizes(dimension=3, components=2, hidden=4)


def built(name: str, seed: int = 0, sizes: Sizes = SMALL, width: int = WIDTH) -> Model:
    """A model of the zoo with weights that are all different: zeros would hide mistakes."""
    rng = np.random.default_rng(seed)
    model = ZOO[name].skeleton(width, sizes)

    def drawn(leaf):
        return jnp.asarray(rng.normal(scale=0.5, size=leaf.shape), leaf.dtype)

    return jax.tree.map(drawn, model)


def variants(name: str, sizes: Sizes = SMALL) -> dict[str, Model]:
    """The model alone, an ensemble, and one whose members have weights."""
    several = [built(name, seed, sizes) for seed in range(3)]
    return {
        "alone": several[0],
        "ensemble": Ensemble.of(several),
        "weighed": Ensemble.of(several, np.array([0.2, 0.5, 0.3])),
    }


def padded(sizes: list[int], width: int = WIDTH, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Sets of these sizes, padded with noise."""
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(len(sizes), max(sizes), width)).astype(np.float32)
    return items, np.arange(max(sizes)) < np.array(sizes)[:, None]


def by_jax(model: Model, items: np.ndarray, present: np.ndarray) -> np.ndarray:
    """log P(x | s), as the models themselves compute it."""

    @jax.jit
    def logs(model, items, present):
        return jax.vmap(lambda x, p: _masked.log_softmax(model.scores(x, p), p))(items, present)

    return np.asarray(logs(model, items, present))


def rows(sizes: list[int], seed: int = 0) -> dict[str, np.ndarray]:
    """A table with columns of every kind; sets without a choice, and sets of these sizes."""
    rng = np.random.default_rng(seed)
    count, sets = sum(sizes), np.repeat(np.arange(len(sizes)), sizes)
    taken = np.zeros(count, int)
    starts = np.cumsum([0, *sizes[:-1]])
    taken[starts + rng.integers(0, sizes)] = rng.random(len(sizes)) < 0.8
    return {
        "search": sets,
        "cost": rng.lognormal(size=count),
        "stars": rng.integers(1, 6, count),
        "review": np.where(rng.random(count) < 0.2, np.nan, rng.random(count)),
        "brand": rng.choice(["red", "green", "blue"], count),
        "hotel": rng.choice([f"h{i}" for i in range(9)], count),
        "day": np.datetime64("2024-01-01") + rng.integers(-9000, 9000, count),
        "age": rng.integers(20, 80, len(sizes))[sets].astype(float),
        "city": rng.choice(["Rome", "Oslo"], len(sizes))[sets],
        "booked": taken,
    }


FEATURES = [
    "log(cost)",
    "sqrt(stars)",
    "impute(log1p(review))",
    "other(brand)",
    "popularity(hotel)",
    "day",
]


def read(table: dict[str, np.ndarray]) -> sw.Choices:
    """With an outside option and context."""
    return sw.read(
        table, set="search", chosen="booked", items=FEATURES, context=["age", "city"],
        on_none="outside",
    )  # fmt: skip


def as_fitted(name: str, schema: sw.Schema, ensemble: int = 1) -> sw.ChoiceModel:
    """An estimator as after training, with arbitrary weights."""
    estimator = sw.ChoiceModel(
        name, dimension=SMALL.dimension, components=SMALL.components, hidden=SMALL.hidden,
        ensemble=ensemble,
    )  # fmt: skip
    members = [built(name, seed, width=schema.width) for seed in range(ensemble)]
    estimator.schema_ = schema
    estimator.model_ = members[0] if ensemble == 1 else Ensemble.of(members)
    estimator.history_, estimator.best_epoch_, estimator.interrupted_ = [], 0, False
    estimator.weights_ = [1 / ensemble] * ensemble
    return estimator


class Everything(Model):
    """Computes with operations that no model of the zoo needs, but the next one may."""

    w: jax.Array

    def scores(self, items, present, dropout=None):
        x = jax.nn.sigmoid(items) + jnp.expm1(items / 9) - jnp.floor(items) + jax.nn.silu(items)
        x = jnp.clip(x, -2.0, 2.5) * jnp.sign(items) + items**3 + jnp.square(items)
        x = x + jax.lax.rsqrt(1 + items**2) + jnp.log1p(items**2) + (items >= 0.5) * 1.0
        x = jnp.where(~(items <= 0) | (items == 1), x, jnp.minimum(x, 1.0))
        y = jnp.stack([x[:, 0], x[:, 1]], 1)[:, 1:]
        every = jnp.all(items > -9, axis=1) & jnp.any(items != 0, axis=1)
        paired = jnp.einsum("nd,md->nm", items, items).sum(1)
        x = x - items.mean(0)
        return jnp.where(every, (x @ self.w).mean(1) + y[:, 0] + jnp.tanh(paired), 0.0)


def everything() -> Everything:
    """For items of two features."""
    return Everything(jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)), jnp.float32))

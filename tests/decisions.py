"""Small models and tables of candidates for tests of decisions, and brute force in plain words."""

import itertools

import numpy as np

import setwise as sw
from setwise import datasets
from setwise.scoring import Scorer

ITEMS = ["x0", "x1"]
LIMITS = {
    "none": {},
    "at most": {"at_most": 3},
    "between": {"at_least": 2, "at_most": 4},
    "must": {"must": "fixed", "at_most": 3},
    "exclusive": {"at_most": 3, "exclusive": "brand"},
    "capacity": {"capacity": {"width": 1.0}},
    "all": {"at_least": 2, "at_most": 4, "exclusive": "brand", "capacity": {"width": 1.5}},
}


def without_firsts(columns: dict) -> dict:
    """The same table without the first item of each set: who chose it now chooses nothing."""
    kept = np.concatenate([[False], np.diff(columns["set_id"]) == 0])
    return {name: values[kept] for name, values in columns.items()}


def read(columns: dict, *more: str) -> sw.Choices:
    roles = {"set": "set_id", "chosen": "chosen", "items": [*ITEMS, *more]}
    empty = (np.bincount(columns["set_id"], columns["chosen"]) == 0).any()
    return sw.read(columns, **roles, on_none="outside" if empty else "error")


def logits() -> dict[str, sw.estimators.Estimator]:
    """A fitted model of each kind that has a proof."""
    rng = np.random.default_rng(0)
    plain = dict(datasets.generate("mnl", sets=300, items=(4, 9), features=2, seed=1).columns)
    kinds = dict(datasets.generate("mixed", sets=1000, features=2, seed=3).columns)
    some = without_firsts(plain)
    some["nest"] = rng.integers(0, 3, len(some["chosen"]))
    return {
        "logit": sw.MNL().fit(read(plain)),
        "logit with outside option": sw.MNL().fit(read(some)),
        "latent class": sw.LatentClass(2, starts=2).fit(read(without_firsts(kinds))),
        "nested": sw.NestedLogit("nest").fit(read(some, "category(nest)")),
    }


def candidates(contexts: int, most: int, seed: int) -> dict[str, np.ndarray]:
    """A table of random candidates, 3 to ``most`` per context."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, most, contexts, endpoint=True)
    rows, owner = int(sizes.sum()), np.repeat(np.arange(contexts), sizes)
    first = np.concatenate([[True], np.diff(owner) > 0])
    return {
        "set_id": owner, "x0": 2 * rng.normal(size=rows), "x1": 2 * rng.normal(size=rows),
        "nest": rng.integers(0, 3, rows), "brand": rng.integers(0, 4, rows),
        "width": rng.uniform(0, 1, rows), "margin": rng.uniform(1, 10, rows),
        "fixed": first & (rng.random(rows) < 0.5),
    }  # fmt: skip


def allowed(table: dict, rows: np.ndarray, limits: dict) -> bool:
    """Whether these rows may be shown together."""
    if not limits.get("at_least", 1) <= len(rows) <= limits.get("at_most", 99):
        return False
    context = np.flatnonzero(table["set_id"] == table["set_id"][rows[0]])
    if "must" in limits and not set(context[table["fixed"][context]]) <= set(rows):
        return False
    if "exclusive" in limits and len(set(table["brand"][rows])) < len(rows):
        return False
    room = limits.get("capacity", {}).get("width", np.inf)
    return bool(table["width"][rows].sum() <= room)


def brute_force(scorer: Scorer, table: dict, limits: dict) -> np.ndarray:
    """What the best allowed set of each context earns: every set scored as a table is."""
    subsets, owner = [], []
    for context in range(table["set_id"].max() + 1):
        rows = np.flatnonzero(table["set_id"] == context)
        for size in range(1, len(rows) + 1):
            for some in itertools.combinations(rows, size):
                if allowed(table, np.array(some), limits):
                    subsets.append(np.array(some))
                    owner.append(context)
    rows = np.concatenate(subsets)
    number = np.repeat(np.arange(len(subsets)), [len(one) for one in subsets])
    every = {name: values[rows] for name, values in table.items()} | {"set_id": number}
    earned = np.bincount(number, scorer.predict_proba(every) * table["margin"][rows])
    best = np.full(table["set_id"].max() + 1, -np.inf)
    np.maximum.at(best, np.array(owner), earned)
    return best


def scorer_of(model: sw.estimators.Estimator) -> Scorer:
    """The model as NumPy runs it."""
    return Scorer.of(model.artifact(), "the model")

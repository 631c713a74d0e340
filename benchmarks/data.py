"""Generated choices, the same for every side: made once with NumPy, handed over as an .npz file.

``items`` holds the rows of all sets one after another, ``sizes`` the number of rows of each set,
``chosen`` the position of the chosen item within its set.
"""

from pathlib import Path

import numpy as np


def make(
    sets: int, items: int, features: int, seed: int, context: bool = False, ragged: bool = False
) -> dict[str, np.ndarray]:
    """Choices by utility x . b plus Gumbel noise: the multinomial logit.

    With ``context``, the weights of features move with the set's mean item, so that the choices
    break IIA. With ``ragged``, sets have 2 to ``items`` items instead of exactly ``items``.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((sets, items, features))
    weights = np.tile(np.linspace(-1, 1, features), (sets, 1))
    if context:
        drift = rng.standard_normal((features, features)) / np.sqrt(features)
        weights += x.mean(1) * np.sqrt(items) @ drift
    sizes = rng.integers(2, items + 1, sets) if ragged else np.full(sets, items)
    present = np.arange(items) < sizes[:, None]
    utility = np.einsum("snd,sd->sn", x, weights) + rng.gumbel(size=(sets, items))
    chosen = np.where(present, utility, -np.inf).argmax(1)
    return {"items": x[present], "sizes": sizes, "chosen": chosen}


def part(choices: dict[str, np.ndarray], first: int, last: int) -> dict[str, np.ndarray]:
    """The sets from number ``first`` up to ``last``."""
    ends = np.cumsum(choices["sizes"])
    rows = slice(ends[first] - choices["sizes"][first], ends[last - 1])
    sets = slice(first, last)
    return {
        "items": choices["items"][rows],
        "sizes": choices["sizes"][sets],
        "chosen": choices["chosen"][sets],
    }


def write(folder: Path, name: str, choices: dict[str, np.ndarray]) -> Path:
    path = folder / f"{name}.npz"
    np.savez(path, **choices)
    return path


def read(path: str | Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


def is_ragged(choices: dict[str, np.ndarray]) -> bool:
    """Whether the sets differ in size."""
    return bool(np.ptp(choices["sizes"]))


def padded(choices: dict[str, np.ndarray], dtype: type = np.float64) -> tuple[np.ndarray, ...]:
    """What most rivals ask for: an array of sets × items × features, and which items are there."""
    sizes = choices["sizes"]
    present = np.arange(sizes.max()) < sizes[:, None]
    x = np.zeros((*present.shape, choices["items"].shape[1]), dtype)
    x[present] = choices["items"]
    return x, present


def numbers(choices: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """For tables of rows: the number of each row's set, and of the item within it."""
    sizes = choices["sizes"]
    sets = np.repeat(np.arange(len(sizes)), sizes)
    return sets, np.arange(len(sets)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def log_likelihood(choices: dict[str, np.ndarray], coefficients: np.ndarray) -> float:
    """The multinomial logit's, in double precision: one judge for what every side has found."""
    utility = choices["items"] @ np.asarray(coefficients, np.float64)
    starts = np.cumsum(choices["sizes"]) - choices["sizes"]
    norms = np.logaddexp.reduceat(utility, starts)
    return float((utility[starts + choices["chosen"]] - norms).sum())


def marks(sizes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """1 for the chosen row of each set, 0 for the others."""
    marked = np.zeros(sizes.sum(), np.int64)
    marked[np.cumsum(sizes) - sizes + chosen] = 1
    return marked

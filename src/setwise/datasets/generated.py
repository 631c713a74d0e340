"""Choices drawn from a known truth, and the steps that all generators share.

Rows are flat, as in :class:`setwise.choices.Choices`: ``owner`` holds the set of each row, counted
from 0, and the rows of one set lie side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise import _arguments, _segments
from setwise._errors import InputError
from setwise._shapes import Float, Float64, Int
from setwise.choices import Choices, read

SetSizes = int | Sequence[int]
"""A number of items, or the least and the most."""


@dataclass(frozen=True, eq=False)
class Generated:
    """A table of choices, with the probabilities that they were drawn from.

    ``columns`` are the table; ``items`` names the features among them (the others, such as a
    latent class, no model should see). ``probabilities`` holds the true P(x | s) of every row;
    for a part of the choices it is ``probabilities[part.rows]``. ``parameters`` made them.

    >>> from setwise import datasets
    >>> drawn = datasets.generate("mnl", sets=500, items=3, features=2, beta=(0.0, 0.0))
    >>> drawn
    Generated(500 sets, 1,500 rows; items: x0, x1; parameters: beta)
    >>> round(drawn.expected_top1, 4), round(drawn.expected_nll, 4)  # 1/3 and log 3
    (0.3333, 1.0986)
    """

    columns: Mapping[str, np.ndarray]
    items: tuple[str, ...]
    probabilities: Float64[np.ndarray, " rows"]
    parameters: Mapping[str, np.ndarray | float]

    @property
    def roles(self) -> dict[str, Any]:
        """The arguments for :func:`setwise.choices.read` that go with the columns."""
        roles = {"set": "set_id", "chosen": "chosen", "items": list(self.items)}
        return roles | {"group": "person"} if "person" in self.columns else roles

    @property
    def choices(self) -> Choices:
        """The columns, read as any other table is."""
        return read(self.columns, **self.roles)

    @property
    def table(self) -> Any:
        """The columns as a Polars frame."""
        import polars as pl

        return pl.DataFrame(dict(self.columns))

    @property
    def expected_top1(self) -> float:
        """The true model's accuracy, which none exceeds: the mean over sets of max P(x | s)."""
        return float(_segments.maxima(self.probabilities, self._offsets).mean())

    @property
    def expected_nll(self) -> float:
        """The true model's loss, which none undercuts: the mean entropy of P(. | s)."""
        p = self.probabilities
        surprise = -p * np.log(np.where(p > 0, p, 1))  # 0 log 0 is 0
        return float(surprise.sum() / (len(self._offsets) - 1))

    @property
    def _offsets(self) -> Int[np.ndarray, " sets_and_one"]:
        return offsets_of_rows(self.columns["set_id"])

    def __repr__(self) -> str:
        """Sizes and names: arrays would fill the screen."""
        return (
            f"Generated({len(self._offsets) - 1:,} sets, {len(self.probabilities):,} rows; "
            f"items: {', '.join(self.items)}; parameters: {', '.join(self.parameters)})"
        )


def set_of_rows(rng: np.random.Generator, sets: int, items: SetSizes) -> Int[np.ndarray, " rows"]:
    """The set of each row: ``items`` rows per set, or a uniform number between two.

    >>> set_of_rows(np.random.default_rng(0), sets=2, items=3).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    _arguments.whole()("sets", sets)
    bounds = items if isinstance(items, Sequence) else (items, items)
    if len(bounds) != 2:
        raise InputError(
            f"items={_arguments.shown(items)} must be one number, or the least and the most items"
        )
    for bound in bounds:
        _arguments.whole()("items", bound)
    low, high = bounds
    if low > high:
        raise InputError(
            f"items={_arguments.shown(items)} has the least above the most; exchange them"
        )
    return np.repeat(np.arange(sets), rng.integers(low, high, size=sets, endpoint=True))


def with_features(
    x: Float[np.ndarray, "rows d"],
    owner: Int[np.ndarray, " rows"],
    chosen: Int[np.ndarray, " rows"],
    truth: Float64[np.ndarray, " rows"],
    parameters: Mapping[str, np.ndarray | float],
    **others: np.ndarray,
) -> Generated:
    """Generated choices whose features are the columns x0, x1, ... of a matrix."""
    features = {f"x{i}": x[:, i] for i in range(x.shape[1])}
    columns = {"set_id": owner, "chosen": chosen} | others | features
    return Generated(columns, tuple(features), truth, parameters)


def offsets_of_rows(owner: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " sets_and_one"]:
    """Where the rows of each set begin and end."""
    return np.append(np.flatnonzero(np.diff(owner, prepend=-1)), len(owner))


def log_sums(
    values: Float[np.ndarray, " rows"], group: Int[np.ndarray, " rows"], groups: int
) -> Float64[np.ndarray, " groups"]:
    """log sum exp of the values of each group; minus infinity for a group without rows.

    >>> log_sums(np.log([1.0, 2.0, 5.0]), np.array([0, 0, 2]), 3).round(4).tolist()
    [1.0986, -inf, 1.6094]
    """
    top = np.full(groups, -np.inf)
    np.maximum.at(top, group, values)
    sums = np.bincount(group, np.exp(values - top[group]), groups)
    with np.errstate(divide="ignore"):
        return top + np.log(sums)


def softmax(
    scores: Float[np.ndarray, " rows"], owner: Int[np.ndarray, " rows"]
) -> Float64[np.ndarray, " rows"]:
    """P(x | s) = exp g(x, s) / sum over s, for flat rows.

    >>> softmax(np.log([1.0, 3.0, 7.0]), np.array([0, 0, 1])).round(4).tolist()
    [0.25, 0.75, 1.0]
    """
    return _segments.softmax(scores.astype(np.float64), offsets_of_rows(owner))


def choose(
    rng: np.random.Generator,
    probabilities: Float[np.ndarray, " rows"],
    owner: Int[np.ndarray, " rows"],
) -> Int[np.ndarray, " rows"]:
    """Draw one item of each set: 1 in its row, 0 in the others.

    The largest of log P(x | s) + Gumbel noise is a draw from P; unlike a search in cumulated
    probabilities, it cannot fall off a set's end by rounding.

    >>> choose(np.random.default_rng(0), np.array([0.0, 1.0, 1.0]), np.array([0, 0, 1])).tolist()
    [0, 1, 1]
    """
    with np.errstate(divide="ignore"):
        noisy = np.log(probabilities) + rng.gumbel(size=len(probabilities))
    best = _segments.maxima(noisy, offsets_of_rows(owner))
    return (noisy == best[owner]).astype(np.int8)


def numbers(name: str, values: Any, shape: tuple[int, ...]) -> Float64[np.ndarray, "..."]:
    """Finite numbers of this shape, or an error that names the option."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}={_arguments.shown(values)} must be numbers") from None
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}; these options need {shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name}={_arguments.shown(values)} must be finite")
    return array

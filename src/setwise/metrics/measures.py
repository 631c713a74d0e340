"""How good predictions are: of one model on one set of choices.

Ties are handled by expectation: if the chosen item shares its score with others, its rank is
uniform among the places that they share. Array order never decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise import _segments
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise._shapes import Float, Int, Shaped

HIGHER_IS_BETTER: Mapping[str, bool] = {
    "top1": True,
    "top5": True,
    "mean_rank": False,
    "mrr": True,
    "nll": False,
    "rho2": True,
    "calibration_error": False,
}
CALIBRATION_BINS = 15

Group = Sequence[Any] | Shaped[np.ndarray, " sets"]
"""One value per set: the person who made the choice, or what else makes sets alike."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where the chosen item of each set stands: how many items are better, how many are equal."""

    better: Int[np.ndarray, " sets"]
    equal: Int[np.ndarray, " sets"]  # the chosen item itself included

    @classmethod
    def of(
        cls,
        scores: Float[np.ndarray, " rows"],
        offsets: Int[np.ndarray, " sets_and_one"],
        chosen: Int[np.ndarray, " sets"],
    ) -> "Ranks":
        """Compare every item with the chosen item of its set."""
        rival = _segments.spread(scores[offsets[:-1] + chosen], offsets)
        return cls(
            _segments.sums(scores > rival, offsets), _segments.sums(scores == rival, offsets)
        )

    def top(self, k: int) -> Float[np.ndarray, " sets"]:
        """The probability that the chosen item is among the k best.

        >>> Ranks(np.array([0, 0, 1]), np.array([1, 4, 1])).top(1).tolist()
        [1.0, 0.25, 0.0]
        """
        return np.clip((k - self.better) / self.equal, 0, 1)

    def mean_rank(self) -> Float[np.ndarray, " sets"]:
        """The expected rank, 1 for the best."""
        return self.better + (self.equal + 1) / 2

    def reciprocal(self) -> Float[np.ndarray, " sets"]:
        """The expected reciprocal rank: the mean of 1 / rank over the places shared."""
        last = self.better + self.equal
        harmonic = np.concatenate([[0], np.cumsum(1 / np.arange(1, 1 + last.max()))])
        return (harmonic[last] - harmonic[self.better]) / self.equal


@dataclass(frozen=True, eq=False)
class Metrics(Mapping[str, float]):
    """Named measures with standard errors; reads as a mapping or by attribute.

    Errors are those of means over independent people where the person of each set is known
    (``people`` says how many), else over independent sets.

    >>> m = Metrics({"top1": 0.5}, {"top1": 0.1}, sets=25)
    >>> m["top1"], m.top1, m.standard_errors["top1"]
    (0.5, 0.5, 0.1)
    """

    values_: Mapping[str, float]
    standard_errors: Mapping[str, float]
    sets: int
    people: int = 0
    """How many people chose; 0 where the person of each set is not known."""

    def __getitem__(self, name: str) -> float:
        return self.values_[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name not in HIGHER_IS_BETTER:
            raise AttributeError(name)
        return self.values_[name]

    def to_frame(self) -> Any:
        """A Polars frame: metric, value, standard_error (null where a measure has none)."""
        import polars as pl

        errors = [self.standard_errors.get(name) for name in self]
        return pl.DataFrame(
            {"metric": list(self), "value": list(self.values()), "standard_error": errors},
            schema={"metric": pl.String, "value": pl.Float64, "standard_error": pl.Float64},
        ).fill_nan(None)

    def _repr_html_(self) -> str:
        errors = {name: f"{one:.4f}" for name, one in self.standard_errors.items() if one == one}
        rows = [[name, f"{value:.4f}", errors.get(name, "")] for name, value in self.items()]
        return notebook_html(["metric", "value", "std. error"], rows, note=self._count())

    def __repr__(self) -> str:
        parts = [
            f"{name} {value:.4f} ± {self.standard_errors[name]:.4f}"
            if name in self.standard_errors
            else f"{name} {value:.4f}"
            for name, value in self.items()
        ]
        return f"Metrics({', '.join(parts)}; {self._count()})"

    def _count(self) -> str:
        people = f" of {self.people:,} people, errors clustered" if self.people else ""
        return f"{self.sets:,} sets{people}"


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What the measures need to know of each set; those of several parts can be joined."""

    ranks: Ranks
    nll: Float[np.ndarray, " sets"]
    confidence: Float[np.ndarray, " sets"]  # the probability of the predicted item
    sizes: Int[np.ndarray, " sets"]

    @classmethod
    def of(
        cls,
        log_probabilities: Float[np.ndarray, " rows"],
        offsets: Int[np.ndarray, " sets_and_one"],
        chosen: Int[np.ndarray, " sets"],
    ) -> "Outcomes":
        """The outcomes of predictions for flat rows."""
        return cls(
            Ranks.of(log_probabilities, offsets, chosen),
            -log_probabilities[offsets[:-1] + chosen].astype(np.float64),
            np.exp(_segments.maxima(log_probabilities, offsets).astype(np.float64)),
            np.diff(offsets),
        )

    @classmethod
    def joined(cls, parts: Sequence["Outcomes"]) -> "Outcomes":
        """Those of one part after those of the other."""
        if len(parts) == 1:
            return parts[0]
        ranks = Ranks(
            np.concatenate([part.ranks.better for part in parts]),
            np.concatenate([part.ranks.equal for part in parts]),
        )
        rest = [
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("nll", "confidence", "sizes")
        ]
        return cls(ranks, *rest)

    def measured(
        self, weight: Float[np.ndarray, " sets"] | None = None, group: Group | None = None
    ) -> Metrics:
        """All measures of docs/metrics.md; errors are clustered where ``group`` is given."""
        each = {
            "top1": self.ranks.top(1),
            "top5": self.ranks.top(5),
            "mean_rank": self.ranks.mean_rank(),
            "mrr": self.ranks.reciprocal(),
            "nll": self.nll,
        }
        weight = np.ones(len(self.nll)) if weight is None else weight
        share = weight / weight.sum()
        # One division, after the sum: the mean of equal values is exactly their value.
        values = {name: float(one @ weight / weight.sum()) for name, one in each.items()}
        people = None if group is None else numbered(group, len(self.nll))
        errors = {name: error_of_mean(one, share, people) for name, one in each.items()}
        equal_chances = float(np.log(self.sizes) @ share)
        values["rho2"] = 1 - values["nll"] / equal_chances if equal_chances > 0 else 0.0
        values["calibration_error"] = self._calibration_error(share)
        count = 0 if people is None else int(people.max(initial=-1)) + 1
        return Metrics(values, errors, len(self.nll), count)

    def _calibration_error(self, share: Float[np.ndarray, " sets"]) -> float:
        """Expected calibration error of the predicted item, in bins of equal numbers of sets."""
        gap = share * (self.ranks.top(1) - self.confidence)
        return float(sum(abs(gap[b].sum()) for b in self._bins()))

    def reliability(self, weight: Float[np.ndarray, " sets"] | None = None) -> "Reliability":
        """How often predictions of each confidence are right: the bins of the calibration error."""
        weight = np.ones(len(self.nll)) if weight is None else weight
        hits, bins = self.ranks.top(1), self._bins()
        shares = [weight[b] / weight[b].sum() for b in bins]
        hit_rates = np.array([hits[b] @ share for b, share in zip(bins, shares, strict=True)])
        confidence = [self.confidence[b] @ share for b, share in zip(bins, shares, strict=True)]
        low, high = _wilson(hit_rates, np.array([1 / (share @ share) for share in shares]))
        sets = np.array([len(b) for b in bins])
        return Reliability(np.array(confidence), hit_rates, low, high, sets)

    def _bins(self) -> list[Int[np.ndarray, " _"]]:
        """Sets of similar confidence, equally many in each bin."""
        order = np.argsort(self.confidence, kind="stable")
        return np.array_split(order, min(CALIBRATION_BINS, len(order)))


@dataclass(frozen=True, eq=False)
class Reliability:
    """What was predicted and how often it was right, per bin of sets in order of confidence.

    ``confidence`` is the mean probability of the predicted item, ``hit_rate`` how often it was
    chosen, with its 95 % interval from ``low`` to ``high`` (Wilson 1927), ``sets`` how many there
    are. A calibrated model has the two equal.
    """

    confidence: Float[np.ndarray, " bins"]
    hit_rate: Float[np.ndarray, " bins"]
    low: Float[np.ndarray, " bins"]
    high: Float[np.ndarray, " bins"]
    sets: Int[np.ndarray, " bins"]


def _wilson(
    rate: Float[np.ndarray, " bins"], count: Float[np.ndarray, " bins"]
) -> tuple[Float[np.ndarray, " bins"], Float[np.ndarray, " bins"]]:
    """The 95 % interval of a share of so many; it stays within 0 and 1."""
    z2 = 1.959964**2
    middle = (rate + z2 / (2 * count)) / (1 + z2 / count)
    reach = np.sqrt(z2 * (rate * (1 - rate) + z2 / (4 * count)) / count) / (1 + z2 / count)
    return middle - reach, middle + reach


def measure(
    log_probabilities: Float[np.ndarray, " rows"],
    offsets: Int[np.ndarray, " sets_and_one"],
    chosen: Int[np.ndarray, " sets"],
    weight: Float[np.ndarray, " sets"] | None = None,
) -> Metrics:
    """All measures of docs/metrics.md for predictions of flat rows.

    ``top1``, ``top5``, ``mean_rank``, ``mrr``, ``nll`` (per choice) are means over sets with
    standard errors. ``rho2`` is McFadden's 1 - logL / logL(equal chances). ``calibration_error``
    is the expected gap between the probability of the predicted item and how often it was chosen.

    >>> m = measure(np.log([0.7, 0.3, 0.5, 0.5]), np.array([0, 2, 4]), np.array([0, 1]))
    >>> m.top1, m.mean_rank
    (0.75, 1.25)
    """
    _check_places(offsets, chosen, len(log_probabilities))
    return Outcomes.of(log_probabilities, offsets, chosen).measured(weight)


def _check_places(
    offsets: Int[np.ndarray, " sets_and_one"], chosen: Int[np.ndarray, " sets"], rows: int
) -> None:
    """Refuse places of chosen items that are not in their set."""
    sizes = np.diff(offsets)
    if len(sizes) != len(chosen) or offsets[0] != 0 or offsets[-1] != rows or (sizes < 1).any():
        raise InputError(
            f"offsets={offsets.tolist()[:5]} must rise from 0 to {rows}, the number of rows, with "
            f"one more value than chosen has ({len(chosen)})"
        )
    outside = (chosen < 0) | (chosen >= sizes)
    if outside.any():
        at = int(np.argmax(outside))
        raise InputError(
            f"chosen[{at}]={int(chosen[at])} is not a place in set {at}, which has "
            f"{int(sizes[at])} items; places count from 0",
            set=at,
        )


def standard_error(values: Float[np.ndarray, " sets"], share: Float[np.ndarray, " sets"]) -> float:
    """Standard error of a weighted mean of independent values; s / sqrt(m) for equal weights."""
    if len(values) < 2:
        return float("nan")
    spread = (share**2) @ (values - values @ share) ** 2
    return float(np.sqrt(spread * len(values) / (len(values) - 1)))


def numbered(group: Group, sets: int) -> Int[np.ndarray, " sets"]:
    """The values as numbers from 0, in their order; none may be missing.

    >>> numbered(["Bob", "Ann", "Bob"], 3).tolist()
    [1, 0, 1]
    """
    values = np.asarray(group)
    if values.shape != (sets,):
        raise InputError(
            f"group has shape {values.shape}, but there are {sets} sets; give one value per set"
        )
    missing = np.array([one is None or one != one for one in values.tolist()], bool)
    if missing.any():
        raise InputError(
            f"group is missing at set number {int(np.argmax(missing))} ({int(missing.sum())} such "
            "sets in all); fill in who made these choices, or leave the sets out"
        )
    known = values.astype(str) if values.dtype.kind == "O" else values
    return np.unique(known, return_inverse=True)[1].reshape(-1)


def error_of_mean(
    values: Float[np.ndarray, " sets"],
    share: Float[np.ndarray, " sets"],
    group: Shaped[np.ndarray, " sets"] | None,
) -> float:
    """The standard error of a weighted mean v = sum_i p_i v_i, clustered by G independent people.

        sqrt(G/(G - 1) sum over people of (sum over their sets i of p_i (v_i - v))^2)

    Without a group every set counts as a person of its own.

    >>> values = np.array([0.0, 1.0, 1.0])
    >>> round(error_of_mean(values, np.full(3, 1 / 3), None), 4)
    0.3333
    >>> round(error_of_mean(np.repeat(values, 4), np.full(12, 1 / 12), np.arange(12) // 4), 4)
    0.3333
    """
    if group is None:
        return standard_error(values, share)
    sums = np.bincount(numbered(group, len(values)), share * (values - values @ share))
    if len(sums) < 2:
        return float("nan")
    return float(np.sqrt(sums @ sums * len(sums) / (len(sums) - 1)))

"""The paper's protocol (docs/paper.md), its results as plain values, and the files of cells.

A report is a function of :class:`Results` alone. A file of cells has the finished splits of one
method on one setting.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from setwise._errors import InputError
from setwise._files import make_folder, whole_file
from setwise.estimators import Estimator, TrainedEstimator, named
from setwise.training import Options, Training
from setwise.tuning import Tuning

RESULTS = "results.json"
FORMAT = 1


@dataclass(frozen=True)
class Setting:
    """The sets of up to ``max_items`` items of one data set, of which ``sets`` were sampled."""

    data: str
    max_items: int
    available: int
    sets: int
    mean_items: float
    features: int


@dataclass(frozen=True)
class Method:
    """A model of the zoo, with l = ``dimension`` where that is not the protocol's.

    >>> str(Method("sda")), str(Method("sda", 4))
    ('sda', 'sda-l4')
    """

    model: str
    dimension: int | None = None

    def __str__(self) -> str:
        return self.model if self.dimension is None else f"{self.model}-l{self.dimension}"


@dataclass(frozen=True)
class MethodResult:
    """One method on the test part of one split.

    ``kappa`` is its violation capacity, None where it was not asked for; ``tuned`` the best
    setting of the trials, empty where a method has nothing to tune.
    """

    data: str
    max_items: int
    method: Method
    split: int
    metrics: Mapping[str, float]
    kappa: float | None = None
    tuned: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    machine: str = ""


@dataclass(frozen=True)
class Region:
    """The test sets of one split that these models predict right and the other ones wrong.

    ``kappa`` is each model's violation capacity there, None where there is no set.
    """

    data: str
    max_items: int
    split: int
    right: tuple[str, ...]
    sets: int
    kappa: Mapping[str, float | None]


@dataclass(frozen=True)
class Results:
    """All of a reproduction.

    ``protocol`` says how it was done (part, preset, splits, trials, epochs, sets, seed), ``run``
    where, when and by which command. The tables depend on the former alone.
    """

    protocol: Mapping[str, Any]
    run: Mapping[str, Any]
    settings: tuple[Setting, ...]
    outcomes: tuple[MethodResult, ...]
    regions: tuple[Region, ...] = ()

    def save(self, path: Path) -> None:
        """Write them as JSON, whole or not at all."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1)
        with whole_file(path) as part:
            part.write_text(text + "\n", "utf-8")

    @classmethod
    def open(cls, path: Path) -> "Results":
        """Read what :meth:`save` wrote."""
        try:
            read = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} has no results of a reproduction: {error}") from error
        if not isinstance(read, dict) or read.get("format") != FORMAT:
            raise InputError(
                f"{path} has no results that this version of setwise reads; reproduce again"
            )
        return cls(
            read["protocol"],
            read["run"],
            tuple(Setting(**one) for one in read["settings"]),
            tuple(_method_result(one) for one in read["outcomes"]),
            tuple(Region(**(one | {"right": tuple(one["right"])})) for one in read["regions"]),
        )


Part = Literal["table1", "ablation", "full", "figures", "all"]
PARTS: tuple[Part, ...] = ("table1", "ablation", "full", "figures", "all")

TABLE: Mapping[str, tuple[str, ...]] = {
    "Ours": ("sda", "sde", "sdw"),
    "IIA": ("mnl", "svmrank", "ranknet"),
    "non-IIA": ("mixed_mnl", "adarank", "deep_sets"),
    "basic": ("single_feature", "random"),
}
"""The methods of the paper's Table 1, by its groups; "sda" is the paper's, `SDA.paper()`."""

ABLATION = ("sda", "sda_tanh", "sda_linear", "sda_vector", "sde", "sdw", "mnl_set", "mnl")
"""The rows of its Table 4."""

CLASSICAL = (
    "mnl", "tversky", "mcfadden", "krs", "orhun", "kaneko_nakamura", "lam", "ccm", "nccm",
)  # fmt: skip
"""The models of its Claim 1, in the centre of its figure, next to SDA."""

MAIN_DIMENSION = 24
"""l of all tables."""

DIMENSIONS = (1, 2, 4, 8, 16, MAIN_DIMENSION, 32)
"""l on the left of its figure."""

REGIONS = ("sda", "mnl", "deep_sets")
"""The models whose correctness makes the regions on the right of its figure."""

SIZES = (0.5, 0.25, 0.25)


@dataclass(frozen=True)
class Protocol:
    """How a reproduction is done; the defaults are the paper's.

    Args:
        splits: random splits 50:25:25, each of its own sample.
        sets: the most sets in a sample.
        trials: trials of tuning per method and split.
        space: the name of the search space (:data:`setwise.tuning.SPACES`).
        training: batch, decay and stopping; what is tuned is not taken from here.
        dimensions: values of l for the left of the figure.
        seed: split i uses seed + i, for its sample, its parts and its models.

    >>> Protocol().trials, Protocol().training.patience
    (100, 25)
    """

    splits: int = 10
    sets: int = 10_000
    trials: int = 100
    space: str = "paper"
    training: Options = Options(  # noqa: RUF009 (frozen)
        decoupled_weight_decay=False, stop_on="accuracy", patience=25
    )
    dimensions: tuple[int, ...] = DIMENSIONS
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("splits", 1), ("sets", 4), ("trials", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} must be at least {least}")

    @property
    def tuning(self) -> Tuning:
        """The search; the reproduction itself keeps it."""
        return Tuning(self.trials, self.space, storage=None, seed=self.seed)

    def methods(self, part: Part, main: bool) -> list[Method]:
        """The methods of a part, in order; ``main``: at the size of sets of the paper's Table 1.

        >>> [str(one) for one in Protocol(dimensions=(4, 24)).methods("figures", True)][:4]
        ['sda', 'sda-l4', 'mnl', 'tversky']
        """
        found: list[Method] = []
        if part in ("full", "all") or (part == "table1" and main):
            found += [Method(name) for group in TABLE.values() for name in group]
        if part in ("ablation", "all"):
            found += [Method(name) for name in ABLATION]
        if part in ("figures", "all") and main:
            found.append(Method("sda"))
            found += [Method("sda", l) for l in self.dimensions if l != MAIN_DIMENSION]  # noqa: E741
            found += [Method(name) for name in (*CLASSICAL, *REGIONS)]
        return list(dict.fromkeys(found))

    def estimator(self, method: Method) -> Estimator:
        """The method's estimator with the paper's sizes, and this protocol's training."""
        estimator = named(method.model, "paper")
        if isinstance(estimator, TrainedEstimator):
            objective = estimator.training_options.objective
            options = asdict(self.training) | {"objective": objective}
            estimator.set_params(training=Training(**options))
        if method.dimension is not None:
            estimator.set_params(dimension=method.dimension)
        return estimator

    def described(self) -> dict[str, Any]:
        """As plain values: everything that results depend on, except the data."""
        return asdict(self) | {"dimensions": list(self.dimensions)}


PRESETS: Mapping[str, Protocol] = {
    "paper": Protocol(),
    "quick": Protocol(
        # The paper's small steps need its many epochs.
        splits=3, sets=600, trials=4, space="training", dimensions=(1, 4, MAIN_DIMENSION),
        training=Options(epochs=30, batch_size=32, stop_on="accuracy", patience=10),
    ),
}  # fmt: skip
"""The paper's protocol, and one that shows the whole in minutes and proves nothing."""


CELLS = "cells"


@dataclass(frozen=True)
class ReproducedCell:
    """One method on one split, with what the regions need of each test set.

    ``right`` says whether the prediction is the choice, ``violations`` the share of removals that
    change it; both are None but for the models that make the regions.
    """

    outcome: MethodResult
    right: Sequence[bool] | None = None
    violations: Sequence[float] | None = None


class CellFile:
    """The cells of one method on one setting; ``mark`` says what they depend on."""

    def __init__(self, folder: Path, data: str, max_items: int, method: Method, mark: Any):
        self.path = folder / CELLS / f"{slug(data)}-{max_items}-{method}.json"
        self._mark = hashlib.sha256(json.dumps(mark, sort_keys=True).encode()).hexdigest()

    @property
    def search(self) -> Path:
        """Where the search of this method is kept while it lasts."""
        return self.path.with_suffix(".search")

    def read(self) -> list[ReproducedCell]:
        """The cells so far, by split."""
        if not self.path.exists():
            return []
        try:
            read = json.loads(self.path.read_text("utf-8"))
        except ValueError as error:
            raise InputError(f"{self.path} is not a file of cells ({error}); delete it") from error
        if read.get("mark") != self._mark:
            raise InputError(
                f"{self.path} belongs to another reproduction (other data, preset, seed or "
                "options); give another folder, or delete this one"
            )
        return [_cell(one) for one in read["cells"]]

    def write(self, cells: Sequence[ReproducedCell]) -> None:
        """Write the cells, whole or not at all."""
        make_folder(self.path.parent)
        value = {"mark": self._mark, "cells": [asdict(cell) for cell in cells]}
        with whole_file(self.path) as part:
            part.write_text(json.dumps(value) + "\n", "utf-8")


def _cell(one: Mapping[str, Any]) -> ReproducedCell:
    return ReproducedCell(_method_result(one["outcome"]), one["right"], one["violations"])


def _method_result(one: Mapping[str, Any]) -> MethodResult:
    return MethodResult(**{**one, "method": Method(**one["method"])})


def slug(name: str) -> str:
    """A name as a file's: words in small letters, joined by hyphens.

    >>> slug("Expedia bookings (generated)")
    'expedia-bookings-generated'
    """
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "-".join(words) or "data"

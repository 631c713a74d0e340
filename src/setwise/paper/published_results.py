"""The paper's own results: every value of its tables, to compare with ours.

The values are those of the preprint of Rosenfeld, Oshiba and Singer (2020). Its SDA compares items
with the reference by an inner product: that is ``setwise.SDA.paper()``, ``sda_inner`` in the zoo.
setwise's default ``SDA()`` and ``sda_difference`` are not among its models.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from setwise._errors import InputError

METHODS: Mapping[str, str] = {
    "SDA": "sda",
    "SDE": "sde",
    "SDW": "sdw",
    "MNL": "mnl",
    "SVMRank": "svmrank",
    "RankNet": "ranknet",
    "Mixed MNL": "mixed_mnl",
    "AdaRank": "adarank",
    "Deep Sets": "deep_sets",
    "Price/Quality": "single_feature",
    "Random": "random",
    "SDA with g=tanh": "sda_tanh",
    "SDA with no g": "sda_linear",
    "SDA with w vector variable": "sda_vector",
    "MNL with w setnn": "mnl_set",
}
"""The paper's names of methods, and what ``setwise.estimators.named(name, "paper")`` calls them.

With that preset "sda" is the paper's SDA; without it, as everywhere else, it is setwise's default.
"""

COLUMNS: Mapping[str, str] = {"Top-1": "top1", "Top-5": "top5", "MRR": "mean_rank"}
"""The paper's names of measures, and ours. What it calls MRR is the mean rank (docs/paper.md)."""

MAX_ITEMS: Mapping[str, tuple[int, ...]] = {
    "Amadeus": (10, 20, 30, 40, 50),
    "Expedia": (10, 20, 30, 40),
    "Outbrain": (12,),
}
"""The greatest sizes of sets for which the paper has results; the first is the main table's."""


@dataclass(frozen=True)
class Published:
    """One value of the paper: a mean over 10 splits, with its standard error.

    ``table`` is "full" (the appendix, of which the main table is a part) or "ablation". Values of
    ``top1`` and ``top5`` are per cent, as printed; those of ``mean_rank`` are ranks.
    """

    table: str
    dataset: str
    max_items: int
    method: str
    metric: str
    value: float
    standard_error: float


_KEYS = tuple(field.name for field in fields(Published))[:5]


@cache
def _everything() -> tuple[Published, ...]:
    path = Path(__file__).parent / "data" / "paper_results.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            Published(
                row["table"],
                row["dataset"],
                int(row["max_items"]),
                row["method"],
                row["metric"],
                float(row["value"]),
                float(row["standard_error"]),
            )
            for row in csv.DictReader(file)
        )


def published(
    table: str | None = None,
    dataset: str | None = None,
    max_items: int | None = None,
    method: str | None = None,
    metric: str | None = None,
) -> tuple[Published, ...]:
    """The paper's values, of one table, data set, size, method or measure where one is named.

    >>> [(one.method, one.value) for one in published("full", "Expedia", 10, metric="top1")][:2]
    [('SDA', 31.49), ('SDE', 31.47)]

    Raises:
        InputError: where the paper has nothing of that name.
    """
    asked = dict(zip(_KEYS, (table, dataset, max_items, method, metric), strict=True))
    for key, wanted in asked.items():
        known = dict.fromkeys(getattr(one, key) for one in _everything())
        if wanted is not None and wanted not in known:
            there = ", ".join(str(one) for one in known)
            raise InputError(f"the paper has no {key} {wanted!r}; it has: {there}")
    return tuple(
        one
        for one in _everything()
        if all(wanted in (None, getattr(one, key)) for key, wanted in asked.items())
    )


def main_table() -> tuple[Published, ...]:
    """The values of the paper's Table 1: of each data set those at the least maximum size.

    >>> len(main_table()), {one.max_items for one in main_table()} == {10, 12}
    (99, True)
    """
    return tuple(one for one in published("full") if one.max_items == MAX_ITEMS[one.dataset][0])

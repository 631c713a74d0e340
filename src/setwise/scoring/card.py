"""Where a model comes from: what its file says of it, for those who use it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

from setwise._arguments import by_name, check_all, number, optional, text, whole
from setwise._errors import InputError


@dataclass(frozen=True)
class Card:
    """What a model file says of its model. Every field may be left out.

    >>> card = Card(title="Trips", source="survey of 2024", metrics={"nll": 0.71})
    >>> card.to_json()
    {'title': 'Trips', 'source': 'survey of 2024', 'metrics': {'nll': 0.71}}

    Args:
        title: a short name.
        description: what the model predicts, for whom, and what it must not be used for.
        source: the data that it was fitted to.
        date: when it was fitted, such as "2026-07-31".
        sets: the number of choice sets that it was fitted to, those held out included.
        rows: the number of their rows.
        metrics: measures on sets that were held out of training.
        licence: under which terms it may be used.
    """

    title: str | None = None
    description: str | None = None
    source: str | None = None
    date: str | None = None
    sets: int | None = None
    rows: int | None = None
    metrics: Mapping[str, float] | None = None
    licence: str | None = None

    def __post_init__(self) -> None:
        check_all(_CHECKS, vars(self))

    def to_json(self) -> dict[str, Any]:
        """The fields that are given."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        plain = {name: value for name, value in found.items() if value is not None}
        return plain | ({} if self.metrics is None else {"metrics": dict(self.metrics)})

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Card":
        """The card that a file has; what this version does not know is left out."""
        return cls(**{one.name: plain[one.name] for one in fields(cls) if one.name in plain})


def _day(name: str, value: Any) -> None:
    text(name, value)
    try:
        date.fromisoformat(value)
    except ValueError:
        raise InputError(f"{name}={value!r} must be a date such as '2026-07-31'") from None


_CHECKS = {
    "title": optional(text),
    "description": optional(text),
    "source": optional(text),
    "date": optional(_day),
    "sets": optional(whole()),
    "rows": optional(whole()),
    "metrics": optional(by_name(number())),
    "licence": optional(text),
}

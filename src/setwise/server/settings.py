"""What the operator of a service decides: the model, its limits and who may ask."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from setwise._errors import InputError

EXPLAINED_ITEMS = 200
"""The most items of a set to explain: the work and the answer grow with their square."""


@dataclass(frozen=True)
class Limits:
    """The most that one request may ask, and how many may ask at once.

    A process holds at most ``max_waiting`` bodies of ``max_body`` bytes in memory, and what it
    takes to answer a few of them.
    """

    max_body: int = 16 * 1024**2
    max_sets: int = 10_000
    max_items: int = 1_000
    timeout: int | float = 10.0
    max_waiting: int = 64

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                option = name.replace("_", "-")
                raise InputError(
                    f"--{option} {value} leaves nothing to serve, or no end; give more than 0"
                )

    @property
    def max_explained(self) -> int:
        """The most items of a set to explain."""
        return min(self.max_items, EXPLAINED_ITEMS)


@dataclass(frozen=True)
class Settings:
    """A service: the model file, the file of the model shown beside it, limits and token."""

    model: Path
    beside: Path | None = None
    limits: Limits = field(default_factory=Limits)
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.strip()):
            raise InputError("the token is empty or not plain ASCII; write another one")

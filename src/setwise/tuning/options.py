"""The options of tuning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setwise._arguments import check_all, flag, one_of, optional, path, seed, whole
from setwise.training import trials_together
from setwise.tuning.space import SPACES, Space

STORAGE = "setwise-studies.sqlite"
STARTUP = 10
"""Random trials, before proposals learn from the results of others."""

OnTrials = Callable[[int, int], None]
"""Called with the number of finished trials and of all trials, over all tasks."""


def _space(name: str, value: Any) -> None:
    """The name of a space, or ranges and values by argument."""
    if not isinstance(value, Mapping):
        one_of(*SPACES)(name, value)


CHECKS = {
    "trials": whole(),
    "space": _space,
    "batch": optional(whole()),
    "pruning": flag,
    "storage": optional(path),
    "seed": seed,
}


@dataclass(frozen=True)
class Tuning:
    """Options of tuning.

    Args:
        trials: how many settings to try.
        space: what to vary: a name ("training", the paper's "paper", or "wide", with sizes too)
            or ranges by argument.
        batch: the most trials that are proposed together and train as one population; by default 8
            on a CPU and 20 on a GPU. Until ten trials have ended, at most ten are proposed at once:
            only then do proposals learn from results.
        pruning: stop trials that do worse than the median of the others at the same epoch.
        storage: the SQLite file of the study, or the URL of a database that several machines
            share ("postgresql://..."); None stores nothing. The same call continues where a killed
            one stopped.
        seed: the seed of the proposals.

    >>> Tuning(trials=20).space
    'training'
    """

    trials: int = 100
    space: str | Space = "training"
    batch: int | None = None
    pruning: bool = False
    storage: str | Path | None = STORAGE
    seed: int = 0

    def __post_init__(self) -> None:
        check_all(CHECKS, vars(self))

    @property
    def ranges(self) -> Space:
        """The space itself, where it was given by name."""
        return SPACES[self.space] if isinstance(self.space, str) else self.space

    @property
    def together(self) -> int:
        """The largest number of trials in a batch."""
        return min(self.batch or trials_together(), self.trials)

    @property
    def batches(self) -> int:
        """In how many batches one process proposes the trials.

        >>> Tuning(trials=100, batch=20).batches, Tuning(trials=100, batch=8).batches
        (6, 13)
        """
        first = STARTUP if self.together > STARTUP else 0
        return min(first, 1) + -(-(self.trials - first) // self.together)

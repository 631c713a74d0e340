"""How to tune, as one small frozen value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from setwise import _arguments
from setwise._errors import InputError
from setwise.training import trials_together
from setwise.tuning.space import SPACES, Space

STORAGE = "setwise-studies.sqlite"
STARTUP = 10
"""Trials at random, before proposals learn from the results of others."""

OnTrials = Callable[[int, int], None]
"""Called with the trials finished and the trials in all, of all tasks."""

CHECKS: Mapping[str, _arguments.Check] = {
    "trials": _arguments.whole(),
    "batch": _arguments.optional(_arguments.whole()),
    "pruning": _arguments.flag,
    "seed": _arguments.seed,
}


@dataclass(frozen=True)
class Tuning:
    """Options of tuning.

    Args:
        trials: how many settings to try.
        space: what to vary: a name ("training", the paper's "paper", or "wide", with sizes too)
            or ranges by argument.
        batch: trials that are proposed together, at most, and train as one population; by default
            8 on a CPU and 20 on a GPU. Until ten trials have ended, at most ten come together:
            only then do proposals learn from results.
        pruning: stop trials that do worse than the median of the others at the same epoch.
        storage: the SQLite file of the study, or the URL of a database that several machines
            share ("postgresql://..."); None keeps nothing. The same call goes on where a killed
            one was.
        seed: of the proposals.

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
        _arguments.check_all(CHECKS, vars(self))
        if isinstance(self.space, str) and self.space not in SPACES:
            raise InputError(f"space='{self.space}' is not one of {', '.join(SPACES)}")
        if not isinstance(self.storage, (str, Path, type(None))):
            raise InputError(f"storage={self.storage!r} must be a file, a URL or None")
        if not isinstance(self.space, (str, Mapping)):
            raise InputError(
                f"space={self.space!r} must be one of {', '.join(SPACES)}, or ranges by argument"
            )

    @property
    def ranges(self) -> Space:
        """The space itself, where it was given by name."""
        return SPACES[self.space] if isinstance(self.space, str) else self.space

    @property
    def together(self) -> int:
        """The most trials of a batch."""
        return min(self.batch or trials_together(), self.trials)

    @property
    def batches(self) -> int:
        """In how many batches one process proposes the trials.

        >>> Tuning(trials=100, batch=20).batches, Tuning(trials=100, batch=8).batches
        (6, 13)
        """
        first = STARTUP if self.together > STARTUP else 0
        return min(first, 1) + -(-(self.trials - first) // self.together)

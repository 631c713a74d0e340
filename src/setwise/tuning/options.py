"""The options of tuning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setwise._arguments import check_all, flag, one_of, optional, path, seed, whole
from setwise._errors import InputError
from setwise.estimators import Estimator, TrainedEstimator
from setwise.training import trials_together
from setwise.tuning.space import SPACES, Space, arguments, default_space

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
    "space": optional(_space),
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
        space: what to vary: a name or ranges by argument. Names for networks are "training", the
            paper's "paper", and "wide", with sizes too; "trees" is for ``BoostedLogit``,
            "lambdamart" for ``LambdaMART``. By default "training" or that of the trees; other
            estimators have no default.
        batch: the most trials that are proposed together. Networks train them as one population,
            by default 8 on a CPU and 20 on a GPU. Other estimators are fitted one by one: by
            default 1, so that each proposal knows all results. Until ten trials have ended, at most
            ten are proposed at once: only then do proposals learn from results.
        pruning: stop trials that do worse than the median of the others at the same epoch. Only
            networks train in epochs: trials of others always run to their end.
        storage: the SQLite file of the study, or the URL of a database that several machines
            share ("postgresql://..."); None stores nothing. The same call continues where a killed
            one stopped.
        seed: the seed of the proposals.

    >>> import setwise as sw
    >>> sorted(Tuning(trials=20).space_of(sw.LambdaMART()))
    ['learning_rate', 'leaves', 'min_rows', 'objective']
    """

    trials: int = 100
    space: str | Space | None = None
    batch: int | None = None
    pruning: bool = False
    storage: str | Path | None = STORAGE
    seed: int = 0

    def __post_init__(self) -> None:
        check_all(CHECKS, vars(self))

    def space_of(self, estimator: Estimator) -> Space:
        """What to vary of this estimator; an error where neither this nor a default says it."""
        space = default_space(estimator) if self.space is None else self.space
        if space is None:
            raise InputError(
                f"{type(estimator).__name__} has no default search space; give space= (on the "
                f"command line --vary) with some of its arguments: "
                f"{', '.join(arguments(estimator)) or 'it has none'}"
            )
        return SPACES[space] if isinstance(space, str) else space

    def tunes(self, estimator: Estimator) -> bool:
        """Whether a comparison tunes this estimator: networks always, others if they can be.

        They can be if they have a default space, or all arguments of the one that is given.
        """
        if isinstance(estimator, TrainedEstimator):
            return True
        if self.space is None:
            return default_space(estimator) is not None
        return set(self.space_of(estimator)) <= set(arguments(estimator))

    @property
    def together(self) -> int:
        """The largest number of trials in a batch of networks."""
        return min(self.batch or trials_together(), self.trials)

    @property
    def batches(self) -> int:
        """In how many batches one process proposes the trials of networks.

        >>> Tuning(trials=100, batch=20).batches, Tuning(trials=100, batch=8).batches
        (6, 13)
        """
        first = STARTUP if self.together > STARTUP else 0
        return min(first, 1) + -(-(self.trials - first) // self.together)

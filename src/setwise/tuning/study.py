"""One study: each trial is claimed, trained and finished once, even if workers are killed.

A claim writes a running trial, with its values and its worker, in one transaction. A trial whose
worker died is marked as failed and does not count. Its place is free again, and the same values are
proposed for it, since proposals depend only on the trials that count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.pruners import MedianPruner, NopPruner
from optuna.samplers import TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from setwise._errors import InputError
from setwise.tuning.options import STARTUP
from setwise.tuning.space import Range, Space, ends
from setwise.tuning.storage import Storage, WorkerWatch, this_worker

WARMUP = 10  # epochs before a trial may be pruned


@dataclass(frozen=True)
class Claim:
    """A trial that this process runs; ``proposal`` is its twin in memory, for pruning."""

    trial: int
    values: dict[str, Any]
    proposal: optuna.Trial
    reports: dict[int, float] = field(default_factory=dict)

    def hopeless(self, epoch: int, value: float) -> bool:
        """Whether a trial with this value after so many epochs should be pruned."""
        self.reports[epoch] = value
        self.proposal.report(value, epoch)
        return bool(self.proposal.should_prune())


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space in Optuna's words.

    >>> distributions({"hidden": (16, 32)})
    {'hidden': CategoricalDistribution(choices=(16, 32))}
    """
    return {name: _distribution(values) for name, values in space.items()}


def _distribution(values: Range | Sequence[Any]) -> BaseDistribution:
    if not isinstance(values, Range):
        return CategoricalDistribution(ends(values))
    if isinstance(values.low, int) and isinstance(values.high, int):
        return IntDistribution(values.low, values.high, log=values.log)
    return FloatDistribution(values.low, values.high, log=values.log)


def failure(trial: FrozenTrial) -> str | None:
    """Why a trial that ended has no model; None if it has one."""
    reason = trial.user_attrs.get("result", {}).get("failed")
    return None if reason is None else str(reason)


class Study:
    """The trials of one model on one task, kept in a storage under a name."""

    def __init__(self, storage: Storage, name: str, space: Space, maximise: bool):
        self._storage, self._base, self.name = storage, storage.base, name
        self._space, self._watch = distributions(space), WorkerWatch()
        self._direction = StudyDirection.MAXIMIZE if maximise else StudyDirection.MINIMIZE
        try:
            self._id = self._base.create_new_study([self._direction], name)
        except DuplicatedStudyError:
            self._id = self._base.get_study_id_from_name(name)

    def claim(self, most: int, trials: int, seed: int, pruning: bool) -> list[Claim]:
        """Propose and claim at most ``most`` trials, of ``trials`` in all.

        Proposals are random until :data:`STARTUP` trials have ended; before, no more than that many
        are claimed at once.
        """
        with self._storage.lock():
            counting = self._without_the_dead()
            if sum(trial.state.is_finished() for trial in counting) < STARTUP:
                most = min(most, STARTUP)
            wanted = min(most, trials - len(counting))
            if wanted < 1:
                return []
            proposals = self._proposals(counting, wanted, seed, pruning)
            return [self._claimed(proposal) for proposal in proposals]

    def trials(self) -> list[FrozenTrial]:
        """The trials that count: finished, or running."""
        everyone = self._base.get_all_trials(self._id, deepcopy=False)
        return [trial for trial in everyone if trial.state != TrialState.FAIL]

    def finished(self) -> list[FrozenTrial]:
        """The trials that have a result."""
        return [trial for trial in self.trials() if trial.state.is_finished()]

    def best(self) -> FrozenTrial:
        """The best trial that ran to its end and did not fail; of equals the first."""
        ended = [trial for trial in self.trials() if trial.state == TrialState.COMPLETE]
        failures = [reason for trial in ended if (reason := failure(trial)) is not None]
        complete = [trial for trial in ended if failure(trial) is None]
        if not complete and failures:
            raise InputError(
                f"all {len(failures)} trials of study '{self.name}' failed; the first because: "
                f"{failures[0]}"
            )
        if not complete:
            raise InputError(f"no trial of study '{self.name}' ran to its end; try more trials")
        sign = -1 if self._direction == StudyDirection.MAXIMIZE else 1
        return min(complete, key=lambda trial: (sign * trial.values[0], trial.number))

    def number(self, claim: Claim) -> int:
        """The number of a claim's trial."""
        return self._base.get_trial_number_from_id(claim.trial)

    def export_trials(self) -> list[dict[str, Any]]:
        """The finished trials as plain values, for :meth:`import_trials`."""
        return [
            {
                "params": trial.params, "value": trial.values[0],
                "pruned": trial.state == TrialState.PRUNED, "result": trial.user_attrs["result"],
            }
            for trial in self.finished()
        ]  # fmt: skip

    def import_trials(self, trials: Sequence[Mapping[str, Any]]) -> None:
        """Add finished trials of an earlier process."""
        for one in trials:
            finished = create_trial(
                state=TrialState.PRUNED if one["pruned"] else TrialState.COMPLETE,
                params=dict(one["params"]),
                distributions=self._space,
                value=one["value"],
                user_attrs={"result": one["result"]},
            )
            self._base.create_new_trial(self._id, finished)

    def finish(self, claim: Claim, value: float, result: Mapping[str, Any], pruned: bool) -> None:
        """Store the result of a claim, unless another worker has taken the claim over."""
        try:
            for step, seen in claim.reports.items():
                self._base.set_trial_intermediate_value(claim.trial, step, seen)
            self._base.set_trial_user_attr(claim.trial, "result", dict(result))
            state = TrialState.PRUNED if pruned else TrialState.COMPLETE
            self._base.set_trial_state_values(claim.trial, state, [value])
        except UpdateFinishedTrialError:
            return

    def give_back(self, claim: Claim) -> None:
        """End a claim without a result; its place is free again."""
        try:
            self._base.set_trial_state_values(claim.trial, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return

    def _claimed(self, proposal: optuna.Trial) -> Claim:
        running = create_trial(
            state=TrialState.RUNNING,
            params=proposal.params,
            distributions=self._space,
            user_attrs={"worker": this_worker()},
        )
        number = self._base.create_new_trial(self._id, running)
        return Claim(number, proposal.params, proposal)

    def _proposals(
        self, counting: Sequence[FrozenTrial], wanted: int, seed: int, pruning: bool
    ) -> list[optuna.Trial]:
        """New trials of a study in memory that knows those that count, and nothing else."""
        own_seed = int(np.random.default_rng([seed, len(counting)]).integers(2**31))
        sampler = TPESampler(seed=own_seed, n_startup_trials=STARTUP, constant_liar=True)
        pruner = MedianPruner(STARTUP, WARMUP) if pruning else NopPruner()
        memory = optuna.create_study(sampler=sampler, pruner=pruner, direction=self._direction)
        memory.add_trials(counting)
        return [memory.ask(self._space) for _ in range(wanted)]

    def _without_the_dead(self) -> list[FrozenTrial]:
        """The trials that count, after those whose worker died were marked as failed."""
        alive = []
        for trial in self.trials():
            if trial.state == TrialState.RUNNING and self._watch.given_up(trial):
                self._base.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            else:
                alive.append(trial)
        return alive

"""Fits that several processes do together, and one alone: the same cases for both.

As a script it is one of the processes, FOLDER CASE..., which finds the others as SLURM has it.
"""

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

EPOCHS = 3
SMALL_SHARDS = ("ROWS_PER_SHARD", "SETS_PER_RUN", "READERS")
"""What :func:`choices_of` changes in setwise.training.shards."""


@dataclass(frozen=True)
class Case:
    """What to fit, on what."""

    items: Any = 3
    on_disk: bool = True
    weights: bool = False
    outside: bool = False
    batch_size: int = 16
    dropout: float = 0.0
    ensemble: int = 1
    checkpoint: bool = False
    sets: int = 300


CASES = {
    "on_disk": Case(items=(2, 9), weights=True, dropout=0.2, batch_size=15),
    "in_memory": Case((2, 9), on_disk=False, weights=True, dropout=0.2, batch_size=15, ensemble=2),
    "tiny": Case(sets=7, batch_size=1),  # most steps leave a process without a set
    "resumed": Case(checkpoint=True, dropout=0.1),
    "refused": Case(checkpoint=True, dropout=0.3),  # the checkpoint is that of the case before
}


def choices_of(case: Case, folder: Path) -> Any:
    """The training and the validation choices; a few shards of them, where they are on disk."""
    import setwise as sw
    from setwise.training import shards

    shards.ROWS_PER_SHARD, shards.SETS_PER_RUN, shards.READERS = 300, 8, 2
    made = sw.datasets.generate("sda", sets=case.sets, items=case.items, features=3, seed=1)
    weight = np.random.default_rng(0).uniform(0.2, 3, case.sets)[made.columns["set_id"]]
    extra = {"weight": "w"} if case.weights else {}
    choices = sw.read(
        made.columns | {"w": weight}, set="set_id", chosen="chosen", items=made.items, **extra
    )
    if case.on_disk:
        shards.ROWS_PER_SHARD = 300 if case.sets > 20 else 6
        path = folder / f"{case.sets}-{case.items}-{case.weights}.setwise-data"
        if not path.exists():
            sw.save_choices(choices, path)
        choices = sw.open_choices(path)
    return sw.split(choices, (0.8, 0.2))


def estimator_of(case: Case, epochs: int = EPOCHS) -> Any:
    """An estimator that is quick to train."""
    import setwise as sw

    training = sw.Training(
        epochs=epochs, batch_size=case.batch_size, dropout=case.dropout, learning_rate=1e-2
    )
    return sw.SDA.paper(
        3, components=2, hidden=4, training=training, ensemble=case.ensemble,
        weight_decays=(0.01, 0.3) if case.ensemble > 1 else None,
    )  # fmt: skip


def fitted(name: str, folder: Path) -> Any:
    """The estimator after the fit of a case."""
    case = CASES[name]
    train, valid = choices_of(case, folder)
    checkpoint = folder / "checkpoint" if case.checkpoint else None
    return estimator_of(case).fit(train, valid, checkpoint=checkpoint)


def slurm(processes: int, place: int, job: int) -> dict[str, str]:
    """What SLURM tells a process of a job on this machine."""
    return {
        "SLURM_JOB_ID": str(job), "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": str(processes), "SLURM_PROCID": str(place), "SLURM_LOCALID": str(place),
    }  # fmt: skip


def slow_to_train(case: Case, folder: Path, seconds: float) -> Any:
    """The choices of a case; training on them takes so long an epoch, and is kept every time."""
    from setwise.training import checkpoint, trainer

    if seconds:
        checkpoint.SECONDS_BETWEEN_CHECKPOINTS = -1.0
        validated = trainer.Trainer._validated

        def slowly(*arguments: Any) -> Any:
            time.sleep(seconds)
            return validated(*arguments)

        trainer.Trainer._validated = slowly
    return choices_of(case, folder)[0]


def free_job() -> int:
    """A job whose port, which JAX makes of its number, nobody listens at."""
    for job in np.random.default_rng().permutation(4096).tolist():
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 61440 + job)):
                return job
    raise AssertionError("every port is in use")


def start(command: list[str], processes: int) -> list[str]:
    """Run a command as so many processes of a SLURM job; what they say, if all end well."""
    job = free_job()
    started = [
        subprocess.Popen(
            [sys.executable, *command], env=os.environ | slurm(processes, place, job),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for place in range(processes)
    ]  # fmt: skip
    try:
        told = [one.communicate(timeout=300)[0] for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0] * processes, "\n".join(told)
    return told


def main(folder: Path, cases: list[str]) -> None:
    """Fit the cases; each model is a file NAME.PLACE.setwise, each error NAME.PLACE.error."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    from setwise import InputError
    from setwise.cluster.training import join

    place = join()
    for name in cases:
        try:
            fitted(name, folder).save(folder / f"{name}.{place}.setwise")
        except InputError as error:
            (folder / f"{name}.{place}.error").write_text(str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

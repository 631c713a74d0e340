"""What a reproduction will do, and about how long it takes: units of work on every setting."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax

from setwise._errors import InputError
from setwise.choices import Choices, Schema, open_choices, save_choices
from setwise.choices.levels import common_levels
from setwise.choices.stored import SUFFIX
from setwise.estimators import TrainedEstimator
from setwise.experiments.reproduction.cells import slug
from setwise.experiments.reproduction.protocol import SIZES, Part, Protocol
from setwise.experiments.reproduction.results import Method, Setting
from setwise.experiments.reproduction.work import Unit
from setwise.experiments.reproduction.workers import workers_here

LEAST_SETS = 20

# What a unit takes, for an estimate: rows that a population trains on in a second, the seconds of a
# step, and those of the start with its compiling. Measured on Expedia and Swissmetro with two cores
# (of which a worker has one) and with one H200 (which all workers share).
TRAINED_ROWS = {
    "cpu": {"sda": 6e5, "ranknet": 1.5e4, "deep_sets": 4.5e4},
    "accelerator": {"sda": 3e8, "ranknet": 1.5e7, "deep_sets": 2.5e7},
}
SECONDS_A_STEP = {"cpu": 0.0, "accelerator": 5e-4}
SECONDS_TO_START = {"cpu": 8.0, "accelerator": 25.0}
EPOCHS_TO_STOP = 60  # of a trial, on average
EPOCHS_OF_THE_LAST = 4  # times as many
# Rows that a method without gradients takes in, for one split.
SOLVED_ROWS = {"svmrank": 1e5}
OTHER_SOLVED_ROWS = 1e6


@dataclass(frozen=True)
class Source:
    """A data set to reproduce on, and the greatest sizes of its sets; the least is the main one."""

    choices: Choices
    max_items: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The settings, the units to do on them, and about how many seconds each adds to the whole."""

    settings: tuple[Setting, ...]
    units: tuple[Unit, ...]
    seconds: Mapping[Unit, float]

    def of(self, setting: Setting) -> list[Unit]:
        """The units of one setting."""
        where = (setting.data, setting.max_items)
        return [unit for unit in self.units if (unit.data, unit.max_items) == where]


def plan(sources: Mapping[str, Source], part: Part, protocol: Protocol, scratch: Path) -> Plan:
    """Lay out a part of the paper on these data; samples of the sets are written to ``scratch``.

    Sets of one item are left out, since their choice is known. Rare levels of categories are
    grouped in each sample before it is split, as in the paper.
    """
    if not sources:
        raise InputError("there are no data to reproduce on; name at least one table")
    names = [slug(name) for name in sources]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two data sets are called {name}; give them different names")
    settings, units, seconds = [], [], {}
    for data, source in sources.items():
        for max_items in sorted(set(source.max_items)):
            methods = protocol.methods(part, max_items == min(source.max_items))
            if not methods:
                continue
            setting, samples, mark = _setting(data, source.choices, max_items, protocol, scratch)
            settings.append(setting)
            for method in methods:
                unit = Unit(data, max_items, method, samples, mark)
                units.append(unit)
                seconds[unit] = _seconds(method, setting, protocol)
    return Plan(tuple(settings), tuple(units), seconds)


def _setting(
    data: str, choices: Choices, max_items: int, protocol: Protocol, scratch: Path
) -> tuple[Setting, tuple[Path, ...], str]:
    """The sets of up to so many items: what they are, a sample for each split, and their mark."""
    limited = choices.limit(max_items, min_items=2)
    if len(limited) < LEAST_SETS:
        raise InputError(
            f"{data} has only {len(limited)} sets of 2 to {max_items} items; a split needs at "
            f"least {LEAST_SETS}, so allow larger sets"
        )
    splits = protocol.splits if len(limited) > protocol.sets else 1
    paths = [scratch / f"{slug(data)}-{max_items}-{number}{SUFFIX}" for number in range(splits)]
    for number, path in enumerate(paths):
        sample = limited.sample(protocol.sets, protocol.seed + number)
        save_choices(common_levels(sample), path)
    with paths[0].open("rb") as file:
        mark = hashlib.file_digest(file, "sha256").hexdigest()
    features = Schema.fit(open_choices(paths[0])).width
    sets = min(protocol.sets, len(limited))
    mean = round(float(limited.sizes.mean()), 6)
    return Setting(data, max_items, len(limited), sets, mean, features), tuple(paths), mark


def _seconds(method: Method, setting: Setting, protocol: Protocol) -> float:
    """What a unit adds to the time of all, if workers are as many as by default."""
    sets = SIZES[0] * setting.sets
    if not isinstance(protocol.estimator(method), TrainedEstimator):
        rows = protocol.splits * sets * setting.mean_items
        return rows / SOLVED_ROWS.get(method.model, OTHER_SOLVED_ROWS) / workers_here()
    device = "cpu" if jax.default_backend() == "cpu" else "accelerator"
    training, speeds = protocol.training, TRAINED_ROWS[device]
    epochs = min(EPOCHS_TO_STOP, training.epochs)
    trained = sets * setting.mean_items * epochs * protocol.trials * protocol.splits
    last = min(EPOCHS_OF_THE_LAST * epochs, training.epochs)
    steps = protocol.tuning.batches * last * sets / training.batch_size
    computed = trained / speeds.get(method.model, speeds["sda"]) + steps * SECONDS_A_STEP[device]
    together = workers_here() if device == "cpu" else 1  # an accelerator does one after another
    return SECONDS_TO_START[device] / workers_here() + computed / together


def longest_first(units: Sequence[Unit], seconds: Mapping[Unit, float]) -> list[Unit]:
    """In the order in which workers that finish together take them."""
    return sorted(units, key=lambda unit: -seconds[unit])

"""Search spaces: which arguments of an estimator to vary, and between what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from setwise._arguments import check_all, checked, flag, instance, number, shown
from setwise._arguments import text as check_text
from setwise._errors import InputError
from setwise.estimators import TrainedEstimator
from setwise.training.options import CHECKS, OPTIONS


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, uniform or (``log``) log-uniform; whole if both bounds are."""

    low: int | float
    high: int | float
    log: bool = False

    def __post_init__(self) -> None:
        check_all({"low": number(), "high": number(), "log": flag}, vars(self))
        if not self.low < self.high:
            raise InputError(f"the range from {self.low} to {self.high} is empty")
        if self.log and not self.low > 0:
            raise InputError(f"a range on a log scale must begin above 0, not at {self.low}")


Space = Mapping[str, Range | Sequence[Any]]
"""By an argument's name (of the estimator or of its training): a range, or values to choose of."""

SPACES: Mapping[str, Space] = {
    # The paper's: it gives dropout as a keep probability from 0.5 to 1.
    "paper": {
        "learning_rate": Range(1e-5, 1e-3, log=True),
        "weight_decay": Range(1e-10, 1e-3, log=True),
        "dropout": Range(0.0, 0.5),
    },
    "training": {
        "learning_rate": Range(1e-4, 2e-2, log=True),
        "weight_decay": Range(1e-6, 1e-1, log=True),
        "dropout": Range(0.0, 0.5),
        "decay": Range(0.8, 1.0),
    },
    "wide": {
        "learning_rate": Range(1e-4, 2e-2, log=True),
        "weight_decay": Range(1e-6, 1e-1, log=True),
        "dropout": Range(0.0, 0.5),
        "decay": Range(0.8, 1.0),
        "dimension": (8, 24, 48),
        "hidden": (16, 32, 64),
    },
}


def check(space: Space, estimator: TrainedEstimator) -> None:
    """Refuse a space with arguments that the estimator does not have."""
    if not isinstance(space, Mapping):
        raise InputError(f"the space must be a mapping of arguments to values, not {shown(space)}")
    estimator.check_arguments()
    checks = {**CHECKS, **estimator.CHECKS}
    known = [*OPTIONS, *estimator.get_params(deep=False)]
    for name, values in space.items():
        if name not in known:
            raise InputError(
                f"{type(estimator).__name__} has no argument '{name}' to tune; "
                f"it has: {', '.join(known)}"
            )
        if isinstance(values, Range):
            values = (values.low, values.high)
        elif not isinstance(values, (list, tuple)) or not values:
            raise InputError(
                f"the values of '{name}' to choose from must be a list of at least one, or a "
                f"setwise.Range; not {shown(values)}"
            )
        for value in values:
            checks[name](name, value)
    if not space:
        raise InputError("the space is empty; name at least one argument to tune")


A_TRAINED = instance(TrainedEstimator, "give one, such as setwise.SDA()")


@checked(estimator=A_TRAINED, values=instance(Mapping, "write {'epochs': 20}"))
def with_arguments(estimator: TrainedEstimator, values: Mapping[str, Any]) -> TrainedEstimator:
    """A fresh copy of the estimator with these arguments, its own or its training's.

    >>> import setwise as sw
    >>> with_arguments(sw.SDA(), {"hidden": 32, "dropout": 0.2}).training.dropout
    0.2
    """
    training = {name: value for name, value in values.items() if name in OPTIONS}
    own = {name: value for name, value in values.items() if name not in OPTIONS}
    fresh: TrainedEstimator = clone(estimator).set_params(**own)
    fresh.set_training(**training).check_arguments()
    return fresh


@checked(text=check_text)
def parse(text: str) -> tuple[str, Range | tuple[Any, ...]]:
    """An argument and its values as the command line writes them.

    >>> parse("learning_rate=1e-4..1e-2 log")
    ('learning_rate', Range(low=0.0001, high=0.01, log=True))
    >>> parse("hidden=16,32")
    ('hidden', (16, 32))
    """
    name, _, values = text.partition("=")
    words = values.split()
    if not name or not words or len(words) > 2 or words[1:] not in ([], ["log"]):
        raise InputError(f"'{text}' is no range; write name=low..high, name=low..high log, "
                         "or name=value,value")  # fmt: skip
    low, dots, high = words[0].partition("..")
    if dots:
        return name.strip(), Range(_number(low), _number(high), log=len(words) == 2)
    if len(words) == 2:
        raise InputError(f"'{text}': values to choose of have no scale; leave 'log' out")
    return name.strip(), tuple(_value(one) for one in words[0].split(","))


def _number(text: str) -> int | float:
    value = _value(text)
    if isinstance(value, str):
        raise InputError(f"'{text}' is no number")
    return value


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text

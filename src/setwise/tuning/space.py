"""Search spaces: which arguments of an estimator to vary, and between what."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, TypeVar

import numpy as np

from setwise._arguments import check_all, checked, flag, instance, number, shown
from setwise._arguments import text as check_text
from setwise._errors import InputError
from setwise.estimators import BoostedLogit, Estimator, LambdaMART, TrainedEstimator
from setwise.estimators.scikit_learn import unfitted
from setwise.training.options import OPTIONS


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
"""By an argument's name (of the estimator or its training): a range, or values to choose from."""

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
    "trees": {
        "learning_rate": Range(0.02, 0.2, log=True),
        "leaves": Range(4, 127, log=True),
        "min_rows": Range(5, 100),
        "l2": Range(0.1, 100.0, log=True),
        "columns": Range(0.2, 1.0),
        "random_splits": (True, False),
        "within_set": (True, False),
    },
    "lambdamart": {
        "objective": ("rank_xendcg", "lambdarank"),
        "learning_rate": Range(0.02, 0.2, log=True),
        "leaves": Range(4, 127, log=True),
        "min_rows": Range(5, 100),
    },
}

DEFAULT_SPACES: Mapping[type, str] = {
    TrainedEstimator: "training",
    BoostedLogit: "trees",
    LambdaMART: "lambdamart",
}
"""The space to take where none is given, by the kind of estimator; other kinds have none."""

PLAIN = (bool, int, float, str, type(None))
COMBINATIONS = 1000  # of listed values to look through for one that the estimator takes


def default_space(estimator: Estimator) -> str | None:
    """The name of the space that an estimator has where none is given; None if it has none.

    >>> import setwise as sw
    >>> default_space(sw.SDA()), default_space(sw.BoostedLogit()), default_space(sw.MNL())
    ('training', 'trees', None)
    """
    for kind, name in DEFAULT_SPACES.items():
        if isinstance(estimator, kind):
            return name
    return None


def arguments(estimator: Estimator) -> list[str]:
    """The arguments that a space may name: the estimator's own, and those of its training.

    >>> import setwise as sw
    >>> arguments(sw.MNL())
    ['l2', 'monotone', 'utility']
    """
    own = [name for name in estimator.get_params(deep=False) if name != "training"]
    return [*OPTIONS, *own] if isinstance(estimator, TrainedEstimator) else own


def check_space(space: Space, estimator: Estimator) -> None:
    """Refuse a space with arguments or values that the estimator does not take.

    Each listed value and both ends of each range must be fit for training, with at least one
    combination of the other listed values.
    """
    if not isinstance(space, Mapping):
        raise InputError(f"the space must be a mapping of arguments to values, not {shown(space)}")
    estimator.check_arguments()
    known = arguments(estimator)
    for name, values in space.items():
        if name not in known:
            raise InputError(
                f"{type(estimator).__name__} has no argument '{name}' to tune; "
                f"it has: {', '.join(known) or 'none'}"
            )
        _check_values(name, values)
    if not space:
        raise InputError("the space is empty; name at least one argument to tune")
    for name, values in space.items():
        for value in ends(values):
            _check_value(name, value, space, estimator)


def ends(values: "Range | Sequence[Any] | np.ndarray") -> tuple[Any, ...]:
    """The values to choose from as plain Python values; of a range its ends.

    >>> ends(Range(2, 8)), ends(np.array([2, 4]))
    ((2, 8), (2, 4))
    """
    if isinstance(values, Range):
        return values.low, values.high
    return tuple(one.item() if isinstance(one, np.generic) else one for one in values)


def _check_values(name: str, values: Any) -> None:
    """Refuse values of a kind that a study cannot store."""
    if isinstance(values, Range):
        return
    listed = isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, (str, bytes))
    if not listed or len(values) < 1:
        raise InputError(
            f"the values of '{name}' to choose from must be a list of at least one, or a "
            f"setwise.Range; not {values!r}"
        )
    for value in ends(values):
        if not isinstance(value, PLAIN):
            raise InputError(
                f"the values of '{name}' to choose from have {value!r}, which no study can store; "
                "list numbers, words, True, False or None"
            )


def _check_value(name: str, value: Any, space: Space, estimator: Estimator) -> None:
    """Refuse a value that the estimator takes with no combination of the space's other values."""
    refused: InputError | None = None
    for others in islice(_combinations(space, name), COMBINATIONS):
        try:
            with_arguments(estimator, {**others, name: value}).check_arguments()
            return
        except InputError as error:
            refused = refused or error
    kind = type(estimator).__name__
    raise InputError(
        f"the space has {name}={value!r}, which {kind} refuses: {refused}"
    ) from refused


def _combinations(space: Space, but: str) -> Iterator[dict[str, Any]]:
    """No other argument, then every combination of the others' values or ends."""
    yield {}
    others = {name: ends(values) for name, values in space.items() if name != but}
    for combination in product(*others.values()):
        yield dict(zip(others, combination, strict=True))


AN_ESTIMATOR = instance(Estimator, "give one, such as setwise.SDA()")

Some = TypeVar("Some", bound=Estimator)


@checked(estimator=AN_ESTIMATOR, values=instance(Mapping, "write {'epochs': 20}"))
def with_arguments(estimator: Some, values: Mapping[str, Any]) -> Some:
    """A fresh copy of the estimator with these arguments, its own or its training's.

    >>> import setwise as sw
    >>> with_arguments(sw.SDA(), {"hidden": 32, "dropout": 0.2}).training.dropout
    0.2
    """
    trains = isinstance(estimator, TrainedEstimator)
    training = {name: value for name, value in values.items() if trains and name in OPTIONS}
    own = {name: value for name, value in values.items() if name not in training}
    fresh: Some = unfitted(estimator).set_params(**own)
    if isinstance(fresh, TrainedEstimator):
        fresh.set_training(**training)
    return fresh


@checked(text=check_text)
def parse(text: str) -> tuple[str, Range | tuple[Any, ...]]:
    """An argument and its values as the command line writes them.

    >>> parse("learning_rate=1e-4..1e-2 log")
    ('learning_rate', Range(low=0.0001, high=0.01, log=True))
    >>> parse("hidden=16,32")
    ('hidden', (16, 32))
    >>> parse("within_set=true,false")
    ('within_set', (True, False))
    """
    name, _, values = text.partition("=")
    words = values.split()
    if not name or not words or len(words) > 2 or words[1:] not in ([], ["log"]):
        raise InputError(f"'{text}' is not a range; write name=low..high, name=low..high log, "
                         "or name=value,value")  # fmt: skip
    low, dots, high = words[0].partition("..")
    if dots:
        return name.strip(), Range(_number(low), _number(high), log=len(words) == 2)
    if len(words) == 2:
        raise InputError(f"'{text}': a list of values has no scale; leave 'log' out")
    return name.strip(), tuple(_value(one) for one in words[0].split(","))


def _number(text: str) -> int | float:
    value = _value(text)
    if value is None or isinstance(value, (str, bool)):
        raise InputError(f"'{text}' is not a number")
    return value


WORDS = {"true": True, "false": False, "none": None}


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text

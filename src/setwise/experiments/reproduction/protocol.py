"""The paper's protocol (docs/paper.md): which methods, on which sets, tuned and trained how."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from setwise._errors import InputError
from setwise.estimators import Estimator, TrainedEstimator, named
from setwise.experiments.reproduction.results import Method
from setwise.training import Options, Training
from setwise.tuning import Tuning

Part = Literal["table1", "ablation", "full", "figures", "all"]
PARTS: tuple[Part, ...] = ("table1", "ablation", "full", "figures", "all")

TABLE: Mapping[str, tuple[str, ...]] = {
    "Ours": ("sda", "sde", "sdw"),
    "IIA": ("mnl", "svmrank", "ranknet"),
    "non-IIA": ("mixed_mnl", "adarank", "deep_sets"),
    "basic": ("single_feature", "random"),
}
"""The methods of the paper's Table 1, by its groups; "sda" is the paper's, `SDA.paper()`."""

ABLATION = ("sda", "sda_tanh", "sda_linear", "sda_vector", "sde", "sdw", "mnl_set", "mnl")
"""The rows of its Table 4."""

CLASSICAL = (
    "mnl", "tversky", "mcfadden", "krs", "orhun", "kaneko_nakamura", "lam", "ccm", "nccm",
)  # fmt: skip
"""The models of its Claim 1, in the centre of its figure beside SDA."""

MAIN_DIMENSION = 24
"""l of all tables."""

DIMENSIONS = (1, 2, 4, 8, 16, MAIN_DIMENSION, 32)
"""l on the left of its figure."""

REGIONS = ("sda", "mnl", "deep_sets")
"""The models whose correctness makes the regions on the right of its figure."""

SIZES = (0.5, 0.25, 0.25)


@dataclass(frozen=True)
class Protocol:
    """How a reproduction is done; the defaults are the paper's.

    Args:
        splits: random splits 50:25:25, each of a sample of its own.
        sets: how many sets a sample has, at most.
        trials: of tuning, for each method and split.
        space: what is tuned, by its name (:data:`setwise.tuning.SPACES`).
        training: batch, decay and stopping; what is tuned is not taken from here.
        dimensions: values of l for the left of the figure.
        seed: split i uses seed + i, for its sample, its parts and its models.

    >>> Protocol().trials, Protocol().training.patience
    (100, 25)
    """

    splits: int = 10
    sets: int = 10_000
    trials: int = 100
    space: str = "paper"
    training: Options = Options(  # noqa: RUF009 (frozen)
        decoupled_weight_decay=False, stop_on="accuracy", patience=25
    )
    dimensions: tuple[int, ...] = DIMENSIONS
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("splits", 1), ("sets", 4), ("trials", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} must be at least {least}")

    @property
    def tuning(self) -> Tuning:
        """The search; the reproduction itself keeps it."""
        return Tuning(self.trials, self.space, storage=None, seed=self.seed)

    def methods(self, part: Part, main: bool) -> list[Method]:
        """The methods of a part, in order; ``main``: at the size of sets of the paper's Table 1.

        >>> [str(one) for one in Protocol(dimensions=(4, 24)).methods("figures", True)][:4]
        ['sda', 'sda-l4', 'mnl', 'tversky']
        """
        found: list[Method] = []
        if part in ("full", "all") or (part == "table1" and main):
            found += [Method(name) for group in TABLE.values() for name in group]
        if part in ("ablation", "all"):
            found += [Method(name) for name in ABLATION]
        if part in ("figures", "all") and main:
            found.append(Method("sda"))
            found += [Method("sda", l) for l in self.dimensions if l != MAIN_DIMENSION]  # noqa: E741
            found += [Method(name) for name in (*CLASSICAL, *REGIONS)]
        return list(dict.fromkeys(found))

    def estimator(self, method: Method) -> Estimator:
        """The method's estimator with the paper's sizes, and this protocol's training."""
        estimator = named(method.model, "paper")
        if isinstance(estimator, TrainedEstimator):
            objective = estimator.training_options.objective
            options = asdict(self.training) | {"objective": objective}
            estimator.set_params(training=Training(**options))
        if method.dimension is not None:
            estimator.set_params(dimension=method.dimension)
        return estimator

    def described(self) -> dict[str, Any]:
        """As plain values: everything that results depend on, beside the data."""
        return asdict(self) | {"dimensions": list(self.dimensions)}


PRESETS: Mapping[str, Protocol] = {
    "paper": Protocol(),
    "quick": Protocol(
        # The paper's small steps need its many epochs.
        splits=3, sets=600, trials=4, space="training", dimensions=(1, 4, MAIN_DIMENSION),
        training=Options(epochs=30, batch_size=32, stop_on="accuracy", patience=10),
    ),
}  # fmt: skip
"""The paper's protocol, and one that shows the whole in minutes and proves nothing."""

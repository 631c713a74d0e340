"""The outside rival: gradient-boosted trees that rank, by LightGBM (the extra ``rivals``)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float

from setwise import _segments
from setwise._arguments import number, one_of, seed, whole
from setwise._errors import InputError
from setwise._trees import Trees
from setwise.choices import Choices, Encoded, Schema
from setwise.estimators.base import FEWEST_SETS, Estimator, warn_if_perfect
from setwise.estimators.basic import chosen_of, shares, temperature
from setwise.metrics import Ranks
from setwise.models import BoostedTrees
from setwise.scoring.model_file import Artifact

Objective = Literal["rank_xendcg", "lambdarank"]
LARGEST_SET = 10_000  # LightGBM's own limit for one query
FITTED = ("temperature", "best_round", "history")
OF_TREES = "trees/"
"""What names of arrays begin with in a model file."""


class LambdaMART(Estimator):
    """Trees that rank (Burges 2010): P(x | s) = softmax(g(x, c) / T), g a sum of regression trees.

    Trees see the standardised item columns and, beside them, the set's context c; not the other
    items, so that IIA holds within a set. Sets' weights count in training, in early stopping and
    for T, which is fitted as in :class:`~setwise.estimators.basic.LinearScorer`.

    Args:
        objective: "rank_xendcg" (a listwise cross-entropy) or "lambdarank" (pairs weighted by
            what they change in NDCG).
        rounds: the most trees.
        learning_rate: how much of each tree counts.
        leaves: of each tree, at most.
        min_rows: in each leaf, at least.
        patience: stop after this many trees without a better top-1 accuracy (ties by
            expectation) on the validation part, and keep the trees up to the best.
        threads: that LightGBM uses in training; 0 leaves it to LightGBM (one per core).
        seed: of the objective, and of the held-out fifth where no validation part is given.

    Fitted attributes: ``model_`` (the trees as arrays, :class:`setwise._trees.Trees`, which
    NumPy scores: only training needs LightGBM), ``best_round_`` (how many trees are kept),
    ``history_`` (validation top-1 after each tree), ``temperature_``.

    >>> LambdaMART("lambdarank", rounds=100)
    LambdaMART(objective='lambdarank', rounds=100)
    """

    CHECKS: ClassVar = {
        "objective": one_of(*get_args(Objective)),
        "rounds": whole(),
        "learning_rate": number(above=0),
        "leaves": whole(2),
        "min_rows": whole(),
        "patience": whole(),
        "threads": whole(0),
        "seed": seed,
    }

    model_: Trees  # type: ignore[assignment]

    def __init__(
        self,
        objective: Objective = "rank_xendcg",
        *,
        rounds: int = 1000,
        learning_rate: float = 0.05,
        leaves: int = 31,
        min_rows: int = 20,
        patience: int = 50,
        threads: int = 0,
        seed: int = 0,
    ):
        self.objective = objective
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.min_rows = min_rows
        self.patience = patience
        self.threads = threads
        self.seed = seed

    @property
    def holds_out(self) -> bool:
        """True: a validation part says how many trees count."""
        return True

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        lightgbm = _lightgbm()
        if validation is None:
            choices, validation = self.parts_of_fit(choices)
        assert validation is not None
        schema, seen = Schema.learn(choices)
        train, valid = seen.encoded(), schema.encode(validation)
        _check_sizes(train)
        data = _dataset(lightgbm, train)
        history: dict[str, dict[str, list[float]]] = {}
        booster = lightgbm.train(
            self._settings(),
            data,
            self.rounds,
            valid_sets=[_dataset(lightgbm, valid, data)],
            valid_names=["validation"],
            feval=_top1(valid),
            callbacks=[
                lightgbm.early_stopping(self.patience, verbose=False),
                lightgbm.record_evaluation(history),
            ],
        )
        self.best_round_, self.history_ = booster.best_iteration, history["validation"]["top1"]
        self.model_ = Trees.parsed(booster.model_to_string(num_iteration=self.best_round_))
        self.temperature_ = temperature(self._scores(valid), valid)
        self.schema_ = schema
        right = len(valid) >= FEWEST_SETS and max(self.history_) == 1
        warn_if_perfect(right, "validation")

    def _settings(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.min_rows,
            "num_threads": self.threads,
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,  # else a timing decides, and with it the rounding
            "metric": "None",  # LightGBM's break ties by array order
            "verbosity": -1,
        }

    def _scores(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        return self.model_.predict(_columns(encoded))

    @property
    def graph_model(self) -> BoostedTrees:
        """The trees as a model; scores are divided by the temperature."""
        width = self.schema_.width
        return BoostedTrees.of(self.model_, width, within=False, times=1 / self.temperature_)

    def row_log_probabilities(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        return _segments.log_softmax(self._scores(encoded) / self.temperature_, encoded.offsets)

    def _to_artifact(self) -> Artifact:
        fitted = {name: getattr(self, f"{name}_") for name in FITTED}
        arrays = {f"{OF_TREES}{name}": array for name, array in self.model_.arrays().items()}
        return Artifact("LambdaMART", self.get_params(deep=False), self.schema_, fitted, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "LambdaMART":
        estimator = cls(**artifact.params)
        estimator.schema_ = artifact.schema
        number(above=0)("temperature", artifact.fitted["temperature"])
        for name in FITTED:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        arrays = {name.removeprefix(OF_TREES): array for name, array in artifact.arrays.items()}
        estimator.model_ = Trees.of(arrays, artifact.schema.width)
        return estimator


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError:
        raise InputError("LambdaMART needs LightGBM: pip install 'setwise[rivals]'") from None
    return lightgbm


def _dataset(lightgbm: Any, encoded: Encoded, reference: Any = None) -> Any:
    """Rows with label 1 for the chosen item and 0 for the others; a set is a query."""
    label = np.zeros(len(encoded.items))
    label[encoded.offsets[:-1] + chosen_of(encoded)] = 1
    weight = _segments.spread(shares(encoded) * len(encoded), encoded.offsets)
    return lightgbm.Dataset(
        _columns(encoded),
        label,
        reference=reference,
        group=encoded.sizes,
        weight=None if encoded.weight is None else weight,
    )


def _columns(encoded: Encoded) -> Float[np.ndarray, "rows columns"]:
    return np.hstack([encoded.items, _segments.spread(encoded.context, encoded.offsets)])


def _top1(encoded: Encoded) -> Callable[[np.ndarray, Any], tuple[str, float, bool]]:
    """Top-1 accuracy on these choices, as LightGBM asks for measures."""
    chosen, weight = chosen_of(encoded), shares(encoded)

    def measure(scores: np.ndarray, data: Any) -> tuple[str, float, bool]:
        return "top1", float(Ranks.of(scores, encoded.offsets, chosen).top(1) @ weight), True

    return measure


def _check_sizes(encoded: Encoded) -> None:
    if encoded.sizes.max() > LARGEST_SET:
        raise InputError(
            f"LightGBM takes sets of at most {LARGEST_SET:,} items, and one has "
            f"{encoded.sizes.max():,}; leave such sets out with "
            f"choices.limit(max_items={LARGEST_SET})"
        )

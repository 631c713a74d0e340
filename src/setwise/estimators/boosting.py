"""Gradient-boosted trees by LightGBM: on the choice likelihood, and rankers as a rival."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float

from setwise import _segments
from setwise._arguments import flag, number, one_of, seed, whole
from setwise._errors import InputError
from setwise._tensorfile import named_arrays, with_arrays
from setwise._tree_view import TreeView
from setwise._trees import Trees
from setwise.choices import Choices, Encoded, Schema
from setwise.estimators.base import FEWEST_SETS, Estimator, warn_if_perfect
from setwise.estimators.basic import chosen_of, shares, temperature
from setwise.estimators.monotone import encoded_signs, is_monotone
from setwise.metrics import Ranks
from setwise.models import BoostedTrees
from setwise.scoring.model_file import Artifact
from setwise.training.boosting import Boosted, Boosting, OnRound, boost, lightgbm, tree_rows
from setwise.training.progress import round_bar

Objective = Literal["rank_xendcg", "lambdarank"]
LARGEST_SET = 10_000  # LightGBM's own limit for one query
MOST_LEAVES = 131_072  # of a tree, for LightGBM
FITTED = ("temperature", "best_round", "history")
FITTED_LOGIT = ("best_round", "history", "importances")
CERTAIN = 0.01  # nats per choice
OF_TREES = "trees/"
"""What names of arrays begin with in a model file."""


class BoostedLogit(Estimator):
    """Boosted trees on the choice likelihood: P(x | s) = softmax of g(x, s), g a sum of trees.

    Trees see the columns of an item, where it stands in its set (the z-score, position and rank of
    each number), the mean and the range of each number in the set, the number of items, and the
    context. So removing an item changes the scores of the others, and IIA need not hold. Categories
    are split as LightGBM does, by sets of levels.

    Args:
        within_set: whether trees see where items stand in their set, and how the set is. With
            False they see the columns of the item and the context alone, and IIA holds.
        rounds: the most trees.
        learning_rate: how much of each tree counts.
        leaves: of each tree, at most.
        min_rows: rows in each leaf, at least.
        l2: the penalty on the squares of leaf values.
        columns: share of the columns that each tree sees, drawn at random.
        random_splits: whether thresholds are drawn at random (extremely randomised trees). Good
            on noisy data of many features.
        monotone: by item column, 1 if the probability of an item must not fall where its value
            rises, and -1 if it must not rise: ``monotone={"price": -1}``. All else equal, the
            prediction obeys this.
        patience: stop after this many rounds without a better NLL on the validation part, and
            keep the trees up to the best round.
        threads: that LightGBM uses in training; 0 is one per core, and one for few rows.
        seed: of the random draws, and of the held-out fifth where no validation part is given.

    Fitted attributes: ``model_`` (:class:`setwise.models.BoostedTrees`, which NumPy scores: only
    training needs LightGBM), ``best_round_`` (how many trees are kept), ``history_`` (the
    validation NLL after each round), ``importances_`` (by what trees see, its share of what all
    splits improved the likelihood by).

    >>> import setwise as sw
    >>> train, valid, test = sw.split(sw.datasets.load("modecanada").sample(800))
    >>> model = BoostedLogit(rounds=20, monotone={"cost": -1}).fit(train, valid)
    >>> model.evaluate(test).nll < 1
    True
    """

    CHECKS: ClassVar = {
        "within_set": flag,
        "rounds": whole(),
        "learning_rate": number(above=0),
        "leaves": whole(2, MOST_LEAVES),
        "min_rows": whole(),
        "l2": number(least=0),
        "columns": number(above=0, most=1),
        "random_splits": flag,
        "monotone": is_monotone,
        "patience": whole(),
        "threads": whole(0),
        "seed": seed,
    }

    model_: BoostedTrees
    best_round_: int
    history_: list[float]
    importances_: dict[str, float]

    def __init__(
        self,
        *,
        within_set: bool = True,
        rounds: int = 2000,
        learning_rate: int | float = 0.05,
        leaves: int = 31,
        min_rows: int = 20,
        l2: int | float = 10.0,
        columns: int | float = 0.5,
        random_splits: bool = False,
        monotone: Mapping[str, int] | None = None,
        patience: int = 40,
        threads: int = 0,
        seed: int = 0,
    ):
        self.within_set = within_set
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.min_rows = min_rows
        self.l2 = l2
        self.columns = columns
        self.random_splits = random_splits
        self.monotone = monotone
        self.patience = patience
        self.threads = threads
        self.seed = seed

    @property
    def holds_out(self) -> bool:
        """True: a validation part says how many trees count."""
        return True

    @property
    def boosting(self) -> Boosting:
        """The arguments that say how trees are grown."""
        return Boosting(**{one.name: getattr(self, one.name) for one in fields(Boosting)})

    @property
    def satisfies_iia(self) -> bool:
        """True unless trees see where items stand in their set."""
        return not self.within_set

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        if validation is None:
            choices, validation = self.parts_of_fit(choices)
        assert validation is not None
        schema, seen = Schema.learn(choices)
        valid = schema.encode(validation)
        with round_bar("BoostedLogit", self.rounds, progress) as on_round:
            self.learn(schema, seen.encoded(), valid, on_round=on_round)
        warn_if_perfect(len(valid) >= FEWEST_SETS and min(self.history_) < CERTAIN, "validation")

    def learn(
        self,
        schema: Schema,
        train: Encoded,
        valid: Encoded,
        deadline: float = np.inf,
        on_round: OnRound | None = None,
    ) -> Boosted:
        """Learn from encoded sets; ``deadline`` and ``on_round`` as in boosting."""
        view = tree_view(schema, self.within_set)
        monotone = encoded_signs(self.monotone, schema)
        with _lightgbm_errors(self.min_rows):
            found = boost(train, valid, view, self.boosting, monotone, deadline, on_round)
        self.schema_, self.best_round_, self.history_ = schema, found.best_round, found.history
        self.model_ = BoostedTrees.of(found.trees, view.own, view.categories, view.within)
        names = view.names([*schema.item_names, *schema.context_names])
        shares = found.gains / max(found.gains.sum(), np.finfo(float).tiny)
        ordered = np.argsort(-shares, kind="stable").tolist()
        self.importances_ = {names[n]: float(shares[n]) for n in ordered if shares[n] > 0}
        return found

    def _to_artifact(self) -> Artifact:
        fitted = {name: getattr(self, f"{name}_") for name in FITTED_LOGIT}
        arrays = named_arrays(self.model_)
        return Artifact("BoostedLogit", self.get_params(deep=False), self.schema_, fitted, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "BoostedLogit":
        estimator = cls(**artifact.params)
        estimator.schema_ = artifact.schema
        for name in FITTED_LOGIT:
            setattr(estimator, f"{name}_", artifact.fitted[name])
        skeleton = tree_skeleton(artifact.arrays, artifact.schema, estimator.within_set)
        estimator.model_ = with_arrays(skeleton, artifact.arrays)
        estimator.model_.check(artifact.schema.width)
        return estimator


def tree_view(schema: Schema, within_set: bool) -> TreeView:
    """What trees see of rows that this schema encodes."""
    blocks, begin = [], 0
    for one in (*schema.model_items, *schema.model_context):
        if one.kind == "category" and len(one.names) > 1:
            blocks.append((begin, begin + len(one.names)))
        begin += len(one.names)
    return TreeView(len(schema.item_names), tuple(blocks), within_set)


def tree_skeleton(
    arrays: Mapping[str, np.ndarray], schema: Schema, within_set: bool
) -> BoostedTrees:
    """The trees of a file's arrays, with shapes in their place: to be filled, then checked."""
    view = tree_view(schema, within_set)
    return BoostedTrees.skeleton(arrays, view.own, view.categories, view.within)


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
        "leaves": whole(2, MOST_LEAVES),
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

    @property
    def satisfies_iia(self) -> bool:
        """True: trees see the item and the context alone."""
        return True

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        library = lightgbm()
        if validation is None:
            choices, validation = self.parts_of_fit(choices)
        assert validation is not None
        schema, seen = Schema.learn(choices)
        train, valid = seen.encoded(), schema.encode(validation)
        _check_sizes(train)
        data = _dataset(library, train)
        history: dict[str, dict[str, list[float]]] = {}
        with _lightgbm_errors(self.min_rows):
            booster = library.train(
                self._settings(),
                data,
                self.rounds,
                valid_sets=[_dataset(library, valid, data)],
                valid_names=["validation"],
                feval=_top1(valid),
                callbacks=[
                    library.early_stopping(int(self.patience), verbose=False),
                    library.record_evaluation(history),
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
        return self.model_.predict(tree_rows(encoded))

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


@contextmanager
def _lightgbm_errors(min_rows: int) -> Iterator[None]:
    """Say in one sentence that LightGBM refuses arguments, or that they allow no split."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, lightgbm().basic.LightGBMError):
            raise
        what = str(error).partition(" at /")[0]  # the rest is a line of LightGBM's source
        raise InputError(
            f"LightGBM cannot grow trees with these arguments ({what}); for few rows, "
            f"min_rows={min_rows} may be too large"
        ) from error


def _dataset(library: Any, encoded: Encoded, reference: Any = None) -> Any:
    """Rows with label 1 for the chosen item and 0 for the others; a set is a query."""
    label = np.zeros(len(encoded.items))
    label[encoded.offsets[:-1] + chosen_of(encoded)] = 1
    weight = _segments.spread(shares(encoded) * len(encoded), encoded.offsets)
    return library.Dataset(
        tree_rows(encoded),
        label,
        reference=reference,
        group=encoded.sizes,
        weight=None if encoded.weight is None else weight,
    )


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

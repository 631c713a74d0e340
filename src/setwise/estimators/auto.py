"""The default predictor: logits, boosted trees and networks, weighed by what they predict."""

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from setwise._arguments import each, instance, number, one_of, optional, seed
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise._tensorfile import named_arrays, with_arrays
from setwise.choices import Choices, Encoded, Encoding, Schema
from setwise.estimators.base import FEWEST_SETS, Estimator, held_out, warn_if_perfect
from setwise.estimators.boosting import CERTAIN, BoostedLogit, tree_skeleton
from setwise.estimators.logit import MNL, ConvexLogit, LinearContextLogit, WithinSetMNL
from setwise.estimators.monotone import is_monotone
from setwise.estimators.networks import SDA, SDA_KINDS
from setwise.metrics.measures import numbered
from setwise.models import ZOO, BoostedTrees, Ensemble, Model, Sizes
from setwise.scoring.model_file import Artifact
from setwise.training import (
    Fit,
    Interrupted,
    Task,
    beyond_chance,
    chosen_log_probabilities,
    fit_population,
    mixture,
    resident_or_streamed,
    select,
)
from setwise.training.boosting import FEW_ROWS
from setwise.training.processes import alone
from setwise.training.progress import round_bar, training_bar
from setwise.training.shards import stays_on_disk

FOLDS = 4
"""Of cross-fitting: each member learns from three quarters and is judged on the rest."""
ENOUGH_SETS = 20_000
"""With more sets than this a held-out fifth costs little, and cross-fitting much."""
MOST_ROWS = 2_000_000
"""Logits and trees hold their data in memory: of data on disk they see a sample of the sets."""
MOST_PRODUCTS, MOST_NUMBERS = 300, 50_000_000
"""The linear context logit has a coefficient, and a column, per pair of columns: with more of them,
or of numbers in all of them, it is left out."""
FEWEST_ROWS = 50
"""Of a training part for trees: their leaves have up to 20 rows at least."""
FOR_TREES = 0.4
"""The share of a time budget that logits and trees may take."""
TREES_AT_ONCE = 2
"""Of few rows: more would wait for one another to compute gradients in Python."""
TO_COMPILE = 25.0
"""Seconds. With less time left, networks would end before they learn: they are left out."""

LOGITS: Mapping[str, type[ConvexLogit]] = {
    "mnl": MNL, "mnl_within_set": WithinSetMNL, "lcl": LinearContextLogit,
}  # fmt: skip
TREES: Mapping[str, Mapping[str, Any]] = {
    "trees, items alone": {"within_set": False, "leaves": 4, "columns": 1.0, "l2": 1.0},
    "trees": {"leaves": 15},
    "trees, random splits": {"leaves": 31, "min_rows": 5, "random_splits": True},
    "trees, large": {"leaves": 63, "min_rows": 10, "columns": 0.3},
    "trees, very large": {"leaves": 127, "min_rows": 5, "columns": 0.3, "l2": 30.0},
}
"""Boosted trees that differ in what they are good at: smooth, noisy and intricate data.

The very large ones are for sets that come back. They are the slowest to score: trees of more than
64 leaves do not fit into the bit masks by which the others are scored.
"""
NETWORKS: Mapping[str, Any] = {
    "kinds": ("pieces", "straight"),
    "ensemble": 4,
}
"""The members of SDA's ensemble that add something to trees."""

UNBOUND = "Networks and logits with context were left out: they cannot guarantee monotone=."

KINDS = (*LOGITS, "trees", "trees_alone", *(kind.blueprint for kind in SDA_KINDS.values()))
"""What a member can be, for a model file."""


@dataclass(frozen=True, eq=False)
class Part:
    """Sets to learn from, and other sets to judge by."""

    train: Encoding
    valid: Encoding

    @cached_property
    def small(self) -> tuple[Encoded, Encoded]:
        """Both in memory: all sets, or samples of them."""
        return _in_memory(self.train), _in_memory(self.valid)

    @property
    def task(self) -> Task:
        """Both for networks, which can read their data from disk."""
        on_disk = any(stays_on_disk(one.choices) for one in (self.train, self.valid))
        return Task(*map(resident_or_streamed, (self.train, self.valid)) if on_disk else self.small)


class Candidate(NamedTuple):
    """A member with its fitted models, one per part, and how it predicts sets it has not seen."""

    name: str
    kind: str
    models: Sequence[Model]
    log_p: Float[np.ndarray, " sets"]
    """log P of what was chosen, in the validation sets of all parts."""
    seconds: float


@dataclass(frozen=True)
class AutoMember:
    """One row of the summary of :class:`Auto`."""

    name: str
    weight: float
    nll: float
    seconds: float


@dataclass(frozen=True, eq=False)
class AutoSummary:
    """What each member of :class:`Auto` counts; ``print`` and notebooks show the table.

    ``nll`` is of sets that a member did not learn from, alone and (``together``) as weighed.
    """

    members: tuple[AutoMember, ...]
    together: float
    sets: int
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "members": [asdict(one) for one in self.members],
            "nll": self.together,
            "sets": self.sets,
            "note": self.note,
        }

    def to_frame(self) -> Any:
        """A Polars frame with a row per member: name, weight, nll, seconds."""
        import polars as pl

        return pl.DataFrame([asdict(one) for one in self.members])

    def _rows(self) -> list[list[str]]:
        return [
            [one.name, f"{one.weight:.3f}", f"{one.nll:.4f}", f"{one.seconds:.1f}"]
            for one in self.members
        ]

    def _below(self) -> str:
        text = f"NLL of all, as weighed: {self.together:.4f}, on {self.sets:,} sets"
        return f"{text} that members did not learn from. {self.note}".strip()

    def _repr_html_(self) -> str:
        heads = ["member", "weight", "NLL alone", "seconds"]
        return notebook_html(heads, self._rows(), note=self._below())

    def __str__(self) -> str:
        width = max(len(one.name) for one in self.members)
        lines = [f"{'member':<{width}}  {'weight':>6}  {'NLL alone':>9}  {'seconds':>7}"]
        for name, *numbers in self._rows():
            weight, nll, seconds = numbers
            lines.append(f"{name:<{width}}  {weight:>6}  {nll:>9}  {seconds:>7}")
        return "\n".join([*lines, self._below()])


class Auto(Estimator):
    """The best of several families: logits, boosted trees and set-dependent networks.

        P(x | s) = sum over members m of w_m P_m(x | s)

    Members are logits with an L2 penalty (:class:`MNL`, :class:`WithinSetMNL`,
    :class:`LinearContextLogit`), five kinds of :class:`BoostedLogit` and four members of
    :class:`SDA`. The weights w are chosen on sets that members did not learn from, by greedy
    selection: members that add nothing get none, and cost nothing in prediction.

    With ``fit(train, validation=valid)`` members learn from ``train``, and ``valid`` stops and
    weighs them. Where few sets choose the weights, their gain over the MNL may be chance: below
    three of its standard errors (clustered by person, where people are known) they are drawn
    towards the MNL, as far as the gain less one standard error becomes largest. With n < 500 sets
    the MNL has a share of 10 / (n + 10) at least.

    Without a validation part members are cross-fitted: the sets (whole groups, where a group column
    was read) are divided into four folds, each member is fitted four times without one of them, and
    predictions are averaged. So all data train. With more than 20,000 sets a fifth is held out
    instead.

    Args:
        time_budget: seconds that ``fit`` may take; None sets no limit. With little time members
            stop early, and networks are left out; :meth:`summary` says so.
        monotone: by item column, 1 if the probability of an item must not fall where its value
            rises, and -1 if it must not rise: ``monotone={"price": -1}``. Only members that
            guarantee this take part, so that their mixture does too: the MNL, with bounds, and the
            trees. The logits with context and the networks are left out.
        seed: of networks, trees, folds and samples.

    Fitted attributes: ``members_`` (:class:`AutoMember`: name, weight, NLL alone, seconds),
    ``validation_nll_`` (of all members as weighed, on the sets that chose the weights),
    ``interrupted_``, ``model_`` (an :class:`~setwise.models.Ensemble` of the members that count).

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=300, items=4, features=2).choices
    >>> model = Auto(time_budget=3).fit(choices)
    >>> sum(one.weight for one in model.members_)
    1.0
    """

    CHECKS: ClassVar = {
        "time_budget": optional(number(above=0)), "monotone": is_monotone, "seed": seed,
    }  # fmt: skip

    members_: list[AutoMember]
    validation_nll_: float
    validation_sets_: int
    interrupted_: bool
    left_out_: str

    def __init__(
        self,
        *,
        time_budget: int | float | None = None,
        monotone: Mapping[str, int] | None = None,
        seed: int = 0,
    ):
        self.time_budget = time_budget
        self.monotone = monotone
        self.seed = seed

    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        if not alone():
            raise InputError(
                "Auto does not train on several processes; choose a model that does, such as sda"
            )
        begun = time.monotonic()
        end = np.inf if self.time_budget is None else begun + self.time_budget
        if validation is None:
            choices, validation = self.parts_of_fit(choices)
        schema, seen = Schema.learn(choices)
        parts = _parts(schema, seen, validation, self.seed)
        self.interrupted_, self.left_out_ = False, UNBOUND if self.monotone else ""
        candidates = list(self._solved(schema, parts))
        candidates += self._boosted(schema, parts, begun, end, progress)
        if not self.monotone:
            candidates += self._trained(parts, end, checkpoint, progress)
        self.schema_ = schema
        self._weigh(candidates, parts)

    def parts_of_fit(self, choices: Choices) -> tuple[Choices, Choices | None]:
        """All sets, which are cross-fitted; of very many, four fifths and the held-out rest."""
        if len(choices) <= ENOUGH_SETS:
            return choices, None
        return held_out(choices, int(self.seed))

    def _solved(self, schema: Schema, parts: Sequence[Part]) -> Iterator[Candidate]:
        """Logits with a penalty that the validation sets choose."""
        products = len(schema.item_names) * (schema.width + 1)
        rows = max(len(part.small[0].items) for part in parts)
        for name, logit in LOGITS.items():
            if self.monotone and logit is not MNL:
                continue
            if name == "lcl" and (products > MOST_PRODUCTS or rows * products > MOST_NUMBERS):
                continue
            begun, models, log_p = time.monotonic(), [], []
            for part in parts:
                train, valid = part.small
                estimator = MNL(monotone=self.monotone) if logit is MNL else logit()
                log_p.append(estimator.solve(schema, train, valid))
                models.append(estimator.model_)
            yield Candidate(name, name, models, np.concatenate(log_p), time.monotonic() - begun)

    def _boosted(
        self,
        schema: Schema,
        parts: Sequence[Part],
        begun: float,
        end: float,
        progress: bool | None,
    ) -> Iterator[Candidate]:
        """Boosted trees of several settings."""
        no_networks = bool(self.monotone) or end - begun < TO_COMPILE / (1 - FOR_TREES)
        share = (1.0 if no_networks else FOR_TREES) * (end - begun) if end < np.inf else np.inf
        left = len(TREES) * len(parts)
        fewest = min(len(part.small[0].items) for part in parts)
        if fewest < FEWEST_ROWS:
            why = f"Trees were left out: they need at least {FEWEST_ROWS} rows."
            self.left_out_ = f"{self.left_out_} {why}".strip()
            return

        def grow(name: str, progress: bool | None) -> Candidate:
            nonlocal left
            first, models, log_p = time.monotonic(), [], []
            for part in parts:
                now = time.monotonic()
                deadline = now + max(begun + share - now, 0.0) / left if end < np.inf else np.inf
                left -= 1
                train, valid = part.small
                estimator = BoostedLogit(monotone=self.monotone, seed=self.seed, **TREES[name])
                with round_bar(name, estimator.rounds, progress) as on_round:
                    log_p.append(estimator.learn(schema, train, valid, deadline, on_round).log_p)
                models.append(estimator.model_)
            kind = "trees" if estimator.within_set else "trees_alone"
            return Candidate(name, kind, models, np.concatenate(log_p), time.monotonic() - first)

        at_once = 1 if end < np.inf else _trees_at_once(parts)
        if at_once == 1:
            yield from (grow(name, progress) for name in TREES)
            return
        with ThreadPoolExecutor(at_once) as threads:  # too short for a bar of each
            yield from threads.map(partial(grow, progress=False), TREES)

    def _trained(
        self, parts: Sequence[Part], end: float, checkpoint: Path | None, progress: bool | None
    ) -> Iterator[Candidate]:
        """Members of SDA's ensemble, all parts as one population."""
        if end - time.monotonic() < TO_COMPILE:
            why = "Networks were left out: the time budget was too short for them."
            self.left_out_ = f"{self.left_out_} {why}".strip()
            return
        networks = SDA(seed=self.seed, **NETWORKS)
        members = [member for place in range(len(parts)) for member in networks.members(place)]
        tasks = [part.task for part in parts]
        begun = time.monotonic()

        def overdue(epoch: int, losses: Mapping[int, float]) -> list[int]:
            return list(losses) if time.monotonic() >= end else []

        with training_bar("SDA", members, progress) as bar:
            fits: Sequence[Fit | None]
            try:
                fits = fit_population(
                    networks.blueprint, networks.sizes(), tasks, members,
                    prune=None if end == np.inf else overdue, checkpoint_folder=checkpoint,
                    on_epoch=None if bar is None else bar.on_epoch,
                    on_shard=None if bar is None else bar.on_shard,
                )  # fmt: skip
            except Interrupted as early:
                fits = [early.fits.get(place) for place in range(len(members))]
        self.interrupted_ = any(one is None or one.interrupted for one in fits)
        seconds = (time.monotonic() - begun) / networks.ensemble
        for first, name in enumerate(networks.member_names()):
            own = [fits[place] for place in range(first, len(fits), networks.ensemble)]
            if any(one is None or one.best_epoch < 0 for one in own):
                continue
            models = [one.model for one in own if one is not None]
            log_p = [
                chosen_log_probabilities([model], part.small[1])[0]
                for model, part in zip(models, parts, strict=True)
            ]
            blueprint = SDA_KINDS[name.partition(",")[0]].blueprint
            yield Candidate(f"sda, {name}", blueprint, models, np.concatenate(log_p), seconds)

    def _weigh(self, candidates: Sequence[Candidate], parts: Sequence[Part]) -> None:
        """Choose the weights, and keep the models that have one."""
        weight_of_sets = _joined_weights(part.small[1] for part in parts)
        log_p = np.stack([one.log_p for one in candidates])
        sound = np.isfinite(log_p).all(1)
        weights = np.zeros(len(candidates))
        weights[sound] = select(log_p[sound], weight_of_sets)
        share = weight_of_sets / weight_of_sets.sum()
        if sound[0]:
            weights = beyond_chance(log_p, weights, weight_of_sets, _people(parts))
        self.members_ = [
            AutoMember(one.name, float(weight), -float(one.log_p @ share), one.seconds)
            for one, weight in zip(candidates, weights, strict=True)
        ]
        mixed = mixture(log_p, weights)
        self.validation_nll_, self.validation_sets_ = -float(mixed @ share), len(mixed)
        kept = [(one, weight) for one, weight in zip(candidates, weights, strict=True) if weight]
        models = [model for one, _ in kept for model in one.models]
        shared = [weight / len(one.models) for one, weight in kept for _ in one.models]
        self.kinds_ = [one.kind for one, _ in kept for _ in one.models]
        self.model_ = Ensemble.of(models, np.array(shared))
        if self.interrupted_:
            warnings.warn(
                "training of networks was interrupted; the others, and what networks had learned "
                "by then, are kept",
                stacklevel=4,
            )
        enough = len(mixed) >= FEWEST_SETS
        warn_if_perfect(enough and self.validation_nll_ < CERTAIN, "validation")

    def summary(self) -> AutoSummary:
        """What each member counts, how it does alone, and how long it took."""
        self.check_is_fitted()
        ordered = sorted(self.members_, key=lambda one: (-one.weight, one.nll))
        return AutoSummary(
            tuple(ordered), self.validation_nll_, self.validation_sets_, self.left_out_
        )

    def _to_artifact(self) -> Artifact:
        fitted = {
            "members": [asdict(one) for one in self.members_],
            "kinds": self.kinds_,
            "validation_nll": self.validation_nll_,
            "validation_sets": self.validation_sets_,
            "interrupted": self.interrupted_,
            "left_out": self.left_out_,
        }
        arrays = named_arrays(self.model_)
        return Artifact("Auto", self.get_params(deep=False), self.schema_, fitted, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> "Auto":
        estimator = cls(**artifact.params)
        estimator.schema_, fitted = artifact.schema, artifact.fitted
        each(instance(dict, "write an object"))("members", fitted["members"])
        estimator.members_ = [AutoMember(**one) for one in fitted["members"]]
        for name in ("kinds", "validation_nll", "validation_sets", "interrupted", "left_out"):
            setattr(estimator, f"{name}_", fitted[name])
        estimator.model_ = _from_file(artifact)
        return estimator


def _parts(schema: Schema, seen: Encoding, validation: Choices | None, seed: int) -> list[Part]:
    """One part with the given validation sets, or one per fold."""
    if validation is not None:
        return [Part(seen, schema.over(validation))]
    fold = _folds(seen.choices, int(seed))
    return [
        Part(seen.take(np.flatnonzero(fold != one)), seen.take(np.flatnonzero(fold == one)))
        for one in np.unique(fold).tolist()
    ]


def _trees_at_once(parts: Sequence[Part]) -> int:
    """How many settings of trees to grow at the same time: LightGBM has one thread for few rows."""
    most = max(len(part.small[0].items) for part in parts)
    return min(TREES_AT_ONCE, os.cpu_count() or 1) if most < FEW_ROWS else 1


def _folds(choices: Choices, seed: int) -> Int[np.ndarray, " sets"]:
    """A fold for each set; sets of one group share it."""
    unit = np.arange(len(choices))
    if choices.group is not None:
        _, unit = np.unique(choices.group, return_inverse=True)
    units = int(unit.max()) + 1
    if units < FOLDS:
        what = "groups" if choices.group is not None else "choice sets"
        raise InputError(
            f"there are {units} {what}, and cross-fitting needs at least {FOLDS}; give more data"
        )
    return (np.random.default_rng(seed).permutation(units) % FOLDS)[unit]


def _in_memory(data: Encoding) -> Encoded:
    """All sets; of data on disk as many, drawn at random, as have about ``MOST_ROWS`` rows."""
    if stays_on_disk(data.choices) and data.rows > MOST_ROWS:
        data = data.sample(max(1, MOST_ROWS * len(data) // data.rows), seed=0)
    return data.encoded()


def _people(parts: Sequence[Part]) -> Int[np.ndarray, " sets"] | None:
    """The person of each validation set, over all parts; None where they are not known."""
    groups = [part.valid.choices.group for part in parts]
    known = [one for one in groups if one is not None]
    sets = sum(len(part.small[1]) for part in parts)
    if len(known) < len(parts) or sum(map(len, known)) != sets:  # a sample of data on disk
        return None
    people = numbered(np.concatenate(known), sets)
    return people if people.max() > 0 else None  # one person says nothing of others


def _joined_weights(parts: Iterator[Encoded]) -> Float[np.ndarray, " sets"]:
    found = [np.ones(len(one)) if one.weight is None else one.weight for one in parts]
    return np.concatenate(found)


def _from_file(artifact: Artifact) -> Ensemble:
    """The ensemble that a file's arrays describe; each of its numbers is checked."""
    kinds, width = artifact.fitted["kinds"], artifact.schema.width
    each(one_of(*KINDS))("kinds", kinds)
    skeletons: list[Model] = []
    for place, kind in enumerate(kinds):
        if kind.startswith("trees"):
            prefix = f"members.{_place(kinds, place)}."
            own = {
                name.removeprefix(prefix): array
                for name, array in artifact.arrays.items()
                if name.startswith(prefix)
            }
            skeletons.append(tree_skeleton(own, artifact.schema, kind == "trees"))
        else:
            skeletons.append(ZOO[kind].skeleton(width, Sizes()))
    model = with_arrays(Ensemble.skeleton(skeletons, weighed=True), artifact.arrays)
    for one in model.members:
        if isinstance(one, BoostedTrees):
            one.check(width)
    return model


def _place(kinds: Sequence[str], number: int) -> int:
    """Where an ensemble keeps this model of trees: they stand alone, models of a kind together."""
    trees = [kind.startswith("trees") for kind in kinds[:number]]
    others = {kind for kind, grown in zip(kinds, trees, strict=False) if not grown}
    return sum(trees) + len(others)

"""What every estimator does: read like the model was trained, predict, rank, evaluate, save."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import narwhals as nw
import numpy as np

from setwise import _arguments, _segments
from setwise._arguments import Check
from setwise._errors import DataWarning, InputError
from setwise._shapes import Float, Int, Shaped
from setwise.choices import (
    Choices,
    Display,
    Encoded,
    Irregular,
    Schema,
    open_table,
    read_like,
    split,
)
from setwise.choices.reading import few, from_matrix, records
from setwise.choices.validation import finite
from setwise.doctor.leaks import giveaways
from setwise.estimators import scikit_learn
from setwise.metrics import Metrics, Outcomes, predicted
from setwise.scoring.card import Card
from setwise.scoring.model_file import Artifact
from setwise.scoring.scorer import warn_of_replaced
from setwise.scoring.wide_tables import predict_wide

if TYPE_CHECKING:
    from setwise.models import Model

RANKED = ("probability", "rank")
"""The columns that ``rank`` adds to a table."""
FEWEST_SETS = 20
"""A model that makes no error in fewer sets may do so by chance."""

Some = TypeVar("Some", bound="Estimator")


class Estimator(scikit_learn.Parameters):
    """A choice model with the interface of scikit-learn.

    ``__init__`` stores its arguments. :meth:`fit` checks them, learns and returns self. Fitted
    attributes end in an underscore: ``schema_`` (from table to numbers) and ``model_`` (from
    numbers to scores).

    ``clone``, ``set_params(training__epochs=5)``, ``cross_val_score`` and ``GridSearchCV`` work
    with :class:`Choices`, which they split by whole sets; ``groups=`` takes one value per set, such
    as ``choices.group``. They do not work with tables: the rows of a set must stay together, and
    only :func:`setwise.read` knows which they are. So :meth:`fit` takes :class:`Choices` alone;
    all that predict take tables too.

    >>> import setwise as sw
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> choices = sw.datasets.load("swissmetro").sample(300)
    >>> people = choices.set_ids // 9  # one value per set
    >>> cross_val_score(sw.MNL(), choices, groups=people, cv=GroupKFold(3)).shape
    (3,)

    Other rooms use these methods of a fitted estimator: :meth:`check_is_fitted`,
    :meth:`as_choices`, :meth:`encoded_parts`, :meth:`row_log_probabilities`,
    :meth:`row_probabilities`, :meth:`outcomes`, :attr:`has_jax_model` and :attr:`satisfies_iia`.
    """

    CHECKS: ClassVar[Mapping[str, Check]] = {}
    """What each argument of ``__init__`` may be."""

    TAKES_FIXED: ClassVar[bool] = False
    """Whether a utility may give some of its coefficients."""

    TAKES_WORST: ClassVar[bool] = False
    """Whether some sets may have chosen the worst item."""

    schema_: Schema
    model_: "Model"

    def fit(
        self: Some,
        choices: Choices,
        validation: Choices | None = None,
        *,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
    ) -> Some:
        """Learn from choices.

        Args:
            choices: the training sets.
            validation: sets to stop early on. Estimators that need them and get none hold out
                a fifth of the training sets (whole groups, where a group column was read).
            checkpoint: a folder for the state of a long fit; the same call after a kill goes on
                from there and ends with the identical model.
            progress: show a bar; by default on a terminal and in a notebook only. Elsewhere,
                True prints a line every ten seconds.

        Estimators that do not train in epochs have no use for ``checkpoint`` and ``progress``, and
        those that neither stop early nor choose anything none for ``validation``.
        """
        self.check_arguments()
        choices = trainable(choices)
        if choices.roles.utility is not None and choices.roles.utility.fixed:
            self._check_fixed()
        if validation is not None:
            validation = comparable(trainable(validation, "validation"), choices)
        _arguments.optional(_arguments.path)("checkpoint", checkpoint)
        _arguments.optional(_arguments.flag)("progress", progress)
        folder = None if checkpoint is None else Path(checkpoint)
        try:
            self._fit(choices, validation, folder, progress)
        except Exception as error:
            if "RESOURCE_EXHAUSTED" not in str(error):  # what JAX says of a full memory
                raise
            raise InputError(
                f"the memory is too small to fit this {type(self).__name__} to {len(choices):,} "
                "sets; use a smaller dimension, ensemble or batch_size, or fewer sets"
            ) from error
        return self

    def _check_fixed(self) -> None:
        if not self.TAKES_FIXED:
            raise InputError(
                f"{type(self).__name__} has no coefficients of terms that could be fixed; use MNL "
                "or NestedLogit, or a utility without fixed="
            )

    def check_arguments(self) -> None:
        """Refuse arguments of ``__init__`` that make no model; :meth:`fit` does so first."""
        _arguments.check_all(self.CHECKS, self.get_params(deep=False))

    @abstractmethod
    def _fit(
        self,
        choices: Choices,
        validation: Choices | None,
        checkpoint: Path | None,
        progress: bool | None,
    ) -> None:
        """Learn from choices that a model can learn from, with arguments that were checked."""

    @property
    def schema(self) -> Schema:
        """``schema_`` under the name that it has in a scorer; both predict files alike."""
        self.check_is_fitted()
        return self.schema_

    @property
    def feature_names_in_(self) -> Shaped[np.ndarray, " columns"]:
        """The columns of the training table that the model reads: items', then context's."""
        roles = self.schema_.roles
        columns = dict.fromkeys(one.column for one in roles.items + roles.context)
        return np.array(list(columns), object)

    @property
    def n_features_in_(self) -> int:
        """How many columns of the training table the model reads."""
        return len(self.feature_names_in_)

    def predict_proba(self, data: Any, *, set: Any = None) -> Float[np.ndarray, " rows"]:
        """P(x | s), one probability per row, in the table's order.

        ``data`` is a :class:`Choices` or any table with the columns of the training table; sets
        may have sizes never seen in training. Probabilities of a set add up to 1, less the
        outside option's share where there is one.

        An array has the columns ``feature_names_in_`` in their order, and goes with ``set``: one
        id per row, or the sizes of consecutive sets. So it is for all methods that predict.
        """
        choices = self.as_choices(data, set=set)
        return choices.in_table_order(self.row_probabilities(choices))

    def predict(self, data: Any, *, set: Any = None) -> Int[np.ndarray, " rows"]:
        """1 for the most probable item of each set and 0 for the others, one value per row.

        Where the outside option is the most probable, no row of the set has a 1.
        """
        choices = self.as_choices(data, set=set)
        best = [
            predicted(self.row_log_probabilities(part), part.offsets)[self.schema_.real_rows(part)]
            for part in self.encoded_parts(choices)
        ]
        return choices.in_table_order(np.concatenate(best).astype(np.int64))

    def predict_wide(self, table: Any) -> Any:
        """A wide table with a probability column per alternative, and ``predicted``.

        See :func:`setwise.scoring.predict_wide`.
        """
        self.check_is_fitted()
        return predict_wide(self, table)

    def rank(self, data: Any) -> Any:
        """The table with columns ``probability`` and ``rank``, sorted within each set.

        Equal probabilities share the mean of their ranks. A frame comes back as its own kind,
        anything else, and a wide table, as a Polars frame of items.
        """
        _refuse_array(data, "rank")
        choices = self.as_choices(data)
        probability = self.row_probabilities(choices)
        order = np.lexsort((-probability, _segments.owners(choices.offsets)))
        is_table = not isinstance(data, Choices) and choices.roles.wide is None
        opened = open_table(data) if is_table else None
        warn_of_replaced([*choices.columns] if opened is None else opened.names, RANKED)
        table = None if opened is None else opened.native
        if table is None:
            import polars as pl

            table = pl.DataFrame(
                {choices.roles.set: _segments.spread(choices.set_ids, choices.offsets)}
                | _alternatives(choices)
                | {name: column.text() for name, column in choices.columns.items()}
            )
            rows = order
        else:
            rows = choices.rows[order]
        frame = nw.from_native(table, eager_only=True)[rows.tolist()]
        ranks = _segments.ranks(probability, choices.offsets)
        added = {"probability": probability[order], "rank": ranks[order]}
        space = nw.get_native_namespace(frame)
        series = [nw.new_series(name, values, backend=space) for name, values in added.items()]
        if hasattr(table, "index"):  # pandas aligns columns by index: put it in the new order first
            frame = nw.from_native(nw.to_native(frame).reset_index(drop=True), eager_only=True)
        return nw.to_native(frame.with_columns(*series))

    def evaluate(self, data: Any, *, set: Any = None, chosen: Any = None) -> Metrics:
        """top1, top5, mean_rank, mrr, nll (with standard errors), rho2, calibration.

        Standard errors are clustered by person where the person of each set is known (``group=``
        of :func:`setwise.read`); else sets are taken as independent.
        An array goes with ``set`` and ``chosen``, the vector that marks chosen rows with 1.
        """
        choices = self.as_choices(data, with_choice=True, set=set, chosen=chosen)
        return self.outcomes(choices).measured(choices.weight, choices.group)

    def outcomes(self, choices: Choices) -> Outcomes:
        """The rank of the choice, its NLL and what else the measures need, per set."""
        self.check_is_fitted()
        is_choices("choices", choices)
        if choices.chosen is None:
            raise InputError("these choices do not say what was chosen; read them with chosen=")
        outcomes = []
        for block in self.schema_.over(choices, self.TAKES_WORST).blocks():
            part = block.encoded()
            assert part.chosen is not None
            outcomes.append(
                Outcomes.of(self.row_log_probabilities(part), part.offsets, part.chosen)
            )
        return Outcomes.joined(outcomes)

    def score(self, data: Any, y: None = None) -> float:
        """Top-1 accuracy, the measure that scikit-learn's tools look at.

        ``data`` says what was chosen. scikit-learn passes a ``y``, which must be None.
        """
        if y is not None:
            raise InputError("score takes no y: the data say what was chosen; leave it out")
        return self.evaluate(data).top1

    def save(
        self,
        path: str | Path,
        *,
        sample: Choices | None = None,
        reference: Float[np.ndarray, " d"] | None = None,
        display: Display | None = None,
        card: Card | None = None,
    ) -> None:
        """Write the fitted model to one file; :func:`setwise.load` reads it.

        :func:`setwise.scoring.load_scorer` reads it for predictions without JAX.

        Args:
            path: the file.
            sample: choices of which the file keeps up to 24 sets, in plain values, as examples
                for the page of ``setwise serve``; without it the file holds no row of the data.
            reference: an MNL to compare the model with on that page
                (:func:`setwise.estimators.reference_mnl`).
            display: labels of columns, names of items and ranges of the data for that page;
                with a sample and without this, what the sample tells of itself.
            card: where the model comes from, for ``setwise show`` and ``setwise serve``.
        """
        _arguments.path("path", path)
        artifact = self.artifact()
        remedy = "make it with setwise.choices.Display.of(choices)"
        _arguments.optional(_arguments.instance(Display, remedy))("display", display)
        if sample is not None:
            is_choices("sample", sample)
            shown = few(sample)
            self.schema_.over(shown)  # refuses choices without the columns
            artifact = replace(artifact, sample=records(replace(shown, roles=self.schema_.roles)))
            display = display or Display.of(replace(sample, roles=self.schema_.roles))
        artifact = replace(artifact, display=display)
        if reference is not None:
            remedy = "make it with setwise.estimators.reference_mnl(model, choices)"
            _arguments.instance(np.ndarray, remedy)("reference", reference)
            artifact = replace(artifact, reference={"mnl": reference.astype(np.float32)})
        if card is not None:
            _arguments.instance(Card, "make it with setwise.Card(title=...)")("card", card)
            artifact = replace(artifact, card=card)
        artifact.write(path)

    def artifact(self) -> Artifact:
        """What the model file holds, the graph of the model's scores included."""
        from setwise.models import Ensemble
        from setwise.scoring.tracing import traced

        self.check_is_fitted()
        artifact = self._to_artifact()
        params = _arguments.plain(artifact.params)
        together = isinstance(self.graph_model, Ensemble)
        artifact = replace(artifact, params=params, ensemble=together)
        try:
            return artifact.with_graph(*traced(self.graph_model, self.schema_.width))
        except InputError as error:  # what was trained is not lost for that
            warnings.warn(f"the file can be read with JAX only: {error}", stacklevel=3)
            return artifact

    @property
    def holds_out(self) -> bool:
        """Whether :meth:`fit` holds out a fifth of the sets where it gets no validation part."""
        return False

    def parts_of_fit(self, choices: Choices) -> tuple[Choices, Choices | None]:
        """What ``fit(choices)`` learns from, and what it holds out: None where it uses all sets."""
        if not self.holds_out:
            return choices, None
        return held_out(choices, getattr(self, "seed", 0))

    def read(
        self, table: Any, with_choice: bool = False, irregular: Irregular | None = None
    ) -> Choices:
        """Read a table as this model was trained to: the same columns in the same roles."""
        self.check_is_fitted()
        return read_like(self.schema_, table, with_choice, irregular)

    def as_choices(
        self, data: Any, with_choice: bool = False, *, set: Any = None, chosen: Any = None
    ) -> Choices:
        """Choices as they are; any other table, read as this model was trained to.

        Args:
            data: a :class:`Choices`, a table, or an array with the columns ``feature_names_in_``.
            with_choice: whether the table must say what was chosen.
            set: of an array, one id per row, or the sizes of consecutive sets.
            chosen: of an array, the vector that marks chosen rows with 1.
        """
        self.check_is_fitted()
        if isinstance(data, np.ndarray):
            data = self._named_columns(data, set, chosen, with_choice)
        elif set is not None or chosen is not None:
            raise InputError(
                f"set= and chosen= go with an array, not with {type(data).__name__}, which has "
                f"a column for them ('{self.schema_.roles.set}'); leave them out"
            )
        return data if isinstance(data, Choices) else self.read(data, with_choice)

    def _named_columns(
        self, matrix: Shaped[np.ndarray, "..."], set: Any, chosen: Any, with_choice: bool
    ) -> dict[str, np.ndarray]:
        """An array as a table with the columns of the training table."""
        names = self.feature_names_in_.tolist()
        if set is None or (with_choice and chosen is None):
            vectors = "set= and chosen=" if with_choice else "set="
            raise InputError(
                f"an array needs {vectors}, vectors with one value per row, and the columns "
                f"{', '.join(names)}; or give a table, or choices from setwise.read(...)"
            )
        if matrix.ndim != 2 or matrix.shape[1] != len(names):
            raise InputError(
                f"the array has shape {matrix.shape}; the model reads {len(names)} columns: "
                f"{', '.join(names)}"
            )
        table, _, _, _ = from_matrix(matrix, set, chosen, None)
        roles, columns = self.schema_.roles, dict(zip(names, matrix.T, strict=True))
        columns[roles.set] = table["set"]
        if chosen is not None:
            columns[roles.chosen or "chosen"] = table["chosen"]
        return columns

    @property
    def has_jax_model(self) -> bool:
        """Whether ``model_`` is a JAX model: it can be traced and batched."""
        from setwise.models import Model

        return isinstance(self.model_, Model)

    @property
    def graph_model(self) -> "Model":
        """The model whose graph a file holds."""
        return self.model_

    @property
    def differentiable(self) -> bool:
        """Whether probabilities have derivatives: with trees they are flat and jump."""
        return self.has_jax_model and self.model_.differentiable

    @property
    def satisfies_iia(self) -> bool:
        """Whether the odds of two items never depend on the other items of their set.

        Then P(x | s) is the softmax of utilities that each item has by itself in its context.
        """
        return False

    def encoded_parts(self, choices: Choices) -> Iterator[Encoded]:
        """The choices as the numbers that the model sees, in parts that bound the memory.

        Where the model has an outside option, it is the last row of each set. Probabilities are
        those of being chosen as the best, also where the worst was asked for.
        """
        if choices.worst is not None:
            choices = replace(choices, chosen=None, worst=None)
        return (part.encoded() for part in self.schema_.over(choices).blocks())

    def row_log_probabilities(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        """log P(x | s) of every encoded row, outside options included.

        In sets that chose the worst item, P is that of being the worst.
        Estimators without a JAX model, and those that need none for it, override this method.
        """
        from setwise.training import row_log_probabilities

        return row_log_probabilities(self.model_, encoded)

    def row_probabilities(self, choices: Choices) -> Float[np.ndarray, " rows"]:
        """P(x | s) of every item in the order of the choices, without the outside options."""
        parts = [
            np.exp(self.row_log_probabilities(part)[self.schema_.real_rows(part)])
            for part in self.encoded_parts(choices)
        ]
        return finite(np.concatenate(parts), choices)

    def check_is_fitted(self) -> None:
        """Refuse an estimator that was not fitted."""
        if not hasattr(self, "schema_"):
            name = type(self).__name__
            raise scikit_learn.NotFitted(f"this {name} is not fitted yet; call fit(choices) first")

    @abstractmethod
    def _to_artifact(self) -> Artifact:
        """What the model file holds."""

    @classmethod
    @abstractmethod
    def from_artifact(cls, artifact: Artifact) -> "Estimator":
        """The fitted estimator that wrote this."""


def _alternatives(choices: Choices) -> dict[str, list[str]]:
    """The alternative of each row of a wide table, where the choices have no column for it."""
    wide = choices.roles.wide
    if wide is None or choices.roles.alternative is not None:
        return {}
    return {"alternative": [wide.alternatives[one % wide.width] for one in choices.cells]}


def _refuse_array(data: Any, what: str) -> None:
    if isinstance(data, np.ndarray):
        raise InputError(
            f"{what} gives a table back, and an array has no names of columns; give a frame, or "
            "choices from setwise.read(array, set=..., items=...)"
        )


def fitted(name: str, value: Any) -> None:
    """Check an argument that must be a fitted estimator."""
    remedy = "give a fitted estimator, such as setwise.MNL().fit(choices)"
    _arguments.instance(Estimator, remedy)(name, value)
    value.check_is_fitted()


is_choices = _arguments.instance(Choices, "make them with setwise.read(...)")
"""Check an argument that must be :class:`Choices`."""


def trainable(choices: object, name: str = "choices") -> Choices:
    """Data that a model can learn from, or an error that says why not.

    ``name`` is that of the argument: "choices" or "validation".
    """
    if not isinstance(choices, Choices):
        what = "fit needs Choices" if name == "choices" else f"{name}= needs Choices"
        raise InputError(f"{what}, not {type(choices).__name__}; make them with setwise.read(...)")
    part = "" if name == "choices" else f"in {name}=: "
    if choices.chosen is None:
        raise InputError(f"{part}these choices do not say what was chosen; read them with chosen=")
    alone = choices.sizes + choices.outside < 2
    if alone.any():
        which = choices.set_ids[int(np.argmax(alone))]
        raise InputError(
            f"{part}set '{choices.roles.set}'={which} has only one item ({int(alone.sum())} such "
            "sets in all): its choice is certain and teaches nothing; leave such sets out with "
            "choices.limit(min_items=2), on the command line --min-items 2"
        )
    if name == "choices":  # name columns that tell the choice without error
        for finding in giveaways(choices):
            warnings.warn(f"{finding.message}; {finding.remedy}", DataWarning, stacklevel=3)
    return choices


def comparable(validation: Choices, choices: Choices) -> Choices:
    """Validation sets with the columns of the training sets, or an error that names one."""
    for role in ("items", "context"):
        here = validation.columns if role == "items" else validation.context
        for feature in getattr(choices.roles, role):
            if feature.column not in here:
                raise InputError(
                    f"validation= has no column '{feature.column}' among its {role}, which the "
                    f"training sets have (it has: {', '.join(here) or 'none'}); read both alike, "
                    "or take both from one table with setwise.split(...)"
                )
    return validation


def warn_if_perfect(perfect: bool, what: str = "training") -> None:
    """Say that a model makes no error, which people's choices hardly allow; call it from fit."""
    if perfect:
        warnings.warn(
            f"the model tells the {what} choices without error; look for a column that gives the "
            "choice away, such as one that is known only after it ('setwise check' finds many)",
            DataWarning,
            stacklevel=4,
        )


def held_out(choices: Choices, seed: int) -> tuple[Choices, Choices]:
    """Training and validation parts, 80:20: whole groups where a group column was read."""
    by: Literal["set", "group"] = "set" if choices.group is None else "group"
    train, validation = split(choices, (0.8, 0.2), seed, by)
    return train, validation

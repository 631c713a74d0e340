"""Pictures of models as matplotlib figures.

Coefficients, tastes of people, probabilities, calibration and learning.

Each function draws into ``ax`` where one is given, else into a figure of its own, and returns the
figure; nothing is shown or registered with pyplot. ``figure.savefig("name.png")`` writes it.
"""

import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from setwise import _segments
from setwise._arguments import each, instance, number, optional, text, whole
from setwise._arguments import seed as seed_number
from setwise._errors import InputError
from setwise.choices import Choices
from setwise.choices.alternatives import shown
from setwise.consequences.counterfactual import Reprice, applied, matching, with_columns
from setwise.estimators import Estimator, TrainedEstimator
from setwise.estimators.base import fitted
from setwise.estimators.known_people import KnowsPeople
from setwise.estimators.maximum_likelihood import Estimated
from setwise.reports.figures import COLOURS

__all__ = ["calibration", "coefficients", "learning_curve", "probability", "tastes"]

MOST_COEFFICIENTS = 100
MOST_LINES = len(COLOURS)
POINTS = 41
FEW_VALUES = 12  # a column with at most this many values has a point for each
LETTERS = 44
GREY = "#777777"
DIAGONAL = "_calibrated"  # a label that no legend shows
BINS = 40
TAIL = 0.005  # of people by the model, on each side, may be beyond the picture


def coefficients(
    model: Estimator, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Figure:
    """The estimates of a logit with their 95 % intervals, from top to bottom as in its summary.

    A hollow dot has no interval: it was not estimated, such as a reference level.

    Args:
        model: a fitted model that has a ``summary()``: ``MNL``, ``NestedLogit``, ``MixedMNL``,
            ``LinearContextLogit`` or ``WithinSetMNL``.
        names: which coefficients, by their names in the summary; all of them by default.
        ax: axes to draw into; by default those of a new figure.

    >>> import setwise as sw
    >>> figure = coefficients(sw.MNL().fit(sw.datasets.load("modecanada")), names=["cost", "ivt"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['cost', 'ivt']
    """
    fitted("model", model)
    if not isinstance(model, Estimated):
        raise InputError(
            f"{type(model).__name__} has no coefficients with standard errors to plot; use MNL, "
            "NestedLogit, MixedMNL, LinearContextLogit or WithinSetMNL"
        )
    summary = model.summary()
    table = summary.to_frame()
    if names is not None:
        table = table[_places(names, summary.names)]
    if len(table) > MOST_COEFFICIENTS:
        raise InputError(
            f"{len(table):,} coefficients are too many for one picture; choose at most "
            f"{MOST_COEFFICIENTS} with names="
        )
    shown_names = [_cut(one) for one in table["name"]]
    width = 6.0 + 0.07 * max(map(len, shown_names))
    axes = _axes(ax, width, 1.1 + 0.27 * len(table))
    axes.axvline(0, color=GREY, linewidth=1)
    for place, row in enumerate(table.iter_rows(named=True)):
        value, known = row["coefficient"], row["standard_error"] is not None
        if known:
            axes.hlines(place, row["low"], row["high"], color=COLOURS[0], linewidth=2)
        face = COLOURS[0] if known else "white"
        axes.plot(value, place, "o", color=COLOURS[0], markerfacecolor=face, markersize=5)
        said = f"{value:.3g} ± {row['standard_error']:.2g}" if known else "not estimated"
        axes.text(1.02, place, said, transform=axes.get_yaxis_transform(), va="center",
                  fontsize="small", color="black" if known else GREY)  # fmt: skip
    # Names come from the user: a dollar sign in them does not begin a formula.
    axes.set_yticks(range(len(table)), shown_names, parse_math=False)
    axes.set_ylim(len(table) - 0.4, -0.6)  # the first on top
    note = f"\n{summary.note}" if summary.note else ""
    axes.set_xlabel(f"coefficient with its 95 % interval (right: ± standard error){note}")
    axes.grid(axis="x", alpha=0.3)
    return _root(axes)


def tastes(
    model: Estimator,
    column: str,
    *,
    price: str | None = None,
    data: Any = None,
    ax: Axes | None = None,
) -> Figure:
    """How people differ in a coefficient, or in what they pay for one more of a column.

    The bars are people: the mean of what each person's choices say about that person
    (:meth:`MixedLogit.individual_coefficients`). The line is the distribution over all people that
    the model has; dots are latent classes. Means of single people differ less than people do: with
    few choices each, they are near the mean of all.

    Args:
        model: a fitted ``MixedLogit`` or ``LatentClass``.
        column: the column, or the term of the utility.
        price: the column of prices; then what people pay for one more of ``column`` is drawn.
        data: choices of the people that the bars count, or such a table; by default those of the
            fit.
        ax: axes to draw into; by default those of a new figure.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("panel", sets=200, features=2).choices
    >>> figure = tastes(sw.MixedLogit(draws=20).fit(choices), "x0")
    >>> figure.axes[0].get_xlabel()
    'coefficient of x0'
    """
    fitted("model", model)
    text("column", column)
    optional(text)("price", price)
    if not isinstance(model, KnowsPeople):
        raise InputError(
            f"{type(model).__name__} has the same coefficients for all people; use MixedLogit or "
            "LatentClass"
        )
    choices = None if data is None else model.as_choices(data, with_choice=True)
    values = model.population_values(price)
    names = [name for name in model.feature_names() if name != price]
    drawn = values[_place(column, names, values)]
    own = (
        model.individual_coefficients(choices)
        if price is None
        else model.individual_willingness_to_pay(price, choices)
    )[column].to_numpy()
    axes = _axes(ax, 6.4, 4.2)
    _draw_tastes(axes, own, drawn, model.population()[1])
    said = f"coefficient of {_cut(column)}"
    if price is not None:
        said = f"paid for one more of {_cut(column)}, in units of {_cut(price)}"
    axes.set_xlabel(said, parse_math=False)
    axes.set_ylabel("share of people")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    _legend(axes)
    return _root(axes)


def probability(
    model: Estimator,
    data: Any,
    column: str,
    *,
    where: Mapping[str, Any] | None = None,
    set: Any = None,
    values: Sequence[int | float] | Float[np.ndarray, " points"] | None = None,
    sets: int = 1000,
    seed: int = 0,
    label: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """How the probability of an item moves with one of its columns, all else equal.

    In each set one item takes each of the values in turn; the other items stay as they are. The
    line is the mean over sets of that item's probability, by the sets' weights, and the band holds
    the middle half of the sets. The ticks at the bottom are the deciles of the column.

    Args:
        model: a fitted model.
        data: choices or a table with the columns of the training table.
        column: a number among the item columns.
        where: which items move, such as ``{"mode": "train"}``: all such items of a set together,
            and their joint probability is drawn. By default one item per set, drawn at random.
        set: the id of one set as an example: then each item moves alone, and each has a line.
        values: values of the column, in the table's units; by default from its 1st to its 99th
            percentile, or each of its values where there are few.
        sets: if there are more sets, draw a random sample of this many.
        seed: seed of the sample of sets and items.
        label: name in the legend, for several models that share ``ax``.
        ax: axes to draw into; by default those of a new figure.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> figure = probability(sw.MNL().fit(choices), choices, "cost", where={"is_air": 1}, sets=99)
    >>> line = figure.axes[0].lines[0].get_ydata()
    >>> bool(line[0] > line[-1])  # the dearer, the less
    True
    """
    text("column", column)
    whole()("sets", sets)
    seed_number("seed", seed)
    optional(text)("label", label)
    optional(each(number(), least=2))("values", values)
    fitted("model", model)
    everyone = model.as_choices(data)
    rng = np.random.default_rng(seed)
    if len(everyone) > sets:
        sample = np.sort(rng.choice(len(everyone), sets, replace=False))
        choices = everyone.take(sample)
    else:
        choices = everyone
    drawn = choices if set is None else everyone.take(_number_of(everyone, set))
    drawn = with_columns(drawn, data, {*(where or ())})
    Reprice(column, 1.0, where)(drawn, model.schema_)  # refuses what cannot move
    moving = _moving(drawn, where, set is not None, rng)
    seen = _values(choices, column) if set is not None else _values(drawn, column, moving[0])
    grid = _grid(column, seen, values)
    axes = _axes(ax, 6.4, 4.2)
    for rows in moving:
        colour = COLOURS[len(axes.lines) % len(COLOURS)]
        found, weight = _moved(model, drawn, rows, column, grid)
        mark = "o-" if len(grid) <= FEW_VALUES else "-"
        name = label if set is None else f"item {np.argmax(rows)}" + (f", {label}" if label else "")
        axes.plot(grid, found @ weight, mark, color=colour, label=name, markersize=4)
        if found.shape[1] > 1:
            low, high = np.quantile(found, [0.25, 0.75], axis=1)
            axes.fill_between(grid, low, high, color=colour, alpha=0.15, linewidth=0)
    deciles = np.quantile(seen, np.arange(1, 10) / 10)
    deciles = deciles[(deciles >= grid[0]) & (deciles <= grid[-1])]
    axes.vlines(deciles, 0, 0.025, transform=axes.get_xaxis_transform(), color=GREY, linewidth=1)
    _said_axes(axes, drawn, column, where, set)
    return _root(axes)


def calibration(
    model: Estimator, data: Any, *, label: str | None = None, ax: Axes | None = None
) -> Figure:
    """Are predictions right as often as the model says? A reliability curve.

    Sets are put in 15 bins of equal size by the probability of the predicted item, as for
    ``calibration_error``. A dot is a bin: how probable the predicted items were, and how often they
    were chosen, with a 95 % interval. Dots on the diagonal are calibrated; below it, the model is
    too sure of itself. The bars say how many sets there are of each probability.

    Args:
        model: a fitted model.
        data: choices that say what was chosen, or such a table; best those of a test part.
        label: name in the legend, for several models that share ``ax``; the bars are the first's.
        ax: axes to draw into; by default those of a new figure.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada")
    >>> figure = calibration(sw.MNL().fit(choices), choices)
    >>> len(figure.axes[0].lines[1].get_xdata())
    15
    """
    optional(text)("label", label)
    fitted("model", model)
    choices = model.as_choices(data, with_choice=True)
    outcomes = model.outcomes(choices)
    found, error = outcomes.reliability(choices.weight), outcomes.measured(choices.weight)
    axes = _axes(ax, 5.6, 4.8)
    if not any(line.get_label() == DIAGONAL for line in axes.lines):
        _counts(axes, outcomes.confidence)
        axes.axline((0, 0), slope=1, color=GREY, linewidth=1, linestyle="--", label=DIAGONAL)
    colour = COLOURS[(len(axes.lines) - 1) % len(COLOURS)]
    said = f"calibration error {error.calibration_error:.3f}"
    axes.vlines(found.confidence, found.low, found.high, color=colour, linewidth=1, alpha=0.6)
    axes.plot(found.confidence, found.hit_rate, "o-", color=colour, markersize=4,
              label=f"{label}: {said}" if label else said)  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("probability of the predicted item")
    axes.set_ylabel("share of sets in which it was chosen")
    axes.grid(alpha=0.3)
    _legend(axes, loc="upper left")
    return _root(axes)


def learning_curve(model: Estimator, *, ax: Axes | None = None) -> Figure:
    """Training loss and validation NLL of each epoch, with the best epoch marked.

    An ensemble has one line per member. The best epoch is the one whose weights were kept.

    Args:
        model: a fitted model that is trained by gradients, such as ``SDA``.
        ax: axes to draw into; by default those of a new figure.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=100, items=3, features=2).choices
    >>> model = sw.SDW(dimension=2, hidden=4, training=sw.Training(epochs=3)).fit(choices)
    >>> learning_curve(model).axes[0].get_xlabel()
    'epoch'
    """
    fitted("model", model)
    if not isinstance(model, TrainedEstimator):
        raise InputError(
            f"{type(model).__name__} is not trained in epochs and has no history to plot; a "
            "learning curve is for models such as SDA, SDE and SDW"
        )
    histories = model.history_ if model.ensemble > 1 else [model.history_]
    best = model.best_epoch_ if isinstance(model.best_epoch_, list) else [model.best_epoch_]
    kept = [(one, epoch) for one, epoch in zip(histories, best, strict=True) if one]
    if not kept:
        raise InputError(
            "this model has no history: its training was interrupted before the first epoch ended; "
            "fit it again"
        )
    axes = _axes(ax, 6.4, 4.2)
    alpha = 1.0 if len(kept) == 1 else 0.6
    for member, (history, epoch) in enumerate(kept):
        epochs = np.array([one["epoch"] for one in history]) + 1
        for name, said, colour in (
            ("loss", "training loss", COLOURS[0]),
            ("nll", "validation NLL", COLOURS[1]),
        ):
            label = said if member == 0 else None
            line = [one[name] for one in history]
            axes.plot(epochs, line, color=colour, alpha=alpha, linewidth=1.5, label=label)
        axes.plot(epoch + 1, history[epoch]["nll"], "o", color=COLOURS[1], markeredgecolor="black",
                  zorder=3, label="best epoch" if member == 0 else None)  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    objective = model.training.objective
    per = "per choice" if objective == "cross_entropy" else f"(training: {objective})"
    axes.set_ylabel(f"loss {per}")
    axes.grid(alpha=0.3)
    _legend(axes)
    return _root(axes)


class NotebookFigure(Figure):
    """A figure that a notebook shows even if pyplot is not imported."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The user's axes, or those of a new figure; width and height are in inches."""
    optional(instance(Axes, "make one with figure.subplots()"))("ax", ax)
    if ax is not None:
        return ax
    return NotebookFigure(figsize=(width, height), layout="constrained").subplots()


def _root(axes: Axes) -> Figure:
    """The whole figure that the axes are in."""
    figure = axes.figure
    while isinstance(figure, SubFigure):
        figure = figure.figure
    return figure


def _place(column: str, names: list[str], values: Float[np.ndarray, "k points"]) -> int:
    """The place of a column that differs between people."""
    differ = [name for name, one in zip(names, values, strict=True) if np.ptp(one) > 0]
    if column not in differ:
        why = "is the same for all people" if column in names else "is not of the utility"
        raise InputError(f"'{column}' {why}; people differ in: {shown(differ) or 'nothing'}")
    return names.index(column)


def _draw_tastes(
    axes: Axes,
    own: Float[np.ndarray, " people"],
    drawn: Float[np.ndarray, " points"],
    shares: Float[np.ndarray, " points"],
) -> None:
    """Bars for people, and a line over the same bins, or dots, for the distribution of all."""
    few = len(drawn) <= FEW_VALUES
    low, high = np.quantile(drawn, [0, 1] if few else [TAIL, 1 - TAIL])
    edges = np.linspace(min(low, own.min()), max(high, own.max()), BINS + 1)
    counts = np.histogram(own, edges)[0] / len(own)
    axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=COLOURS[0], alpha=0.4,
             linewidth=0, label=f"means of {len(own):,} people, given their choices")  # fmt: skip
    said = "all people, by the model"
    if few:
        axes.vlines(drawn, 0, shares, color=COLOURS[1])
        axes.plot(drawn, shares, "o", color=COLOURS[1], label=said)
        return
    expected = np.histogram(drawn, edges, weights=shares)[0]
    steps = np.append(expected, expected[-1])
    axes.plot(edges, steps, color=COLOURS[1], drawstyle="steps-post", label=said)


def _places(names: Any, known: Sequence[str]) -> list[int]:
    each(text)("names", names)
    for name in names:
        if name not in known:
            raise InputError(f"there is no coefficient '{name}'; there are: {shown(known)}")
    return [known.index(name) for name in names]


def _cut(name: str) -> str:
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"


def _number_of(choices: Choices, set_id: Any) -> Int[np.ndarray, " one"]:
    """The place of a set, by its id, in an array of one."""
    found = np.flatnonzero(choices.set_ids.astype(str) == str(set_id))
    if not len(found):
        few = shown([str(one) for one in choices.set_ids])
        raise InputError(f"there is no set '{choices.roles.set}'={set_id}; there are: {few}")
    return found[:1]


def _moving(
    choices: Choices, where: Mapping[str, Any] | None, alone: bool, rng: np.random.Generator
) -> Bool[np.ndarray, "lines rows"]:
    """Which rows move, for each line."""
    if alone:
        places = np.flatnonzero(matching(choices, where))
        if len(places) > MOST_LINES:
            raise InputError(
                f"{len(places)} items of this set would each have a line; choose at most "
                f"{MOST_LINES} of them with where="
            )
        return np.arange(len(choices.rows)) == places[:, None]
    if where is not None:
        return matching(choices, where)[None]
    drawn = np.zeros(len(choices.rows), bool)
    drawn[choices.offsets[:-1] + rng.integers(choices.sizes)] = True
    return drawn[None]


def _values(
    choices: Choices, column: str, rows: Bool[np.ndarray, " rows"] | None = None
) -> Float[np.ndarray, " values"]:
    """The column's values in the table's units, of these rows; missing ones are left out."""
    found = choices.columns[column].values.astype(np.float64)
    return found[~np.isnan(found) if rows is None else ~np.isnan(found) & rows]


def _grid(
    column: str, seen: Float[np.ndarray, " values"], values: Any
) -> Float[np.ndarray, " points"]:
    """The values to draw, in increasing order."""
    if values is not None:
        return np.unique(np.asarray(values, np.float64))
    different = np.unique(seen)
    if len(different) < 2:
        raise InputError(
            f"column '{column}' has the same value in all items that move; give the values to "
            "draw with values="
        )
    if len(different) <= FEW_VALUES:
        return different
    low, high = np.quantile(seen, [0.01, 0.99])
    return np.linspace(float(low), float(high), POINTS)


def _moved(
    model: Estimator,
    choices: Choices,
    rows: Bool[np.ndarray, " rows"],
    column: str,
    grid: Float[np.ndarray, " points"],
) -> tuple[Float[np.ndarray, "points sets"], Float[np.ndarray, " sets"]]:
    """The probability of the moving items at each value, in the sets that have some, and the sets'
    shares of the weight."""
    has = np.flatnonzero(_segments.maxima(rows, choices.offsets))
    found = []
    for value in grid.tolist():
        change = Reprice(column, partial(_replaced, rows, value))
        p = model.row_probabilities(applied([change], choices, model.schema_))
        found.append(_segments.sums(np.where(rows, p, 0.0), choices.offsets)[has])
    weight = np.ones(len(choices)) if choices.weight is None else choices.weight
    return np.array(found), weight[has] / weight[has].sum()


def _replaced(
    rows: Bool[np.ndarray, " rows"], value: float, old: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, " rows"]:
    return np.where(rows, value, old)


def _said_axes(
    axes: Axes, choices: Choices, column: str, where: Mapping[str, Any] | None, set_id: Any
) -> None:
    which = " and ".join(f"{name} = {value}" for name, value in (where or {}).items())
    title = f"items with {which}" if which else "one item per set, drawn at random"
    if set_id is not None:
        title = f"set {choices.roles.set} = {set_id}, one item at a time"
    axes.set_title(_cut(title), loc="left", fontsize="medium", parse_math=False)
    axes.set_xlabel(_cut(column), parse_math=False)
    axes.set_ylabel("probability" if len(choices) == 1 else "mean probability")
    axes.set_ylim(bottom=0, auto=True)  # a second model may need more room above
    axes.grid(alpha=0.3)
    _legend(axes)


def _counts(axes: Axes, confidence: Float[np.ndarray, " sets"]) -> None:
    """Bars behind the curve, with their own scale on the right."""
    bars = axes.twinx()
    counts, edges = np.histogram(confidence, bins=20, range=(0, 1))
    bars.bar(edges[:-1], counts, width=0.05, align="edge", color=GREY, alpha=0.2, linewidth=0)
    bars.set_ylim(0, 3 * max(counts.max(), 1))  # a third of the height: they stay below
    ticks = MaxNLocator(3, integer=True).tick_values(0, int(counts.max()))
    bars.set_yticks([one for one in ticks if one <= counts.max()])
    bars.set_ylabel("sets (bars)", color=GREY)
    bars.tick_params("y", colors=GREY)
    axes.set_zorder(bars.get_zorder() + 1)
    axes.patch.set_visible(False)


def _legend(axes: Axes, **options: Any) -> None:
    """A legend if any line has a label; a dollar sign in a label does not begin a formula."""
    if axes.get_legend_handles_labels()[1]:
        for one in axes.legend(frameon=False, fontsize="small", **options).get_texts():
            one.set_parse_math(False)

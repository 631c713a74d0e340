"""Context effects in labelled trials, and what a model predicts: numbers and a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from setwise._arguments import checked, optional, text
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise.choices import open_table
from setwise.estimators import Estimator
from setwise.estimators.base import fitted
from setwise.reports.figures import COLOURS, new_figure, svg_text
from setwise.violations import ContextEffect, context_effects

if TYPE_CHECKING:
    from matplotlib.axes import Axes


TRIAL_HEADS = ("trials", "measure", "number", "observed", "95 % interval", "model", "miss")
ROLES = ("A", "B")
MARKERS = ("D", "s", "^", "v")

Effects = Sequence[ContextEffect]


@dataclass(frozen=True)
class TrialEffects:
    """Context effects in labelled trials, and what a model predicts for the same trials."""

    model: str
    observed: tuple[ContextEffect, ...]
    predicted: tuple[ContextEffect, ...]

    @property
    def largest_miss(self) -> float:
        """The largest absolute miss of P(A), over conditions and roles."""
        return float(np.abs(misses(self.observed, self.predicted)).max())

    def rows(self) -> list[tuple[str, ...]]:
        """As text, under :data:`TRIAL_HEADS`: P(A) in both roles, and the RST."""
        found: list[tuple[str, ...]] = []
        for seen, said in zip(self.observed, self.predicted, strict=True):
            for role, name in enumerate(ROLES):
                found.append((
                    seen.condition, f"P(A), third favours {name}", f"{seen.trials[role]:,}",
                    *_compared(
                        seen.share_of_a[role], seen.share_intervals[role], said.share_of_a[role]
                    ),
                ))  # fmt: skip
            found.append((
                seen.condition, "relative share of the target", f"{sum(seen.trials):,}",
                *_compared(seen.rst, seen.rst_interval, said.rst),
            ))  # fmt: skip
        return found

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "model": self.model,
            "largest_miss": self.largest_miss,
            "observed": [asdict(one) for one in self.observed],
            "predicted": [asdict(one) for one in self.predicted],
        }

    def sentence(self) -> str:
        """What the table says, in words."""
        ways = [
            (seen.condition, _way(seen.rst_interval), _way(said.rst_interval))
            for seen, said in zip(self.observed, self.predicted, strict=True)
        ]
        shown = [name for name, seen, _ in ways if seen]
        right = [name for name, seen, said in ways if seen and seen == said]
        return (
            f"Beyond chance, the trials show {_listed(shown)}; of these, {self.model} moves the "
            f"shares the same way in {_listed(right)}. Its P(A) is off by at most "
            f"{self.largest_miss:.3f}."
        )


@checked(
    estimator=fitted,
    condition=text,
    favours=text,
    option=text,
    group=optional(text),
    seed=check_seed,
)
def trial_effects(
    estimator: Estimator,
    table: Any,
    *,
    condition: str = "condition",
    favours: str = "favours",
    option: str = "option",
    group: str | None = None,
    seed: int = 0,
) -> TrialEffects:
    """Measure context effects in labelled trials, and let a fitted model predict them.

    Args:
        estimator: a fitted model.
        table: a table with the columns of the training table, the chosen one too, and those below.
        condition: the column of the kind of trial, as in
            :func:`setwise.violations.context_effects`.
        favours: the column of the trial's target, "A" or "B".
        option: the column of the option: "A", "B" or anything else for the third option.
        group: the column of the participant; intervals then resample people.
        seed: seed of the bootstrap.

    >>> import setwise as sw
    >>> drawn = sw.datasets.generate("decoy", sets=2000)
    >>> found = trial_effects(sw.MNL().fit(drawn.choices), drawn.table)
    >>> [(one.condition, round(one.rst, 1)) for one in found.predicted]  # no effect
    [('attraction', 0.5), ('compromise', 0.5), ('similarity', 0.5)]
    """
    choices = estimator.read(table, with_choice=True)
    if choices.outside:
        raise InputError(
            "this model has an outside option, but labelled trials are choices among A, B and a "
            "third option only; fit a model without an outside option"
        )
    opened, rows = open_table(table), choices.rows
    set_name, chosen = choices.roles.set, choices.roles.chosen
    assert chosen is not None
    named = {"condition": condition, "favours": favours, "option": option}
    named |= {} if group is None else {"group": group}
    columns = {name: opened.ids(name, role)[rows] for role, name in named.items()}
    columns[set_name] = np.repeat(choices.set_ids, choices.sizes)
    observed, predicted = (
        context_effects(
            columns | {chosen: values}, set=set_name, chosen=chosen, group=group, seed=seed,
            condition=condition, favours=favours, option=option,
        )
        for values in (
            opened.column(chosen, "chosen").values[rows],
            estimator.row_probabilities(choices).astype(np.float64),
        )
    )  # fmt: skip
    return TrialEffects(type(estimator).__name__, observed, predicted)


def misses(observed: Effects, predicted: Effects) -> Float[np.ndarray, "conditions 2"]:
    """Predicted minus observed P(A), where the third option favours A and where it favours B.

    >>> import setwise as sw
    >>> trials = sw.datasets.generate("decoy", sets=300).columns
    >>> misses(context_effects(trials), context_effects(trials)).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    pairs = zip(observed, predicted, strict=True)
    return np.array([np.subtract(said.share_of_a, seen.share_of_a) for seen, said in pairs])


def trials_picture(observed: Effects, predicted: Mapping[str, Effects]) -> str:
    """Observed shares with their intervals, and the models' points below each of them."""
    roles = [(one, role) for one in observed for role in (0, 1)]
    figure = new_figure(7.0, 2.0 + 0.46 * (len(roles) + len(observed)))
    ratios = [len(roles) + 0.5, len(observed) + 0.5]
    shares, targets = figure.subplots(2, 1, height_ratios=ratios)
    _rows(
        shares,
        [f"{one.condition}, third favours {ROLES[role]}" for one, role in roles],
        [(one.share_of_a[role], one.share_intervals[role]) for one, role in roles],
        {name: [one.share_of_a[role] for one in found for role in (0, 1)]
         for name, found in predicted.items()},
    )  # fmt: skip
    shares.set_xlabel("P(A): how often A is chosen")
    _rows(
        targets,
        [one.condition for one in observed],
        [(one.rst, one.rst_interval) for one in observed],
        {name: [one.rst for one in found] for name, found in predicted.items()},
    )
    targets.axvline(0.5, color="grey", linewidth=1, zorder=0)
    targets.set_xlabel("relative share of the target (0.5: no effect)")
    handles, labels = shares.get_legend_handles_labels()
    # Matplotlib names lines before bars; readers want people first.
    figure.legend(
        [handles[-1], *handles[:-1]], [labels[-1], *labels[:-1]], loc="outside upper center",
        ncols=1 + len(predicted), frameon=False,
    )  # fmt: skip
    return svg_text(figure)


def _rows(
    panel: "Axes",
    names: Sequence[str],
    observed: Sequence[tuple[float, tuple[float, float]]],
    predicted: Mapping[str, Sequence[float]],
) -> None:
    place = -np.arange(len(names), dtype=float)
    share = np.array([value for value, _ in observed])
    bars = np.abs(np.array([interval for _, interval in observed]).T - share)
    panel.errorbar(
        share, place, xerr=bars, fmt="o", color="black", capsize=4, label="people (95 % interval)"
    )
    step = 0.5 / len(predicted)
    for i, (name, values) in enumerate(predicted.items()):
        panel.plot(
            np.asarray(values), place - step * (i + 1), MARKERS[i % len(MARKERS)],
            color=COLOURS[i % len(COLOURS)], markersize=6, label=name,
        )  # fmt: skip
    # Names come from the user: a dollar sign in them does not begin a formula.
    panel.set_yticks(place - 0.25, names, parse_math=False)
    panel.set_ylim(-len(names) + 0.25, 0.5)
    panel.set_xlim(0, 1)
    panel.grid(axis="x", alpha=0.3)


def _compared(
    observed: float, interval: tuple[float, float], predicted: float
) -> tuple[str, str, str, str]:
    low, high = interval
    shown = f"{low:.3f} to {high:.3f}"
    return f"{observed:.3f}", shown, f"{predicted:.3f}", f"{predicted - observed:+.3f}"


def _way(interval: tuple[float, float]) -> int:
    """1 if the interval is above one half, -1 if it is below, 0 if it includes one half."""
    return int(interval[0] > 0.5) - int(interval[1] < 0.5)


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return names[0] if names else "none"
    return f"{', '.join(names[:-1])} and {names[-1]}"
